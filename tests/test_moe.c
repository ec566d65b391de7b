/* test_moe.c: op "moe" against DeepseekV3Experts and DeepseekV3MoE, and what must hold for any
 * routing: the bits of a token do not depend on the others, and an expert that nobody chose is
 * never asked for. */
#include "core/moe.h"

#include "core/mlp.h"
#include "tests/op_fixture.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { EXPERTS_MAX = 64 };

struct experts {
    struct expert e[EXPERTS_MAX];
    _Atomic int asked[EXPERTS_MAX];
    int64_t refuse; /* -1: none */
};

static enum err_code give(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    struct experts *all = (struct experts *)ctx; /* the count is the test's own */
    atomic_fetch_add(&all->asked[e], 1);
    if (e == all->refuse)
        return err_set(err, ERR_INPUT, "read expert|expert %d|a hole in the file|its weights",
                       (int)e);
    *out = all->e[e];
    return ERR_OK;
}

static void run_moe(const struct moe *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (moe_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

/* ---- golden ---- */

/* gate_up [E, 2I, H] (gate first), down [E, H, I] */
static struct moe from_case(struct experts *all, struct fixture_case *c)
{
    struct moe op = {.T = case_int(c, "T"),
                     .H = case_int(c, "H"),
                     .I = case_int(c, "I"),
                     .E = case_int(c, "E"),
                     .top_k = case_int(c, "top_k"),
                     .x = case_f64(c, "x"),
                     .ids = case_i32(c, "ids"),
                     .weights = case_f64(c, "weights"),
                     .expert = give,
                     .ctx = all,
                     .sum_scale = 1};
    *all = (struct experts){.refuse = -1};
    const struct st_tensor *gate_up = case_stored(c, "gate_up"), *down = case_stored(c, "down");
    int64_t panel = op.I * op.H * dtype_size(gate_up->dtype);
    for (int64_t e = 0; e < op.E; e++) {
        const char *at = (const char *)gate_up->data + 2 * e * panel;
        all->e[e].gate = matrix_of("gate", gate_up->dtype, op.I, op.H, at);
        all->e[e].up = matrix_of("up", gate_up->dtype, op.I, op.H, at + panel);
        all->e[e].down =
            matrix_of("down", down->dtype, op.H, op.I, (const char *)down->data + e * panel);
    }
    op.y = space(&c->fixture->arena, op.T * op.H);
    return op;
}

static double *shared_of(struct fixture_case *c, const struct moe *op, struct run *run)
{
    struct err err = ERR_INIT;
    struct matrix gate = case_matrix(c, "shared_gate"), up = case_matrix(c, "shared_up"),
                  down = case_matrix(c, "shared_down");
    struct mlp mlp = {.T = op->T,
                      .x = op->x,
                      .gate = &gate,
                      .up = &up,
                      .down = &down,
                      .y = space(&c->fixture->arena, op->T * op->H)};
    if (mlp_ref(&mlp, run, &err) != ERR_OK) assert_ok(&err);
    return mlp.y;
}

static void moe_ref__equals_transformers__in_float64(void **state)
{
    (void)state;
    struct fixture f;
    struct experts all;
    fixture_open(&f, "moe");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "f64")) continue;
        struct moe op = from_case(&all, &c);
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        run_moe(&op, &run);
        assert_f64_near(op.y, case_f64(&c, "routed"), op.T, op.H, 1e-13, 0);
        double *sum = shared_of(&c, &op, &run);
        assert_f64_near(sum, case_f64(&c, "shared"), op.T, op.H, 1e-13, 0);
        for (int64_t j = 0; j < op.T * op.H; j++) sum[j] += op.y[j];
        assert_f64_near(sum, case_f64(&c, "y"), op.T, op.H, 1e-13, 0);
        run.precision = PRECISION_F32;
        run_moe(&op, &run);
        assert_f64_near(op.y, case_f64(&c, "routed"), op.T, op.H, 1e-5, 0);
    }
    fixture_close(&f);
}

/* hf: experts_implementation eager, which adds into a bf16 tensor. hf4: a float32 sum rounded once,
 * as transformers 4 has it, and 5 with its default, grouped_mm. */
