/* test_fault_moe.c: what faults of packed weights, of experts and of cut linears compute, against
 * loops over the stored codes and the decoded matrices. */
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

/* ---- packed weights ---- */

enum { OUT = 16, IN = 32, GROUP = 8, GROUPS = IN / GROUP, WORDS = IN / 8 };

struct packed {
    uint32_t word[OUT * WORDS], zero[OUT / 8 * GROUPS];
    uint16_t scale[OUT * GROUPS];
    int32_t g_idx[IN];
    struct matrix m;
};

/* Codes of every value; every scale another power of two times 1 to 1.75, exact in bf16. */
static void packed_make(struct packed *p, bool zeros)
{
    for (int i = 0; i < OUT * WORDS; i++) p->word[i] = 0x76543210u * (uint32_t)(2 * i + 1) + 0x9u;
    for (int i = 0; i < OUT / 8 * GROUPS; i++) p->zero[i] = 0x0f183a50u + (uint32_t)i;
    for (int i = 0; i < OUT * GROUPS; i++)
        p->scale[i] = bf16_from_f32((float)ldexp(1 + (i % 4) * 0.25, i / 4 % 5 - 2));
    p->m =
        (struct matrix){.format = MATRIX_PACKED, .out = OUT, .in = IN, .bits = 4, .group = GROUP};
    p->m.data = (struct tensor){
        .name = "w", .dtype = DT_I32, .dims = 2, .shape = {OUT, WORDS}, .data = p->word};
    p->m.scale = (struct tensor){
        .name = "w", .dtype = DT_BF16, .dims = 2, .shape = {OUT, GROUPS}, .data = p->scale};
    if (zeros)
        p->m.zero = (struct tensor){
            .name = "w", .dtype = DT_I32, .dims = 2, .shape = {OUT / 8, GROUPS}, .data = p->zero};
}

static double code(const struct packed *p, int r, int c)
{
    return p->word[r * WORDS + c / 8] >> (c % 8 * 4) & 15;
}

static double scale(const struct packed *p, int flat)
{
    flat = flat < 0 ? 0 : flat >= OUT * GROUPS ? OUT * GROUPS - 1 : flat;
    return (double)bf16_to_f32(p->scale[flat]);
}

static double stored_zero(const struct packed *p, int r, int g)
{
    return p->zero[r / 8 * GROUPS + g] >> (r % 8 * 4) & 15;
}

/* Where column c of a row is read from, what is subtracted, and which scale it meets. */
typedef double value_of(const struct packed *p, int r, int c);

static double right(const struct packed *p, int r, int c)
{
    return (code(p, r, c) - 8) * scale(p, r * GROUPS + c / GROUP);
}

#define VALUE(name, value)                                                                         \
    static double name(const struct packed *p, int r, int c)                                       \
    {                                                                                              \
        return value;                                                                              \
    }
#define OWN scale(p, r *GROUPS + c / GROUP)
VALUE(nibbles, (code(p, r, c ^ 1) - 8) * OWN)
VALUE(reversed, (code(p, r, c / 8 * 8 + 7 - c % 8) - 8) * OWN)
VALUE(awq, (code(p, r, c / 8 * 8 + c % 8 / 2 + (c % 2) * 4) - 8) * OWN)
VALUE(twos, (code(p, r, c) - (code(p, r, c) < 8 ? 0 : 16)) * OWN)
VALUE(seven, (code(p, r, c) - 7) * OWN)
VALUE(none, code(p, r, c) * OWN)
VALUE(next_scale, (code(p, r, c) - 8) * scale(p, r *GROUPS + c / GROUP + 1))
VALUE(last_scale, (code(p, r, c) - 8) * scale(p, r *GROUPS + c / GROUP - 1))
VALUE(next_row, (code(p, r, c) - 8) * scale(p, (r == OUT - 1 ? r : r + 1) * GROUPS + c / GROUP))
VALUE(row_before, (code(p, r, c) - 8) * scale(p, (r == 0 ? r : r - 1) * GROUPS + c / GROUP))
VALUE(next_around, (code(p, r, c) - 8) * scale(p, r *GROUPS + (c / GROUP + 1) % GROUPS))
VALUE(last_around, (code(p, r, c) - 8) * scale(p, r *GROUPS + (c / GROUP + GROUPS - 1) % GROUPS))
VALUE(next_stays, (code(p, r, c) - 8) *
                      scale(p, r *GROUPS + (c / GROUP + 1 < GROUPS ? c / GROUP + 1 : c / GROUP)))
