/* test_json.c: JSON errors say where; getters refuse what is not the wanted kind. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include "core/json.h"

#include <math.h>
#include <string.h>

static json_t *parsed(const char *text)
{
    struct err err = ERR_INIT;
    json_t *v;
    (void)!json_parse(text, (int64_t)strlen(text), "t.json", &v, &err);
    assert_ok(&err);
    return v;
}

static void parse__says_line_and_column__when_it_fails(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where, *found;
    } rows[] = {
        {"", "t.json: line 1", "'[' or '{' expected"},
        {"{\n  \"a\": x}", "t.json: line 2, column ", "invalid token"},
        {"{\"a\": 1", "t.json: line 1", "expected"},
        {"{\"a\": 1, \"a\": 2}", "t.json: line 1", "duplicate object key"},
        {"{\"a\": \"\\u0000\"}", "t.json: line 1", "\\u0000"},
        {"{} x", "t.json: line 1", "end of file expected"},
        {"{\"a\": 99999999999999999999}", "t.json: line 1", "too big integer"},
        {"{\"a\": 1e999}", "t.json: line 1", "real number overflow"},
        {"{\"a\": NaN}", "t.json: line 1", "invalid token"},
        {"{\"a\": \"\xff\"}", "t.json: line 1", "unable to decode byte 0xff"},
        {"3", "t.json: line 1", "'[' or '{' expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        json_t *v;
        assert_int_equal(
            json_parse(rows[i].text, (int64_t)strlen(rows[i].text), "t.json", &v, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "parse JSON", rows[i].where, rows[i].found, "valid JSON");
        assert_null(v);
    }
}

static void parse__refuses_nul_bytes_null_text_and_deep_nesting(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    json_t *v;
    assert_int_equal(json_parse("{\0}", 3, "t", &v, &err), ERR_INPUT);
    err_clear(&err);
    assert_int_equal(json_parse(NULL, 0, "t", &v, &err), ERR_INPUT);
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    err_clear(&err);
    assert_int_equal(json_parse(deep, sizeof deep, "t", &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "parse JSON", "t: line", "maximum parsing depth", NULL);
}

static void read__takes_a_file_and_names_a_missing_one(void **state)
{
    struct err err = ERR_INIT;
    json_t *v;
    write_text(folder_path(state, "a.json"), "{\"a\": [1, 2]}\n");
    assert_int_equal(json_read(folder_path(state, "a.json"), &v, &err), ERR_OK);
    assert_int_equal(json_array_size(json_object_get(v, "a")), 2);
    json_decref(v);
    assert_int_equal(json_read(folder_path(state, "b.json"), &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "b.json", "No such file", NULL);
    assert_null(v);
    write_text(folder_path(state, "c.json"), "");
    err_clear(&err);
    assert_int_equal(json_read(folder_path(state, "c.json"), &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "parse JSON", "c.json: line 1", NULL, NULL);
}

static void int__checks_kind_and_range(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    int64_t v = 0;
    json_t *o = parsed("{\"a\": 5, \"b\": 5.0, \"c\": \"5\", \"n\": null, \"t\": true}");
    assert_int_equal(json_int(o, "a", 1, 5, "t", &v, &err), ERR_OK);
    assert_int_equal(v, 5);
    assert_int_equal(json_int(o, "a", 5, 9, "t", &v, &err), ERR_OK);
    assert_int_equal(json_int(o, "a", 6, 9, "t", &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read key \"a\"", "t", "5", "6 to 9");
    static const struct {
        const char *key, *found;
    } bad[] = {
        {"b", "a fraction"}, {"c", "a string"}, {"n", "null"}, {"t", "true"}, {"z", "nothing"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&err);
        assert_int_equal(json_int(o, bad[i].key, 0, 9, "t", &v, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, bad[i].key, "t", bad[i].found, "an integer");
    }
    json_decref(o);
}

static void int_or__gives_the_default__only_when_absent_or_null(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    int64_t v = 0;
    json_t *o = parsed("{\"a\": 5, \"c\": \"5\", \"n\": null}");
    assert_int_equal(json_int_or(o, "z", 0, 9, 77, "t", &v, &err), ERR_OK);
    assert_int_equal(v, 77);
    assert_int_equal(json_int_or(o, "n", 0, 9, 78, "t", &v, &err), ERR_OK);
    assert_int_equal(v, 78);
    assert_int_equal(json_int_or(o, "a", 0, 9, 77, "t", &v, &err), ERR_OK);
    assert_int_equal(v, 5);
    assert_int_equal(json_int_or(o, "a", 0, 4, 77, "t", &v, &err), ERR_INPUT);
    err_clear(&err);
    assert_int_equal(json_int_or(o, "c", 0, 9, 77, "t", &v, &err), ERR_INPUT);
    json_decref(o);
}

static void double__takes_integers_and_fractions_and_no_text(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    double v = 0;
    json_t *o = parsed("{\"a\": 5, \"b\": 1e-5, \"c\": \"5\", \"n\": null}");
    assert_int_equal(json_double(o, "a", "t", &v, &err), ERR_OK);
    assert_f64_is(v, 5);
    assert_int_equal(json_double(o, "b", "t", &v, &err), ERR_OK);
    assert_f64_is(v, 1e-5);
    assert_int_equal(json_double_or(o, "n", 2.5, "t", &v, &err), ERR_OK);
    assert_f64_is(v, 2.5);
    assert_int_equal(json_double_or(o, "b", 2.5, "t", &v, &err), ERR_OK);
    assert_f64_is(v, 1e-5);
    assert_int_equal(json_double(o, "c", "t", &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read key \"c\"", "t", "a string", "a number");
    err_clear(&err);
    assert_int_equal(json_double(o, "z", "t", &v, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read key \"z\"", "t", "nothing", "a number");
    json_decref(o);
}

static void bool_and_text__take_their_kind_or_the_default(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    bool b = false;
    const char *s = NULL;
    json_t *o = parsed("{\"t\": true, \"f\": false, \"i\": 1, \"s\": \"x\", \"n\": null}");
    assert_int_equal(json_bool_or(o, "t", false, "w", &b, &err), ERR_OK);
    assert_true(b);
    assert_int_equal(json_bool_or(o, "f", true, "w", &b, &err), ERR_OK);
    assert_false(b);
    assert_int_equal(json_bool_or(o, "n", true, "w", &b, &err), ERR_OK);
    assert_true(b);
    assert_int_equal(json_bool_or(o, "i", true, "w", &b, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read key \"i\"", "w", "an integer", "true or false");
    err_clear(&err);
    assert_int_equal(json_text_or(o, "s", "d", "w", &s, &err), ERR_OK);
    assert_string_equal(s, "x");
    assert_int_equal(json_text_or(o, "z", "d", "w", &s, &err), ERR_OK);
    assert_string_equal(s, "d");
    assert_int_equal(json_text_or(o, "t", "d", "w", &s, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read key \"t\"", "w", "true", "a string");
    json_decref(o);
}

static void has_and_kind__tell_null_from_absent(void **state)
{
    (void)state;
    json_t *o = parsed("{\"n\": null, \"a\": [0, 0.5, \"x\", {}, true, false, null]}");
    static const char *const kinds[] = {"an integer", "a fraction", "a string", "an object",
                                        "true",       "false",      "null"};
    assert_false(json_has(o, "n"));
    assert_false(json_has(o, "z"));
    assert_true(json_has(o, "a"));
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(json_kind(json_array_get(json_object_get(o, "a"), i)), kinds[i]);
    assert_string_equal(json_kind(json_object_get(o, "a")), "an array");
    assert_string_equal(json_kind(NULL), "nothing");
    json_decref(o);
}

/* A result with a text in it that is no UTF-8 could not be written at all. */
static void any_text__writes_out_what_is_no_utf8(void **state)
{
    static const struct {
        const char *text, *wanted;
    } rows[] = {{"gr\xC3\xBCn", "gr\xC3\xBCn"},
                {"gr\xC3", "gr\\xc3"},
                {"\xC3\xBC\xFF%s", "\\xc3\\xbc\\xff%s"},
                {"", ""},
                {NULL, ""}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = json_any_text(rows[i].text);
        assert_non_null(v);
        assert_string_equal(json_string_value(v), rows[i].wanted);
        json_decref(v);
    }
}

