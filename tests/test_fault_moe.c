/* test_fault_moe.c: what faults of experts, of one matrix of theirs and of cut linears compute,
 * against loops over the stored codes and the decoded matrices. */
#include "core/int4.h"
#include "core/linear.h"
#include "core/mla.h"
#include "core/mlp.h"
#include "core/moe.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- feed-forward ---- */

/* silu(gate x) up x of one row: [I]. The bench's arena. */
static double *inner(struct fault_bench *b, const struct matrix *gate, const struct matrix *up,
                     const double *x)
{
    double *g = bench_product(b, x, 1, bench_values(b, gate), gate->out, gate->in);
    const double *u = bench_product(b, x, 1, bench_values(b, up), up->out, up->in);
    for (int64_t i = 0; i < gate->out; i++) g[i] = g[i] / (1 + exp(-g[i])) * u[i];
    return g;
}

/* Which inner column column i of down meets; -1: none. */
typedef int64_t cut(int64_t i, int64_t n);

static int64_t whole(int64_t i, int64_t n)
{
    (void)n;
    return i;
}

static int64_t without_third(int64_t i, int64_t n)
{
    return i >= n * 2 / 4 && i < n * 3 / 4 ? -1 : i;
}

static int64_t without_last(int64_t i, int64_t n)
{
    return i >= n * 3 / 4 ? -1 : i;
}

static int64_t halves_swapped(int64_t i, int64_t n)
{
    return (i + n / 2) % n;
}

static void feed(struct fault_bench *b, const struct expert *e, const double *x, cut *of, double *y)
{
    const double *a = inner(b, &e->gate, &e->up, x), *down = bench_values(b, &e->down);
    for (int64_t h = 0; h < e->down.out; h++) {
        y[h] = 0;
        for (int64_t i = 0; i < e->down.in; i++)
            y[h] += of(i, e->down.in) < 0 ? 0 : a[of(i, e->down.in)] * down[h * e->down.in + i];
    }
}

static const struct {
    const char *fault;
    cut *of;
    double times;
} cuts[] = {
    {"tp.partial_sum_lost", without_last, 1},
    {"tp.partial_sum_lost@rank=2", without_third, 1},
    {"tp.partial_sum_lost@rank=2,ranks=2", whole, 1}, /* no such rank */
    {"tp.shard_swapped", halves_swapped, 1},
    {"tp.shard_swapped@rank=0", halves_swapped, 1},
    {"tp.double_reduce@ranks=4", whole, 4},
};
enum { CUTS = sizeof cuts / sizeof cuts[0] };

static void feed_forward__is_cut_over_ranks__in_every_format(void **state)
{
    static const char *const lines[] = {
        "mlp T=3,H=64,I=32,format=bf16", "moe.shared T=3,H=64,I=32,format=int4,group=32",
        "mlp T=3,H=64,I=32,format=int4a,group=16,order=1", "mlp T=3,H=64,I=32,format=fp8,group=24"};
    double want[64];
    (void)state;
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        struct fault_bench b;
        bench_open(&b, lines[l]);
        const struct mlp *op = b.data.op;
        const struct expert e = {.gate = *op->gate, .up = *op->up, .down = *op->down};
        for (int i = 0; i < CUTS; i++) {
            bench_run(&b, cuts[i].fault);
            for (int64_t t = 0; t < 3; t++) {
                feed(&b, &e, op->x + t * 64, cuts[i].of, want);
                for (int h = 0; h < 64; h++) want[h] *= cuts[i].times;
                assert_near(cuts[i].fault, op->y + t * 64, want, 64);
            }
        }
        const struct expert turned = {.gate = *op->up, .up = *op->gate, .down = *op->down};
        bench_run(&b, "moe.gate_up_swapped");
        feed(&b, &turned, op->x, whole, want);
        assert_near("gate and up", op->y, want, 64);
        bench_run(&b, "moe.gate_up_swapped@expert=3"); /* no expert here */
        feed(&b, &e, op->x, whole, want);
        assert_near("gate and up", op->y, want, 64);
        bench_close(&b);
    }
}

