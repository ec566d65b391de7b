/* test_run.c: rounding at the points of a profile, and loops over threads that visit each index
 * once. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/run.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static struct run a_run(const char *profile, enum precision precision, enum dtype act)
{
    struct err err = ERR_INIT;
    struct run run = {.precision = precision, .act = act, .threads = 1};
    (void)!profile_find(profile, &run.profile, &err);
    assert_ok(&err);
    return run;
}

static void round__does_nothing__in_float64_where_the_profile_does_not_round(void **state)
{
    (void)state;
    struct run run = a_run("math", PRECISION_F64, DT_BF16);
    double x = 1 + 0x1p-50;
    for (int p = 0; p < RP_COUNT; p++)
        assert_f64_is(run_round_one(&run, (enum round_point)p, x), x);
}

static void round__goes_to_float32__under_f32(void **state)
{
    (void)state;
    struct run run = a_run("math", PRECISION_F32, DT_BF16);
    assert_f64_is(run_round_one(&run, RP_LINEAR, 1 + 0x1p-50), 1);
    assert_f64_is(run_round_one(&run, RP_LINEAR, 1 + 0x1p-20), 1 + 0x1p-20);
    assert_f64_is(run_round_one(&run, RP_LINEAR, 1e39), INFINITY);
}

static void round__goes_to_the_activation_type__where_the_profile_rounds(void **state)
{
    (void)state;
    const double x = 1 + 0x1p-9 + 0x1p-12;
    struct run run = a_run("hf", PRECISION_F64, DT_BF16);
    assert_f64_is(run_round_one(&run, RP_LINEAR, x), 1);
    assert_f64_is(run_round_one(&run, RP_ROUTER_LOGITS, x), x);
    run.act = DT_F16;
    assert_f64_is(run_round_one(&run, RP_LINEAR, x), dtype_round(DT_F16, x));
    run.act = DT_F32;
    assert_f64_is(run_round_one(&run, RP_LINEAR, x), x);
    assert_true(isnan(run_round_one(&run, RP_LINEAR, NAN)));
}

static void round__treats_an_array_as_its_elements(void **state)
{
    (void)state;
    struct run run = a_run("vllm", PRECISION_F32, DT_BF16);
    double x[100], want[100];
    for (int i = 0; i < 100; i++) x[i] = sin(i) * exp(i - 50);
    for (int i = 0; i < 100; i++) want[i] = run_round_one(&run, RP_NORM, x[i]);
    run_round(&run, RP_NORM, x, 100);
    assert_f64_bits(x, want, 10, 10);
    run_round(&run, RP_NORM, x, 0);
}

struct visits {
    _Atomic int count[1000];
    _Atomic int bad_worker;
    int threads;
};

static void visit(void *ctx, int64_t i, int worker)
{
    struct visits *v = ctx;
    v->count[i]++;
    if (worker < 0 || worker >= v->threads) v->bad_worker++;
}

static void parallel__visits_each_index_once__on_any_number_of_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 8, 64, 1000};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        static const int64_t sizes[] = {0, 1, 2, 7, 1000};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct run run = {.threads = threads[t]};
            static struct visits v;
            memset(&v, 0, sizeof v);
            v.threads = threads[t];
            run_parallel(&run, sizes[s], visit, &v);
            for (int64_t i = 0; i < 1000; i++) assert_int_equal(v.count[i], i < sizes[s]);
            assert_int_equal(v.bad_worker, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round__does_nothing__in_float64_where_the_profile_does_not_round),
        cmocka_unit_test(round__goes_to_float32__under_f32),
        cmocka_unit_test(round__goes_to_the_activation_type__where_the_profile_rounds),
        cmocka_unit_test(round__treats_an_array_as_its_elements),
        cmocka_unit_test(parallel__visits_each_index_once__on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
