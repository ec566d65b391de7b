/* test_head.c: draft heads of every naming and type: what is bound to what, what comes from the
 * target, synthetic heads, and what a folder that looks like a head is refused for. Tensors that do
 * not fit and bad maps: test_head_misfit.c. */
#include "tests/heads.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fixtures[] = ASSAY_SOURCE_DIR "/fixtures/";

static void opened(struct head *h, const char *spec, const struct model *target)
{
    struct err err = ERR_INIT;
    (void)!head_open(h, spec, target, &err);
    assert_ok(&err);
    assert_int_equal(h->misfit_count, 0);
}

/* Writes the head and opens it. */
static void made(void **state, struct head *h, const struct heads *parts, const char *config,
                 const char *edits, const struct model *target)
{
    char *text = heads_edited(config, edits);
    heads_write(state, parts, text);
    opened(h, *state, target);
    free(text);
}

static void not_opened(void **state, const struct heads *parts, const char *config,
                       const char *edits, const struct model *target, const char *what,
                       const char *found, const char *wanted)
{
    struct err err = ERR_INIT;
    struct head h;
    char *text = heads_edited(config, edits);
    if (parts) heads_write(state, parts, text);
    if (head_open(&h, *state, target, &err) == ERR_OK) fail_msg("opened, not %s", what);
    assert_err(&err, ERR_INPUT, what, NULL, found, wanted);
    head_close(&h);
    free(text);
}

/* The tensor is the stored one of that name. */
static void is(const struct head *h, const struct tensor *t, const char *name)
{
    const struct st_tensor *s = weights_stored(&h->weights, name);
    if (!s) fail_msg("no %s is stored", name);
    if (!tensor_exists(t) || t->data != s->data) fail_msg("%s is bound elsewhere", name);
}

static void layer_is(const struct head *h, int k, const char *prefix, const char *norm)
{
    const struct head_layer *l = &h->layers[k];
    const struct {
        const struct tensor *t;
        const char *name;
    } llama[] = {{&l->q.data, "self_attn.q_proj"},
                 {&l->k.data, "self_attn.k_proj"},
                 {&l->v.data, "self_attn.v_proj"}},
      mla[] = {{&l->q_a.data, "self_attn.q_a_proj"},
               {&l->q_norm, "self_attn.q_a_layernorm"},
               {&l->q_b.data, "self_attn.q_b_proj"},
               {&l->kv_a.data, "self_attn.kv_a_proj_with_mqa"},
               {&l->kv_norm, "self_attn.kv_a_layernorm"},
               {&l->kv_b.data, "self_attn.kv_b_proj"}},
      both[] = {{&l->embed_norm, norm},           {&l->mlp_norm, "post_attention_layernorm"},
                {&l->o.data, "self_attn.o_proj"}, {&l->gate.data, "mlp.gate_proj"},
                {&l->up.data, "mlp.up_proj"},     {&l->down.data, "mlp.down_proj"}};
    char name[128];
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        snprintf(name, sizeof name, "%s%s.weight", prefix, both[i].name);
        is(h, both[i].t, name);
    }
    for (size_t i = 0; i < 3 && h->config.kind == HEAD_LLAMA; i++) {
        snprintf(name, sizeof name, "%s%s.weight", prefix, llama[i].name);
        is(h, llama[i].t, name);
    }
    for (size_t i = 0; i < 6 && h->config.kind == HEAD_MLA; i++) {
        snprintf(name, sizeof name, "%s%s.weight", prefix, mla[i].name);
        is(h, mla[i].t, name);
    }
    snprintf(name, sizeof name, "%shidden_norm.weight", prefix);
    if (k == 0) is(h, &l->hidden_norm, name);
    assert_int_equal(tensor_exists(&l->hidden_norm), k == 0);
    assert_int_equal(h->config.kind == HEAD_LLAMA ? l->q.in : l->kv_a.in,
                     k == 0 ? 2 * HEADS_H : HEADS_H);
}

static void map_is(const struct head *h)
{
    static const int64_t ids[HEADS_VD] = {2, 3, 5, 9, 18, 19};
    assert_true(h->mapped);
    assert_memory_equal(h->target_id, ids, sizeof ids);
}

static const struct {
    const char *config, *first, *second, *further_norm, *model;
} namings[HEAD_NAMINGS] = {
    {HEADS_LLAMA, "layers.0.", "layers.1.", "input_layernorm", ""},
    {HEADS_FLAT, "midlayer.", "additional_layers.0.", "hidden_norm", ""},
    {HEADS_FLAT, "model.layers.0.", "model.layers.1.", "input_layernorm", "model."},
    {HEADS_MODELOPT, "midlayer.", "additional_layers.0.", "hidden_norm", ""},
};

