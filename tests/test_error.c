/* test_error.c: the error object: four parts, first cause wins, never empty, one printable line. */
#include "tests/support.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void set__fills_the_four_parts(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    enum err_code rc = err_set(&e, ERR_INPUT, "tensor offsets|%s: %s|[%d, %d)|inside 0..%d",
                               "m.safetensors", "norm.weight", 0, 9, 8);
    assert_int_equal(rc, ERR_INPUT);
    assert_string_equal(e.what, "tensor offsets");
    assert_string_equal(e.where, "m.safetensors: norm.weight");
    assert_string_equal(e.found, "[0, 9)");
    assert_string_equal(e.wanted, "inside 0..8");
    assert_string_equal(
        err_line(&e, line, sizeof line),
        "tensor offsets: m.safetensors: norm.weight: found [0, 9), wanted inside 0..8");
}

static void set__keeps_the_first_cause__when_set_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    err_set(&e, ERR_IO, "first|a");
    assert_int_equal(err_set(&e, ERR_USAGE, "second|b|c|d"), ERR_IO);
    assert_int_equal(err_sys(&e, ENOMEM, "third"), ERR_IO);
    assert_string_equal(e.what, "first");
    assert_string_equal(e.where, "a");
    assert_string_equal(e.found, "");
    assert_string_equal(e.wanted, "");
}

static void set__keeps_a_bar_inside_an_argument(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    err_set(&e, ERR_INPUT, "open|%s|%s", "a|b", "c|d|e");
    assert_string_equal(e.where, "a|b");
    assert_string_equal(e.found, "c|d|e");
    assert_string_equal(e.wanted, "");
}

static void set__says_the_sentence_of_the_code__when_the_text_is_empty(void **state)
{
    (void)state;
    for (int code = ERR_OK + 1; code < ERR_COUNT; code++) {
        struct err e = ERR_INIT;
        char line[ERR_LINE];
        err_set(&e, (enum err_code)code, "%s", "");
        assert_string_equal(e.what, err_sentence((enum err_code)code));
        assert_string_equal(err_line(&e, line, sizeof line), err_sentence((enum err_code)code));
    }
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    err_set(&e, ERR_IO, "|where|found");
    assert_string_equal(err_line(&e, line, sizeof line),
                        "a file operation failed: where: found found");
}

static void sentence_and_exit__exist_for_every_code(void **state)
{
    (void)state;
    static const int exits[ERR_COUNT] = {
        [ERR_DIFF] = 1, [ERR_USAGE] = 2,  [ERR_INPUT] = 2, [ERR_MEMORY] = 3,
        [ERR_IO] = 3,   [ERR_DEVICE] = 3, [ERR_FAULT] = 4, [ERR_PROCESS] = 3};
    for (int code = 0; code < ERR_COUNT; code++) {
        assert_true(strlen(err_sentence((enum err_code)code)) > 5);
        assert_int_equal(err_exit((enum err_code)code), exits[code]);
    }
    assert_true(strlen(err_sentence((enum err_code) - 1)) > 5);
    assert_true(strlen(err_sentence(ERR_COUNT)) > 5);
    assert_int_not_equal(err_exit((enum err_code)ERR_COUNT), 0);
    assert_int_not_equal(err_exit((enum err_code) - 1), 0);
}

static void sys__adds_the_system_text_and_chooses_the_code(void **state)
{
    (void)state;
    static const struct {
        int num;
        enum err_code code;
    } rows[] = {{ENOENT, ERR_INPUT},  {EACCES, ERR_INPUT},       {EISDIR, ERR_INPUT},
                {ENOTDIR, ERR_INPUT}, {ENAMETOOLONG, ERR_INPUT}, {ELOOP, ERR_INPUT},
                {EROFS, ERR_INPUT},   {ENOMEM, ERR_MEMORY},      {ENOSPC, ERR_IO},
                {EIO, ERR_IO},        {EMFILE, ERR_IO},          {0, ERR_IO}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = ERR_INIT;
        assert_int_equal(err_sys(&e, rows[i].num, "open|%s", "x"), rows[i].code);
        assert_string_equal(e.where, "x");
        assert_string_equal(e.found, strerror(rows[i].num));
    }
    struct err e = ERR_INIT;
    err_sys(&e, ENOSPC, "write|x|at byte %d", 7);
    assert_string_equal(e.found, "at byte 7: No space left on device");
}

static void note__adds_context_in_order_and_stops_when_full(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    assert_int_equal(err_note(&e, "on an empty error"), ERR_OK);
    assert_int_equal(e.notes, 0);
    err_set(&e, ERR_INPUT, "read|f");
    assert_int_equal(err_note(&e, "expert %d", 17), ERR_INPUT);
    err_note(&e, "layer %d", 3);
    err_note(&e, "%s", "");
    e.rank = 2;
    assert_string_equal(err_line(&e, line, sizeof line), "read: f (rank 2) (expert 17; layer 3)");
    for (int i = 0; i < 20; i++) err_note(&e, "more %d", i);
    assert_int_equal(e.notes, ERR_NOTES);
    assert_string_equal(e.note[ERR_NOTES - 1], "more 5");
}

