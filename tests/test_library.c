/* test_library.c: libraries opened at run time: found by a later name, or said why not. */
#include "core/library.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static void library_open__takes_the_first_that_there_is(void **state)
{
    (void)state;
    static const char *const names[] = {"libassay-none.so.9", "libm.so.6", NULL};
    char why[160];
    double (*cosine)(double) = NULL;
    void *library = library_open(names, why, sizeof why);
    assert_non_null(library);
    assert_true(library_find(library, "cos", (void *)&cosine));
    assert_true(cosine(0) == 1);
}

static void library_open__says_what_is_wrong_with_the_first__when_there_is_none(void **state)
{
    (void)state;
    static const char *const names[] = {"libassay-none.so.9", "libassay-other.so.9", NULL};
    char why[160];
    assert_null(library_open(names, why, sizeof why));
    assert_non_null(strstr(why, "libassay-none.so.9"));
}

static void library_find__is_false_and_changes_nothing__when_a_function_is_missing(void **state)
{
    (void)state;
    static const char *const names[] = {"libm.so.6", NULL};
    char why[160];
    double (*function)(double) = fabs;
    void *library = library_open(names, why, sizeof why);
    assert_non_null(library);
    assert_false(library_find(library, "assay_has_no_such_function", (void *)&function));
    assert_true(function == fabs);
}

static void library_find_all__gives_every_function__and_names_the_first_that_is_missing(
    void **state)
{
    (void)state;
    static const char *const names[] = {"libm.so.6", NULL};
    char why[160];
    double (*sine)(double) = NULL, (*cosine)(double) = NULL;
    const struct library_function good[] = {{"sin", (void *)&sine}, {"cos", (void *)&cosine}},
                                  bad[] = {{"sin", (void *)&sine},
                                           {"assay_has_no_such_function", (void *)&sine},
                                           {"nor_such", (void *)&cosine}};
    void *library = library_open(names, why, sizeof why);
    assert_non_null(library);
    assert_null(library_find_all(library, good, 2));
    assert_true(sine(0) == 0 && cosine(0) == 1);
    assert_string_equal(library_find_all(library, bad, 3), "assay_has_no_such_function");
    assert_null(library_find_all(library, bad, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_open__takes_the_first_that_there_is),
        cmocka_unit_test(library_open__says_what_is_wrong_with_the_first__when_there_is_none),
        cmocka_unit_test(library_find__is_false_and_changes_nothing__when_a_function_is_missing),
        cmocka_unit_test(
            library_find_all__gives_every_function__and_names_the_first_that_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