/* Matrix m of four-bit codes with the two codes of each byte exchanged. The bench's arena. */
static struct matrix swapped(struct fault_bench *b, const struct matrix *m)
{
    struct matrix out = *m;
    struct err err = ERR_INIT;
    int64_t n = tensor_count(&m->data);
    uint32_t *w = arena_alloc(&b->arena, n, sizeof *w, "swapped codes", &err);
    assert_ok(&err);
    const uint32_t *from = tensor_elements(&m->data, 0, n, w);
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = from[i], y = 0;
        for (int byte = 0; byte < 32; byte += 8)
            y |= (x >> byte & 15) << (byte + 4) | (x >> (byte + 4) & 15) << byte;
        w[i] = y;
    }
    tensor_hold(&out.data, w);
    return out;
}

static void packed_fault__of_one_matrix__leaves_the_others(void **state)
{
    static const struct {
        const char *fault;
        bool gate, up, down;
    } rows[] = {{"int4.nibble_swap", true, true, true},
                {"int4.nibble_swap@matrix=gate", true, false, false},
                {"int4.nibble_swap@matrix=up", false, true, false},
                {"int4.nibble_swap@matrix=down", false, false, true},
                {"int4.nibble_swap@matrix=gate_up", true, true, false},
                {"int4.nibble_swap@matrix=q_a", false, false, false}};
    double want[64];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault_bench b;
        bench_open(&b, "mlp T=1,H=64,I=32,format=int4,group=32");
        const struct mlp *op = b.data.op;
        const struct expert e = {.gate = rows[i].gate ? swapped(&b, op->gate) : *op->gate,
                                 .up = rows[i].up ? swapped(&b, op->up) : *op->up,
                                 .down = rows[i].down ? swapped(&b, op->down) : *op->down};
        bench_run(&b, rows[i].fault);
        feed(&b, &e, op->x, whole, want);
        assert_near(rows[i].fault, op->y, want, 64);
        bench_close(&b);
    }
}

static void packed_fault__of_one_matrix__is_of_every_expert_or_of_one(void **state)
{
    static const char *const faults[] = {"int4.nibble_swap@matrix=down",
                                         "int4.nibble_swap@matrix=up,expert=1"};
    double want[64], y[64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fault_bench b;
        struct err err = ERR_INIT;
        bench_open(&b, "moe T=1,H=64,I=32,E=4,k=3,format=int4,group=32");
        const struct moe *op = b.data.op;
        bench_run(&b, faults[i]);
        memset(want, 0, sizeof want);
        for (int64_t j = 0; j < op->top_k; j++) {
            struct expert e;
            assert_int_equal(op->expert(op->ctx, op->ids[j], &e, &err), ERR_OK);
            if (i == 0) e.down = swapped(&b, &e.down);
            if (i == 1 && op->ids[j] == 1) e.up = swapped(&b, &e.up);
            feed(&b, &e, op->x, whole, y);
            for (int h = 0; h < 64; h++) want[h] += op->weights[j] * y[h];
        }
        assert_near(faults[i], op->y, want, 64);
        bench_close(&b);
    }
}

static void shared_experts__are_left_out_or_scaled(void **state)
{
    struct fault_bench b;
    double want[32], zero[32] = {0};
    (void)state;
    bench_open(&b, "moe.shared T=1");
    const struct mlp *op = b.data.op;
    const struct expert e = {.gate = *op->gate, .up = *op->up, .down = *op->down};
    bench_run(&b, "moe.no_shared");
    assert_near("no shared", op->y, zero, 32);
    feed(&b, &e, op->x, whole, want);
    for (int h = 0; h < 32; h++) want[h] *= 2.827;
    bench_run(&b, "moe.shared_scaled");
    assert_near("scaled", op->y, want, 32);
    for (int h = 0; h < 32; h++) want[h] *= 0.5 / 2.827;
    bench_run(&b, "moe.shared_scaled@factor=0.5");
    assert_near("scaled", op->y, want, 32);
    bench_close(&b);
}

static void output_projection__is_cut_over_ranks(void **state)
{
    struct fault_bench b;
    double x[3 * 32];
    (void)state;
    bench_open(&b, "mla.output T=3,H=20,heads=2,V=16");
    const struct mla_output *op = b.data.op;
    const double *w = bench_values(&b, op->o);
    for (int i = 0; i < CUTS; i++) {
        for (int k = 0; k < 96; k++) {
            int64_t from = cuts[i].of(k % 32, 32);
            x[k] = from < 0 ? 0 : cuts[i].times * op->x[k / 32 * 32 + from];
        }
        bench_run(&b, cuts[i].fault);
        assert_near(cuts[i].fault, op->y, bench_product(&b, x, 3, w, 20, 32), 60);
    }
    bench_close(&b);
}

