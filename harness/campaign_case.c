/* campaign_case.c: see campaign_case.h. The values of a checkpoint are in campaign_weights.c, the
 * head's config in campaign_head.c. */
#include "harness/campaign_case.h"

#include "core/synth.h"
#include "harness/campaign_head.h"
#include "harness/campaign_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a config is made of. */
struct shape {
    const char *name, *quant;
    int hidden, layers, heads, q_lora, kv_lora, nope, rope, v, dense, inner, experts, top_k, groups,
        top_groups, first_dense, shared, vocab;
    const char *method, *scoring;
    double scale, eps, theta, factor; /* factor 1: plain RoPE */
    bool norm_topk;
    int tokens, second; /* of the first sequence; of a second one, 0: none */
};

enum { VOCAB = 96 };
#define INT4(symmetric, group)                                                                     \
    ", \"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "           \
    "\"pack-quantized\", \"ignore\": [\"re:.*self_attn.*\", \"re:.*shared_experts.*\", "           \
    "\"re:.*mlp.(gate|up|gate_up|down)_proj.*\", \"lm_head\"], \"config_groups\": {\"group_0\": "  \
    "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", "               \
    "\"symmetric\": " symmetric ", \"group_size\": " group ", \"strategy\": \"group\"}}}}"
static const char *const quants[] = {
    INT4("true", "32"),
    INT4("false", "32"),
    ", \"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", "
    "\"activation_scheme\": \"dynamic\", \"weight_block_size\": [32, 32]}",
    "",
    INT4("true", "16"),
};
enum { QUANTS = sizeof quants / sizeof quants[0] };

/* The shapes of the two tiny models whose outputs are kept as fixtures. */
static const struct shape fixed[CASE_FIXED] = {
    {"tiny-k25", INT4("true", "32"),
     256,        6,
     8,          96,
     64,         32,
     16,         32,
     384,        96,
     16,         4,
     1,          1,
     1,          1,
     512,        "noaux_tc",
     "sigmoid",  2.827,
     1e-5,       50000,
     64,         true,
     16,         0},
    {"tiny-dsv3", "", 256, 4, 8,   96,         64,        32,  16,   32,    384, 96,   32, 6,
     4,           2,  2,   1, 512, "noaux_tc", "sigmoid", 2.5, 1e-6, 10000, 40,  true, 16, 0},
};

/* ---- drawing ---- */

struct draw {
    uint64_t base;
    int64_t at;
};

