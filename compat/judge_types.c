/* judge_types.c: annotations as values, and what a container's element, an awaited call or an
 * entered context is. What is not understood is unknown, never an error. */
#include "compat/judge_parts.h"

#include "core/text.h"

#include <string.h>

/* Where a name in a type comes from: the library's texts are dotted already, the consumer's are
 * looked up where they stand. */
struct scope {
    struct judge_run *run;
    struct frame *frame; /* NULL: a text of the library */
    const struct api_def *self;
};

static bool one_of(const char *name, const char *const *list)
{
    for (int i = 0; list[i]; i++) {
        if (strcmp(name, list[i]) == 0) return true;
    }
    return false;
}

/* Of builtins, typing and collections.abc; the last part of the name. */
static bool is_generic(const char *last)
{
    static const char *const names[] = {"list",
                                        "dict",
                                        "tuple",
                                        "set",
                                        "frozenset",
                                        "str",
                                        "int",
                                        "float",
                                        "bool",
                                        "bytes",
                                        "List",
                                        "Dict",
                                        "Tuple",
                                        "Set",
                                        "FrozenSet",
                                        "Sequence",
                                        "Iterable",
                                        "Iterator",
                                        "Generator",
                                        "Collection",
                                        "MutableSequence",
                                        "Mapping",
                                        "MutableMapping",
                                        "defaultdict",
                                        "OrderedDict",
                                        "deque",
                                        "Awaitable",
                                        "Coroutine",
                                        "AsyncIterator",
                                        "AsyncIterable",
                                        "AsyncGenerator",
                                        "Future",
                                        "ContextManager",
                                        "AbstractContextManager",
                                        "AsyncContextManager",
                                        "AbstractAsyncContextManager",
                                        "ItemsView",
                                        "KeysView",
                                        "ValuesView",
                                        NULL};
    return one_of(last, names);
}

static bool is_std(const char *name)
{
    static const char *const roots[] = {"typing.",     "typing_extensions.", "collections.",
                                        "contextlib.", "asyncio.",           "concurrent.futures.",
                                        NULL};
    if (!strchr(name, '.')) return true;
    for (int i = 0; roots[i]; i++) {
        if (text_starts(name, roots[i])) return true;
    }
    return false;
}

static const struct value *named_type(struct scope *s, const char *name)
{
    const char *last = judge_last_part(name);
    if (is_std(name) && is_generic(last)) return judge_value_of_kind(s->run, VALUE_GENERIC, last);
    if (is_std(name) && strcmp(last, "Self") == 0 && s->self)
        return judge_value_object(s->run, s->self);
    if (s->frame) {
        const struct value *v = judge_value_of_path(s->frame, name);
        return v ? judge_value_instance(s->run, v) : &value_unknown;
    }
    enum api_found found;
    const struct api_def *c = strchr(name, '.') ? api_find_class(s->run->api, name, &found) : NULL;
    return c ? judge_value_object(s->run, c) : &value_unknown;
}

static const struct value *from_tree(struct scope *s, const struct api_type *t);

static const struct value *class_type(struct scope *s, const struct api_type *arg)
{
    const struct value *v = arg ? from_tree(s, arg) : &value_unknown;
    if (v->kind == VALUE_OBJECT)
        return judge_value_make(s->run, (struct value){.kind = VALUE_CLASS, .class_ = v->class_});
    if (v->kind == VALUE_OWN_OBJECT)
        return judge_value_make(s->run,
                                (struct value){.kind = VALUE_OWN_CLASS, .own_class = v->own_class});
    return &value_unknown;
}

static const struct value *subscripted(struct scope *s, const struct api_type *t)
{
    const char *last = judge_last_part(t->name);
    if (is_std(t->name) && (strcmp(last, "type") == 0 || strcmp(last, "Type") == 0))
        return class_type(s, api_type_arg(t, 0));
    if (!is_std(t->name) || !is_generic(last)) return named_type(s, t->name);
    const struct value **item = judge_run_take(s->run, t->args, sizeof *item);
    if (!item) return &value_unknown;
    int n = 0;
    bool open = false;
    for (int i = 0; i < t->args; i++) {
        const struct api_type *arg = api_type_arg(t, i);
        if (arg->kind == API_TYPE_ELLIPSIS)
            open = true;
        else
            item[n++] = from_tree(s, arg);
    }
    return judge_value_make(
        s->run, (struct value){
                    .kind = VALUE_GENERIC, .text = last, .item = item, .items = n, .open = open});
}

