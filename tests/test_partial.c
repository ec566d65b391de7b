/* test_partial.c: ops that give one rank's part: the parts add up to the whole, and what the whole
 * rounds at its end the parts do not. */
#include "core/embed.h"
#include "core/matrix_part.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "tests/op_fixture.h"

#include <math.h>
#include <string.h>

enum { T = 5, H = 24, I = 32, E = 4, K = 2, RANKS = 4 };

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena, NULL);
    return 0;
}

static struct matrix random_weight(const char *name, int64_t out, int64_t in)
{
    return random_matrix(&arena, 3, name, DT_BF16, out, in, 1 / sqrt((double)in) * 3);
}

static struct matrix rows_of(const struct matrix *m, int rank)
{
    struct matrix part;
    struct err err = ERR_INIT;
    (void)!matrix_part(m, (struct extent){m->out / RANKS * rank, m->out / RANKS},
                       (struct extent){0, m->in}, &part, &err);
    assert_ok(&err);
    return part;
}

static struct matrix columns_of(const struct matrix *m, int rank)
{
    struct matrix part;
    struct err err = ERR_INIT;
    (void)!matrix_part(m, (struct extent){0, m->out},
                       (struct extent){m->in / RANKS * rank, m->in / RANKS}, &part, &err);
    assert_ok(&err);
    return part;
}

/* bf16 activations that round everywhere, in float64 sums. */
static struct run rounding(void)
{
    return op_run(&arena, "hf", PRECISION_F64);
}

/* hf4 rounds every expert's output; a profile without those points is what cut experts give. */
static struct run without_expert_points(void)
{
    struct run run = rounding();
    run.profile.rounds[RP_EXPERT_TERM] = run.profile.rounds[RP_EXPERT_SUM] = false;
    return run;
}

