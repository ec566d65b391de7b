/* test_diff.c: dumps with one planted bug each, made by transformers 4.57 in bfloat16, are red at
 * the right place; the clean one is green; a wrong truth, a wrong profile and missing taps are
 * said. */
#include "harness/diff.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char fixture[4][FILE_PATH];

static const char *path_of(int slot, const char *name)
{
    snprintf(fixture[slot], FILE_PATH, "%s/fixtures/%s", ASSAY_SOURCE_DIR, name);
    return fixture[slot];
}

static struct diff_request request(const char *subject, const char *profile)
{
    return (struct diff_request){.subject = path_of(0, subject),
                                 .truth = path_of(1, "tiny-k25/golden.safetensors"),
                                 .model = path_of(2, "tiny-k25"),
                                 .profile = profile,
                                 .bound = NAN,
                                 .threads = 2};
}

static void planted_bug__is_first_at_its_place__in_transformers_dumps(void **state)
{
    (void)state;
    static const struct {
        const char *dump, *tap, *op;
    } bugs[] = {
        {"bugs/nibble.safetensors", "layers.1.mlp", "moe"},
        {"bugs/tp_lost.safetensors", "layers.2.attn", "mla.output"},
        {"bugs/nomscale.safetensors", "layers.0.attn_core", "mla.core"},
        {"bugs/noyarn.safetensors", "layers.0.attn_core", "mla.core"},
        {"bugs/biasweights.safetensors", "layers.1.expert_weights", "router"},
    };
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        struct diff d;
        struct err err = ERR_INIT;
        const struct diff_request r = request(bugs[i].dump, "hf");
        enum err_code rc = diff_run(&d, &r, &err);
        assert_int_equal(err.code, ERR_OK);
        assert_int_equal(rc, ERR_DIFF);
        const struct pair *p = &d.rows.pairs[d.first];
        assert_string_equal(p->subject->name, bugs[i].tap);
        assert_string_equal(tap_op(p->subject->kind, p->moe), bugs[i].op);
        assert_string_equal(d.profile_name, "hf4");
        assert_int_equal(d.compared, 71);
        diff_close(&d);
    }
}

static void clean_dump__is_green__and_its_flips_are_near_ties(void **state)
{
    (void)state;
    static const char *const profiles[] = {"hf", "hf4", NULL};
    for (int i = 0; i < 3; i++) {
        struct diff d;
        struct err err = ERR_INIT;
        const struct diff_request r = request("bugs/clean.safetensors", profiles[i]);
        enum err_code rc = diff_run(&d, &r, &err);
        assert_ok(&err);
        assert_int_equal(rc, ERR_OK);
        assert_int_equal(d.compared, 71);
        assert_int_equal(d.rows.missing_count, 11);
        assert_true(d.flips.count > 0);
        assert_int_equal(d.flips.certified, d.flips.count);
        assert_string_equal(d.profile_name, "hf4"); /* also where it was left to the fit */
        assert_string_equal(d.note, "");
        diff_close(&d);
    }
}

static void golden_of_transformers_5__is_green__under_hf(void **state)
{
    (void)state;
    struct diff d;
    struct err err = ERR_INIT;
    char tokens[FILE_PATH + 1];
    struct diff_request r = request("tiny-k25/golden-bf16.safetensors", "hf");
    snprintf(tokens, sizeof tokens, "@%s", path_of(3, "tiny-k25/golden.json"));
    r.tokens = tokens;
    assert_int_equal(diff_run(&d, &r, &err), ERR_OK);
    assert_string_equal(d.profile_name, "hf");
    diff_close(&d);
}

static void float32_golden__is_green__under_the_derived_bound(void **state)
{
    (void)state;
    struct diff d;
    struct err err = ERR_INIT;
    char tokens[FILE_PATH + 1];
    struct diff_request r = request("tiny-k25/golden.safetensors", NULL);
    snprintf(tokens, sizeof tokens, "@%s", path_of(3, "tiny-k25/golden.json"));
    r.tokens = tokens;
    assert_int_equal(diff_run(&d, &r, &err), ERR_OK);
    assert_string_equal(d.profile_name, "math");
    assert_int_equal(d.compared, 82);
    diff_close(&d);
}

