/* contract.c: see contract.h. libfyaml gives a tree of nodes; all numbers stay text until they are
 * parsed here. */
#include "compat/contract.h"

#include "core/file.h"
#include "core/text.h"

#include <libfyaml.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const char *path;
    struct arena *arena;
    struct err *err;
};

/* The first scalar at or below a node has a place in the file. */
static const struct fy_mark *mark_of(struct fy_node *n)
{
    void *it = NULL;
    struct fy_node_pair *pair;
    for (int depth = 0; n && depth < 64; depth++, it = NULL) {
        if (fy_node_get_type(n) == FYNT_SCALAR) {
            struct fy_token *token = fy_node_get_scalar_token(n);
            return token ? fy_token_start_mark(token) : NULL;
        }
        if (fy_node_get_type(n) == FYNT_SEQUENCE) {
            n = fy_node_sequence_iterate(n, &it);
        } else {
            pair = fy_node_mapping_iterate(n, &it);
            n = pair ? fy_node_pair_key(pair) : NULL;
        }
    }
    return NULL;
}

static enum err_code bad(struct reader *r, struct fy_node *at, const char *what, const char *found,
                         const char *wanted)
{
    const struct fy_mark *mark = at ? mark_of(at) : NULL;
    if (!mark) return err_set(r->err, ERR_INPUT, "%s|%s|%s|%s", what, r->path, found, wanted);
    return err_set(r->err, ERR_INPUT, "%s|%s:%d:%d|%s|%s", what, r->path, mark->line + 1,
                   mark->column + 1, found, wanted);
}

static const char *kind_of(struct fy_node *n)
{
    if (!n) return "nothing";
    switch (fy_node_get_type(n)) {
    case FYNT_SCALAR:
        return fy_node_is_alias(n) ? "an alias" : "a text";
    case FYNT_SEQUENCE:
        return "a list";
    default:
        return "a mapping";
    }
}

static const char *text_of(struct reader *r, struct fy_node *n, struct fy_node *key,
                           const char *what)
{
    size_t length = 0;
    bool plain = n && fy_node_get_type(n) == FYNT_SCALAR && !fy_node_is_alias(n);
    const char *text = plain ? fy_node_get_scalar(n, &length) : NULL;
    if (!text || length == 0) {
        (void)bad(r, n && !plain ? n : key, what, plain ? "an empty text" : kind_of(n), "a text");
        return NULL;
    }
    if (memchr(text, '\0', length)) {
        (void)bad(r, n, what, "a NUL byte", "a text");
        return NULL;
    }
    char *copy = arena_alloc(r->arena, (int64_t)length + 1, 1, "contract", r->err);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

/* The next pair of a mapping; false at its end or on an error. */
static bool next_pair(struct reader *r, struct fy_node *map, void **it, const char **key,
                      struct fy_node **key_node, struct fy_node **value)
{
    struct fy_node_pair *pair = fy_node_mapping_iterate(map, it);
    if (!pair) return false;
    *key_node = fy_node_pair_key(pair);
    *value = fy_node_pair_value(pair);
    *key = text_of(r, *key_node, map, "contract key");
    return *key != NULL;
}

static enum err_code want_kind(struct reader *r, struct fy_node *n, struct fy_node *key,
                               enum fy_node_type type, const char *what)
{
    if (n && fy_node_get_type(n) == type) return ERR_OK;
    return bad(r, n ? n : key, what, kind_of(n), type == FYNT_MAPPING ? "a mapping" : "a list");
}

static enum err_code read_ports(struct reader *r, struct fy_node *map, struct fy_node *at,
                                struct contract_port *port, int *count)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, map, at, FYNT_MAPPING, "contract ports") != ERR_OK) return r->err->code;
    while (next_pair(r, map, &it, &key, &key_node, &value)) {
        if (*count == CONTRACT_PORTS)
            return bad(r, key_node, "contract ports", "one too many", "at most 16");
        const char *shape = text_of(r, value, key_node, "contract port");
        if (!shape) return r->err->code;
        if (shape[0] != '[' && strcmp(shape, "scalar") != 0)
            return bad(r, value, "contract port", shape, "\"[rows, columns] type\" or \"scalar\"");
        port[(*count)++] = (struct contract_port){key, shape};
    }
    return r->err->code;
}

static enum err_code read_number(struct reader *r, struct fy_node *n, struct fy_node *key,
                                 double *out)
{
    const char *text = text_of(r, n, key, "contract limit");
    if (!text) return r->err->code;
    if (!text_double(text, out))
        return bad(r, n, "contract limit", text, "a number and nothing behind it");
    return ERR_OK;
}

