/* moe_choose.h: which kernel makes the grouped products of packed experts: the variants as data,
 * and the choice. Plain C, shared by the choice and its test. A row has the same bits from each of
 * them but `fused`, which has bits of its own: there alone the choice is more than one of time.
 * Test: tests/test_moe_choose.c */
#ifndef ASSAY_GPU_MOE_CHOOSE_H
#define ASSAY_GPU_MOE_CHOOSE_H

#include "gpu/moe_fused.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Four families of kernels. A row has the same bits in any launch of one of them, whatever stands
 * beside it. In three every sum runs through k in ascending steps of 16, in one float32 accumulator
 * of the tensor cores, so that they agree. That mma.sync and wgmma do so to the bit was seen on an
 * H200 and is what `assay op moe --tactic` tests; nobody promises it. The fourth cuts k into chunks
 * of 256, whose sums are added afterwards: the same numbers in another order.
 *     moe_gemm.cu        any card; at most MOE_CAP_MMA rows a tile
 *     moe_stream.cu      compute capability 9.0 and newer; MOE_CAP_STREAM: fewest instructions
 *     moe_gemm_large.cu  9.0 alone; MOE_CAP_LARGE: fewest reads of a weight
 *     moe_fused.cu       9.0 and newer; up to four tokens, all of op moe in one launch */
enum moe_kernel { MOE_MMA, MOE_STREAM, MOE_LARGE, MOE_FUSED, MOE_KERNELS };
enum { MOE_CAP_STREAM = 32, MOE_CAP_MMA = 64, MOE_CAP_LARGE = 128 };

/* Strips of 64 rows that a warp of moe_stream.cu works on at once: one; one of w13 and two of w2;
 * two. Two at once read the tokens once for both and fill a stage where a strip is short; one at a
 * time gives twice as many tasks. */
enum moe_strips_by { MOE_ONE, MOE_ONE_TWO, MOE_TWO };

/* Of a launch, what the choice depends on. */
struct moe_size {
    int64_t T, pairs, E;   /* tokens; x experts of one; experts that they are routed over */
    int64_t H, I;          /* columns of a result; of an expert */
    int64_t strips;        /* of w13 */
    int64_t sms;           /* multiprocessors */
    int64_t shared;        /* bytes of shared memory that a block may have */
    bool mps;              /* other processes run on the card at the same time */
    bool has[MOE_KERNELS]; /* the build and the card */
};

/* It is chosen for more than `over` and up to `upto` rows an expert on average, and where `when`
 * holds. */
enum moe_when { MOE_ALWAYS, MOE_FEWEST, MOE_FEW, MOE_MANY, MOE_NARROW };
struct moe_variant {
    const char *name; /* of --tactic moe=NAME */
    enum moe_kernel kernel;
    int32_t cap; /* rows of a tile at most */
    enum moe_strips_by strips;
    bool apart;  /* w13 and w2 in two launches, though the kernel can do both in one */
    bool gather; /* w13 takes its rows from where they are, though a copy in order reads faster */
    int64_t over, upto;
    enum moe_when when;
};

/* In order of preference. Tokens of a tile cost time in the multiplying kernels, weights that are
 * read again cost more: limits measured on an H200 at hidden 7168, intermediate 2048 and 256.
 * Fused: where there are at most three strips of w13 for two multiprocessors. Of 256 columns one
 * token 13.6 us against 27.6, three 35.7 against 40.5, four 45.2 against 44.2; of 512 one 22.7
 * against 32.8, two 41.3 against 41.9; of 1024 one 40.5 against 40.7; of 768 at hidden 2048
 * one 13.9 against 18.2, two 22.4 against 21.0. Apart: where every strip of w13 has a block of its
 * own there is nothing to take in turns, and the end of a kernel costs less than the counters, 59
 * us against 64 for one token. Two strips of w13 at once, where it then still has two tasks for
 * every block: 256 tokens 2323 us against 2401, 16 tokens 646 against 657; of a shard of 256
 * columns, 256 tokens 309 against 317, but 64 tokens 225 against 221, 16 tokens 115 against 100.
 * Gather: taking 4096 tokens' rows from where they are costs 40 us for every 256 rows of w13, the
 * copy 183 us once: of a shard of 256 columns 748 us against 845, of all 2048 columns 5150 against
 * 4700. With 43 rows an expert instead of 85 both take the same, 670 us; with 10 it is 608 us
 * against 525. */
