/* test_extract.c: samples hold what torch wrote from transformers' states of the same tokens, to
 * the rounding of bf16; their bytes do not depend on batches, chunks or threads; a bad sample is
 * named and costs no other one. */
#include "core/digest.h"
#include "tests/extracting.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- against samples of other hands ---- */

static const struct {
    enum sample_format format;
    const char *name[2];
} oracle[] = {
    {SAMPLE_V03, {"speculators-v03/data_0.pt", "speculators-v03/data_1.pt"}},
    {SAMPLE_VLLM, {"vllm/hs_0.safetensors", "vllm/hs_1.safetensors"}},
    {SAMPLE_SPECFORGE, {"specforge/rows_0-2000/data_0.ckpt", "specforge/rows_0-2000/data_1.ckpt"}},
};

static void add_numbers(FILE *f, const char *key, const int64_t *v, int64_t n)
{
    fprintf(f, "\"%s\": [", key);
    for (int64_t i = 0; i < n; i++) fprintf(f, "%s%lld", i ? ", " : "", (long long)v[i]);
    fprintf(f, "]");
}

/* Tokens and masks of the two samples as JSONL. */
static const char *lines_of_oracle(void **state, int which)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (int n = 0; n < 2; n++) {
        struct sample_file s;
        struct err err = ERR_INIT;
        (void)!sample_open(&s,
                           textf("%s/fixtures/samples/%s", ASSAY_SOURCE_DIR, oracle[which].name[n]),
                           256, &err);
        assert_ok(&err);
        fprintf(f, "{");
        add_numbers(f, "input_ids", s.sample.token, s.sample.rows);
        if (s.sample.mask) {
            fprintf(f, ", ");
            add_numbers(f, "loss_mask", s.sample.mask, s.sample.rows);
        }
        fprintf(f, "}\n");
        sample_close(&s);
    }
    fclose(f);
    const char *path = extract_lines(state, text);
    free(text);
    return path;
}

static const uint16_t *row_of(const struct sample *s, int k, int64_t row)
{
    return (const uint16_t *)s->state[k] + row * s->stride[k];
}

/* Equal bits but for a few in a thousand, which lie one rounding of the row's scale away. */
static void assert_close(const struct sample *a, const struct sample *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->states, b->states);
    assert_int_equal(a->dtype, DT_BF16);
    assert_int_equal(b->dtype, DT_BF16);
    assert_memory_equal(a->token, b->token, (size_t)a->rows * sizeof *a->token);
    for (int k = 0; k < a->states; k++) {
        int64_t differing = 0;
        for (int64_t r = 0; r < a->rows; r++) {
            const uint16_t *x = row_of(a, k, r), *y = row_of(b, k, r);
            double squares = 0;
            for (int64_t c = 0; c < a->hidden; c++)
                squares += (double)bf16_to_f32(y[c]) * bf16_to_f32(y[c]);
            double scale = sqrt(squares / (double)a->hidden);
            for (int64_t c = 0; c < a->hidden; c++) {
                double u = bf16_to_f32(x[c]), v = bf16_to_f32(y[c]);
                differing += x[c] != y[c];
                if (!(fabs(u - v) <= fabs(v) / 128 + 1e-4 * scale))
                    fail_msg("state %d, row %lld, column %lld: %g, not %g", k, (long long)r,
                             (long long)c, u, v);
            }
        }
        double share = (double)differing / (double)(a->rows * a->hidden);
        if (!(share < 0.005)) fail_msg("state %d: %g of its elements differ", k, share);
    }
}

static void samples__are_those_of_torch_and_transformers__to_bf16_rounding(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct extract_request r =
            extract_asked(state, FIXTURE("tiny-k25"), lines_of_oracle(state, i), textf("out%d", i));
        r.format = oracle[i].format;
        r.layers = "1,2,4,5";
        r.numbering = "output";
        assert_int_equal(extract_all(&r), 2);
        for (int n = 0; n < 2; n++) {
            struct sample_file own, other;
            struct err err = ERR_INIT;
            const char *name = strchr(oracle[i].name[n], '/') + 1;
            (void)!sample_open(&own, textf("%s/%s", r.out, name), 256, &err);
            (void)!sample_open(&other,
                               textf("%s/fixtures/samples/%s", ASSAY_SOURCE_DIR, oracle[i].name[n]),
                               256, &err);
            assert_ok(&err);
            assert_close(&own.sample, &other.sample);
            assert_int_equal(own.sample.last_normed, r.format == SAMPLE_SPECFORGE);
            if (other.sample.mask)
                assert_memory_equal(own.sample.mask, other.sample.mask,
                                    (size_t)other.sample.rows * sizeof(int64_t));
            sample_close(&own);
            sample_close(&other);
        }
    }
}