static enum err_code read_limit(struct reader *r, struct fy_node *map, struct fy_node *at,
                                struct contract_limit *out)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, map, at, FYNT_MAPPING, "contract limit") != ERR_OK) return r->err->code;
    while (next_pair(r, map, &it, &key, &key_node, &value)) {
        bool min = strcmp(key, "min") == 0;
        if (!min && strcmp(key, "max") != 0)
            return bad(r, key_node, "contract limit", key, "min or max");
        if (read_number(r, value, key_node, min ? &out->min : &out->max) != ERR_OK)
            return r->err->code;
        *(min ? &out->has_min : &out->has_max) = true;
    }
    if (r->err->code != ERR_OK) return r->err->code;
    if (!out->has_min && !out->has_max)
        return bad(r, at, "contract limit", "neither", "min or max");
    if (out->has_min && out->has_max && out->min > out->max)
        return bad(r, at, "contract limit", "min above max", "min up to max");
    return ERR_OK;
}

static enum err_code read_limits(struct reader *r, struct fy_node *map, struct fy_node *at,
                                 struct contract_op *op)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, map, at, FYNT_MAPPING, "contract limits") != ERR_OK) return r->err->code;
    while (next_pair(r, map, &it, &key, &key_node, &value)) {
        if (op->limits == CONTRACT_LIMITS)
            return bad(r, key_node, "contract limits", "one too many", "at most 32");
        struct contract_limit *limit = &op->limit[op->limits++];
        limit->key = key;
        if (read_limit(r, value, key_node, limit) != ERR_OK) return r->err->code;
    }
    return r->err->code;
}

static enum err_code read_rules(struct reader *r, struct fy_node *list, struct fy_node *at,
                                struct contract_op *op)
{
    void *it = NULL;
    struct fy_node *n;
    if (want_kind(r, list, at, FYNT_SEQUENCE, "contract rules") != ERR_OK) return r->err->code;
    while ((n = fy_node_sequence_iterate(list, &it))) {
        if (op->rules == CONTRACT_RULES)
            return bad(r, n, "contract rules", "one too many", "at most 16");
        const char *rule = text_of(r, n, at, "contract rule");
        if (!rule) return r->err->code;
        op->rule[op->rules++] = rule;
    }
    return ERR_OK;
}

static enum err_code read_op(struct reader *r, struct fy_node *map, struct fy_node *at,
                             struct contract_op *op)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, map, at, FYNT_MAPPING, "contract op") != ERR_OK) return r->err->code;
    while (next_pair(r, map, &it, &key, &key_node, &value)) {
        enum err_code rc = ERR_OK;
        if (strcmp(key, "formula") == 0)
            op->formula = text_of(r, value, key_node, "contract formula");
        else if (strcmp(key, "inputs") == 0)
            rc = read_ports(r, value, key_node, op->input, &op->inputs);
        else if (strcmp(key, "outputs") == 0)
            rc = read_ports(r, value, key_node, op->output, &op->outputs);
        else if (strcmp(key, "limits") == 0)
            rc = read_limits(r, value, key_node, op);
        else if (strcmp(key, "rules") == 0)
            rc = read_rules(r, value, key_node, op);
        else
            rc = bad(r, key_node, "contract op", key, "formula, inputs, outputs, limits or rules");
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code;
    }
    if (r->err->code != ERR_OK) return r->err->code;
    if (!op->formula) return bad(r, at, "contract op", "no formula", "a formula");
    if (!op->inputs || !op->outputs || !op->limits)
        return bad(r, at, "contract op", "a part is missing or empty",
                   "inputs, outputs and limits");
    return ERR_OK;
}

static enum err_code read_ops(struct reader *r, struct fy_node *map, struct fy_node *at,
                              struct contract *out)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, map, at, FYNT_MAPPING, "contract ops") != ERR_OK) return r->err->code;
    while (next_pair(r, map, &it, &key, &key_node, &value)) {
        if (out->ops == CONTRACT_OPS)
            return bad(r, key_node, "contract ops", "one too many", "at most 8");
        struct contract_op *op = &out->op[out->ops++];
        op->name = key;
        if (read_op(r, value, key_node, op) != ERR_OK) return r->err->code;
    }
    return r->err->code;
}

/* {case: ..., error: ...} */
static enum err_code read_reject(struct reader *r, struct fy_node *map, struct fy_node *at,
                                 struct contract_case *out)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, map, at, FYNT_MAPPING, "contract reject") != ERR_OK) return r->err->code;
    while (next_pair(r, map, &it, &key, &key_node, &value)) {
        bool line = strcmp(key, "case") == 0;
        if (!line && strcmp(key, "error") != 0)
            return bad(r, key_node, "contract reject", key, "case or error");
        *(line ? &out->line : &out->error) = text_of(r, value, key_node, "contract reject");
        if (r->err->code != ERR_OK) return r->err->code;
    }
    if (r->err->code != ERR_OK) return r->err->code;
    if (!out->line || !out->error)
        return bad(r, map, "contract reject", "one of the two", "case and error");
    return ERR_OK;
}

