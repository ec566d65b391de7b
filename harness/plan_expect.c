/* plan_expect.c: `expect` of a step; see plan.h. */
#include "core/ops.h"
#include "harness/plan_parse.h"

#include <stdio.h>
#include <string.h>

static enum err_code read_op(struct plan_reader *r, const struct yaml_node *n, const char **out)
{
    char found[96];
    *out = plan_scalar(r, n);
    if (!*out) return r->err->code;
    if (op_find(*out) || strcmp(*out, "unknown") == 0) return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", *out);
    return plan_bad(r, n, found, "the name of an op (assay op --list)");
}

static enum err_code read_guilty(struct plan_reader *r, const struct yaml_node *n,
                                 struct plan_expect *x)
{
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(c->key, "op") == 0)
            rc = read_op(r, c, &x->guilty_op);
        else if (strcmp(c->key, "layer") == 0)
            rc = plan_int(r, c, -1, INT32_MAX, &x->guilty_layer);
        else
            rc = plan_bad_key(r, c, "op or layer");
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

static enum err_code read_first(struct plan_reader *r, const struct yaml_node *n,
                                struct plan_expect *x)
{
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(c->key, "op") == 0)
            rc = read_op(r, c, &x->first_op);
        else if (strcmp(c->key, "tap") == 0)
            x->first_tap = plan_scalar(r, c);
        else if (strcmp(c->key, "layer") == 0)
            rc = plan_int(r, c, -1, INT32_MAX, &x->first_layer);
        else if (strcmp(c->key, "row") == 0)
            rc = plan_int(r, c, 0, INT64_MAX, &x->first_row);
        else
            rc = plan_bad_key(r, c, "tap, op, layer or row");
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

static enum err_code read_verdict(struct plan_reader *r, const struct yaml_node *n,
                                  struct plan_expect *x)
{
    char found[96];
    x->verdict = plan_scalar(r, n);
    if (!x->verdict) return r->err->code;
    if (strcmp(x->verdict, "pass") == 0 || strcmp(x->verdict, "fail") == 0 ||
        strcmp(x->verdict, "error") == 0)
        return ERR_OK;
    snprintf(found, sizeof found, "\"%.60s\"", x->verdict);
    return plan_bad(r, n, found, "pass, fail or error");
}

/* One of the parts says what the others leave open; two that disagree are an error. */
static enum err_code settle(struct plan_reader *r, const struct plan_step *s,
                            const struct yaml_node *n, struct plan_expect *x)
{
    const char *by_exit = x->exit < 0    ? NULL
                          : x->exit == 0 ? "pass"
                          : x->exit == 1 ? "fail"
                                         : "error";
    bool place = x->guilty_op || x->first_tap || x->first_op || x->diagnosis ||
                 x->guilty_layer != PLAN_ANY || x->first_layer != PLAN_ANY ||
                 x->first_row != PLAN_ANY;
    if (place && s->kind != PLAN_DIFF)
        return plan_bad(r, n, "guilty, first or diagnosis", "these in a diff alone");
    if (!x->verdict) x->verdict = by_exit ? by_exit : place ? "fail" : NULL;
    if (by_exit && strcmp(by_exit, x->verdict) != 0)
        return plan_bad(r, n, "an exit that contradicts the verdict",
                        "pass with 0, fail with 1, error with 2, 3 or 4");
    if (place && strcmp(x->verdict, "fail") != 0)
        return plan_bad(r, n, "guilty, first or diagnosis without a failure",
                        "verdict: fail beside them");
    return ERR_OK;
}

enum err_code plan_step_expect(struct plan_reader *r, struct plan_step *s,
                               const struct yaml_node *n)
{
    struct plan_expect *x = &s->expect;
    int64_t status;
    x->given = true;
    x->at = plan_place_of(n);
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        enum err_code rc = ERR_OK;
        if (strcmp(c->key, "verdict") == 0) {
            rc = read_verdict(r, c, x);
        } else if (strcmp(c->key, "exit") == 0) {
            rc = plan_int(r, c, 0, 4, &status);
            if (rc == ERR_OK) x->exit = (int)status;
        } else if (strcmp(c->key, "guilty") == 0) {
            rc = read_guilty(r, c, x);
        } else if (strcmp(c->key, "first") == 0) {
            rc = read_first(r, c, x);
        } else if (strcmp(c->key, "diagnosis") == 0) {
            x->diagnosis = plan_scalar(r, c);
        } else {
            rc = plan_bad_key(r, c, "verdict, guilty, first, diagnosis or exit");
        }
        if (rc != ERR_OK || r->err->code != ERR_OK) return r->err->code;
    }
    return settle(r, s, n, x);
}
