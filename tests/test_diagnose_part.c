/* test_diagnose_part.c: with the true name taken away, a part that has a factor is said as one. */
#include "harness/diff.h"
#include "tests/planted.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

#define K25 ASSAY_SOURCE_DIR "/fixtures/tiny-k25"

static const int64_t tokens[] = {5, 17, 222, 301, 8, 99, 410, 63, 63, 128, 240, 77, 19, 350, 2, 6};
enum { TOKENS = sizeof tokens / sizeof tokens[0] };

struct expected {
    const char *fault, *without[3];
    const char *taps; /* of the dump; NULL: all */
    const char *name; /* of the part; NULL: none explains nearly all */
    double factor;
};

static void diagnose_without(void **state, const struct expected *e, struct diff *d)
{
    struct err err = ERR_INIT;
    const char *path = folder_path(state, "subject");
    const struct planted made = {.model = K25,
                                 .profile = "hf4",
                                 .token = tokens,
                                 .tokens = TOKENS,
                                 .fault = {e->fault},
                                 .taps = e->taps,
                                 .dtype = DT_BF16};
    const struct diff_request r = {.subject = path,
                                   .model = K25,
                                   .profile = "hf4",
                                   .bound = NAN,
                                   .threads = 1,
                                   .diagnose = true,
                                   .without = e->without};
    assert_true(planted_write(&made, path));
    assert_int_equal(diff_run(d, &r, &err), ERR_DIFF);
    assert_ok(&err);
}

static void part_with_a_factor__is_said__where_no_fault_is_named(void **state)
{
    static const struct expected list[] = {
        /* Of one row, and the last of its experts. */
        {"moe.dropped_expert@layer=3,expert=15",
         {"moe.dropped_expert", "ep.token_lost"},
         NULL,
         "expert 15 of moe, layer 3",
         0},
        {"moe.shared_scaled@layer=3,factor=1.7",
         {"moe.shared_scaled"},
         "layers.*.mlp,layers.*.output",
         "moe.shared, layer 3",
         1.7},
        {"tp.double_reduce@layer=4", {"tp.double_reduce"}, NULL, "mla.output, layer 4", 2},
        {"int4.nibble_swap@layer=1,expert=5", {"int4.nibble_swap"}, NULL, NULL, 1},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        struct diff d;
        diagnose_without(state, &list[i], &d);
        const struct error_shape *s = &d.diagnosis.shape;
        if (d.diagnosis.claimed > 0)
            fail_msg("%s: named %s", list[i].fault, d.diagnosis.claims[0].use[0].row->id);
        if (!list[i].name) {
            assert_true(s->weighed.explains < 0.9);
            assert_null(strstr(s->text, " of moe"));
        } else if (strcmp(s->weighed.name, list[i].name) != 0 || !(s->weighed.explains > 0.99) ||
                   !(fabs(s->weighed.factor - list[i].factor) <= 0.01)) {
            fail_msg("%s: %s times %g explains %g", list[i].fault, s->weighed.name,
                     s->weighed.factor, s->weighed.explains);
        }
        diff_close(&d);
    }
}

static void part__is_not_looked_for__where_a_fault_is_named(void **state)
{
    static const struct expected named = {
        "moe.dropped_expert@layer=2,expert=9", {NULL}, NULL, NULL, 1};
    struct diff d;
    diagnose_without(state, &named, &d);
    assert_int_equal(d.diagnosis.claimed, 1);
    assert_string_equal(d.diagnosis.shape.weighed.name, "");
    diff_close(&d);
}

static void part__stands_in_the_result(void **state)
{
    static const struct expected lost = {
        "moe.dropped_expert@layer=2,expert=9", {"moe.dropped_expert"}, NULL, NULL, 0};
    struct diff d;
    struct err err = ERR_INIT;
    diagnose_without(state, &lost, &d);
    json_t *j = json_object();
    assert_int_equal(diff_json(&d, j, &err), ERR_OK);
    const json_t *shape = json_object_get(j, "shape"), *part = json_object_get(shape, "part");
    assert_string_equal(json_string_value(json_object_get(part, "name")),
                        "expert 9 of moe, layer 2");
    assert_true(json_number_value(json_object_get(part, "factor")) == 0);
    assert_true(json_number_value(json_object_get(part, "explains")) > 0.99);
    assert_non_null(strstr(json_string_value(json_object_get(shape, "text")),
                           "expert 9 of moe, layer 2 times 0 explains 100.0 %"));
    json_decref(j);
    diff_close(&d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(part_with_a_factor__is_said__where_no_fault_is_named),
        TEST(part__is_not_looked_for__where_a_fault_is_named),
        TEST(part__stands_in_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
