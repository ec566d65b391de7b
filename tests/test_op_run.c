/* test_op_run.c: the judge of `assay op` goes red on sides that are wrong: each test hands it an
 * implementation with one mistake in it. And it stays green where two right ones differ: near ties
 * of a router. */
#include "core/int4.h"
#include "core/linear.h"
#include "core/norm.h"
#include "core/router.h"
#include "harness/op_run.h"
#include "tests/naive/naive.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static op_function *mistake_of; /* what the side under test does */

static enum err_code run_mistake(const void *op, struct run *run, struct err *err)
{
    return mistake_of(op, run, err);
}

/* Runs `line` on naive and on a side "ref" that does `mistake`. */
static void judge(const char *line, op_function *mistake, struct op_result *r)
{
    struct op_case c;
    struct err err = ERR_INIT;
    if (case_parse(&c, line, &err) != ERR_OK) assert_ok(&err);
    struct op_entry entries[2] = {{c.op->name, run_mistake}, {0}};
    struct op_side side = {.name = "ref", .available = true, .entries = entries};
    const struct op_subject subject[2] = {{.side = naive_side()}, {.side = &side}};
    mistake_of = mistake;
    if (op_run_case(&c, subject, 2, r, &err) != ERR_OK) assert_ok(&err);
}

static enum err_code norm_right(const void *op, struct run *run, struct err *err)
{
    return norm_naive(op, run, err);
}

static enum err_code norm_nothing(const void *op, struct run *run, struct err *err)
{
    (void)op, (void)run, (void)err;
    return ERR_OK;
}

static enum err_code norm_one_nan(const void *arg, struct run *run, struct err *err)
{
    const struct norm *op = arg;
    enum err_code rc = norm_naive(op, run, err);
    op->y[2 * op->H + 5] = NAN;
    return rc;
}

static enum err_code norm_one_infinity(const void *arg, struct run *run, struct err *err)
{
    const struct norm *op = arg;
    enum err_code rc = norm_naive(op, run, err);
    op->y[2 * op->H + 5] = INFINITY;
    return rc;
}

static enum err_code norm_one_ulp_too_many(const void *arg, struct run *run, struct err *err)
{
    const struct norm *op = arg;
    enum err_code rc = norm_naive(op, run, err);
    op->y[2 * op->H + 5] *= 1 + 0x1p-20;
    return rc;
}

/* The bound is two roundings to float32, 2^-23 of the value: this is half as much again. */
static enum err_code norm_just_past_its_bound(const void *arg, struct run *run, struct err *err)
{
    const struct norm *op = arg;
    enum err_code rc = norm_naive(op, run, err);
    op->y[2 * op->H + 5] *= 1 + 1.5 * 0x1p-23;
    return rc;
}

static enum err_code norm_just_within_its_bound(const void *arg, struct run *run, struct err *err)
{
    const struct norm *op = arg;
    enum err_code rc = norm_naive(op, run, err);
    op->y[2 * op->H + 5] *= 1 + 0.9 * 0x1p-23;
    return rc;
}

static enum err_code norm_rounded_to_bf16(const void *arg, struct run *run, struct err *err)
{
    const struct norm *op = arg;
    enum err_code rc = norm_naive(op, run, err);
    for (int64_t i = 0; i < op->T * op->H; i++) op->y[i] = dtype_round(DT_BF16, op->y[i]);
    return rc;
}

static enum err_code norm_other_eps(const void *arg, struct run *run, struct err *err)
{
    struct norm op = *(const struct norm *)arg;
    op.eps = 1e-5;
    return norm_naive(&op, run, err);
}

static enum err_code norm_refuses(const void *op, struct run *run, struct err *err)
{
    (void)op, (void)run;
    return err_set(err, ERR_INPUT, "norm||a bad mood|a good one");
}