VALUE(last_stays, (code(p, r, c) - 8) * scale(p, r *GROUPS + (c / GROUP > 0 ? c / GROUP - 1 : 0)))
VALUE(next_rolled, (code(p, r, c) - 8) * scale(p, (r * GROUPS + c / GROUP + 1) % (OUT * GROUPS)))
VALUE(row_around, (code(p, r, c) - 8) * scale(p, (r + 1) % OUT * GROUPS + c / GROUP))
VALUE(row_back_around, (code(p, r, c) - 8) * scale(p, (r + OUT - 1) % OUT * GROUPS + c / GROUP))
VALUE(across, (code(p, r, c) - 8) * scale(p, c / GROUP * OUT + r))
VALUE(of_16, (code(p, r, c) - 8) * scale(p, r *GROUPS + c / 16))
VALUE(of_4, (code(p, r, c) - 8) * scale(p, r *GROUPS + (c / GROUP * 2 > 3 ? 3 : c / GROUP * 2)))
VALUE(uncut, (code(p, r, c) - 8) * scale(p, r *GROUPS + c % 16 / 4))
VALUE(asymmetric, (code(p, r, c) - stored_zero(p, r, c / GROUP)) * OWN)
VALUE(z_less_one, (code(p, r, c) - fmax(stored_zero(p, r, c / GROUP) - 1, 0)) * OWN)
VALUE(z_wraps,
      (code(p, r, c) - (stored_zero(p, r, c / GROUP) == 0 ? 15 : stored_zero(p, r, c / GROUP))) *
          OWN)
VALUE(as_f16, dtype_round(DT_F16, (code(p, r, c) - 8) *
                                      (double)f16_to_f32(p->scale[r * GROUPS + c / GROUP])))

static void check_packed(const char *fault, bool zeros, value_of *value)
{
    static struct packed p;
    static double y[OUT * IN], want[OUT * IN];
    struct fault_bench b;
    bench_open(&b, "int4");
    packed_make(&p, zeros);
    const struct int4 op = {.w = &p.m, .n = OUT, .y = y};
    bench_fault(fault, "int4", &op, &b.run);
    for (int i = 0; i < OUT * IN; i++) want[i] = value(&p, i / IN, i % IN);
    assert_near(fault, y, want, OUT * IN);
    assert_ptr_equal(p.m.data.data, p.word); /* what is stored is as it was */
    bench_close(&b);
}

static void packed_faults__give_what_the_codes_give(void **state)
{
    (void)state;
    check_packed("int4.nibble_swap", false, nibbles);
    check_packed("int4.word_reversed", false, reversed);
    check_packed("int4.awq_order", false, awq);
    check_packed("int4.twos_complement", false, twos);
    check_packed("int4.zero_point_7", false, seven);
    check_packed("int4.zero_point_0", false, none);
    check_packed("int4.zero_point_7", true, asymmetric);
    check_packed("int4.zero_point_minus_one", true, z_less_one);
    check_packed("int4.zero_point_minus_one", false, right);
    check_packed("int4.zero_point_wraps", true, z_wraps);
    check_packed("int4.zero_point_ignored", true, right);
    check_packed("int4.scale_group_shift", false, next_scale);
    check_packed("int4.scale_group_shift@by=-1", false, last_scale);
    check_packed("int4.scale_row_shift", false, next_row);
    check_packed("int4.scale_row_shift@by=-1", false, row_before);
    check_packed("int4.scale_group_shift@edge=1", false, next_around);
    check_packed("int4.scale_group_shift@edge=1,by=-1", false, last_around);
    check_packed("int4.scale_group_shift@edge=2", false, next_stays);
    check_packed("int4.scale_group_shift@edge=2,by=-1", false, last_stays);
    check_packed("int4.scale_group_shift@edge=3", false, next_rolled);
    check_packed("int4.scale_row_shift@edge=1", false, row_around);
    check_packed("int4.scale_row_shift@edge=1,by=-1", false, row_back_around);
    check_packed("int4.scale_transposed", false, across);
    check_packed("int4.scale_dtype", false, as_f16);
    check_packed("int4.group_size@size=16", false, of_16);
    check_packed("int4.group_size@size=4", false, of_4);
    check_packed("int4.group_size@size=0", false, right);
    check_packed("int4.scales_not_cut", false, uncut);
    check_packed("int4.scales_not_cut@ranks=64", false, right);
    check_packed("fp8.scale_divided", false, right);
}