static void add(double *sum, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

static void assert_unrounded(const double *x, int64_t n)
{
    int64_t whole = 0;
    for (int64_t i = 0; i < n; i++) whole += x[i] == dtype_round(DT_BF16, x[i]);
    assert_true(whole < n / 4);
}

/* sum rounds to `want`: the sums differ by their order alone, so a border is crossed rarely. */
static void assert_rounds_to(double *sum, const double *want, const struct run *run,
                             enum round_point p, int64_t n)
{
    int64_t equal = 0;
    run_round(run, p, sum, n);
    for (int64_t i = 0; i < n; i++) equal += sum[i] == want[i];
    assert_int_equal(equal, n);
}

static void output__of_parts_is_rounded_by_the_caller(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct run run = rounding();
    const struct matrix o = random_weight("o", H, I);
    double *x = random_f64(&arena, 1, "x", T * I, 1), *whole = space(&arena, T * H);
    double *y = space(&arena, T * H), *own = space(&arena, T * I), sum[T * H] = {0};
    const struct mla_output op = {.T = T, .x = x, .o = &o, .y = whole};
    (void)!mla_output_ref(&op, &run, &err);
    for (int r = 0; r < RANKS; r++) {
        const struct matrix part = columns_of(&o, r);
        int64_t n = part.in;
        for (int t = 0; t < T; t++) memcpy(own + t * n, x + t * I + r * n, (size_t)n * sizeof *own);
        const struct mla_output cut = {.T = T, .x = own, .o = &part, .y = y, .partial = true};
        (void)!mla_output_ref(&cut, &run, &err);
        assert_ok(&err);
        assert_unrounded(y, T * H);
        add(sum, y, T * H);
    }
    assert_rounds_to(sum, whole, &run, RP_LINEAR, T * H);
}

static void mlp__of_parts_is_rounded_by_the_caller(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct run run = rounding();
    const struct matrix gate = random_weight("gate", I, H), up = random_weight("up", I, H),
                        down = random_weight("down", H, I);
    double *x = random_f64(&arena, 1, "x", T * H, 1), *whole = space(&arena, T * H);
    double *y = space(&arena, T * H), sum[T * H] = {0};
    struct mlp op = {.T = T, .x = x, .gate = &gate, .up = &up, .down = &down, .y = whole};
    (void)!mlp_ref(&op, &run, &err);
    for (int r = 0; r < RANKS; r++) {
        const struct matrix g = rows_of(&gate, r), u = rows_of(&up, r), d = columns_of(&down, r);
        const struct mlp cut = {
            .T = T, .x = x, .gate = &g, .up = &u, .down = &d, .y = y, .partial = true};
        (void)!mlp_ref(&cut, &run, &err);
        assert_ok(&err);
        assert_unrounded(y, T * H);
        add(sum, y, T * H);
    }
    assert_rounds_to(sum, whole, &run, RP_LINEAR, T * H);
}

/* ---- experts ---- */

struct experts {
    struct expert e[E];
    int rank; /* -1: whole */
};

static enum err_code give(const void *ctx, int64_t e, struct expert *out, struct err *err)
{
    const struct experts *all = ctx;
    *out = all->e[e];
    (void)err;
    if (all->rank < 0) return ERR_OK;
    out->gate = rows_of(&all->e[e].gate, all->rank);
    out->up = rows_of(&all->e[e].up, all->rank);
    out->down = columns_of(&all->e[e].down, all->rank);
    return ERR_OK;
}

static const int32_t ids[T * K] = {0, 1, 1, 3, 0, 2, 2, 3, 0, 3};

static struct moe scene(struct experts *all, double scale)
{
    char name[16];
    for (int e = 0; e < E; e++) {
        snprintf(name, sizeof name, "gate%d", e);
        all->e[e].gate = random_weight(name, I, H);
        name[0] = 'u';
        all->e[e].up = random_weight(name, I, H);
        name[0] = 'd';
        all->e[e].down = random_weight(name, H, I);
    }
    all->rank = -1;
    return (struct moe){.T = T,
                        .H = H,
                        .I = I,
                        .E = E,
                        .top_k = K,
                        .x = random_f64(&arena, 1, "x", T * H, 1),
                        .ids = ids,
                        .weights = random_f64(&arena, 2, "weights", T * K, 1),
                        .expert = give,
                        .ctx = all,
                        .sum_scale = scale,
                        .y = space(&arena, T * H)};
}

/* Whole experts on each rank: they round as they do alone, their sum does not. */
static void moe__of_some_experts_leaves_the_sum_to_the_caller(void **state)
{
    (void)state;
    struct experts all;
    struct err err = ERR_INIT;
    struct run run = rounding();
    run.profile.rounds[RP_EXPERT_SUM] = false; /* an order of its own */
    run.profile.rounds[RP_ROUTED_SCALED] = true;
    struct moe op = scene(&all, 2.5), part = op;
    double sum[T * H] = {0};
    (void)!moe_ref(&op, &run, &err);
    part.partial = true;
    part.y = space(&arena, T * H);
    for (int r = 0; r < 2; r++) {
        int32_t own[T * K];
        for (int i = 0; i < T * K; i++) own[i] = ids[i] % 2 == r ? ids[i] : -1;
        part.ids = own;
        (void)!moe_ref(&part, &run, &err);
        assert_ok(&err);
        add(sum, part.y, T * H);
    }
    moe_round(&run, 2.5, T * H, sum);
    assert_f64_bits(sum, op.y, T, H);
}

/* Cut experts: nothing behind the activation rounds before the sum is whole. */
static void moe__of_cut_experts_rounds_no_part(void **state)
{
    (void)state;
    struct experts all;
    struct err err = ERR_INIT;
    struct run run = rounding(), other = without_expert_points();
    struct moe op = scene(&all, 1), part = op;
    double sum[T * H] = {0};
    other.profile.rounds[RP_ROUTED] = false;
    part.partial = part.cut = true;
    part.I = I / RANKS;
    part.y = space(&arena, T * H);
    for (all.rank = 0; all.rank < RANKS; all.rank++) {
        (void)!moe_ref(&part, &run, &err);
        assert_ok(&err);
        assert_unrounded(part.y, T * H);
        add(sum, part.y, T * H);
    }
    /* The whole experts' own outputs with RP_LINEAR of the last linear left out. */
    op.cut = op.partial = true;
    all.rank = -1;
    (void)!moe_ref(&op, &other, &err);
    assert_ok(&err);
    assert_f64_near(sum, op.y, T, H, 1e-13, 0);
}

static void moe__refuses_the_id_of_another_rank__where_all_are_here(void **state)
{
    (void)state;
    struct experts all;
    struct err err = ERR_INIT;
    struct run run = rounding();
    struct moe op = scene(&all, 1);
    int32_t own[T * K];
    memcpy(own, ids, sizeof own);
    own[3] = -1;
    op.ids = own;
    assert_refused(moe_ref(&op, &run, &err), &err, "row 1, slot 1: found -1");
    op.partial = true;
    own[3] = -2;
    assert_refused(moe_ref(&op, &run, &err), &err, "row 1, slot 1: found -2");
}

/* ---- tables ---- */

static void embed__of_some_ids_is_zero_for_the_others(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct run run = rounding();
    const struct matrix table = random_weight("table", 8, H);
    const int64_t id[] = {0, 7, 3, 4, 5};
    double *whole = space(&arena, T * H), *y = space(&arena, T * H), sum[T * H] = {0};
    struct embed op = {.T = T, .H = H, .V = 8, .id = id, .table = &table.data, .y = whole};
    (void)!embed_ref(&op, &run, &err);
    struct tensor part;
    for (int r = 0; r < RANKS; r++) {
        (void)!tensor_rows_part(&table.data, (struct extent){2 * r, 2}, &part, &err);
        op.table = &part;
        op.first = 2 * r;
        op.rows = 2;
        op.y = y;
        (void)!embed_ref(&op, &run, &err);
        assert_ok(&err);
        for (int t = 0; t < T; t++) assert_true((y[t * H] != 0) == (id[t] / 2 == r));
        add(sum, y, T * H);
    }
    assert_f64_bits(sum, whole, T, H);
    op.rows = 3;
    assert_refused(embed_ref(&op, &run, &err), &err, "found ids 6 to 8, wanted some of the 8");
    op.first = 4;
    assert_refused(embed_ref(&op, &run, &err), &err, "floats [3, 24]");
    op.first = -1;
    assert_refused(embed_ref(&op, &run, &err), &err, "found ids -1 to 1");
}

static void no_point__rounds_nothing(void **state)
{
    (void)state;
    struct run run = op_run(&arena, "hf", PRECISION_F32);
    const double x = 1 + 0x1p-50;
    assert_true(run_round_one(&run, RP_NONE, x) == x);
    assert_true(run_round_one(&run, RP_LINEAR, x) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output__of_parts_is_rounded_by_the_caller),
        cmocka_unit_test(mlp__of_parts_is_rounded_by_the_caller),
        cmocka_unit_test(moe__of_some_experts_leaves_the_sum_to_the_caller),
        cmocka_unit_test(moe__of_cut_experts_rounds_no_part),
        cmocka_unit_test(moe__refuses_the_id_of_another_rank__where_all_are_here),
        cmocka_unit_test(embed__of_some_ids_is_zero_for_the_others),
        cmocka_unit_test(no_point__rounds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
