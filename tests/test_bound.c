/* test_bound.c: bounds of `assay op` against errors that can be worked out by hand: sums whose
 * rounding is known, and a simulation of float32 sums in the worst order. A bound must hold, and
 * must not be so wide that bf16 hides in it. */
#include "core/linear.h"
#include "core/norm.h"
#include "harness/bound.h"
#include "harness/case_make.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The bound of output `k` of a case for a side at a precision, in arena a. */
static const double *bound_of(const char *line, const char *side, enum precision precision, int k,
                              struct arena *a, struct case_data *d, struct bound *all)
{
    struct op_case c;
    struct run run;
    struct err err = ERR_INIT;
    if (case_parse(&c, line, &err) != ERR_OK || case_make(&c, a, d, &err) != ERR_OK ||
        case_run(&c, a, &run, &err) != ERR_OK)
        assert_ok(&err);
    run.precision = precision;
    struct bound_model m = bound_model_of(side, &run);
    if (bound_make(&c, d, d, &m, a, all, &err) != ERR_OK) assert_ok(&err);
    return all[k].abs;
}

static void chain__is_gamma_when_short_and_a_root_when_long(void **state)
{
    (void)state;
    const double u = 0x1p-24;
    assert_true(bound_chain(1, u) >= u && bound_chain(1, u) < u * (1 + 1e-6));
    assert_true(fabs(bound_chain(10, u) / (10 * u / (1 - 10 * u)) - 1) < 1e-12);
    assert_true(bound_chain(100, u) < 91 * u && bound_chain(100, u) > 89 * u);
    assert_true(bound_chain(1e6, u) < 9010 * u);
    for (double n = 1; n < 1e7; n *= 2) assert_true(bound_chain(2 * n, u) > bound_chain(n, u));
    assert_true(isfinite(bound_chain(1e9, u)));
}

static void linear__covers_a_float_sum_from_left_to_right(void **state)
{
    (void)state;
    static const char *const lines[] = {"linear T=2,in=64,out=33,format=f32,x=f32",
                                        "linear T=2,in=999,out=33,format=f32,x=f32"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct arena a = ARENA_INIT;
        struct case_data d;
        struct bound all[CASE_OUTPUTS];
        double row[999], largest = 0;
        const double *bound = bound_of(lines[i], "gpu", PRECISION_F32, 0, &a, &d, all);
        const struct linear *op = d.op;
        for (int64_t o = 0; o < op->w->out; o++) {
            case_matrix_row(op->w, o, row);
            for (int64_t t = 0; t < op->T; t++) {
                float single = 0;
                double exact = 0;
                for (int64_t k = 0; k < op->w->in; k++) {
                    single += (float)op->x[t * op->w->in + k] * (float)row[k];
                    exact += op->x[t * op->w->in + k] * row[k];
                }
                largest = fmax(largest, fabs((double)single - exact) / bound[t * op->w->out + o]);
            }
        }
        assert_true(largest <= 1);
        assert_true(largest > 1e-3); /* within three orders of what such a sum really loses */
        arena_release(&a, NULL);
    }
}

static void linear__is_too_narrow_for_bf16(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct case_data d;
    struct bound all[CASE_OUTPUTS];
    const double *bound =
        bound_of("linear T=4,in=512,out=64", "ref", PRECISION_F32, 0, &a, &d, all);
    /* y is about 1; rounding it to bf16 moves it by up to 2^-9. */
    for (int i = 0; i < 4 * 64; i++) assert_true(bound[i] > 0 && bound[i] < 0x1p-12);
    arena_release(&a, NULL);
}

static void bound__shrinks_with_the_precision(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        double most; /* a whole layer chains eight sums: its worst case is far from what happens */
    } cases[] = {{"norm T=2,H=64", 1e-4},
                 {"linear T=2,in=64,out=3", 1e-4},
                 {"rope T=2,R=8,position=77", 1e-4},
                 {"mla.q T=2", 1e-4},
                 {"mla.kv T=2", 1e-4},
                 {"mla.core rows=2", 1e-4},
                 {"mla.core rows=2,form=absorbed", 1e-4},
                 {"mlp T=2", 1e-4},
                 {"eagle.fc T=2", 1e-4},
                 {"eagle.layer rows=2", 0.02},
                 {"eagle.layer rows=2,kind=mla,view=tree", 0.5},
                 {"moe T=2", 1e-4},
                 {"logits T=2", 1e-4},
                 {"mla.output T=2", 1e-4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena a = ARENA_INIT, b = ARENA_INIT;
        struct case_data da, db;
        struct bound all[CASE_OUTPUTS], all_b[CASE_OUTPUTS];
        const double *single = bound_of(cases[i].line, "ref", PRECISION_F32, 0, &a, &da, all);
        const double *whole = bound_of(cases[i].line, "ref", PRECISION_F64, 0, &b, &db, all_b);
        for (int64_t k = 0; k < da.output[0].rows * da.output[0].cols; k++) {
            if (!(single[k] > 0 && single[k] < cases[i].most))
                fprintf(stderr, "%s: %g\n", cases[i].line, single[k]);
            assert_true(single[k] > 0 && single[k] < cases[i].most);
            assert_true(whole[k] > 0 && whole[k] < single[k] * 1e-5);
        }
        assert_non_null(strstr(all[0].from, "2^-24"));
        assert_null(strstr(all_b[0].from, "2^-24"));
        arena_release(&a, NULL);
        arena_release(&b, NULL);
    }
}