static const struct value *from_tree(struct scope *s, const struct api_type *t)
{
    const struct value *sum = NULL;
    switch (t->kind) {
    case API_TYPE_NAME:
        return named_type(s, t->name);
    case API_TYPE_SUB:
        return subscripted(s, t);
    case API_TYPE_NONE:
        return judge_value_of_kind(s->run, VALUE_NONE, NULL);
    case API_TYPE_UNION:
        for (int i = 0; i < t->args; i++) {
            sum = judge_value_join(s->run, sum, from_tree(s, api_type_arg(t, i)));
        }
        return sum ? sum : &value_unknown;
    default:
        return &value_unknown;
    }
}

const struct value *judge_type_from_text(struct judge_run *r, const char *text,
                                         const struct api_def *self)
{
    struct scope s = {.run = r, .self = self};
    const struct api_type *t = text ? api_type_parse(text, r->pool, r->err) : NULL;
    return t ? from_tree(&s, t) : &value_unknown;
}

/* ---- annotations of the consumer ---- */

static const char *type_name(struct frame *f, const struct expr *e)
{
    if (e->kind != EXPR_NAME && e->kind != EXPR_ATTR) return NULL;
    const struct value *v = judge_eval(f, e);
    if (v->kind == VALUE_OUTSIDE) return v->text;
    return e->kind == EXPR_NAME && !judge_name_find(f, e->text) ? e->text : NULL;
}

static const struct value *generic_expr(struct frame *f, const char *name, const struct expr *e)
{
    const struct expr *index = e->right;
    bool many = index->kind == EXPR_TUPLE;
    int n = many ? index->items : 1, kept = 0;
    const struct value **item = judge_run_take(f->run, n, sizeof *item);
    bool open = false;
    for (int i = 0; item && i < n; i++) {
        const struct expr *arg = many ? index->item[i] : index;
        if (arg->kind == EXPR_OTHER && arg->items == 0)
            open = true;
        else
            item[kept++] = judge_type_from_expr(f, arg);
    }
    return judge_value_make(f->run, (struct value){.kind = VALUE_GENERIC,
                                                   .text = name,
                                                   .item = item,
                                                   .items = item ? kept : 0,
                                                   .open = open});
}

static const struct value *union_expr(struct frame *f, const struct expr *index, bool optional)
{
    const struct value *sum = optional ? judge_value_of_kind(f->run, VALUE_NONE, NULL) : NULL;
    if (index->kind != EXPR_TUPLE)
        return judge_value_join(f->run, sum, judge_type_from_expr(f, index));
    for (int i = 0; i < index->items; i++) {
        sum = judge_value_join(f->run, sum, judge_type_from_expr(f, index->item[i]));
    }
    return sum ? sum : &value_unknown;
}

static const struct value *sub_expr(struct frame *f, const struct expr *e)
{
    static const char *const first[] = {"Annotated", "Final",       "ClassVar",
                                        "Required",  "NotRequired", NULL};
    const char *name = type_name(f, e->left), *last = name ? judge_last_part(name) : NULL;
    if (!name || !is_std(name)) return name ? &value_unknown : judge_type_from_expr(f, e->left);
    if (strcmp(last, "Optional") == 0) return union_expr(f, e->right, true);
    if (strcmp(last, "Union") == 0) return union_expr(f, e->right, false);
    if (strcmp(last, "type") == 0 || strcmp(last, "Type") == 0) {
        const struct value *v = judge_eval(f, e->right);
        return v->kind == VALUE_CLASS || v->kind == VALUE_OWN_CLASS ? v : &value_unknown;
    }
    if (one_of(last, first))
        return judge_type_from_expr(
            f, e->right->kind == EXPR_TUPLE && e->right->items > 0 ? e->right->item[0] : e->right);
    return is_generic(last) ? generic_expr(f, last, e) : &value_unknown;
}

