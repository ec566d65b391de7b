/* test_campaign_verify.c: faults of a draft head and of its verification in a campaign: caught,
 * named, noted as covered; without a head there is nothing to edit. */
#include "core/cover.h"
#include "core/ops.h"
#include "harness/campaign.h"
#include "tests/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *passes(const char *const *include, const char *model, const char *draft,
                      int64_t clean)
{
    const struct campaign_options o = {.include = include,
                                       .seed = 2,
                                       .seeds = 1,
                                       .quick = true,
                                       .clean = clean,
                                       .bound = NAN,
                                       .workers = 1,
                                       .model = model,
                                       .tokens = model ? "5,17,222,301,8,99,410,63" : NULL,
                                       .draft = draft};
    struct err err = ERR_INIT;
    json_t *r = json_object();
    (void)!campaign_run(&o, r, &err);
    assert_ok(&err);
    assert_int_equal(field_int(r, "caught"), field_int(r, "injected"));
    assert_int_equal(json_array_size(field(r, "errors")), 0);
    return r;
}

/* How many records of a list are of this kind. */
static int of_kind(const json_t *r, const char *list, const char *kind)
{
    int n = 0;
    const json_t *records = field(r, list);
    for (size_t i = 0; i < json_array_size(records); i++)
        n += strcmp(field_text(json_array_get(records, i), "kind"), kind) == 0;
    return n;
}

static void verification__is_found_lossy_by_law_and_by_text(void **state)
{
    static const char *const include[] = {"eagle.accept_unverified", "eagle.wrong_bonus",
                                          "eagle.draw_from_p", "eagle.siblings_share_coin", NULL};
    (void)state;
    json_t *r = passes(include, NULL, NULL, 0);
    assert_int_equal(field_int(r, "faults"), 4);
    assert_int_equal(json_array_size(field(r, "never")), 0);
    /* Named by its law in every toy that it is caught in: chains 3, 2, 3, 0; trees 2, 2, 2, 2. */
    assert_int_equal(field_int(r, "diagnosed"), 16);
    assert_int_equal(field_int(r, "named"), 16);
    assert_int_equal(of_kind(r, "sub_threshold", "verification"), 1); /* a third token */
    assert_true(of_kind(r, "inert", "verification") > 0);             /* coins of a greedy text */
    json_decref(r);
}

static void heads_of_cases__host_faults_at_their_steps(void **state)
{
    static const char *const include[] = {"eagle.fc_skipped", "eagle.residual_normed", NULL};
    (void)state;
    json_t *r = passes(include, NULL, NULL, 10);
    assert_true(field_int(r, "diagnosed") >= 10);
    assert_int_equal(field_int(r, "diagnosed"), field_int(r, "named"));
    assert_int_equal(field_int(r, "wrong_names"), 0);
    assert_int_equal(field_int(r, "false_alarms"), 0);
    assert_true(field_int(r, "clean_runs") > 0);
    json_decref(r);
}

static void model_of_the_user__needs_its_head(void **state)
{
    static const char *const include[] = {"eagle.residual_normed", "eagle.accept_unverified", NULL};
    (void)state;
    json_t *r = passes(include, FIXTURE("tiny-k25"), NULL, 0);
    int alone = (int)field_int(r, "injected");
    assert_int_equal(of_kind(r, "inert", "verification"), 2); /* no head: no text */
    json_decref(r);
    r = passes(include, FIXTURE("tiny-k25"), "synth:" FIXTURE("eagle-llama/config.json") "?seed=3",
               0);
    assert_int_equal(of_kind(r, "inert", "verification"), 0);
    assert_int_equal(field_int(r, "injected"), alone + 3); /* a step; two texts */
    json_decref(r);
}

/* What was caught above is noted. */
static void caught_faults__are_coverage(void **state)
{
    static const char *const ops[] = {"eagle.fc", "eagle.layer", "eagle.verify"};
    struct err err = ERR_INIT;
    bool *noted = calloc((size_t)(op_count * COVER_KINDS), sizeof *noted);
    int64_t lines;
    (void)state;
    if (cover_read(getenv("ASSAY_COVER"), noted, &lines, &err) != ERR_OK) assert_ok(&err);
    for (int i = 0; i < 3; i++)
        assert_true(noted[(op_find(ops[i]) - op_rows) * COVER_KINDS + COVER_FAULT]);
    free(noted);
}

/* One folder of notes for all tests, where the run has none already. */
static int notes_setup(void **state)
{
    if (getenv("ASSAY_COVER")) return 0;
    return folder_setup(state) || setenv("ASSAY_COVER", *state, 1);
}

static int notes_teardown(void **state)
{
    return *state ? folder_teardown(state) : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verification__is_found_lossy_by_law_and_by_text),
        cmocka_unit_test(heads_of_cases__host_faults_at_their_steps),
        cmocka_unit_test(model_of_the_user__needs_its_head),
        cmocka_unit_test(caught_faults__are_coverage),
    };
    return cmocka_run_group_tests(tests, notes_setup, notes_teardown);
}
