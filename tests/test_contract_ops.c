/* test_contract_ops.c: the contracts under compat/ops are true: every accept case runs on the
 * reference and agrees with the naive oracle, every reject case gives the message that is written
 * beside it, limits refuse what lies outside them, and the outputs that are named are the ones that
 * a case makes. */
#include "core/cover.h"
#include "compat/contract.h"
#include "core/ops.h"
#include "harness/op_run.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const stems[] = {"embed",  "norm", "rope", "linear", "int4", "mla",
                                    "router", "mlp",  "moe",  "logits", "eagle"};
enum { STEMS = sizeof stems / sizeof stems[0] };

static struct contract *read_contract(const char *stem, struct arena *a)
{
    char path[1024];
    struct err err = ERR_INIT;
    struct contract *c = calloc(1, sizeof *c);
    assert_non_null(c);
    snprintf(path, sizeof path, "%s/compat/ops/%s.yaml", ASSAY_SOURCE_DIR, stem);
    if (contract_read(c, path, a, &err) != ERR_OK) assert_ok(&err);
    assert_string_equal(c->stem, stem);
    return c;
}

static void each_contract(void (*body)(const struct contract *))
{
    for (int i = 0; i < STEMS; i++) {
        struct arena a = ARENA_INIT;
        struct contract *c = read_contract(stems[i], &a);
        body(c);
        free(c);
        arena_release(&a, NULL);
    }
}

static const struct contract_op *op_of(const struct contract *c, const char *name)
{
    for (int i = 0; i < c->ops; i++) {
        if (strcmp(c->op[i].name, name) == 0) return &c->op[i];
    }
    return NULL;
}

/* What running a line says: ERR_OK, or the error of the parser, the builder or a side. */
static void run_line(const char *line, struct op_result *r, struct err *err)
{
    struct op_case c;
    const struct op_subject subject[2] = {{.side = ref_side()}, {.side = naive_side()}};
    *r = (struct op_result){.verdict = OP_ERROR, .err = ERR_INIT};
    if (case_parse(&c, line, err) != ERR_OK) return;
    if (op_run_case(&c, subject, 2, r, err) != ERR_OK) return;
    if (r->verdict == OP_ERROR) *err = r->err;
}

static void accepted(const struct contract *c)
{
    for (int i = 0; i < c->accepts; i++) {
        struct op_result r;
        struct err err = ERR_INIT;
        run_line(c->accept[i].line, &r, &err);
        if (err.code != ERR_OK || r.verdict != OP_OK || r.compared == 0)
            fprintf(stderr, "%s.yaml:%d: %s\n", c->stem, c->accept[i].at, c->accept[i].line);
        assert_ok(&err);
        assert_int_equal(r.verdict, OP_OK);
        assert_true(r.compared > 0);
    }
}

static void accept_cases__agree_with_naive(void **state)
{
    (void)state;
    each_contract(accepted);
}

static void refused(const struct contract *c)
{
    for (int i = 0; i < c->rejects; i++) {
        struct op_result r;
        struct err err = ERR_INIT;
        char text[ERR_LINE];
        run_line(c->reject[i].line, &r, &err);
        err_line(&err, text, sizeof text);
        bool matches = err.code != ERR_OK && strstr(text, c->reject[i].error) != NULL;
        if (!matches) {
            fprintf(stderr, "%s.yaml:%d: %s\n    wanted: %s\n    got:    %s\n", c->stem,
                    c->reject[i].at, c->reject[i].line, c->reject[i].error, text);
        }
        assert_true(matches);
        assert_true(err.what[0] && err.found[0] && err.wanted[0]);
        assert_int_equal(err_exit(err.code), 2);
    }
    for (int i = 0; i < c->ops; i++) cover_note(c->op[i].name, COVER_CONTRACT);
}

static void reject_cases__give_their_message(void **state)
{
    (void)state;
    each_contract(refused);
}

static void reject_cases__are_refused_by_naive_too(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    int looked_at = 0;
    for (int i = 0; i < STEMS; i++) {
        struct contract *c = read_contract(stems[i], &a);
        for (int k = 0; k < c->rejects; k++) {
            struct op_case line;
            struct op_result r;
            struct err err = ERR_INIT;
            const struct op_subject subject[2] = {{.side = naive_side()}, {.side = ref_side()}};
            if (case_parse(&line, c->reject[k].line, &err) != ERR_OK) continue;
            if (op_run_case(&line, subject, 2, &r, &err) != ERR_OK) continue;
            looked_at++;
            assert_int_equal(r.verdict, OP_ERROR);
            assert_string_equal(r.side, "naive");
        }
        free(c);
    }
    assert_true(looked_at >= 59);
    arena_release(&a, NULL);
}

