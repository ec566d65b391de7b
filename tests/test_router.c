/* test_router.c: op "router" against DeepseekV3TopkRouter and DeepseekV2TopkRouter, and its rules:
 * ties, groups, bias, normalisation, forced ids, gaps. */
#include "core/router.h"

#include "tests/op_fixture.h"

#include <math.h>
#include <string.h>

static void route(const struct router *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (router_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

static int32_t *ids_space(struct arena *a, int64_t n)
{
    struct err err = ERR_INIT;
    int32_t *ids = arena_alloc(a, n, sizeof *ids, "ids", &err);
    assert_ok(&err);
    for (int64_t i = 0; i < n; i++) ids[i] = -77;
    return ids;
}

static void outputs(struct router *op, struct arena *a)
{
    op->logits = space(a, op->T * op->E);
    op->ids = ids_space(a, op->T * op->top_k);
    op->weights = space(a, op->T * op->top_k);
}

/* ---- golden ---- */

static void router_ref__equals_transformers__in_logits_ids_and_weights(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "router");
    int grouped = 0, softmax = 0;
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        struct matrix w = case_matrix(&c, "w");
        struct tensor bias = {0};
        struct router op = {.T = case_int(&c, "T"),
                            .H = w.in,
                            .E = w.out,
                            .top_k = case_int(&c, "top_k"),
                            .groups = case_int(&c, "groups"),
                            .top_groups = case_int(&c, "top_groups"),
                            .norm_topk = case_true(&c, "norm_topk"),
                            .routed_scale = case_real(&c, "routed_scale"),
                            .x = case_f64(&c, "x"),
                            .w = &w};
        op.scoring = case_is(&c, "scoring", "softmax") ? SCORING_SOFTMAX : SCORING_SIGMOID;
        op.method = case_is(&c, "method", "greedy")          ? TOPK_GREEDY
                    : case_is(&c, "method", "group_limited") ? TOPK_GROUP_LIMITED
                                                             : TOPK_NOAUX_TC;
        if (case_has(&c, "bias")) {
            bias = case_tensor(&c, "bias");
            op.bias = &bias;
        }
        grouped += op.groups > 1;
        softmax += op.scoring == SCORING_SOFTMAX;
        for (int p = 0; p < 3; p++) { /* hf leaves router logits in float32 */
            struct run run =
                op_run(&f.arena, p == 2 ? "hf" : "math", p ? PRECISION_F64 : PRECISION_F32);
            outputs(&op, &f.arena);
            route(&op, &run);
            /* Theirs is a float32 sum of H terms below 10 in all; a score moves by a quarter of its
             * logit at most, and a weight by that of all chosen ones. */
            double bound = (double)(op.H + 2) * 10 * dtype_unit(DT_F32);
            assert_f64_near(op.logits, case_f64(&c, "logits"), op.T, op.E, 2 * bound, 0);
            assert_i32_equal(op.ids, case_i32(&c, "ids"), op.T, op.top_k);
            assert_f64_near(op.weights, case_f64(&c, "weights"), op.T, op.top_k, 0, 2 * bound);
        }
    }
    assert_int_equal(grouped, 7);
    assert_int_equal(softmax, 2);
    fixture_close(&f);
}

/* ---- rules, on logits that are given: W is the unit matrix ---- */

struct router_scene {
    struct arena a;
    struct matrix w;
    struct tensor bias;
    struct router op;
};

static void with_logits(struct router_scene *s, int64_t T, int64_t E, int64_t k,
                        const double *logits)
{
    *s = (struct router_scene){0};
    double *unit = space(&s->a, E * E);
    float *data = (float *)space(&s->a, E * E);
    for (int64_t i = 0; i < E * E; i++) unit[i] = i / E == i % E;
    dtype_from_f64(DT_F32, unit, E * E, data);
    s->w = matrix_of("gate", DT_F32, E, E, data);
    s->op = (struct router){.T = T,
                            .H = E,
                            .E = E,
                            .top_k = k,
                            .groups = 1,
                            .top_groups = 1,
                            .norm_topk = true,
                            .routed_scale = 2.827,
                            .method = TOPK_NOAUX_TC,
                            .x = logits};
    outputs(&s->op, &s->a);
}

