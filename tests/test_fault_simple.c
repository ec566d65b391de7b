/* test_fault_simple.c: the seam, faults of any output, of the rotation and of the norms, on single
 * ops. */
#include "core/mla.h"
#include "core/mlp.h"
#include "core/norm.h"
#include "core/rope.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the seam ---- */

/* Calls an op through faults that live on. */
static void call(struct faults *f, const struct fault_place *p, const void *arg, struct run *run)
{
    struct err err = ERR_INIT;
    run->faults = f;
    (void)!fault_call(p, arg, run, &err);
    run->faults = NULL;
    assert_ok(&err);
}

static void faults_of(struct faults *f, const char *first, const char *second)
{
    struct err err = ERR_INIT;
    *f = (struct faults){0};
    (void)!faults_add(f, first, &err);
    if (second) (void)!faults_add(f, second, &err);
    assert_ok(&err);
}

static void call_key__picks_one_call__of_those_at_the_site(void **state)
{
    struct fault_bench b;
    struct faults f;
    (void)state;
    bench_open(&b, "norm T=3");
    const struct norm *op = b.data.op;
    const struct fault_place here = {.op = "norm", .layer = 2, .side = ref_side()};
    const struct fault_place there = {.op = "norm", .layer = 1, .side = ref_side()};
    faults_of(&f, "any.zero_row@op=norm,layer=2,call=1,row=0", NULL);
    for (int i = 0; i < 3; i++) {
        call(&f, &there, op, &b.run);
        assert_true(op->y[0] != 0);
        call(&f, &here, op, &b.run);
        assert_int_equal(op->y[0] == 0, i == 1);
    }
    assert_true(f.use[0].seen == 3 && f.use[0].calls == 1);
    faults_clear(&f);
    bench_close(&b);
}

static void two_faults__both_hold__at_one_call(void **state)
{
    struct fault_bench b;
    struct faults f;
    double want[2 * 16];
    (void)state;
    bench_open(&b, "norm T=2");
    const struct norm *op = b.data.op;
    const struct fault_place place = {.op = "norm", .layer = -1, .side = ref_side()};
    bench_run(&b, "norm.no_weight");
    memcpy(want, op->y, sizeof want);
    memset(want, 0, 16 * sizeof *want);
    faults_of(&f, "any.zero_row@row=0", "norm.no_weight");
    call(&f, &place, op, &b.run);
    assert_near("both", op->y, want, 32);
    faults_clear(&f);
    faults_of(&f, "norm.no_weight", "any.zero_row@row=0");
    call(&f, &place, op, &b.run);
    assert_near("both", op->y, want, 32);
    faults_clear(&f);
    bench_close(&b);
}

