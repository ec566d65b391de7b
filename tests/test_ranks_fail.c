/* test_ranks_fail.c: what a step hands over in pieces; and a run over ranks in which one of them
 * dies, hangs or fails in the middle of a step: the message names rank, op and layer, the exit code
 * is right, and nothing is left behind.
 */
#include "tests/extracting.h"
#include "tests/ranks.h"

#include "core/text.h"
#include "harness/forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DSV3 "synth:" FIXTURE("tiny-dsv3/config.json") "?seed=3"
#define K25 FIXTURE("tiny-k25")

static int both_setup(void **state)
{
    return folder_setup(state) || ranks_setup(state);
}

static int both_teardown(void **state)
{
    return folder_teardown(state);
}

static struct session_options over(int tp, int ep, const char *fault)
{
    struct session_options o = session_defaults();
    o.ranks = (struct ranks_options){
        .on = true, .plan = shard_plan_alone(), .timeout_s = 60, .fault = fault, .quiet = true};
    o.ranks.plan.tp = tp;
    o.ranks.plan.ep = ep;
    return o;
}

static struct forward_request asked(void **state, const struct session_options *o)
{
    return (struct forward_request){.model = DSV3,
                                    .tokens = "1,2,3,4,5",
                                    .out = textf("%s/out", (const char *)*state),
                                    .reals = DT_F32,
                                    .options = *o};
}

/* A forward that must fail: its error and its list of ranks. Nothing lies in the folder then. */
static json_t *forward_fails(void **state, const struct session_options *o, struct err *err)
{
    struct forward_result f;
    const struct forward_request r = asked(state, o);
    *err = (struct err)ERR_INIT;
    assert_int_not_equal(forward_run(&r, &f, err), ERR_OK);
    assert_int_equal(folder_count(*state), 0);
    ranks_assert_no_traces();
    json_t *ranks = json_incref(json_object_get(f.ranks, "ranks"));
    forward_result_free(&f);
    return ranks;
}

/* ---- what a long step is cut into ---- */

static void forward__splits_taps_into_pieces__of_any_size(void **state)
{
    struct forward_result f;
    struct err err = ERR_INIT;
    struct session_options o = over(2, 2, NULL);
    struct forward_request r = asked(state, &o);
    const char *one = textf("%s/one", (const char *)*state);
    r.reals = DT_F64;
    r.options.precision = PRECISION_F64;
    for (int64_t piece = 1; piece < 100000; piece = piece * 13 + 700) {
        r.options.ranks.piece = piece;
        r.out = textf("%s/many-%d", (const char *)*state, (int)piece);
        (void)!forward_run(&r, &f, &err);
        assert_ok(&err);
        forward_result_free(&f);
        if (piece == 1) {
            struct forward_request alone = r;
            alone.out = one;
            alone.options.ranks.on = false;
            (void)!forward_run(&alone, &f, &err);
            assert_ok(&err);
            forward_result_free(&f);
        }
        assert_true(largest_relative(r.out, one) <= 1e-12);
    }
    ranks_assert_no_traces();
}

/* ---- caches ---- */

/* Logits of token 9 after tokens 1 .. 6, of which one was moved onto another in the cache. */
static void decode_after_move(const struct session_options *o, bool moved, double *logits)
{
    struct err err = ERR_INIT;
    struct loaded l = {0};
    struct session s = {0};
    int64_t id[] = {1, 2, 3, 4, 5, 6}, length = 6, room = 8, token = 9;
    const struct tokens t = {.count = 6, .sequences = 1, .id = id, .length = &length};
    (void)!loaded_open_by(&l, DSV3, o, &err);
    assert_ok(&err);
    (void)!session_open(&s, &l, o, 1, &room, &err);
    (void)!session_forward(&s, &t, NULL, NULL, NULL, &err);
    if (moved) (void)!engine_cache_move(&l.engine, &s.cache, 0, 4, 1, &err);
    (void)!session_decode(&s, &token, logits, &err);
    assert_ok(&err);
    session_close(&s);
    loaded_close(&l);
}

