/* test_layout.c: the list of wanted tensors, against the published sizes of Kimi K2.5, against
 * checkpoints that others wrote, and against what the reader binds. */
#include "core/layout.h"

#include "core/model.h"
#include "tests/config_texts.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config parsed(const char *text)
{
    struct err err = ERR_INIT;
    struct config c;
    (void)!config_parse(text, (int64_t)strlen(text), "test", &c, &err);
    assert_ok(&err);
    return c;
}

static struct layout made(const struct config *c, struct layout_choice choice)
{
    struct err err = ERR_INIT;
    struct layout l;
    (void)!layout_make(&l, c, &choice, &err);
    assert_ok(&err);
    return l;
}

static const struct layout_tensor *find(const struct layout *l, const char *name)
{
    for (int64_t i = 0; i < l->count; i++) {
        if (strcmp(l->tensors[i].name, name) == 0) return &l->tensors[i];
    }
    return NULL;
}

static void has(const struct layout *l, const char *name, enum layout_kind kind, int64_t rows,
                int64_t cols)
{
    const struct layout_tensor *t = find(l, name);
    if (!t) fail_msg("no %s", name);
    assert_int_equal(t->kind, kind);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->dims, cols ? 2 : 1);
    if (cols) assert_int_equal(t->shape[1], cols);
}

static int64_t bytes_of(const struct layout *l)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < l->count; i++) {
        const struct layout_tensor *t = &l->tensors[i];
        bool bias = strstr(t->name, "e_score_correction_bias") != NULL;
        int64_t n = t->shape[0] * (t->dims == 2 ? t->shape[1] : 1);
        sum += n * (t->kind == LAYOUT_CODES || t->kind == LAYOUT_PAIR || bias ? 4 : 2);
    }
    return sum;
}

/* 208,215 text tensors of 594,205,904,896 bytes: counted from the published checkpoint. */
static void list__has_the_published_size_of_k25(void **state)
{
    (void)state;
    char *text = read_whole(ASSAY_SOURCE_DIR "/fixtures/full-k25-2l/config.json", NULL);
    struct config c = parsed(text);
    c.layers = 61;
    c.vocab = 163840; /* the fixture has fewer rows */
    struct layout l = made(&c, (struct layout_choice){.weight_shapes = true});
    assert_int_equal(l.count, 208215);
    assert_true(bytes_of(&l) == 594205904896);
#define T "language_model.model.layers.60."
    has(&l, "language_model.lm_head.weight", LAYOUT_REAL, 163840, 7168);
    has(&l, T "self_attn.kv_b_proj.weight", LAYOUT_REAL, 16384, 512);
    has(&l, T "mlp.gate.e_score_correction_bias", LAYOUT_REAL, 384, 0);
    has(&l, T "mlp.experts.383.down_proj.weight_packed", LAYOUT_CODES, 7168, 256);
    has(&l, T "mlp.experts.383.down_proj.weight_scale", LAYOUT_SCALE, 7168, 64);
    has(&l, T "mlp.experts.383.down_proj.weight_shape", LAYOUT_PAIR, 2, 0);
    assert_null(find(&l, "language_model.model.layers.61.input_layernorm.weight"));
    const struct layout_tensor *t = find(&l, T "mlp.experts.383.gate_proj.weight_shape");
    assert_non_null(t);
    assert_int_equal(t->layer, 60);
    assert_int_equal(t->expert, 383);
    assert_int_equal(t->out, 2048);
    assert_int_equal(t->in, 7168);
    layout_free(&l);
    layout_free(&l);
    free(text);
}

static void list__follows_the_quantisation(void **state)
{
    (void)state;
    struct config c = parsed(CONFIG_K25);
#define X "language_model.model.layers.1.mlp.experts.0."
    struct layout l = made(&c, (struct layout_choice){0});
    has(&l, X "up_proj.weight_packed", LAYOUT_CODES, 32, 8);
    assert_null(find(&l, X "up_proj.weight_shape"));
    assert_null(find(&l, X "up_proj.weight_zero_point"));
    layout_free(&l);
    c.quant.symmetric = false;
    c.quant.act_order = true;
    c.quant.group = 0;
    l = made(&c, (struct layout_choice){0});
    has(&l, X "down_proj.weight_scale", LAYOUT_SCALE, 64, 1);
    has(&l, X "down_proj.weight_zero_point", LAYOUT_CODES, 8, 1);
    has(&l, X "down_proj.weight_g_idx", LAYOUT_CODES, 32, 0);
    layout_free(&l);
    c.quant.kind = QUANT_FP8_BLOCK;
    c.quant.block[0] = c.quant.block[1] = 48;
    l = made(&c, (struct layout_choice){0});
    has(&l, X "down_proj.weight", LAYOUT_FP8, 64, 32);
    has(&l, X "down_proj.weight_scale_inv", LAYOUT_BLOCK, 2, 1);
    has(&l, "language_model.model.layers.1.mlp.gate.weight", LAYOUT_REAL, 4, 64);
    layout_free(&l);
    c.quant.kind = QUANT_NONE;
    c.tied_embeddings = true;
    c.q_lora = 0;
    c.topk_method = TOPK_GREEDY;
    l = made(&c, (struct layout_choice){0});
    has(&l, X "down_proj.weight", LAYOUT_REAL, 64, 32);
    has(&l, "language_model.model.layers.0.self_attn.q_proj.weight", LAYOUT_REAL, 48, 64);
    assert_null(find(&l, "language_model.lm_head.weight"));
    assert_null(find(&l, "language_model.model.layers.0.self_attn.q_a_proj.weight"));
    assert_null(find(&l, "language_model.model.layers.1.mlp.gate.e_score_correction_bias"));
    layout_free(&l);
}

