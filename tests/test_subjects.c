/* test_subjects.c: subjects that share no line with this program: one op of tiny-k25 recomputed by
 * numpy with a bug in it (fixtures/subjects), under other names and in other layouts: located and
 * named. */
#include "harness/diff.h"
#include "harness/foreign.h"
#include "harness/taps_write.h"
#include "tests/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *op;
    int64_t layer;
    const char *fault, *site; /* a part of the claim's text */
} subjects[] = {
    {"no_mscale", "mla.core", 1, "mla.no_mscale", "layer=1"},
    {"values_transposed", "mla.core", 3, "mla.value_heads_transposed", "layer=3"},
    {"no_bias", "router", 2, "router.no_bias", "layer=2"},
    {"gate_up_swapped", "moe.shared", 4, "moe.gate_up_swapped", "layer=4"},
    {"rank_lost", "mla.output", 2, "tp.partial_sum_lost", "rank=1"},
    {"no_weight", "norm", 5, "norm.no_weight", "layer=5"},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

/* The subject as a dump with taps' names, in the test's folder. */
static const char *translated(void **state, const char *name)
{
    struct dump d;
    struct err err = ERR_INIT;
    const char *path = textf("%s/%s.safetensors", (const char *)*state, name);
    const struct foreign_options o = {
        .map = textf("%s/fixtures/subjects/%s.yaml", ASSAY_SOURCE_DIR, name)};
    (void)!foreign_open(&d, textf("%s/fixtures/subjects/%s.npz", ASSAY_SOURCE_DIR, name), &o, &err);
    assert_ok(&err);
    struct assay_tap *taps = calloc((size_t)d.count, sizeof *taps);
    assert_non_null(taps);
    for (int64_t i = 0; i < d.count; i++) {
        const struct dump_tap *t = &d.taps[i];
        taps[i] = (struct assay_tap){t->name, t->tensor->dtype, t->rows, t->cols, t->tensor->data};
    }
    (void)!taps_write(path, taps, d.count, d.file.meta, d.file.metas, &err);
    assert_ok(&err);
    free(taps);
    dump_close(&d);
    return path;
}

static enum err_code diagnosed(const char *path, const char *const *without, struct diff *d)
{
    struct err err = ERR_INIT;
    const struct diff_request r = {.subject = path,
                                   .model = FIXTURE("tiny-k25"),
                                   .bound = NAN,
                                   .threads = 2,
                                   .diagnose = true,
                                   .without = without};
    enum err_code rc = diff_run(d, &r, &err);
    if (rc != ERR_DIFF) assert_ok(&err);
    return rc;
}

static void each__is_located_and_named(void **state)
{
    for (int i = 0; i < SUBJECTS; i++) {
        struct diff d;
        char text[FAULT_TEXT];
        bool named = false;
        assert_int_equal(diagnosed(translated(state, subjects[i].name), NULL, &d), ERR_DIFF);
        assert_string_equal(d.guilty.op, subjects[i].op);
        assert_int_equal(d.guilty.layer, subjects[i].layer);
        for (int64_t k = 0; k < d.diagnosis.claimed; k++) {
            const struct claim *c = &d.diagnosis.claims[k];
            const struct fault_use *u = &d.diagnosis.list[c->first].use;
            fault_print(u, text);
            if (c->second < 0 && strcmp(u->row->id, subjects[i].fault) == 0)
                named |= strstr(text, subjects[i].site) != NULL;
        }
        if (!named)
            fail_msg("%s: %d claims, the best explains %g (%s)", subjects[i].name,
                     (int)d.diagnosis.claimed, d.diagnosis.list[0].explains,
                     d.diagnosis.list[0].use.row->id);
        diff_close(&d);
    }
}

/* Without the true one nothing is named. */
static void each__is_named_by_nothing_else(void **state)
{
    for (int i = 0; i < SUBJECTS; i++) {
        struct diff d;
        const char *path = translated(state, subjects[i].name);
        const char *without[16] = {subjects[i].fault};
        int n = 1;
        /* Equals of the true one are true as well. */
        assert_int_equal(diagnosed(path, NULL, &d), ERR_DIFF);
        for (int64_t k = 0; k < d.diagnosis.claimed && n < 15; k++)
            without[n++] = d.diagnosis.list[d.diagnosis.claims[k].first].use.row->id;
        assert_true(n < 6);
        diff_close(&d);
        assert_int_equal(diagnosed(path, without, &d), ERR_DIFF);
        if (d.diagnosis.claimed > 0)
            fail_msg("%s: named %s", subjects[i].name,
                     d.diagnosis.list[d.diagnosis.claims[0].first].use.row->id);
        diff_close(&d);
    }
}

/* The same taps without a bug are green: what is found above is the bug, not numpy. */
static void golden_taps__are_green(void **state)
{
    struct diff d;
    struct err err = ERR_INIT;
    (void)state;
    const struct diff_request r = {.subject = FIXTURE("tiny-k25") "/golden.safetensors",
                                   .model = FIXTURE("tiny-k25"),
                                   .tokens = "@" FIXTURE("tiny-k25") "/golden.json",
                                   .bound = NAN,
                                   .threads = 2,
                                   .anchor = true};
    assert_int_equal(diff_run(&d, &r, &err), ERR_OK);
    diff_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each__is_located_and_named, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(each__is_named_by_nothing_else, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(golden_taps__are_green),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