static void line__has_wanted_without_found(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    err_set(&e, ERR_USAGE, "option||| a number");
    assert_string_equal(err_line(&e, line, sizeof line), "option: wanted  a number");
}

static void text__stays_one_printable_line__when_arguments_hold_control_bytes(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    err_set(&e, ERR_INPUT, "open|%s", "a\nb\tc\x1b[31m\x7f");
    assert_string_equal(e.where, "a?b?c?[31m?");
    err_note(&e, "%s", "x\r\ny");
    assert_string_equal(e.note[0], "x??y");
}

static void text__is_cut_with_dots__when_it_is_too_long(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char big[3000], line[ERR_LINE], small[20];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    err_set(&e, ERR_INPUT, "open|%s", big);
    assert_int_equal(strlen(e.where), ERR_PART - 1);
    assert_string_equal(e.where + ERR_PART - 4, "...");
    for (int i = 0; i < ERR_NOTES; i++) err_note(&e, "%s", big);
    assert_int_equal(strlen(e.note[0]), ERR_NOTE - 1);
    assert_true(strlen(err_line(&e, line, sizeof line)) < sizeof line);
    assert_string_equal(err_line(&e, small, sizeof small), "open: xxxxxxxxxxxxx");
}

static void text__stays_valid_utf8__when_it_is_cut_or_was_none(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char big[400] = "x";
    for (size_t i = 1; i + 2 < sizeof big; i += 2) memcpy(big + i, "\xc3\xa9", 3);
    err_set(&e, ERR_INPUT, "open|%s|%s|%s", big,
            "a\xff"
            "b\xc3",
            "caf\xc3\xa9 \xe2\x82\xac");
    /* Every lead byte must still have its continuation: what is not text would break the JSON
     * report. */
    for (const unsigned char *p = (const unsigned char *)e.where; *p; p++) {
        if (*p == 0xc3)
            assert_int_equal(*++p, 0xa9);
        else
            assert_true(*p < 0x80);
    }
    assert_string_equal(e.found, "a?b?");
    err_clear(&e); /* overlong forms, a surrogate, and a code point past the last one are no text */
    err_set(&e, ERR_INPUT, "open|%s|%s", "\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf",
            "\xed\xa0\x80 \xf4\x90\x80\x80 \xf5\x80\x80\x80");
    assert_string_equal(e.where, "?? ??? ????");
    assert_string_equal(e.found, "??? ???? ????");
    err_clear(&e);
    err_set(&e, ERR_INPUT, "open|||%s", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82 \xed\x9f\xbf");
    assert_string_equal(e.wanted, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82 \xed\x9f\xbf");
}

static void clear__makes_it_reusable(void **state)
{
    (void)state;
    struct err e = ERR_INIT, fresh = ERR_INIT;
    err_set(&e, ERR_IO, "a|b|c|d");
    err_note(&e, "n");
    err_clear(&e);
    assert_int_equal(e.code, fresh.code);
    assert_int_equal(e.rank, -1);
    assert_int_equal(e.notes, 0);
    assert_string_equal(e.what, "");
    err_set(&e, ERR_USAGE, "again");
    assert_string_equal(e.what, "again");
}

static void set_ok(void *ctx)
{
    (void)!err_set(ctx, ERR_OK, "no error");
}

static void set__aborts__when_the_code_is_ok(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char *text;
    assert_int_equal(signal_of(set_ok, &e, &text), SIGABRT);
    assert_non_null(strstr(text, "internal error: "));
    assert_non_null(strstr(text, "CHECK(e && code != ERR_OK) does not hold"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set__fills_the_four_parts),
        cmocka_unit_test(set__keeps_the_first_cause__when_set_again),
        cmocka_unit_test(set__keeps_a_bar_inside_an_argument),
        cmocka_unit_test(set__says_the_sentence_of_the_code__when_the_text_is_empty),
        cmocka_unit_test(sentence_and_exit__exist_for_every_code),
        cmocka_unit_test(sys__adds_the_system_text_and_chooses_the_code),
        cmocka_unit_test(note__adds_context_in_order_and_stops_when_full),
        cmocka_unit_test(line__has_wanted_without_found),
        cmocka_unit_test(text__stays_one_printable_line__when_arguments_hold_control_bytes),
        cmocka_unit_test(text__is_cut_with_dots__when_it_is_too_long),
        cmocka_unit_test(text__stays_valid_utf8__when_it_is_cut_or_was_none),
        cmocka_unit_test(clear__makes_it_reusable),
        cmocka_unit_test(set__aborts__when_the_code_is_ok),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