struct held {
    const char *name;
    enum dtype dtype;
};

static enum dtype holds(void *ctx, const char *name)
{
    const struct held *h = ctx;
    for (; h->name; h++) {
        if (strcmp(h->name, name) == 0) return h->dtype;
    }
    return DT_COUNT;
}

static void list__takes_what_is_stored__where_the_config_leaves_it_open(void **state)
{
    (void)state;
#define O "language_model.model.layers.0.self_attn.o_proj."
    struct config c = parsed(CONFIG_K25);
    struct held packed[] = {{O "weight_packed", DT_I32}, {NULL, DT_COUNT}},
                dense[] = {{O "weight", DT_BF16}, {NULL, DT_COUNT}},
                both[] = {{O "weight", DT_BF16}, {O "weight_scale_inv", DT_F32}, {NULL, DT_COUNT}};
    struct layout l = made(&c, (struct layout_choice){.stored = holds, .ctx = packed});
    has(&l, O "weight_packed", LAYOUT_CODES, 64, 3);
    assert_null(find(&l, O "weight"));
    layout_free(&l);
    c.quant.kind = QUANT_FP8_BLOCK;
    c.quant.block[0] = c.quant.block[1] = 128;
    l = made(&c, (struct layout_choice){.stored = holds, .ctx = dense});
    has(&l, O "weight", LAYOUT_REAL, 64, 24);
    layout_free(&l);
    l = made(&c, (struct layout_choice){.stored = holds, .ctx = both});
    has(&l, O "weight", LAYOUT_FP8, 64, 24);
    layout_free(&l);
}

/* Written by transformers and compressed-tensors: the same names, shapes and types. */
static void list__is_what_others_write(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct st_file f;
    char *text = read_whole(ASSAY_SOURCE_DIR "/fixtures/tiny-k25/config.json", NULL);
    struct config c = parsed(text);
    struct layout l = made(&c, (struct layout_choice){.weight_shapes = true});
    (void)!st_open(&f, ASSAY_SOURCE_DIR "/fixtures/tiny-k25/model.safetensors", &err);
    assert_ok(&err);
    assert_int_equal(l.count, f.count);
    for (int64_t i = 0; i < l.count; i++) {
        const struct layout_tensor *t = &l.tensors[i];
        const struct st_tensor *s = st_find(&f, t->name);
        if (!s) fail_msg("no %s", t->name);
        assert_int_equal(s->dims, t->dims);
        assert_memory_equal(s->shape, t->shape, (size_t)t->dims * sizeof *t->shape);
        assert_true(layout_dtype_fits(&c, t->kind, s->dtype));
        assert_in_range(t->role, 0, layout_roles() - 1);
    }
    st_close(&f);
    layout_free(&l);
    free(text);
}

/* What the list says is enough: the reader binds a checkpoint of exactly these tensors. */
static void list__is_enough_for_the_reader(void **state)
{
    struct err err = ERR_INIT;
    struct config c = parsed(CONFIG_K25);
    struct layout l = made(&c, (struct layout_choice){0});
    struct st_part *parts = calloc((size_t)l.count, sizeof *parts);
    assert_non_null(parts);
    for (int64_t i = 0; i < l.count; i++) {
        const struct layout_tensor *t = &l.tensors[i];
        parts[i] = (struct st_part){t->name,
                                    t->kind == LAYOUT_CODES ? DT_I32 : DT_BF16,
                                    t->dims,
                                    {t->shape[0], t->shape[1]},
                                    NULL};
    }
    write_text(folder_path(state, "config.json"), CONFIG_K25);
    write_safetensors(folder_path(state, "model.safetensors"), parts, l.count, NULL, 0);
    struct weights w;
    struct model m = {0};
    if (weights_open(&w, *state, &err) == ERR_OK) (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    model_release(&m);
    weights_close(&w);
    free(parts);
    layout_free(&l);
}

static void list__refuses_a_number_that_no_model_has(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct config c = parsed(CONFIG_K25);
    struct layout l;
    const struct layout_choice choice = {0};
    c.layers = 4096;
    c.experts = 65536;
    assert_int_equal(layout_make(&l, &c, &choice, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "list tensors", "config.json", "65536 experts", "fewer than");
    layout_free(&l);
}

static void dtypes__are_those_of_their_kind(void **state)
{
    (void)state;
    struct config c = parsed(CONFIG_K25);
    char text[64];
    static const struct {
        enum layout_kind kind;
        const char *text;
    } rows[] = {{LAYOUT_REAL, "BF16 or F32"}, {LAYOUT_SCALE, "BF16 or F32"}, {LAYOUT_CODES, "I32"},
                {LAYOUT_PAIR, "I32 or I64"},  {LAYOUT_FP8, "F8_E4M3"},       {LAYOUT_BLOCK, "F32"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(layout_dtype_text(&c, rows[i].kind, text, sizeof text), rows[i].text);
        assert_false(layout_dtype_fits(&c, rows[i].kind, DT_COUNT));
        assert_false(layout_dtype_fits(&c, rows[i].kind, DT_F16));
    }
    c.dtype = DT_F16;
    assert_true(layout_dtype_fits(&c, LAYOUT_REAL, DT_F16));
    assert_false(layout_dtype_fits(&c, LAYOUT_REAL, DT_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__has_the_published_size_of_k25),
        cmocka_unit_test(list__follows_the_quantisation),
        cmocka_unit_test(list__takes_what_is_stored__where_the_config_leaves_it_open),
        cmocka_unit_test(list__is_what_others_write),
        cmocka_unit_test_setup_teardown(list__is_enough_for_the_reader, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(list__refuses_a_number_that_no_model_has),
        cmocka_unit_test(dtypes__are_those_of_their_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