static void result__is_ok__when_right(void **state)
{
    (void)state;
    struct op_result r;
    judge("norm T=4,H=64", norm_right, &r);
    assert_int_equal(r.verdict, OP_OK);
    assert_int_equal(r.compared, 4 * 64);
    assert_int_equal(r.outputs, 1);
    assert_non_null(strstr(r.output[0].from, "naive: forward error"));
    assert_non_null(strstr(r.output[0].from, "ref: forward error"));
    judge("norm T=4,H=64", norm_just_within_its_bound, &r);
    assert_int_equal(r.verdict, OP_OK);
    assert_int_equal(r.output[0].worst.row, 2);
    assert_int_equal(r.output[0].worst.col, 5);
}

static void result__fails_at_the_element__when_one_is_wrong(void **state)
{
    (void)state;
    op_function *const wrong[] = {norm_one_nan, norm_one_infinity, norm_one_ulp_too_many,
                                  norm_just_past_its_bound};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct op_result r;
        judge("norm T=4,H=64", wrong[i], &r);
        assert_int_equal(r.verdict, OP_FAIL);
        assert_true(r.output[0].failed);
        assert_int_equal(r.output[0].worst.row, 2);
        assert_int_equal(r.output[0].worst.col, 5);
    }
}

static void result__fails__when_nothing_was_written(void **state)
{
    (void)state;
    struct op_result r;
    judge("norm T=4,H=64", norm_nothing, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_true(isnan(r.output[0].worst.subject));
}

static void result__fails__when_rounded_or_with_another_eps(void **state)
{
    (void)state;
    struct op_result r;
    judge("norm T=4,H=64", norm_rounded_to_bf16, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    judge("norm T=4,H=64,eps=1e-06", norm_other_eps, &r);
    assert_int_equal(r.verdict, OP_FAIL);
}

static void result__is_error__when_a_side_refuses(void **state)
{
    (void)state;
    struct op_result r;
    judge("norm T=4,H=64", norm_refuses, &r);
    assert_int_equal(r.verdict, OP_ERROR);
    assert_string_equal(r.side, "ref");
    assert_err(&r.err, ERR_INPUT, "norm", NULL, "a bad mood", "a good one");
    assert_string_equal(r.err.note[0], "side ref");
}

static void result__is_not_implemented__when_a_side_lacks_the_op(void **state)
{
    (void)state;
    struct op_case c;
    struct err err = ERR_INIT;
    struct op_result r;
    static const struct op_entry none[] = {{0}};
    const struct op_side empty = {.name = "gpu", .available = true, .entries = none};
    const struct op_subject subject[2] = {{.side = naive_side()}, {.side = &empty}};
    case_defaults(&c, case_op_find("norm"));
    assert_int_equal(op_run_case(&c, subject, 2, &r, &err), ERR_OK);
    assert_int_equal(r.verdict, OP_NOT_IMPLEMENTED);
    assert_string_equal(r.side, "gpu");
    assert_int_equal(r.compared, 0);
}

/* ---- int4: exact ---- */

static enum err_code int4_off_by_one(const void *arg, struct run *run, struct err *err)
{
    const struct int4 *op = arg;
    enum err_code rc = int4_naive(op, run, err);
    op->q[op->w->in + 3]++;
    return rc;
}

static enum err_code int4_unrounded(const void *arg, struct run *run, struct err *err)
{
    const struct int4 *op = arg;
    enum err_code rc = int4_naive(op, run, err);
    for (int64_t i = 0; i < op->n * op->w->in; i++) {
        int64_t g = i / op->w->in * op->w->scale.shape[1] + i % op->w->in / op->w->group;
        op->y[i] = op->q[i] * naive_element(&op->w->scale, g);
    }
    return rc;
}

static void int4__fails__when_a_code_or_a_rounding_differs(void **state)
{
    (void)state;
    struct op_result r;
    judge("int4 out=3,in=64,group=32", int4_off_by_one, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_false(r.output[0].failed);
    assert_true(r.output[1].failed);
    assert_int_equal(r.output[1].worst.row, 1);
    assert_int_equal(r.output[1].worst.col, 3);
    judge("int4 out=3,in=64,group=32", int4_unrounded, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_true(r.output[0].failed);
    assert_string_equal(r.output[0].from, "naive: exact; ref: exact");
}

/* ---- router ---- */

static enum err_code router_higher_twin(const void *arg, struct run *run, struct err *err)
{
    const struct router *op = arg;
    enum err_code rc = router_naive(op, run, err);
    op->ids[0]++; /* ties=1, k=1: expert 2i + 1 equals 2i */
    return rc;
}

static enum err_code router_next_expert(const void *arg, struct run *run, struct err *err)
{
    const struct router *op = arg;
    enum err_code rc = router_naive(op, run, err);
    op->ids[1] = op->ids[1] ? 0 : 1; /* row 1, k = 1 */
    return rc;
}

static enum err_code router_descending(const void *arg, struct run *run, struct err *err)
{
    const struct router *op = arg;
    enum err_code rc = router_naive(op, run, err);
    int32_t first = op->ids[0];
    op->ids[0] = op->ids[1];
    op->ids[1] = first;
    return rc;
}

static enum err_code router_weights_from_keys(const void *arg, struct run *run, struct err *err)
{
    const struct router *op = arg;
    enum err_code rc = router_naive(op, run, err);
    for (int64_t i = 0; i < op->T * op->top_k; i++)
        op->weights[i] += 0.01 * naive_element(op->bias, op->ids[i]);
    return rc;
}

static void router__fails__when_the_choice_is_wrong(void **state)
{
    (void)state;
    struct op_result r;
    judge("router T=3,E=8,k=1,ties=1", router_higher_twin, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_non_null(strstr(r.output[1].why, "of two equal experts the higher id"));
    judge("router T=3,E=8,k=1", router_next_expert, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_non_null(strstr(r.output[1].why, "row 1: expert gap"));
    assert_int_equal(r.output[1].worst.row, 1);
    judge("router T=3,E=8,k=3", router_descending, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_non_null(strstr(r.output[1].why, "not ascending ids"));
    judge("router T=3,E=8,k=3,forced=1", router_descending, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    judge("router T=3,E=8,k=3", router_weights_from_keys, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_true(r.output[2].failed);
}

/* Two experts whose keys differ by far less than a float32 sum can lose; each side sees another
 * order. */
static enum err_code near_tie(const struct router *op, double lead, struct run *run,
                              struct err *err)
{
    if (router_naive(op, run, err) != ERR_OK) return err->code;
    op->logits[1] = op->logits[0] + lead;
    op->ids[0] = lead > 0;
    op->weights[0] = op->routed_scale / (1 + exp(-op->logits[lead > 0]));
    return ERR_OK;
}

static enum err_code router_first(const void *op, struct run *run, struct err *err)
{
    return near_tie(op, -1e-9, run, err);
}

static enum err_code router_second(const void *op, struct run *run, struct err *err)
{
    return near_tie(op, 1e-9, run, err);
}

static enum err_code router_second_by_far(const void *op, struct run *run, struct err *err)
{
    return near_tie(op, 1e-3, run, err);
}

static void router__counts_near_ties__and_no_others(void **state)
{
    (void)state;
    struct op_case c;
    struct err err = ERR_INIT;
    struct op_result r;
    static const struct op_entry first[] = {{"router", router_first}, {0}},
                                 second[] = {{"router", router_second}, {0}},
                                 far[] = {{"router", router_second_by_far}, {0}};
    const struct op_side side[3] = {{.name = "ref", .available = true, .entries = first},
                                    {.name = "ref", .available = true, .entries = second},
                                    {.name = "ref", .available = true, .entries = far}};
    const struct op_subject near[2] = {{.side = &side[0]}, {.side = &side[1]}};
    const struct op_subject wide[2] = {{.side = &side[0]}, {.side = &side[2]}};
    if (case_parse(&c, "router T=1,E=2,k=1,H=64,bias=0", &err) != ERR_OK) assert_ok(&err);
    assert_int_equal(op_run_case(&c, near, 2, &r, &err), ERR_OK);
    assert_int_equal(r.verdict, OP_OK);
    assert_int_equal(r.output[1].near_ties, 1);
    assert_int_equal(op_run_case(&c, wide, 2, &r, &err), ERR_OK);
    assert_int_equal(r.verdict, OP_FAIL);
}

static enum err_code router_ids_of_nowhere(const void *arg, struct run *run, struct err *err)
{
    const struct router *op = arg;
    enum err_code rc = router_naive(op, run, err);
    op->ids[1] = 2147480000;
    return rc;
}

static void router__fails__when_the_truth_has_no_valid_choice(void **state)
{
    (void)state;
    struct op_case c;
    struct err err = ERR_INIT;
    struct op_result r;
    static const struct op_entry wrong[] = {{"router", router_ids_of_nowhere}, {0}};
    const struct op_side side = {.name = "ref", .available = true, .entries = wrong};
    const struct op_subject subject[2] = {{.side = &side}, {.side = naive_side()}};
    case_defaults(&c, case_op_find("router"));
    assert_int_equal(op_run_case(&c, subject, 2, &r, &err), ERR_OK);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_non_null(strstr(r.output[0].why, "not ascending ids"));
}

static void router__fails__when_the_truth_breaks_ties_upwards(void **state)
{
    (void)state;
    struct op_case c;
    struct err err = ERR_INIT;
    struct op_result r;
    static const struct op_entry wrong[] = {{"router", router_higher_twin}, {0}};
    const struct op_side side = {.name = "ref", .available = true, .entries = wrong};
    const struct op_subject subject[2] = {{.side = &side}, {.side = naive_side()}};
    if (case_parse(&c, "router T=3,E=8,k=1,ties=1", &err) != ERR_OK) assert_ok(&err);
    assert_int_equal(op_run_case(&c, subject, 2, &r, &err), ERR_OK);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_non_null(strstr(r.output[0].why, "of two equal experts the higher id"));
}

/* ---- linear ---- */

static enum err_code linear_float_sum_that_lost_a_term(const void *arg, struct run *run,
                                                       struct err *err)
{
    const struct linear *op = arg;
    enum err_code rc = linear_naive(op, run, err);
    double last = naive_value(op->w, 1, op->w->in - 1, false);
    op->y[1] -= op->x[op->w->in - 1] * last; /* row 0, column 1 without its last term */
    return rc;
}

static void linear__fails__when_a_term_is_lost(void **state)
{
    (void)state;
    struct op_result r;
    judge("linear T=2,in=257,out=3", linear_float_sum_that_lost_a_term, &r);
    assert_int_equal(r.verdict, OP_FAIL);
    assert_int_equal(r.output[0].worst.row, 0);
    assert_int_equal(r.output[0].worst.col, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result__is_ok__when_right),
        cmocka_unit_test(result__fails_at_the_element__when_one_is_wrong),
        cmocka_unit_test(result__fails__when_nothing_was_written),
        cmocka_unit_test(result__fails__when_rounded_or_with_another_eps),
        cmocka_unit_test(result__is_error__when_a_side_refuses),
        cmocka_unit_test(result__is_not_implemented__when_a_side_lacks_the_op),
        cmocka_unit_test(int4__fails__when_a_code_or_a_rounding_differs),
        cmocka_unit_test(router__fails__when_the_choice_is_wrong),
        cmocka_unit_test(router__counts_near_ties__and_no_others),
        cmocka_unit_test(router__fails__when_the_truth_has_no_valid_choice),
        cmocka_unit_test(router__fails__when_the_truth_breaks_ties_upwards),
        cmocka_unit_test(linear__fails__when_a_term_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
