/* judge_special.c: functions of Python and its standard library that say something about the
 * library's names: what they give is known, so they are not looked up anywhere. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <string.h>

struct special {
    struct frame *f;
    const struct expr *call;
    const struct args *a;
};

static const struct value *arg(const struct special *s, int i)
{
    return i < s->a->count ? s->a->pos[i] : &value_unknown;
}

static const char *text_arg(const struct special *s, int i)
{
    return arg(s, i)->kind == VALUE_STR ? arg(s, i)->text : NULL;
}

static const struct value *named_arg(const struct special *s, const char *name)
{
    for (int i = 0; i < s->a->names; i++) {
        if (strcmp(s->a->name[i], name) == 0) return s->a->value[i];
    }
    return NULL;
}

static const char *path_arg(const struct special *s, int i)
{
    return i < s->call->items ? judge_expr_path(s->f->run, s->call->item[i]) : NULL;
}

/* ---- attributes by name ---- */

/* An object may be of a class below the one that is known: only "there" can be proven of it. */
static const struct value *do_hasattr(const struct special *s)
{
    const char *name = text_arg(s, 1);
    const struct value *v = arg(s, 0);
    if (!name) return &value_unknown;
    int has = judge_attr_has(s->f, v, name);
    if (has == 1) return judge_value_bool(s->f->run, true);
    bool whole = v->kind == VALUE_MODULE || v->kind == VALUE_CLASS;
    return has == 0 && whole ? judge_value_bool(s->f->run, false) : &value_unknown;
}

static const struct value *do_getattr(const struct special *s)
{
    const char *name = text_arg(s, 1);
    if (!name) return &value_unknown;
    if (s->a->count < 3)
        return judge_attr_of(s->f, arg(s, 0), name, s->call->line, path_arg(s, 0), false);
    if (judge_attr_has(s->f, arg(s, 0), name) == 0) return arg(s, 2);
    return judge_value_join(s->f->run, judge_attr_quiet(s->f, arg(s, 0), name), arg(s, 2));
}

static const struct value *do_setattr(const struct special *s)
{
    const char *name = text_arg(s, 1);
    const struct value *v = arg(s, 0);
    if (!name && v->kind == VALUE_OWN_OBJECT) v->own_class->dynamic = true;
    if (name && v->kind == VALUE_OWN_OBJECT)
        judge_slot_join(s->f->run, &v->own_class->attr, name, arg(s, 2));
    if (name && v->kind != VALUE_OWN_OBJECT) judge_set_note(s->f->run, v, name);
    if (name) judge_patched(s->f, v, name, arg(s, 2), s->call->line);
    return judge_value_of_kind(s->f->run, VALUE_NONE, NULL);
}

static const struct value *do_super(const struct special *s)
{
    struct own_class *c = s->f->class_;
    if (s->a->count > 0) c = arg(s, 0)->kind == VALUE_OWN_CLASS ? arg(s, 0)->own_class : NULL;
    if (!c) return &value_unknown;
    return judge_value_make(s->f->run, (struct value){.kind = VALUE_SUPER, .own_class = c});
}

/* ---- callables ---- */

static const struct value *do_partial(const struct special *s)
{
    return judge_partial_make(s->f, s->a, s->call->line);
}

static const struct value *do_method_type(const struct special *s)
{
    struct judge_run *r = s->f->run;
    const struct value *fn = arg(s, 0), *self = arg(s, 1);
    if (fn->kind != VALUE_OWN_FUNCTION) return &value_unknown;
    if (self->kind == VALUE_UNKNOWN)
        self = judge_value_unknown_of(r, "it is whatever types.MethodType binds it to");
    fn->own_function->self = judge_value_join(r, fn->own_function->self, self);
    struct value bound = *fn;
    bound.self = self;
    return judge_value_make(r, bound);
}

static const struct value *do_signature(const struct special *s)
{
    return judge_value_make(s->f->run, (struct value){.kind = VALUE_PROBE, .self = arg(s, 0)});
}

static const struct value *do_cast(const struct special *s)
{
    return s->call->items > 0 ? judge_type_from_expr(s->f, s->call->item[0]) : &value_unknown;
}