static void bound__grows_where_the_profile_rounds(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT, b = ARENA_INIT;
    struct case_data d;
    struct bound all[CASE_OUTPUTS];
    const double *math = bound_of("norm T=2,H=64", "ref", PRECISION_F32, 0, &a, &d, all);
    const double *hf = bound_of("norm T=2,H=64,profile=hf", "ref", PRECISION_F32, 0, &b, &d, all);
    for (int i = 0; i < 128; i++) assert_true(hf[i] > 1000 * math[i]);
    arena_release(&a, NULL);
    arena_release(&b, NULL);
}

static void bound__is_exact__for_copies_and_codes(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct case_data d;
    struct bound all[CASE_OUTPUTS];
    assert_null(bound_of("embed T=2", "ref", PRECISION_F32, 0, &a, &d, all));
    assert_string_equal(all[0].from, "exact");
    assert_null(bound_of("int4 out=3", "ref", PRECISION_F32, 0, &a, &d, all));
    assert_non_null(bound_of("embed T=2,profile=hf", "ref", PRECISION_F32, 0, &a, &d, all));
    arena_release(&a, NULL);
}

static void rope__leaves_other_columns_exact(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct case_data d;
    struct bound all[CASE_OUTPUTS];
    const double *bound =
        bound_of("rope T=2,heads=1,R=4,offset=3,stride=9", "ref", PRECISION_F32, 0, &a, &d, all);
    for (int i = 0; i < 18; i++) assert_int_equal(bound[i] > 0, i % 9 >= 3 && i % 9 < 7);
    arena_release(&a, NULL);
}

/* A router's bounds need a choice: the truth's. */
static void router__bounds_weights_of_the_given_choice(void **state)
{
    (void)state;
    struct op_case c;
    struct case_data d;
    struct run run;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct bound all[CASE_OUTPUTS];
    if (case_parse(&c, "router T=2,E=4,k=2", &err) != ERR_OK ||
        case_make(&c, &a, &d, &err) != ERR_OK || case_run(&c, &a, &run, &err) != ERR_OK)
        assert_ok(&err);
    for (int i = 0; i < 4; i++) ((int32_t *)d.output[1].data)[i] = i % 2 ? 3 : 1;
    struct bound_model m = bound_model_of("ref", &run);
    assert_int_equal(bound_make(&c, &d, &d, &m, &a, all, &err), ERR_OK);
    for (int i = 0; i < 4; i++) assert_true(all[2].abs[i] > 0 && all[2].abs[i] < 1e-5);
    for (int i = 0; i < 2; i++) assert_true(all[1].key[i] > 0 && all[1].key[i] < 1e-5);
    assert_null(all[1].abs);
    arena_release(&a, NULL);
}

static void bound__says__when_memory_is_short(void **state)
{
    (void)state;
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        struct op_case c;
        struct case_data d;
        struct run run;
        struct err err = ERR_INIT;
        struct arena a = ARENA_INIT, small = {.bytes_max = 100};
        struct bound all[CASE_OUTPUTS];
        case_defaults(&c, op);
        if (case_make(&c, &a, &d, &err) != ERR_OK || case_run(&c, &a, &run, &err) != ERR_OK)
            assert_ok(&err);
        for (int k = 0; strcmp(op->name, "router") == 0 && k < 4; k++)
            ((int32_t *)d.output[1].data)[k] = k % 2;
        struct bound_model m = bound_model_of("ref", &run);
        bool exact = strcmp(op->name, "int4") == 0 || strcmp(op->name, "embed") == 0 ||
                     strcmp(op->name, "eagle.verify") == 0;
        assert_int_equal(bound_make(&c, &d, &d, &m, &small, all, &err),
                         exact ? ERR_OK : ERR_MEMORY);
        arena_release(&a, NULL);
        arena_release(&small, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain__is_gamma_when_short_and_a_root_when_long),
        cmocka_unit_test(linear__covers_a_float_sum_from_left_to_right),
        cmocka_unit_test(linear__is_too_narrow_for_bf16),
        cmocka_unit_test(bound__shrinks_with_the_precision),
        cmocka_unit_test(bound__grows_where_the_profile_rounds),
        cmocka_unit_test(bound__is_exact__for_copies_and_codes),
        cmocka_unit_test(rope__leaves_other_columns_exact),
        cmocka_unit_test(router__bounds_weights_of_the_given_choice),
        cmocka_unit_test(bound__says__when_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
