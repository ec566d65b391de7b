/* test_head_misfit.c: tensors that do not fit a head's config: each is named, with what was found
 * and what was wanted, and all of them are listed. */
#include "tests/heads.h"

#include "core/head_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_bad(void **state, struct head *h, const struct heads *parts, const char *config,
                     const char *edits, struct err *err)
{
    char *text = heads_edited(config, edits);
    heads_write(state, parts, text);
    err_clear(err);
    if (head_open(h, *state, NULL, err) == ERR_OK) fail_msg("opened");
    free(text);
}

/* The one misfit of an otherwise whole head. */
static void one(void **state, const struct heads *parts, const char *config,
                enum head_misfit_kind kind, const char *name, const char *found, const char *wanted)
{
    struct err err;
    struct head h;
    open_bad(state, &h, parts, config, NULL, &err);
    assert_err(&err, ERR_INPUT, "head tensors", *state, name, "as config.json says");
    assert_int_equal(h.misfit_count, 1);
    assert_int_equal(h.misfits[0].kind, kind);
    assert_string_equal(h.misfits[0].name, name);
    if (!strstr(h.misfits[0].found, found) || !strstr(h.misfits[0].wanted, wanted))
        fail_msg("%s: found '%s', wanted '%s'", name, h.misfits[0].found, h.misfits[0].wanted);
    head_close(&h);
}

static const struct {
    const char *config;
    enum head_naming naming;
    enum head_kind kind;
} whole[] = {
    {HEADS_LLAMA, HEAD_SPECULATORS, HEAD_LLAMA}, {HEADS_FLAT, HEAD_SAFEAI, HEAD_LLAMA},
    {HEADS_FLAT, HEAD_VLLM, HEAD_LLAMA},         {HEADS_MODELOPT, HEAD_MODELOPT, HEAD_LLAMA},
    {HEADS_MLA, HEAD_SPECULATORS, HEAD_MLA},     {HEADS_MLA, HEAD_SAFEAI, HEAD_MLA}};
enum { WHOLE = sizeof whole / sizeof *whole };

static bool is_map(const char *name)
{
    return strstr(name, "d2t") || strstr(name, "t2d") || strstr(name, "draft_id");
}

/* Calls `change` for each tensor of each head; it says what must be found. */
static void each_tensor(void **state, void (*change)(void **state, struct heads *h, int64_t i,
                                                     const char *config))
{
    int64_t cases = 0;
    for (int w = 0; w < WHOLE; w++) {
        struct heads parts;
        heads_make(&parts, whole[w].naming, whole[w].kind, 1);
        for (int64_t i = 0, n = parts.count; i < n; i++) {
            heads_make(&parts, whole[w].naming, whole[w].kind, 1);
            if (is_map(parts.names[i])) continue;
            change(state, &parts, i, whole[w].config);
            cases++;
        }
    }
    assert_true(cases > 80);
}

static void leave_out(void **state, struct heads *h, int64_t i, const char *config)
{
    char name[64];
    snprintf(name, sizeof name, "%s", h->names[i]);
    heads_drop(h, name);
    one(state, h, config, HEAD_MISSING, name, "nothing", "BF16, F16 or F32");
}

static void widen(void **state, struct heads *h, int64_t i, const char *config)
{
    char found[96], wanted[96];
    struct st_part *p = &h->parts[i];
    st_shape_text(p->dims, p->shape, wanted, sizeof wanted);
    p->shape[p->dims - 1]++;
    st_shape_text(p->dims, p->shape, found, sizeof found);
    one(state, h, config, HEAD_SHAPE, p->name, found, wanted);
}

static void flatten(void **state, struct heads *h, int64_t i, const char *config)
{
    struct st_part *p = &h->parts[i];
    if (p->dims == 1) {
        p->dims = 2;
        p->shape[1] = p->shape[0];
        p->shape[0] = 1;
    } else {
        p->dims = 1;
        p->shape[0] *= p->shape[1];
    }
    one(state, h, config, HEAD_SHAPE, p->name, "BF16", "BF16, F16 or F32");
}