static void changes__are_counted_in_bits__also_in_place(void **state)
{
    static const struct {
        const char *line, *fault;
        int changed;
    } table[] = {
        {"rope T=3,R=8,heads=2", "rope.half_split", 1},
        {"rope T=1,R=8,position=0", "rope.half_split", 0}, /* position 0 cannot see it */
        {"norm T=2,inplace=1", "norm.no_weight", 1},
        {"norm T=2,w=none", "norm.no_weight", 0},
        {"router T=3,k=2", "router.unwritten_ids", 1}, /* ids alone */
        {"router T=3,k=2", "router.no_groups", 0},
        {"int4 out=8,in=64", "int4.nibble_swap", 1},
        {"mla.kv T=2", "rope.k_unrotated", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct fault_bench b, once;
        struct faults f;
        struct fault_output out[2], alone[2];
        bench_open(&b, table[i].line);
        bench_open(&once, table[i].line);
        const struct fault_place place = {.op = b.c.op->name, .layer = -1, .side = ref_side()};
        faults_of(&f, table[i].fault, NULL);
        f.count_changes = true;
        call(&f, &place, b.data.op, &b.run);
        assert_int_equal(f.use[0].changed, table[i].changed);
        bench_run(&once, table[i].fault);
        int n = fault_outputs(place.op, b.data.op, out);
        assert_int_equal(fault_outputs(place.op, once.data.op, alone), n);
        for (int k = 0; k < n; k++)
            assert_memory_equal(out[k].data, alone[k].data,
                                (size_t)(out[k].rows * out[k].cols) * sizeof(double));
        faults_clear(&f);
        bench_close(&once);
        bench_close(&b);
    }
}

static void outputs__are_those_of_the_case__for_every_op(void **state)
{
    const struct case_op *op;
    (void)state;
    for (int i = 0; (op = case_op_at(i)); i++) {
        struct fault_bench b;
        struct fault_output out[2];
        if (!op_find(op->name)) continue;
        bench_open(&b, op->name);
        int n = fault_outputs(op->name, b.data.op, out), at = 0;
        for (int k = 0; k < b.data.outputs; k++) {
            const struct case_output *o = &b.data.output[k];
            if (o->dtype != DT_F64) continue;
            if (at >= n) fail_msg("%s: output %s is missing", op->name, o->name);
            assert_ptr_equal(out[at].data, o->data);
            assert_true(out[at].rows == o->rows && out[at].cols == o->cols);
            at++;
        }
        assert_int_equal(at, n);
        bench_close(&b);
    }
    assert_int_equal(fault_outputs("no such op", NULL, NULL), 0);
}

static void side__that_lacks_an_op__is_said(void **state)
{
    static const struct op_entry none[] = {{0}};
    static const struct op_side bare = {.name = "bare", .available = true, .entries = none};
    struct fault_bench b;
    struct faults f;
    struct err err = ERR_INIT;
    (void)state;
    bench_open(&b, "norm");
    const struct fault_place place = {.op = "norm", .layer = -1, .side = &bare};
    faults_of(&f, "norm.no_weight", NULL);
    b.run.faults = &f;
    assert_int_equal(fault_call(&place, b.data.op, &b.run, &err), ERR_DEVICE);
    assert_err(&err, ERR_DEVICE, "run op", "norm on bare", "not implemented", NULL);
    faults_clear(&f);
    bench_close(&b);
}

/* ---- any ---- */

/* Rows 2 of 5, columns 3 of 16 of a norm; `want` is the clean output, edited by the caller. */
static void check_any(const char *fault, void (*edit)(double *y, const double *clean))
{
    struct fault_bench b;
    double clean[5 * 16], want[5 * 16];
    bench_open(&b, "norm T=5,H=16");
    const struct norm *op = b.data.op;
    bench_run(&b, "any.zero_row@row=99"); /* no such row: the clean op */
    memcpy(clean, op->y, sizeof clean);
    memcpy(want, clean, sizeof want);
    edit(want, clean);
    bench_run(&b, fault);
    for (int i = 0; i < 5 * 16; i++) {
        if (memcmp(&op->y[i], &want[i], sizeof want[i]) != 0 &&
            !(isnan(op->y[i]) && isnan(want[i])))
            fail_msg("%s: cell %d is %g, wanted %g", fault, i, op->y[i], want[i]);
    }
    bench_close(&b);
}

static void to_nan(double *y, const double *clean)
{
    (void)clean;
    y[2 * 16 + 3] = NAN;
}

static void to_inf(double *y, const double *clean)
{
    (void)clean;
    y[2 * 16 + 3] = INFINITY;
}

static void sign_flipped(double *y, const double *clean)
{
    y[2 * 16 + 3] = (double)-(float)clean[2 * 16 + 3];
}

static void row_zero(double *y, const double *clean)
{
    (void)clean;
    memset(y + 2 * 16, 0, 16 * sizeof *y);
}

static void turned(double *y, const double *clean)
{
    for (int i = 0; i < 80; i++) y[i] = clean[i % 16 * 5 + i / 16];
}

static void shifted(double *y, const double *clean)
{
    memcpy(y, clean + 16, 64 * sizeof *y);
}

static void shifted_back(double *y, const double *clean)
{
    memcpy(y + 16, clean, 64 * sizeof *y);
}

static void rolled(double *y, const double *clean)
{
    shifted(y, clean);
    memcpy(y + 64, clean, 16 * sizeof *y);
}

static void rolled_back(double *y, const double *clean)
{
    shifted_back(y, clean);
    memcpy(y, clean + 64, 16 * sizeof *y);
}

static void written_turned(double *y, const double *clean)
{
    for (int i = 0; i < 80; i++) y[i] = clean[i % 5 * 16 + i / 5];
}

static void row_before(double *y, const double *clean)
{
    memcpy(y + 2 * 16, clean + 16, 16 * sizeof *y);
}

static void unchanged(double *y, const double *clean)
{
    (void)y;
    (void)clean;
}

static void cells_rows_and_all__are_edited__where_the_keys_say(void **state)
{
    (void)state;
    check_any("any.nan@row=2,col=3", to_nan);
    check_any("any.inf@row=2,col=3,output=0", to_inf);
    check_any("any.bit_flip@row=2,col=3,bit=15", sign_flipped);
    check_any("any.bit_flip@row=2,col=3,bit=16", unchanged);
    check_any("any.zero_row@row=2", row_zero);
    check_any("any.stale_row@row=2", row_zero); /* nothing was there before */
    check_any("any.transposed", turned);
    check_any("any.stale_row@row=2,from=1", row_before);
    check_any("any.stale_row@row=0,from=1", unchanged); /* no row is before it */
    check_any("any.transposed@way=1", written_turned);
    check_any("any.off_by_one_row", shifted);
    check_any("any.off_by_one_row@by=-1", shifted_back);
    check_any("any.off_by_one_row@edge=1", rolled);
    check_any("any.off_by_one_row@edge=1,by=-1", rolled_back);
    check_any("any.off_by_one_row@by=7", unchanged);
    check_any("any.nan@row=2,col=16", unchanged);
    check_any("any.nan@output=1", unchanged);
    check_any("any.nan@op=moe", unchanged);
    check_any("any.uninitialised@row=9", unchanged);
}

static void place__is_the_same_one_cell__where_no_key_says(void **state)
{
    struct fault_bench b;
    int first = -1;
    (void)state;
    for (int again = 0; again < 2; again++) {
        int bad = 0, at = -1;
        bench_open(&b, "norm T=5,H=16");
        const struct norm *op = b.data.op;
        bench_run(&b, "any.nan");
        for (int i = 0; i < 80; i++) {
            if (!isnan(op->y[i])) continue;
            bad++;
            at = i;
        }
        assert_int_equal(bad, 1);
        assert_true(again == 0 || at == first);
        first = at;
        bench_close(&b);
    }
}

static void tile__is_whole_and_the_rest_untouched__when_not_written(void **state)
{
    struct fault_bench b;
    double clean[2 * 64];
    int changed = 0;
    (void)state;
    bench_open(&b, "norm T=2,H=64");
    const struct norm *op = b.data.op;
    bench_run(&b, "any.zero_row@row=99");
    memcpy(clean, op->y, sizeof clean);
    bench_run(&b, "any.uninitialised@row=1,col=40,tile=16");
    for (int i = 0; i < 128; i++) {
        bool same = memcmp(&op->y[i], &clean[i], sizeof clean[i]) == 0;
        changed += !same;
        assert_true(same || (i >= 64 + 32 && i < 64 + 48));
    }
    assert_int_equal(changed, 16);
    bench_close(&b);
}

static void stale_row__is_that_of_the_call_before__of_the_same_op(void **state)
{
    struct fault_bench a, b;
    struct faults f;
    double before[16];
    (void)state;
    bench_open(&a, "norm T=3,H=16,seed=1");
    bench_open(&b, "norm T=3,H=16,seed=2");
    const struct fault_place place = {
        .op = "norm", .tap = TAP_ATTN_NORM, .layer = 0, .side = ref_side()};
    const struct fault_place other = {
        .op = "norm", .tap = TAP_MLP_NORM, .layer = 0, .side = ref_side()};
    const struct fault_place later = {
        .op = "norm", .tap = TAP_ATTN_NORM, .layer = 1, .side = ref_side()};
    const struct norm *first = a.data.op, *second = b.data.op;
    faults_of(&f, "any.stale_row@layer=1,row=1", NULL);
    call(&f, &place, first, &a.run);
    memcpy(before, first->y + 16, sizeof before);
    call(&f, &other, second, &b.run); /* another norm of the layer */
    call(&f, &later, second, &b.run);
    assert_memory_equal(second->y + 16, before, sizeof before);
    assert_true(second->y[0] != first->y[0]);
    faults_clear(&f);
    bench_close(&b);
    bench_close(&a);
}

/* ---- rope ---- */

enum { R = 8 };

/* One head's columns turned as the definition says, by frequencies in float32. */
static void turn(double *x, double position, const float *frequency, double factor, bool neighbours)
{
    for (int i = 0; i < R / 2; i++) {
        int a = neighbours ? 2 * i : i, b = neighbours ? 2 * i + 1 : i + R / 2;
        double angle = (double)((float)position * frequency[i]);
        double c = cos(angle) * factor, s = sin(angle) * factor, xa = x[a], xb = x[b];
        x[a] = xa * c - xb * s;
        x[b] = xb * c + xa * s;
    }
}

/* Frequencies of YaRN with these numbers; factor 1: plain. */
static void frequencies(double theta, double factor, double beta_fast, double original, float *out)
{
    const double pi = 3.14159265358979323846;
    double low = R * log(original / (beta_fast * 2 * pi)) / (2 * log(theta));
    double high = R * log(original / (1 * 2 * pi)) / (2 * log(theta));
    low = fmax(floor(low), 0);
    high = fmin(ceil(high), R - 1);
    if (low == high) high += 0.001;
    for (int i = 0; i < R / 2; i++) {
        double plain = pow(theta, -2.0 * i / R);
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        out[i] = (float)(plain / factor * ramp + plain * (1 - ramp));
    }
}

#define ROPE_CASE                                                                                  \
    "T=3,R=8,position=5,step=90,theta=50000,yarn=1,factor=64,beta_fast=32,original=4096,x=f32,"    \
    "mscale=0.707"
/* What cos and sin are multiplied by: (0.0707 ln 64 + 1) / (0.1 ln 64 + 1), without mscale 1, where
 * its fields are ignored 0.1 ln 64 + 1. */
#define ATTENTION_FACTOR 0.9139372

/* Angles are products of float32, whose last bits may differ: a thousandth of a turn at most. */
static void assert_turned(const char *what, const double *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) < 1e-3))
            fail_msg("%s: cell %lld is %g, wanted %g", what, (long long)i, got[i], want[i]);
    }
}