static const struct value *do_type(const struct special *s)
{
    const struct value *v = arg(s, 0);
    struct value c = {.kind = VALUE_CLASS, .class_ = v->class_};
    if (s->a->count != 1) return &value_unknown;
    if (v->kind == VALUE_OWN_OBJECT)
        c = (struct value){.kind = VALUE_OWN_CLASS, .own_class = v->own_class};
    return v->kind == VALUE_OBJECT || v->kind == VALUE_OWN_OBJECT ? judge_value_make(s->f->run, c)
                                                                  : &value_unknown;
}

/* ---- versions and modules ---- */

static const struct value *do_version(const struct special *s)
{
    return judge_version_parse(s->f, arg(s, 0));
}

static const struct value *do_metadata(const struct special *s)
{
    const char *name = text_arg(s, 0), *lib = s->f->run->api->library.name;
    if (!name || !lib || strcmp(name, lib) != 0) return &value_unknown;
    return judge_value_of_kind(s->f->run, VALUE_VERSION, s->f->run->api->library.version);
}

static const struct value *do_import(const struct special *s)
{
    const char *name = text_arg(s, 0);
    struct api_result res;
    if (!name || judge_own_root(s->f->run, name)) return &value_unknown;
    api_find(s->f->run->api, name, &res);
    return judge_value_of_result(s->f, &res, name, JUDGE_IMPORT, s->call->line);
}

static const struct value *do_find_spec(const struct special *s)
{
    const char *name = text_arg(s, 0);
    struct api_result res;
    if (!name) return &value_unknown;
    api_find(s->f->run->api, name, &res);
    if (res.found == API_FOUND) return judge_value_bool(s->f->run, true);
    return res.found == API_ABSENT ? judge_value_of_kind(s->f->run, VALUE_NONE, NULL)
                                   : &value_unknown;
}

/* ---- tests that replace names ---- */

static bool is_true(const struct value *v)
{
    return v && judge_value_truth(v) == 1;
}

static const struct value *do_patch(const struct special *s)
{
    const char *dotted = text_arg(s, 0);
    if (dotted && !is_true(named_arg(s, "create"))) judge_patch_text(s->f, dotted, s->call->line);
    return &value_unknown;
}

static const struct value *do_patch_object(const struct special *s)
{
    const char *name = text_arg(s, 1);
    if (!name || is_true(named_arg(s, "create"))) return &value_unknown;
    judge_attr_of(s->f, arg(s, 0), name, s->call->line, NULL, false);
    if (s->a->count > 2) judge_patched(s->f, arg(s, 0), name, arg(s, 2), s->call->line);
    return &value_unknown;
}

/* monkeypatch.setattr("a.b", v), monkeypatch.setattr(obj, "name", v) */
static const struct value *do_monkeypatch(const struct special *s)
{
    const struct value *raising = named_arg(s, "raising");
    const char *first = text_arg(s, 0), *second = text_arg(s, 1);
    if (raising && judge_value_truth(raising) != 1) return &value_unknown;
    if (first && strchr(first, '.')) judge_patch_text(s->f, first, s->call->line);
    if (!first && second) {
        judge_attr_of(s->f, arg(s, 0), second, s->call->line, NULL, false);
        if (s->a->count > 2) judge_patched(s->f, arg(s, 0), second, arg(s, 2), s->call->line);
    }
    return &value_unknown;
}

/* ---- iteration ---- */

static const struct value *tuple_of(struct judge_run *r, const struct value *const *v, int n)
{
    const struct value **item = judge_run_take(r, n, sizeof *item);
    if (!item) return &value_unknown;
    memcpy(item, v, (size_t)n * sizeof *item);
    return judge_value_make(
        r, (struct value){.kind = VALUE_ITEMS, .text = "tuple", .item = item, .items = n});
}

static const struct value *do_enumerate(const struct special *s)
{
    const struct value *pair[2] = {&value_unknown, judge_value_element(s->f, arg(s, 0))};
    return judge_value_generic(s->f->run, "Iterator", tuple_of(s->f->run, pair, 2));
}

static const struct value *do_zip(const struct special *s)
{
    enum { ZIP_MOST = 8 };
    const struct value *each[ZIP_MOST];
    int n = s->a->count;
    if (n == 0 || n > ZIP_MOST || s->a->star) return &value_unknown;
    for (int i = 0; i < n; i++) each[i] = judge_value_element(s->f, s->a->pos[i]);
    return judge_value_generic(s->f->run, "Iterator", tuple_of(s->f->run, each, n));
}

static const struct value *do_list(const struct special *s)
{
    return judge_value_generic(s->f->run, "list", judge_value_element(s->f, arg(s, 0)));
}

