/* test_cli_forward.c: verbs forward, generate and synth on good input: what their JSON says, that
 * options which only cut or schedule the work never change a bit, and that greedy tokens are those
 * of the outside implementation. Numbers against goldens: test_golden.c. */
#include "tests/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K25 FIXTURE("tiny-k25")
#define K25_TOKENS "@" FIXTURE("tiny-k25/golden.json")

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

static void forward__tells_what_it_wrote__when_asked_for_json(void **state)
{
    const char *out = file_in(state, "a");
    json_t *j = cli_passes("forward", K25, "--tokens", K25_TOKENS, "--on", "ref", "--out", out);
    assert_int_equal(field_int(j, "taps"), 82);
    assert_int_equal(field_int(j, "rows"), 48);
    assert_string_equal(field_text(j, "out"), out);
    assert_string_equal(field_text(j, "profile"), "math");
    assert_true(json_real_value(field(j, "seconds")) > 0);
    int64_t peak = field_int(j, "peak_bytes");
    assert_true(peak > 1 << 20 && peak < 1 << 28);
    json_decref(j);
    assert_int_equal(folder_count(*state), 1);
}

static void forward__writes_every_tap_and_its_metadata(void **state)
{
    struct st_file f;
    struct err err = ERR_INIT;
    const char *out = file_in(state, "a");
    json_decref(cli_passes("forward", K25, "--tokens", "7,8,9", "--profile", "hf", "--out", out));
    (void)!st_open(&f, out, &err);
    assert_ok(&err);
    assert_int_equal(f.count, 82);
    assert_string_equal(st_meta(&f, "assay.tokens"), "[7,8,9]");
    assert_string_equal(st_meta(&f, "assay.lengths"), "[3]");
    assert_string_equal(st_meta(&f, "assay.positions"), "[0,1,2]");
    assert_string_equal(st_meta(&f, "assay.profile"), "hf");
    assert_string_equal(st_meta(&f, "assay.precision"), "f32");
    assert_int_equal(strlen(st_meta(&f, "assay.config_sha256")), 64);
    json_t *order = json_loads(st_meta(&f, "assay.order"), 0, NULL);
    assert_int_equal(json_array_size(order), 82);
    assert_string_equal(json_string_value(json_array_get(order, 0)), "embed");
    assert_string_equal(json_string_value(json_array_get(order, 81)), "logits");
    json_decref(order);
    for (int64_t i = 0; i < f.count; i++) {
        const struct st_tensor *t = &f.tensors[i];
        bool ids = strstr(t->name, ".experts") != NULL;
        assert_int_equal(t->dtype, ids ? DT_I32 : DT_F32);
        assert_int_equal(t->dims, 2);
        assert_int_equal(t->shape[0], 3);
    }
    assert_int_equal(st_find(&f, "logits")->shape[1], 512);
    assert_int_equal(st_find(&f, "layers.5.expert_weights")->shape[1], 4);
    assert_null(st_find(&f, "layers.0.experts"));
    st_close(&f);
}

static void forward__says_so__when_a_profile_is_unverified(void **state)
{
    struct cli r;
    cli(&r, "forward", K25, "--tokens", "1", "--profile", "vllm", "--out", file_in(state, "a"),
        "--json");
    assert_int_equal(r.status, 0);
    assert_true(json_is_true(field(r.json, "unverified")));
    assert_non_null(strstr(r.err, "assay: warning: profile vllm: unverified"));
    cli_free(&r);
}

/* A run with these two words more gives the same bits as the plain run. */
static void same_bits(void **state, const char *precision, const char *option, const char *value,
                      bool tail)
{
    const char *plain = file_in(state, textf("plain-%s", precision));
    const char *other = file_in(state, "other");
    if (!file_exists(plain))
        json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--precision", precision,
                               "--dump-dtype", "f64", "--out", plain, "--threads", "1"));
    json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--precision", precision,
                           "--dump-dtype", "f64", "--out", other, textf("%s=%s", option, value)));
    assert_same_tensors(other, plain, tail);
}