static void retype(void **state, struct heads *h, int64_t i, const char *config)
{
    static const enum dtype types[] = {DT_F64, DT_I32, DT_F8_E4M3, DT_U8};
    h->parts[i].dtype = types[i % 4];
    one(state, h, config, HEAD_DTYPE, h->parts[i].name, dtype_name(types[i % 4]),
        "BF16, F16 or F32");
}

static void misspell(void **state, struct heads *h, int64_t i, const char *config)
{
    struct err err;
    struct head hd;
    char name[64];
    snprintf(name, sizeof name, "%s", h->names[i]);
    h->names[i][strlen(h->names[i]) - 1] = 'X';
    open_bad(state, &hd, h, config, NULL, &err);
    assert_err(&err, ERR_INPUT, "head tensors", *state, " is missing", "as config.json says");
    assert_int_equal(hd.misfit_count, 2);
    assert_string_equal(hd.misfits[0].name, name);
    assert_int_equal(hd.misfits[1].kind, HEAD_EXTRA);
    assert_string_equal(hd.misfits[1].name, h->names[i]);
    assert_non_null(strstr(err.found, h->names[i]));
    head_close(&hd);
}

static void a_missing_tensor__is_named(void **state)
{
    each_tensor(state, leave_out);
}

static void a_wrong_shape__is_named(void **state)
{
    each_tensor(state, widen);
    each_tensor(state, flatten);
}

static void a_wrong_type__is_named(void **state)
{
    each_tensor(state, retype);
}

static void a_misspelt_tensor__is_missing_and_extra(void **state)
{
    each_tensor(state, misspell);
}

/* The config and the tensors say different things. */
static void a_config_of_another_head__is_refused(void **state)
{
    static const struct {
        const char *edits, *found;
    } rows[] = {
        {"'hidden_size': 16 -> 'hidden_size': 18", "layers.0.hidden_norm.weight [16] BF16, not "
                                                   "[18]"},
        {"'intermediate_size': 24 -> 'intermediate_size': 25", "gate_proj.weight [24, 16]"},
        {"'num_attention_heads': 4 -> 'num_attention_heads': 2", "q_proj.weight [24, 32] BF16, not "
                                                                 "[12, 32]"},
        {"'num_key_value_heads': 2 -> 'num_key_value_heads': 1", "k_proj.weight [12, 32] BF16, not "
                                                                 "[6, 32]"},
        {"'head_dim': 6 -> 'head_dim': 8", "q_proj.weight [24, 32] BF16, not [32, 32]"},
        {"'num_hidden_layers': 1 -> 'num_hidden_layers': 2", "layers.1.input_layernorm.weight is "
                                                             "missing"},
        {"'draft_vocab_size': 6 -> 'draft_vocab_size': 7", "lm_head.weight [6, 16] BF16, not [7, "
                                                           "16]"},
        {"'draft_vocab_size' -> 'target_hidden_size': 20, 'draft_vocab_size'",
         "fc.weight [16, 48] BF16, not [16, 60]"},
        {"[1, 3, 5] -> [1, 3, 5, 7]", "fc.weight [16, 48] BF16, not [16, 64]"},
        {"'draft_vocab_size' -> 'norm_before_fc': true, 'draft_vocab_size'",
         "input_norm.weight is missing"},
        {"'draft_vocab_size' -> 'fc_norm': true, 'draft_vocab_size'",
         "fc_norm.0.weight is missing; fc_norm.1.weight is missing; fc_norm.2.weight is missing"},
        {"'llama' -> 'qwen3'", "q_norm.weight is missing; layers.0.self_attn.k_norm.weight is"},
        {"'llama' -> 'deepseek_v3'", "q_a_proj.weight is missing"},
    };
    struct heads parts;
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err;
        struct head h;
        open_bad(state, &h, &parts, HEADS_LLAMA, rows[i].edits, &err);
        assert_err(&err, ERR_INPUT, "head tensors", *state, rows[i].found, "speculators tensors");
        head_close(&h);
    }
}

