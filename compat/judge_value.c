/* judge_value.c: abstract values: made, joined, taken apart. A value is never changed after it was
 * made. */
#include "compat/judge_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { UNION_MOST = 8, TEXT_MOST = 1024 };

const struct value value_unknown = {.kind = VALUE_UNKNOWN};

bool judge_run_ok(const struct judge_run *r)
{
    return r->err->code == ERR_OK;
}

void *judge_run_take(struct judge_run *r, int count, size_t size)
{
    if (count <= 0 || !judge_run_ok(r)) return NULL;
    return pool_take(r->pool, (size_t)count, size, r->err);
}

const char *judge_run_format(struct judge_run *r, const char *format, ...)
{
    char text[TEXT_MOST];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *kept = pool_text(r->pool, text, strlen(text), r->err);
    return kept ? kept : "";
}

const struct value *judge_value_make(struct judge_run *r, struct value v)
{
    struct value *kept = judge_run_take(r, 1, sizeof *kept);
    if (!kept) return &value_unknown;
    *kept = v;
    return kept;
}

const struct value *judge_value_of_kind(struct judge_run *r, enum value_kind kind, const char *text)
{
    return judge_value_make(r, (struct value){.kind = kind, .text = text});
}

const struct value *judge_value_unknown_of(struct judge_run *r, const char *why)
{
    return why ? judge_value_of_kind(r, VALUE_UNKNOWN, why) : &value_unknown;
}

const struct value *judge_value_bool(struct judge_run *r, bool b)
{
    return judge_value_make(r, (struct value){.kind = VALUE_BOOL, .number = b});
}

const struct value *judge_value_object(struct judge_run *r, const struct api_def *c)
{
    return judge_value_make(r, (struct value){.kind = VALUE_OBJECT, .class_ = c});
}

const struct value *judge_value_exact(struct judge_run *r, const struct api_def *c)
{
    return judge_value_make(r, (struct value){.kind = VALUE_OBJECT, .class_ = c, .exact = true});
}

const struct value *judge_value_own_object(struct judge_run *r, struct own_class *c)
{
    return judge_value_make(r, (struct value){.kind = VALUE_OWN_OBJECT, .own_class = c});
}

const struct value *judge_value_generic(struct judge_run *r, const char *name,
                                        const struct value *item)
{
    const struct value **list = item ? judge_run_take(r, 1, sizeof *list) : NULL;
    if (list) list[0] = item;
    return judge_value_make(
        r, (struct value){.kind = VALUE_GENERIC, .text = name, .item = list, .items = list != 0});
}