static void forward__gives_the_same_bits__when_scheduled_otherwise(void **state)
{
    static const struct {
        const char *option, *value;
    } rows[] = {
        {"--threads", "2"},          {"--threads", "7"},       {"--threads", "256"},
        {"--block-size", "1"},       {"--block-size", "7"},    {"--block-size", "1048576"},
        {"--prefill-chunk", "1"},    {"--prefill-chunk", "7"}, {"--prefill-chunk", "48"},
        {"--prefill-chunk", "1000"}, {"--decode-last", "0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        same_bits(state, "f32", rows[i].option, rows[i].value, false);
        bool middle = strcmp(rows[i].value, "7") == 0; /* one of each option */
        if (middle) same_bits(state, "f64", rows[i].option, rows[i].value, false);
    }
}

static void forward__gives_the_same_bits__when_less_is_kept(void **state)
{
    static const struct {
        const char *option, *value;
        int64_t taps, rows;
    } rows[] = {
        {"--rows", "-24:", 82, 24},
        {"--rows", "47:48", 82, 1},
        {"--rows", "-1:", 82, 1},
        {"--layers", ":", 82, 48},
        {"--layers", "2:4", 28, 48},
        {"--layers", "5:", 16, 48},
        {"--layers", ":1", 10, 48},
        {"--layers", "-1:", 16, 48},
        {"--layers", "0:-1", 66, 48},
        {"--taps", "logits", 1, 48},
        {"--taps", "layers.*.attn", 6, 48},
        {"--taps", "embed,*.q", 7, 48},
        {"--taps", "layers.1.*,layers.1.q", 14, 48},
        {"--taps", "*", 82, 48},
        {"--taps", "layers.?.experts", 5, 48},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct st_file f;
        struct err err = ERR_INIT;
        same_bits(state, "f32", rows[i].option, rows[i].value, true);
        (void)!st_open(&f, file_in(state, "other"), &err);
        assert_ok(&err);
        if (f.count != rows[i].taps) fail_msg("%s: %lld taps", rows[i].value, (long long)f.count);
        assert_int_equal(f.tensors[0].shape[0], rows[i].rows);
        st_close(&f);
    }
}

/* Rows in front, and a window: not only the tail. */
static void rows__are_those_asked_for__when_in_the_middle(void **state)
{
    struct st_file all, part;
    struct err err = ERR_INIT;
    const char *a = file_in(state, "a"), *b = file_in(state, "b");
    json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--out", a));
    json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--rows", "5:9", "--out", b));
    (void)!st_open(&all, a, &err);
    (void)!st_open(&part, b, &err);
    assert_ok(&err);
    assert_string_equal(st_meta(&part, "assay.rows"), "[5,6,7,8]");
    assert_string_equal(st_meta(&part, "assay.positions"), "[5,6,7,8]");
    for (int64_t i = 0; i < part.count; i++) {
        const struct st_tensor *t = &part.tensors[i], *s = st_find(&all, t->name);
        int64_t row = t->bytes / 4;
        assert_int_equal(t->shape[0], 4);
        assert_memory_equal(t->data, (const char *)s->data + 5 * row, (size_t)t->bytes);
    }
    st_close(&all);
    st_close(&part);
}

/* Decoding uses the absorbed form: other roundings, the same value. Six layers of 14 ops round 85
 * times; four times the random walk of so many is 2.2e-6, and what float32 was seen to do when all
 * 48 rows are decoded is 1.1e-6. */
static void decode__agrees_with_prefill(void **state)
{
    static const struct {
        const char *precision, *last;
        double bound;
    } rows[] = {
        {"f32", "1", 1e-6},   {"f32", "20", 1e-6},   {"f32", "999", 2.2e-6},
        {"f64", "20", 1e-12}, {"f64", "999", 1e-12},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *a = file_in(state, "a"), *b = file_in(state, "b");
        json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--out", a, "--precision",
                               rows[i].precision, "--dump-dtype", "f64"));
        json_decref(cli_passes("forward", K25, "--tokens", K25_TOKENS, "--out", b, "--precision",
                               rows[i].precision, "--dump-dtype", "f64", "--decode-last",
                               rows[i].last));
        double worst = largest_relative(b, a);
        if (!(worst <= rows[i].bound) || !(worst > 0))
            fail_msg("%s, last %s: %.3g apart", rows[i].precision, rows[i].last, worst);
    }
}