static const struct value *type_of(struct frame *f, const struct expr *e)
{
    struct scope s = {.run = f->run, .frame = f};
    const struct api_type *t;
    const char *name;
    switch (e->kind) {
    case EXPR_NAME:
    case EXPR_ATTR:
        name = type_name(f, e);
        if (name && is_std(name) && is_generic(judge_last_part(name)))
            return judge_value_of_kind(f->run, VALUE_GENERIC, judge_last_part(name));
        return name ? &value_unknown : judge_value_instance(f->run, judge_eval(f, e));
    case EXPR_CONST:
        return e->value == CONST_NONE ? judge_value_of_kind(f->run, VALUE_NONE, NULL)
                                      : &value_unknown;
    case EXPR_SUB:
        return sub_expr(f, e);
    case EXPR_BINOP:
        if (strcmp(e->text, "|") != 0) return &value_unknown;
        return judge_value_join(f->run, type_of(f, e->left), type_of(f, e->right));
    case EXPR_STR:
        t = api_type_parse(e->text, f->run->pool, f->run->err);
        return t ? from_tree(&s, t) : &value_unknown;
    default:
        return &value_unknown;
    }
}

const struct value *judge_type_from_expr(struct frame *f, const struct expr *e)
{
    if (!e) return &value_unknown;
    unsigned guards = f->guards;
    f->mute++; /* an annotation need not be evaluated */
    f->guards = 0;
    const struct value *v = type_of(f, e);
    f->mute--;
    f->guards = guards;
    return v;
}

/* ---- containers ---- */

static const struct value *arg_of(const struct value *v, int i)
{
    return i < v->items ? v->item[i] : &value_unknown;
}

static const struct value *generic_element(const struct value *v)
{
    static const char *const firsts[] = {"list",
                                         "set",
                                         "frozenset",
                                         "List",
                                         "Set",
                                         "Sequence",
                                         "Iterable",
                                         "Iterator",
                                         "Generator",
                                         "MutableSequence",
                                         "AsyncIterator",
                                         "AsyncIterable",
                                         "deque",
                                         "dict",
                                         "Dict",
                                         "Mapping",
                                         "MutableMapping",
                                         "defaultdict",
                                         "OrderedDict",
                                         "AsyncGenerator",
                                         "Collection",
                                         "KeysView",
                                         "ValuesView",
                                         "FrozenSet",
                                         NULL};
    return one_of(v->text, firsts) ? arg_of(v, 0) : &value_unknown;
}

static const struct value *through(struct frame *f, const struct value *v, const char *method);

static const struct value *joined_items(struct frame *f, const struct value *v)
{
    const struct value *sum = NULL;
    for (int i = 0; i < v->items; i++) sum = judge_value_join(f->run, sum, v->item[i]);
    return sum && !v->open ? sum : &value_unknown;
}

const struct value *judge_value_element(struct frame *f, const struct value *v)
{
    const struct value *sum = NULL;
    switch (v->kind) {
    case VALUE_BROKEN:
        return v;
    case VALUE_ITEMS:
        return joined_items(f, v);
    case VALUE_GENERIC:
        if (strcmp(v->text, "tuple") == 0 || strcmp(v->text, "Tuple") == 0)
            return joined_items(f, v->open && v->items == 1 ? arg_of(v, 0) : v);
        if (strcmp(v->text, "ItemsView") == 0 && v->items == 2)
            return judge_value_make(
                f->run,
                (struct value){.kind = VALUE_ITEMS, .text = "tuple", .item = v->item, .items = 2});
        return generic_element(v);
    case VALUE_OBJECT:
    case VALUE_OWN_OBJECT:
        return through(f, v, "__iter__");
    case VALUE_CLASS: /* an enum's members */
        return judge_attr_has(f, v, "__members__") == 1 ? judge_value_object(f->run, v->class_)
                                                        : &value_unknown;
    case VALUE_UNION:
        for (int i = 0; i < v->items; i++) {
            if (v->item[i]->kind != VALUE_NONE)
                sum = judge_value_join(f->run, sum, judge_value_element(f, v->item[i]));
        }
        return sum ? sum : &value_unknown;
    default:
        return &value_unknown;
    }
}

/* What calling a method without arguments gives, taken apart once where it is an iterator. */
static const struct value *through(struct frame *f, const struct value *v, const char *method)
{
    if (judge_attr_has(f, v, method) != 1) return &value_unknown;
    const struct value *m = judge_attr_quiet(f, v, method);
    if (m->kind != VALUE_FUNCTION || m->defs == 0 || m->def[0]->kind != API_DEF)
        return &value_unknown;
    const struct value *result = judge_type_from_text(f->run, m->def[0]->function->returns,
                                                      m->class_ ? m->class_ : v->class_);
    return result->kind == VALUE_GENERIC ? generic_element(result) : &value_unknown;
}

