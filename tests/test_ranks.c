/* test_ranks.c: a model over ranks gives what one process gives: taps, tokens, samples, whatever
 * the cut; and what cannot be done over ranks is refused. Failures: test_ranks_fail.c. */
#include "tests/extracting.h"

#include "core/dump.h"
#include "harness/forward.h"

#include <stdlib.h>
#include <string.h>

#define K25 FIXTURE("tiny-k25")
#define K25_TOKENS "@" FIXTURE("tiny-k25/golden.json")
#define DSV3 "synth:" FIXTURE("tiny-dsv3/config.json") "?seed=3"
#define DSV3_TOKENS "@" FIXTURE("tiny-dsv3/golden.json")
#define HEAD FIXTURE("eagle-trained")
#define BATCH "[[1,2,3,4,5,6],[7],[8,9,10]]"

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

static const char *batch(void **state)
{
    const char *path = file_in(state, "batch.json");
    write_text(path, BATCH);
    return path;
}

enum { WORDS = 16 };

/* Runs `verb words` twice, the second time with `cut`, and gives both results. */
struct pair {
    const char *words[WORDS], *cut[WORDS];
};

static json_t *passes(const char *const *words, const char *const *cut, const char *out)
{
    const char *argv[2 * WORDS + 4];
    int n = 0;
    for (int i = 0; i < WORDS && words[i]; i++) argv[n++] = words[i];
    for (int i = 0; cut && i < WORDS && cut[i]; i++) argv[n++] = cut[i];
    if (out) {
        argv[n++] = "--out";
        argv[n++] = out;
    }
    argv[n] = NULL;
    return cli_passed(argv, __FILE__, __LINE__);
}

/* ---- forward ---- */

static void assert_forward_equal(void **state, const struct pair *p, double bound)
{
    const char *one = file_in(state, "one"), *many = file_in(state, "many");
    json_t *a = passes(p->words, NULL, one), *b = passes(p->words, p->cut, many);
    assert_int_equal(field_int(a, "taps"), field_int(b, "taps"));
    assert_null(json_object_get(a, "ranks"));
    assert_int_equal(json_array_size(field(b, "ranks")), 0);
    json_decref(a);
    json_decref(b);
    double worst = largest_relative(many, one);
    if (!(worst <= bound))
        fail_msg("%s %s %s: relative RMS %g", p->words[1], p->cut[0], p->cut[1], worst);
}

#define F64 "--precision", "f64", "--dump-dtype", "f64"