/* ---- the same bytes ---- */

static void bytes__do_not_depend__on_batch_chunks_or_threads(void **state)
{
    static const struct {
        int64_t batch, tokens, chunk;
        int threads;
    } ways[] = {{1, 4096, 0, 1}, {3, 4096, 5, 2},  {7, 4096, 1, 2}, {0, 1, 16, 2},
                {0, 11, 0, 3},   {2, 4096, 16, 2}, {0, 30, 5, 1}};
    const char *model = small_model(state, "m"), *data = extract_corpus(state, 9);
    struct extract_request r = extract_asked(state, model, data, "whole");
    r.draft_vocab = 20;
    assert_int_equal(extract_all(&r), 9);
    uint64_t print = extract_print(r.out);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        r.out = textf("%s/way%zu", (const char *)*state, i);
        r.batch = ways[i].batch;
        r.batch_tokens = ways[i].tokens;
        r.options.chunk = ways[i].chunk;
        r.options.threads = ways[i].threads;
        assert_int_equal(extract_all(&r), 9);
        assert_true(extract_print(r.out) == print);
    }
}

static void states__are_rounded__as_dtype_and_profile_say(void **state)
{
    static const struct {
        enum dtype dtype;
        const char *profile;
        bool coarse; /* every value is one of bf16 */
    } rows[] = {{DT_COUNT, "math", true},
                {DT_F32, "math", false},
                {DT_F32, "vllm", true},
                {DT_F16, "math", false}};
    struct sample_file bf16, f;
    struct err err = ERR_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct extract_request r =
            extract_asked(state, FIXTURE("tiny-k25"), "1,489,120,136", textf("out%zu", i));
        r.layers = "2,3,5,6";
        r.dtype = rows[i].dtype;
        (void)!profile_find(rows[i].profile, &r.options.profile, &err);
        assert_int_equal(extract_all(&r), 1);
        (void)!sample_open(&f, textf("%s/hs_0.safetensors", r.out), 256, &err);
        assert_ok(&err);
        assert_int_equal(f.sample.dtype, rows[i].dtype == DT_COUNT ? DT_BF16 : rows[i].dtype);
        if (i == 0) bf16 = f;
        int64_t coarse = 0;
        for (int64_t c = 0; c < 256; c++) {
            double x, y;
            dtype_to_f64(f.sample.dtype,
                         (const char *)f.sample.state[3] + c * dtype_size(f.sample.dtype), 1, &x);
            dtype_to_f64(DT_BF16, (const char *)bf16.sample.state[3] + c * 2, 1, &y);
            coarse += dtype_round(DT_BF16, x) == x;
            /* One rounding of the same number, whatever the type. */
            if (i == 1) assert_true(dtype_round(DT_BF16, x) == y);
        }
        assert_int_equal(coarse == 256, rows[i].coarse);
        if (i) sample_close(&f);
    }
    sample_close(&bf16);
}

/* ---- bad samples ---- */

/* Writes a value of bf16 over the first n elements of a tensor from `first` on. */
static void edit_model(const char *model, const char *tensor, int64_t first, int64_t n,
                       uint16_t value)
{
    struct st_edit e;
    const char *path = textf("%s/model.safetensors", model);
    st_edit_read(&e, path);
    for (int64_t i = first; i < first + n; i++)
        memcpy(st_edit_data(&e, tensor) + 2 * i, &value, sizeof value);
    st_edit_write(&e, path);
    st_edit_free(&e);
}

enum { NAN_BF16 = 0x7FC0, HUGE_BF16 = 0x7F00, BIG_BF16 = 0x4780 /* 65536 */ };

static const char *const mixed = "[1, 2]\n[3, 7, 4]\n[5, 6, 1]\n[7]\n[2]\n";