static void open__binds_every_naming__of_one_and_two_layers(void **state)
{
    for (int n = 0; n < HEAD_NAMINGS; n++) {
        for (int layers = 1; layers <= 2; layers++) {
            struct heads parts;
            struct head h;
            char name[64];
            heads_make(&parts, (enum head_naming)n, HEAD_LLAMA, layers);
            made(state, &h, &parts, namings[n].config,
                 layers == 2 ? "'num_hidden_layers': 1 -> 'num_hidden_layers': 2" : NULL, NULL);
            assert_int_equal(h.config.naming, n);
            layer_is(&h, 0, namings[n].first, "input_layernorm");
            if (layers == 2) layer_is(&h, 1, namings[n].second, namings[n].further_norm);
            snprintf(name, sizeof name, "%sfc.weight", namings[n].model);
            is(&h, &h.fc.data, name);
            snprintf(name, sizeof name, "%snorm.weight", namings[n].model);
            is(&h, &h.norm, name);
            is(&h, &h.lm_head.data, "lm_head.weight");
            assert_true(h.own_lm_head && !h.own_embed && !tensor_exists(&h.embed));
            assert_int_equal(h.t2d != NULL, n < HEAD_VLLM);
            assert_int_equal(h.rope.R, HEADS_HD);
            assert_int_equal(h.config.target_hidden, HEADS_H);
            map_is(&h);
            head_close(&h);
            head_close(&h);
        }
    }
}

static void open__binds_mla_heads__in_every_naming(void **state)
{
    for (int n = 0; n < HEAD_NAMINGS; n++) {
        struct heads parts;
        struct head h;
        heads_make(&parts, (enum head_naming)n, HEAD_MLA, 2);
        made(state, &h, &parts, HEADS_MLA,
             n == HEAD_MODELOPT ? "'num_hidden_layers': 1 -> 'num_hidden_layers': 2\n"
                                  "'draft_vocab_size' -> 'eagle_config': {}, 'draft_vocab_size'"
                                : "'num_hidden_layers': 1 -> 'num_hidden_layers': 2",
             NULL);
        layer_is(&h, 0, namings[n].first, "input_layernorm");
        layer_is(&h, 1, namings[n].second, namings[n].further_norm);
        assert_int_equal(h.rope.R, HEADS_ROPE);
        head_close(&h);
    }
}

/* A config of speculators' form says nothing of ModelOpt; a t2d or no eagle_config tells the two
 * namings apart that share their names. */
static void naming__is_told_by_tensors_and_config(void **state)
{
    struct heads parts;
    struct head h;
    heads_make(&parts, HEAD_SAFEAI, HEAD_LLAMA, 1);
    made(state, &h, &parts, HEADS_MODELOPT, NULL, NULL);
    assert_int_equal(h.config.naming, HEAD_SAFEAI);
    assert_non_null(strstr(h.config.residual_assumed, "SafeAILab"));
    head_close(&h);
    heads_make(&parts, HEAD_MODELOPT, HEAD_LLAMA, 1);
    made(state, &h, &parts, HEADS_FLAT, NULL, NULL);
    assert_int_equal(h.config.naming, HEAD_SAFEAI);
    head_close(&h);
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    made(state, &h, &parts, HEADS_MODELOPT, NULL, NULL);
    assert_int_equal(h.config.naming, HEAD_SPECULATORS);
    head_close(&h);
    heads_make(&parts, HEAD_VLLM, HEAD_LLAMA, 1);
    /* Files of vLLM's names keep the map's name or vLLM's. */
    char *name = parts.names[heads_part(&parts, "draft_id_to_target_id") - parts.parts];
    snprintf(name, sizeof parts.names[0], "d2t");
    made(state, &h, &parts, HEADS_FLAT, NULL, NULL);
    map_is(&h);
    head_close(&h);
}

