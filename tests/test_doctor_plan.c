/* test_doctor_plan.c: `assay doctor --plan`, as a user meets it. */
#include "tests/cli.h"

#include <string.h>

static void plan__is_printed_and_checked(void **state)
{
    (void)state;
    json_t *r = cli_passes("doctor", "--plan", "--model", fixture_synth("tiny-k25"), "--tp", "2",
                           "--ep", "4", "--redundant", "3", "--reduce", "bf16");
    const json_t *plan = field(r, "plan"), *ranks = field(plan, "ranks");
    assert_int_equal(field_int(plan, "world"), 8);
    assert_string_equal(field_text(plan, "reduce"), "bf16");
    assert_int_equal(json_array_size(ranks), 8);
    assert_int_equal(json_array_size(field(json_array_get(ranks, 2), "experts")), 4 + 3);
    assert_int_equal(json_array_size(field(plan, "problems")), 0);
    assert_null(json_object_get(r, "checks"));
    json_decref(r);
}

static void plan__is_a_table_for_people(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "doctor", "--plan", "--model", fixture_synth("tiny-k25"), "--tp", "4");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    assert_non_null(strstr(r.out, "rank   t   e"));
    assert_non_null(strstr(r.out, "6:8         288:384            none"));
    assert_non_null(strstr(r.out, "every element is where it should be"));
    cli_free(&r);
}

static void plan__that_cannot_be_is_refused(void **state)
{
    const char *model = fixture_synth("tiny-k25");
    cli_refuses(state,
                ((struct refusal){2, "shard plan", "attention heads", "8 over --tp 3",
                                  "--tp 1, 2, 4 or 8"}),
                "doctor", "--plan", "--model", model, "--tp", "3");
    cli_refuses(
        state,
        ((struct refusal){2, "option", "doctor", "--plan without a model", "--plan --model MODEL"}),
        "doctor", "--plan", "--tp", "2");
    cli_refuses(state,
                ((struct refusal){2, "option", "doctor", "--tp without --plan", "--plan --tp N"}),
                "doctor", "--tp", "2");
    cli_refuses(state, ((struct refusal){2, "option", "--expert-map", "\"other\"", "contiguous"}),
                "doctor", "--plan", "--model", model, "--expert-map", "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan__is_printed_and_checked),
        cmocka_unit_test(plan__is_a_table_for_people),
        cmocka_unit_test_setup_teardown(plan__that_cannot_be_is_refused, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