/* Sequences of a batch do not see each other. */
static void batch__gives_each_sequence_its_own_bits(void **state)
{
    const char *alone = file_in(state, "alone"), *both = file_in(state, "both");
    const char *tokens = file_in(state, "t.jsonl");
    write_text(tokens, "{\"input_ids\": [9, 8, 7, 6, 5]}\n\n[1, 2, 3]\n");
    json_decref(cli_passes("forward", K25, "--tokens", "1,2,3", "--out", alone));
    json_t *j =
        cli_passes("forward", K25, "--tokens", tokens, "--out", both, "--prefill-chunk", "2");
    assert_int_equal(field_int(j, "rows"), 8);
    json_decref(j);
    assert_same_tensors(alone, both, true);
}

static void tokens__are_the_same__in_every_form(void **state)
{
    static const int64_t ids[] = {1, 2, 300};
    const char *plain = file_in(state, "plain"), *other = file_in(state, "other");
    const struct st_part part = {"input_ids", DT_I64, 2, {1, 3}, ids};
    const char *forms[] = {file_in(state, "a.json"), file_in(state, "b.json"),
                           file_in(state, "c.jsonl"), file_in(state, "d.safetensors"),
                           textf("@%s", file_in(state, "b.json"))};
    write_text(forms[0], "[[1, 2, 300]]");
    write_text(forms[1], "{\"tokens\": [1, 2, 300]}");
    write_text(forms[2], "\n[1, 2, 300]");
    write_safetensors(forms[3], &part, 1, NULL, 0);
    json_decref(cli_passes("forward", K25, "--tokens", "1,2,300", "--out", plain));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        json_decref(cli_passes("forward", K25, "--tokens", forms[i], "--out", other));
        assert_same_tensors(other, plain, false);
    }
}

static void experts__are_taken_from_a_dump__when_given(void **state)
{
    const char *a = file_in(state, "a"), *b = file_in(state, "b"), *c = file_in(state, "c");
    json_decref(cli_passes("forward", K25, "--tokens", "1,2,3", "--out", a));
    json_t *j = cli_passes("forward", K25, "--tokens", "1,2,3", "--out", b, "--experts", a);
    assert_int_equal(field_int(j, "forced_rows"), 15);
    json_decref(j);
    assert_same_tensors(b, a, false);
    struct refusal other = {2, "option", "--experts", "token 1: 489", "2, as --tokens says"};
    cli_refuses(state, other, "forward", K25, "--tokens", "1,2", "--out", c, "--experts",
                FIXTURE("bugs/clean.safetensors"));
}

static void synth__writes_what_the_address_makes(void **state)
{
    static const char *const names[] = {"tiny-k25", "tiny-dsv3", "tiny-k2-plainrope",
                                        "tiny-smallnorm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *folder = file_in(state, names[i]), *model = fixture_synth(names[i]);
        const char *a = file_in(state, "a"), *b = file_in(state, "b");
        json_t *g = fixture_golden(names[i]);
        json_t *j =
            cli_passes("synth", textf("%s/fixtures/%s/config.json", ASSAY_SOURCE_DIR, names[i]),
                       "--seed", textf("%lld", (long long)field_int(g, "seed")), "--latent-gain",
                       textf("%g", json_number_value(field(g, "latent_gain"))), "--out", folder);
        assert_true(field_int(j, "tensors") > 100);
        assert_true(field_int(j, "bytes") > 1000000);
        json_decref(j);
        assert_int_equal(folder_count(folder), 2);
        json_decref(cli_passes("forward", folder, "--tokens", "1,5,9", "--out", a));
        json_decref(cli_passes("forward", model, "--tokens", "1,5,9", "--out", b));
        assert_same_tensors(a, b, false);
        json_decref(g);
    }
    assert_same_tensors(file_in(state, "tiny-k25/model.safetensors"),
                        FIXTURE("tiny-k25/model.safetensors"), false);
}

/* Sanitizers make a token slow. */
#if defined(__SANITIZE_ADDRESS__)
enum { GREEDY_MAX = 8 };
#else
enum { GREEDY_MAX = 48 };
#endif