static const struct value *do_next(const struct special *s)
{
    return judge_value_element(s->f, arg(s, 0));
}

static const struct value *do_run(const struct special *s)
{
    return judge_value_awaited(s->f, arg(s, 0));
}

static const struct value *do_dict(const struct special *s)
{
    if (s->a->count > 0)
        return arg(s, 0)->kind == VALUE_DICT && s->a->names == 0 ? arg(s, 0) : &value_unknown;
    return judge_value_make(s->f->run, (struct value){.kind = VALUE_DICT,
                                                      .item = s->a->value,
                                                      .key = s->a->name,
                                                      .items = s->a->names,
                                                      .open = s->a->dstar});
}

static const struct value *do_nothing(const struct special *s)
{
    (void)s;
    return &value_unknown;
}

typedef const struct value *special_function(const struct special *s);

static const struct {
    const char *name;
    special_function *run;
} specials[] = {
    {"hasattr", do_hasattr},
    {"getattr", do_getattr},
    {"setattr", do_setattr},
    {"super", do_super},
    {"isinstance", do_nothing},
    {"type", do_type},
    {"functools.partial", do_partial},
    {"types.MethodType", do_method_type},
    {"inspect.signature", do_signature},
    {"typing.cast", do_cast},
    {"typing_extensions.cast", do_cast},
    {"packaging.version.Version", do_version},
    {"packaging.version.parse", do_version},
    {"pkg_resources.parse_version", do_version},
    {"distutils.version.LooseVersion", do_version},
    {"importlib.metadata.version", do_metadata},
    {"importlib_metadata.version", do_metadata},
    {"importlib.import_module", do_import},
    {"importlib.util.find_spec", do_find_spec},
    {"unittest.mock.patch", do_patch},
    {"mock.patch", do_patch},
    {"unittest.mock.patch.object", do_patch_object},
    {"mock.patch.object", do_patch_object},
    {"enumerate", do_enumerate},
    {"zip", do_zip},
    {"list", do_list},
    {"tuple", do_list},
    {"set", do_list},
    {"frozenset", do_list},
    {"sorted", do_list},
    {"reversed", do_list},
    {"iter", do_list},
    {"itertools.islice", do_list},
    {"next", do_next},
    {"dict", do_dict},
    {"asyncio.run", do_run},
};

static special_function *special_of(struct frame *f, const struct value *callee,
                                    const struct expr *call)
{
    const struct expr *e = call->left;
    if (callee->kind == VALUE_OUTSIDE) {
        for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
            if (strcmp(callee->text, specials[i].name) == 0) return specials[i].run;
        }
    }
    (void)f;
    bool fixture = e->kind == EXPR_ATTR && strcmp(e->text, "setattr") == 0 &&
                   e->left->kind == EXPR_NAME && strcmp(e->left->text, "monkeypatch") == 0;
    return fixture && callee->kind == VALUE_UNKNOWN ? do_monkeypatch : NULL;
}

/* Names with dots: evaluated twice without harm. */
static bool is_dotted(const struct expr *e)
{
    while (e->kind == EXPR_ATTR) e = e->left;
    return e->kind == EXPR_NAME;
}

static const struct value *version_method(struct frame *f, const struct expr *call)
{
    const struct expr *e = call->left;
    bool asks = e->kind == EXPR_ATTR && strcmp(e->text, "startswith") == 0 && call->items == 1 &&
                call->item[0]->kind == EXPR_STR;
    if (!asks || !is_dotted(e->left)) return NULL;
    const struct value *v = judge_eval(f, e->left);
    if (v->kind != VALUE_VERSION || !v->text) return NULL;
    return judge_value_bool(f->run, text_starts(v->text, call->item[0]->text));
}

const struct value *judge_call_special(struct frame *f, const struct value *callee,
                                       const struct expr *call)
{
    const struct value *v = version_method(f, call);
    if (v) return v;
    special_function *run = special_of(f, callee, call);
    bool helper =
        callee->kind == VALUE_OWN_FUNCTION && call->items == 1 && call->item[0]->kind == EXPR_STR;
    if (!run && !helper) return NULL;
    struct args a;
    judge_eval_args(f, call, &a);
    if (run) {
        struct special s = {.f = f, .call = call, .a = &a};
        return run(&s);
    }
    int t = judge_version_helper(f, callee, &a);
    return t < 0 ? NULL : judge_value_bool(f->run, t);
}
