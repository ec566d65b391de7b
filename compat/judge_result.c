/* judge_result.c: a result unpacked or indexed, against what the library's return statements and
 * annotation show. An annotation alone proves nothing: it may be wrong. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <stdlib.h>
#include <string.h>

static const struct api_function *function_of(const struct value *v)
{
    return v->from && v->from->kind == API_DEF ? v->from->function : NULL;
}

static const char *dotted(struct judge_run *r, const struct value *v)
{
    return judge_path_dotted(r, v->from->path);
}

/* ---- unpacking ---- */

/* The one size of all tuples that are returned; 0: nothing but None; -1: not known. */
static int shown_size(const struct api_function *fn)
{
    int size = -1;
    bool any = false;
    for (int i = 0; i < fn->shapes; i++) {
        const char *s = fn->shape[i].shape;
        int64_t n = 0;
        if (strcmp(s, "raise") == 0) continue;
        if (text_starts(s, "tuple:") && !text_int(s + 6, &n)) return -1;
        if (!text_starts(s, "tuple:") && strcmp(s, "none") != 0) return -1;
        if (any && size != (int)n) return -1;
        size = (int)n;
        any = true;
    }
    return any ? size : -1;
}

static int annotated_size(const struct value *v)
{
    bool tuple = v->kind == VALUE_GENERIC && strcmp(v->text, "tuple") == 0;
    return tuple && !v->open && v->items > 0 ? v->items : -1;
}

void judge_unpack(struct frame *f, const struct value *v, int names, int line)
{
    struct judge_run *r = f->run;
    const struct api_function *fn = function_of(v);
    if (!fn) return;
    if (v->kind == VALUE_OBJECT && judge_attr_has(f, v, "__iter__") == 0 &&
        judge_attr_has(f, v, "__getitem__") == 0)
        judge_find_undecidable(
            f, JUDGE_RESULT, dotted(r, v), line, v->from,
            judge_run_format(r,
                             "annotated as %s, which is not iterable, unpacked into %d "
                             "names",
                             judge_path_dotted(r, v->class_->path), names));
    int shown = fn->wrapped || fn->generator ? -1 : shown_size(fn), said = annotated_size(v);
    if (shown >= 0 && shown != names && (said < 0 || said == shown)) {
        struct judge_finding *n = judge_find_broken(
            f, JUDGE_RESULT, dotted(r, v), line, v->from,
            shown == 0
                ? judge_run_format(r, "returns None, unpacked into %d names", names)
                : judge_run_format(r, "returns %d values, unpacked into %d names", shown, names));
        if (n && !n->wanted) {
            n->found = judge_run_format(r, "%d names", names);
            n->wanted = judge_run_format(r, "%d", shown);
        }
    } else if (shown < 0 && said >= 0 && said != names) {
        judge_find_undecidable(
            f, JUDGE_RESULT, dotted(r, v), line, v->from,
            judge_run_format(r,
                             "annotated as %d values, unpacked into %d names; its return "
                             "statements do not show which",
                             said, names));
    } else if (shown == names) {
        judge_find_ok(f, JUDGE_RESULT, dotted(r, v), line, v->from);
    }
}

/* ---- one reply or a list of them ---- */

/* Is x true, or None, in this call? 1, 0, -1. Not given: its default decides. */
static int given_truth(const struct value *v, const char *fallback, bool none)
{
    if (v) {
        if (v->kind == VALUE_NONE) return none ? 1 : 0;
        bool surely = v->kind == VALUE_NUMBER || v->kind == VALUE_STR || v->kind == VALUE_BOOL;
        if (none) return surely ? 0 : -1;
        return judge_value_truth(v);
    }
    if (!fallback) return -1;
    bool is_none = strcmp(fallback, "None") == 0;
    if (none) return is_none;
    if (is_none || strcmp(fallback, "False") == 0) return 0;
    return strcmp(fallback, "True") == 0 ? 1 : -1;
}

