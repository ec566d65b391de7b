/* tap.h: the named points of a forward pass, in execution order; the common tongue of all engines.
 *
 *   tap                      shape         op
 *   embed                    [T, H]        embed
 *   layers.N.attn_norm       [T, H]        norm
 *   layers.N.q               [T, h(P+R)]   mla.q
 *   layers.N.kv_latent       [T, L]        mla.kv
 *   layers.N.k_rope          [T, R]        mla.kv
 *   layers.N.attn_core       [T, h V]      mla.core
 *   layers.N.attn            [T, H]        mla.output
 *   layers.N.mlp_norm        [T, H]        norm
 *   layers.N.router_logits   [T, E]        router
 *   layers.N.experts         [T, k] int32  router
 *   layers.N.expert_weights  [T, k]        router
 *   layers.N.routed          [T, H]        moe
 *   layers.N.shared          [T, H]        moe.shared
 *   layers.N.mlp             [T, H]        mlp, moe
 *   layers.N.output          [T, H]        mlp, moe
 *   final_norm               [T, H]        norm
 *   logits                   [T, V]        logits
 *
 * Of a draft head, step S (eagle.h); their rows are D, those with a token behind them in their
 * sequence, so one less a sequence:
 *   draft.0.fused            [D, H]        eagle.fc
 *   draft.S.hidden           [D, H]        eagle.layer
 *   draft.S.logits           [D, Vd]       eagle.layer
 *   draft.S.tokens           [D, 1] int32  eagle.layer
 *
 * Test: tests/test_tap.c */
#ifndef ASSAY_CORE_TAP_H
#define ASSAY_CORE_TAP_H

#include "core/cache.h"
#include "core/config.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tap_kind {
    TAP_EMBED,
    TAP_ATTN_NORM,
    TAP_Q,
    TAP_KV_LATENT,
    TAP_K_ROPE,
    TAP_ATTN_CORE,
    TAP_ATTN,
    TAP_MLP_NORM,
    TAP_ROUTER_LOGITS,
    TAP_EXPERTS,
    TAP_EXPERT_WEIGHTS,
    TAP_ROUTED,
    TAP_SHARED,
    TAP_MLP,
    TAP_OUTPUT,
    TAP_FINAL_NORM,
    TAP_LOGITS,
    TAP_DRAFT_FUSED,
    TAP_DRAFT_HIDDEN,
    TAP_DRAFT_LOGITS,
    TAP_DRAFT_TOKENS,
    TAP_KINDS
};

enum { TAP_NAME = 64 };

struct tap {
    enum tap_kind kind;
    int64_t layer; /* -1 where it belongs to none; of a draft tap: its step */
    char name[TAP_NAME];
    int64_t cols; /* 0 where it was made without a config */
    bool ints;    /* int32 */
};

/* The taps of layers [first, end) of a model, with embed where first is 0 and final_norm and logits
 * where end is config->layers. *out is the caller's (free()). */
enum err_code tap_list(const struct config *c, int64_t first, int64_t end, struct tap **out,
                       int64_t *count, struct err *err) ERR_USED;

/* The taps of a draft head's steps 0 .. steps-1. *out is the caller's (free()). */
enum err_code tap_list_draft(int64_t steps, int64_t hidden, int64_t draft_vocab, struct tap **out,
                             int64_t *count, struct err *err) ERR_USED;
/* "[T, h(P+R)]", in the letters of the table above. */
const char *tap_shape(enum tap_kind kind);
bool tap_is_ints(enum tap_kind kind);
/* A tap of a draft head: its rows are those that have a token behind them. */
bool tap_is_draft(enum tap_kind kind);

/* Kind and layer of a name; false for a name that is no tap of this list. */
bool tap_parse(const char *name, enum tap_kind *kind, int64_t *layer);
/* Place in execution order of any tap of any layer: (layer, kind) as one number; all are below
 * TAP_RANK_END. */
#define TAP_RANK_END (INT64_MAX / 4 * 3)
int64_t tap_rank(enum tap_kind kind, int64_t layer);
/* The op that makes this tap; `moe` says whether its layer has experts. */
const char *tap_op(enum tap_kind kind, bool moe);
void tap_format(enum tap_kind kind, int64_t layer, char out[TAP_NAME]);
/* The type of a real tap in an engine that keeps activations in `act` and does not round what it
 * sums in float32: logits of router and head, expert weights. */
enum dtype tap_dtype(enum tap_kind kind, enum dtype act);

/* What a forward pass gives its taps to. Rows are those of one step: dump_row says where they
 * belong. */
struct tap_sink {
    bool (*wants)(
        void *ctx,
        const char *name); /* asked once a tap and step; what is not wanted may be left out */
    enum err_code (*reals)(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err);
    enum err_code (*ints)(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err);
    void *ctx;
    /* What the run goes on with: overwrites the rows of `data` that it has another value for. NULL:
     * nothing is replaced. For runs anchored at what a subject recorded. */
    enum err_code (*replace)(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                             double *data, struct err *err);
};

#ifdef __cplusplus
}
#endif
#endif
