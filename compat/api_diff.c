/* api_diff.c: api_diff() of api_diff.h: names, classes, and what became of what is gone. */
#include "compat/api_diff.h"

#include "compat/api_diff_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *api_category_name(enum api_category c)
{
    static const char *const names[] = {"breaks", "shifts silently", "default changed", "harmless"};
    return names[c];
}

static bool make_room(struct api_differ *d)
{
    if (d->out->changes < d->room) return true;
    int room = d->room ? 2 * d->room : 256;
    struct api_change *fresh = pool_take(d->pool, (size_t)room, sizeof *fresh, d->err);
    if (!fresh) return false;
    if (d->out->changes) memcpy(fresh, d->out->change, (size_t)d->out->changes * sizeof *fresh);
    d->out->change = fresh;
    d->room = room;
    return true;
}

void api_diff_add(struct api_differ *d, enum api_category category, const char *was, const char *is,
                  const char *what, ...)
{
    char text[512];
    va_list list;
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    if (!make_room(d)) return;
    struct api_change *c = &d->out->change[d->out->changes];
    *c = (struct api_change){.category = d->private ? API_HARMLESS : category,
                             .symbol = d->symbol,
                             .what = pool_text(d->pool, text, strlen(text), d->err),
                             .was = was,
                             .is = is};
    if (d->was) c->file[0] = d->was->module->file;
    if (d->was) c->line[0] = d->line[0] ? d->line[0] : d->was->line;
    if (d->is) c->file[1] = d->is->module->file;
    if (d->is) c->line[1] = d->line[1] ? d->line[1] : d->is->line;
    if (c->what) d->out->changes++;
}

static bool is_private(const char *path)
{
    for (const char *s = path; s; s = strpbrk(s, ".:")) {
        if (s != path) s++;
        size_t n = strcspn(s, ".:");
        bool dunder = n > 4 && strncmp(s, "__", 2) == 0 && strncmp(s + n - 2, "__", 2) == 0;
        if (*s == '_' && !dunder) return true;
    }
    return false;
}

/* What is compared next. */
static void begin(struct api_differ *d, const char *symbol, const struct api_def *was,
                  const struct api_def *is)
{
    d->symbol = symbol;
    d->was = was;
    d->is = is;
    d->line[0] = d->line[1] = 0;
    d->private = !d->old->consumer.name && is_private(symbol);
}

/* The definition that counts: the last that is no overload and no setter. */
static const struct api_def *main_def(const struct api_def *const *def, int defs)
{
    for (int i = defs - 1; i >= 0; i--) {
        bool extra =
            def[i]->kind == API_DEF && (def[i]->function->overload || def[i]->function->setter);
        if (!extra) return def[i];
    }
    return defs ? def[0] : NULL;
}

static const char *joined_now(struct api_differ *d, const char *const *now, int nows)
{
    const char *text = NULL;
    for (int i = 0; i < nows && i < 3; i++)
        text = pool_format(d->pool, d->err, "%s%s%s", text ? text : "", i ? ", " : "", now[i]);
    return text;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.'), *colon = strrchr(path, ':');
    const char *last = dot > colon ? dot : colon;
    return last ? last + 1 : path;
}

/* Gone, with the place where it is now where the same name stands elsewhere. */
static void gone(struct api_differ *d, const char *const *now, int nows)
{
    if (nows > 0 && strcmp(last_part(now[0]), last_part(d->symbol)) == 0)
        api_diff_add(d, API_BREAKS, NULL, now[0], "moved");
    else if (nows > 0)
        api_diff_add(d, API_BREAKS, NULL, NULL, "removed; like it: %s", joined_now(d, now, nows));
    else
        api_diff_add(d, API_BREAKS, NULL, NULL, "removed");
}

static const char *kind_text(const struct api_def *d)
{
    static const char *const names[] = {[API_DEF] = "a function",
                                        [API_CLASS] = "a class",
                                        [API_ALIAS] = "another name of something",
                                        [API_VALUE] = "a value"};
    return names[d->kind];
}

static void diff_def(struct api_differ *d, const struct api_def *was, const struct api_def *is)
{
    if (!was->deprecated && is->deprecated)
        api_diff_add(d, API_HARMLESS, NULL, is->deprecated, "deprecated");
    if (was->kind != is->kind) {
        api_diff_add(d, API_SHIFTS, kind_text(was), kind_text(is), "kind");
    } else if (was->kind == API_DEF) {
        api_diff_functions(d, was, is);
    } else if (was->kind == API_CLASS) {
        api_diff_classes(d, was, is);
    } else if (was->kind == API_VALUE) {
        api_diff_types(d, "type", was->value.type, is->value.type);
        if (was->value.text && is->value.text && strcmp(was->value.text, is->value.text) != 0)
            api_diff_add(d, API_HARMLESS, was->value.text, is->value.text, "value");
    }
}

/* A name that only serves its own module is no promise: it counts where it is re-exported, or where
 * a consumer reached it. */