static void err__has_its_four_parts_and_the_chain(void **state)
{
    static const char *const keys[] = {"what", "where", "found", "wanted"};
    struct err err = ERR_INIT;
    (void)state;
    (void)!err_set(&err, ERR_INPUT, "read|a.json|nothing|something");
    (void)!err_note(&err, "layer %d", 3);
    (void)!err_note(&err, "rank %d", 1);
    json_t *v = json_err(&err), *chain = json_object_get(v, "chain");
    const char *const wanted[] = {err.what, err.where, err.found, err.wanted};
    assert_int_equal(json_object_size(v), 5);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(json_string_value(json_object_get(v, keys[i])), wanted[i]);
    assert_string_equal(json_string_value(json_object_get(v, "found")), "nothing");
    assert_int_equal(json_array_size(chain), 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(json_string_value(json_array_get(chain, i)), err.note[i]);
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__says_line_and_column__when_it_fails),
        cmocka_unit_test(parse__refuses_nul_bytes_null_text_and_deep_nesting),
        cmocka_unit_test_setup_teardown(read__takes_a_file_and_names_a_missing_one, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(int__checks_kind_and_range),
        cmocka_unit_test(int_or__gives_the_default__only_when_absent_or_null),
        cmocka_unit_test(double__takes_integers_and_fractions_and_no_text),
        cmocka_unit_test(bool_and_text__take_their_kind_or_the_default),
        cmocka_unit_test(has_and_kind__tell_null_from_absent),
        cmocka_unit_test(any_text__writes_out_what_is_no_utf8),
        cmocka_unit_test(err__has_its_four_parts_and_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