static void open__binds_the_optional_norms(void **state)
{
    struct heads parts;
    struct head h;
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_add(&parts, "input_norm.weight", 0, 3 * HEADS_H);
    made(state, &h, &parts, HEADS_LLAMA,
         "'draft_vocab_size' -> 'norm_before_fc': true, 'draft_vocab_size'", NULL);
    is(&h, &h.fc_input_norm, "input_norm.weight");
    head_close(&h);
    heads_make(&parts, HEAD_VLLM, HEAD_MLA, 1);
    for (int i = 0; i < 3; i++) {
        char name[48];
        snprintf(name, sizeof name, "model.fc_norm.%d.weight", i);
        heads_add(&parts, name, 0, HEADS_H);
    }
    made(state, &h, &parts, HEADS_MLA,
         "'draft_vocab_size' -> 'fc_norm': true, 'norm_output': true, 'draft_vocab_size'", NULL);
    is(&h, &h.fc_norm[0], "model.fc_norm.0.weight");
    is(&h, &h.fc_norm[2], "model.fc_norm.2.weight");
    head_close(&h);
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 2);
    for (int i = 0; i < 4; i++) {
        char name[48];
        snprintf(name, sizeof name, "layers.%d.self_attn.%c_norm.weight", i / 2, "qk"[i % 2]);
        heads_add(&parts, name, 0, HEADS_HD);
    }
    made(state, &h, &parts, HEADS_LLAMA,
         "'model_type': 'llama' -> 'model_type': 'qwen3'\n'num_hidden_layers': 1 -> "
         "'num_hidden_layers': 2",
         NULL);
    is(&h, &h.layers[0].q_head_norm, "layers.0.self_attn.q_norm.weight");
    is(&h, &h.layers[1].k_head_norm, "layers.1.self_attn.k_norm.weight");
    head_close(&h);
}

static void open__binds_a_plain_q_proj__without_q_lora(void **state)
{
    struct heads parts;
    struct head h;
    heads_make(&parts, HEAD_SAFEAI, HEAD_MLA, 1);
    heads_drop(&parts, "midlayer.self_attn.q_a_proj.weight");
    heads_drop(&parts, "midlayer.self_attn.q_a_layernorm.weight");
    heads_drop(&parts, "midlayer.self_attn.q_b_proj.weight");
    heads_add(&parts, "midlayer.self_attn.q_proj.weight", HEADS_HEADS * (HEADS_NOPE + HEADS_ROPE),
              2 * HEADS_H);
    made(state, &h, &parts, HEADS_MLA, "'q_lora_rank': 12 -> 'q_lora_rank': null", NULL);
    is(&h, &h.layers[0].q_b.data, "midlayer.self_attn.q_proj.weight");
    assert_false(tensor_exists(&h.layers[0].q_a.data));
    head_close(&h);
}

static void open__takes_any_float_type_and_rotary_tables(void **state)
{
    struct heads parts;
    struct head h;
    heads_make(&parts, HEAD_SAFEAI, HEAD_LLAMA, 1);
    heads_part(&parts, "fc.weight")->dtype = DT_F16;
    heads_part(&parts, "norm.weight")->dtype = DT_F32;
    heads_add(&parts, "midlayer.self_attn.rotary_emb.inv_freq", 0, 3);
    heads_add(&parts, "embed_tokens.weight", HEADS_V, HEADS_H);
    made(state, &h, &parts, HEADS_FLAT, NULL, NULL);
    assert_int_equal(h.fc.data.dtype, DT_F16);
    assert_int_equal(h.norm.dtype, DT_F32);
    assert_true(h.own_embed);
    is(&h, &h.embed, "embed_tokens.weight");
    head_close(&h);
}

static void open__takes_the_targets_ends__where_the_head_has_none(void **state)
{
    struct heads_target t;
    struct heads parts;
    struct head h;
    heads_target_open(state, &t, NULL);
    heads_make(&parts, HEAD_SAFEAI, HEAD_LLAMA, 1);
    made(state, &h, &parts, HEADS_FLAT, NULL, &t.model);
    assert_string_equal(h.embed.name, "model.embed_tokens.weight");
    assert_true(!h.own_embed && h.own_lm_head);
    head_close(&h);
    /* SGLang: no draft_vocab_size, so the target's output matrix. */
    heads_drop(&parts, "lm_head.weight");
    heads_drop(&parts, "d2t");
    heads_drop(&parts, "t2d");
    made(state, &h, &parts, HEADS_FLAT, "'draft_vocab_size': 6,  -> ", &t.model);
    assert_string_equal(h.lm_head.data.name, "lm_head.weight");
    assert_true(!h.own_lm_head && !h.mapped && h.lm_head.data.rule.base != 0);
    assert_int_equal(h.lm_head.out, HEADS_V);
    for (int64_t i = 0; i < HEADS_V; i++) assert_int_equal(h.target_id[i], i);
    head_close(&h);
    made(state, &h, &parts, HEADS_FLAT, "'draft_vocab_size': 6,  -> ", NULL);
    assert_false(tensor_exists(&h.lm_head.data));
    head_close(&h);
    made(state, &h, &parts, HEADS_FLAT,
         "'draft_vocab_size': 6,  -> \n'head_dim' -> 'tie_word_embeddings': true, 'head_dim'",
         &t.model);
    assert_string_equal(h.lm_head.data.name, "model.embed_tokens.weight");
    head_close(&h);
    heads_add(&parts, "embed_tokens.weight", HEADS_V, HEADS_H);
    made(state, &h, &parts, HEADS_FLAT,
         "'draft_vocab_size': 6,  -> \n'head_dim' -> 'tie_word_embeddings': true, 'head_dim'",
         NULL);
    is(&h, &h.lm_head.data, "embed_tokens.weight");
    head_close(&h);
    heads_target_close(&t);
}

