/* drafted.c: see drafted.h. */
#include "tests/drafted.h"

#include "tests/config_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_TEXT(architecture, layer, ids)                                                        \
    "{\"speculators_model_type\": \"eagle3\", \"architectures\": [\"" architecture "\"],"          \
    " \"transformer_layer_config\": {" layer ", \"intermediate_size\": 96, \"hidden_size\": 64,"   \
    " \"vocab_size\": 12, \"max_position_embeddings\": 4096, \"num_hidden_layers\": 1,"            \
    " \"hidden_act\": \"silu\", \"attention_bias\": false, \"rms_norm_eps\": 1e-05},"              \
    " \"draft_vocab_size\": " ids ", \"norm_before_residual\": false,"                             \
    " \"eagle_aux_hidden_state_layer_ids\": [0, 2, 3], \"torch_dtype\": \"bfloat16\"}"

static const char *const head_texts[] = {
    [DRAFTED_LLAMA] = HEAD_TEXT("Eagle3Speculator",
                                "\"model_type\": \"llama\", \"num_attention_heads\": 4,"
                                " \"num_key_value_heads\": 2, \"head_dim\": 16,"
                                " \"rope_theta\": 10000.0, \"rope_scaling\": null",
                                "8"),
    [DRAFTED_MLA] = HEAD_TEXT("Eagle3DeepseekV2ForCausalLM",
                              "\"model_type\": \"deepseek_v3\", \"num_attention_heads\": 2,"
                              " \"num_key_value_heads\": 2, \"q_lora_rank\": 24,"
                              " \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 16,"
                              " \"qk_rope_head_dim\": 8, \"v_head_dim\": 12,"
                              " \"rope_theta\": 50000.0, \"rope_scaling\": null",
                              "12"),
};

/* A tensor that is made by a rule, made for good. */
static void keep(struct drafted *d, struct tensor *t)
{
    struct err err = ERR_INIT;
    if (!tensor_exists(t) || t->data) return;
    int64_t n = tensor_count(t);
    void *made = arena_alloc(&d->arena, n, dtype_size(t->dtype), t->name, &err);
    assert_non_null(made);
    t->data = tensor_elements(t, 0, n, made);
}

static void keep_head(struct drafted *d)
{
    struct head *h = &d->head;
    struct head_layer *l = &h->layers[0];
    struct tensor *const all[] = {&h->embed,      &h->fc.data,     &h->norm,     &h->lm_head.data,
                                  &l->embed_norm, &l->hidden_norm, &l->mlp_norm, &l->q.data,
                                  &l->k.data,     &l->v.data,      &l->q_a.data, &l->q_b.data,
                                  &l->kv_a.data,  &l->kv_b.data,   &l->q_norm,   &l->kv_norm,
                                  &l->o.data,     &l->gate.data,   &l->up.data,  &l->down.data};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) keep(d, all[i]);
}

void drafted_models(struct drafted *d, void **state, enum drafted_head kind)
{
    struct err err = ERR_INIT;
    char spec[512];
    char *text = replaced(CONFIG_K25, "\"vocab_size\": 48", "\"vocab_size\": 12");
    const char *path = folder_path(state, "target.json");
    *d = (struct drafted){.kind = kind, .options = session_defaults()};
    d->options.threads = 1;
    d->options.block = 4;
    write_text(path, text);
    free(text);
    snprintf(spec, sizeof spec, "synth:%s?seed=8", path);
    if (loaded_open(&d->loaded, spec, &err) != ERR_OK) assert_ok(&err);
    if (kind == DRAFTED_NONE) return;
    path = folder_path(state, "head.json");
    write_text(path, head_texts[kind]);
    snprintf(spec, sizeof spec, "synth:%s?seed=9", path);
    if (head_open(&d->head, spec, &d->loaded.model, &err) != ERR_OK) assert_ok(&err);
    keep_head(d);
}

void drafted_start(struct drafted *d, const struct speculate_options *how, int64_t room)
{
    struct err err = ERR_INIT;
    const struct head *head = d->kind == DRAFTED_NONE ? NULL : &d->head;
    if (session_open(&d->session, &d->loaded, &d->options, 1, &room, &err) != ERR_OK ||
        speculate_open(&d->s, &d->session, head, how, &err) != ERR_OK)
        assert_ok(&err);
}

struct tokens drafted_tokens(const int64_t *id, int64_t count)
{
    struct tokens t;
    struct err err = ERR_INIT;
    if (tokens_copy(id, count, &count, 1, &t, &err) != ERR_OK) assert_ok(&err);
    return t;
}

void drafted_begin(struct drafted *d, const int64_t *prompt, int64_t count)
{
    struct err err = ERR_INIT;
    struct tokens t = drafted_tokens(prompt, count);
    if (speculate_begin(&d->s, &t, &err) != ERR_OK) assert_ok(&err);
    tokens_free(&t);
}

void drafted_round(struct drafted *d)
{
    struct err err = ERR_INIT;
    if (speculate_round(&d->s, &err) != ERR_OK) assert_ok(&err);
}

void drafted_stop(struct drafted *d)
{
    speculate_close(&d->s);
    session_close(&d->session);
}

void drafted_close(struct drafted *d)
{
    drafted_stop(d);
    head_close(&d->head);
    loaded_close(&d->loaded);
    arena_release(&d->arena, NULL);
}
