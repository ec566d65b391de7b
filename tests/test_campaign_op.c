/* test_campaign_op.c: one fault injected and judged: what is claimed beside the true name is wrong,
 * unless it gives the same bits. */
#include "harness/campaign_parts.h"
#include "tests/cli.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct one {
    enum job_kind kind;
    int64_t on; /* case */
    uint64_t seed;
    const char *profile, *row, *fault, *second;
};

/* The record of one job on a drawn case. */
static json_t *record_of(void **state, const struct one *o)
{
    const struct campaign_options options = {.seed = o->seed, .bound = NAN, .workers = 1};
    struct campaign_case on;
    struct loaded loaded;
    struct err err = ERR_INIT;
    struct campaign c = {.options = &options, .cases = &on, .loaded = &loaded, .cases_count = 1};
    struct job j = {
        .kind = o->kind, .row = fault_find(o->row), .profile = o->profile, .order = ORDER_F64};
    snprintf(j.fault[0], FAULT_TEXT, "%s", o->fault);
    snprintf(j.fault[1], FAULT_TEXT, "%s", o->second ? o->second : "");
    snprintf(c.folder, sizeof c.folder, "%s", (const char *)*state);
    const char *folder = folder_path(state, o->kind == JOB_PAIR ? "pair" : "case");
    (void)!campaign_case_make(&on, CASE_FIXED + o->on, o->seed, folder, &err);
    assert_ok(&err);
    (void)!loaded_open(&loaded, on.model, &err);
    assert_ok(&err);
    json_t *record = campaign_op(&c, &j);
    assert_non_null(record);
    campaign_bases_free(&c);
    loaded_close(&loaded);
    campaign_case_close(&on);
    return record;
}

/* Frequencies that are divided and then made anew are those without YaRN: that name is as right as
 * the two, and is told apart from a right one. */
static void claim__that_gives_the_bits_of_two_faults__is_their_equal(void **state)
{
    static const struct one o = {
        JOB_PAIR, 1, 1, "hf", "rope.no_ramp", "rope.no_ramp@layer=2", "rope.theta_default@layer=2"};
    json_t *r = record_of(state, &o);
    assert_string_equal(field_text(r, "outcome"), "kept");
    assert_true(json_is_true(json_object_get(r, "equal")));
    assert_non_null(strstr(field_text(r, "claims"), "rope.no_yarn@layer=2"));
    json_decref(r);
}

/* A name for the first of two, where neither is looked for: right as far as the guilty tap, which
 * is all that is asked of one name for two faults, and wrong for the whole of a subject. */
static void claim__that_gives_other_bits__is_wrong(void **state)
{
    struct one o = {JOB_OFF_GRID,
                    1,
                    1,
                    "hf",
                    "rope.half_split",
                    "rope.no_yarn@layer=1",
                    "any.nan@op=norm,layer=2,row=3"};
    json_t *r = record_of(state, &o);
    assert_string_equal(field_text(r, "outcome"), "misnamed");
    assert_string_equal(field_text(r, "why"), "a wrong name");
    assert_non_null(strstr(field_text(r, "claims"), "rope.no_yarn@layer=1"));
    assert_null(json_object_get(r, "equal"));
    json_decref(r);
    o.kind = JOB_PAIR;
    r = record_of(state, &o);
    assert_string_equal(field_text(r, "outcome"), "kept");
    assert_true(json_is_true(json_object_get(r, "equal")));
    json_decref(r);
}

static void true_fault_left_out__is_kept__where_nothing_is_claimed(void **state)
{
    static const struct one o = {JOB_WITHOUT,
                                 0,
                                 105,
                                 "vllm",
                                 "any.zero_row",
                                 "any.zero_row@op=router,layer=1,call=0,output=1,row=9",
                                 NULL};
    json_t *r = record_of(state, &o);
    assert_string_equal(field_text(r, "outcome"), "kept");
    assert_string_equal(field_text(r, "claims"), "");
    assert_null(json_object_get(r, "equal"));
    json_decref(r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(claim__that_gives_the_bits_of_two_faults__is_their_equal),
        TEST(claim__that_gives_other_bits__is_wrong),
        TEST(true_fault_left_out__is_kept__where_nothing_is_claimed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
