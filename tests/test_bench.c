/* test_bench.c: how times become figures, and what `assay bench` refuses. What the figures are is
 * no test's business. */
#include "core/bench.h"
#include "core/ops.h"
#include "harness/bench_ref.h"
#include "tests/cli.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static void rounds__give_their_median_and_spread(void **state)
{
    (void)state;
    struct bench_row r = {0};
    double odd[] = {5, 1, 3, 2, 4}, even[] = {4, 1, 2, 3}, one[] = {7};
    bench_median(odd, 5, &r);
    assert_true(r.seconds == 3 && r.rounds == 5);
    assert_true(fabs(r.spread - (5.0 - 1.0) / 3) < 1e-12);
    bench_median(even, 4, &r);
    assert_true(r.seconds == 2.5);
    bench_median(one, 1, &r);
    assert_true(r.seconds == 7 && r.spread == 0);
    double many[20];
    for (int i = 0; i < 20; i++) many[i] = i == 7 ? 1000 : 10 + (i + 3) % 20;
    bench_median(many, 20, &r);
    assert_true(r.spread < 2); /* one round that something disturbed is not the spread */
}

static void share__is_of_the_ceiling_that_binds(void **state)
{
    (void)state;
    const struct bench_ceilings c = {.read = 100, .copy = 90, .matmul = 1000};
    const struct bench_row memory = {.seconds = 2, .bytes = 100, .flops = 500},
                           compute = {.seconds = 4, .bytes = 100, .flops = 3000};
    assert_true(fabs(bench_share(&memory, &c) - 0.5) < 1e-12);
    assert_true(fabs(bench_share(&compute, &c) - 0.75) < 1e-12);
}

static void cases__name_ops_of_the_list(void **state)
{
    (void)state;
    const char *op;
    int n = 0;
    for (; (op = ref_bench()->op(n)); n++) assert_non_null(op_find(op));
    assert_true(n > 0);
    for (int i = 0; (op = gpu_bench()->op(i)); i++)
        assert_true(op_find(op) || strcmp(op, "layer") == 0 || strcmp(op, "step") == 0);
}

static void bench__measures_one_op(void **state)
{
    (void)state;
    json_t *r = cli_passes("bench", "norm");
    const json_t *rows = field(r, "rows"), *row = json_array_get(rows, 0),
                 *ceilings = field(r, "ceilings");
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(field_text(row, "op"), "norm");
    assert_string_equal(field_text(row, "on"), "ref");
    assert_true(json_number_value(field(row, "seconds")) > 0);
    assert_true(json_number_value(field(row, "gbps")) > 0);
    assert_true(json_number_value(field(row, "share")) > 0);
    assert_true(json_number_value(field(ceilings, "read_gbps")) > 0);
    assert_true(json_number_value(field(ceilings, "matmul_tflops")) > 0);
    json_decref(r);
}

static void bench__is_refused__for_what_it_does_not_have(void **state)
{
    cli_refuses(state, ((struct refusal){2, "bench", NULL, "\"nrm\"", "names of ops"}), "bench",
                "nrm");
    cli_refuses(state, ((struct refusal){2, "bench", "ref", "no case of op eagle.verify", NULL}),
                "bench", "eagle.verify");
    cli_refuses(state, ((struct refusal){2, "option", "--on", "tpu", "ref or gpu"}), "bench",
                "--on", "tpu");
    if (!gpu_side()->available)
        cli_refuses(state, ((struct refusal){3, "bench", "side gpu", NULL, NULL}), "bench", "--on",
                    "gpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds__give_their_median_and_spread),
        cmocka_unit_test(share__is_of_the_ceiling_that_binds),
        cmocka_unit_test(cases__name_ops_of_the_list),
        cmocka_unit_test(bench__measures_one_op),
        cmocka_unit_test_setup_teardown(bench__is_refused__for_what_it_does_not_have, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