static void moe_ref__equals_transformers_bitwise__in_profiles_hf_and_hf4(void **state)
{
    (void)state;
    struct fixture f;
    struct experts all;
    fixture_open(&f, "moe");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "bf16")) continue;
        struct moe op = from_case(&all, &c);
        struct run hf = op_run(&f.arena, "hf", PRECISION_F64);
        struct run hf4 = op_run(&f.arena, "hf4", PRECISION_F64);
        run_moe(&op, &hf);
        assert_share(op.y, case_f64(&c, "routed"), op.T, op.H, 1.0);
        double *y = shared_of(&c, &op, &hf);
        assert_share(y, case_f64(&c, "shared"), op.T, op.H, 1.0);
        for (int64_t j = 0; j < op.T * op.H; j++) y[j] = run_round_one(&hf, RP_MOE, y[j] + op.y[j]);
        assert_share(y, case_f64(&c, "y"), op.T, op.H, 1.0);
        run_moe(&op, &hf4);
        assert_share(op.y, case_f64(&c, "routed_grouped"), op.T, op.H, 1.0);
    }
    fixture_close(&f);
}

/* ---- properties ---- */

struct moe_scene {
    struct arena a;
    struct experts all;
    struct moe op;
};

/* Row t chooses k experts below E_used, ascending; some often, some never. */
static void made(struct moe_scene *s, int64_t T, int64_t H, int64_t I, int64_t E, int64_t k,
                 int64_t E_used)
{
    struct err err = ERR_INIT;
    memset(s, 0, sizeof *s);
    s->all.refuse = -1;
    for (int64_t e = 0; e < E; e++) {
        uint64_t seed = 50 + (uint64_t)e;
        s->all.e[e].gate = random_matrix(&s->a, seed, "gate", DT_BF16, I, H, 1.0);
        s->all.e[e].up = random_matrix(&s->a, seed, "up", DT_BF16, I, H, 1.0);
        s->all.e[e].down = random_matrix(&s->a, seed, "down", DT_BF16, H, I, 1.0);
    }
    int32_t *ids = arena_alloc(&s->a, T * k, sizeof *ids, "ids", &err);
    assert_ok(&err);
    for (int64_t t = 0; t < T; t++) {
        int64_t left = k, n = 0;
        for (int64_t e = 0; e < E_used && left; e++) {
            if (random_int(7, "pick", t * E + e, 0, E_used - e - 1) >= left) continue;
            ids[t * k + n++] = (int32_t)e;
            left--;
        }
    }
    double *weights = random_f64(&s->a, 51, "weights", T * k, 1.0);
    for (int64_t i = 0; i < T * k; i++) weights[i] = fabs(weights[i]) + 0.1;
    s->op = (struct moe){.T = T,
                         .H = H,
                         .I = I,
                         .E = E,
                         .top_k = k,
                         .x = random_f64(&s->a, 51, "x", T * H, 1.0),
                         .ids = ids,
                         .weights = weights,
                         .expert = give,
                         .ctx = &s->all,
                         .sum_scale = 1,
                         .y = space(&s->a, T * H)};
}

static const int64_t shapes[][6] = {/* T, H, I, E, k, experts used */
                                    {1, 1, 1, 1, 1, 1},
                                    {1, 7, 5, 4, 4, 4},
                                    {13, 17, 6, 9, 3, 5},
                                    {40, 8, 33, 16, 2, 16},
                                    {5, 20, 3, 64, 8, 60}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };
static const char *const profiles[] = {"math", "hf", "hf4", "vllm", "sgl"};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

/* x as this profile rounds it at point p. */
static double rounded(const struct run *run, enum round_point p, double x)
{
    return run->profile.rounds[p] ? dtype_round(DT_BF16, x) : x;
}