static enum err_code read_cases(struct reader *r, struct fy_node *list, struct fy_node *at,
                                bool reject, struct contract_case *out, int *count)
{
    void *it = NULL;
    struct fy_node *n;
    const char *what = reject ? "contract reject" : "contract accept";
    if (want_kind(r, list, at, FYNT_SEQUENCE, what) != ERR_OK) return r->err->code;
    while ((n = fy_node_sequence_iterate(list, &it))) {
        if (*count == CONTRACT_CASES) return bad(r, n, what, "one too many", "at most 64");
        struct contract_case *c = &out[(*count)++];
        const struct fy_mark *mark = mark_of(n);
        c->at = mark ? mark->line + 1 : 0;
        if (reject && read_reject(r, n, at, c) != ERR_OK) return r->err->code;
        if (!reject && !(c->line = text_of(r, n, at, what))) return r->err->code;
    }
    return *count ? ERR_OK : bad(r, at, what, "an empty list", "at least one case");
}

static enum err_code read_root(struct reader *r, struct fy_node *root, struct contract *out)
{
    void *it = NULL;
    const char *key;
    struct fy_node *key_node, *value;
    if (want_kind(r, root, root, FYNT_MAPPING, "contract") != ERR_OK) return r->err->code;
    while (next_pair(r, root, &it, &key, &key_node, &value)) {
        enum err_code rc = ERR_OK;
        if (strcmp(key, "stem") == 0)
            out->stem = text_of(r, value, key_node, "contract stem");
        else if (strcmp(key, "ops") == 0)
            rc = read_ops(r, value, key_node, out);
        else if (strcmp(key, "accept") == 0)
            rc = read_cases(r, value, key_node, false, out->accept, &out->accepts);
        else if (strcmp(key, "reject") == 0)
            rc = read_cases(r, value, key_node, true, out->reject, &out->rejects);
        else
            rc = bad(r, key_node, "contract", key, "stem, ops, accept or reject");
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code;
    }
    if (r->err->code != ERR_OK) return r->err->code;
    if (!out->stem || !out->ops || !out->accepts || !out->rejects)
        return bad(r, root, "contract", "a part is missing", "stem, ops, accept and reject");
    return ERR_OK;
}

/* What the parser had to say: its first error, or a sentence when it gives none. */
static enum err_code syntax_error(struct reader *r, struct fy_diag *diag)
{
    void *it = NULL;
    struct fy_diag_error *e = fy_diag_errors_iterate(diag, &it);
    if (!e) return err_set(r->err, ERR_INPUT, "parse YAML|%s|no document|one document", r->path);
    return err_set(r->err, ERR_INPUT, "parse YAML|%s:%d:%d|%s|valid YAML", r->path, e->line,
                   e->column, e->msg && e->msg[0] ? e->msg : "an unnamed error");
}

static enum err_code read_stream(struct reader *r, struct fy_parser *parser, struct fy_diag *diag,
                                 struct contract *out)
{
    struct fy_document *document = fy_parse_load_document(parser);
    if (!document || !fy_document_root(document)) {
        fy_parse_document_destroy(parser, document);
        return syntax_error(r, diag);
    }
    enum err_code rc = read_root(r, fy_document_root(document), out);
    fy_parse_document_destroy(parser, document);
    if (rc != ERR_OK) return rc;
    struct fy_document *second = fy_parse_load_document(parser);
    if (second) {
        fy_parse_document_destroy(parser, second);
        return err_set(r->err, ERR_INPUT, "contract|%s|a second document|one", r->path);
    }
    return fy_diag_got_error(diag) ? syntax_error(r, diag) : ERR_OK;
}

enum err_code contract_read(struct contract *out, const char *path, struct arena *a,
                            struct err *err)
{
    struct reader r = {.path = path, .arena = a, .err = err};
    struct fy_diag_cfg diag_cfg;
    struct file_map file;
    *out = (struct contract){0};
    if (file_map(path, &file, err) != ERR_OK) return err->code;
    if (file.size == 0)
        return err_set(err, ERR_INPUT, "read contract|%s|an empty file|a contract", path);
    fy_diag_cfg_default(&diag_cfg);
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (diag) fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_DEFAULT_PARSE, .diag = diag};
    struct fy_parser *parser = diag ? fy_parser_create(&cfg) : NULL;
    enum err_code rc;
    if (!parser)
        rc = err_set(err, ERR_MEMORY, "parse YAML|%s|no parser|memory for one", path);
    else if (fy_parser_set_string(parser, (const char *)file.data, (size_t)file.size) != 0)
        rc = err_set(err, ERR_MEMORY, "parse YAML|%s|a refused buffer|memory for it", path);
    else
        rc = read_stream(&r, parser, diag, out);
    if (parser) fy_parser_destroy(parser);
    if (diag) fy_diag_destroy(diag);
    file_unmap(&file);
    return rc;
}