static void open__takes_a_narrower_head__with_its_own_embedding(void **state)
{
    static const char wide[] = "'hidden_size': 16 -> 'hidden_size': 48",
                      whole[] = "'draft_vocab_size': 6 -> 'target_hidden_size': 48";
    struct heads_target t;
    struct heads parts;
    struct head h;
    heads_target_open(state, &t, wide);
    for (int given = 0; given < 2; given++) {
        for (int n = HEAD_SAFEAI; n <= HEAD_VLLM; n++) {
            const char *model = n == HEAD_VLLM ? "model." : "";
            char name[48];
            heads_make(&parts, (enum head_naming)n, HEAD_LLAMA, 1);
            snprintf(name, sizeof name, "%sfc.weight", model);
            heads_part(&parts, name)->shape[1] = 3 * 48;
            snprintf(name, sizeof name, "%sembed_tokens.weight", model);
            heads_add(&parts, name, HEADS_V, HEADS_H);
            made(state, &h, &parts, HEADS_FLAT,
                 given ? "'draft_vocab_size' -> 'target_hidden_size': 48, 'draft_vocab_size'"
                       : NULL,
                 &t.model);
            assert_int_equal(h.config.target_hidden, 48);
            assert_int_equal(h.fc.in, 144);
            assert_true(h.own_embed);
            head_close(&h);
            /* It cannot take the target's output matrix either. */
            heads_drop(&parts, "lm_head.weight");
            not_opened(state, &parts, HEADS_FLAT, whole, &t.model, "head tensors",
                       "lm_head.weight is missing", NULL);
            heads_drop(&parts, name);
            if (given)
                not_opened(state, &parts, HEADS_FLAT,
                           "'draft_vocab_size' -> 'target_hidden_size': 48, 'draft_vocab_size'",
                           &t.model, "head tensors", "embed_tokens.weight is missing", NULL);
        }
    }
    heads_target_close(&t);
}

static void open__refuses_a_target_that_is_not_its_own(void **state)
{
    static const struct {
        const char *target, *edits, *what, *found, *wanted;
    } rows[] = {
        {"'hidden_size': 16 -> 'hidden_size': 48", NULL, "head for target", "aux states 16 wide",
         "48, the hidden size of"},
        {"'vocab_size': 20 -> 'vocab_size': 21", NULL, "head for target", "vocab_size 20",
         "21, as in"},
        {"'num_hidden_layers': 8 -> 'num_hidden_layers': 4", NULL, "aux ids", "5", "0 to 4"},
        {"'num_hidden_layers': 8 -> 'num_hidden_layers': 6", "[1, 3, 5] -> null", "aux ids",
         "none given, and (2, 3, 3) by default for 6 layers", "eagle_aux_hidden_state_layer_ids"},
        {"'num_hidden_layers': 8 -> 'num_hidden_layers': 4", "[1, 3, 5] -> null", "aux ids",
         "(2, 2, 1)", NULL},
        {NULL, "[1, 3, 5] -> [1, 3, 9]", "aux ids", "9", "0 to 8, as the target has"},
    };
    struct heads parts;
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct heads_target t;
        heads_target_open(state, &t, rows[i].target);
        not_opened(state, &parts, HEADS_LLAMA, rows[i].edits, &t.model, rows[i].what, rows[i].found,
                   rows[i].wanted);
        heads_target_close(&t);
    }
}

