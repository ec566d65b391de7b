/* test_fault_router.c: the router's faults on rows that show them: the published recipes, and
 * weights worked out by hand. */
#include "core/router.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8 };

/* One row of E experts whose logits are given: H = 1, x = 1, the gate holds the logits. */
struct rig {
    struct arena arena;
    struct run run;
    struct router op;
    struct matrix w;
    struct tensor bias;
    float gate[MOST], b[MOST];
    double x, logits[MOST], weights[MOST];
    int32_t ids[MOST];
};

static void rig_make(struct rig *r, int64_t E, const double *logits, const double *bias, int64_t k)
{
    struct err err = ERR_INIT;
    *r = (struct rig){.x = 1};
    r->run = (struct run){.arena = &r->arena, .precision = PRECISION_F64, .threads = 1};
    (void)!profile_find("math", &r->run.profile, &err);
    assert_ok(&err);
    r->w = (struct matrix){.format = MATRIX_DENSE, .out = E, .in = 1};
    r->w.data = (struct tensor){
        .name = "gate", .dtype = DT_F32, .dims = 2, .shape = {E, 1}, .data = r->gate};
    r->bias =
        (struct tensor){.name = "bias", .dtype = DT_F32, .dims = 1, .shape = {E}, .data = r->b};
    for (int64_t e = 0; e < E; e++) {
        r->gate[e] = (float)logits[e];
        r->b[e] = bias ? (float)bias[e] : 0;
    }
    r->op = (struct router){.T = 1,
                            .H = 1,
                            .E = E,
                            .top_k = k,
                            .groups = 1,
                            .top_groups = 1,
                            .scoring = SCORING_SIGMOID,
                            .method = TOPK_NOAUX_TC,
                            .norm_topk = true,
                            .routed_scale = 1,
                            .x = &r->x,
                            .w = &r->w,
                            .bias = bias ? &r->bias : NULL,
                            .logits = r->logits,
                            .ids = r->ids,
                            .weights = r->weights};
}

/* Logit of a sigmoid score. */
static double logit(double s)
{
    return log(s / (1 - s));
}

/* A rig with these scores. */
static void rig_scores(struct rig *r, int64_t E, const double *scores, const double *bias,
                       int64_t k)
{
    double logits[MOST];
    for (int64_t e = 0; e < E; e++) logits[e] = logit(scores[e]);
    rig_make(r, E, logits, bias, k);
}

/* The op with the fault (NULL: without) chooses these ids with these weights, to 1e-3. */
static void expect(struct rig *r, const char *fault, const int32_t *ids, const double *weights)
{
    struct err err = ERR_INIT;
    if (fault)
        bench_fault(fault, "router", &r->op, &r->run);
    else
        (void)!router_ref(&r->op, &r->run, &err);
    assert_ok(&err);
    for (int64_t j = 0; j < r->op.top_k; j++) {
        if (r->ids[j] != ids[j] || !(fabs(r->weights[j] - weights[j]) < 1e-3))
            fail_msg("%s: slot %lld: expert %d with %.6g, wanted %d with %.6g",
                     fault ? fault : "clean", (long long)j, r->ids[j], r->weights[j], ids[j],
                     weights[j]);
    }
}

static void bias__gets_into_the_weights__as_published(void **state)
{
    static const double scores[] = {.5, .4, .3, .2}, bias[] = {0, 0, 0, .5};
    static const int32_t ids[] = {0, 3};
    struct rig r;
    (void)state;
    rig_scores(&r, 4, scores, bias, 2);
    expect(&r, NULL, ids, (const double[]){.714, .286});
    expect(&r, "router.bias_in_weights", ids, (const double[]){.417, .583});
    expect(&r, "router.no_bias", (const int32_t[]){0, 1}, (const double[]){.5 / .9, .4 / .9});
}

static void dropped_groups__win_with_keys_of_zero__as_published(void **state)
{
    static const double scores[] = {.9, .8, .1, .2}, bias[] = {-2, -2, -2, -2};
    struct rig r;
    (void)state;
    rig_scores(&r, 4, scores, bias, 2);
    r.op.groups = 2;
    expect(&r, NULL, (const int32_t[]){0, 1}, (const double[]){.9 / 1.7, .8 / 1.7});
    expect(&r, "router.group_mask_zero", (const int32_t[]){2, 3},
           (const double[]){.1 / .3, .2 / .3});
    /* Nothing is left out where there is one group. */
    r.op.groups = 1;
    expect(&r, "router.group_mask_zero", (const int32_t[]){0, 1},
           (const double[]){.9 / 1.7, .8 / 1.7});
}

static void groups__are_scored_by_one_expert_or_not_at_all(void **state)
{
    static const double scores[] = {.9, .01, .6, .6};
    struct rig r;
    (void)state;
    rig_scores(&r, 4, scores, NULL, 2);
    r.op.groups = 2;
    expect(&r, NULL, (const int32_t[]){2, 3}, (const double[]){.5, .5});
    expect(&r, "router.group_top1", (const int32_t[]){0, 1}, (const double[]){.989, .011});
    expect(&r, "router.no_groups", (const int32_t[]){0, 2}, (const double[]){.6, .4});
}