static void forward__gives_the_taps_of_one_process__under_every_cut(void **state)
{
    static const struct pair pairs[] = {
        {{"forward", DSV3, "--tokens", DSV3_TOKENS, F64}, {"--tp", "2"}},
        {{"forward", DSV3, "--tokens", DSV3_TOKENS, F64}, {"--tp", "4"}},
        {{"forward", DSV3, "--tokens", DSV3_TOKENS, F64}, {"--tp", "2", "--ep", "2"}},
        {{"forward", DSV3, "--tokens", DSV3_TOKENS, F64}, {"--tp", "1"}},
        {{"forward", DSV3, "--tokens", "1,420,348,395,7", F64}, {"--tp", "8"}},
        {{"forward", DSV3, "--tokens", "1,420,348,395,7", F64}, {"--tp", "4", "--ep", "2"}},
        {{"forward", DSV3, "--tokens", "1,420,348,395,7", F64},
         {"--tp", "2", "--ep", "4", "--expert-map", "round-robin"}},
        {{"forward", K25, "--tokens", "1,420,348,395,7", F64}, {"--tp", "8"}},
        {{"forward", K25, "--tokens", "1,420,348,395,7", F64},
         {"--tp", "4", "--ep", "2", "--redundant", "3"}},
        {{"forward", K25, "--tokens", K25_TOKENS, F64}, {"--ep", "2"}},
        {{"forward", K25, "--tokens", K25_TOKENS, F64},
         {"--ep", "4", "--expert-map", "round-robin", "--redundant", "2"}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_forward_equal(state, &pairs[i], 1e-12);
}

/* Shapes of our own: no latent for queries, wide heads; widths that eight ranks share. */
static void forward__gives_the_taps_of_one_process__of_other_shapes(void **state)
{
    static const struct {
        int heads, q_lora, v, inner, experts, dense;
        const char *cut[4];
    } shapes[] = {
        {16, 0, 24, 64, 8, 160, {"--tp", "8"}},
        {8, 24, 8, 40, 12, 96, {"--tp", "8"}},
        {12, 0, 16, 48, 16, 72, {"--tp", "4", "--ep", "2"}},
        {6, 24, 16, 36, 9, 48, {"--tp", "2", "--ep", "3"}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const char *path = file_in(state, "config.json");
        write_text(
            path,
            textf("{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": "
                  "\"deepseek_v3\", \"vocab_size\": 96, \"hidden_size\": 48, "
                  "\"intermediate_size\": %d, \"moe_intermediate_size\": %d, "
                  "\"num_hidden_layers\": 3, \"num_attention_heads\": %d, "
                  "\"num_key_value_heads\": %d, \"n_shared_experts\": 1, \"n_routed_experts\": "
                  "%d, \"num_experts_per_tok\": 3, \"routed_scaling_factor\": 2.5, "
                  "\"kv_lora_rank\": 32, \"q_lora_rank\": %s, \"qk_rope_head_dim\": 8, "
                  "\"v_head_dim\": %d, \"qk_nope_head_dim\": 16, \"n_group\": 1, "
                  "\"topk_group\": 1, \"topk_method\": \"noaux_tc\", \"scoring_func\": "
                  "\"sigmoid\", \"norm_topk_prob\": true, \"first_k_dense_replace\": 1, "
                  "\"moe_layer_freq\": 1, \"hidden_act\": \"silu\", "
                  "\"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-6, \"rope_theta\": "
                  "10000, \"rope_scaling\": null, \"tie_word_embeddings\": false, "
                  "\"torch_dtype\": \"bfloat16\"}",
                  shapes[i].dense, shapes[i].inner, shapes[i].heads, shapes[i].heads,
                  shapes[i].experts, shapes[i].q_lora ? textf("%d", shapes[i].q_lora) : "null",
                  shapes[i].v));
        struct pair p = {
            {"forward", textf("synth:%s?seed=%zu", path, i), "--tokens", "1,42,34,95,7", F64}, {0}};
        memcpy(p.cut, shapes[i].cut, sizeof shapes[i].cut);
        assert_forward_equal(state, &p, 1e-12);
    }
}

static void forward__gives_the_taps_of_one_process__in_steps_and_batches(void **state)
{
    const char *three = batch(state);
    const struct pair pairs[] = {
        {{"forward", DSV3, "--tokens", DSV3_TOKENS, F64, "--prefill-chunk", "5", "--decode-last",
          "3"},
         {"--tp", "2"}},
        {{"forward", K25, "--tokens", three, F64, "--prefill-chunk", "2", "--block-size", "2"},
         {"--ep", "2"}},
        {{"forward", K25, "--tokens", three, F64, "--layers", "1:3", "--rows", "2:8"},
         {"--ep", "2"}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_forward_equal(state, &pairs[i], 1e-12);
}

static void forward__gives_the_bits_of_one_process__with_one_rank(void **state)
{
    const struct pair p = {{"forward", K25, "--tokens", K25_TOKENS, "--draft", HEAD},
                           {"--tp", "1"}};
    assert_forward_equal(state, &p, 0);
}

/* A decode step may round elsewhere than a prefill: the ranks must know which one it is. */
static void forward__gives_the_bits_of_one_process__where_a_decode_is_absorbed(void **state)
{
    const char *out[] = {file_in(state, "one"), file_in(state, "many")};
    for (int i = 0; i < 2; i++) {
        struct cli r; /* it warns that nobody has confirmed this profile */
        cli(&r, "forward", K25, "--tokens", K25_TOKENS, "--profile", "vllm", "--decode-last", "3",
            "--out", out[i], i ? "--tp" : NULL, "1");
        assert_int_equal(r.status, 0);
        cli_free(&r);
    }
    assert_true(largest_relative(out[1], out[0]) == 0);
}

static void forward__takes_forced_experts_and_a_draft_head_over_ranks(void **state)
{
    const char *dump = file_in(state, "forced");
    json_decref(
        cli_passes("forward", K25, "--tokens", K25_TOKENS, "--profile", "hf", "--out", dump));
    const struct pair pairs[] = {
        {{"forward", K25, "--tokens", K25_TOKENS, F64, "--experts", dump}, {"--ep", "2"}},
        {{"forward", K25, "--tokens", K25_TOKENS, F64, "--draft", HEAD}, {"--ep", "2"}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_forward_equal(state, &pairs[i], 1e-12);
    /* They were forced: without, other experts are chosen somewhere. */
    json_t *j = cli_passes("forward", K25, "--tokens", K25_TOKENS, "--experts", dump, "--ep", "2",
                           "--out", file_in(state, "again"));
    assert_true(field_int(j, "forced_rows") > 0);
    json_decref(j);
}

static void dump__says_how_many_ranks_made_it(void **state)
{
    struct st_file f;
    struct err err = ERR_INIT;
    const char *out = file_in(state, "d");
    json_t *j =
        cli_passes("forward", DSV3, "--tokens", "1,2,3", "--tp", "2", "--ep", "2", "--out", out);
    assert_int_equal(field_int(j, "tp"), 2);
    assert_int_equal(field_int(j, "ep"), 2);
    assert_string_equal(field_text(j, "reduce"), "F32");
    assert_true(field_int(j, "peak_bytes") > 0);
    json_decref(j);
    (void)!st_open(&f, out, &err);
    assert_ok(&err);
    assert_string_equal(st_meta(&f, "assay.tp"), "2");
    assert_string_equal(st_meta(&f, "assay.ep"), "2");
    assert_string_equal(st_meta(&f, "assay.expert_map"), "contiguous");
    assert_string_equal(st_meta(&f, "assay.redundant"), "0");
    assert_string_equal(st_meta(&f, "assay.reduce"), "f32");
    st_close(&f);
}

/* ---- generate ---- */

static void assert_generates_equal(const struct pair *p)
{
    json_t *a = passes(p->words, NULL, NULL), *b = passes(p->words, p->cut, NULL);
    static const char *const fields[] = {"tokens", "accepted", "lossless", "rounds"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        assert_true(json_equal(field(a, fields[i]), field(b, fields[i])));
    json_decref(a);
    json_decref(b);
}

#define GENERATE(model) "generate", model, "--tokens", "1,420,348,395", "-n", "12"

static void generate__gives_the_same_tokens(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {{GENERATE(DSV3)}, {"--tp", "2", "--ep", "2"}},
        {{GENERATE(K25)}, {"--ep", "4"}},
        {{GENERATE(K25), "--draft", HEAD, "--check-lossless"}, {"--ep", "2"}},
        {{GENERATE(K25), "--draft", HEAD, "--mode", "tree", "--draft-tokens", "8"}, {"--ep", "2"}},
        {{GENERATE(K25), "--temperature", "0.7", "--seed", "3", "--precision", "f64"},
         {"--ep", "2"}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) assert_generates_equal(&pairs[i]);
}

/* ---- extract ---- */

static void extract__gives_the_same_samples__and_says_how_it_was_run(void **state)
{
    const char *data = extract_corpus(state, 7);
    const struct pair p = {{"extract", DSV3, "--data", data, "--layers", "1,4", "--numbering",
                            "entry", "--format", "vllm", "--precision", "f64", "--batch", "3"},
                           {"--tp", "2", "--ep", "2"}};
    const char *one = file_in(state, "one"), *many = file_in(state, "many");
    json_decref(passes(p.words, NULL, one));
    json_decref(passes(p.words, p.cut, many));
    for (int i = 0; i < 7; i++) {
        const char *name = textf("hs_%d.safetensors", i);
        size_t a_size, b_size;
        char *a = read_whole(textf("%s/%s", one, name), &a_size);
        char *b = read_whole(textf("%s/%s", many, name), &b_size);
        assert_int_equal(a_size, b_size);
        assert_memory_equal(a, b, a_size); /* in bf16: f64 sums differ by less than shows */
        free(a);
        free(b);
    }
    json_t *m = extract_manifest(many);
    assert_int_equal(field_int(field(m, "ranks"), "tp"), 2);
    assert_string_equal(field_text(field(m, "ranks"), "reduce"), "F64");
    json_decref(m);
    m = extract_manifest(one);
    assert_null(json_object_get(m, "ranks"));
    json_decref(m);
}

/* ---- refusals ---- */

static void run__is_refused__where_ranks_cannot_do_it(void **state)
{
    const char *out = file_in(state, "out");
    cli_refuses(state, ((struct refusal){2, "option", "--resume", "--tp, --ep", "one process"}),
                "forward", K25, "--tokens", "1,2", "--ep", "2", "--resume", "--out", out);
    cli_refuses(state, ((struct refusal){2, "shard plan", NULL, "--tp 3", NULL}), "forward", DSV3,
                "--tokens", "1,2", "--tp", "3", "--out", out);
    cli_refuses(state, ((struct refusal){2, "option", "--rank-timeout", "0", NULL}), "forward", K25,
                "--tokens", "1,2", "--ep", "2", "--rank-timeout", "0", "--out", out);
    cli_refuses(state, ((struct refusal){2, "option", "--tp, --ep", "ranks", "at most"}), "forward",
                K25, "--tokens", "1,2", "--tp", "64", "--ep", "64", "--out", out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forward__gives_the_taps_of_one_process__under_every_cut),
        TEST(forward__gives_the_taps_of_one_process__of_other_shapes),
        TEST(forward__gives_the_taps_of_one_process__in_steps_and_batches),
        TEST(forward__gives_the_bits_of_one_process__with_one_rank),
        TEST(forward__gives_the_bits_of_one_process__where_a_decode_is_absorbed),
        TEST(forward__takes_forced_experts_and_a_draft_head_over_ranks),
        TEST(dump__says_how_many_ranks_made_it),
        TEST(generate__gives_the_same_tokens),
        TEST(extract__gives_the_same_samples__and_says_how_it_was_run),
        TEST(run__is_refused__where_ranks_cannot_do_it),
    };
    setenv("ASSAY_LOAD_LINE_S", "3600", 1); /* how far a slow build has come is no complaint */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
