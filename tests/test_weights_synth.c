/* test_weights_synth.c: checkpoints made by rule: which tensor gets which scale, and that folders
 * written from them would hold the same values. The stream itself: test_synth.c. */
#include "tests/assert_array.h"
#include "tests/config_texts.h"
#include "tests/support.h"

#include "core/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void opened(void **state, struct weights *w, const char *config, const char *query)
{
    struct err err = ERR_INIT;
    char model[FILE_PATH];
    write_text(folder_path(state, "config.json"), config);
    snprintf(model, sizeof model, "synth:%s%s", folder_path(state, "config.json"), query);
    (void)!weights_open(w, model, &err);
    assert_ok(&err);
}

static void open__takes_seed_and_latent_gain(void **state)
{
    struct weights w;
    opened(state, &w, CONFIG_K25, "?seed=7");
    assert_true(w.synthetic);
    assert_true(w.seed == 7);
    assert_f64_is(w.latent_gain, 1);
    assert_int_equal(w.file_count, 0);
    assert_null(weights_stored(&w, "anything"));
    weights_close(&w);
    opened(state, &w, CONFIG_K25, "?latent_gain=0.25&seed=18446744073709551615");
    assert_true(w.seed == UINT64_MAX);
    assert_f64_is(w.latent_gain, 0.25);
    weights_close(&w);
}