static void rotations__use_other_pairs_or_frequencies(void **state)
{
    static const struct {
        const char *fault;
        double theta, factor, beta_fast, original, times;
        bool neighbours;
    } table[] = {
        {"rope.half_split", 50000, 64, 32, 4096, ATTENTION_FACTOR, false},
        {"rope.no_yarn", 50000, 1, 32, 4096, 1, true},
        {"rope.beta_fast", 50000, 64, 1, 4096, ATTENTION_FACTOR, true},
        {"rope.original_max", 50000, 64, 32, 262144, ATTENTION_FACTOR, true},
        {"rope.theta_default", 10000, 64, 32, 4096, ATTENTION_FACTOR, true},
        {"rope.mscale_ignored", 50000, 64, 32, 4096, 1.4158883083, true},
        {"rope.no_ramp", 50000, 64, 1e30, 1e-30, ATTENTION_FACTOR, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct fault_bench b, k;
        float f[R / 2];
        double want[3 * R], key[3 * R];
        bench_open(&b, "rope heads=1," ROPE_CASE);
        bench_open(&k, "mla.kv H=20,L=4," ROPE_CASE);
        const struct rope *op = b.data.op;
        const struct mla_kv *kv = k.data.op;
        memcpy(want, op->x, sizeof want);
        frequencies(table[i].theta, table[i].factor, table[i].beta_fast, table[i].original, f);
        if (strcmp(table[i].fault, "rope.no_ramp") == 0) {
            for (int p = 0; p < R / 2; p++) f[p] = (float)(pow(50000, -2.0 * p / R) / 64);
        }
        const double *a = bench_product(&k, kv->x, 3, bench_values(&k, kv->a), 12, 20);
        for (int t = 0; t < 3; t++) {
            memcpy(key + t * R, a + t * 12 + 4, R * sizeof *key);
            turn(want + t * R, 5 + 90 * t, f, table[i].times, table[i].neighbours);
            turn(key + t * R, 5 + 90 * t, f, table[i].times, table[i].neighbours);
        }
        bench_run(&b, table[i].fault);
        bench_run(&k, table[i].fault);
        assert_turned(table[i].fault, op->x, want, 3 * R);
        assert_turned(table[i].fault, kv->k_rope, key, 3 * R);
        bench_close(&k);
        bench_close(&b);
    }
}

static void keys__are_rotated_for_another_position(void **state)
{
    static const struct {
        const char *fault;
        int times, plus;
        double factor;
    } table[] = {
        {"rope.position_off_by_one_for_k", 1, 1, ATTENTION_FACTOR},
        {"rope.k_unrotated", 0, 0, ATTENTION_FACTOR},
        {"rope.k_rotated_twice", 2, 0, ATTENTION_FACTOR * ATTENTION_FACTOR},
    };
    float f[R / 2];
    (void)state;
    frequencies(50000, 64, 32, 4096, f);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct fault_bench k;
        double key[3 * R];
        bench_open(&k, "mla.kv H=20,L=4," ROPE_CASE);
        const struct mla_kv *kv = k.data.op;
        const double *a = bench_product(&k, kv->x, 3, bench_values(&k, kv->a), 12, 20);
        for (int t = 0; t < 3; t++) {
            memcpy(key + t * R, a + t * 12 + 4, R * sizeof *key);
            turn(key + t * R, table[i].times * (5 + 90 * t) + table[i].plus, f, table[i].factor,
                 true);
        }
        bench_run(&k, table[i].fault);
        assert_turned(table[i].fault, kv->k_rope, key, 3 * R);
        bench_close(&k);
    }
}