/* Samples 1 and 3 hold token 7. */
static void assert_spares_others(void **state, const char *model, enum dtype dtype, const char *why)
{
    struct extract_result out;
    struct err err;
    struct extract_request r = extract_asked(state, model, extract_lines(state, mixed), "out");
    r.dtype = dtype;
    r.skip_bad = true;
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    assert_err(&err, ERR_DIFF, "extract", "out", "2 of 5 samples skipped", "sample 1");
    assert_int_equal(out.written, 3);
    assert_int_equal(json_array_size(out.skipped), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_array_get(out.skipped, i);
        assert_int_equal(field_int(v, "sample"), 1 + 2 * (int)i);
        assert_int_equal(field_int(v, "batch"), 0);
        if (!strstr(field_text(v, "why"), why)) fail_msg("%s", field_text(v, "why"));
        assert_non_null(strstr(field_text(v, "why"), i ? "sample 3" : "sample 1"));
    }
    extract_result_free(&out);
    json_t *m = extract_manifest(r.out);
    assert_int_equal(json_array_size(field(m, "samples")), 3);
    assert_int_equal(json_array_size(field(m, "skipped")), 2);
    assert_int_equal(field_int(m, "written"), 3);
    json_decref(m);
    /* Those of a clean run of the same samples, alone. */
    r.data = extract_lines(state, "[1, 2]\n[5, 6, 1]\n[2]\n");
    r.out = textf("%s/clean", (const char *)*state);
    assert_int_equal(extract_all(&r), 3);
    static const int number[3] = {0, 2, 4};
    err_clear(&err);
    for (int i = 0; i < 3; i++) {
        char a[DIGEST_TEXT], b[DIGEST_TEXT];
        const char *folder = *state;
        (void)!digest_file(textf("%s/clean/hs_%d.safetensors", folder, i), a, &err);
        (void)!digest_file(textf("%s/out/hs_%d.safetensors", folder, number[i]), b, &err);
        assert_ok(&err);
        assert_string_equal(a, b);
    }
}

static void bad_sample__is_named_and_spares_the_others__when_a_weight_is_nan(void **state)
{
    const char *model = small_model(state, "m");
    edit_model(model, "language_model.model.embed_tokens.weight", 7 * 64 + 5, 1, NAN_BF16);
    assert_spares_others(state, model, DT_COUNT,
                         "embed_tokens.weight row 7, column 5: found NaN, wanted a finite number");
}

static void bad_sample__is_named_and_spares_the_others__when_a_state_is_out_of_range(void **state)
{
    const char *model = small_model(state, "m");
    edit_model(model, "language_model.model.embed_tokens.weight", 7 * 64, 1, BIG_BF16);
    assert_spares_others(state, model, DT_F16, "wanted a number that F16 holds");
}

/* Weights that are finite, and a product that is not. */
static void every_sample__is_named_with_the_layer__where_infinity_arises(void **state)
{
    struct extract_result out;
    struct err err;
    const char *model = small_model(state, "m");
    edit_model(model, SMALL_LAYER(1) "mlp.shared_experts.down_proj.weight", 0, 32 * 64, HUGE_BF16);
    struct extract_request r = extract_asked(state, model, extract_lines(state, mixed), "out");
    r.layers = "1,3";
    r.skip_bad = true;
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    assert_err(&err, ERR_DIFF, "extract", "out", "5 of 5 samples skipped", NULL);
    assert_int_equal(out.written, 0);
    const char *why = field_text(json_array_get(out.skipped, 2), "why");
    assert_non_null(strstr(why, "sample 2: output of layer 1 (entry id 2), row 0"));
    assert_non_null(strstr(why, "NaN or infinity"));
    extract_result_free(&out);
    r.skip_bad = false;
    r.out = textf("%s/stopped", (const char *)*state);
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    assert_err(&err, ERR_DIFF, "extract", "sample 0: output of layer 1 (entry id 2), row 0",
               "NaN or infinity", NULL);
    assert_string_equal(err.note[err.notes - 1], "batch 0");
    extract_result_free(&out);
    assert_false(file_exists(r.out)); /* nothing was settled */
}