static void moved_entry__is_moved_on_every_rank(void **state)
{
    (void)state;
    enum { VOCAB = 4096 };
    static double one[VOCAB], many[VOCAB], still[VOCAB];
    struct session_options o = session_defaults(), ranks = over(2, 2, NULL);
    o.precision = ranks.precision = PRECISION_F64;
    decode_after_move(&o, true, one);
    decode_after_move(&ranks, true, many);
    decode_after_move(&ranks, false, still);
    double most = 0, other = 0;
    for (int i = 0; i < VOCAB; i++) {
        most = fmax(most, fabs(one[i] - many[i]));
        other = fmax(other, fabs(one[i] - still[i]));
    }
    assert_true(most <= 1e-10 && other > 1e-4);
    ranks_assert_no_traces();
}

/* ---- a rank that ends or hangs, at every op ---- */

/* One step with such a fault; what the first failure says. */
static void assert_named(void **state, const char *id, int rank, int step, const char *op,
                         int64_t layer)
{
    struct err err;
    struct session_options o = over(2, 2, textf("%s@rank=%d,call=1,step=%d", id, rank, step));
    /* Longer than a loaded machine leaves a rank that works without a turn. */
    if (strcmp(id, "proc.hang") == 0) o.ranks.timeout_s = 8;
    json_t *ranks = forward_fails(state, &o, &err);
    const json_t *first = json_array_get(ranks, 0);
    assert_int_equal(err.code, ERR_PROCESS);
    assert_int_equal(err_exit(err.code), 3);
    assert_int_equal(err.rank, rank);
    assert_int_equal(field_int(first, "rank"), rank);
    assert_string_equal(field_text(first, "op"), op);
    if (layer < 0)
        assert_true(json_is_null(field(first, "layer")));
    else
        assert_int_equal(field_int(first, "layer"), layer);
    for (size_t i = 1; i < json_array_size(ranks); i++)
        assert_true(json_is_true(field(json_array_get(ranks, i), "consequence")));
    json_decref(ranks);
}

/* Steps of a call: its task, then the ops. */
static void dead_rank__is_named_with_op_and_layer(void **state)
{
    static const struct {
        int step;
        const char *op;
        int64_t layer;
    } places[] = {{1, "embed", -1},      {2, "norm", 0},       {3, "mla.q", 0},
                  {6, "mla.core", 0},    {7, "mla.output", 0}, {9, "mlp", 0},
                  {15, "mla.output", 1}, {25, "router", 2},    {26, "moe", 2},
                  {27, "moe.shared", 2}};
    static const char *const ids[] = {"proc.worker_signal", "proc.worker_exit_0",
                                      "proc.worker_exit_n"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_named(state, ids[i % 3], (int)(i % 4), places[i].step, places[i].op,
                     places[i].layer);
}

static void hung_rank__is_named_with_op_and_layer(void **state)
{
    assert_named(state, "proc.hang", 1, 7, "mla.output", 0);
    assert_named(state, "proc.hang", 0, 26, "moe", 2);
}

/* Nobody waits for it in a collective: that it says nothing is all that there is to see. */
static void hung_rank_alone__is_named_too(void **state)
{
    struct err err;
    struct session_options o = over(1, 1, "proc.hang@rank=0,call=1,step=6");
    o.ranks.timeout_s = 0.5;
    json_t *ranks = forward_fails(state, &o, &err);
    assert_int_equal(err.rank, 0);
    assert_string_equal(field_text(json_array_get(ranks, 0), "op"), "mla.core");
    json_decref(ranks);
}

static void rank_that_dies_at_the_opening__is_named(void **state)
{
    struct err err;
    const struct session_options o = over(1, 2, "proc.worker_exit_n@rank=1,call=0,step=2");
    json_t *ranks = forward_fails(state, &o, &err);
    assert_int_equal(err.rank, 1);
    assert_string_equal(field_text(json_array_get(ranks, 0), "op"), "bind its tensors");
    json_decref(ranks);
}

static void broken_reply__ends_the_run_with_its_rank(void **state)
{
    static const char *const ids[] = {"proc.truncated_reply", "proc.garbled_reply",
                                      "proc.empty_message", "proc.wrong_rank_reply"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct err err;
        const struct session_options o = over(2, 1, textf("%s@rank=%d,call=1", ids[i], (int)i % 2));
        json_decref(forward_fails(state, &o, &err));
        assert_int_equal(err.code, ERR_PROCESS);
        assert_int_equal(err.rank, i % 2);
    }
}

/* ---- through the program ---- */

static void verb__says_the_first_cause_and_lists_the_ranks(void **state)
{
    struct cli r;
    const char *model = small_model(state, "m"), *out = textf("%s/out", (const char *)*state);
    /* The last rank's rows of the vocabulary hold what no row may hold. */
    struct st_edit e;
    const char *shard = textf("%s/model.safetensors", model);
    st_edit_read(&e, shard);
    memset(st_edit_data(&e, SMALL_LAYER(1) "self_attn.o_proj.weight"), 0xFF, 2);
    st_edit_write(&e, shard);
    st_edit_free(&e);
    cli(&r, "forward", model, "--tokens", "1,2,3", "--tp", "2", "--out", out, "--json");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "assay: rank 0: cause: "));
    assert_non_null(strstr(r.err, "in mla.output, layer 1"));
    assert_non_null(r.json);
    assert_int_equal(field_int(r.json, "tp"), 2);
    const json_t *first = json_array_get(field(r.json, "ranks"), 0);
    assert_int_equal(field_int(first, "rank"), 0);
    assert_string_equal(field_text(first, "op"), "mla.output");
    assert_int_equal(field_int(first, "layer"), 1);
    assert_non_null(strstr(field_text(field(r.json, "error"), "found"), "NaN"));
    assert_false(file_exists(out));
    cli_free(&r);
}