static int flip(int t)
{
    return t < 0 ? -1 : !t;
}

static const struct value *given_as(const struct args *a, const char *name)
{
    for (int i = 0; i < a->names; i++) {
        if (strcmp(a->name[i], name) == 0) return a->value[i];
    }
    return NULL;
}

/* One of "x", "not x", "x is None", "x is not None". */
static int atom(const char *text, size_t n, const struct api_params *p, const struct args *a)
{
    bool negative = n > 4 && strncmp(text, "not ", 4) == 0;
    text += negative ? 4 : 0;
    n -= negative ? 4 : 0;
    size_t name = strcspn(text, " ");
    if (name > n) name = n;
    bool is_none = n - name == 8 && strncmp(text + name, " is None", 8) == 0;
    bool not_none = n - name == 12 && strncmp(text + name, " is not None", 12) == 0;
    if ((name != n && !is_none && !not_none) || a->star || a->dstar) return -1;
    for (int i = 0; i < p->count; i++) {
        const struct api_param *q = &p->param[i];
        if (strlen(q->name) != name || strncmp(q->name, text, name) != 0) continue;
        const struct value *v = given_as(a, q->name);
        if (!v && i - 1 < a->count) return -1; /* i - 1: without self */
        int t = given_truth(v, q->fallback, is_none || not_none);
        return negative || not_none ? flip(t) : t;
    }
    return -1;
}

/* Conjuncts over the parameters: 1, 0, -1. */
static int holds(const char *when, const struct api_params *p, const struct args *a)
{
    int all = 1;
    while (when && *when) {
        const char *and = strstr(when, " and ");
        int t = atom(when, and? (size_t)(and-when) : strlen(when), p, a);
        if (t == 0) return 0;
        if (t < 0) all = -1;
        when = and? and+5 : NULL;
    }
    return all;
}

static const char *single(const struct api_function *fn, const struct args *a)
{
    bool list = false;
    const char *when = NULL;
    for (int i = 0; i < fn->shapes; i++) {
        const struct api_shape *s = &fn->shape[i];
        list |= strcmp(s->shape, "list") == 0;
        if (strcmp(s->shape, "first-of-list") == 0 && s->when &&
            holds(s->when, &fn->params, a) == 1)
            when = s->when;
    }
    return list ? when : NULL;
}

static bool was_list(struct frame *f, const struct value *v)
{
    struct judge_run *r = f->run;
    struct api_result old;
    if (!r->in->baseline) return false;
    api_find(r->in->baseline, v->from->path, &old);
    if (old.found != API_FOUND || old.defs == 0) return false;
    const struct api_def *d = old.def[old.defs - 1];
    const struct api_type *t =
        d->kind == API_DEF ? api_type_parse(d->function->returns, r->pool, r->err) : NULL;
    return t && t->kind == API_TYPE_SUB && api_type_is(t, "list");
}

void judge_subscript(struct frame *f, const struct value *v, const struct value *index, int line)
{
    struct judge_run *r = f->run;
    const struct api_function *fn = function_of(v);
    if (!fn || !v->given || index->kind == VALUE_STR) return;
    const char *when = single(fn, v->given);
    if (!when) return;
    /* By a name it may be a key, and the reply a dict that was meant. */
    bool place = index->kind == VALUE_NUMBER;
    const char *why = judge_run_format(
        r, "returns the single reply, not a list of replies, where %s; [%s] takes that apart", when,
        place ? judge_run_format(r, "%d", (int)index->number) : "...");
    if (place && was_list(f, v)) {
        struct judge_finding *n = judge_find_broken(
            f, JUDGE_RESULT, dotted(r, v), line, v->from,
            judge_run_format(r, "%s; it was a list in %s", why, r->in->baseline->library.version));
        if (n) n->remedy = "use the result as it is";
    } else {
        judge_find_undecidable(f, JUDGE_RESULT, dotted(r, v), line, v->from, why);
    }
}
