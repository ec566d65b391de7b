/* router_choose.h: which kernels make op router: the variants as data, and the choice. Plain C,
 * shared by the choice and its test. The logits' bits differ between a linear and the sums, within
 * the op's bound; a choice from the same logits does not. Test: tests/test_router_choose.c */
#ifndef ASSAY_GPU_ROUTER_CHOOSE_H
#define ASSAY_GPU_ROUTER_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    ROUTER_PICK_EXPERTS = 512, /* that a block chooses from: a thread each */
    ROUTER_PICK_CHOSEN = 32    /* that it gives: a lane each */
};

/* Of a router, what the choice depends on. */
struct router_size {
    int64_t T, E, top_k, groups;
    bool summed;  /* logits that are a linear's are there already */
    bool sigmoid; /* scores */
    bool forced;  /* some ids are given */
    bool dense;   /* the matrix is bf16 as stored, its rows and those of x begin at multiples of 16
                     bytes */
};

/* Logits are a linear's (gpu/linear_choose.h: its own choice, and --tactic linear), or sums over
 * parts of the columns by tensor cores, of so many tokens at most. It is chosen for more than
 * `over` and up to `upto` tokens. */
struct router_variant {
    const char *name; /* of --tactic router=NAME */
    int32_t sums;     /* tokens at most; 0: a linear */
    bool block;       /* a block chooses for a token, not a warp */
    int64_t over, upto;
};

/* In order of preference. us on an H200, 384 experts of 7168 columns:
 *     tokens     1     8    16    32    64   128   512  1024  2048
 *     sum16    6.2   7.4  10.1
 *     block    7.2  12.2   7.8   8.0   9.5   9.8  14.6  21.6  34.8
 *     warp    15.1  19.5  15.9  16.2  17.9  17.0  20.8  24.3  33.8
 * Sums of up to 32 tokens at once took 11.5 for 32, of 64 12.0 for 64, and are gone. In a layer,
 * where the logits are made beside the shared expert, they cost 0.5 us for 64 tokens. */
static const struct router_variant router_variants[] = {
    {"sum16", 16, true, 0, 8},
    {"block", 0, true, 0, 1024},
    {"warp", 0, false, 0, INT64_MAX},
};

enum { ROUTER_VARIANTS = sizeof router_variants / sizeof router_variants[0] };

/* NULL where the variant can serve, else why it cannot. */
static inline const char *router_refuses(const struct router_variant *v,
                                         const struct router_size *s)
{
    if (v->sums && s->T > v->sums) return "more tokens than it serves";
    if (v->sums && !s->dense)
        return "a matrix that is not dense bf16 of a multiple of 8 columns, which it does not "
               "serve";
    if (!v->block) return NULL;
    if (s->E > ROUTER_PICK_EXPERTS || s->top_k > ROUTER_PICK_CHOSEN)
        return "more than 512 experts, or 32 of a token, which it does not serve";
    return s->sigmoid && s->groups == 1 && !s->forced
               ? NULL
               : "softmax, groups or ids that are given, which it does not serve";
}

static inline bool router_is_for(const struct router_variant *v, const struct router_size *s)
{
    return s->T > v->over && s->T <= v->upto && !(v->sums && s->summed);
}

/* The variant for a router; `forced`: NULL, or the name of the one to take whatever its limits.
 * NULL: it is refused, *why says for what. Without `forced` there is always one. */
static inline const struct router_variant *router_variant_for(const struct router_size *s,
                                                              const char *forced, const char **why)
{
    *why = "no such kernel";
    for (int i = 0; i < ROUTER_VARIANTS; i++) {
        const struct router_variant *v = &router_variants[i];
        if (forced ? strcmp(forced, v->name) != 0 : !router_is_for(v, s)) continue;
        *why = router_refuses(v, s);
        if (!*why) return v;
    }
    return NULL;
}

#endif