static void open__assumes_the_default_aux_ids__of_the_target(void **state)
{
    struct heads_target t;
    struct heads parts;
    struct head h;
    heads_target_open(state, &t, NULL);
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    made(state, &h, &parts, HEADS_LLAMA, "[1, 3, 5] -> null", &t.model);
    assert_true(h.config.aux[0] == 2 && h.config.aux[1] == 4 && h.config.aux[2] == 5);
    assert_false(h.config.aux_given);
    assert_non_null(strstr(h.config.aux_assumed, "2, 4, 5, which engines take by default for 8"));
    head_close(&h);
    /* Id n is the last layer's output. */
    made(state, &h, &parts, HEADS_LLAMA, "[1, 3, 5] -> [0, 3, 8]", &t.model);
    assert_string_equal(h.config.aux_assumed, "");
    head_close(&h);
    heads_target_close(&t);
}

/* SHA-256 over the elements of every tensor of the head's file in the outside oracle, in the order
 * of their names; the file itself is not kept. */
static void synthetic__is_the_stored_head__of_the_oracle(void **state)
{
    (void)state;
    static const char want[] = "0dffd9a59d9ed82cce151eb451535a6095d14d7c3f97ade6913ecbe5994adda6";
    char spec[FILE_PATH], got[65] = "";
    struct head h;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    snprintf(spec, sizeof spec, "synth:%seagle-llama/config.json?seed=31", fixtures);
    opened(&h, spec, NULL);
    const struct head_layer *l = &h.layers[0];
    const struct tensor *const all[] = {
        &h.fc.data,  &l->hidden_norm, &l->embed_norm, &l->down.data, &l->gate.data,
        &l->up.data, &l->mlp_norm,    &l->k.data,     &l->o.data,    &l->q.data,
        &l->v.data,  &h.lm_head.data, &h.norm};
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    assert_true(hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t count = tensor_count(all[i]);
        assert_int_equal(all[i]->dtype, DT_BF16);
        void *buf = malloc((size_t)count * 2);
        assert_non_null(buf);
        assert_true(
            EVP_DigestUpdate(hash, tensor_elements(all[i], 0, count, buf), (size_t)count * 2));
        free(buf);
    }
    assert_true(EVP_DigestUpdate(hash, h.target_id, (size_t)h.config.draft_vocab * 8));
    assert_true(EVP_DigestFinal_ex(hash, digest, &n));
    EVP_MD_CTX_free(hash);
    for (unsigned i = 0; i < n; i++) snprintf(got + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(got, want);
    head_close(&h);
}

static void synthetic__has_the_norms_around_one(void **state)
{
    char spec[FILE_PATH + 16];
    struct head h;
    char *edited =
        heads_edited(HEADS_MLA, "'draft_vocab_size' -> 'fc_norm': true, 'draft_vocab_size'");
    char *text = heads_json(edited);
    write_text(folder_path(state, "config.json"), text);
    snprintf(spec, sizeof spec, "synth:%s?seed=3", folder_path(state, "config.json"));
    opened(&h, spec, NULL);
    assert_true(h.fc_norm[2].rule.offset == 1 && h.fc_norm[2].rule.scale == 0.25f);
    assert_true(h.layers[0].q_norm.rule.offset == 1);
    assert_string_equal(h.fc_norm[2].name, "fc_norm.2.weight");
    assert_true(h.mapped && h.d2t == NULL && h.own_lm_head);
    for (int64_t i = 1; i < HEADS_VD; i++) assert_true(h.target_id[i] > h.target_id[i - 1]);
    head_close(&h);
    free(edited);
    free(text);
}

static void synthetic__refuses_what_has_no_rule(void **state)
{
    static const struct {
        const char *edits, *query, *what, *found, *wanted;
    } rows[] = {
        {NULL, "?seed=1&latent_gain=2", "open head", "latent_gain 2", "heads use 1"},
        {NULL, "?seed=x", "open model", "seed=x", NULL},
        {NULL, "", "open model", "no seed", NULL},
        {"'draft_vocab_size' -> 'target_hidden_size': 48, 'draft_vocab_size'", "?seed=1",
         "open head", "target_hidden_size 48", "the target's embedding"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        struct head h;
        char spec[FILE_PATH + 64];
        char *edited = heads_edited(HEADS_LLAMA, rows[i].edits), *text = heads_json(edited);
        write_text(folder_path(state, "config.json"), text);
        snprintf(spec, sizeof spec, "synth:%s%s", folder_path(state, "config.json"), rows[i].query);
        assert_int_equal(head_open(&h, spec, NULL, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, rows[i].what, NULL, rows[i].found, rows[i].wanted);
        head_close(&h);
        free(edited);
        free(text);
    }
}

static void open__reads_the_trained_head_of_the_fixtures(void **state)
{
    (void)state;
    char spec[FILE_PATH];
    struct head h;
    snprintf(spec, sizeof spec, "%seagle-trained", fixtures);
    opened(&h, spec, NULL);
    assert_int_equal(h.config.naming, HEAD_SPECULATORS);
    assert_int_equal(h.config.draft_vocab, 256);
    assert_true(h.mapped && h.t2d && h.d2t);
    for (int64_t i = 0; i < 256; i++)
        assert_int_equal(h.target_id[i], i + dtype_int_at(DT_I64, h.d2t->data, i));
    head_close(&h);
}

static void open__refuses_folders_that_hold_no_head(void **state)
{
    char *text = heads_json(HEADS_LLAMA);
    struct heads parts;
    not_opened(state, NULL, HEADS_LLAMA, NULL, NULL, "open", NULL, NULL);
    write_text(folder_path(state, "config.json"), text);
    not_opened(state, NULL, HEADS_LLAMA, NULL, NULL, "open model folder", "no *.safetensors",
               "at least one");
    write_text(folder_path(state, "pytorch_model.bin"), "PK");
    not_opened(state, NULL, HEADS_LLAMA, NULL, NULL, "open head",
               "pytorch_model.bin and no *.safetensors", "write it with save_file()");
    /* A broken file is named rather than the pickle beside it. */
    write_text(folder_path(state, "model.safetensors"), "short");
    not_opened(state, NULL, HEADS_LLAMA, NULL, NULL, "safetensors file", "5 bytes", NULL);
    heads_make(&parts, HEAD_SPECULATORS, HEAD_LLAMA, 1);
    heads_write(state, &parts, "{");
    not_opened(state, NULL, HEADS_LLAMA, NULL, NULL, "parse JSON", NULL, NULL);
    write_text(folder_path(state, "config.json"), "");
    not_opened(state, NULL, HEADS_LLAMA, NULL, NULL, "parse JSON", NULL, NULL);
    free(text);
}

static void is__looks_at_the_config_alone(void **state)
{
    static const struct {
        const char *text;
        bool head;
    } rows[] = {{HEADS_LLAMA, true},
                {HEADS_MODELOPT, true},
                {"{'architectures': ['LlamaForCausalLMEagle3']}", true},
                {"{'architectures': [3, 'EAGLE3LlamaForCausalLM']}", true},
                {"{'draft_vocab_size': 3}", true},
                {"{'architectures': ['LlamaForCausalLM'], 'draft_vocab_size': null}", false},
                {HEADS_TARGET, false},
                {"[]", false},
                {"{", false}};
    char spec[FILE_PATH + 16];
    assert_false(head_is(*state));
    assert_false(head_is("synth:none.json?seed=1"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = heads_json(rows[i].text);
        write_text(folder_path(state, "config.json"), text);
        assert_int_equal(head_is(*state), rows[i].head);
        snprintf(spec, sizeof spec, "synth:%s?seed=1", folder_path(state, "config.json"));
        assert_int_equal(head_is(spec), rows[i].head);
        free(text);
    }
    char path[FILE_PATH * 2];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_false(head_is(path));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(open__binds_every_naming__of_one_and_two_layers),
        IN_FOLDER(open__binds_mla_heads__in_every_naming),
        IN_FOLDER(naming__is_told_by_tensors_and_config),
        IN_FOLDER(open__binds_the_optional_norms),
        IN_FOLDER(open__binds_a_plain_q_proj__without_q_lora),
        IN_FOLDER(open__takes_any_float_type_and_rotary_tables),
        IN_FOLDER(open__takes_the_targets_ends__where_the_head_has_none),
        IN_FOLDER(open__takes_a_narrower_head__with_its_own_embedding),
        IN_FOLDER(open__refuses_a_target_that_is_not_its_own),
        IN_FOLDER(open__assumes_the_default_aux_ids__of_the_target),
        cmocka_unit_test(synthetic__is_the_stored_head__of_the_oracle),
        IN_FOLDER(synthetic__has_the_norms_around_one),
        IN_FOLDER(synthetic__refuses_what_has_no_rule),
        cmocka_unit_test(open__reads_the_trained_head_of_the_fixtures),
        IN_FOLDER(open__refuses_folders_that_hold_no_head),
        IN_FOLDER(is__looks_at_the_config_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
