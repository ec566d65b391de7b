/* test_campaign.c: the campaign itself under test: what is caught and named counts, what a broken
 * detector lets through is a miss, and processes that die are seen. */
#include "harness/campaign_folder.h"
#include "harness/campaign_parts.h"
#include "tests/cli.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct campaign_options options(const char *const *include)
{
    return (struct campaign_options){
        .include = include, .seed = 1, .seeds = 1, .quick = true, .bound = NAN, .workers = 1};
}

static enum err_code run(const struct campaign_options *o, json_t **result, struct err *err)
{
    *result = json_object();
    return campaign_run(o, *result, err);
}

static size_t listed(const json_t *result, const char *name)
{
    return json_array_size(field(result, name));
}

static void campaign__catches_and_names(void **state)
{
    static const char *const include[] = {"mla.no_mscale", "int4.nibble_swap", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.clean = 6;
    (void)!run(&o, &r, &err);
    assert_ok(&err);
    assert_int_equal(field_int(r, "faults"), 2);
    assert_true(field_int(r, "injected") >= 4);
    assert_int_equal(field_int(r, "injected"), field_int(r, "caught"));
    assert_true(json_real_value(field(r, "score")) == 1);
    assert_true(field_int(r, "diagnosed") >= 4);
    assert_int_equal(field_int(r, "diagnosed"), field_int(r, "named"));
    assert_int_equal(field_int(r, "clean_runs") + listed(r, "same_bits"), 6);
    assert_true(field_int(r, "clean_runs") > 0);
    assert_true(listed(r, "same_bits") > 0); /* some are: no evidence of anything */
    assert_int_equal(field_int(r, "false_alarms"), 0);
    assert_int_equal(listed(r, "missed") + listed(r, "misnamed") + listed(r, "errors"), 0);
    assert_true(listed(r, "inert") > 0); /* cases without INT4, without YaRN */
    json_decref(r);
}

/* A bound that nothing exceeds: the comparison sees no difference, and the campaign sees that. */
static void broken_detector__is_a_miss__never_a_pass(void **state)
{
    static const char *const include[] = {"mla.no_mscale", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.bound = INFINITY;
    o.clean = 0;
    assert_int_equal(run(&o, &r, &err), ERR_FAULT);
    assert_int_equal(err_exit(err.code), 4);
    assert_err(&err, ERR_FAULT, "fault campaign", NULL, "faults missed", "all caught");
    /* What is red without the bound alone, a mismatch of ids, is caught still. */
    assert_true(field_int(r, "caught") < field_int(r, "injected"));
    assert_true(json_real_value(field(r, "score")) < 1);
    assert_int_equal(listed(r, "missed"), field_int(r, "injected") - field_int(r, "caught"));
    const json_t *first = json_array_get(field(r, "missed"), 0);
    assert_non_null(strstr(field_text(first, "fault"), "mla.no_mscale@layer="));
    assert_string_not_equal(field_text(first, "why"), "");
    json_decref(r);
}

/* A bound of nothing: every clean run is red. */
static void alarm_on_clean_runs__is_red(void **state)
{
    static const char *const include[] = {"file.prefix", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.bound = 0;
    o.clean = 6;
    assert_int_equal(run(&o, &r, &err), ERR_FAULT);
    assert_non_null(strstr(err.found, "clean runs red"));
    assert_true(field_int(r, "false_alarms") > 0);
    assert_int_equal(listed(r, "alarms"), field_int(r, "false_alarms"));
    json_decref(r);
}

static void model_that_hosts_it_nowhere__is_inert__and_no_such_fault_is_refused(void **state)
{
    static const char *const include[] = {"fp8.block_row", NULL}, *const none[] = {"x.*", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.model = FIXTURE("tiny-k25"); /* no FP8 in it: the op alone hosts it */
    o.tokens = "1,2,3";
    o.clean = 0;
    (void)!run(&o, &r, &err);
    assert_ok(&err);
    assert_int_equal(field_int(r, "diagnosed"), 0);
    assert_true(listed(r, "inert") > 0 && field_int(r, "injected") > 0);
    json_decref(r);
    o = options(none);
    assert_int_equal(run(&o, &r, &err), ERR_USAGE);
    assert_err(&err, ERR_USAGE, "option", "--fault", "x.*", "assay fault list");
    json_decref(r);
}

/* An op that no layer calls has a site all the same. */
static void fault_outside_of_the_layers__is_injected(void **state)
{
    static const char *const include[] = {"logits.tied_to_embedding", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.clean = 0;
    (void)!run(&o, &r, &err);
    assert_ok(&err);
    assert_int_equal(field_int(r, "injected"), field_int(r, "cases"));
    assert_int_equal(field_int(r, "named"), field_int(r, "cases"));
    assert_int_equal(listed(r, "never"), 0);
    json_decref(r);
}

/* The same jobs, whoever does them. */
static void workers__do_not_change_the_result(void **state)
{
    static const char *const include[] = {"router.softmax", "file.*", NULL};
    json_t *r[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct campaign_options o = options(include);
        struct err err = ERR_INIT;
        o.workers = 1 + 2 * i;
        o.clean = 4;
        (void)!run(&o, &r[i], &err);
        assert_ok(&err);
        assert_true(field_int(r[i], "caught") > 10);
    }
    static const char *const same[] = {"faults", "injected",   "caught",
                                       "named",  "clean_runs", "proofs"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_int_equal(field_int(r[0], same[i]), field_int(r[1], same[i]));
    json_decref(r[0]);
    json_decref(r[1]);
}

/* Calls that fail in the program itself, over its verbs. */
static void calls__that_fail__are_coped_with_or_said(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    skip(); /* a sanitizer owns malloc */
#else
    static const char *const include[] = {"env.write_n", "env.fsync_n", "env.malloc_n", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.clean = 0;
    setenv("ASSAY_PROGRAM_FILE", ASSAY_PROGRAM, 1);
    (void)!run(&o, &r, &err);
    unsetenv("ASSAY_PROGRAM_FILE");
    assert_ok(&err);
    assert_int_equal(field_int(r, "injected") + (json_int_t)listed(r, "inert"),
                     3 * campaign_commands());
    assert_true(field_int(r, "injected") >= 2 * campaign_commands());
    json_decref(r);
#endif
}

/* Two faults at once, the true one left out, values off the grid: no wrong name. */
static void proofs__of_the_diagnosis__give_no_wrong_name(void **state)
{
    static const char *const include[] = {"mla.window", "tp.partial_sum_lost", "mla.no_kv_norm",
                                          "rope.theta_default", NULL};
    struct campaign_options o = options(include);
    struct err err = ERR_INIT;
    json_t *r;
    (void)state;
    o.clean = 0;
    o.workers = 2;
    setenv("ASSAY_PROGRAM_FILE", ASSAY_PROGRAM, 1); /* the ranks of tp.partial_sum_lost */
    (void)!run(&o, &r, &err);
    unsetenv("ASSAY_PROGRAM_FILE");
    assert_ok(&err);
    assert_true(field_int(r, "proofs") >= 5);
    assert_int_equal(field_int(r, "wrong_names"), 0);
    json_decref(r);
}

/* ---- effects ---- */

/* A subject that is off by `factor` times the profile's own error in one tap has that effect. */
static void effect__is_told_in_bounds__of_its_own(void **state)
{
    struct campaign_options o = options(NULL);
    struct campaign_case one;
    struct loaded loaded;
    struct err err = ERR_INIT;
    const struct job j = {.kind = JOB_OP, .profile = "hf4", .order = ORDER_F64};
    struct campaign c = {.options = &o, .cases = &one, .loaded = &loaded, .cases_count = 1};
    snprintf(c.folder, sizeof c.folder, "%s", (const char *)*state);
    (void)!campaign_case_make(&one, CASE_FIXED, 1, folder_path(state, "case"), &err);
    (void)!loaded_open(&loaded, one.model, &err);
    struct base *b = campaign_base(&c, &j, &err);
    assert_ok(&err);
    assert_ptr_equal(b, campaign_base(&c, &j, &err)); /* made once */
    struct subject other;
    (void)!subject_run(&other, &loaded, &one.tokens,
                       (struct subject_how){.profile = "hf4", .threads = 1}, NULL, &err);
    assert_ok(&err);
    assert_int_equal(subject_differ(&b->subject, &other, 0), -1);
    int64_t at = 0;
    while (strcmp(other.taps[at].name, "layers.1.attn") != 0) at++;
    uint16_t *x = other.data[at];
    int64_t n = other.rows * other.taps[at].cols;
    for (int64_t i = 0; i < n; i++) x[i] = bf16_from_f32(bf16_to_f32(x[i]) * 1.5f);
    assert_int_equal(subject_differ(&b->subject, &other, 0), at);
    double large = campaign_effect(b, &loaded, &other, at, NULL);
    assert_true(large > 20 && isfinite(large));
    for (int64_t i = 0; i < n; i++) x[i] = ((uint16_t *)b->subject.data[at])[i];
    x[0] ^= 1; /* one ulp of one cell */
    double small = campaign_effect(b, &loaded, &other, at, NULL);
    assert_true(small > 0 && small < 1);
    x[0] = 0x7fc0;
    assert_true(isinf(campaign_effect(b, &loaded, &other, at, NULL)));
    assert_int_equal(subject_differ(&b->subject, &other, 0), at);
    uint16_t *own = b->subject.data[at], kept = own[0];
    own[0] = 0xffc1; /* a NaN of other bits */
    assert_int_equal(subject_differ(&b->subject, &other, 0), -1);
    own[0] = 0x7f80; /* infinite */
    assert_int_equal(subject_differ(&b->subject, &other, 0), at);
    own[0] = kept;
    subject_free(&other);
    campaign_bases_free(&c);
    loaded_close(&loaded);
    campaign_case_close(&one);
}

/* ---- processes ---- */

static json_t *sometimes_dies(void *ctx, int64_t i)
{
    (void)ctx;
    if (i == 3) {
        fprintf(stderr, "first\nlast words\n");
        fflush(stderr);
        raise(SIGKILL);
    }
    if (i == 6) _exit(9);
    return json_pack("{s:s, s:I}", "outcome", "caught", "i", (json_int_t)i);
}

static void worker_that_dies__is_an_error__and_the_rest_is_done(void **state)
{
    json_t *records[12] = {NULL};
    struct err err = ERR_INIT;
    (void)!campaign_work(2, 12, sometimes_dies, NULL, *state, records, &err);
    assert_ok(&err);
    for (int i = 0; i < 12; i++) {
        bool died = i == 3 || i == 6;
        assert_string_equal(field_text(records[i], "outcome"), died ? "error" : "caught");
        if (!died) assert_int_equal(field_int(records[i], "i"), i);
        if (i == 3)
            assert_string_equal(field_text(records[i], "why"),
                                "the process ended by signal 9: last words");
        if (i == 6) assert_non_null(strstr(field_text(records[i], "why"), "ended with exit 9"));
        json_decref(records[i]);
    }
}

/* Job 2 never ends, and neither does a process that it has started and that holds its pipe. */
static json_t *sometimes_hangs(void *ctx, int64_t i)
{
    (void)ctx;
    if (i == 2) {
        fprintf(stderr, "before it hangs\n");
        fflush(stderr);
        if (fork() == 0) alarm(60); /* no longer than that */
        for (;;) pause();
    }
    return json_pack("{s:s, s:I}", "outcome", "caught", "i", (json_int_t)i);
}

static void worker_that_hangs__is_killed_and_named__and_the_rest_is_done(void **state)
{
    for (int workers = 1; workers <= 2; workers++) {
        json_t *records[6] = {NULL};
        struct err err = ERR_INIT;
        assert_int_equal(setenv("ASSAY_CAMPAIGN_JOB_S", "0.5", 1), 0);
        (void)!campaign_work(workers, 6, sometimes_hangs, NULL, *state, records, &err);
        unsetenv("ASSAY_CAMPAIGN_JOB_S");
        assert_ok(&err);
        for (int i = 0; i < 6; i++) {
            assert_string_equal(field_text(records[i], "outcome"), i == 2 ? "error" : "caught");
            if (i == 2) {
                const char *why = field_text(records[i], "why");
                assert_non_null(
                    strstr(why, "hung: no answer in 0.5 s (ASSAY_CAMPAIGN_JOB_S), pid"));
                assert_non_null(strstr(why, "killed: before it hangs"));
            }
            json_decref(records[i]);
        }
    }
}

/* ---- the verdict ---- */

static enum err_code verdict_of(struct campaign *c, const char *records, struct err *err)
{
    json_t *list = json_loads(records, 0, NULL), *result = json_object();
    json_t *each[64] = {NULL};
    assert_non_null(list);
    for (int64_t i = 0; i < c->count; i++)
        each[i] = json_array_get(list, (size_t)i % json_array_size(list));
    enum err_code rc = campaign_sum(c, each, result, err);
    json_decref(list);
    json_decref(result);
    return rc;
}

static void verdict__is_red__for_each_thing_that_must_not_be(void **state)
{
    static const struct {
        int jobs;
        const char *records, *found; /* NULL: a pass */
    } rows[] = {
        {1, "[{\"kind\": \"op\", \"outcome\": \"caught\", \"named\": true}]", NULL},
        {1, "[{\"kind\": \"op\", \"outcome\": \"missed\"}]", "1 of 1 faults missed"},
        {1, "[{\"kind\": \"op\", \"outcome\": \"inert\"}]", "nothing injected"},
        {1, "[{\"kind\": \"op\", \"outcome\": \"sub-threshold\"}]", "nothing injected"},
        {1, "[{\"outcome\": \"error\", \"why\": \"x\"}]", "1 jobs without an outcome"},
        {1, "[{\"kind\": \"op\", \"outcome\": \"misnamed\"}]", "1 wrong names"},
        {1, "[{\"kind\": \"op\", \"outcome\": \"caught\", \"named\": false, \"misnamed\": true}]",
         "1 wrong names"},
        {1, "[{\"kind\": \"clean\", \"outcome\": \"alarm\"}]", "1 of 1 clean runs red"},
        {1, "[{\"kind\": \"op\", \"outcome\": \"caught\", \"named\": false}]", NULL},
        {40, "[{\"kind\": \"op\", \"outcome\": \"caught\", \"named\": false}]", "0.0 % of"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct campaign_options o = options(NULL);
        struct campaign_case one = {.name = "case"};
        struct job jobs[64];
        struct campaign c = {.options = &o, .cases = &one, .jobs = jobs, .count = rows[i].jobs};
        struct err err = ERR_INIT;
        for (int k = 0; k < rows[i].jobs; k++)
            jobs[k] = (struct job){.kind = JOB_OP, .row = fault_at(k)};
        enum err_code rc = verdict_of(&c, rows[i].records, &err);
        assert_int_equal(rc, rows[i].found ? ERR_FAULT : ERR_OK);
        if (rows[i].found && !strstr(err.found, rows[i].found))
            fail_msg("%s: %s", rows[i].records, err.found);
    }
}

static void sites__are_every_layer_that_calls_a_host(void **state)
{
    struct config c = {.layers = 4, .first_dense = 2, .moe_freq = 1, .experts = 8};
    (void)state;
    static const struct {
        const char *op;
        bool at[5]; /* outside, layers 0 to 3 */
    } rows[] = {
        {"embed", {true}},
        {"logits", {true}},
        {"norm", {true, true, true, true, true}},
        {"mla.core", {false, true, true, true, true}},
        {"mlp", {false, true, true}},
        {"router", {false, false, false, true, true}},
        {"moe.shared", {false}}, /* it has none */
        {"int4", {false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int layer = -1; layer < 4; layer++)
            assert_int_equal(campaign_op_at(&c, rows[i].op, layer), rows[i].at[layer + 1]);
    }
    c.shared_experts = 1;
    assert_true(campaign_op_at(&c, "moe.shared", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(campaign__catches_and_names),
        cmocka_unit_test(broken_detector__is_a_miss__never_a_pass),
        cmocka_unit_test(alarm_on_clean_runs__is_red),
        cmocka_unit_test(model_that_hosts_it_nowhere__is_inert__and_no_such_fault_is_refused),
        cmocka_unit_test(fault_outside_of_the_layers__is_injected),
        cmocka_unit_test(workers__do_not_change_the_result),
        cmocka_unit_test(calls__that_fail__are_coped_with_or_said),
        cmocka_unit_test(proofs__of_the_diagnosis__give_no_wrong_name),
        cmocka_unit_test_setup_teardown(effect__is_told_in_bounds__of_its_own, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(
            worker_that_hangs__is_killed_and_named__and_the_rest_is_done, folder_setup,
            folder_teardown),
        cmocka_unit_test_setup_teardown(worker_that_dies__is_an_error__and_the_rest_is_done,
                                        folder_setup, folder_teardown),
        cmocka_unit_test(verdict__is_red__for_each_thing_that_must_not_be),
        cmocka_unit_test(sites__are_every_layer_that_calls_a_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
