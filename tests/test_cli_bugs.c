/* test_cli_bugs.c: verb diff with a model, on dumps that an outside implementation made in
 * bfloat16: the clean one passes, and each planted bug is found where it was planted. */
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K25 FIXTURE("tiny-k25")

static const struct {
    const char *file, *tap, *op;
    int64_t layer;
} planted[] = {
    {FIXTURE("bugs/nibble.safetensors"), "layers.1.mlp", "moe", 1},
    {FIXTURE("bugs/tp_lost.safetensors"), "layers.2.attn", "mla.output", 2},
    {FIXTURE("bugs/nomscale.safetensors"), "layers.0.attn_core", "mla.core", 0},
    {FIXTURE("bugs/noyarn.safetensors"), "layers.0.attn_core", "mla.core", 0},
    {FIXTURE("bugs/biasweights.safetensors"), "layers.1.expert_weights", "router", 1},
};

static void clean_dump__passes(void **state)
{
    (void)state;
    json_t *j = cli_passes("diff", FIXTURE("bugs/clean.safetensors"), "--model", K25, "--profile",
                           "hf", "--require", "layers.*.experts", "--require", "logits");
    assert_int_equal(field_int(j, "compared"), 71);
    assert_int_equal(field_int(j, "failed"), 0);
    assert_true(json_is_null(field(j, "first")));
    assert_int_equal(json_array_size(field(j, "extra")), 0);
    assert_int_equal(times_in(field(j, "unchecked"), "layers.3.routed"), 1);
    const json_t *t = named(field(j, "taps"), "layers.4.output");
    assert_non_null(strstr(field_text(t, "bound_from"), "measured: 2 x"));
    assert_true(json_number_value(field(t, "rel_rms")) > 1e-3);
    const json_t *flips = field(j, "flips"); /* near ties, each with its numbers */
    for (size_t i = 0; i < json_array_size(flips); i++) {
        const json_t *f = json_array_get(flips, i);
        assert_true(json_is_true(field(f, "certified")));
        assert_int_equal(json_array_size(field(f, "subject")), 4);
        assert_int_equal(json_array_size(field(f, "truth")), 4);
        double gap = json_number_value(field(f, "gap"));
        assert_true(gap > 0 && gap <= json_number_value(field(f, "allowed")));
    }
    json_decref(j);
    j = cli_passes("diff", FIXTURE("bugs/clean.safetensors"), "--model", K25);
    assert_non_null(strstr(field_text(j, "profile_how"), "the nearest of"));
    json_decref(j);
}

static void planted_bug__is_found_at_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        json_t *j = cli_fails("diff", planted[i].file, "--model", K25, "--profile", "hf");
        const json_t *first = field(j, "first");
        assert_string_equal(field_text(first, "tap"), planted[i].tap);
        assert_string_equal(field_text(first, "op"), planted[i].op);
        assert_int_equal(field_int(first, "layer"), planted[i].layer);
        assert_in_range(field_int(first, "row"), 0, 23);
        assert_in_range(field_int(first, "col"), 0, 511);
        assert_int_equal(field_int(j, "compared"), 71);
        json_decref(j);
    }
}

/* Anchored, a bug is red at its own op alone; diagnosed, it has a name and a line that replays it.
 */
