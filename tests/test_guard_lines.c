/* test_guard_lines.c: which lines announce an error, which of them say nothing, and what explains
 * them. */
#include "harness/guard_lines.h"
#include "tests/support.h"

#include <string.h>

static void kind__tells_what_a_line_announces(void **state)
{
    static const struct {
        enum guard_line_kind kind;
        const char *line;
    } rows[] = {
        {GUARD_LINE_EMPTY, "ERROR in batch 0-3: "},
        {GUARD_LINE_EMPTY, "Error in batch 0-3:"},
        {GUARD_LINE_EMPTY, "2026-02-01 10:00:00 ERROR worker: "},
        {GUARD_LINE_EMPTY, "ERROR:root:"},
        {GUARD_LINE_EMPTY, "request 7 failed:"},
        {GUARD_LINE_ERROR, "ERROR: no room"},
        {GUARD_LINE_ERROR, "[10:00:00] CRITICAL - no room"},
        {GUARD_LINE_ERROR, "error: no room"},
        {GUARD_LINE_TRACE, "Traceback (most recent call last):"},
        {GUARD_LINE_ATEXIT, "Error in atexit._run_exitfuncs:"},
        {GUARD_LINE_PLAIN, "ERROR: KeyError: 'a'"},
        {GUARD_LINE_PLAIN, "AssertionError: "},
        {GUARD_LINE_PLAIN, "no error:"},
        {GUARD_LINE_PLAIN, "0 ERROR lines"},
        {GUARD_LINE_PLAIN, "the error rate is 0.1"},
        {GUARD_LINE_PLAIN, "ERRORS: 0"},
        {GUARD_LINE_PLAIN, "loading:"},
        {GUARD_LINE_PLAIN, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (guard_line_kind(rows[i].line) != rows[i].kind)
            fail_msg("\"%s\": %d", rows[i].line, (int)guard_line_kind(rows[i].line));
    }
}

static struct guard_lines lines;

static void feed(const char *text)
{
    lines = (struct guard_lines){0};
    guard_lines_feed(&lines, text, strlen(text), 1);
    guard_lines_end(&lines, 1);
}

static void feed__explains_a_line__by_what_stands_near(void **state)
{
    (void)state;
    feed("ERROR: x\nTraceback (most recent call last):\n  File\nValueError: x\n");
    assert_int_equal(lines.count, 1);
    assert_true(lines.found[0].explained);
    assert_int_equal(lines.traces, 1);
    feed("Traceback (most recent call last):\n  File\nValueError: x\nERROR: x\n");
    assert_true(lines.found[0].explained);
    feed("ERROR in these:\n  a\n");
    assert_true(lines.found[0].explained);
    feed("ERROR in these: \nnext\n");
    assert_false(lines.found[0].explained);
    feed("ERROR: x\n1\n2\n3\n4\n5\n6\nTraceback (most recent call last):\n");
    assert_false(lines.found[0].explained);
}

static void feed__takes_pieces_colours_and_progress_bars(void **state)
{
    (void)state;
    lines = (struct guard_lines){0};
    guard_lines_feed(&lines, "10%\r20%\r\n\033[31mERR", 17, 1);
    guard_lines_feed(&lines, "OR\033[0m in batch 1:\0", 19, 2);
    guard_lines_end(&lines, 3);
    assert_int_equal(lines.count, 1);
    assert_string_equal(lines.found[0].text, "ERROR in batch 1:?");
}

static void feed__is_bounded__whatever_comes(void **state)
{
    (void)state;
    lines = (struct guard_lines){0};
    for (int i = 0; i < 5000; i++) guard_lines_feed(&lines, "ERROR x", 7, 1);
    guard_lines_feed(&lines, "\n", 1, 1);
    assert_int_equal(strlen(lines.found[0].text), GUARD_LINE - 1);
    for (int i = 0; i < 200; i++) guard_lines_feed(&lines, "ERROR: y\n", 9, 1);
    assert_int_equal(lines.count, GUARD_FOUND);
    assert_int_equal(lines.more, 201 - GUARD_FOUND);
    assert_int_equal(lines.number, 201);
}

static void feed__joins_a_failed_atexit_with_its_exception(void **state)
{
    (void)state;
    feed("Error in atexit._run_exitfuncs:\nTraceback (most recent call last):\n  File\n"
         "ValueError: x\n");
    assert_int_equal(lines.count, 1);
    assert_string_equal(lines.found[0].also, "ValueError: x");
    /* Its own trace says what it was, not that it is lost. */
    assert_false(lines.found[0].explained);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kind__tells_what_a_line_announces),
        cmocka_unit_test(feed__explains_a_line__by_what_stands_near),
        cmocka_unit_test(feed__takes_pieces_colours_and_progress_bars),
        cmocka_unit_test(feed__is_bounded__whatever_comes),
        cmocka_unit_test(feed__joins_a_failed_atexit_with_its_exception),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
