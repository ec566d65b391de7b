/* uses_stmt.c: the statements of uses.h. */
#include "compat/uses_parts.h"

#include "core/text.h"

#include <string.h>

static const char *const kind_name[] = {
    [STMT_IMPORT] = "import", [STMT_FROM] = "from",
    [STMT_ASSIGN] = "assign", [STMT_AUGASSIGN] = "augassign",
    [STMT_EXPR] = "expr",     [STMT_RETURN] = "return",
    [STMT_IF] = "if",         [STMT_WHILE] = "while",
    [STMT_FOR] = "for",       [STMT_TRY] = "try",
    [STMT_WITH] = "with",     [STMT_DEF] = "def",
    [STMT_CLASS] = "class",   [STMT_RAISE] = "raise",
    [STMT_ASSERT] = "assert", [STMT_DEL] = "del",
    [STMT_GLOBAL] = "global", [STMT_MATCH] = "match",
    [STMT_BREAK] = "break",   [STMT_CONTINUE] = "continue",
    [STMT_PASS] = "pass",
};
enum { KINDS = sizeof kind_name / sizeof kind_name[0] };

static int kind_of(struct reader *r, const json_t *node)
{
    const char *s = reader_text(r, node, "s");
    if (!s) return -1;
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(s, kind_name[i]) == 0) return i;
    }
    reader_bad(r, "statement", s, "a kind that this version knows");
    return -1;
}

static const char *copy(struct reader *r, const json_t *text)
{
    return pool_text(r->pool, json_string_value(text), json_string_length(text), r->err);
}

static void read_imports(struct reader *r, const json_t *node, struct stmt *s)
{
    const json_t *list = reader_list(r, node, "names", &s->imports);
    s->import = reader_take(r, s->imports, sizeof *s->import);
    for (int i = 0; i < s->imports && reader_ok(r); i++) {
        const json_t *row = json_array_get(list, (size_t)i), *name = json_array_get(row, 0),
                     *as = json_array_get(row, 1), *line = json_array_get(row, 2);
        if (!json_is_string(name) || (as && !json_is_null(as) && !json_is_string(as))) {
            reader_bad(r, "import", "another form", "[name, as or null]");
            return;
        }
        s->import[i].name = copy(r, name);
        if (json_is_string(as)) s->import[i].as = copy(r, as);
        s->import[i].line = json_is_integer(line) ? (int)json_integer_value(line) : s->line;
    }
}

static void read_items(struct reader *r, const json_t *node, struct stmt *s)
{
    const json_t *list = reader_list(r, node, "items", &s->targets);
    s->target = reader_take(r, s->targets, sizeof *s->target);
    s->as = reader_take(r, s->targets, sizeof *s->as);
    for (int i = 0; i < s->targets && reader_ok(r); i++) {
        const json_t *row = json_array_get(list, (size_t)i), *as = json_array_get(row, 1);
        s->target[i] = reader_expr(r, json_array_get(row, 0));
        if (as && !json_is_null(as)) s->as[i] = reader_expr(r, as);
    }
}

static void read_handlers(struct reader *r, const json_t *node, struct stmt *s)
{
    const json_t *list = reader_list(r, node, "handlers", &s->handlers);
    s->handler = reader_take(r, s->handlers, sizeof *s->handler);
    for (int i = 0; i < s->handlers && reader_ok(r); i++) {
        const json_t *h = json_array_get(list, (size_t)i), *line = json_object_get(h, "line");
        s->handler[i].type = reader_expr_or_null(r, h, "type");
        s->handler[i].as = reader_text_or_null(r, h, "as");
        s->handler[i].body = reader_block(r, h, "body");
        s->handler[i].line = json_is_integer(line) ? (int)json_integer_value(line) : s->line;
    }
}

static void read_cases(struct reader *r, const json_t *node, struct stmt *s)
{
    const json_t *list = reader_list(r, node, "cases", &s->branches);
    s->branch = reader_take(r, s->branches, sizeof *s->branch);
    for (int i = 0; i < s->branches && reader_ok(r); i++) {
        const json_t *c = json_array_get(list, (size_t)i);
        s->branch[i].name = reader_texts(r, c, "names", &s->branch[i].names);
        s->branch[i].guard = reader_expr_or_null(r, c, "guard");
        s->branch[i].body = reader_block(r, c, "body");
    }
}

static void read_definition(struct reader *r, const json_t *node, struct stmt *s)
{
    s->id = r->defs++;
    s->name = reader_text(r, node, "name");
    s->decorator = reader_exprs(r, node, "decorators", &s->decorators);
    s->body = reader_block(r, node, "body");
    if (s->kind == STMT_DEF) {
        s->param = reader_params(r, node, &s->params);
        s->type = reader_expr_or_null(r, node, "returns");
        s->async = json_is_true(json_object_get(node, "async"));
    } else {
        s->base = reader_exprs(r, node, "bases", &s->bases);
        s->keyword = reader_keywords(r, node, "keywords", &s->keywords);
    }
}