static bool is_promised(const struct api_differ *d, const struct api_module *m,
                        const struct api_name *n)
{
    bool alias = true;
    for (int i = 0; i < n->defs; i++) alias &= n->def[i].kind == API_ALIAS;
    if (!alias || d->old->consumer.name) return true;
    return m->has_all ? api_texts_have(&m->all, n->name) : m->package;
}

static void diff_name(struct api_differ *d, const struct api_module *m, const struct api_name *n)
{
    const struct api_module *there = api_module(d->new, m->name, strlen(m->name));
    struct api_result was, is;
    if (!there || !is_promised(d, m, n)) return; /* the module is a finding of its own */
    api_find_in(d->old, m, n->name, &was);
    api_find_in(d->new, there, n->name, &is);
    const struct api_def *before = main_def(was.def, was.defs), *now = main_def(is.def, is.defs);
    begin(d, n->def->path, n->def, NULL);
    d->out->compared++;
    if (is.found == API_UNKNOWN || is.found == API_UNRECORDED) {
        d->out->compared--;
        d->out->uncompared++;
    } else if (is.found == API_ABSENT) {
        gone(d, is.now, is.nows);
    } else if (before && now && before->module == m && !before->owner) {
        begin(d, n->def->path, before, now); /* re-exports are compared where they are defined */
        diff_def(d, before, now);
    }
}

/* The attributes and methods of a class itself, looked up through the bases of the newer one. */
static void diff_attribute(struct api_differ *d, const struct api_def *was,
                           const struct api_def *is, const char *name)
{
    struct api_attribute before, now;
    api_attribute(d->old, was, name, false, &before);
    api_attribute(d->new, is, name, false, &now);
    if (before.found != API_FOUND) return;
    const struct api_def *w = main_def(before.def, before.defs), *n = main_def(now.def, now.defs);
    const char *symbol = pool_format(d->pool, d->err, "%s.%s", was->path, name);
    if (!symbol) return;
    begin(d, symbol, w ? w : before.class_, n ? n : now.class_);
    d->line[0] = before.line;
    d->line[1] = now.line;
    d->out->compared++;
    if (now.found == API_UNKNOWN || now.found == API_UNRECORDED) {
        d->out->compared--;
        d->out->uncompared++;
    } else if (now.found == API_ABSENT && now.only_init) {
        api_diff_add(d, API_BREAKS, NULL, NULL, "removed; a parameter of the constructor only");
    } else if (now.found == API_ABSENT) {
        gone(d, now.now, now.nows);
    } else if (w && n && w->kind == n->kind) {
        if (w->kind != API_CLASS) diff_def(d, w, n);
    } else if (!!w != !!n || (w && n)) {
        bool read = n && n->kind == API_DEF && n->function->binding == API_PROPERTY;
        bool call = w && w->kind == API_DEF && w->function->binding != API_PROPERTY;
        if (call || (n && n->kind == API_DEF && !read))
            api_diff_add(d, API_BREAKS, w ? kind_text(w) : "an attribute",
                         n ? kind_text(n) : "an attribute", "kind");
    } else {
        api_diff_types(d, "attribute type", before.type, now.type);
    }
}

/* True: both are made from the fields. */
static bool diff_constructor(struct api_differ *d, const struct api_def *was,
                             const struct api_def *is)
{
    struct api_signatures before, now;
    api_constructor(d->old, was, d->pool, &before, d->err);
    api_constructor(d->new, is, d->pool, &now, d->err);
    begin(d, was->path, was, is);
    if (before.open || now.open || before.sigs == 0 || now.sigs == 0) return false;
    const struct api_signature *w = &before.sig[before.sigs - 1], *n = &now.sig[now.sigs - 1];
    if (w->from->kind == API_DEF) d->was = w->from;
    if (n->from->kind == API_DEF) d->is = n->from;
    api_diff_params(d, &w->params, &n->params);
    return w->generated && n->generated;
}

static bool has_base(const struct api_mro *m, const char *path)
{
    for (int i = 0; i < m->classes; i++) {
        if (strcmp(last_part(m->class_[i]->path), last_part(path)) == 0) return true;
    }
    for (int i = 0; i < m->outsides; i++) {
        if (strcmp(last_part(m->outside[i]), last_part(path)) == 0) return true;
    }
    return false;
}

static void diff_bases(struct api_differ *d, const struct api_def *was, const struct api_def *is)
{
    struct api_mro before, now;
    api_mro(d->old, was, &before);
    api_mro(d->new, is, &now);
    begin(d, was->path, was, is);
    for (int i = 1; i < before.classes; i++) {
        if (!has_base(&now, before.class_[i]->path))
            api_diff_add(d, API_BREAKS, NULL, NULL, "base %s removed", before.class_[i]->path);
    }
    for (int i = 0; i < before.outsides; i++) {
        if (!has_base(&now, before.outside[i]) && strncmp(before.outside[i], "typing.", 7) != 0)
            api_diff_add(d, API_BREAKS, NULL, NULL, "base %s removed", before.outside[i]);
    }
}