static void planted_bug__is_named__on_the_command_line(void **state)
{
    const char *dump = FIXTURE("bugs/tp_lost.safetensors"), *folder = *state;
    json_t *j = cli_fails("diff", dump, "--model", K25, "--profile", "hf", "--anchor");
    const json_t *guilty = field(j, "guilty");
    assert_string_equal(field_text(guilty, "op"), "mla.output");
    assert_int_equal(field_int(guilty, "layer"), 2);
    assert_true(json_is_null(field(guilty, "rank")));
    assert_int_equal(field_int(j, "failed"), 1);
    assert_int_equal(json_array_size(field(j, "hypotheses")), 0);
    assert_int_equal(json_array_size(field(j, "growth")), 6);
    json_decref(j);
    j = cli_fails("diff", dump, "--model", K25, "--profile", "hf", "--diagnose", "--out", folder);
    assert_int_equal(field_int(field(j, "guilty"), "rank"), 3);
    const json_t *named_ = json_array_get(field(j, "diagnosis"), 0);
    assert_string_equal(field_text(named_, "fault"), "tp.partial_sum_lost");
    assert_string_equal(field_text(named_, "site"), "layer=2,rank=3");
    const json_t *tap = named(field(j, "taps"), "layers.2.attn");
    assert_int_equal(json_array_size(field(field(tap, "cols_spread"), "worst")), 5);
    assert_int_equal(json_array_size(field(field(tap, "rows_spread"), "worst")), 5);
    assert_string_equal(field_text(tap, "bound_kind"), "measured");
    const char *replay = field_text(j, "replay");
    assert_int_equal(strncmp(replay, "assay op mla.output '", 21), 0);
    char line[1024];
    snprintf(line, sizeof line, "%s", replay + 21);
    *strchr(line, '\'') = '\0';
    json_decref(cli_fails("op", "mla.output", line)); /* the fault shows on the op alone */
    json_decref(j);
    char *text = read_whole(textf("%s/diff.txt", folder), NULL);
    static const char *const wanted[] = {
        "guilty: op mla.output, layer 2, rank 3, from the subject's own inputs\n",
        "diagnosis: tp.partial_sum_lost@layer=2,rank=3, explains 1 of the squared error\n",
        "replay: assay op mla.output 'T=24,", "inject: tp.partial_sum_lost@layer=2,rank=3\n"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!strstr(text, wanted[i])) fail_msg("not in the report: %s\n%s", wanted[i], text);
    }
    free(text);
}

static void clean_dump__passes__anchored_and_diagnosed(void **state)
{
    (void)state;
    json_t *j = cli_passes("diff", FIXTURE("bugs/clean.safetensors"), "--model", K25, "--profile",
                           "hf", "--diagnose");
    assert_true(json_is_null(field(j, "guilty")));
    assert_int_equal(json_array_size(field(j, "diagnosis")), 0);
    assert_true(json_is_true(field(j, "anchored")));
    json_decref(j);
}

static void anchor__is_refused__without_what_it_needs(void **state)
{
    const char *clean = FIXTURE("bugs/clean.safetensors"),
               *golden = FIXTURE("tiny-k25/golden.safetensors");
    struct refusal model = {2, "arguments", "diff", "--anchor without --model", "--model MODEL"};
    cli_refuses(state, model, "diff", clean, golden, "--anchor");
    struct refusal run = {2, "arguments", "diff", "--diagnose with --profile-run", "--profile"};
    cli_refuses(state, run, "diff", clean, "--model", K25, "--diagnose", "--profile-run", golden);
}

/* A choice that no score error explains is no near tie. */
static void experts__are_red__when_the_worst_one_was_chosen(void **state)
{
    struct st_edit e;
    const char *path = textf("%s/a", (const char *)*state);
    st_edit_read(&e, FIXTURE("bugs/clean.safetensors"));
    const float *score = (const float *)(const void *)st_edit_data(&e, "layers.3.router_logits");
    int32_t *id = (int32_t *)(void *)st_edit_data(&e, "layers.3.experts") + 4 * 9;
    int32_t worst = 0;
    for (int32_t i = 1; i < 16; i++)
        if (score[16 * 9 + i] < score[16 * 9 + worst]) worst = i;
    for (int j = 0; j < 4; j++) assert_int_not_equal(id[j], worst);
    id[0] = worst;
    st_edit_write(&e, path);
    st_edit_free(&e);
    json_t *j = cli_fails("diff", path, "--model", K25, "--profile", "hf4");
    assert_string_equal(field_text(field(j, "first"), "tap"), "layers.3.experts");
    assert_int_equal(field_int(field(j, "first"), "row"), 9);
    const json_t *flips = field(j, "flips");
    int open = 0;
    for (size_t i = 0; i < json_array_size(flips); i++) {
        const json_t *f = json_array_get(flips, i);
        if (json_is_true(field(f, "certified"))) continue;
        open++;
        assert_int_equal(field_int(f, "layer"), 3);
        assert_int_equal(field_int(f, "row"), 9);
        assert_true(json_number_value(field(f, "gap")) > json_number_value(field(f, "allowed")));
    }
    assert_int_equal(open, 1);
    json_decref(j);
}