/* Tensors that the config says nothing of: a flag that its writer left out. */
static void an_extra_tensor__is_named(void **state)
{
    static const char *const names[] = {"fc.bias",
                                        "input_norm.weight",
                                        "fc_norm.0.weight",
                                        "mask_hidden",
                                        "layers.1.input_layernorm.weight",
                                        "embed_tokens",
                                        "lm_head.bias",
                                        "layers.0.self_attn.q_norm.weight",
                                        "model.fc.weight",
                                        "verifier_norm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct heads parts;
        heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
        heads_add(&parts, names[i], 0, 16);
        one(state, &parts, HEADS_LLAMA, HEAD_EXTRA, names[i], "[16] BF16", "nothing");
    }
}

/* An embedding of its own makes a head a narrow one only where fc's columns are whole states. */
static void an_odd_fc__is_named_at_the_heads_own_width(void **state)
{
    struct heads parts;
    heads_make(&parts, HEAD_SAFEAI, HEAD_LLAMA, 1);
    heads_add(&parts, "embed_tokens.weight", HEADS_V, HEADS_H);
    heads_part(&parts, "fc.weight")->shape[1] = 100;
    one(state, &parts, HEADS_FLAT, HEAD_SHAPE, "fc.weight", "[16, 100]", "[16, 48]");
}

static void no_known_naming__is_refused_with_what_is_there(void **state)
{
    struct err err;
    struct head h;
    struct heads parts = {0};
    heads_add(&parts, "decoder.0.q", 4, 5);
    heads_add(&parts, "fc.weight", 16, 48);
    open_bad(state, &h, &parts, HEADS_LLAMA, NULL, &err);
    assert_err(&err, ERR_INPUT, "head naming", *state,
               "no known decoder layer: decoder.0.q [4, 5] BF16 has no place; fc.weight",
               "layers.0. (speculators), midlayer.");
    assert_int_equal(h.misfit_count, 2);
    head_close(&h);
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_add(&parts, "midlayer.hidden_norm.weight", 0, 16);
    open_bad(state, &h, &parts, HEADS_LLAMA, NULL, &err);
    assert_err(&err, ERR_INPUT, "head naming", *state, "layers of two namings", NULL);
    head_close(&h);
}

/* However many there are, and however long their names: one line, and a count of the rest. */
static void the_line__is_cut_with_a_count(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    for (int64_t count = 1; count < 40; count++) {
        for (int length = 1; length < 176; length += 9) {
            struct head h = {0};
            char name[NAME_MAX_BYTES], text[ERR_PART], want[48];
            memset(name, 'n', (size_t)length);
            name[length] = '\0';
            for (int64_t i = 0; i < count; i++)
                head_misfit_add(&h, HEAD_MISSING, name, "nothing", "a tensor", &err);
            assert_int_equal(h.misfit_count, count);
            assert_ptr_equal(head_misfit_text(&h, text, sizeof text), text);
            assert_true(strlen(text) < sizeof text);
            int64_t shown = 0;
            for (const char *p = text; (p = strstr(p, " is missing")); p++) shown++;
            snprintf(want, sizeof want, "; and %lld more", (long long)(count - shown));
            assert_true(shown > 0 && shown <= count);
            if (shown < count)
                assert_non_null(strstr(text, want));
            else
                assert_null(strstr(text, " more"));
            head_close(&h);
        }
    }
    /* The first is shown even where it has no room, and the count has some. */
    struct head h = {0};
    char text[64];
    for (int i = 0; i < 2; i++)
        head_misfit_add(&h, HEAD_MISSING, "a.name.longer.than.all.the.room.that.there.is",
                        "nothing", "a tensor", &err);
    assert_string_equal(head_misfit_text(&h, text, sizeof text),
                        "a.name.longer.than.all.the.room; and 1 more");
    head_close(&h);
    assert_ok(&err);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_missing_tensor__is_named),
        IN_FOLDER(a_wrong_shape__is_named),
        IN_FOLDER(a_wrong_type__is_named),
        IN_FOLDER(a_misspelt_tensor__is_missing_and_extra),
        IN_FOLDER(a_config_of_another_head__is_refused),
        IN_FOLDER(an_extra_tensor__is_named),
        IN_FOLDER(an_odd_fc__is_named_at_the_heads_own_width),
        IN_FOLDER(no_known_naming__is_refused_with_what_is_there),
        cmocka_unit_test(the_line__is_cut_with_a_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
