/* test_fault_int4.c: what faults of packed and FP8 weights compute, against loops over the stored
 * codes. */
#include "core/int4.h"
#include "core/linear.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_faults__give_what_the_codes_give),
        cmocka_unit_test(nibble_swap__exchanges_neighbours__of_a_known_word),
        cmocka_unit_test(group_index__is_followed__by_another_group_size),
        cmocka_unit_test(fp8_faults__divide_or_take_the_block_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