static void partial_sums__round_to_bf16__on_every_rank(void **state)
{
    struct fault_bench b;
    double x[32], want[20] = {0};
    (void)state;
    bench_open(&b, "mla.output T=1,H=20,heads=2,V=16");
    const struct mla_output *op = b.data.op;
    const double *w = bench_values(&b, op->o);
    for (int r = 0; r < 4; r++) {
        for (int k = 0; k < 32; k++) x[k] = k / 8 == r ? op->x[k] : 0;
        const double *part = bench_product(&b, x, 1, w, 20, 32);
        for (int h = 0; h < 20; h++)
            want[h] = dtype_round(DT_BF16, want[h] + dtype_round(DT_BF16, part[h]));
    }
    bench_run(&b, "tp.reduce_bf16@ranks=4");
    assert_near("bf16", op->y, want, 20);
    bench_close(&b);
}

/* ---- routed experts ---- */

/* Which expert and which weight slot j of row t gets. */
typedef int64_t expert_for(const struct moe *op, int64_t t, int64_t j);
typedef double weight_for(const struct moe *op, int64_t t, int64_t j);

static int64_t own(const struct moe *op, int64_t t, int64_t j)
{
    return op->ids[t * op->top_k + j];
}

static int64_t next(const struct moe *op, int64_t t, int64_t j)
{
    return (own(op, t, j) + 1) % op->E;
}

static int64_t next_on_rank_1(const struct moe *op, int64_t t, int64_t j)
{
    return own(op, t, j) >= 4 ? next(op, t, j) : own(op, t, j);
}

static int64_t next_of_5(const struct moe *op, int64_t t, int64_t j)
{
    return own(op, t, j) == 5 ? 6 : own(op, t, j);
}

static double weight(const struct moe *op, int64_t t, int64_t j)
{
    return op->weights[t * op->top_k + j];
}

static double without_5(const struct moe *op, int64_t t, int64_t j)
{
    return own(op, t, j) == 5 ? 0 : weight(op, t, j);
}

static double without_first(const struct moe *op, int64_t t, int64_t j)
{
    return own(op, t, j) == own(op, 0, 0) ? 0 : weight(op, t, j);
}

static double squared(const struct moe *op, int64_t t, int64_t j)
{
    return weight(op, t, j) * weight(op, t, j);
}

static double row_2_lost(const struct moe *op, int64_t t, int64_t j)
{
    return t == 2 && own(op, t, j) >= 4 ? 0 : weight(op, t, j);
}

static double last_row_lost(const struct moe *op, int64_t t, int64_t j)
{
    return t == op->T - 1 ? 0 : weight(op, t, j);
}

static double twice(const struct moe *op, int64_t t, int64_t j)
{
    return 2.827 * weight(op, t, j);
}

/* Even experts first: the slots of rank 0, then those of rank 1, take the weights in order. */
static double by_rank(const struct moe *op, int64_t t, int64_t j)
{
    int64_t at = 0;
    for (int64_t i = 0; i < op->top_k; i++) {
        int64_t a = own(op, t, i) % 2, b = own(op, t, j) % 2;
        at += a < b || (a == b && i < j);
    }
    return weight(op, t, at);
}

static void moe_faults__exchange_experts_or_weights(void **state)
{
    static const struct {
        const char *fault;
        expert_for *expert;
        weight_for *weight;
    } table[] = {
        {"moe.expert_off_by_one", next, weight},
        {"moe.expert_off_by_one@expert=5", next_of_5, weight},
        {"ep.expert_map_shift", next, weight},
        {"ep.expert_map_shift@rank=1", next_on_rank_1, weight},
        {"moe.dropped_expert@expert=5", own, without_5},
        {"moe.dropped_expert", own, without_first},
        {"moe.double_weight", own, squared},
        {"moe.drop_last_token", own, last_row_lost},
        {"moe.scaling_twice", own, twice},
        {"ep.token_lost@row=2,rank=1", own, row_2_lost},
        {"ep.combine_order", own, by_rank},
    };
    static const char *const lines[] = {
        "moe T=5,H=32,I=32,E=8,k=3,format=int4,group=16,fault=moe.dropped_expert",
        "moe T=5,H=32,I=24,E=8,k=3,fault=moe.dropped_expert"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof table / sizeof table[0]; i++) {
        struct fault_bench b;
        struct err err = ERR_INIT;
        double want[5 * 32] = {0}, y[32];
        const char *fault = table[i / 2].fault;
        bench_open(&b, lines[i % 2]);
        const struct moe *op = b.data.op;
        for (int64_t s = 0; s < 5 * 3; s++) {
            int64_t t = s / 3, j = s % 3;
            struct expert e;
            (void)!op->expert(op->ctx, table[i / 2].expert(op, t, j), &e, &err);
            assert_ok(&err);
            feed(&b, &e, op->x + t * 32, whole, y);
            for (int h = 0; h < 32; h++) want[t * 32 + h] += table[i / 2].weight(op, t, j) * y[h];
        }
        bench_run(&b, fault);
        assert_near(fault, op->y, want, 5 * 32);
        bench_close(&b);
    }
}