/* Each verb, in the middle of a step: exit 3, the rank with op and layer in words and in JSON. */
static void every_verb__names_a_dead_rank(void **state)
{
    const char *data = extract_corpus(state, 3), *out = textf("%s/out", (const char *)*state);
    const char *const verbs[][16] = {
        {"forward", DSV3, "--tokens", "1,2,3", "--tp", "2", "--out", out, "--json"},
        {"generate", DSV3, "--tokens", "1,2,3", "-n", "3", "--tp", "2", "--json"},
        {"extract", DSV3, "--data", data, "--layers", "1,4", "--numbering", "entry", "--format",
         "vllm", "--out", out, "--tp", "2", "--json"},
    };
    setenv("ASSAY_RANK_FAULT", "proc.worker_signal@rank=1,call=1,step=15,signal=9", 1);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct cli r;
        cli_run(&r, verbs[i]);
        assert_int_equal(r.status, 3);
        assert_non_null(strstr(r.err, "assay: rank 1: cause: "));
        assert_non_null(strstr(r.err, "in mla.output, layer 1"));
        const json_t *first = json_array_get(field(r.json, "ranks"), 0);
        assert_int_equal(field_int(first, "rank"), 1);
        assert_string_equal(field_text(first, "op"), "mla.output");
        assert_int_equal(field_int(first, "layer"), 1);
        assert_false(file_exists(out));
        cli_free(&r);
    }
    unsetenv("ASSAY_RANK_FAULT");
}

/* ---- extract ---- */

static void assert_extract_left(const char *folder, int samples, bool finished)
{
    int n = 0;
    for (int i = 0; i < 16; i++) n += file_exists(textf("%s/hs_%d.safetensors", folder, i));
    assert_int_equal(n, samples);
    assert_int_equal(file_exists(textf("%s/manifest.json", folder)), finished);
}

/* Call 0 opens, each batch is one: the third batch loses its rank. */
static void extract__names_the_samples_of_a_lost_batch__and_can_be_taken_up(void **state)
{
    struct extract_result out;
    struct err err;
    char line[ERR_LINE];
    struct extract_request r = extract_asked(state, DSV3, extract_corpus(state, 8), "samples");
    r.layers = "1,4";
    r.batch = 2;
    r.skip_bad = true;
    r.options = over(2, 1, "proc.worker_signal@rank=1,call=3,step=9,signal=9");
    assert_int_equal(extract_of(&r, &out, &err), ERR_PROCESS);
    assert_int_equal(err.rank, 1);
    assert_non_null(strstr(err_line(&err, line, sizeof line), "batch 2"));
    assert_non_null(strstr(line, "samples 4-5"));
    assert_int_equal(out.written, 4);
    const json_t *first = json_array_get(field(out.ranks, "ranks"), 0);
    assert_int_equal(field_int(first, "batch"), 2);
    assert_string_equal(field_text(first, "samples"), "4-5");
    extract_result_free(&out);
    assert_extract_left(r.out, 4, false);
    ranks_assert_no_traces();
    /* Taken up, it gives what a run gives that nothing happened to. */
    r.options = over(2, 1, NULL);
    r.resume = true;
    assert_int_equal(extract_all(&r), 8);
    assert_extract_left(r.out, 8, true);
    struct extract_request clean = r;
    clean.resume = false;
    clean.out = textf("%s/clean", (const char *)*state);
    assert_int_equal(extract_all(&clean), 8);
    assert_true(extract_print(r.out) == extract_print(clean.out));
    /* A run of other ranks has other sums: not the same bytes, not to be mixed. */
    r.options = over(1, 2, NULL);
    assert_int_equal(extract_of(&r, &out, &err), ERR_INPUT);
    extract_result_free(&out);
}

