/* test_text.c: numbers are whole or refused, patterns match whole names. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/text.h"

#include <math.h>
#include <string.h>

static void int__takes_whole_decimal_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {{"0", 0},
                {"12", 12},
                {"-7", -7},
                {"007", 7},
                {"-0", 0},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t v = 99;
        assert_true(text_int(rows[i].text, &v));
        assert_true(v == rows[i].value);
    }
}

static void int__refuses_anything_else(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "12x",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "--1",
                                      "- 1",
                                      "0x10",
                                      "1.0",
                                      "1e3",
                                      "nan",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "-",
                                      "1,2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 99;
        if (text_int(bad[i], &v)) fail_msg("\"%s\" was taken as %lld", bad[i], (long long)v);
        assert_int_equal(v, 99);
    }
}

static void u64__takes_the_full_range_and_no_sign(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "-1", "+1",  "18446744073709551616",
                                      "1x", " 1", "0x1", "-0"};
    uint64_t v;
    assert_true(text_u64("18446744073709551615", &v));
    assert_true(v == UINT64_MAX);
    assert_true(text_u64("0", &v));
    assert_true(v == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (text_u64(bad[i], &v))
            fail_msg("\"%s\" was taken as %llu", bad[i], (unsigned long long)v);
    }
}

static void double__takes_finite_and_infinite_numbers(void **state)
{
    (void)state;
    double v;
    assert_true(text_double("5e-5", &v));
    assert_f64_is(v, 5e-5);
    assert_true(text_double("-1.25", &v));
    assert_f64_is(v, -1.25);
    assert_true(text_double(".5", &v));
    assert_f64_is(v, 0.5);
    assert_true(text_double("inf", &v));
    assert_true(isinf(v) && v > 0);
    assert_true(text_double("-infinity", &v));
    assert_true(isinf(v) && v < 0);
}

static void double__refuses_nan_and_trailing_text(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "nan", "-nan", "NAN(1)", "1x",  " 1",
                                      "1 ", "x",   "1,5",  "1e",     "--1", "\t1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double v;
        if (text_double(bad[i], &v)) fail_msg("\"%s\" was taken as %g", bad[i], v);
    }
}

static void glob__matches_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool match;
    } rows[] = {
        {"*", "", true},
        {"*", "layers.3.q", true},
        {"", "", true},
        {"", "a", false},
        {"a", "", false},
        {"layers.*.q", "layers.12.q", true},
        {"layers.*.q", "layers.12.q_norm", false},
        {"layers.?.q", "layers.1.q", true},
        {"layers.?.q", "layers.12.q", false},
        {"?", "", false},
        {"*.router*", "layers.3.router_logits", true},
        {"*router", "layers.3.router_logits", false},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"**", "abc", true},
        {"a**", "a", true},
        {"*ab", "aab", true},
        {"*aab", "aaab", true},
        {"embed", "embed", true},
        {"embed", "embedx", false},
        {"a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (text_glob(rows[i].pattern, rows[i].name) != rows[i].match)
            fail_msg("%s against %s: want %d", rows[i].pattern, rows[i].name, rows[i].match);
    }
}

static void bytes__uses_powers_of_1000(void **state)
{
    (void)state;
    char buf[32];
    assert_string_equal(text_bytes(0, buf, sizeof buf), "0 B");
    assert_string_equal(text_bytes(999, buf, sizeof buf), "999 B");
    assert_string_equal(text_bytes(1000, buf, sizeof buf), "1.0 kB");
    assert_string_equal(text_bytes(1.5e9, buf, sizeof buf), "1.5 GB");
    assert_string_equal(text_bytes(594205904896.0, buf, sizeof buf), "594.2 GB");
    assert_string_equal(text_bytes(1e18, buf, sizeof buf), "1000.0 PB");
    assert_string_equal(text_bytes(1e12, buf, 4), "1.0");
}

static void starts_and_ends__compare_the_edges(void **state)
{
    (void)state;
    assert_true(text_starts("layers.3", "layers."));
    assert_true(text_starts("a", ""));
    assert_false(text_starts("lay", "layers."));
    assert_true(text_ends("a.weight", ".weight"));
    assert_true(text_ends("a", ""));
    assert_false(text_ends("weight", ".weight"));
    assert_false(text_ends("a.weight_packed", ".weight"));
}

/* The bytes of a code point, in the least number of them or in more; no judgement. */
static size_t encoded(uint32_t c, size_t n, char out[4])
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* Every code point there is; each with a byte missing, and written longer than it has to be. */
static void utf8__takes_each_code_point_in_its_least_form(void **state)
{
    char text[4];
    (void)state;
    for (uint32_t c = 0; c < 0x200000; c++) {
        const size_t least = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        const bool surrogate = c >= 0xd800 && c < 0xe000, none = surrogate || c > 0x10ffff;
        for (size_t n = least; n <= 4; n++) {
            const size_t wanted = n > least || none ? 0 : n;
            (void)encoded(c, n, text);
            if (text_utf8(text, n) != wanted || text_utf8(text, n - 1) != 0)
                fail_msg("U+%04X in %zu bytes", c, n);
        }
    }
}

static void utf8__refuses_bytes_that_do_not_belong_together(void **state)
{
    static const char *const bad[] = {
        "\x80",          "\xbf\x80",         "\xc3(", "\xe0\xb8(", "\xe2(\x80",
        "\xf0\x9f\x98(", "\xf8\x88\x80\x80", "\xff",  "\xfe"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(text_utf8(bad[i], strlen(bad[i])), 0);
    assert_int_equal(text_utf8("\xe0\xb8\x81(", 4), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int__takes_whole_decimal_numbers),
        cmocka_unit_test(int__refuses_anything_else),
        cmocka_unit_test(u64__takes_the_full_range_and_no_sign),
        cmocka_unit_test(double__takes_finite_and_infinite_numbers),
        cmocka_unit_test(double__refuses_nan_and_trailing_text),
        cmocka_unit_test(glob__matches_whole_names),
        cmocka_unit_test(bytes__uses_powers_of_1000),
        cmocka_unit_test(starts_and_ends__compare_the_edges),
        cmocka_unit_test(utf8__takes_each_code_point_in_its_least_form),
        cmocka_unit_test(utf8__refuses_bytes_that_do_not_belong_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