static void run__stops_at_a_bad_sample__and_can_go_on(void **state)
{
    struct extract_result out;
    struct err err;
    const char *model = small_model(state, "m");
    const char *data = extract_lines(state, "[1, 2]\n[3]\n[4, 48]\n[]\n[5]\n");
    struct extract_request r = extract_asked(state, model, data, "out");
    for (int go = 0; go < 2; go++) { /* the second time it stops at the same place */
        r.resume = go;
        assert_int_equal(extract_of(&r, &out, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "read sample", "sample 2 (line 3): input_ids[1]", "48",
                   "0 to 47");
        assert_string_equal(err.note[err.notes - 1], "batch 0");
        assert_int_equal(out.written, go ? 0 : 2);
        assert_int_equal(out.resumed, go ? 2 : 0);
        extract_result_free(&out);
        assert_true(file_exists(textf("%s/hs_1.safetensors", r.out)));
        assert_false(file_exists(textf("%s/manifest.json", r.out)));
    }
    r.skip_bad = true;
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    assert_int_equal(out.written, 1);
    assert_int_equal(out.resumed, 2);
    assert_int_equal(json_array_size(out.skipped), 2);
    extract_result_free(&out);
    uint64_t print = extract_print(r.out);
    r.out = textf("%s/whole", (const char *)*state);
    r.resume = false;
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    extract_result_free(&out);
    assert_true(extract_print(r.out) == print);
    r.resume = true; /* finished with skipped ones: still no pass */
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    assert_int_equal(out.resumed, 3);
    assert_int_equal(json_array_size(out.skipped), 2);
    extract_result_free(&out);
}

/* ---- what lies beside ---- */

static void manifest__says_what_the_samples_are(void **state)
{
    struct extract_result out;
    struct err err;
    const char *model = small_model(state, "m");
    const char *data =
        extract_lines(state, "{\"input_ids\": [1, 2], \"loss_mask\": [0, 1]}\n[3]\n");
    struct extract_request r = extract_asked(state, model, data, "out");
    r.layers = "0,1";
    r.numbering = "output";
    (void)!extract_of(&r, &out, &err);
    assert_ok(&err);
    assert_int_equal(json_array_size(out.warnings), 2);
    assert_non_null(strstr(json_string_value(json_array_get(out.warnings, 0)),
                           "not the model's last hidden: it is entry id 2 (output of layer 1), the "
                           "last hidden is entry id 3 (output of layer 2)"));
    assert_non_null(
        strstr(json_string_value(json_array_get(out.warnings, 1)), "1 samples without loss_mask"));
    extract_result_free(&out);
    json_t *m = extract_manifest(r.out), *ids = json_pack("[i, i]", 0, 1),
           *entry = json_pack("[i, i]", 1, 2);
    assert_true(json_equal(field(m, "layer_ids"), ids));
    assert_true(json_equal(field(m, "output_ids"), ids));
    assert_true(json_equal(field(m, "entry_ids"), entry));
    assert_string_equal(field_text(m, "numbering"), "output");
    assert_string_equal(field_text(m, "dtype"), "BF16");
    assert_string_equal(field_text(m, "profile"), "math");
    assert_string_equal(field_text(m, "engine"), "assay ref");
    assert_int_equal(strlen(field_text(m, "config_sha256")), 64);
    assert_true(json_is_false(field(m, "last_is_hidden")));
    const json_t *samples = field(m, "samples");
    for (size_t i = 0; i < 2; i++) {
        const json_t *s = json_array_get(samples, i);
        char sum[DIGEST_TEXT];
        assert_int_equal(digest_file(textf("%s/%s", r.out, field_text(s, "file")), sum, &err),
                         ERR_OK);
        assert_string_equal(field_text(s, "sha256"), sum);
        assert_int_equal(field_int(s, "tokens"), 2 - (int)i);
    }
    json_decref(m);
    json_decref(ids);
    json_decref(entry);
}

/* Tokens with mask 1, of samples that were written. */
static void token_freq__counts_what_the_mask_keeps(void **state)
{
    struct extract_result out;
    struct pt_file f;
    struct err err;
    const char *lines = "{\"input_ids\": [1, 2, 2, 9], \"loss_mask\": [1, 1, 1, 0]}\n"
                        "{\"input_ids\": [9, 48], \"loss_mask\": [1, 1]}\n"
                        "{\"input_ids\": [5, 2], \"loss_mask\": [0, 1]}\n";
    struct extract_request r =
        extract_asked(state, small_model(state, "m"), extract_lines(state, lines), "out");
    r.skip_bad = true;
    assert_int_equal(extract_of(&r, &out, &err), ERR_DIFF);
    extract_result_free(&out);
    err_clear(&err);
    (void)!pt_open(&f, textf("%s/token_freq.pt", r.out), &err);
    assert_ok(&err);
    assert_int_equal(f.root.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f.root.keys[i].whole, i + 1);
        assert_int_equal(f.root.items[i].whole, i ? 3 : 1);
    }
    pt_close(&f);
}