static void raw_logits__stand_as_weights__as_published(void **state)
{
    static const double logits[] = {2, 1, -1};
    static const int32_t ids[] = {0, 1};
    struct rig r;
    (void)state;
    rig_make(&r, 3, logits, NULL, 2);
    r.op.scoring = SCORING_SOFTMAX;
    r.op.norm_topk = false;
    expect(&r, NULL, ids, (const double[]){.705, .259});
    expect(&r, "router.raw_logits", ids, (const double[]){2, 1});
    expect(&r, "router.topk_norm_added", ids, (const double[]){.705 / .964, .259 / .964});
    expect(&r, "router.softmax", ids, (const double[]){.8808, .7311});
    r.op.scoring = SCORING_SIGMOID;
    expect(&r, "router.softmax", ids, (const double[]){.705, .259});
}

static void weights__lack_norm_or_factor_or_an_expert(void **state)
{
    static const double scores[] = {.5, .4, .1};
    static const int32_t ids[] = {0, 1};
    struct rig r;
    (void)state;
    rig_scores(&r, 3, scores, NULL, 2);
    r.op.routed_scale = 2.5;
    expect(&r, NULL, ids, (const double[]){2.5 * .5 / .9, 2.5 * .4 / .9});
    expect(&r, "router.no_topk_norm", ids, (const double[]){1.25, 1});
    expect(&r, "router.no_scaling_factor", ids, (const double[]){.5 / .9, .4 / .9});
    expect(&r, "router.k_off_by_one", ids, (const double[]){2.5, 0});
    expect(&r, "router.last_slot_overwritten", ids, (const double[]){2.5 * .5 / .9, 0});
    r.op.norm_topk = false;
    expect(&r, "router.k_off_by_one", ids, (const double[]){1.25, 0});
    r.op.top_k = 1; /* the last one stays */
    expect(&r, "router.k_off_by_one", ids, (const double[]){1.25});
}

static void small_keys__are_never_found__as_published(void **state)
{
    static const double scores[] = {.5, .5}, bias[] = {-3.5, -2.5};
    struct rig r;
    (void)state;
    rig_scores(&r, 2, scores, bias, 1);
    expect(&r, NULL, (const int32_t[]){1}, (const double[]){.5});
    expect(&r, "router.max_from_minus_one", (const int32_t[]){0}, (const double[]){.5});
}

static void near_ties__are_turned_by_a_step__as_published(void **state)
{
    static const double logits[] = {4e-7, 0}; /* scores .5000001 and .5 */
    static const int32_t first[] = {0}, second[] = {1};
    struct rig r;
    (void)state;
    rig_make(&r, 2, logits, NULL, 1);
    r.op.norm_topk = false;
    expect(&r, NULL, first, (const double[]){.5});
    expect(&r, "router.tie_epsilon", second, (const double[]){.5});
    expect(&r, "router.tie_epsilon@step=1e-8", first, (const double[]){.5});
}

static void bias__loses_bits__and_logits_do(void **state)
{
    static const double scores[] = {.5, .5}, bias[] = {.5, .5001};
    struct rig r;
    (void)state;
    rig_scores(&r, 2, scores, bias, 1);
    r.op.norm_topk = false;
    expect(&r, NULL, (const int32_t[]){1}, (const double[]){.5});
    expect(&r, "router.bf16_bias", (const int32_t[]){0}, (const double[]){.5});
    rig_make(&r, 2, (const double[]){1.001, 0.3}, NULL, 1);
    expect(&r, "router.bf16_logits", (const int32_t[]){0}, (const double[]){.7311});
    assert_true(r.logits[0] == 1 && r.logits[1] == dtype_round(DT_BF16, 0.3));
}

static void forced_choice__stays__whatever_the_keys_say(void **state)
{
    static const double scores[] = {.9, .8, .1, .2}, bias[] = {-2, -2, -2, -2};
    static const int32_t forced[] = {0, 3};
    struct rig r;
    (void)state;
    rig_scores(&r, 4, scores, bias, 2);
    r.op.groups = 2;
    r.op.forced = forced;
    expect(&r, "router.group_mask_zero", forced, (const double[]){.9 / 1.1, .2 / 1.1});
}

static void ids__keep_what_the_buffer_held__in_one_row(void **state)
{
    struct fault_bench b;
    (void)state;
    bench_open(&b, "router T=3,k=2");
    const struct router *op = b.data.op;
    bench_run(&b, "router.unwritten_ids@row=1");
    assert_true(op->ids[2] == 99999 && op->ids[3] == 99999 && op->ids[1] < 8 && op->ids[4] < 8);
    bench_run(&b, "router.unwritten_ids@row=7"); /* no such row */
    for (int i = 0; i < 6; i++) assert_true(op->ids[i] < 8);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias__gets_into_the_weights__as_published),
        cmocka_unit_test(dropped_groups__win_with_keys_of_zero__as_published),
        cmocka_unit_test(groups__are_scored_by_one_expert_or_not_at_all),
        cmocka_unit_test(raw_logits__stand_as_weights__as_published),
        cmocka_unit_test(weights__lack_norm_or_factor_or_an_expert),
        cmocka_unit_test(small_keys__are_never_found__as_published),
        cmocka_unit_test(near_ties__are_turned_by_a_step__as_published),
        cmocka_unit_test(bias__loses_bits__and_logits_do),
        cmocka_unit_test(forced_choice__stays__whatever_the_keys_say),
        cmocka_unit_test(ids__keep_what_the_buffer_held__in_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