static void diff_abstract(struct api_differ *d, const struct api_def *was, const struct api_def *is)
{
    const struct api_def *before[API_MRO], *now[API_MRO];
    bool open;
    int befores = api_abstract(d->old, was, before, &open);
    int nows = api_abstract(d->new, is, now, &open);
    begin(d, was->path, was, is);
    for (int i = 0; i < nows; i++) {
        bool known = false;
        for (int k = 0; k < befores; k++) known |= strcmp(before[k]->name, now[i]->name) == 0;
        if (known) continue;
        d->is = now[i];
        api_diff_add(d, API_BREAKS, NULL, NULL, "abstract %s added", now[i]->name);
    }
}

/* Members that are there only now, where both surfaces are whole. */
static void diff_new_members(struct api_differ *d, const struct api_def *was,
                             const struct api_def *is)
{
    const struct api_names *names = &is->class_->members;
    for (int i = 0; !was->class_->partial && !is->class_->partial && i < names->count; i++) {
        struct api_attribute before;
        api_attribute(d->old, was, names->name[i].name, false, &before);
        begin(d, names->name[i].def->path, NULL, names->name[i].def);
        if (before.found == API_ABSENT) api_diff_add(d, API_HARMLESS, NULL, NULL, "added");
    }
}

/* A field. Where it is gone together with its parameter, the parameter's line says it. */
static void diff_field(struct api_differ *d, const struct api_def *was, const struct api_def *is,
                       const struct api_field *f, bool made)
{
    struct api_attribute now;
    if (f->initvar || api_name(&was->class_->members, f->name, strlen(f->name))) return;
    api_attribute(d->new, is, f->name, false, &now);
    bool said = made && f->init && !f->classvar && now.found == API_ABSENT && !now.only_init;
    if (!said) diff_attribute(d, was, is, f->name);
}

void api_diff_classes(struct api_differ *d, const struct api_def *was, const struct api_def *is)
{
    const struct api_class *c = was->class_;
    bool made = diff_constructor(d, was, is);
    diff_bases(d, was, is);
    diff_abstract(d, was, is);
    for (int i = 0; i < c->members.count; i++) {
        const char *name = c->members.name[i].name;
        /* The constructor was compared whole, whoever wrote it. */
        if (strcmp(name, "__init__") != 0 && strcmp(name, "__new__") != 0)
            diff_attribute(d, was, is, name);
    }
    for (int i = 0; i < c->fields; i++) diff_field(d, was, is, &c->field[i], made);
    for (int i = 0; i < c->attrs; i++) {
        const char *name = c->attr[i].name;
        if (!api_name(&c->members, name, strlen(name)) && !api_field(c, name))
            diff_attribute(d, was, is, name);
    }
    diff_new_members(d, was, is);
}

static void diff_module(struct api_differ *d, const struct api_module *m)
{
    const struct api_module *there = api_module(d->new, m->name, strlen(m->name));
    struct api_result is;
    d->out->compared++;
    if (!there) {
        api_find(d->new, m->name, &is);
        begin(d, m->name, NULL, NULL);
        if (is.found == API_ABSENT) {
            gone(d, is.now, is.nows);
        } else {
            d->out->compared--;
            d->out->uncompared++;
        }
        return;
    }
    for (int i = 0; i < m->names.count; i++) diff_name(d, m, &m->names.name[i]);
    for (int i = 0; !m->partial && !there->partial && i < there->names.count; i++) {
        const struct api_name *n = &there->names.name[i];
        begin(d, n->def->path, NULL, n->def);
        if (is_promised(d, there, n) && !api_name(&m->names, n->name, strlen(n->name)))
            api_diff_add(d, API_HARMLESS, NULL, NULL, "added");
    }
}

static int by_change(const void *x, const void *y)
{
    const struct api_change *a = x, *b = y;
    if (a->category != b->category) return a->category < b->category ? -1 : 1;
    int order = strcmp(a->symbol, b->symbol);
    return order ? order : strcmp(a->what, b->what);
}

enum err_code api_diff(const struct api *old, const struct api *new, struct pool *p,
                       struct api_diff *out, struct err *err)
{
    struct api_differ d = {.old = old, .new = new, .pool = p, .err = err, .out = out};
    *out = (struct api_diff){0};
    for (int i = 0; i < old->modules; i++) diff_module(&d, &old->module[i]);
    for (int i = 0; !old->consumer.name && !new->consumer.name &&i < new->modules; i++) {
        const char *name = new->module[i].name;
        begin(&d, name, NULL, NULL);
        if (!api_module(old, name, strlen(name)))
            api_diff_add(&d, API_HARMLESS, NULL, NULL, "added");
    }
    if (out->changes > 1) qsort(out->change, (size_t)out->changes, sizeof *out->change, by_change);
    for (int i = 0; i < out->changes; i++) out->count[out->change[i].category]++;
    return err->code;
}