static void first_columns__are_rotated__as_if_the_rope_part_stood_first(void **state)
{
    struct fault_bench b;
    double want[3 * 12];
    float f[R / 2];
    (void)state;
    bench_open(&b, "rope heads=1,offset=4," ROPE_CASE);
    const struct rope *op = b.data.op;
    memcpy(want, op->x, sizeof want);
    frequencies(50000, 64, 32, 4096, f);
    for (int t = 0; t < 3; t++) turn(want + t * 12, 5 + 90 * t, f, ATTENTION_FACTOR, true);
    bench_run(&b, "rope.wrong_columns");
    assert_turned("columns", op->x, want, 3 * 12);
    bench_close(&b);
}

static void table__that_cannot_be__is_refused(void **state)
{
    struct fault_bench b;
    struct err err = ERR_INIT;
    (void)state;
    bench_open(&b, "rope heads=1," ROPE_CASE);
    assert_int_equal(bench_try("rope.theta_default@value=1", "rope", b.data.op, &b.run, &err),
                     ERR_INPUT);
    bench_close(&b);
}

/* ---- norms ---- */

static void norm__lacks_its_weight__or_has_another_eps(void **state)
{
    struct fault_bench b;
    double want[16], sum = 0;
    (void)state;
    bench_open(&b, "norm T=1,H=16,gain=0.01,w=none,x=f32");
    const struct norm *op = b.data.op;
    for (int h = 0; h < 16; h++) sum += op->x[h] * op->x[h];
    for (int h = 0; h < 16; h++) want[h] = op->x[h] / sqrt(sum / 16 + 1e-5);
    bench_run(&b, "norm.eps");
    assert_near("eps", op->y, want, 16);
    for (int h = 0; h < 16; h++) want[h] = op->x[h] / sqrt(sum / 16 + 0.5);
    bench_run(&b, "norm.eps@eps=0.5");
    assert_near("eps", op->y, want, 16);
    bench_close(&b);
    bench_open(&b, "norm T=1,H=16,eps=1e-5,x=f32");
    op = b.data.op;
    sum = 0;
    for (int h = 0; h < 16; h++) sum += op->x[h] * op->x[h];
    for (int h = 0; h < 16; h++) want[h] = op->x[h] / sqrt(sum / 16 + 1e-5);
    bench_run(&b, "norm.no_weight");
    assert_near("no weight", op->y, want, 16);
    bench_close(&b);
}