/* The same with the outside float32 run as the truth beside the model. */
static void verdict__is_the_same__when_a_truth_is_given_too(void **state)
{
    (void)state;
    json_decref(cli_passes("diff", FIXTURE("bugs/clean.safetensors"),
                           FIXTURE("tiny-k25/golden.safetensors"), "--model", K25));
    json_t *j = cli_fails("diff", planted[0].file, FIXTURE("tiny-k25/golden.safetensors"),
                          "--model", K25, "--profile", "hf");
    assert_string_equal(field_text(field(j, "first"), "tap"), planted[0].tap);
    json_decref(j);
}

/* The reference in both precisions is what the outside implementation computed. */
static void reference__equals_the_golden__within_float32(void **state)
{
    static const char *const precisions[] = {"f32", "f64"};
    const char *a = textf("%s/a", (const char *)*state);
    for (int i = 0; i < 2; i++) {
        json_decref(cli_passes("forward", K25, "--tokens", "@" FIXTURE("tiny-k25/golden.json"),
                               "--out", a, "--precision", precisions[i]));
        json_t *j = cli_passes("diff", a, FIXTURE("tiny-k25/golden.safetensors"), "--bound", "5e-5",
                               "--require", "*");
        assert_int_equal(field_int(j, "compared"), 82);
        json_decref(j);
        json_decref(
            cli_fails("diff", a, FIXTURE("tiny-k25/golden.safetensors"), "--bound", "1e-8"));
        json_decref(cli_passes("diff", a, "--model", K25, "--profile", "math"));
    }
}

static void other_model__is_red(void **state)
{
    (void)state;
    const char *model = textf("synth:%s?seed=8", FIXTURE("tiny-k25/config.json"));
    json_t *j =
        cli_fails("diff", FIXTURE("bugs/clean.safetensors"), "--model", model, "--profile", "hf4");
    assert_string_equal(field_text(field(j, "first"), "tap"), "embed");
    json_decref(j);
}

static void model__is_refused__when_the_tokens_are_unknown_or_others(void **state)
{
    const char *golden = FIXTURE("tiny-k25/golden.safetensors");
    struct refusal none = {2, "diff --model", "golden.safetensors", "no tokens", "--tokens T"};
    cli_refuses(state, none, "diff", golden, "--model", K25);
    struct refusal rows = {2, "diff --model", "golden.safetensors", "48 rows", "3, as the tokens"};
    cli_refuses(state, rows, "diff", golden, "--model", K25, "--tokens", "1,2,3");
    struct refusal id = {2, "token id", "token 1", "512", "0 to 511"};
    cli_refuses(state, id, "diff", golden, "--model", K25, "--tokens", "1,512,3");
    struct refusal profile = {2, "profile", NULL, "trt", NULL};
    cli_refuses(state, profile, "diff", FIXTURE("bugs/clean.safetensors"), "--model", K25,
                "--profile", "trt");
    json_decref(cli_passes("diff", golden, "--model", K25, "--tokens",
                           "@" FIXTURE("tiny-k25/golden.json"), "--profile", "math"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(clean_dump__passes),
        TEST(planted_bug__is_found_at_its_place),
        TEST(planted_bug__is_named__on_the_command_line),
        TEST(clean_dump__passes__anchored_and_diagnosed),
        TEST(anchor__is_refused__without_what_it_needs),
        TEST(experts__are_red__when_the_worst_one_was_chosen),
        TEST(verdict__is_the_same__when_a_truth_is_given_too),
        TEST(reference__equals_the_golden__within_float32),
        TEST(other_model__is_red),
        TEST(model__is_refused__when_the_tokens_are_unknown_or_others),
    };
    return cmocka_run_group_tests_name("cli_bugs", tests, NULL, NULL);
}
