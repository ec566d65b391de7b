/* test_kernels.c: what ran is counted and shown, and what finds no room is not hidden. */
#include "core/kernels.h"
#include "harness/kernel_report.h"
#include "tests/support.h"

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
        kernel_log_add(&log, &r);
    }
    assert_int_equal(log.rows, KERNEL_ROWS);
    assert_int_equal(log.lost, 5);
    json_t *rows = kernels_json(&log), *last = json_array_get(rows, KERNEL_ROWS);
    assert_string_equal(json_string_value(json_object_get(last, "kernel")), "(not listed)");
    assert_int_equal(json_integer_value(json_object_get(last, "calls")), 5);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches__are_counted__by_op_kernel_and_tactic),
        cmocka_unit_test(launches__are_shown_as_lost__past_the_last_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
