/* test_verb_doctor.c: every fact has a name of its own, a value and a remedy; the machine that runs
 * the tests can run the reference; --json prints nothing else. */
#include "harness/verb.h"

#include "core/ops.h"
#include "tests/support.h"

#include <string.h>
#include <unistd.h>

static json_t *checks_of(json_t *result, enum err_code *code)
{
    struct args args = {.verb = &verb_doctor, .json = true};
    struct err err = ERR_INIT;
    *code = verb_doctor.run(&args, result, &err);
    json_t *checks = json_object_get(result, "checks");
    assert_true(json_is_array(checks));
    return checks;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    assert_non_null(text);
    assert_true(strlen(text) > 0);
    return text;
}

static const json_t *find(const json_t *checks, const char *name)
{
    size_t i;
    const json_t *row;
    json_array_foreach(checks, i, row)
    {
        if (strcmp(text_of(row, "name"), name) == 0) return row;
    }
    return NULL;
}

static void doctor__says_something_in_every_part_of_every_check(void **state)
{
    (void)state;
    enum err_code code;
    json_t *result = json_object(), *checks = checks_of(result, &code);
    size_t i;
    const json_t *row;
    assert_in_range(json_array_size(checks), 11, 64);
    json_array_foreach(checks, i, row)
    {
        const char *status = text_of(row, "status");
        assert_true(strcmp(status, "ok") == 0 || strcmp(status, "warn") == 0 ||
                    strcmp(status, "FAIL") == 0);
        assert_ptr_equal(find(checks, text_of(row, "name")), row);
        text_of(row, "value");
        text_of(row, "remedy");
    }
    json_decref(result);
}

static void doctor__passes__where_the_tests_can_run(void **state)
{
    (void)state;
    enum err_code code;
    json_t *result = json_object(), *checks = checks_of(result, &code);
    assert_int_equal(code, ERR_OK);
    assert_string_equal(text_of(find(checks, "arithmetic"), "status"), "ok");
    assert_string_equal(text_of(find(checks, "reference"), "status"), "ok");
    assert_non_null(strstr(text_of(find(checks, "reference"), "value"), ref_side()->about));
    json_decref(result);
}

static void doctor__warns_of_a_gpu_that_is_not_there(void **state)
{
    (void)state;
    enum err_code code;
    json_t *result = json_object(), *checks = checks_of(result, &code);
    if (!gpu_side()->available) {
        assert_string_equal(text_of(find(checks, "gpu"), "status"), "warn");
        assert_string_equal(text_of(find(checks, "gpu"), "value"), gpu_side()->why_not);
    } else {
        assert_string_equal(text_of(find(checks, "gpu 0"), "status"), "ok");
    }
    json_decref(result);
}

static void doctor__warns__when_the_folder_cannot_hold_dumps(void **state)
{
    char back[FILE_PATH];
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir("/proc"), 0); /* never any room there */
    enum err_code code;
    json_t *result = json_object(), *checks = checks_of(result, &code);
    assert_int_equal(chdir(back), 0);
    assert_string_equal(text_of(find(checks, "disk"), "status"), "warn");
    assert_int_equal(code, ERR_OK);
    json_decref(result);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doctor__says_something_in_every_part_of_every_check),
        cmocka_unit_test(doctor__passes__where_the_tests_can_run),
        cmocka_unit_test(doctor__warns_of_a_gpu_that_is_not_there),
        cmocka_unit_test(doctor__warns__when_the_folder_cannot_hold_dumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
