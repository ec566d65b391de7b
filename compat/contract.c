/* contract.c: see contract.h. core/yaml.h gives a tree of texts; no text is a number until it is
 * parsed here. */
#include "compat/contract.h"

#include "core/file.h"
#include "core/text.h"
#include "core/yaml.h"

#include <string.h>

struct reader {
    const char *path;
    struct err *err;
};

/* At the value: it is there and wrong. */
static enum err_code bad(struct reader *r, const struct yaml_node *n, const char *what,
                         const char *found, const char *wanted)
{
    return yaml_bad(r->path, n, what, found, wanted, r->err);
}

/* At the key: the key itself is wrong, or something is missing below it. */
static enum err_code bad_key(struct reader *r, const struct yaml_node *n, const char *what,
                             const char *found, const char *wanted)
{
    return yaml_bad_key(r->path, n, what, found, wanted, r->err);
}

/* The text of a node, never empty; NULL with the error set. */
static const char *text_of(struct reader *r, const struct yaml_node *n, const char *what)
{
    if (n->kind != YAML_TEXT)
        (void)bad(r, n, what, yaml_kind_name(n), "a text");
    else if (!n->text[0]) /* where nothing stands only the key has a place */
        (void)bad_key(r, n, what, "an empty text", "a text");
    else
        return n->text;
    return NULL;
}

/* A list, or a mapping without an empty key. */
static enum err_code want_kind(struct reader *r, const struct yaml_node *n, enum yaml_kind kind,
                               const char *what)
{
    const char *wanted = kind == YAML_MAP ? "a mapping" : "a list";
    if (n->kind == YAML_TEXT && !n->text[0]) return bad_key(r, n, what, yaml_kind_name(n), wanted);
    if (n->kind != kind) return bad(r, n, what, yaml_kind_name(n), wanted);
    if (kind == YAML_LIST) return ERR_OK;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        if (!c->key[0]) return bad_key(r, c, "contract key", "an empty text", "a text");
    }
    return ERR_OK;
}

static enum err_code read_ports(struct reader *r, const struct yaml_node *map,
                                struct contract_port *port, int *count)
{
    if (want_kind(r, map, YAML_MAP, "contract ports") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = map->child; n; n = n->next) {
        if (*count == CONTRACT_PORTS)
            return bad_key(r, n, "contract ports", "one too many", "at most 16");
        const char *shape = text_of(r, n, "contract port");
        if (!shape) return r->err->code;
        if (shape[0] != '[' && strcmp(shape, "scalar") != 0)
            return bad(r, n, "contract port", shape, "\"[rows, columns] type\" or \"scalar\"");
        port[(*count)++] = (struct contract_port){n->key, shape};
    }
    return ERR_OK;
}

static enum err_code read_number(struct reader *r, const struct yaml_node *n, double *out)
{
    const char *text = text_of(r, n, "contract limit");
    if (!text) return r->err->code;
    if (!text_double(text, out))
        return bad(r, n, "contract limit", text, "a number and nothing behind it");
    return ERR_OK;
}

static enum err_code read_limit(struct reader *r, const struct yaml_node *map,
                                struct contract_limit *out)
{
    if (want_kind(r, map, YAML_MAP, "contract limit") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = map->child; n; n = n->next) {
        bool min = strcmp(n->key, "min") == 0;
        if (!min && strcmp(n->key, "max") != 0)
            return bad_key(r, n, "contract limit", n->key, "min or max");
        if (read_number(r, n, min ? &out->min : &out->max) != ERR_OK) return r->err->code;
        *(min ? &out->has_min : &out->has_max) = true;
    }
    if (!out->has_min && !out->has_max)
        return bad_key(r, map, "contract limit", "neither", "min or max");
    if (out->has_min && out->has_max && out->min > out->max)
        return bad_key(r, map, "contract limit", "min above max", "min up to max");
    return ERR_OK;
}

