/* moe_choose.h: which kernel makes the grouped products of packed experts: the variants as data,
 * and the choice. Plain C, shared by the choice and its test. A row has the same bits from each of
 * them, so the choice is one of time alone. Test: tests/test_moe_choose.c */
#ifndef ASSAY_GPU_MOE_CHOOSE_H
#define ASSAY_GPU_MOE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Three families of kernels, with the same bits for a row whatever stands beside it: every sum runs
 * through k in ascending steps of 16, in one float32 accumulator of the tensor cores. That mma.sync
 * and wgmma agree to the bit was seen on an H200 and is what `assay op moe --tactic` tests; nobody
 * promises it.
 *     moe_gemm.cu        any card; at most MOE_CAP_MMA rows a tile
 *     moe_stream.cu      compute capability 9.0 and newer; MOE_CAP_STREAM: fewest instructions
 *     moe_gemm_large.cu  9.0 alone; MOE_CAP_LARGE: fewest reads of a weight */
enum moe_kernel { MOE_MMA, MOE_STREAM, MOE_LARGE, MOE_KERNELS };
enum { MOE_CAP_STREAM = 32, MOE_CAP_MMA = 64, MOE_CAP_LARGE = 128 };

/* Strips of 64 rows that a warp of moe_stream.cu works on at once: one; one of w13 and two of w2;
 * two. Two at once read the tokens once for both and fill a stage where a strip is short; one at a
 * time gives twice as many tasks. */
enum moe_strips_by { MOE_ONE, MOE_ONE_TWO, MOE_TWO };

/* Of a launch, what the choice depends on. */
struct moe_size {
    int64_t pairs, E;      /* tokens x experts of one; experts that they are routed over */
    int64_t H;             /* columns of a result */
    int64_t strips;        /* of w13 */
    int64_t sms;           /* multiprocessors */
    bool has[MOE_KERNELS]; /* the build and the card */
};

/* It is chosen for more than `over` and up to `upto` rows an expert on average, and where `when`
 * holds. */
enum moe_when { MOE_ALWAYS, MOE_FEW, MOE_MANY, MOE_NARROW };
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
 * Apart: where every strip of w13 has a block of its own there is nothing to take in turns, and the
 * end of a kernel costs less than the counters, 59 us against 64 for one token. Two strips of w13
 * at once, where it then still has two tasks for every block: 256 tokens 2323 us against 2401, 16
 * tokens 646 against 657; of a shard of 256 columns, 256 tokens 309 against 317, but 64 tokens 225
 * against 221, 16 tokens 115 against 100.
 * Gather: taking 4096 tokens' rows from where they are costs 40 us for every 256 rows of w13, the
 * copy 183 us once: of a shard of 256 columns 748 us against 845, of all 2048 columns 5150 against
 * 4700. With 43 rows an expert instead of 85 both take the same, 670 us; with 10 it is 608 us
 * against 525. */
static const struct moe_variant moe_variants[] = {
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

/* NULL where the variant can make the products, else why it cannot. */
static inline const char *moe_refuses(const struct moe_variant *v, const struct moe_size *s)
{
    if (!s->has[v->kernel]) return "this card has no such products";
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
