/* uses_expr.c: the expressions of uses.h. */
#include "compat/uses_parts.h"
#include "core/json.h"

#include <string.h>

static const char *const kind_name[] = {
    [EXPR_NAME] = "name",       [EXPR_ATTR] = "attr",   [EXPR_CALL] = "call",
    [EXPR_SUB] = "sub",         [EXPR_CONST] = "const", [EXPR_STR] = "str",
    [EXPR_FSTR] = "fstr",       [EXPR_LIST] = "list",   [EXPR_TUPLE] = "tuple",
    [EXPR_SET] = "set",         [EXPR_DICT] = "dict",   [EXPR_STAR] = "star",
    [EXPR_COMPARE] = "compare", [EXPR_BOOL] = "bool",   [EXPR_NOT] = "not",
    [EXPR_BINOP] = "binop",     [EXPR_IFEXP] = "ifexp", [EXPR_LAMBDA] = "lambda",
    [EXPR_AWAIT] = "await",     [EXPR_YIELD] = "yield", [EXPR_COMP] = "comp",
    [EXPR_WALRUS] = "walrus",   [EXPR_SLICE] = "slice", [EXPR_OTHER] = "other",
};
enum { KINDS = sizeof kind_name / sizeof kind_name[0] };

static int kind_of(struct reader *r, const json_t *node)
{
    const char *e = reader_text(r, node, "e");
    if (!e) return -1;
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(e, kind_name[i]) == 0) return i;
    }
    reader_bad(r, "expression", e, "a kind that this version knows");
    return -1;
}

static void read_const(struct reader *r, const json_t *node, struct expr *e)
{
    const json_t *v = json_object_get(node, "v");
    if (json_is_null(v)) {
        e->value = CONST_NONE;
    } else if (json_is_boolean(v)) {
        e->value = json_is_true(v) ? CONST_TRUE : CONST_FALSE;
    } else if (json_is_number(v)) {
        e->value = CONST_NUMBER;
        e->number = json_number_value(v);
    } else {
        reader_bad(r, "constant", json_kind(v), "null, a truth value or a number");
    }
}

static struct comp_for *read_loops(struct reader *r, const json_t *node, int *n)
{
    const json_t *list = reader_list(r, node, "for", n);
    struct comp_for *loop = reader_take(r, *n, sizeof *loop);
    for (int i = 0; i < *n && reader_ok(r); i++) {
        const json_t *o = json_array_get(list, (size_t)i);
        loop[i].target = reader_expr_at(r, o, "target");
        loop[i].iter = reader_expr_at(r, o, "iter");
        loop[i].test = reader_exprs(r, o, "ifs", &loop[i].tests);
    }
    return loop;
}

static void read_compare(struct reader *r, const json_t *node, struct expr *e)
{
    int ops;
    e->left = reader_expr_at(r, node, "left");
    e->item = reader_exprs(r, node, "right", &e->items);
    e->op = reader_texts(r, node, "ops", &ops);
    if (reader_ok(r) && ops != e->items) reader_bad(r, "compare", "ops unlike right", "as many");
}

static void read_lambda(struct reader *r, const json_t *node, struct expr *e)
{
    e->param = reader_params(r, node, &e->params);
    e->third = reader_expr_at(r, node, "body");
}

static void read_dict(struct reader *r, const json_t *node, struct expr *e)
{
    int keys;
    e->key = reader_exprs(r, node, "keys", &keys);
    e->item = reader_exprs(r, node, "values", &e->items);
    if (reader_ok(r) && keys != e->items) reader_bad(r, "dict", "keys unlike values", "as many");
}

/* Where the parts of the plain kinds stand. */
static const struct {
    const char *text, *left, *right, *third, *items;
} parts[] = {
    [EXPR_NAME] = {.text = "id"},
    [EXPR_ATTR] = {.text = "name", .left = "value"},
    [EXPR_SUB] = {.left = "value", .right = "index"},
    [EXPR_STR] = {.text = "v"},
    [EXPR_FSTR] = {.items = "parts"},
    [EXPR_LIST] = {.items = "items"},
    [EXPR_TUPLE] = {.items = "items"},
    [EXPR_SET] = {.items = "items"},
    [EXPR_STAR] = {.left = "value"},
    [EXPR_BOOL] = {.text = "op", .items = "values"},
    [EXPR_NOT] = {.left = "value"},
    [EXPR_BINOP] = {.text = "op", .left = "left", .right = "right"},
    [EXPR_IFEXP] = {.left = "test", .right = "then", .third = "else"},
    [EXPR_AWAIT] = {.left = "value"},
    [EXPR_COMP] = {.text = "kind", .items = "elements"},
    [EXPR_WALRUS] = {.left = "target", .right = "value"},
    [EXPR_OTHER] = {.items = "parts"},
    [EXPR_CALL] = {.left = "func", .items = "args"},
};

