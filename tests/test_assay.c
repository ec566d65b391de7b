/* test_assay.c: the library as other programs use it. */
#include "core/dump.h"
#include "harness/assay.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const float truth[] = {1, 2, 3, 4, 5, 6};

static void write_pair(void **state, const float *subject, char paths[2][FILE_PATH])
{
    struct err err = ERR_INIT;
    const struct assay_tap mine[] = {{"embed", DT_F32, 3, 2, truth},
                                     {"layers.0.attn", DT_F32, 3, 2, subject}};
    const struct assay_tap theirs[] = {{"embed", DT_F32, 3, 2, truth},
                                       {"layers.0.attn", DT_F32, 3, 2, truth}};
    snprintf(paths[0], FILE_PATH, "%s", folder_path(state, "a.safetensors"));
    snprintf(paths[1], FILE_PATH, "%s", folder_path(state, "b.safetensors"));
    (void)!assay_dump_write(paths[0], mine, 2, "[7, 8, 9]", "engine 1", &err);
    (void)!assay_dump_write(paths[1], theirs, 2, "[7, 8, 9]", NULL, &err);
    assert_ok(&err);
}

static void compare__holds__for_equal_dumps(void **state)
{
    char paths[2][FILE_PATH];
    struct assay_verdict v;
    struct err err = ERR_INIT;
    write_pair(state, truth, paths);
    assert_int_equal(assay_compare(paths[0], paths[1], 0, &v, &err), ERR_OK);
    assert_int_equal(v.compared, 2);
    assert_int_equal(v.failed, 0);
    assert_string_equal(v.tap, "");
}

static void compare__names_tap_row_and_column__of_a_difference(void **state)
{
    static const float subject[] = {1, 2, 3, 4.5f, 5, 6};
    char paths[2][FILE_PATH];
    struct assay_verdict v;
    struct err err = ERR_INIT;
    write_pair(state, subject, paths);
    assert_int_equal(assay_compare(paths[0], paths[1], 1e-3, &v, &err), ERR_DIFF);
    assert_string_equal(v.tap, "layers.0.attn");
    assert_string_equal(v.op, "mla.output");
    assert_int_equal(v.layer, 0);
    assert_int_equal(v.row, 1);
    assert_int_equal(v.col, 1);
    assert_true(v.why[0] != '\0');
}

static void compare__is_red__for_nan(void **state)
{
    const float subject[] = {1, 2, NAN, 4, 5, 6};
    char paths[2][FILE_PATH];
    struct assay_verdict v;
    struct err err = ERR_INIT;
    write_pair(state, subject, paths);
    assert_int_equal(assay_compare(paths[0], paths[1], 1e9, &v, &err), ERR_DIFF);
    assert_int_equal(v.row, 1);
    assert_int_equal(v.col, 0);
}

static void dump__keeps_order_tokens_and_engine(void **state)
{
    char paths[2][FILE_PATH];
    struct dump d;
    struct err err = ERR_INIT;
    write_pair(state, truth, paths);
    (void)!dump_open(&d, paths[0], &err);
    assert_ok(&err);
    assert_int_equal(d.promised_count, 2);
    assert_int_equal(d.token_count, 3);
    assert_string_equal(d.engine, "engine 1");
    assert_string_equal(d.taps[1].name, "layers.0.attn");
    dump_close(&d);
}

static void dump__is_refused_and_not_written__when_a_tap_is_bad(void **state)
{
    const struct assay_tap twice[] = {{"embed", DT_F32, 3, 2, truth},
                                      {"embed", DT_F32, 3, 2, truth}};
    const struct assay_tap sizes[] = {{"embed", DT_F32, -1, 2, truth}};
    const struct assay_tap bytes[] = {{"\xff\xfe", DT_F32, 3, 2, truth}};
    const struct assay_tap *const bad[] = {twice, sizes, bytes};
    const int64_t count[] = {2, 1, 1};
    const char *path = folder_path(state, "x.safetensors");
    for (int i = 0; i < 3; i++) {
        struct err err = ERR_INIT;
        assert_int_equal(assay_dump_write(path, bad[i], count[i], NULL, NULL, &err), ERR_INPUT);
        assert_true(err.where[0] && err.found[0]);
    }
    struct err err = ERR_INIT;
    assert_int_equal(assay_dump_write(path, sizes, 0, "[1,", NULL, &err), ERR_INPUT);
    assert_int_equal(folder_count(*state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(compare__holds__for_equal_dumps, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(compare__names_tap_row_and_column__of_a_difference,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(compare__is_red__for_nan, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(dump__keeps_order_tokens_and_engine, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(dump__is_refused_and_not_written__when_a_tap_is_bad,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