static void go(struct router_scene *s)
{
    s->op.w = &s->w;
    struct run run = op_run(&s->a, "math", PRECISION_F64);
    route(&s->op, &run);
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

static void router_ref__takes_the_lower_ids__when_keys_tie(void **state)
{
    (void)state;
    static const double logits[3][8] = {
        {0, 0, 0, 0, 0, 0, 0, 0}, {-1, 2, -1, 3, 2, 2, -1, -1}, {1, 1, 1, 2, -1, -1, -1, -1}};
    struct router_scene s;
    with_logits(&s, 3, 8, 3, logits[0]);
    go(&s);
    assert_i32_equal(s.op.ids, ((const int32_t[]){0, 1, 2, 1, 3, 4, 0, 1, 3}), 3, 3);
    arena_release(&s.a, NULL);
}

static void router_ref__takes_the_lower_group__when_group_scores_tie(void **state)
{
    (void)state;
    /* Groups of two: sums 1, 3, 3, 3 in logits that are equal in pairs. */
    static const double logits[2][8] = {{0, 0, 1, 2, 2, 1, 1, 2}, {0, 0, 0, 0, 0, 0, 0, 0}};
    struct router_scene s;
    with_logits(&s, 2, 8, 3, logits[0]);
    s.op.groups = 4;
    s.op.top_groups = 2;
    go(&s);
    assert_i32_equal(s.op.ids, ((const int32_t[]){2, 3, 4, 0, 1, 2}), 2, 3);
    arena_release(&s.a, NULL);
}

static void router_ref__scores_a_group_by_its_method(void **state)
{
    (void)state;
    /* Group 0 has the best single expert, group 1 the best pair. */
    static const double logits[4] = {3, -3, 1, 1};
    for (int limited = 0; limited < 2; limited++) {
        struct router_scene s;
        with_logits(&s, 1, 4, 1, logits);
        s.op.groups = 2;
        s.op.method = limited ? TOPK_GROUP_LIMITED : TOPK_NOAUX_TC;
        go(&s);
        assert_int_equal(s.op.ids[0], limited ? 0 : 2);
        arena_release(&s.a, NULL);
    }
}

static void router_ref__never_chooses_from_a_masked_group__when_all_kept_keys_are_negative(
    void **state)
{
    (void)state;
    static const double logits[6] = {-1, -1, -1, -8, -8, -8};
    const float bias[6] = {-3, -3, -3, -3.5F, -3.5F, -3.5F};
    struct router_scene s;
    with_logits(&s, 1, 6, 3, logits);
    s.bias = tensor_of("bias", DT_F32, 1, (const int64_t[]){6}, bias);
    s.op.bias = &s.bias;
    s.op.groups = 2;
    go(&s);
    assert_i32_equal(s.op.ids, ((const int32_t[]){0, 1, 2}), 1, 3);
    arena_release(&s.a, NULL);
}

static void router_ref__keeps_the_bias_out_of_the_weights(void **state)
{
    (void)state;
    static const double logits[4] = {1.5, -0.25, 0.5, 2};
    const float bias[4] = {0, 100, -100, 1e-8F};
    struct router_scene s;
    with_logits(&s, 1, 4, 3, logits);
    s.bias = tensor_of("bias", DT_F32, 1, (const int64_t[]){4}, bias);
    s.op.bias = &s.bias;
    s.op.norm_topk = false;
    go(&s);
    assert_i32_equal(s.op.ids, ((const int32_t[]){0, 1, 3}), 1, 3);
    const double want[3] = {2.827 * sigmoid(1.5), 2.827 * sigmoid(-0.25), 2.827 * sigmoid(2)};
    assert_f64_near(s.op.weights, want, 1, 3, 0, 1e-15);
    arena_release(&s.a, NULL);
}

static void router_ref__keeps_all_bits_of_the_bias(void **state)
{
    (void)state;
    /* 1 and 1 + 2^-20 are one value in bf16: only the float32 bias tells expert 1 from expert 0. */
    static const double logits[2] = {0, 0};
    const float bias[2] = {1, 1 + 0x1p-20F};
    struct router_scene s;
    with_logits(&s, 1, 2, 1, logits);
    s.bias = tensor_of("bias", DT_F32, 1, (const int64_t[]){2}, bias);
    s.op.bias = &s.bias;
    s.op.w = &s.w;
    const char *const profiles[] = {"math", "hf", "vllm", "sgl"};
    for (int p = 0; p < 4; p++) {
        struct run run = op_run(&s.a, profiles[p], PRECISION_F32);
        route(&s.op, &run);
        assert_int_equal(s.op.ids[0], 1);
    }
    arena_release(&s.a, NULL);
}

static void router_ref__gives_weights_that_sum_to_the_routed_scale__when_normalised(void **state)
{
    (void)state;
    for (int64_t E = 1; E <= 33; E += 8) {
        for (int64_t k = 1; k <= E; k = k * 2 + 1) {
            struct router_scene s;
            struct arena a = ARENA_INIT;
            double *logits = random_f64(&a, (uint64_t)E, "logits", 5 * E, 4.0);
            with_logits(&s, 5, E, k, logits);
            go(&s);
            for (int t = 0; t < 5; t++) {
                double sum = 0, raw = 0;
                for (int64_t j = 0; j < k; j++) {
                    sum += s.op.weights[t * k + j];
                    raw += sigmoid(logits[t * E + s.op.ids[t * k + j]]);
                    assert_true(j == 0 || s.op.ids[t * k + j] > s.op.ids[t * k + j - 1]);
                }
                /* A single expert keeps its score (contract). */
                assert_f64_close(sum, k > 1 ? 2.827 : 2.827 * raw, 0, 1e-14);
            }
            arena_release(&a, NULL);
            arena_release(&s.a, NULL);
        }
    }
}

static void router_ref__scores_by_softmax__when_asked(void **state)
{
    (void)state;
    static const double logits[2][3] = {{1, 2, 3}, {700, -700, 710}};
    struct router_scene s;
    with_logits(&s, 2, 3, 3, logits[0]);
    s.op.scoring = SCORING_SOFTMAX;
    s.op.method = TOPK_GREEDY;
    s.op.norm_topk = false;
    s.op.routed_scale = 1;
    go(&s);
    const double sum = exp(-2) + exp(-1) + 1, far = exp(-10);
    const double want[2][3] = {{exp(-2) / sum, exp(-1) / sum, 1 / sum},
                               {far / (1 + far), 0, 1 / (1 + far)}};
    assert_f64_near(s.op.weights, want[0], 2, 3, 1e-300, 1e-14);
    arena_release(&s.a, NULL);
}

static void router_ref__takes_forced_ids_with_its_own_weights__and_leaves_other_rows_free(
    void **state)
{
    (void)state;
    static const double logits[3][4] = {{3, 2, 1, 0}, {3, 2, 1, 0}, {0, 1, 2, 3}};
    static const int32_t forced[6] = {1, 3, -1, -1, 0, 1};
    struct router_scene s;
    with_logits(&s, 3, 4, 2, logits[0]);
    s.op.forced = forced;
    go(&s);
    assert_i32_equal(s.op.ids, ((const int32_t[]){1, 3, 0, 1, 0, 1}), 3, 2);
    const double a = sigmoid(2), b = sigmoid(0);
    assert_f64_close(s.op.weights[0], 2.827 * a / (a + b), 0, 1e-14);
    assert_f64_close(s.op.weights[1], 2.827 * b / (a + b), 0, 1e-14);
    arena_release(&s.a, NULL);
}

static void router_ref__gives_a_row_the_same_bits__alone_and_on_any_number_of_threads(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    enum { T = 29, H = 21, E = 24, K = 6 };
    struct matrix w = random_matrix(&a, 41, "gate", DT_BF16, E, H, 0.5);
    struct tensor bias = random_vector(&a, 41, "bias", DT_F32, E, 0.2);
    struct router op = {.T = T,
                        .H = H,
                        .E = E,
                        .top_k = K,
                        .groups = 4,
                        .top_groups = 2,
                        .norm_topk = true,
                        .routed_scale = 2.5,
                        .method = TOPK_NOAUX_TC,
                        .x = random_f64(&a, 41, "x", T * H, 1.0),
                        .w = &w,
                        .bias = &bias},
                  again = op, alone = op;
    struct run run = op_run(&a, "math", PRECISION_F32);
    outputs(&op, &a);
    route(&op, &run);
    outputs(&again, &a);
    run.threads = 5;
    route(&again, &run);
    assert_i32_equal(again.ids, op.ids, T, K);
    assert_f64_bits(again.weights, op.weights, T, K);
    alone.T = 1;
    alone.x = op.x + 13 * H;
    outputs(&alone, &a);
    route(&alone, &run);
    assert_f64_bits(alone.logits, op.logits + 13 * E, 1, E);
    assert_i32_equal(alone.ids, op.ids + 13 * K, 1, K);
    assert_f64_bits(alone.weights, op.weights + 13 * K, 1, K);
    arena_release(&a, NULL);
}

/* ---- gaps ---- */

static void router_gap__is_zero_for_the_own_choice_and_the_distance_for_another(void **state)
{
    (void)state;
    static const double keys[6] = {0.9, 0.1, 0.5, 0.4, 0.45, 0.2};
    struct router op = {.E = 6, .top_k = 2, .groups = 1, .top_groups = 1, .method = TOPK_NOAUX_TC};
    bool by_group = true;
    assert_f64_is(router_gap(&op, keys, (const int32_t[]){0, 2}, &by_group), 0.0);
    assert_false(by_group);
    assert_f64_close(router_gap(&op, keys, (const int32_t[]){0, 4}, &by_group), 0.05, 0, 1e-12);
    assert_false(by_group);
    assert_f64_close(router_gap(&op, keys, (const int32_t[]){1, 2}, &by_group), 0.8, 0, 1e-12);
    op.groups = 3; /* {0, 1} {2, 3} {4, 5}: sums 1.0, 0.9, 0.65 */
    op.top_groups = 1;
    assert_f64_is(router_gap(&op, keys, (const int32_t[]){0, 1}, &by_group), 0.0);
    assert_f64_close(router_gap(&op, keys, (const int32_t[]){2, 3}, &by_group), 0.05, 0, 1e-12);
    assert_true(by_group);
    assert_true(isinf(
        router_gap(&op, keys, (const int32_t[]){0, 2}, &by_group))); /* two groups, one allowed */
    assert_true(by_group);
}

/* Three groups of two, two kept, both experts in the best one: which other group was kept beside it
 * is not said, and the nearest reading holds. */
static void router_gap__takes_the_groups_that_explain_the_set_best(void **state)
{
    bool by_group;
    const struct router op = {
        .E = 6, .top_k = 2, .groups = 3, .top_groups = 2, .method = TOPK_GROUP_LIMITED};
    /* Group 1 has the better best key, group 2 nearly the same; 0.9 of group 1 beats 0.5. */
    const double keys[] = {0.95, 0.5, 0.9, 0.1, 0.899, 0.1};
    (void)state;
    /* {0, 1}: either other group is kept, and its best key was rejected. */
    assert_f64_close(router_gap(&op, keys, (const int32_t[]){0, 1}, &by_group), 0.399, 0, 1e-12);
    /* {0, 4}: group 2 was kept for group 1, by 0.001. */
    assert_f64_close(router_gap(&op, keys, (const int32_t[]){0, 4}, &by_group), 0.001, 0, 1e-12);
    assert_true(by_group);
    const double low[] = {0.95, 0.85, 0.9, 0.1, 0.89, 0.1},
                 near[] = {0.95, 0.85, 0.9, 0.1, 0.84, 0.1};
    /* {0, 1}: group 2 would have to be kept for group 1 by 0.06, and hurts nobody then. */
    assert_f64_close(router_gap(&op, low, (const int32_t[]){0, 1}, &by_group), 0.04, 0, 1e-12);
    assert_f64_close(router_gap(&op, near, (const int32_t[]){0, 1}, &by_group), 0.05, 0, 1e-12);
}

static void router_gap__is_zero__for_every_choice_that_the_router_makes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct router_scene s;
        struct arena a = ARENA_INIT;
        double *logits = random_f64(&a, seed, "logits", 3 * 12, 2.0), scores[12], keys[12];
        with_logits(&s, 3, 12, 3, logits);
        s.bias = random_vector(&a, seed, "bias", DT_F32, 12, 1.0);
        s.op.bias = &s.bias;
        s.op.groups = 4;
        s.op.top_groups = 2;
        go(&s);
        for (int t = 0; t < 3; t++) {
            bool by_group = true;
            router_keys(&s.op, s.op.logits + t * 12, scores, keys);
            assert_f64_is(router_gap(&s.op, keys, s.op.ids + t * 3, &by_group), 0.0);
        }
        arena_release(&a, NULL);
        arena_release(&s.a, NULL);
    }
}