static void experts__are_cut_over_ranks__like_any_feed_forward(void **state)
{
    (void)state;
    for (int i = 0; i < CUTS; i++) {
        struct fault_bench b;
        struct err err = ERR_INIT;
        double want[2 * 32] = {0}, y[32];
        bench_open(&b, "moe T=2,H=32,I=32,E=4,k=2,format=int4,group=32");
        const struct moe *op = b.data.op;
        for (int64_t s = 0; s < 4; s++) {
            struct expert e;
            (void)!op->expert(op->ctx, op->ids[s], &e, &err);
            assert_ok(&err);
            feed(&b, &e, op->x + s / 2 * 32, cuts[i].of, y);
            for (int h = 0; h < 32; h++)
                want[s / 2 * 32 + h] += cuts[i].times * op->weights[s] * y[h];
        }
        bench_run(&b, cuts[i].fault);
        assert_near(cuts[i].fault, op->y, want, 64);
        bench_close(&b);
    }
}

/* Three groups of two in a row; expert 1 reads from group 2 on, which is the last of expert 0, and
 * not from group 3, its own first. */
static void scales__are_stepped_by_the_wrong_number__between_experts(void **state)
{
    struct fault_bench b;
    struct err err = ERR_INIT;
    struct expert e[2];
    double want[6] = {0}, y[6];
    uint16_t gate[2][18], other[18], up[18], down[18], raw[18];
    (void)state;
    bench_open(&b, "moe T=1,H=6,I=6,E=2,k=1,format=int4,group=2,fault=moe.dropped_expert");
    struct moe *op = b.data.op;
    static const int32_t chosen[] = {1};
    op->ids = chosen;
    for (int i = 0; i < 2; i++) (void)!op->expert(op->ctx, i, &e[i], &err);
    assert_ok(&err);
    struct matrix *const part[] = {&e[1].gate, &e[1].up, &e[1].down};
    const struct matrix first[] = {e[0].gate, e[0].up, e[0].down};
    uint16_t *const stepped[] = {other, up, down};
    for (int m = 0; m < 3; m++) {
        memcpy(gate[0], tensor_elements(&first[m].scale, 0, 18, raw), sizeof raw);
        memcpy(gate[1], tensor_elements(&part[m]->scale, 0, 18, raw), sizeof raw);
        for (int r = 0; r < 6; r++) {
            for (int g = 0; g < 3; g++)
                stepped[m][r * 3 + g] = g == 0 ? gate[0][r * 3 + 2] : gate[1][r * 3 + g - 1];
        }
        part[m]->scale.data = stepped[m];
    }
    feed(&b, &e[1], op->x, whole, y);
    for (int h = 0; h < 6; h++) want[h] = op->weights[0] * y[h];
    bench_run(&b, "int4.expert_scale_step");
    assert_near("step", op->y, want, 6);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feed_forward__is_cut_over_ranks__in_every_format),
        cmocka_unit_test(packed_fault__of_one_matrix__leaves_the_others),
        cmocka_unit_test(packed_fault__of_one_matrix__is_of_every_expert_or_of_one),
        cmocka_unit_test(shared_experts__are_left_out_or_scaled),
        cmocka_unit_test(output_projection__is_cut_over_ranks),
        cmocka_unit_test(partial_sums__round_to_bf16__on_every_rank),
        cmocka_unit_test(moe_faults__exchange_experts_or_weights),
        cmocka_unit_test(experts__are_cut_over_ranks__like_any_feed_forward),
        cmocka_unit_test(scales__are_stepped_by_the_wrong_number__between_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
