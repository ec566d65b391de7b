/* test_rerun.c: the span of a guilty tap run again: without faults it has the bits of the anchored
 * runs of the comparison, wherever it begins and in every profile; with one it differs. */
#include "harness/rerun.h"
#include "tests/planted.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

#define K25 ASSAY_SOURCE_DIR "/fixtures/tiny-k25"
#define DSV3 "synth:" ASSAY_SOURCE_DIR "/fixtures/tiny-dsv3/config.json?seed=8"

static const int64_t tokens[] = {11, 7, 300, 45, 45, 101, 9, 450, 3, 77, 200, 12};
enum { TOKENS = sizeof tokens / sizeof tokens[0] };

/* A comparison with a guilty tap: some fault is planted in it. */
static void compare(void **state, struct diff *d, const struct planted *p)
{
    struct err err = ERR_INIT;
    const char *path = folder_path(state, "subject");
    const struct diff_request r = {.subject = path,
                                   .model = p->model,
                                   .profile = p->profile,
                                   .bound = NAN,
                                   .threads = 2,
                                   .anchor = true};
    assert_true(planted_write(p, path));
    assert_int_equal(diff_run(d, &r, &err), ERR_DIFF);
    assert_ok(&err);
    assert_non_null(d->guilty.pair);
}

static void assert_bits(const struct rerun_taps *t, const struct dump *run)
{
    for (int64_t i = 0; i < t->dump.count; i++) {
        const struct dump_tap *a = &t->dump.taps[i], *b = dump_find(run, a->name);
        size_t size = (size_t)dtype_size(a->tensor->dtype);
        assert_non_null(b);
        assert_int_equal(a->tensor->dtype, b->tensor->dtype);
        if (memcmp(a->tensor->data, b->tensor->data, (size_t)a->tensor->count * size) != 0)
            fail_msg("%s differs from the run of the comparison", a->name);
    }
}

static void run__has_the_bits_of_the_comparison__without_faults(void **state)
{
    static const struct planted list[] = {
        {.model = K25, .profile = "hf4", .fault = {"mla.no_mscale@layer=0"}},
        {.model = K25, .profile = "hf4", .fault = {"moe.no_shared@layer=3"}},
        {.model = K25, .profile = "sgl", .fault = {"norm.no_weight@layer=2"}},
        {.model = K25,
         .profile = "sgl",
         .fault = {"mla.no_mscale@layer=4"},
         .taps = "layers.*.output,*.experts"},
        {.model = DSV3, .profile = "vllm", .fault = {"router.no_bias@layer=3"}},
        {.model = DSV3, .profile = "hf", .fault = {"moe.no_shared@layer=2"}, .last = 4},
        {.model = DSV3, .profile = "hf", .fault = {"any.zero_row@op=logits,row=3"}},
        {.model = DSV3, .profile = "hf", .fault = {"any.zero_row@op=embed,row=3"}},
        {.model = DSV3, .profile = "math", .fault = {"moe.no_shared@layer=3"}, .taps = "logits"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        struct diff d;
        struct rerun r;
        struct rerun_taps taps;
        struct err err = ERR_INIT;
        struct planted p = list[i];
        p.token = tokens;
        p.tokens = TOKENS;
        compare(state, &d, &p);
        assert_int_equal(rerun_open(&r, &d, 2, &err), ERR_OK);
        assert_int_equal(rerun_taps_make(&taps, &r, &err), ERR_OK);
        for (int k = 0; k < 4; k++) {
            const struct rerun_how how = {.side = k % 2 ? RERUN_MATH : RERUN_PROFILE,
                                          .entry = k / 2 ? RERUN_LEAD : RERUN_FIRST,
                                          .taps = r.count};
            assert_int_equal(rerun_go(&r, how, &taps, &err), ERR_OK);
            assert_bits(&taps, k % 2 ? &d.math : &d.profile_run);
        }
        assert_int_equal(r.runs, 4);
        rerun_taps_free(&taps);
        rerun_close(&r);
        diff_close(&d);
    }
}

static void run__stops_at_the_taps_asked_for__and_differs_under_a_fault(void **state)
{
    struct diff d;
    struct rerun r;
    struct rerun_taps clean, faulted;
    struct err err = ERR_INIT;
    struct faults faults = {0};
    const struct planted p = {.model = K25,
                              .profile = "hf4",
                              .token = tokens,
                              .tokens = TOKENS,
                              .fault = {"mla.no_mscale@layer=2"}};
    compare(state, &d, &p);
    assert_int_equal(rerun_open(&r, &d, 2, &err), ERR_OK);
    assert_string_equal(r.taps[0].name, "layers.2.attn_core");
    assert_int_equal(r.count, 10); /* the rest of the layer */
    assert_int_equal(rerun_taps_make(&clean, &r, &err), ERR_OK);
    assert_int_equal(rerun_taps_make(&faulted, &r, &err), ERR_OK);
    struct rerun_how how = {.taps = 1};
    assert_int_equal(rerun_go(&r, how, &clean, &err), ERR_OK);
    const double *next = clean.dump.taps[1].tensor->data;
    assert_true(next[0] == 0); /* not reached */
    assert_int_equal(faults_add(&faults, "mla.no_mscale@layer=2", &err), ERR_OK);
    how.faults = &faults;
    assert_int_equal(rerun_go(&r, how, &faulted, &err), ERR_OK);
    /* The fault that was planted gives the subject's own bits. */
    const struct st_tensor *s = d.guilty.pair->subject->tensor;
    const double *f = faulted.dump.taps[0].tensor->data, *c = clean.dump.taps[0].tensor->data;
    bool differs = false;
    for (int64_t i = 0; i < s->count; i++) {
        float x;
        memcpy(&x, (const char *)s->data + i * 4, sizeof x);
        assert_true((double)x == f[i]);
        differs |= c[i] != f[i];
    }
    assert_true(differs);
    assert_null(r.session[RERUN_PROFILE].run.faults);
    faults_clear(&faults);
    rerun_taps_free(&clean);
    rerun_taps_free(&faulted);
    rerun_close(&r);
    diff_close(&d);
}

static void run__gives_the_error__of_a_fault_that_cannot_run(void **state)
{
    struct diff d;
    struct rerun r;
    struct rerun_taps taps;
    struct err err = ERR_INIT;
    struct faults faults = {0};
    const struct planted p = {.model = K25,
                              .profile = "hf4",
                              .token = tokens,
                              .tokens = TOKENS,
                              .fault = {"router.no_scaling_factor@layer=2"}};
    compare(state, &d, &p);
    assert_int_equal(rerun_open(&r, &d, 1, &err), ERR_OK);
    assert_int_equal(rerun_taps_make(&taps, &r, &err), ERR_OK);
    assert_int_equal(faults_add(&faults, "router.unwritten_ids@layer=2", &err), ERR_OK);
    const struct rerun_how how = {.faults = &faults, .free_routing = true, .taps = r.count};
    assert_int_not_equal(rerun_go(&r, how, &taps, &err), ERR_OK);
    assert_true(err.found[0] != '\0');
    faults_clear(&faults);
    rerun_taps_free(&taps);
    rerun_close(&r);
    diff_close(&d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(run__has_the_bits_of_the_comparison__without_faults),
        TEST(run__stops_at_the_taps_asked_for__and_differs_under_a_fault),
        TEST(run__gives_the_error__of_a_fault_that_cannot_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