static void beside__lies_what_each_trainer_reads(void **state)
{
    const char *model = small_model(state, "m"), *data = extract_corpus(state, 4);
    static const char *const files[SAMPLE_FORMATS][6] = {
        [SAMPLE_V03] = {"data_3.pt", "data_config.json", "token_freq.pt", "d2t.npy", "t2d.npy"},
        [SAMPLE_VLLM] = {"hs_3.safetensors", "token_freq.pt", "d2t.npy", "t2d.npy"},
        [SAMPLE_SPECFORGE] = {"rows_0-2000/data_3.ckpt", "vocab_mapping/vocab_mapping.pt"},
    };
    for (int f = 0; f < SAMPLE_FORMATS; f++) {
        struct sample_set set;
        struct err err = ERR_INIT;
        struct extract_request r = extract_asked(state, model, data, textf("out%d", f));
        r.format = (enum sample_format)f;
        r.layers = "1,3";
        r.draft_vocab = 9;
        assert_int_equal(extract_all(&r), 4);
        for (int i = 0; files[f][i]; i++)
            assert_true(file_exists(textf("%s/%s", r.out, files[f][i])));
        (void)!sample_set_open(&set, r.out, &err);
        assert_ok(&err);
        assert_int_equal(set.count, 4);
        assert_int_equal(set.layer_count, 2);
        assert_int_equal(set.layer_ids[1], 3);
        assert_string_equal(set.numbering, "entry");
        assert_int_equal(set.draft_vocab, 9);
        assert_int_equal(set.vocab, 48);
        sample_set_close(&set);
    }
    json_t *c = json_load_file(textf("%s/out0/data_config.json", (const char *)*state), 0, NULL);
    assert_string_equal(field_text(c, "version"), "2.0");
    assert_int_equal(field_int(c, "data_format_version"), 1);
    const json_t *ids = field(field(c, "hidden_states"), "layer_ids");
    assert_int_equal(json_integer_value(json_array_get(ids, 0)), 0); /* as that tool counts */
    assert_int_equal(json_integer_value(json_array_get(ids, 1)), 2);
    json_decref(c);
}

static void ids__are_refused__when_the_format_cannot_hold_them(void **state)
{
    static const struct {
        enum sample_format format;
        const char *layers, *found, *wanted;
    } rows[] = {
        {SAMPLE_V03, "0,1,3", "the embedding", "1 or more: speculators-v0.3 counts the outputs"},
        {SAMPLE_SPECFORGE, "0,3", "the embedding", "specforge counts the outputs"},
        {SAMPLE_SPECFORGE, "1,2", "last entry id 2", "entry id 3 (output 2): specforge stores"},
        {SAMPLE_SPECFORGE, "3", "last entry id 3 of 1", "aux ids and then entry id 3"},
        {SAMPLE_VLLM, "1,4", "4", "0 to 3 in entry numbering"},
    };
    const char *model = small_model(state, "m"), *data = extract_corpus(state, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct extract_result out;
        struct err err;
        struct extract_request r = extract_asked(state, model, data, "out");
        r.format = rows[i].format;
        r.layers = rows[i].layers;
        assert_int_equal(extract_of(&r, &out, &err), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "option", "--layers", rows[i].found, rows[i].wanted);
        extract_result_free(&out);
        assert_false(file_exists(r.out));
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(samples__are_those_of_torch_and_transformers__to_bf16_rounding),
        TEST(bytes__do_not_depend__on_batch_chunks_or_threads),
        TEST(states__are_rounded__as_dtype_and_profile_say),
        TEST(bad_sample__is_named_and_spares_the_others__when_a_weight_is_nan),
        TEST(bad_sample__is_named_and_spares_the_others__when_a_state_is_out_of_range),
        TEST(every_sample__is_named_with_the_layer__where_infinity_arises),
        TEST(run__stops_at_a_bad_sample__and_can_go_on),
        TEST(manifest__says_what_the_samples_are),
        TEST(token_freq__counts_what_the_mask_keeps),
        TEST(beside__lies_what_each_trainer_reads),
        TEST(ids__are_refused__when_the_format_cannot_hold_them),
    };
    return cmocka_run_group_tests_name("extract", tests, NULL, NULL);
}
