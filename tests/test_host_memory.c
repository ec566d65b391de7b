/* test_host_memory.c: lines of the kernel's files, and figures that can be. */
#include "harness/host_memory.h"
#include "tests/support.h"

#include <math.h>

static void line__is_the_first_without_its_end(void **state)
{
    char line[HOST_LINE];
    write_text(folder_path(state, "a"), "one\ntwo\n");
    assert_true(host_line(folder_path(state, "a"), line));
    assert_string_equal(line, "one");
    write_text(folder_path(state, "empty"), "");
    assert_false(host_line(folder_path(state, "empty"), line));
    assert_false(host_line(folder_path(state, "none"), line));
}

static void key__is_what_stands_behind_it(void **state)
{
    char value[HOST_LINE];
    write_text(folder_path(state, "a"), "MemFree 1\nMemTotal:  \t 12 kB\nMemTotal: 13 kB\n");
    assert_true(host_key(folder_path(state, "a"), "MemTotal", value));
    assert_string_equal(value, "12 kB");
    assert_false(host_key(folder_path(state, "a"), "MemFree", value)); /* no colon */
    assert_false(host_key(folder_path(state, "a"), "Swap", value));
    assert_false(host_key(folder_path(state, "none"), "MemTotal", value));
}

static void memory__is_of_this_machine(void **state)
{
    (void)state;
    const struct host_memory m = host_memory();
    assert_true(m.total > 64e6 && m.total < 1e15);
    assert_true(m.available > 0 && m.available <= m.total);
    assert_true(m.limit > 0 && !isnan(m.limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(line__is_the_first_without_its_end, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(key__is_what_stands_behind_it, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(memory__is_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