/* ---- errors ---- */

static void router_check__refuses__when_an_argument_is_bad(void **state)
{
    (void)state;
    static const double logits[8] = {0};
    struct err err = ERR_INIT;
    struct router_scene s;
    with_logits(&s, 1, 8, 3, logits);
    s.op.w = &s.w;
    const struct router good = s.op;
    struct router op = good;
    assert_int_equal(router_check(&op, &err), ERR_OK);
    op.groups = 3;
    assert_refused(router_check(&op, &err), &err, "8 experts, 3 groups");
    op.groups = 0;
    assert_refused(router_check(&op, &err), &err, "groups 1 of 0");
    op.groups = 4;
    op.top_groups = 5;
    assert_refused(router_check(&op, &err), &err, "5 kept");
    op.top_groups = 1;
    assert_refused(router_check(&op, &err), &err, "found k = 3, wanted at most the 2 experts");
    op = good;
    op.groups = 8;
    op.top_groups = 8;
    assert_refused(router_check(&op, &err), &err, "groups of 1 expert");
    op = good;
    op.top_k = 9;
    assert_refused(router_check(&op, &err), &err, "k = 9");
    op.top_k = 0;
    assert_refused(router_check(&op, &err), &err, "k = 0");
    op = good;
    op.H = 7;
    assert_refused(router_check(&op, &err), &err, "gate: found [8, 8], wanted [8, 7]");
    op = good;
    s.bias = random_vector(&s.a, 1, "the.bias", DT_F32, 7, 1.0);
    op.bias = &s.bias;
    assert_refused(router_check(&op, &err), &err, "the.bias: found 7 of F32");
    static const int32_t twice[3] = {1, 4, 4}, outside[3] = {1, 4, 8}, half[3] = {0, -1, 4};
    op = good;
    op.forced = twice;
    assert_refused(router_check(&op, &err), &err, "row 0, slot 2: found 4");
    op.forced = outside;
    assert_refused(router_check(&op, &err), &err, "found 8");
    op.forced = half;
    assert_refused(router_check(&op, &err), &err, "found -1");
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    assert_refused(router_ref(&op, &run, &err), &err, "found -1");
    arena_release(&s.a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(router_ref__equals_transformers__in_logits_ids_and_weights),
        cmocka_unit_test(router_ref__takes_the_lower_ids__when_keys_tie),
        cmocka_unit_test(router_ref__takes_the_lower_group__when_group_scores_tie),
        cmocka_unit_test(router_ref__scores_a_group_by_its_method),
        cmocka_unit_test(
            router_ref__never_chooses_from_a_masked_group__when_all_kept_keys_are_negative),
        cmocka_unit_test(router_ref__keeps_the_bias_out_of_the_weights),
        cmocka_unit_test(router_ref__keeps_all_bits_of_the_bias),
        cmocka_unit_test(router_ref__gives_weights_that_sum_to_the_routed_scale__when_normalised),
        cmocka_unit_test(router_ref__scores_by_softmax__when_asked),
        cmocka_unit_test(
            router_ref__takes_forced_ids_with_its_own_weights__and_leaves_other_rows_free),
        cmocka_unit_test(router_ref__gives_a_row_the_same_bits__alone_and_on_any_number_of_threads),
        cmocka_unit_test(router_gap__is_zero_for_the_own_choice_and_the_distance_for_another),
        cmocka_unit_test(router_gap__takes_the_groups_that_explain_the_set_best),
        cmocka_unit_test(router_gap__is_zero__for_every_choice_that_the_router_makes),
        cmocka_unit_test(router_check__refuses__when_an_argument_is_bad),
    };
    return cmocka_run_group_tests_name("router", tests, NULL, NULL);
}