static void moe_ref__is_the_weighted_sum_of_its_experts__rounded_where_the_profile_says(
    void **state)
{
    (void)state;
    for (int i = 0; i < PROFILES * SHAPES; i++) {
        struct moe_scene s;
        struct err err = ERR_INIT;
        const int64_t *d = shapes[i / PROFILES], T = d[0], H = d[1], k = d[4];
        made(&s, T, H, d[2], d[3], k, d[5]);
        s.op.sum_scale = 2.827;
        struct run run = op_run(&s.a, profiles[i % PROFILES], PRECISION_F64);
        run_moe(&s.op, &run);
        double *want = space(&s.a, T * H), *one = space(&s.a, H);
        for (int64_t t = 0; t < T; t++) {
            double *sum = want + t * H;
            for (int64_t j = t * k; j < (t + 1) * k; j++) {
                const struct expert *e = &s.all.e[s.op.ids[j]];
                struct mlp mlp = {.T = 1, .x = s.op.x + t * H, .y = one};
                mlp.gate = &e->gate;
                mlp.up = &e->up;
                mlp.down = &e->down;
                if (mlp_ref(&mlp, &run, &err) != ERR_OK) assert_ok(&err);
                double w = rounded(&run, RP_EXPERT_WEIGHT, s.op.weights[j]);
                for (int64_t h = 0; h < H; h++) {
                    double term = rounded(&run, RP_EXPERT_TERM, w * one[h]);
                    sum[h] = rounded(&run, RP_EXPERT_SUM, j == t * k ? term : sum[h] + term);
                }
            }
            for (int64_t h = 0; h < H; h++) {
                sum[h] = 2.827 * rounded(&run, RP_ROUTED, sum[h]);
                sum[h] = rounded(&run, RP_ROUTED_SCALED, sum[h]);
            }
        }
        assert_f64_bits(s.op.y, want, T, H);
        arena_release(&s.a, NULL);
    }
}

static void moe_ref__asks_for_chosen_experts_only__however_many_threads(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        for (int threads = 1; threads <= 5; threads += 4) {
            struct moe_scene s;
            const int64_t *d = shapes[i];
            made(&s, d[0], d[1], d[2], d[3], d[4], d[5]);
            struct run run = op_run(&s.a, "hf", PRECISION_F64);
            run.threads = threads;
            run_moe(&s.op, &run);
            bool chosen[EXPERTS_MAX] = {false};
            for (int64_t j = 0; j < d[0] * d[4]; j++) chosen[s.op.ids[j]] = true;
            for (int64_t e = 0; e < d[3]; e++) {
                int asked = atomic_load(&s.all.asked[e]);
                if (chosen[e] ? asked < 1 : asked != 0)
                    fail_msg("expert %d was asked for %d times; chosen: %d", (int)e, asked,
                             chosen[e]);
            }
            arena_release(&s.a, NULL);
        }
    }
}

static void moe_ref__gives_a_token_the_same_bits__in_any_order_alone_and_on_any_number_of_threads(
    void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        for (int p = 0; p < PROFILES; p++) {
            struct moe_scene s;
            struct err err = ERR_INIT;
            const int64_t *d = shapes[i], T = d[0], H = d[1], k = d[4];
            made(&s, T, H, d[2], d[3], k, d[5]);
            struct run run = op_run(&s.a, profiles[p], p % 2 ? PRECISION_F32 : PRECISION_F64);
            run_moe(&s.op, &run);
            struct moe back = s.op, alone = s.op;
            double *x = space(&s.a, T * H), *weights = space(&s.a, T * k),
                   *want = space(&s.a, T * H);
            int32_t *ids = arena_alloc(&s.a, T * k, sizeof *ids, "ids", &err);
            assert_ok(&err);
            for (int64_t t = 0; t < T; t++) { /* last token first */
                int64_t u = T - 1 - t;
                memcpy(x + t * H, s.op.x + u * H, (size_t)H * sizeof *x);
                memcpy(want + t * H, s.op.y + u * H, (size_t)H * sizeof *x);
                memcpy(weights + t * k, s.op.weights + u * k, (size_t)k * sizeof *weights);
                memcpy(ids + t * k, s.op.ids + u * k, (size_t)k * sizeof *ids);
            }
            back.x = x;
            back.weights = weights;
            back.ids = ids;
            back.y = space(&s.a, T * H);
            run.threads = 4;
            run_moe(&back, &run);
            assert_f64_bits(back.y, want, T, H);
            alone.T = 1;
            alone.x = x;
            alone.weights = weights;
            alone.ids = ids;
            alone.y = space(&s.a, H);
            run_moe(&alone, &run);
            assert_f64_bits(alone.y, want, 1, H);
            arena_release(&s.a, NULL);
        }
    }
}