static void row__becomes_zero__when_its_squares_overflow_fp16(void **state)
{
    struct fault_bench b;
    double x[3 * 16] = {0};
    (void)state;
    bench_open(&b, "norm T=3,H=16,x=f32");
    struct norm *op = b.data.op;
    x[0] = 255.9; /* 65484.81 */
    x[16] = 256;  /* 65536 */
    x[32] = 1;
    op->x = x;
    bench_run(&b, "norm.fp16_overflow");
    assert_true(op->y[0] != 0 && op->y[16] == 0 && op->y[32] != 0);
    bench_close(&b);
}

static void norm__reads_what_the_norm_before_it_read__within_a_step(void **state)
{
    struct fault_bench a, b;
    struct faults f;
    const struct step step = {.layer_first = 0};
    double stale[2 * 16];
    (void)state;
    bench_open(&a, "norm T=2,H=16,seed=1");
    bench_open(&b, "norm T=2,H=16,seed=2");
    const struct norm *first = a.data.op, *second = b.data.op;
    struct fault_place place = {
        .op = "norm", .tap = TAP_ATTN_NORM, .layer = 0, .side = ref_side(), .step = &step};
    faults_of(&f, "norm.residual_pre_add@layer=1", NULL);
    call(&f, &place, first, &a.run); /* another layer: watched, not edited */
    assert_int_equal(f.use[0].calls, 0);
    place.layer = 1;
    call(&f, &place, second, &b.run);
    memcpy(stale, second->y, sizeof stale);
    const struct norm want = {
        .T = 2, .H = 16, .eps = second->eps, .x = first->x, .w = second->w, .y = second->y};
    struct err err = ERR_INIT;
    assert_int_equal(norm_ref(&want, &b.run, &err), ERR_OK);
    assert_memory_equal(stale, want.y, sizeof stale);
    faults_clear(&f);
    /* The first norm of a step has none before it. */
    faults_of(&f, "norm.residual_pre_add", NULL);
    f.count_changes = true;
    place.layer = 0;
    call(&f, &place, first, &a.run);
    call(&f, &place, second, &b.run);
    assert_true(f.use[0].calls == 2 && f.use[0].changed == 0);
    faults_clear(&f);
    bench_close(&b);
    bench_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_key__picks_one_call__of_those_at_the_site),
        cmocka_unit_test(two_faults__both_hold__at_one_call),
        cmocka_unit_test(changes__are_counted_in_bits__also_in_place),
        cmocka_unit_test(outputs__are_those_of_the_case__for_every_op),
        cmocka_unit_test(side__that_lacks_an_op__is_said),
        cmocka_unit_test(cells_rows_and_all__are_edited__where_the_keys_say),
        cmocka_unit_test(place__is_the_same_one_cell__where_no_key_says),
        cmocka_unit_test(tile__is_whole_and_the_rest_untouched__when_not_written),
        cmocka_unit_test(stale_row__is_that_of_the_call_before__of_the_same_op),
        cmocka_unit_test(rotations__use_other_pairs_or_frequencies),
        cmocka_unit_test(keys__are_rotated_for_another_position),
        cmocka_unit_test(first_columns__are_rotated__as_if_the_rope_part_stood_first),
        cmocka_unit_test(table__that_cannot_be__is_refused),
        cmocka_unit_test(norm__lacks_its_weight__or_has_another_eps),
        cmocka_unit_test(row__becomes_zero__when_its_squares_overflow_fp16),
        cmocka_unit_test(norm__reads_what_the_norm_before_it_read__within_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