static enum err_code read_limits(struct reader *r, const struct yaml_node *map,
                                 struct contract_op *op)
{
    if (want_kind(r, map, YAML_MAP, "contract limits") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = map->child; n; n = n->next) {
        if (op->limits == CONTRACT_LIMITS)
            return bad_key(r, n, "contract limits", "one too many", "at most 32");
        struct contract_limit *limit = &op->limit[op->limits++];
        limit->key = n->key;
        if (read_limit(r, n, limit) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

static enum err_code read_rules(struct reader *r, const struct yaml_node *list,
                                struct contract_op *op)
{
    if (want_kind(r, list, YAML_LIST, "contract rules") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = list->child; n; n = n->next) {
        if (op->rules == CONTRACT_RULES)
            return bad(r, n, "contract rules", "one too many", "at most 16");
        const char *rule = text_of(r, n, "contract rule");
        if (!rule) return r->err->code;
        op->rule[op->rules++] = rule;
    }
    return ERR_OK;
}

static enum err_code read_op(struct reader *r, const struct yaml_node *map, struct contract_op *op)
{
    if (want_kind(r, map, YAML_MAP, "contract op") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = map->child; n; n = n->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(n->key, "formula") == 0)
            op->formula = text_of(r, n, "contract formula");
        else if (strcmp(n->key, "inputs") == 0)
            rc = read_ports(r, n, op->input, &op->inputs);
        else if (strcmp(n->key, "outputs") == 0)
            rc = read_ports(r, n, op->output, &op->outputs);
        else if (strcmp(n->key, "limits") == 0)
            rc = read_limits(r, n, op);
        else if (strcmp(n->key, "rules") == 0)
            rc = read_rules(r, n, op);
        else
            rc = bad_key(r, n, "contract op", n->key, "formula, inputs, outputs, limits or rules");
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code; /* text_of() has no rc */
    }
    if (!op->formula) return bad_key(r, map, "contract op", "no formula", "a formula");
    if (!op->inputs || !op->outputs || !op->limits)
        return bad_key(r, map, "contract op", "a part is missing or empty",
                       "inputs, outputs and limits");
    return ERR_OK;
}

static enum err_code read_ops(struct reader *r, const struct yaml_node *map, struct contract *out)
{
    if (want_kind(r, map, YAML_MAP, "contract ops") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = map->child; n; n = n->next) {
        if (out->ops == CONTRACT_OPS)
            return bad_key(r, n, "contract ops", "one too many", "at most 8");
        struct contract_op *op = &out->op[out->ops++];
        op->name = n->key;
        if (read_op(r, n, op) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

/* {case: ..., error: ...} */
static enum err_code read_reject(struct reader *r, const struct yaml_node *map,
                                 struct contract_case *out)
{
    if (want_kind(r, map, YAML_MAP, "contract reject") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = map->child; n; n = n->next) {
        bool line = strcmp(n->key, "case") == 0;
        if (!line && strcmp(n->key, "error") != 0)
            return bad_key(r, n, "contract reject", n->key, "case or error");
        *(line ? &out->line : &out->error) = text_of(r, n, "contract reject");
        if (r->err->code != ERR_OK) return r->err->code;
    }
    if (!out->line || !out->error)
        return bad(r, map, "contract reject", "one of the two", "case and error");
    return ERR_OK;
}

static enum err_code read_cases(struct reader *r, const struct yaml_node *list, bool reject,
                                struct contract_case *out, int *count)
{
    const char *what = reject ? "contract reject" : "contract accept";
    if (want_kind(r, list, YAML_LIST, what) != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = list->child; n; n = n->next) {
        if (*count == CONTRACT_CASES) return bad(r, n, what, "one too many", "at most 64");
        struct contract_case *c = &out[(*count)++];
        c->at = n->line;
        if (reject && read_reject(r, n, c) != ERR_OK) return r->err->code;
        if (!reject && !(c->line = text_of(r, n, what))) return r->err->code;
    }
    return *count ? ERR_OK : bad_key(r, list, what, "an empty list", "at least one case");
}

static enum err_code read_root(struct reader *r, const struct yaml_node *root, struct contract *out)
{
    if (want_kind(r, root, YAML_MAP, "contract") != ERR_OK) return r->err->code;
    for (const struct yaml_node *n = root->child; n; n = n->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(n->key, "stem") == 0)
            out->stem = text_of(r, n, "contract stem");
        else if (strcmp(n->key, "ops") == 0)
            rc = read_ops(r, n, out);
        else if (strcmp(n->key, "accept") == 0)
            rc = read_cases(r, n, false, out->accept, &out->accepts);
        else if (strcmp(n->key, "reject") == 0)
            rc = read_cases(r, n, true, out->reject, &out->rejects);
        else
            rc = bad_key(r, n, "contract", n->key, "stem, ops, accept or reject");
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code; /* text_of() has no rc */
    }
    if (!out->stem || !out->ops || !out->accepts || !out->rejects)
        return bad(r, root, "contract", "a part is missing", "stem, ops, accept and reject");
    return ERR_OK;
}

enum err_code contract_read(struct contract *out, const char *path, struct arena *a,
                            struct err *err)
{
    struct reader r = {.path = path, .err = err};
    struct yaml_node *root;
    struct file_map file;
    *out = (struct contract){0};
    if (file_map(path, &file, err) != ERR_OK) return err->code;
    if (file.size == 0)
        return err_set(err, ERR_INPUT, "read contract|%s|an empty file|a contract", path);
    enum err_code rc = yaml_parse((const char *)file.data, file.size, path, a, &root, err);
    file_unmap(&file);
    return rc == ERR_OK ? read_root(&r, root, out) : rc;
}
