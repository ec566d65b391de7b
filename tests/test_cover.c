/* test_cover.c: notes are kept once a process, read back, and a strange one is refused. */
#include "core/cover.h"
#include "core/ops.h"
#include "tests/support.h"

#include <stdlib.h>

static void note__is_kept_once__where_a_folder_is_named(void **state)
{
    bool noted[64 * COVER_KINDS] = {false};
    int64_t lines;
    struct err err = ERR_INIT;
    unsetenv("ASSAY_COVER");
    cover_note("norm", COVER_DIFF);
    assert_int_equal(folder_count(*state), 0);
    setenv("ASSAY_COVER", *state, 1);
    for (int i = 0; i < 3; i++) cover_note("norm", COVER_REF);
    cover_note("mla.core", COVER_GOLDEN);
    unsetenv("ASSAY_COVER");
    assert_int_equal(cover_read(*state, noted, &lines, &err), ERR_OK);
    assert_int_equal(lines, 2);
    int64_t yes = 0;
    for (int i = 0; i < op_count * COVER_KINDS; i++) yes += noted[i];
    assert_int_equal(yes, 2);
    assert_true(noted[(op_find("norm") - op_rows) * COVER_KINDS + COVER_REF]);
    assert_true(noted[(op_find("mla.core") - op_rows) * COVER_KINDS + COVER_GOLDEN]);
}

static void note__that_names_nothing__is_refused(void **state)
{
    static const char *const bad[] = {"nosuchop ref\n", "norm nosuchkind\n", "norm\n", "\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bool noted[64 * COVER_KINDS] = {false};
        int64_t lines;
        struct err err = ERR_INIT;
        write_text(folder_path(state, "1.txt"), bad[i]);
        assert_int_equal(cover_read(*state, noted, &lines, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "read coverage", "1.txt", NULL, "an op and one of");
    }
    struct err err = ERR_INIT;
    int64_t lines;
    assert_int_equal(cover_read("/nonexistent", NULL, &lines, &err), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(note__is_kept_once__where_a_folder_is_named, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(note__that_names_nothing__is_refused, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