static const struct moe_variant moe_variants[] = {
    {"fused", MOE_FUSED, 8, MOE_ONE, false, false, 0, INT32_MAX, MOE_FEWEST},
    {"apart8", MOE_STREAM, 8, MOE_ONE, true, false, 0, 6, MOE_FEW},
    {"two8", MOE_STREAM, 8, MOE_TWO, false, false, 0, 6, MOE_MANY},
    {"stream8", MOE_STREAM, 8, MOE_ONE_TWO, false, false, 0, 6, MOE_ALWAYS},
    {"gather", MOE_LARGE, MOE_CAP_LARGE, MOE_ONE, false, true, 40, INT32_MAX, MOE_NARROW},
    {"wgmma", MOE_LARGE, MOE_CAP_LARGE, MOE_ONE, false, false, 8, INT32_MAX, MOE_ALWAYS},
    {"stream16", MOE_STREAM, 16, MOE_TWO, false, false, 6, 14, MOE_ALWAYS},
    {"stream32", MOE_STREAM, MOE_CAP_STREAM, MOE_ONE, false, false, 14, 28, MOE_ALWAYS},
    {"mma8", MOE_MMA, 8, MOE_ONE, false, false, 0, 6, MOE_ALWAYS},
    {"mma16", MOE_MMA, 16, MOE_ONE, false, false, 6, 14, MOE_ALWAYS},
    {"mma32", MOE_MMA, 32, MOE_ONE, false, false, 14, 28, MOE_ALWAYS},
    {"mma64", MOE_MMA, MOE_CAP_MMA, MOE_ONE, false, false, 0, INT32_MAX, MOE_ALWAYS},
};

enum { MOE_VARIANTS = sizeof moe_variants / sizeof moe_variants[0] };

/* What moe_fused.cu has no room for. */
static inline const char *moe_fused_refuses(const struct moe_size *s)
{
    const struct fused_size size = {(int32_t)s->T, (int32_t)s->pairs, (int32_t)s->H, (int32_t)s->I};
    /* Its blocks wait for each other: those of two processes may each have half of the card. */
    if (s->mps) return "a card shared by MPS, where its blocks may not all run at once";
    if (s->T > FUSED_TOKENS) return "more than 4 tokens";
    if (s->pairs > FUSED_PAIRS) return "more than 32 experts of all tokens";
    if (s->pairs * moe_pad(s->I, MOE_TILE_K) / 2 > FUSED_WORDS)
        return "more than 16384 activations of all tokens' experts";
    if (s->H > FUSED_HIDDEN || fused_shared(size) > s->shared)
        return "less shared memory than it needs for rows so long";
    return NULL;
}

/* NULL where the variant can make the products, else why it cannot. */
static inline const char *moe_refuses(const struct moe_variant *v, const struct moe_size *s)
{
    if (!s->has[v->kernel]) return "this card has no such products";
    if (v->kernel == MOE_FUSED) return moe_fused_refuses(s);
    /* Its results go out in rows of 16-byte pieces. */
    if (v->kernel == MOE_LARGE && s->H % 8 != 0)
        return "rows whose width is no multiple of 8, which it does not serve";
    return NULL;
}

/* Narrow: of w13 there are two blocks of moe_gemm_large.cu at most, 256 rows each.
 * Blocks of moe_stream.cu are four a multiprocessor. Of its tiles a guess will do: as many as pairs
 * where they are few, as many as experts where they are many. */
static inline bool moe_when_holds(enum moe_when when, const struct moe_size *s)
{
    int64_t blocks = 4 * s->sms, tiles = s->pairs * s->E / (s->pairs + s->E);
    if (when == MOE_FEWEST) return 2 * s->pairs * s->strips <= 3 * s->sms;
    if (when == MOE_NARROW) return s->strips <= 8;
    if (when == MOE_FEW) return s->pairs * s->strips <= blocks;
    return when == MOE_ALWAYS || tiles * s->strips / 2 > 2 * blocks;
}

static inline bool moe_is_for(const struct moe_variant *v, const struct moe_size *s)
{
    return s->pairs > v->over * s->E && s->pairs <= v->upto * s->E && moe_when_holds(v->when, s);
}

/* The variant for a launch; `forced`: NULL, or the name of the one to take whatever its limits.
 * NULL: it is refused, *why says for what. Without `forced` there is always one. */
static inline const struct moe_variant *moe_choose(const struct moe_size *s, const char *forced,
                                                   const char **why)
{
    *why = "no such kernel";
    for (int i = 0; i < MOE_VARIANTS; i++) {
        const struct moe_variant *v = &moe_variants[i];
        if (forced ? strcmp(forced, v->name) != 0 : !moe_is_for(v, s)) continue;
        const char *refused = moe_refuses(v, s);
        if (!refused) return v;
        *why = refused;
    }
    return NULL;
}

#endif