/* The prompt and the tokens of golden.json; `model` NULL: the synthetic one. */
static void generates(const char *name, const char *model)
{
    json_t *g = fixture_golden(name);
    json_t *greedy = json_deep_copy(field(g, "greedy"));
    while (json_array_size(greedy) > GREEDY_MAX) json_array_remove(greedy, GREEDY_MAX);
    int64_t prompt = field_int(g, "greedy_prompt"), n = (int64_t)json_array_size(greedy);
    assert_true(n > 7);
    json_t *j =
        cli_passes("generate", model ? model : fixture_synth(name), "--tokens",
                   joined(field(g, "tokens"), (size_t)prompt), "-n", textf("%lld", (long long)n));
    if (!json_equal(field(j, "tokens"), greedy)) fail_msg("%s: other tokens", name);
    assert_int_equal(json_array_size(field(j, "margins")), n);
    assert_int_equal(json_array_size(field(j, "accepted")), 0);
    assert_true(json_is_null(field(j, "mean_acceptance_length")));
    assert_true(json_is_null(field(j, "lossless")));
    assert_int_equal(field_int(j, "near_ties"), 0);
    json_decref(greedy);
    json_decref(j);
    json_decref(g);
}

/* The weights and the config are finite, what they give is not: the dump is there, and the run is
 * no pass. */
static void forward__fails__when_what_it_wrote_is_not_finite(void **state)
{
    size_t size;
    char *config = read_whole(FIXTURE("tiny-k25/config.json"), &size);
    char *huge = replaced(config, "2.827", "1e308");
    const char *path = file_in(state, "config.json"), *out = file_in(state, "a.safetensors");
    write_text(path, huge);
    struct cli r;
    cli(&r, "forward", textf("synth:%s?seed=1", path), "--tokens", "1,2", "--out", out, "--json");
    assert_int_equal(r.status, 1);
    assert_non_null(r.json);
    assert_true(json_integer_value(json_object_get(r.json, "not_finite")) > 0);
    assert_non_null(strstr(r.err, "assay: fail: forward: layers.1.expert_weights, row 0"));
    assert_true(file_exists(out));
    cli_free(&r);
    free(huge);
    free(config);
}

static void generate__gives_the_golden_tokens(void **state)
{
    (void)state;
    generates("tiny-k25", K25);
    generates("tiny-k25", NULL);
    generates("tiny-dsv3", NULL);
    generates("tiny-k2-plainrope", NULL);
    generates("tiny-smallnorm", NULL);
    generates("tiny-long", NULL);
}

static void generate__prints_one_line_of_tokens__when_plain(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "generate", K25, "--tokens", K25_TOKENS, "--prompt", "16", "-n", "3");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "277,182,268\n");
    assert_string_equal(r.err, "");
    cli_free(&r);
}

static void generate__stops_after_eos__when_asked(void **state)
{
    (void)state;
    json_t *j = cli_passes("generate", K25, "--tokens", K25_TOKENS, "--prompt", "16", "-n", "48",
                           "--stop-eos");
    assert_int_equal(json_array_size(field(j, "tokens")), 41);
    assert_int_equal(json_integer_value(json_array_get(field(j, "tokens"), 40)), 2);
    json_decref(j);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(forward__tells_what_it_wrote__when_asked_for_json),
        TEST(forward__writes_every_tap_and_its_metadata),
        TEST(forward__says_so__when_a_profile_is_unverified),
        TEST(forward__gives_the_same_bits__when_scheduled_otherwise),
        TEST(forward__gives_the_same_bits__when_less_is_kept),
        TEST(rows__are_those_asked_for__when_in_the_middle),
        TEST(decode__agrees_with_prefill),
        TEST(batch__gives_each_sequence_its_own_bits),
        TEST(tokens__are_the_same__in_every_form),
        TEST(experts__are_taken_from_a_dump__when_given),
        TEST(synth__writes_what_the_address_makes),
        TEST(forward__fails__when_what_it_wrote_is_not_finite),
        TEST(generate__gives_the_golden_tokens),
        TEST(generate__prints_one_line_of_tokens__when_plain),
        TEST(generate__stops_after_eos__when_asked),
    };
    return cmocka_run_group_tests_name("cli_forward", tests, NULL, NULL);
}