static void read_one_target(struct reader *r, const json_t *node, struct stmt *s)
{
    s->target = reader_take(r, 1, sizeof *s->target);
    if (s->target) s->target[0] = reader_expr_at(r, node, "target");
    s->targets = 1;
}

static void read_flow(struct reader *r, const json_t *node, struct stmt *s)
{
    s->async = json_is_true(json_object_get(node, "async"));
    if (s->kind == STMT_FOR) {
        read_one_target(r, node, s);
        s->value = reader_expr_at(r, node, "iter");
    } else if (s->kind == STMT_WITH) {
        read_items(r, node, s);
    } else if (s->kind == STMT_TRY) {
        read_handlers(r, node, s);
        s->last = reader_block(r, node, "finally");
    } else {
        s->value = reader_expr_at(r, node, "test");
    }
    s->body = reader_block(r, node, "body");
    s->other = reader_block(r, node, "else");
}

static void read_simple(struct reader *r, const json_t *node, struct stmt *s)
{
    if (s->kind == STMT_AUGASSIGN) read_one_target(r, node, s);
    if (s->kind == STMT_ASSIGN || s->kind == STMT_DEL)
        s->target = reader_exprs(r, node, "targets", &s->targets);
    if (s->kind == STMT_ASSIGN) s->type = reader_expr_or_null(r, node, "type");
    if (s->kind == STMT_ASSERT) s->type = reader_expr_or_null(r, node, "message");
    if (s->kind == STMT_RAISE) s->type = reader_expr_or_null(r, node, "cause");
    if (s->kind == STMT_ASSERT)
        s->value = reader_expr_at(r, node, "test");
    else if (s->kind != STMT_DEL)
        s->value = reader_expr_or_null(r, node, "value");
}

static void read_kind(struct reader *r, const json_t *node, struct stmt *s)
{
    switch (s->kind) {
    case STMT_FROM:
        s->name = reader_text_or_null(r, node, "module");
        s->level = reader_int(r, node, "level");
        read_imports(r, node, s);
        break;
    case STMT_IMPORT:
        read_imports(r, node, s);
        break;
    case STMT_IF:
    case STMT_WHILE:
    case STMT_FOR:
    case STMT_TRY:
    case STMT_WITH:
        read_flow(r, node, s);
        break;
    case STMT_DEF:
    case STMT_CLASS:
        read_definition(r, node, s);
        break;
    case STMT_GLOBAL:
        s->global = reader_texts(r, node, "names", &s->globals);
        break;
    case STMT_MATCH:
        s->value = reader_expr_at(r, node, "value");
        read_cases(r, node, s);
        break;
    default:
        read_simple(r, node, s);
    }
}

static void accept(struct reader *r, int line, const char *reason)
{
    struct uses_accept *a = reader_take(r, 1, sizeof *a);
    if (!a) return;
    *a = (struct uses_accept){.line = line, .text = reason, .next = r->accept};
    r->accept = a;
}

static void read_accepts(struct reader *r, const json_t *node, const struct stmt *s)
{
    const char *reason = reader_text_or_null(r, node, "suppress"), *line;
    const json_t *lines = json_object_get(node, "suppress_lines");
    json_t *text;
    if (reason) accept(r, s->line, reason);
    json_object_foreach((json_t *)lines, line, text)
    {
        int64_t at;
        if (!text_int(line, &at) || at < 1 || at > INT32_MAX || !json_is_string(text))
            reader_bad(r, "suppress_lines", line, "a line and its reason");
        else if (!reason || at != s->line)
            accept(r, (int)at, copy(r, text));
    }
}

static void read_stmt(struct reader *r, const json_t *node, struct stmt *s)
{
    if (reader_enter(r, node, "statement")) {
        int kind = kind_of(r, node);
        if (kind >= 0) {
            s->kind = (enum stmt_kind)kind;
            s->line = r->line;
            read_accepts(r, node, s);
            read_kind(r, node, s);
        }
    }
    r->depth--;
}

struct block reader_block(struct reader *r, const json_t *o, const char *key)
{
    struct block b = {0};
    const json_t *list = reader_list(r, o, key, &b.stmts);
    b.stmt = reader_take(r, b.stmts, sizeof *b.stmt);
    for (int i = 0; i < b.stmts && reader_ok(r); i++) {
        read_stmt(r, json_array_get(list, (size_t)i), &b.stmt[i]);
    }
    return reader_ok(r) ? b : (struct block){0};
}