static const struct value *returned_by(struct frame *f, const struct value *v, const char *method)
{
    const struct value *m = judge_attr_quiet(f, v, method);
    if (m->kind != VALUE_FUNCTION || m->defs == 0 || m->def[0]->kind != API_DEF)
        return &value_unknown;
    return judge_type_from_text(f->run, m->def[0]->function->returns,
                                m->class_ ? m->class_ : v->class_);
}

static const struct value *generic_index(struct frame *f, const struct value *v,
                                         const struct value *index, const struct expr *at)
{
    static const char *const maps[] = {"dict",        "Dict",        "Mapping", "MutableMapping",
                                       "OrderedDict", "defaultdict", NULL};
    if (one_of(v->text, maps)) return arg_of(v, 1);
    if (at->right && at->right->kind == EXPR_SLICE) return v;
    if (strcmp(v->text, "tuple") != 0 && strcmp(v->text, "Tuple") != 0) return generic_element(v);
    if (v->open) return arg_of(v, 0);
    int i = index->kind == VALUE_NUMBER ? (int)index->number : INT32_MAX;
    if (i < 0) i += v->items;
    return i >= 0 && i < v->items ? v->item[i] : joined_items(f, v);
}

/* Nothing outside of the library is among its bases. */
static bool closed(struct judge_run *r, const struct api_def *c)
{
    struct api_mro mro;
    api_mro(r->api, c, &mro);
    return mro.outsides == 0 && mro.traits == 0;
}

const struct value *judge_value_index(struct frame *f, const struct value *v,
                                      const struct value *index, const struct expr *at)
{
    const struct value *sum = NULL;
    switch (v->kind) {
    case VALUE_BROKEN:
        return v;
    case VALUE_GENERIC:
        return generic_index(f, v, index, at);
    case VALUE_ITEMS:
        if (index->kind == VALUE_NUMBER && index->number >= 0 && index->number < v->items)
            return v->item[(int)index->number];
        return at->right && at->right->kind == EXPR_SLICE ? &value_unknown : joined_items(f, v);
    case VALUE_DICT:
        for (int i = 0; i < v->items && index->kind == VALUE_STR; i++) {
            if (v->key[i] && strcmp(v->key[i], index->text) == 0) return v->item[i];
        }
        return &value_unknown;
    case VALUE_OBJECT:
        if (judge_attr_has(f, v, "__getitem__") == 0 && closed(f->run, v->class_))
            return judge_attr_of(f, v, "__getitem__", at->line, NULL, false);
        return judge_attr_has(f, v, "__getitem__") == 1 ? returned_by(f, v, "__getitem__")
                                                        : &value_unknown;
    case VALUE_UNION:
        for (int i = 0; i < v->items; i++) {
            if (v->item[i]->kind == VALUE_NONE) continue;
            const struct value *one = v->item[i]->kind == VALUE_OBJECT
                                          ? returned_by(f, v->item[i], "__getitem__")
                                          : judge_value_index(f, v->item[i], index, at);
            sum = judge_value_join(f->run, sum, one);
        }
        return sum ? sum : &value_unknown;
    default:
        return &value_unknown;
    }
}

const struct value *judge_value_awaited(struct frame *f, const struct value *v)
{
    static const char *const kinds[] = {"Awaitable", "Coroutine", "Future", NULL};
    (void)f;
    if (v->kind == VALUE_BROKEN) return v;
    if (v->kind != VALUE_GENERIC || !one_of(v->text, kinds) || v->items == 0) return &value_unknown;
    return v->item[v->items - 1];
}

const struct value *judge_value_entered(struct frame *f, const struct value *v,
                                        const struct expr *at)
{
    if (v->kind == VALUE_BROKEN) return v;
    if (v->kind == VALUE_GENERIC && strstr(v->text, "ContextManager")) return arg_of(v, 0);
    if (v->kind == VALUE_OWN_OBJECT) return v;
    if (v->kind != VALUE_OBJECT) return &value_unknown;
    const char *name = judge_attr_has(f, v, "__enter__") == 0 ? "__aenter__" : "__enter__";
    if (judge_attr_has(f, v, name) == 0 && closed(f->run, v->class_))
        return judge_attr_of(f, v, "__enter__", at->line, NULL, false);
    const struct value *entered = returned_by(f, v, name);
    return entered->kind == VALUE_UNKNOWN ? &value_unknown : entered;
}