static void moe_ref__scales_the_sum__by_sum_scale(void **state)
{
    (void)state;
    struct moe_scene s;
    made(&s, 6, 9, 5, 4, 2, 4);
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    run_moe(&s.op, &run);
    struct moe twice = s.op;
    twice.sum_scale = 2;
    twice.y = space(&s.a, 6 * 9);
    run_moe(&twice, &run);
    for (int i = 0; i < 54; i++) assert_f64_is(twice.y[i], 2 * s.op.y[i]);
    arena_release(&s.a, NULL);
}

static void moe_ref__returns_its_scratch(void **state)
{
    (void)state;
    struct moe_scene s;
    struct arena scratch = ARENA_INIT;
    made(&s, 6, 9, 5, 4, 2, 4);
    struct run run = op_run(&scratch, "math", PRECISION_F64);
    run_moe(&s.op, &run);
    assert_int_equal(scratch.bytes, 0);
    arena_release(&s.a, NULL);
}

/* ---- errors ---- */

static void moe_ref__says_what_the_expert_said__when_reading_it_fails(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        struct moe_scene s;
        struct err err = ERR_INIT;
        made(&s, 6, 9, 5, 4, 2, 4);
        s.all.refuse = s.op.ids[3];
        struct run run = op_run(&s.a, "math", PRECISION_F64);
        run.threads = threads;
        assert_refused(moe_ref(&s.op, &run, &err), &err, "a hole in the file");
        arena_release(&s.a, NULL);
    }
}

static void moe_ref__refuses__when_an_expert_does_not_chain(void **state)
{
    (void)state;
    struct moe_scene s;
    struct err err = ERR_INIT;
    made(&s, 2, 9, 5, 3, 3, 3);
    s.all.e[1].up = random_matrix(&s.a, 1, "odd.up", DT_BF16, 6, 9, 1.0);
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    assert_refused(moe_ref(&s.op, &run, &err), &err, "odd.up");
    arena_release(&s.a, NULL);
}

static void moe_check__refuses__when_an_argument_is_bad(void **state)
{
    (void)state;
    struct moe_scene s;
    struct err err = ERR_INIT;
    made(&s, 3, 4, 2, 5, 2, 5);
    struct moe op = s.op;
    assert_int_equal(moe_check(&op, &err), ERR_OK);
    int32_t ids[6] = {0, 1, 0, 5, 0, 1};
    op.ids = ids;
    assert_refused(moe_check(&op, &err), &err, "row 1, slot 1: found 5, wanted 0 to 4");
    ids[3] = -1;
    assert_refused(moe_check(&op, &err), &err, "found -1");
    struct run run = op_run(&s.a, "math", PRECISION_F64);
    assert_refused(moe_ref(&op, &run, &err), &err, "found -1");
    ids[3] = 0;
    assert_refused(moe_ref(&op, &run, &err), &err, "row 1: found expert 0 twice");
    op = s.op;
    op.top_k = 6;
    assert_refused(moe_check(&op, &err), &err, "k = 6");
    op.top_k = 0;
    assert_refused(moe_check(&op, &err), &err, "k = 0");
    op = s.op;
    op.H = 0;
    assert_refused(moe_check(&op, &err), &err, "H = 0");
    arena_release(&s.a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moe_ref__equals_transformers__in_float64),
        cmocka_unit_test(moe_ref__equals_transformers_bitwise__in_profiles_hf_and_hf4),
        cmocka_unit_test(
            moe_ref__is_the_weighted_sum_of_its_experts__rounded_where_the_profile_says),
        cmocka_unit_test(moe_ref__asks_for_chosen_experts_only__however_many_threads),
        cmocka_unit_test(
            moe_ref__gives_a_token_the_same_bits__in_any_order_alone_and_on_any_number_of_threads),
        cmocka_unit_test(moe_ref__scales_the_sum__by_sum_scale),
        cmocka_unit_test(moe_ref__returns_its_scratch),
        cmocka_unit_test(moe_ref__says_what_the_expert_said__when_reading_it_fails),
        cmocka_unit_test(moe_ref__refuses__when_an_expert_does_not_chain),
        cmocka_unit_test(moe_check__refuses__when_an_argument_is_bad),
    };
    return cmocka_run_group_tests_name("moe", tests, NULL, NULL);
}
