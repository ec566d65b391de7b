/* test_kernels.c: what ran is counted and shown, and what finds no room is not hidden. */
#include "core/kernels.h"
#include "harness/kernel_report.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static struct kernel_row launch(const char *op, const char *kernel, const char *tactic)
{
    struct kernel_row r = {.grid = {3, 2, 1}, .block = {128, 1, 1}, .shared = 4096};
    snprintf(r.op, sizeof r.op, "%s", op);
    snprintf(r.kernel, sizeof r.kernel, "%s", kernel);
    snprintf(r.tactic, sizeof r.tactic, "%s", tactic);
    return r;
}

static void launches__are_counted__by_op_kernel_and_tactic(void **state)
{
    (void)state;
    static struct kernel_log log;
    memset(&log, 0, sizeof log);
    struct kernel_row a = launch("norm", "norm_rows", ""), b = launch("moe", "moe_gemm", "n8"),
                      c = launch("moe", "moe_gemm", "n16"), d = launch("mlp", "norm_rows", "");
    kernel_log_add(&log, &a);
    kernel_log_add(&log, &b);
    kernel_log_add(&log, &a);
    kernel_log_add(&log, &c);
    kernel_log_add(&log, &d);
    assert_int_equal(log.rows, 4);
    assert_int_equal(log.row[0].calls, 2);
    assert_int_equal(log.row[1].calls, 1);
    json_t *rows = kernels_json(&log);
    json_t *second = json_array_get(rows, 1);
    assert_int_equal(json_array_size(rows), 4);
    assert_string_equal(json_string_value(json_object_get(second, "tactic")), "n8");
    assert_int_equal(json_integer_value(json_object_get(second, "shared")), 4096);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "grid"), 0)), 3);
    json_decref(rows);
}

static void launches__are_shown_as_lost__past_the_last_row(void **state)
{
    (void)state;
    static struct kernel_log log;
    memset(&log, 0, sizeof log);
    for (int i = 0; i < KERNEL_ROWS + 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        struct kernel_row r = launch("moe", name, "");
        struct kernel_row *row = kernel_log_add(&log, &r);
        assert_int_equal(row != NULL, i < KERNEL_ROWS);
    }
    assert_int_equal(log.rows, KERNEL_ROWS);
    assert_int_equal(log.lost, 5);
    json_t *rows = kernels_json(&log), *last = json_array_get(rows, KERNEL_ROWS);
    assert_string_equal(json_string_value(json_object_get(last, "kernel")), "(not listed)");
    assert_int_equal(json_integer_value(json_object_get(last, "calls")), 5);
    json_decref(rows);
}

static void facts__stay_with_their_row__and_are_shown_where_known(void **state)
{
    (void)state;
    static struct kernel_log log;
    memset(&log, 0, sizeof log);
    struct kernel_row a = launch("norm", "norm_rows", ""), b = launch("moe", "cublasLt", "");
    kernel_log_add(&log, &a)->facts = (struct kernel_facts){168, 16, 1024, 2, 0.375};
    kernel_log_add(&log, &b);
    assert_int_equal(kernel_log_add(&log, &a)->facts.registers, 168);
    json_t *rows = kernels_json(&log);
    const json_t *known = json_array_get(rows, 0), *unknown = json_array_get(rows, 1);
    assert_int_equal(json_integer_value(json_object_get(known, "calls")), 2);
    assert_int_equal(json_integer_value(json_object_get(known, "registers")), 168);
    assert_int_equal(json_integer_value(json_object_get(known, "local_bytes")), 16);
    assert_int_equal(json_integer_value(json_object_get(known, "static_shared")), 1024);
    assert_int_equal(json_integer_value(json_object_get(known, "blocks_per_multiprocessor")), 2);
    assert_true(json_real_value(json_object_get(known, "occupancy")) == 0.375);
    assert_null(json_object_get(unknown, "registers"));
    json_decref(rows);
}

static void profiles__say_what_is_no_kernel__and_the_slowest_first(void **state)
{
    (void)state;
    static struct bench_row r = {.busy = 6e-3, .span = 8e-3, .whole = 11e-3, .kernels = 2};
    r.kernel[0] = (struct bench_kernel){"quick", 3, 1e-3};
    r.kernel[1] = (struct bench_kernel){"slow", 1, 5e-3};
    json_t *p = profile_json(&r);
    assert_true(fabs(json_number_value(json_object_get(p, "gaps")) - 0.25) < 1e-12);
    assert_true(json_number_value(json_object_get(p, "busy_seconds")) == 6e-3);
    assert_true(json_number_value(json_object_get(p, "seconds")) == 11e-3);
    const json_t *first = json_array_get(json_object_get(p, "kernels"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "kernel")), "slow");
    json_decref(p);
    r.kernels = 0;
    assert_null(profile_json(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches__are_counted__by_op_kernel_and_tactic),
        cmocka_unit_test(launches__are_shown_as_lost__past_the_last_row),
        cmocka_unit_test(profiles__say_what_is_no_kernel__and_the_slowest_first),
        cmocka_unit_test(facts__stay_with_their_row__and_are_shown_where_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