/* One word, by hand: columns 0 to 7 hold 0 .. 7, so that the swapped ones hold 1 0 3 2 5 4 7 6. */
static void nibble_swap__exchanges_neighbours__of_a_known_word(void **state)
{
    static const double want[] = {-7, -8, -5, -6, -3, -4, -1, -2};
    static const uint32_t word = 0x76543210u;
    static const float one = 1;
    struct matrix m = {.format = MATRIX_PACKED, .out = 1, .in = 8, .bits = 4, .group = 0};
    struct fault_bench b;
    double y[8];
    (void)state;
    m.data =
        (struct tensor){.name = "w", .dtype = DT_I32, .dims = 2, .shape = {1, 1}, .data = &word};
    m.scale =
        (struct tensor){.name = "w", .dtype = DT_F32, .dims = 2, .shape = {1, 1}, .data = &one};
    bench_open(&b, "int4");
    const struct int4 op = {.w = &m, .n = 1, .y = y};
    bench_fault("int4.nibble_swap", "int4", &op, &b.run);
    assert_near("swapped", y, want, 8);
    bench_close(&b);
}

static void group_index__is_followed__by_another_group_size(void **state)
{
    static struct packed p;
    static double y[OUT * IN], want[OUT * IN];
    struct fault_bench b;
    (void)state;
    bench_open(&b, "int4");
    packed_make(&p, false);
    for (int c = 0; c < IN; c++) p.g_idx[c] = GROUPS - 1 - c / GROUP;
    p.m.g_idx =
        (struct tensor){.name = "w", .dtype = DT_I32, .dims = 1, .shape = {IN}, .data = p.g_idx};
    const struct int4 op = {.w = &p.m, .n = OUT, .y = y};
    bench_fault("int4.group_size@size=16", "int4", &op, &b.run);
    for (int i = 0; i < OUT * IN; i++)
        want[i] = (code(&p, i / IN, i % IN) - 8) *
                  scale(&p, i / IN * GROUPS + p.g_idx[i % IN] * GROUP / 16);
    assert_near("group index", y, want, OUT * IN);
    bench_close(&b);
}

static void fp8_faults__divide_or_take_the_block_below(void **state)
{
    struct fault_bench b;
    (void)state;
    bench_open(&b, "linear T=2,in=32,out=40,format=fp8,group=16");
    const struct linear *op = b.data.op;
    struct matrix m = *op->w;
    float scale[6], other[6];
    memcpy(scale, tensor_elements(&op->w->scale, 0, 6, other), sizeof scale);
    m.scale.data = other;
    for (int i = 0; i < 6; i++) other[i] = 1 / scale[i];
    bench_run(&b, "fp8.scale_divided");
    assert_near("divided", op->y, bench_product(&b, op->x, 2, bench_values(&b, &m), 40, 32), 80);
    for (int i = 0; i < 6; i++) other[i] = scale[i < 4 ? i + 2 : i];
    bench_run(&b, "fp8.block_row");
    assert_near("below", op->y, bench_product(&b, op->x, 2, bench_values(&b, &m), 40, 32), 80);
    bench_close(&b);
}

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
        cmocka_unit_test(packed_faults__give_what_the_codes_give),
        cmocka_unit_test(nibble_swap__exchanges_neighbours__of_a_known_word),
        cmocka_unit_test(group_index__is_followed__by_another_group_size),
        cmocka_unit_test(fp8_faults__divide_or_take_the_block_below),
        cmocka_unit_test(feed_forward__is_cut_over_ranks__in_every_format),
        cmocka_unit_test(shared_experts__are_left_out_or_scaled),
        cmocka_unit_test(output_projection__is_cut_over_ranks),
        cmocka_unit_test(partial_sums__round_to_bf16__on_every_rank),
        cmocka_unit_test(moe_faults__exchange_experts_or_weights),
        cmocka_unit_test(experts__are_cut_over_ranks__like_any_feed_forward),
        cmocka_unit_test(scales__are_stepped_by_the_wrong_number__between_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
