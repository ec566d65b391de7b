/* head.h: an EAGLE-3 draft head: its config, its tensors bound to their roles, its vocabulary map.
 *
 * HEAD is a folder with config.json and *.safetensors, or "synth:CONFIG.json?seed=N" (names of the
 * speculators naming). The tensors say which naming it is:
 *
 *   naming       decoder layer     further layers        map
 *   speculators  layers.0.*        layers.K.*            d2t, t2d
 *   safeai       midlayer.*        additional_layers.*   d2t, t2d       SafeAILab, SGLang
 *   vllm         model.layers.0.*  model.layers.K.*      draft_id_to_target_id or d2t
 *   modelopt     midlayer.*        as safeai             d2t; eagle_config, and no t2d
 *
 * The config is that of speculators (speculators_model_type, transformer_layer_config) or flat, the
 * flags at its top or under eagle_config, whatever the naming.
 *
 * Row p of a head pairs the target's aux states of position p with token p+1. Its numbers: eagle.h.
 * Aux ids are entry ids throughout: id i is the residual stream as it enters layer i; id n the
 * output of the last layer, before the final norm. Tests: tests/test_head.c, test_head_config.c */
#ifndef ASSAY_CORE_HEAD_H
#define ASSAY_CORE_HEAD_H

#include "core/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum head_kind { HEAD_LLAMA, HEAD_MLA };
enum head_naming { HEAD_SPECULATORS, HEAD_SAFEAI, HEAD_VLLM, HEAD_MODELOPT, HEAD_NAMINGS };

enum { HEAD_AUX = 8, HEAD_LAYERS = 8, HEAD_ASSUMED = 128 };

struct head_config {
    enum head_kind kind;
    enum head_naming naming;
    /* hidden, heads, intermediate, layers, norm_eps, rope_theta, scaling, vocab (the target's),
     * dtype, sha256; MLA: q_lora, kv_lora, nope, rope, v_head; Llama: rope is the head's width,
     * nope is 0. What core/rope.h and core/config.h need of a decoder. */
    struct config base;
    int64_t kv_heads, head_dim; /* Llama */
    int64_t target_hidden;      /* width of one aux state; 0 in a config that does not say */
    int64_t draft_vocab;        /* rows of lm_head */
    bool norm_before_residual;  /* the skip path starts at the normed hidden state */
    bool norm_before_fc;        /* one norm over all aux states */
    bool fc_norm;               /* one norm an aux state */
    bool norm_output;           /* EAGLE-3.1: what is fed back is normed */
    bool qk_norm;               /* Qwen3: a norm over each query and key head */
    bool speculators;           /* the config's form, not the naming of the tensors */
    int64_t aux[HEAD_AUX];      /* entry ids, as served: ascending; -1 where nobody says */
    int aux_count;
    bool aux_given; /* else (2, n/2, n-3) of the target, where there is one */
    /* What the files do not say and was assumed, one sentence each, or "": for every report. */
    char residual_assumed[HEAD_ASSUMED], aux_assumed[HEAD_ASSUMED], width_assumed[HEAD_ASSUMED];
};

/* Parses the text of a head's config.json; `where` is used in messages. Keys that are absent take
 * the defaults of the class that the config names, as its serialisation leaves them out. The naming
 * is a guess until head_open() has seen the tensors. */
enum err_code head_config_parse(const char *text, int64_t size, const char *where,
                                struct head_config *out, struct err *err) ERR_USED;
/* Sets the naming, and with it what is said about an absent norm_before_residual. */
void head_config_set_naming(struct head_config *c, enum head_naming naming);
/* Columns of one entry of the draft's cache: MLA kv_lora + rope; Llama 2 * kv_heads * head_dim. */
int64_t head_cache_width(const struct head_config *c);
/* Llama: head_dim^-1/2, YaRN acts on cos and sin alone; MLA: config_softmax_scale(). */
double head_softmax_scale(const struct head_config *c);
const char *head_naming_name(enum head_naming n);
const char *head_kind_name(enum head_kind k);
/* True where the folder, or synth:CONFIG.json?seed=N, has a config that looks like a head's: cheap,
 * for verbs that take anything. */
bool head_is(const char *spec);

struct head_layer {
    struct tensor embed_norm;  /* input_layernorm; layer 0: on the embedding; a further layer of
                                  SGLang calls it hidden_norm */
    struct tensor hidden_norm; /* layer 0 only */
    struct tensor mlp_norm;    /* post_attention_layernorm */
    struct matrix q, k, v; /* Llama: [heads*hd | kv*hd, 2H]; H where the layer is not the first */
    struct tensor q_head_norm, k_head_norm; /* qk_norm */
    struct matrix q_a, q_b, kv_a, kv_b;     /* MLA: as struct layer, 2H wide inputs */
    struct tensor q_norm, kv_norm;
    struct matrix o;
    struct matrix gate, up, down;
};

/* A tensor that does not fit the config. */
enum head_misfit_kind { HEAD_MISSING, HEAD_EXTRA, HEAD_SHAPE, HEAD_DTYPE };

struct head_misfit {
    enum head_misfit_kind kind;
    char name[NAME_MAX_BYTES];
    char found[96], wanted[96]; /* "[256, 512] BF16"; "nothing" */
};

struct head {
    struct weights weights;
    struct head_config config;
    struct rope_table rope;
    struct tensor embed; /* own, or the target's; !tensor_exists() where there is neither */
    bool own_embed, own_lm_head;
    struct matrix fc;                /* [H, aux * target_hidden] */
    struct tensor fc_input_norm;     /* norm_before_fc: [aux * target_hidden] */
    struct tensor fc_norm[HEAD_AUX]; /* fc_norm: [target_hidden] each */
    struct tensor norm;
    struct matrix lm_head; /* [draft_vocab, H]; own, or the target's; data is no tensor where there
                              is neither */
    struct head_layer layers[HEAD_LAYERS];
    int64_t *target_id; /* [draft_vocab]: target id of a draft id, ascending; identity without a
                           d2t; NULL: no valid map (head_open_loose) */
    bool mapped;        /* there is a d2t */
    const struct st_tensor *d2t, *t2d; /* as stored, or NULL */
    struct head_misfit *misfits;       /* all of them, also after a refusal */
    int64_t misfit_count;
};

/* Opens and binds. `target` gives embedding, lm_head and default aux ids where the head has none of
 * its own; NULL: alone. head_close() frees, also after an error. Refused, in one line each: no
 * known naming; tensors that do not fit (a few are named; h->misfits has all); a d2t that is
 * missing where draft_vocab < V, out of range, not ascending or unequal to t2d; aux ids beyond the
 * target; a target of other width or vocabulary; a folder of pytorch_model.bin. */
enum err_code head_open(struct head *h, const char *spec, const struct model *target,
                        struct err *err) ERR_USED;
/* The same, but a d2t or t2d that is no valid map is kept as stored (target_id then NULL): for
 * those who are to say what is wrong with it. */
enum err_code head_open_loose(struct head *h, const char *spec, const struct model *target,
                              struct err *err) ERR_USED;
void head_close(struct head *h);

#ifdef __cplusplus
}
#endif
#endif
