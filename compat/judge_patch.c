/* judge_patch.c: names of the library that the consumer replaces: by assignment, setattr,
 * types.MethodType or a test's patch("dotted.name"). */
#include "compat/judge_parts.h"

#include <string.h>

static const char *target_symbol(struct judge_run *r, const struct value *t, const char *name)
{
    if (t->kind == VALUE_MODULE) return judge_run_format(r, "%s.%s", t->module->name, name);
    return judge_run_format(r, "%s.%s", judge_path_dotted(r, t->class_->path), name);
}

/* Something that the library has not got is set: nobody there will look at it. */
static void judge_missing(struct frame *f, const struct value *t, const char *name, int line)
{
    struct judge_run *r = f->run;
    const char *symbol = target_symbol(r, t, name), *since = NULL;
    if (t->kind == VALUE_MODULE) judge_replaced_note(r, symbol);
    if (t->kind != VALUE_MODULE)
        since = judge_baseline_removed(f, t->class_, name);
    else if (r->in->baseline) {
        struct api_result old;
        api_find(r->in->baseline, symbol, &old);
        if (old.found == API_FOUND) since = "removed since the baseline";
    }
    if (since) {
        struct judge_finding *n = judge_find_broken(
            f, JUDGE_PATCH, symbol, line, NULL, "what is replaced is gone: the patch does nothing");
        if (n) n->remedy = since;
        return;
    }
    if (t->kind == VALUE_OBJECT) return;
    judge_find_undecidable(
        f, JUDGE_PATCH, symbol, line, NULL,
        "the library has no such name: a patch of something that is gone, or a new "
        "one; a --baseline would decide it");
}

static void judge_function(struct frame *f, const struct value *t, const char *name,
                           const struct value *v, const struct api_def *const *def, int defs,
                           int line)
{
    const char *symbol = target_symbol(f->run, t, name);
    struct own_function *fn = v->kind == VALUE_OWN_FUNCTION ? v->own_function : NULL;
    bool functions = defs > 0 && def[0]->kind == API_DEF;
    judge_find_ok(f, JUDGE_PATCH, symbol, line, defs > 0 ? def[0] : NULL);
    if (t->kind != VALUE_OBJECT)
        judge_replaced_note(f->run, defs > 0 ? judge_path_dotted(f->run, def[0]->path) : symbol);
    if (!fn || !functions || t->kind == VALUE_MODULE) return;
    if (t->kind == VALUE_OBJECT && !v->self) return; /* not bound: self is not passed */
    judge_override(f, fn, def, defs, symbol, line, true);
}

void judge_patched(struct frame *f, const struct value *t, const char *name, const struct value *v,
                   int line)
{
    struct judge_run *r = f->run;
    struct api_attribute at;
    struct api_result res;
    if (t->kind == VALUE_CLASS || t->kind == VALUE_OBJECT) {
        api_attribute(r->api, t->class_, name, t->kind == VALUE_CLASS, &at);
        if (at.found == API_FOUND) judge_function(f, t, name, v, at.def, at.defs, line);
        if (at.found == API_ABSENT) judge_missing(f, t, name, line);
    } else if (t->kind == VALUE_MODULE) {
        api_find_in(r->api, t->module, name, &res);
        if (res.found == API_FOUND) judge_function(f, t, name, v, res.def, res.defs, line);
        if (res.found == API_ABSENT) judge_missing(f, t, name, line);
    } else if (t->kind == VALUE_UNKNOWN && v->kind == VALUE_OWN_FUNCTION && v->self && t->text) {
        judge_find_undecidable(f, JUDGE_PATCH, judge_run_format(r, "%s.%s", "?", name), line, NULL,
                               "a method of an object whose class is not known is replaced");
    }
}

/* patch() raises where the name is not there. */
void judge_patch_text(struct frame *f, const char *dotted, int line)
{
    struct api_result res;
    if (judge_own_root(f->run, dotted)) return;
    api_find(f->run->api, dotted, &res);
    if (res.found == API_OUTSIDE) return;
    judge_value_of_result(f, &res, dotted, JUDGE_PATCH, line);
}