static int one_of(struct draw *d, const int *list, int n)
{
    return list[synth_x(d->base, d->at++) % (uint64_t)n];
}
#define ONE_OF(d, ...)                                                                             \
    one_of(d, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Whatever is drawn can be run: experts fill their groups, kept groups hold top_k experts. Kinds of
 * quantisation take turns, so that few cases have all of them. */
static struct shape draw_shape(int64_t i, uint64_t seed)
{
    struct draw d = {synth_base(seed * 1000 + (uint64_t)i, "campaign.shape"), 0};
    struct shape s = {.name = "drawn", .method = "noaux_tc", .scoring = "sigmoid", .vocab = VOCAB};
    s.quant = quants[((uint64_t)i + seed) % QUANTS];
    s.hidden = ONE_OF(&d, 64, 96, 128);
    s.layers = 3;
    s.heads = ONE_OF(&d, 2, 4, 6);
    s.q_lora = ONE_OF(&d, 0, 48, 64);
    s.kv_lora = ONE_OF(&d, 32, 64);
    s.nope = ONE_OF(&d, 16, 24, 32);
    s.rope = ONE_OF(&d, 8, 16);
    s.v = ONE_OF(&d, 16, 32);
    s.dense = ONE_OF(&d, 128, 160);
    s.inner = ONE_OF(&d, 64, 96);
    s.groups = ONE_OF(&d, 1, 1, 2, 4);
    s.experts = s.groups * ONE_OF(&d, 4, 6, 8) * (s.groups == 1 ? 2 : 1);
    s.top_groups = s.groups == 4 ? ONE_OF(&d, 2, 3) : 1;
    s.top_k = ONE_OF(&d, 2, 3, 4);
    s.first_dense = ONE_OF(&d, 0, 1, 1);
    s.shared = ONE_OF(&d, 1, 1, 2);
    s.scale = ONE_OF(&d, 0, 1) ? 2.5 : 1.5;
    s.eps = ONE_OF(&d, 0, 1) ? 1e-5 : 1e-6;
    s.theta = ONE_OF(&d, 0, 1) ? 50000 : 10000;
    s.factor = ONE_OF(&d, 1, 40, 64);
    s.norm_topk = true;
    s.tokens = ONE_OF(&d, 9, 11, 14);
    s.second = ONE_OF(&d, 0, 0, 5);
    if (s.groups > 1 && ONE_OF(&d, 0, 0, 0, 1)) s.method = "group_limited_greedy";
    if (ONE_OF(&d, 0, 0, 0, 0, 1)) s.scoring = "softmax";
    return s;
}

static enum err_code write_config(const struct shape *s, const char *path, struct err *err)
{
    char text[4096], q_lora[16] = "null", scaling[256] = "null";
    struct file_out f = FILE_OUT_INIT;
    if (s->q_lora) snprintf(q_lora, sizeof q_lora, "%d", s->q_lora);
    if (s->factor > 1)
        snprintf(scaling, sizeof scaling,
                 "{\"type\": \"yarn\", \"factor\": %g, \"original_max_position_embeddings\": 4096, "
                 "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"mscale\": 1.0, "
                 "\"mscale_all_dim\": 1.0}",
                 s->factor);
    int n = snprintf(
        text, sizeof text,
        "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\", "
        "\"vocab_size\": %d, \"hidden_size\": %d, \"intermediate_size\": %d, "
        "\"moe_intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
        "\"num_key_value_heads\": %d, \"n_shared_experts\": %d, \"n_routed_experts\": %d, "
        "\"num_experts_per_tok\": %d, \"routed_scaling_factor\": %g, \"kv_lora_rank\": %d, "
        "\"q_lora_rank\": %s, \"qk_rope_head_dim\": %d, \"v_head_dim\": %d, "
        "\"qk_nope_head_dim\": %d, \"n_group\": %d, \"topk_group\": %d, \"topk_method\": \"%s\", "
        "\"scoring_func\": \"%s\", \"norm_topk_prob\": %s, \"first_k_dense_replace\": %d, "
        "\"moe_layer_freq\": 1, \"hidden_act\": \"silu\", \"max_position_embeddings\": 163840, "
        "\"rms_norm_eps\": %g, \"rope_theta\": %g, \"rope_scaling\": %s, "
        "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"%s}\n",
        s->vocab, s->hidden, s->dense, s->inner, s->layers, s->heads, s->heads, s->shared,
        s->experts, s->top_k, s->scale, s->kv_lora, q_lora, s->rope, s->v, s->nope, s->groups,
        s->top_groups, s->method, s->scoring, s->norm_topk ? "true" : "false", s->first_dense,
        s->eps, s->theta, scaling, s->quant);
    if (file_out_open(&f, path, err) == ERR_OK && file_out_write(&f, text, n, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}

static enum err_code write_head(struct campaign_case *c, const struct shape *s, int64_t i,
                                uint64_t seed, const char *folder, struct err *err)
{
    char path[FILE_PATH];
    const struct campaign_head head = {.mla = (i + (int64_t)seed) % 2,
                                       .normed = i / 2 % 2,
                                       .hidden = s->hidden,
                                       .layers = s->layers,
                                       .vocab = s->vocab,
                                       .seed = seed * 1000 + (uint64_t)i};
    if (file_join(folder, "head.json", path, err) != ERR_OK) return err->code;
    snprintf(c->head, sizeof c->head, "synth:%s?seed=%llu", path, (unsigned long long)seed);
    return campaign_head_write(&head, path, err);
}

static enum err_code draw_tokens(struct tokens *t, int64_t vocab, int first, int second,
                                 uint64_t seed, struct err *err)
{
    int64_t id[64], length[2] = {first, second};
    uint64_t base = synth_base(seed, "campaign.tokens");
    for (int i = 0; i < first + second; i++) id[i] = (int64_t)(synth_x(base, i) % (uint64_t)vocab);
    return tokens_copy(id, first + second, length, second ? 2 : 1, t, err);
}

enum err_code campaign_case_tokens(struct tokens *t, int64_t vocab, uint64_t seed, struct err *err)
{
    struct draw d = {synth_base(seed, "campaign.lengths"), 0};
    int first = ONE_OF(&d, 6, 9, 13, 17), second = ONE_OF(&d, 0, 0, 4, 7);
    return draw_tokens(t, vocab, first, second, seed, err);
}

enum err_code campaign_case_make(struct campaign_case *c, int64_t i, uint64_t seed,
                                 const char *folder, struct err *err)
{
    char config[FILE_PATH];
    struct shape s = i < CASE_FIXED ? fixed[i] : draw_shape(i, seed);
    *c = (struct campaign_case){0};
    if (i < CASE_FIXED)
        snprintf(c->name, sizeof c->name, "%s seed %llu", s.name, (unsigned long long)seed);
    else
        snprintf(c->name, sizeof c->name, "%s %lld seed %llu", s.name, (long long)(i - CASE_FIXED),
                 (unsigned long long)seed);
    snprintf(c->model, sizeof c->model, "%s", folder);
    if (file_make_folder(folder, err) != ERR_OK ||
        file_join(folder, "config.json", config, err) != ERR_OK ||
        write_config(&s, config, err) != ERR_OK || campaign_weights(folder, seed, err) != ERR_OK ||
        write_head(c, &s, i, seed, folder, err) != ERR_OK)
        return err_note(err, "case %s", c->name);
    return draw_tokens(&c->tokens, s.vocab, s.tokens, s.second, seed * 1000 + (uint64_t)i, err);
}

enum err_code campaign_case_given(struct campaign_case *c, const char *model, const char *tokens,
                                  const char *head, struct err *err)
{
    *c = (struct campaign_case){0};
    snprintf(c->name, sizeof c->name, "%s", "model");
    if (snprintf(c->model, sizeof c->model, "%s", model) >= (int)sizeof c->model)
        return err_set(err, ERR_USAGE, "option|--model|a path too long|a shorter one");
    if (snprintf(c->head, sizeof c->head, "%s", head ? head : "") >= (int)sizeof c->head)
        return err_set(err, ERR_USAGE, "option|--draft|a path too long|a shorter one");
    return tokens_read(tokens, &c->tokens, err);
}

void campaign_case_close(struct campaign_case *c)
{
    tokens_free(&c->tokens);
    *c = (struct campaign_case){0};
}