/* "OP KEY=VALUE" must be refused, by whoever comes first, with a message. */
static void refuses(const struct contract *c, const char *op, const char *key, double value)
{
    char line[128];
    struct op_result r;
    struct err err = ERR_INIT;
    snprintf(line, sizeof line, "%s %s=%.17g", op, key, value);
    run_line(line, &r, &err);
    if (err.code == ERR_OK)
        fprintf(stderr, "%s.yaml: %s was accepted outside its limits\n", c->stem, line);
    assert_int_not_equal(err.code, ERR_OK);
    assert_true(err.what[0] && err.found[0]);
}

static void limited(const struct contract *c)
{
    for (int i = 0; i < c->ops; i++) {
        const struct contract_op *op = &c->op[i];
        const struct case_op *schema = case_op_find(op->name);
        assert_non_null(schema);
        for (int k = 0; k < op->limits; k++) {
            const struct contract_limit *limit = &op->limit[k];
            const struct param_row *row = NULL;
            for (int p = 0; !row && case_param(schema, p); p++) {
                if (strcmp(case_param(schema, p)->key, limit->key) == 0)
                    row = case_param(schema, p);
            }
            if (!row) fprintf(stderr, "%s.yaml: limit of unknown key %s\n", c->stem, limit->key);
            assert_non_null(row);
            bool whole = row->kind == PARAM_INT;
            if (limit->has_min) refuses(c, op->name, limit->key, limit->min - (whole ? 1 : 1e-9));
            if (limit->has_max) refuses(c, op->name, limit->key, limit->max + (whole ? 1 : 1e-9));
        }
    }
}

static void limits__refuse_what_lies_outside(void **state)
{
    (void)state;
    each_contract(limited);
}

static void named(const struct contract *c)
{
    static const struct {
        enum dtype dtype;
        const char *word;
    } types[] = {{DT_F64, " f64"}, {DT_I32, " i32"}, {DT_I64, " i64"}, {DT_I8, " i8"}};
    for (int i = 0; i < c->accepts; i++) {
        struct op_case line;
        struct case_data data;
        struct err err = ERR_INIT;
        struct arena a = ARENA_INIT;
        if (case_parse(&line, c->accept[i].line, &err) != ERR_OK) assert_ok(&err);
        const struct contract_op *op = op_of(c, line.op->name);
        assert_non_null(op);
        if (case_make(&line, &a, &data, &err) != ERR_OK) assert_ok(&err);
        assert_int_equal(op->outputs, data.outputs);
        for (int k = 0; k < op->outputs; k++) {
            assert_string_equal(op->output[k].name, data.output[k].name);
            for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
                bool says = strstr(op->output[k].shape, types[t].word) != NULL;
                assert_int_equal(says, data.output[k].dtype == types[t].dtype);
            }
        }
        arena_release(&a, NULL);
    }
}

static void outputs__are_those_of_a_case(void **state)
{
    (void)state;
    each_contract(named);
}

static void ops__all_have_a_contract_an_accept_and_a_reject(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    for (int i = 0; i < op_count; i++) {
        const char *name = op_rows[i].name, *slash = strrchr(op_rows[i].contract, '/');
        size_t n = strlen(name);
        char stem[64];
        snprintf(stem, sizeof stem, "%s", slash + 1);
        stem[strlen(stem) - strlen(".yaml")] = '\0';
        struct contract *c = read_contract(stem, &a);
        assert_non_null(op_of(c, name));
        int accepts = 0, rejects = 0;
        for (int k = 0; k < c->accepts; k++) {
            const char *line = c->accept[k].line;
            accepts += strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '\0');
        }
        for (int k = 0; k < c->rejects; k++) {
            const char *line = c->reject[k].line;
            rejects += strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '\0');
        }
        assert_true(accepts > 0);
        assert_true(rejects > 0);
        free(c);
    }
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_cases__agree_with_naive),
        cmocka_unit_test(reject_cases__give_their_message),
        cmocka_unit_test(reject_cases__are_refused_by_naive_too),
        cmocka_unit_test(limits__refuse_what_lies_outside),
        cmocka_unit_test(outputs__are_those_of_a_case),
        cmocka_unit_test(ops__all_have_a_contract_an_accept_and_a_reject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