static void open__refuses_queries_it_does_not_understand(void **state)
{
    static const struct {
        const char *query, *found;
    } rows[] = {{"", "no seed"},
                {"?", "no seed"},
                {"?seed=", "\"seed=\""},
                {"?seed=x", "\"seed=x\""},
                {"?seed=-1", "\"seed=-1\""},
                {"?seed=1&gain=2", "\"gain=2\""},
                {"?latent_gain=2", "no seed"},
                {"?seed=1&latent_gain=inf", "\"latent_gain=inf\""},
                {"?seed=1&latent_gain=nan", "latent_gain=nan"},
                {"?seed=1.5", "\"seed=1.5\""}};
    write_text(folder_path(state, "config.json"), CONFIG_K25);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        struct weights w;
        char model[FILE_PATH];
        snprintf(model, sizeof model, "synth:%s%s", folder_path(state, "config.json"),
                 rows[i].query);
        assert_int_equal(weights_open(&w, model, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "open model", "synth:", rows[i].found, "seed=N");
        weights_close(&w);
    }
    struct err err = ERR_INIT;
    struct weights w;
    assert_int_equal(weights_open(&w, "synth:none.json?seed=1", &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "none.json", "No such file", NULL);
    weights_close(&w);
}

static void open__refuses_quantisation_without_a_rule(void **state)
{
    char *asymmetric = replaced(CONFIG_K25, "\"symmetric\": true", "\"symmetric\": false");
    char *ordered = replaced(CONFIG_K25, "\"actorder\": null", "\"actorder\": \"group\"");
    const char *const bad[] = {CONFIG_DSV3, asymmetric, ordered};
    for (int i = 0; i < 3; i++) {
        struct err err = ERR_INIT;
        struct weights w;
        char model[FILE_PATH];
        write_text(folder_path(state, "config.json"), bad[i]);
        snprintf(model, sizeof model, "synth:%s?seed=1", folder_path(state, "config.json"));
        assert_int_equal(weights_open(&w, model, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "open model", "config.json",
                   "quantisation that has no synthetic rule", NULL);
        weights_close(&w);
    }
    free(asymmetric);
    free(ordered);
}

/* The table of the synthetic checkpoint's description, row by row, at seed 7. */
static const struct {
    const char *name;
    int dims;
    int64_t shape[2];
    enum dtype dtype;
    double scale, offset;
} rules[] = {
    {"language_model.model.embed_tokens.weight", 2, {48, 64}, DT_BF16, 1.7320508075688772, 0},
    {"language_model.model.norm.weight", 1, {64}, DT_BF16, 0.25, 1},
    {"language_model.model.layers.0.input_layernorm.weight", 1, {64}, DT_BF16, 0.25, 1},
    {"language_model.model.layers.0.self_attn.q_a_layernorm.weight", 1, {24}, DT_BF16, 0.25, 1},
    {"language_model.model.layers.0.self_attn.q_a_proj.weight",
     2,
     {24, 64},
     DT_BF16,
     0.5 * 0.21650635094610965,
     0},
    {"language_model.model.layers.0.self_attn.kv_a_proj_with_mqa.weight",
     2,
     {24, 64},
     DT_BF16,
     0.5 * 0.21650635094610965,
     0},
    {"language_model.model.layers.0.self_attn.q_b_proj.weight",
     2,
     {48, 24},
     DT_BF16,
     0.35355339059327379,
     0},
    {"language_model.model.layers.0.mlp.gate_proj.weight",
     2,
     {80, 64},
     DT_BF16,
     0.21650635094610965,
     0},
    {"language_model.model.layers.1.mlp.gate.weight",
     2,
     {4, 64},
     DT_BF16,
     2 * 0.21650635094610965,
     0},
    {"language_model.model.layers.1.mlp.gate.e_score_correction_bias", 1, {4}, DT_F32, 0.1, 0},
    {"language_model.model.layers.1.mlp.shared_experts.up_proj.weight",
     2,
     {32, 64},
     DT_BF16,
     0.21650635094610965,
     0},
    {"language_model.lm_head.weight", 2, {48, 64}, DT_BF16, 2 * 0.21650635094610965, 0},
};

static void tensor__follows_the_rule_of_its_name(void **state)
{
    struct weights w;
    opened(state, &w, CONFIG_K25, "?seed=7&latent_gain=0.5");
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        struct err err = ERR_INIT;
        struct tensor t;
        (void)!weights_tensor(&w, rules[r].name, DT_COUNT, rules[r].dims, rules[r].shape, &t, &err);
        assert_ok(&err);
        assert_int_equal(t.dtype, rules[r].dtype);
        assert_null(t.data);
        unsigned char buf[10 * 4];
        double got[10], want[10];
        int64_t first = tensor_count(&t) > 13 ? 3 : 0, n = tensor_count(&t) > 13 ? 10 : 4;
        dtype_to_f64(t.dtype, tensor_elements(&t, first, n, buf), n, got);
        for (int64_t i = 0; i < n; i++) {
            volatile float v =
                (float)synth_u(synth_base(7, rules[r].name), first + i) * (float)rules[r].scale;
            if (rules[r].offset != 0) v = v + (float)rules[r].offset;
            want[i] = dtype_round(t.dtype, (double)v);
        }
        assert_f64_bits(got, want, 1, n);
    }
    weights_close(&w);
}

static void packed__makes_codes_and_scales(void **state)
{
    static const char name[] = "language_model.model.layers.1.mlp.experts.3.up_proj";
    struct err err = ERR_INIT;
    struct weights w;
    struct matrix m;
    opened(state, &w, CONFIG_K25, "?seed=7");
    (void)!weights_matrix(&w, name, 32, 64, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_PACKED);
    assert_int_equal(m.data.shape[1], 8);
    assert_int_equal(m.scale.shape[1], 2);
    assert_f64_is((double)m.scale.rule.scale, (double)(float)(1 / (4.6098 * sqrt(64))));
    uint32_t codes[3];
    uint64_t base =
        synth_base(7, "language_model.model.layers.1.mlp.experts.3.up_proj.weight_packed");
    assert_ptr_equal(tensor_elements(&m.data, 1, 3, codes), codes);
    assert_int_equal(codes[0], (uint32_t)(synth_x(base, 0) >> 32));
    assert_int_equal(codes[2], (uint32_t)(synth_x(base, 1) >> 32));
    uint16_t scale[4];
    base = synth_base(7, "language_model.model.layers.1.mlp.experts.3.up_proj.weight_scale");
    (void)tensor_elements(&m.scale, 5, 4, scale);
    for (int i = 0; i < 4; i++) {
        volatile float inner = (float)(synth_u(base, 5 + i) * 0.5 + 1);
        volatile float value = inner * (float)(1 / (4.6098 * sqrt(64)));
        assert_int_equal(scale[i], bf16_from_f32(value));
    }
    weights_close(&w);
}

static void matrix__is_dense__where_the_config_does_not_quantise(void **state)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct matrix m;
    opened(state, &w, CONFIG_K25, "?seed=1");
    (void)!weights_matrix(&w, "language_model.model.layers.1.mlp.shared_experts.up_proj", 32, 64,
                          &m, &err);
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_DENSE);
    weights_close(&w);
    opened(state, &w, CONFIG_PLAIN, "?seed=1");
    (void)!weights_matrix(&w, "model.layers.1.mlp.experts.0.up_proj", 32, 64, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_DENSE);
    weights_close(&w);
}

static void tensor__is_refused__when_no_rule_makes_its_name_or_type(void **state)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct tensor t;
    const int64_t shape[1] = {4};
    opened(state, &w, CONFIG_K25, "?seed=1");
    assert_int_equal(weights_tensor(&w, "model.inv_freq", DT_COUNT, 1, shape, &t, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "make tensor", "model.inv_freq", "a name without a synthetic rule",
               NULL);
    err_clear(&err);
    assert_int_equal(weights_tensor(&w, "model.norm.weight", DT_F32, 1, shape, &t, &err),
                     ERR_INPUT);
    assert_err(&err, ERR_INPUT, "make tensor", "model.norm.weight", "BF16", "F32");
    weights_close(&w);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(open__takes_seed_and_latent_gain),
        in_folder(open__refuses_queries_it_does_not_understand),
        in_folder(open__refuses_quantisation_without_a_rule),
        in_folder(tensor__follows_the_rule_of_its_name),
        in_folder(packed__makes_codes_and_scales),
        in_folder(matrix__is_dense__where_the_config_does_not_quantise),
        in_folder(tensor__is_refused__when_no_rule_makes_its_name_or_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