/* A rank that fails with an error can be asked again: the sample at fault is skipped. */
static void extract__goes_on_past_a_bad_sample__with_skip_bad(void **state)
{
    struct extract_result out;
    struct err err;
    const char *model = small_model(state, "m");
    struct st_edit e;
    const char *shard = textf("%s/model.safetensors", model);
    st_edit_read(&e, shard);
    memset(st_edit_data(&e, "language_model.model.embed_tokens.weight") + 2 * (7 * 64 + 5), 0xFF,
           2);
    st_edit_write(&e, shard);
    st_edit_free(&e);
    struct extract_request r = extract_asked(
        state, model, extract_lines(state, "[1, 2]\n[3, 7]\n[5, 6, 1]\n[7]\n[2]\n"), "samples");
    r.layers = "1,3";
    r.skip_bad = true;
    r.options = over(2, 1, NULL);
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    assert_int_equal(out.written, 3);
    assert_int_equal(json_array_size(out.skipped), 2);
    const char *why = field_text(json_array_get(out.skipped, 0), "why");
    assert_non_null(strstr(why, "sample 1"));
    assert_non_null(strstr(why, "embed_tokens.weight row 7, column 5"));
    assert_true(json_array_size(field(out.ranks, "ranks")) > 0);
    extract_result_free(&out);
    json_t *m = extract_manifest(r.out);
    assert_int_equal(json_array_size(field(m, "samples")), 3);
    assert_int_equal(json_array_size(field(m, "skipped")), 2);
    json_decref(m);
    ranks_assert_no_traces();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, both_setup, both_teardown)

/* Of a rank that waits and of the one that it waits for, each line says which: a run that takes
 * long shows who reads what. */
static void rank__shows_what_it_loads(void **state)
{
    struct cli r;
    setenv("ASSAY_LOAD_LINE_S", "0.05", 1);
    setenv("ASSAY_RANK_FAULT", "proc.hang@rank=1,call=1,step=30", 1);
    cli(&r, "forward", K25, "--tokens", "1,2,3,4", "--ep", "2", "--rank-timeout", "2", "--out",
        textf("%s/out", (const char *)*state));
    unsetenv("ASSAY_LOAD_LINE_S");
    unsetenv("ASSAY_RANK_FAULT");
    assert_int_equal(r.status, 3);
    for (int i = 0; i < 2; i++) {
        const char *line = strstr(r.err, textf("rank %d: assay: load: ", i));
        if (!line) fail_msg("rank %d shows no progress:\n%s", i, r.err);
        assert_non_null(strstr(line, "of up to"));
        assert_non_null(strstr(line, ", layer "));
    }
    assert_null(strstr(r.err, "its stderr ends")); /* with that: it is no last word */
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forward__splits_taps_into_pieces__of_any_size),
        TEST(moved_entry__is_moved_on_every_rank),
        TEST(dead_rank__is_named_with_op_and_layer),
        TEST(hung_rank__is_named_with_op_and_layer),
        TEST(hung_rank_alone__is_named_too),
        TEST(rank_that_dies_at_the_opening__is_named),
        TEST(broken_reply__ends_the_run_with_its_rank),
        TEST(rank__shows_what_it_loads),
        TEST(verb__says_the_first_cause_and_lists_the_ranks),
        TEST(every_verb__names_a_dead_rank),
        TEST(extract__names_the_samples_of_a_lost_batch__and_can_be_taken_up),
        TEST(extract__goes_on_past_a_bad_sample__with_skip_bad),
    };
    setenv("ASSAY_PROGRAM_FILE", ASSAY_PROGRAM, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
