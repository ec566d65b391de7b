/* api_find.c: api_find() and api_find_in() of api_lookup.h: from a name to what it is defined to
 * be. */
#include "compat/api_find.h"

#include "compat/api_fields.h"
#include "compat/api_reach.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

static void find(const struct api *a, const char *name, int depth, struct api_result *out);
static void find_in(const struct api *a, const struct api_module *m, const char *name,
                    size_t length, int depth, struct api_result *out);

static void not_known(struct api_result *out, enum api_found found, const char *why)
{
    out->found = found;
    out->why = why;
}

/* The first module whose name is not below the text. */
static int lower_bound(const struct api *a, const char *name, size_t length)
{
    int low = 0, high = a->modules;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strncmp(a->module[middle].name, name, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool api_is_inside(const struct api *a, const char *name)
{
    size_t length = strcspn(name, ".:");
    for (int i = lower_bound(a, name, length); i < a->modules; i++) {
        const char *m = a->module[i].name;
        if (strncmp(m, name, length) != 0) return false;
        if (m[length] == '\0' || m[length] == '.') return true;
    }
    return false;
}

/* Adds what another way to the same name gave. */
static void merge(struct api_result *out, const struct api_result *way)
{
    if (way->deprecated && !out->deprecated) out->deprecated = way->deprecated;
    out->open |= way->open;
    if (way->outside && !out->outside) out->outside = way->outside;
    if (way->found != API_FOUND || (way->module && (out->defs || out->module))) {
        out->open = true;
        return;
    }
    if (way->module) out->module = way->module;
    if (!way->module && way->defs == 0) out->open = true;
    for (int i = 0; i < way->defs; i++) {
        if (out->defs == API_HITS)
            out->open = true;
        else
            out->def[out->defs++] = way->def[i];
    }
}

int api_first_live(const struct api_name *n)
{
    int first = 0;
    for (int i = 0; i < n->defs; i++) {
        const struct api_def *d = &n->def[i];
        bool extra = d->kind == API_DEF && (d->function->overload || d->function->setter);
        if (!extra && d->when.count == 0) first = i;
    }
    return first;
}

static bool is_typing_only(const struct api_def *d)
{
    for (int i = 0; i < d->when.count; i++) {
        if (strcmp(d->when.text[i], "TYPE_CHECKING") == 0 ||
            strcmp(d->when.text[i], "typing.TYPE_CHECKING") == 0)
            return true;
    }
    return false;
}

/* `from . import name` in the package itself: what it binds is the submodule. */
static bool is_own_submodule(const struct api_def *d)
{
    return d->kind == API_ALIAS && !d->owner && strcmp(d->to, d->path) == 0;
}

static const struct api_module *submodule(const struct api *a, const struct api_module *m,
                                          const char *name)
{
    char path[API_MODULE + API_IDENTIFIER + 2];
    int n = snprintf(path, sizeof path, "%s.%s", m->name, name);
    return n < (int)sizeof path ? api_module(a, path, (size_t)n) : NULL;
}

static bool only_own_submodule(const struct api_name *n)
{
    for (int i = 0; i < n->defs; i++) {
        if (!is_own_submodule(&n->def[i])) return false;
    }
    return true;
}

/* All live definitions of a name, each followed to its end. */
static void follow_name(const struct api *a, const struct api_name *n, int depth,
                        struct api_result *out)
{
    int first = api_first_live(n), ways = 0;
    struct api_result last = {.found = API_FOUND};
    api_note(a, n);
    out->found = API_FOUND;
    out->typing_only = true;
    for (int i = 0; i < n->defs; i++) {
        const struct api_def *d = &n->def[i];
        bool overload = d->kind == API_DEF && d->function->overload;
        if (i < first && !overload) continue;
        if (is_own_submodule(d)) { /* in one branch of several */
            out->open |= submodule(a, d->module, d->name) != NULL;
            continue;
        }
        out->typing_only &= is_typing_only(d);
        last = (struct api_result){.found = API_FOUND};
        if (d->deprecated) last.deprecated = d->deprecated;
        if (d->kind == API_ALIAS) {
            if (!out->via) out->via = d;
            find(a, d->to, depth + 1, &last);
            if (last.deprecated == NULL) last.deprecated = d->deprecated;
        } else {
            last.def[last.defs++] = d;
        }
        merge(out, &last);
        ways++;
    }
    bool nothing = out->defs == 0 && !out->module;
    if (nothing && ways == 1 && last.found != API_FOUND) { /* the alias leads nowhere else */
        const struct api_def *via = out->via;
        *out = last;
        out->via = via;
    }
}

static bool is_exported(const struct api_module *m, const char *name)
{
    if (m->all_unknown) return true; /* the benefit of the doubt */
    return m->has_all ? api_texts_have(&m->all, name) : name[0] != '_';
}

/* What the star imports of a module give, the last one first. True: `out` is the answer. *open: one
 * of them leads out of the library. */
static bool find_in_stars(const struct api *a, const struct api_module *m, const char *name,
                          size_t length, int depth, bool *open, struct api_result *out)
{
    for (int i = m->stars.count - 1; i >= 0; i--) {
        const char *from = m->stars.text[i];
        const struct api_module *star = api_module(a, from, strlen(from));
        if (star == m) continue;
        if (!star) {
            *open = true;
            out->outside = from;
            continue;
        }
        api_note(a, star);
        if (!is_exported(star, name)) continue;
        struct api_result way = {0};
        find_in(a, star, name, length, depth + 1, &way);
        if (way.found == API_FOUND) {
            *out = way;
            return true;
        }
        *open |= way.found != API_ABSENT && way.found != API_UNRECORDED;
    }
    return false;
}

static const struct api_lazy *lazy_of(const struct api_module *m, const char *name)
{
    for (int i = 0; i < m->lazies; i++) {
        if (strcmp(m->lazy[i].name, name) == 0) return &m->lazy[i];
    }
    return NULL;
}

static void follow_lazy(const struct api *a, const struct api_lazy *lazy, int depth,
                        struct api_result *out)
{
    api_note(a, lazy);
    out->found = API_FOUND;
    out->open = lazy->to == NULL;
    if (lazy->to) {
        struct api_result way = {0};
        find(a, lazy->to, depth + 1, &way);
        merge(out, &way);
    }
    if (lazy->deprecated) out->deprecated = lazy->deprecated;
}

/* What every module has. */
static bool is_module_attribute(const struct api_module *m, const char *name)
{
    static const char *const names[] = {"__name__",   "__file__", "__doc__",     "__dict__",
                                        "__spec__",   "__path__", "__package__", "__loader__",
                                        "__cached__", NULL};
    if (m->has_all && strcmp(name, "__all__") == 0) return true;
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

static void find_in(const struct api *a, const struct api_module *m, const char *name,
                    size_t length, int depth, struct api_result *out)
{
    char part[256];
    bool open = false;
    *out = (struct api_result){.found = API_ABSENT};
    api_note(a, m);
    if (depth > API_DEPTH) {
        not_known(out, API_UNKNOWN, "its aliases go round in a circle");
        return;
    }
    if (length >= sizeof part) {
        not_known(out, API_UNKNOWN, "its name is too long");
        return;
    }
    snprintf(part, sizeof part, "%.*s", (int)length, name);
    const struct api_name *n = api_name(&m->names, name, length);
    if (n && only_own_submodule(n)) {
        api_note(a, n);
        n = NULL;
    }
    if (n) {
        follow_name(a, n, depth, out);
        /* What only a type checker imports may be there at run time in another way. */
        if (!out->typing_only) return;
    }
    const struct api_lazy *lazy = lazy_of(m, part);
    const struct api_module *below = submodule(a, m, part);
    if (n) {
        api_note(a, below);
        api_note(a, lazy);
        out->typing_only = !below && !lazy && !m->dynamic;
    } else if (find_in_stars(a, m, part, length, depth, &open, out)) {
        return;
    } else if (below) {
        api_note(a, below);
        *out = (struct api_result){.found = API_FOUND, .module = below};
    } else if (lazy) {
        follow_lazy(a, lazy, depth, out);
    } else if (is_module_attribute(m, part)) {
        out->found = API_FOUND;
        out->open = true;
    } else {
        api_explain_missing(a, m, part, open, out);
        if (out->found == API_ABSENT) api_note_miss(a, m, part, out->now, out->nows);
        out->missing = name;
    }
}

void api_find_in(const struct api *a, const struct api_module *m, const char *name,
                 struct api_result *out)
{
    find_in(a, m, name, strlen(name), 0, out);
}

/* The member that the next part names, of every definition that is a class. */
static void find_member(const struct api *a, const struct api_result *of, const char *name,
                        size_t length, struct api_result *out)
{
    char part[256];
    *out = (struct api_result){.found = API_UNKNOWN,
                               .why = "an attribute of what is no class and no module"};
    if (length >= sizeof part) return;
    snprintf(part, sizeof part, "%.*s", (int)length, name);
    bool any = false;
    for (int i = 0; i < of->defs; i++) {
        struct api_attribute at;
        if (of->def[i]->kind != API_CLASS) continue;
        api_attribute(a, of->def[i], part, true, &at);
        if (at.found == API_FOUND) {
            struct api_result way = {.found = API_FOUND, .open = at.open, .defs = at.defs};
            memcpy(way.def, at.def, sizeof way.def);
            if (!any) *out = (struct api_result){.found = API_FOUND};
            merge(out, &way);
            any = true;
        } else if (!any) {
            *out = (struct api_result){.found = at.found,
                                       .why = at.why,
                                       .holder = of->def[i]->path,
                                       .missing = name,
                                       .nows = at.nows};
            memcpy(out->now, at.now, sizeof out->now);
        }
    }
    out->open |= of->open;
}

/* "Name.part.part" in a module. */
static void find_path(const struct api *a, const struct api_module *m, const char *rest, int depth,
                      struct api_result *out)
{
    size_t length = strcspn(rest, ".");
    find_in(a, m, rest, length, depth, out);
    while (rest[length] == '.' && out->found == API_FOUND) {
        struct api_result of = *out;
        rest += length + 1;
        length = strcspn(rest, ".");
        if (of.module)
            find_in(a, of.module, rest, length, depth + 1, out);
        else
            find_member(a, &of, rest, length, out);
        if (!out->via) out->via = of.via;
        if (!out->deprecated) out->deprecated = of.deprecated;
    }
}

/* The longest leading part of a dotted name that is a module, or NULL; *rest: what is behind. */
static const struct api_module *module_of(const struct api *a, const char *name, const char **rest)
{
    for (size_t n = strlen(name); n > 0; n--) {
        if (name[n] != '\0' && name[n] != '.') continue;
        const struct api_module *m = api_module(a, name, n);
        if (!m) continue;
        *rest = name[n] ? name + n + 1 : NULL;
        return m;
    }
    return NULL;
}

static void find(const struct api *a, const char *name, int depth, struct api_result *out)
{
    const char *colon = strchr(name, ':'), *rest = NULL;
    *out = (struct api_result){.found = API_ABSENT};
    if (!api_is_inside(a, name)) {
        out->found = API_OUTSIDE;
        out->outside = name;
        return;
    }
    const struct api_module *m = colon ? api_module(a, name, (size_t)(colon - name)) : NULL;
    if (m) rest = colon + 1;
    if (!colon) m = module_of(a, name, &rest);
    if (!m) {
        api_missing_module(a, name, out);
    } else if (!rest) {
        api_note(a, m);
        out->found = API_FOUND;
        out->module = m;
    } else {
        find_path(a, m, rest, depth, out);
    }
}

void api_find(const struct api *a, const char *name, struct api_result *out)
{
    find(a, name, 0, out);
    bool in_class = out->holder && strchr(out->holder, ':');
    if (out->found == API_ABSENT && !in_class && !strchr(name, ':') && out->missing &&
        strchr(out->missing, '.'))
        api_refine_now(a, name, out);
}

const struct api_def *api_class_of(const struct api_result *r)
{
    const struct api_def *found = NULL;
    if (r->found != API_FOUND) return NULL;
    for (int i = 0; i < r->defs; i++) {
        if (r->def[i]->kind != API_CLASS || (found && found != r->def[i])) return NULL;
        found = r->def[i];
    }
    return found;
}

const struct api_def *api_find_class(const struct api *a, const char *name, enum api_found *found)
{
    struct api_result r;
    api_find(a, name, &r);
    *found = r.found;
    const struct api_def *c = api_class_of(&r);
    if (c) api_note(a, c);
    return c;
}