static void truth_of_another_run__is_said__with_the_verdict(void **state)
{
    (void)state;
    struct diff d;
    struct err err = ERR_INIT;
    struct diff_request r = request("bugs/clean.safetensors", "hf");
    r.truth = path_of(1, "bugs/nibble.safetensors");
    assert_int_equal(diff_run(&d, &r, &err), ERR_OK);
    assert_non_null(strstr(d.note, "not this model's own run"));
    diff_close(&d);
}

static void taps_that_are_required__are_red__when_absent(void **state)
{
    (void)state;
    static const char *const require[] = {"layers.*.attn", "layers.*.k_rope", "no.such.tap", NULL};
    struct diff d;
    struct err err = ERR_INIT;
    struct diff_request r = request("bugs/clean.safetensors", "hf");
    r.require = require;
    assert_int_equal(diff_run(&d, &r, &err), ERR_DIFF);
    assert_int_equal(d.failed, 0);
    assert_int_equal(d.promised_count, 7); /* six k_rope and the unknown one */
    diff_close(&d);
}

static void nothing_compared__is_red(void **state)
{
    struct diff d;
    struct err err = ERR_INIT;
    static const float one[2];
    const struct st_part a = {
        .name = "mine", .dtype = DT_F32, .dims = 2, .shape = {1, 2}, .data = one};
    const struct st_part b = {
        .name = "yours", .dtype = DT_F32, .dims = 2, .shape = {1, 2}, .data = one};
    char first[FILE_PATH];
    snprintf(first, sizeof first, "%s", folder_path(state, "a.safetensors"));
    const char *second = folder_path(state, "b.safetensors");
    write_safetensors(first, &a, 1, NULL, 0);
    write_safetensors(second, &b, 1, NULL, 0);
    const struct diff_request r = {.subject = first, .truth = second, .bound = 1};
    assert_int_equal(diff_run(&d, &r, &err), ERR_DIFF);
    assert_int_equal(d.compared, 0);
    assert_int_equal(err.code, ERR_OK);
    diff_close(&d);
}

static void result__is_recorded__with_every_field_that_scripts_rely_on(void **state)
{
    (void)state;
    static const char *const fields[] = {"compared",   "unchecked", "taps",  "first",
                                         "flips",      "missing",   "extra", "diagnosis",
                                         "hypotheses", "guilty"};
    struct diff d;
    struct err err = ERR_INIT;
    const struct diff_request r = request("bugs/nibble.safetensors", "hf");
    assert_int_equal(diff_run(&d, &r, &err), ERR_DIFF);
    json_t *result = json_object();
    assert_int_equal(diff_json(&d, result, &err), ERR_OK);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        assert_non_null(json_object_get(result, fields[i]));
    const json_t *first = json_object_get(result, "first");
    assert_string_equal(json_string_value(json_object_get(first, "tap")), "layers.1.mlp");
    assert_int_equal(json_integer_value(json_object_get(first, "layer")), 1);
    assert_true(json_integer_value(json_object_get(first, "row")) >= 0);
    assert_true(json_integer_value(json_object_get(first, "col")) >= 0);
    json_decref(result);
    diff_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_bug__is_first_at_its_place__in_transformers_dumps),
        cmocka_unit_test(clean_dump__is_green__and_its_flips_are_near_ties),
        cmocka_unit_test(golden_of_transformers_5__is_green__under_hf),
        cmocka_unit_test(float32_golden__is_green__under_the_derived_bound),
        cmocka_unit_test(truth_of_another_run__is_said__with_the_verdict),
        cmocka_unit_test(taps_that_are_required__are_red__when_absent),
        cmocka_unit_test_setup_teardown(nothing_compared__is_red, folder_setup, folder_teardown),
        cmocka_unit_test(result__is_recorded__with_every_field_that_scripts_rely_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
