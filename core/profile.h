/* profile.h: where an engine rounds. Rows of data; the ops read them through run.h and have no
 * branches of their own for any engine. Source of every row: the model math notes, section 0;
 * `verified` says whether an outside dump confirmed it. Test: tests/test_profile.c */
#ifndef ASSAY_CORE_PROFILE_H
#define ASSAY_CORE_PROFILE_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The points at which a value may be rounded to the engine's activation type. */
enum round_point {
    RP_EMBED,         /* a row of the embedding table */
    RP_LINEAR,        /* output of every dense or expert linear */
    RP_NORM_INNER,    /* x * rsqrt(mean square + eps), before the weight */
    RP_NORM,          /* output of a norm */
    RP_ROPE_TABLE,    /* cos and sin */
    RP_ROPE_TERM,     /* each of the two products of a rotation */
    RP_ROPE,          /* a rotated value */
    RP_SCORE,         /* q . k, before the scale */
    RP_SCORE_SCALED,  /* after it */
    RP_PROB,          /* softmax weights as they enter P V */
    RP_Q_LATENT,      /* absorbed decode: U^T q */
    RP_O_LATENT,      /* absorbed decode: P c */
    RP_ATTN_CORE,     /* a head's output */
    RP_RESIDUAL,      /* the residual stream after an addition */
    RP_ROUTER_LOGITS, /* router output, before the sigmoid */
    RP_SILU,          /* silu(gate) */
    RP_ACT,           /* silu(gate) * up */
    RP_EXPERT_WEIGHT, /* a routing weight as it multiplies an expert's output */
    RP_EXPERT_TERM,   /* weight * expert output */
    RP_EXPERT_SUM,    /* the running sum after each expert, where the engine accumulates in its own
                         type */
    RP_ROUTED_SCALED, /* the expert sum times the routed scale, where the engine scales the sum */
    RP_ROUTED,        /* the expert sum */
    RP_MOE,           /* routed + shared */
    RP_LOGITS,        /* lm_head output */
    RP_COUNT,
    RP_NONE = RP_COUNT /* no point: part of a sum over ranks, which is rounded when it is whole */
};

/* What is said wherever a row without `verified` is used. */
#define PROFILE_UNVERIFIED "unverified: no outside dump has confirmed this profile"

struct profile {
    char name[16]; /* with its "+exact" */
    const char *about;
    const char *family; /* the name that stands for several releases of one engine; NULL: its own */
    bool verified;      /* confirmed by dumps of that engine */
    bool latent_eps_config;   /* q_a and kv_a norms use rms_norm_eps; else 1e-6 (model math 8.4) */
    bool decode_absorbed;     /* decode steps use the absorbed form of MLA */
    bool norm_sees_unrounded; /* add + norm: the norm reads the sum before it is rounded */
    bool prob_before_sum;     /* softmax weights round before the division by their sum (flash
                                 attention) */
    bool scale_after_sum;     /* routed_scaling_factor multiplies the expert sum, not each weight */
    bool cut_sums;            /* products are summed by tensor cores: profile_cut_sum() */
    bool rounds[RP_COUNT];
};

/* "math", "hf", "hf4", "vllm", "sgl", "gpu", and "NAME+exact" (the conventions of NAME, no
 * rounding). Unknown names are an error that lists the known ones. The result lives as long as the
 * program. */
enum err_code profile_find(const char *name, struct profile *out, struct err *err) ERR_USED;
/* What a sum of n products loses in tensor cores, relative to its size: they add 16 products a step
 * and cut off what lies below 2^-23 of the step's largest instead of rounding; over n/16 steps as a
 * random walk. */
double profile_cut_sum(int64_t n);
/* What is rounded at a point, in words; NULL past the last. */
const char *profile_point(enum round_point p);
/* Name of row i, or NULL past the end. */
const char *profile_name(int i);

#ifdef __cplusplus
}
#endif
#endif