/* ---- unions ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same(const struct value *a, const struct value *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->from != b->from) return false;
    switch (a->kind) {
    case VALUE_UNKNOWN:
        return !a->text == !b->text;
    case VALUE_NONE:
        return true;
    case VALUE_BOOL:
    case VALUE_NUMBER:
        return a->number == b->number;
    case VALUE_STR:
    case VALUE_OUTSIDE:
        return same_text(a->text, b->text);
    case VALUE_CLASS:
    case VALUE_OBJECT:
        return a->class_ == b->class_;
    case VALUE_MODULE:
        return a->module == b->module;
    case VALUE_OWN_CLASS:
    case VALUE_OWN_OBJECT:
        return a->own_class == b->own_class;
    case VALUE_OWN_FUNCTION:
        return a->own_function == b->own_function;
    case VALUE_FUNCTION:
        return a->defs == b->defs && a->defs > 0 && a->def[0] == b->def[0] &&
               a->bound == b->bound && a->class_ == b->class_;
    case VALUE_GENERIC:
        if (a->items != b->items || !same_text(a->text, b->text)) return false;
        for (int i = 0; i < a->items; i++) {
            if (!same(a->item[i], b->item[i])) return false;
        }
        return true;
    default:
        return false;
    }
}

static int union_add(const struct value **list, int n, const struct value *v)
{
    if (v->kind == VALUE_UNION) {
        for (int i = 0; i < v->items; i++) n = union_add(list, n, v->item[i]);
        return n;
    }
    for (int i = 0; i < n && i < UNION_MOST; i++) {
        if (same(list[i], v)) return n;
    }
    if (n < UNION_MOST) list[n] = v;
    return n + 1;
}

const struct value *judge_value_join(struct judge_run *r, const struct value *a,
                                     const struct value *b)
{
    const struct value *list[UNION_MOST];
    if (!a || a == b) return b ? b : &value_unknown;
    if (!b) return a;
    int n = union_add(list, union_add(list, 0, a), b);
    if (n == 1) return list[0];
    if (n > UNION_MOST) return &value_unknown;
    const struct value **kept = judge_run_take(r, n, sizeof *kept);
    if (!kept) return &value_unknown;
    memcpy(kept, list, (size_t)n * sizeof *kept);
    return judge_value_make(r, (struct value){.kind = VALUE_UNION, .item = kept, .items = n});
}

const struct value *judge_value_without_none(struct judge_run *r, const struct value *v)
{
    if (v->kind == VALUE_NONE) return &value_unknown;
    if (v->kind != VALUE_UNION) return v;
    const struct value *rest = NULL;
    for (int i = 0; i < v->items; i++) {
        if (v->item[i]->kind != VALUE_NONE) rest = judge_value_join(r, rest, v->item[i]);
    }
    return rest ? rest : &value_unknown;
}

const struct value *judge_value_instance(struct judge_run *r, const struct value *type)
{
    const struct value *sum = NULL;
    switch (type->kind) {
    case VALUE_CLASS:
        return judge_value_object(r, type->class_);
    case VALUE_OWN_CLASS:
        return judge_value_own_object(r, type->own_class);
    case VALUE_NONE:
    case VALUE_BROKEN:
        return type;
    case VALUE_UNION:
    case VALUE_ITEMS:
        for (int i = 0; i < type->items; i++) {
            sum = judge_value_join(r, sum, judge_value_instance(r, type->item[i]));
        }
        return sum ? sum : &value_unknown;
    default:
        return &value_unknown;
    }
}

/* ---- questions ---- */

int judge_value_truth(const struct value *v)
{
    int first;
    switch (v->kind) {
    case VALUE_NONE:
        return 0;
    case VALUE_BOOL:
    case VALUE_NUMBER:
        return v->number != 0;
    case VALUE_STR:
        return v->text[0] != 0;
    case VALUE_MODULE:
    case VALUE_CLASS:
    case VALUE_FUNCTION:
    case VALUE_OWN_MODULE:
    case VALUE_OWN_CLASS:
    case VALUE_OWN_FUNCTION:
        return 1;
    case VALUE_UNION:
        first = judge_value_truth(v->item[0]);
        for (int i = 1; i < v->items; i++) {
            if (judge_value_truth(v->item[i]) != first) return -1;
        }
        return first;
    default:
        return -1;
    }
}

/* A name of the library, or something that only the library can give. */
bool judge_value_is_lib(const struct value *v)
{
    switch (v->kind) {
    case VALUE_MODULE:
    case VALUE_CLASS:
    case VALUE_OBJECT:
    case VALUE_FUNCTION:
    case VALUE_BROKEN:
        return true;
    case VALUE_UNKNOWN:
        return v->text != NULL;
    default:
        return false;
    }
}

bool judge_value_has_unknown(const struct value *v)
{
    if (v->kind == VALUE_UNION) {
        for (int i = 0; i < v->items; i++) {
            if (judge_value_has_unknown(v->item[i])) return true;
        }
        return false;
    }
    return v->kind == VALUE_UNKNOWN || v->kind == VALUE_OUTSIDE;
}

const char *judge_path_dotted(struct judge_run *r, const char *path)
{
    char *text = pool_text(r->pool, path, strlen(path), r->err);
    if (!text) return path;
    char *colon = strchr(text, ':');
    if (colon) *colon = '.';
    return text;
}

const char *judge_last_part(const char *dotted)
{
    const char *dot = strrchr(dotted, '.'), *colon = strrchr(dotted, ':');
    if (!dot || (colon && colon > dot)) dot = colon;
    return dot ? dot + 1 : dotted;
}
