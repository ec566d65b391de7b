/* test_golden.c: the whole reference against transformers 5.17 (float32, eager), on every case that
 * is shipped: relative RMS of each tap <= 5e-5 and of each row <= 2e-4, the same experts, the same
 * greedy tokens. */
#include "core/compare.h"
#include "tests/golden.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct view view_of(const struct dump_tap *t)
{
    return (struct view){t->tensor->dtype, t->tensor->data, t->rows, t->cols};
}

static void reference__matches_golden__tiny_k25(void **state)
{
    (void)state;
    char model[FILE_PATH];
    snprintf(model, sizeof model, "%s/fixtures/tiny-k25", ASSAY_SOURCE_DIR);
    golden_check("tiny-k25", PRECISION_F32, model, 80);
    golden_check("tiny-k25", PRECISION_F64, model, 80);
    golden_check("tiny-k25", PRECISION_F64, NULL, 80);
}

static void reference__matches_golden__tiny_dsv3_with_groups(void **state)
{
    (void)state;
    golden_check("tiny-dsv3", PRECISION_F32, NULL, 49);
    golden_check("tiny-dsv3", PRECISION_F64, NULL, 49);
}

static void reference__matches_golden__tiny_k2_without_q_lora_and_yarn(void **state)
{
    (void)state;
    golden_check("tiny-k2-plainrope", PRECISION_F32, NULL, 40);
    golden_check("tiny-k2-plainrope", PRECISION_F64, NULL, 40);
}

static void reference__matches_golden__tiny_smallnorm(void **state)
{
    (void)state;
    golden_check("tiny-smallnorm", PRECISION_F32, NULL, 40);
    golden_check("tiny-smallnorm", PRECISION_F64, NULL, 40);
}

static void reference__matches_golden__tiny_long_last_rows_of_4608(void **state)
{
    (void)state;
    golden_check("tiny-long", PRECISION_F32, NULL, 40);
    golden_check("tiny-long", PRECISION_F64, NULL, 40);
}

static void reference__matches_golden__mid_k25(void **state)
{
    (void)state;
    golden_check("mid-k25", PRECISION_F32, NULL, 19);
    golden_check("mid-k25", PRECISION_F64, NULL, 19);
}

static void greedy_tokens__equal_golden__every_small_case(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-k25",       "tiny-dsv3", "tiny-k2-plainrope",
                                        "tiny-smallnorm", "tiny-long", "mid-k25"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) golden_check_greedy(names[i]);
}

static void checkpoint__gives_the_bits_of_its_rule__tiny_k25(void **state)
{
    (void)state;
    struct golden g;
    struct dump file, rule;
    char model[FILE_PATH];
    struct session_options o = session_defaults();
    golden_open(&g, "tiny-k25");
    snprintf(model, sizeof model, "%s/fixtures/tiny-k25", ASSAY_SOURCE_DIR);
    golden_run(&g, model, &o, NULL, &file);
    golden_run(&g, NULL, &o, NULL, &rule);
    assert_int_equal(file.file.map.size, rule.file.map.size);
    assert_memory_equal(file.file.map.data, rule.file.map.data, (size_t)file.file.map.size);
    dump_close(&file);
    dump_close(&rule);
    golden_close(&g);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_row(const struct dump *subject, const struct dump *truth, const char *name,
                         double *equal_share)
{
    const struct dump_tap *s = dump_find(subject, name), *t = dump_find(truth, name);
    struct measure m;
    assert_non_null(s);
    assert_non_null(t);
    double *rel = calloc((size_t)s->rows, sizeof *rel);
    measure_views(view_of(s), view_of(t), NULL, &m, rel, NULL, NULL);
    qsort(rel, (size_t)s->rows, sizeof *rel, ascending);
    double median = rel[s->rows / 2];
    *equal_share = measure_equal_share(&m);
    free(rel);
    return median;
}

/* The dump of transformers 5 in bfloat16, under its own routing: profile hf is at least three times
 * closer than math at the median row of every tap of layers 0 to 2 (measured: equal bits), and hf4
 * is not. */
static void profile_hf__is_closer_than_math__to_a_bf16_golden(void **state)
{
    (void)state;
    static const char *const taps[] = {"attn_norm", "attn", "mlp_norm", "mlp", "output"};
    struct golden g;
    struct dump golden, hf, math;
    struct loaded l;
    struct forced forced;
    struct err err = ERR_INIT;
    struct session_options o = session_defaults();
    golden_open(&g, "tiny-k25");
    golden_dump(&g, "golden-bf16.safetensors", &golden);
    (void)!loaded_open(&l, g.model, &err);
    (void)!forced_read(&forced, l.model.config, &golden, NULL, g.tokens.count, &err);
    assert_ok(&err);
    golden_run(&g, NULL, &o, &forced, &math);
    (void)!profile_find("hf", &o.profile, &err);
    golden_run(&g, NULL, &o, &forced, &hf);
    for (int layer = 0; layer < 3; layer++) {
        for (size_t i = 0; i < sizeof taps / sizeof taps[0]; i++) {
            char name[TAP_NAME];
            double share, unused;
            snprintf(name, sizeof name, "layers.%d.%s", layer, taps[i]);
            double near = median_row(&hf, &golden, name, &share),
                   far = median_row(&math, &golden, name, &unused);
            if (judge_fails(near * 3, far)) fail_msg("%s: hf %g, math %g", name, near, far);
            if (layer == 0 && i == 0 && judge_fails(0.999, share))
                fail_msg("%s: %g of the bits are equal", name, share);
        }
    }
    dump_close(&hf);
    dump_close(&math);
    forced_free(&forced);
    loaded_close(&l);
    dump_close(&golden);
    golden_close(&g);
}

/* The latent norms of tiny-smallnorm are small on purpose: an engine that takes rms_norm_eps there
 * shows. */
static void profile_vllm_exact__differs_visibly__when_latents_are_small(void **state)
{
    (void)state;
    struct golden g;
    struct dump golden, ref;
    struct err err = ERR_INIT;
    double share;
    struct session_options o = session_defaults();
    golden_open(&g, "tiny-smallnorm");
    golden_dump(&g, "golden.safetensors", &golden);
    (void)!profile_find("vllm+exact", &o.profile, &err);
    assert_ok(&err);
    golden_run(&g, NULL, &o, NULL, &ref);
    assert_true(median_row(&ref, &golden, "layers.0.kv_latent", &share) > 0.1);
    dump_close(&ref);
    dump_close(&golden);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference__matches_golden__tiny_k25),
        cmocka_unit_test(reference__matches_golden__tiny_dsv3_with_groups),
        cmocka_unit_test(reference__matches_golden__tiny_k2_without_q_lora_and_yarn),
        cmocka_unit_test(reference__matches_golden__tiny_smallnorm),
        cmocka_unit_test(reference__matches_golden__tiny_long_last_rows_of_4608),
        cmocka_unit_test(reference__matches_golden__mid_k25),
        cmocka_unit_test(greedy_tokens__equal_golden__every_small_case),
        cmocka_unit_test(checkpoint__gives_the_bits_of_its_rule__tiny_k25),
        cmocka_unit_test(profile_hf__is_closer_than_math__to_a_bf16_golden),
        cmocka_unit_test(profile_vllm_exact__differs_visibly__when_latents_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