static void read_parts(struct reader *r, const json_t *node, struct expr *e)
{
    if ((size_t)e->kind >= sizeof parts / sizeof parts[0]) return;
    if (parts[e->kind].text) e->text = reader_text(r, node, parts[e->kind].text);
    if (parts[e->kind].left) e->left = reader_expr_at(r, node, parts[e->kind].left);
    if (parts[e->kind].right) e->right = reader_expr_at(r, node, parts[e->kind].right);
    if (parts[e->kind].third) e->third = reader_expr_at(r, node, parts[e->kind].third);
    if (parts[e->kind].items) e->item = reader_exprs(r, node, parts[e->kind].items, &e->items);
}

static void read_kind(struct reader *r, const json_t *node, struct expr *e)
{
    read_parts(r, node, e);
    if (e->kind == EXPR_CONST) read_const(r, node, e);
    if (e->kind == EXPR_COMPARE) read_compare(r, node, e);
    if (e->kind == EXPR_LAMBDA) read_lambda(r, node, e);
    if (e->kind == EXPR_DICT) read_dict(r, node, e);
    if (e->kind == EXPR_COMP) e->loop = read_loops(r, node, &e->loops);
    if (e->kind == EXPR_CALL) e->kw = reader_keywords(r, node, "kw", &e->kws);
    if (e->kind == EXPR_YIELD) e->left = reader_expr_or_null(r, node, "value");
}

struct expr *reader_expr(struct reader *r, const json_t *node)
{
    struct expr *e = NULL;
    if (reader_enter(r, node, "expression")) {
        int kind = kind_of(r, node);
        e = kind < 0 ? NULL : reader_take(r, 1, sizeof *e);
        if (e) {
            e->kind = (enum expr_kind)kind;
            e->line = r->line;
            read_kind(r, node, e);
        }
    }
    r->depth--;
    return reader_ok(r) ? e : NULL;
}

struct expr *reader_expr_or_null(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return !v || json_is_null(v) ? NULL : reader_expr(r, v);
}

struct expr *reader_expr_at(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return reader_bad(r, key, "nothing", "an expression");
    return reader_expr(r, v);
}

struct expr **reader_exprs(struct reader *r, const json_t *o, const char *key, int *n)
{
    const json_t *list = reader_list(r, o, key, n);
    struct expr **out = reader_take(r, *n, sizeof *out);
    for (int i = 0; i < *n && reader_ok(r); i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        out[i] = json_is_null(v) ? NULL : reader_expr(r, v);
    }
    return out;
}

struct keyword *reader_keywords(struct reader *r, const json_t *o, const char *key, int *n)
{
    const json_t *list = reader_list(r, o, key, n);
    struct keyword *out = reader_take(r, *n, sizeof *out);
    for (int i = 0; i < *n && reader_ok(r); i++) {
        const json_t *pair = json_array_get(list, (size_t)i), *name = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !(json_is_null(name) || json_is_string(name))) {
            reader_bad(r, "keyword", "another form", "[name or null, value]");
            break;
        }
        if (json_is_string(name))
            out[i].name =
                pool_text(r->pool, json_string_value(name), json_string_length(name), r->err);
        out[i].value = reader_expr(r, json_array_get(pair, 1));
    }
    return out;
}

struct param *reader_params(struct reader *r, const json_t *o, int *n)
{
    static const char *const kinds[] = {"pos", "any", "kw", "star", "dstar"};
    const json_t *list = reader_list(r, o, "params", n);
    struct param *out = reader_take(r, *n, sizeof *out);
    for (int i = 0; i < *n && reader_ok(r); i++) {
        const json_t *p = json_array_get(list, (size_t)i);
        const char *kind = reader_text(r, p, "kind");
        int k = 0;
        while (kind && k < 5 && strcmp(kind, kinds[k]) != 0) k++;
        if (kind && k == 5) reader_bad(r, "parameter", kind, "pos, any, kw, star or dstar");
        out[i].name = reader_text(r, p, "name");
        out[i].kind = (enum api_param_kind)k;
        out[i].dflt = reader_expr_or_null(r, p, "default");
        out[i].type = reader_expr_or_null(r, p, "type");
    }
    return out;
}
