/* mla_decode_choose.cu: which decode kernel of sm_90a serves a launch, in which cut, and its
 * launch. Contract: gpu/mla_core.cuh. A row has the same bits from one kernel in one cut whatever
 * stands beside it; from another, which cuts the row elsewhere, it may have others. The choice is
 * one of time, by the launch's rows, heads and tokens. --tactic mla.decode=NAME forces one; it is
 * refused where it cannot serve. */
#include "core/tactic.h"

#include "gpu/launch.cuh"
#include "gpu/mla_choose.h"
#include "gpu/mla_decode_variants.cuh"
#include "gpu/tensor_map.cuh"

#include <string.h>

/* Measured on an H200: parts on 64 and 128 heads of 1 to 128 rows of 4096 to 131072 tokens, chunks
 * on 8, 16 and 64 heads of 1 to 128 rows of 512 to 131072. launch and begin are what is left at no
 * waves and no tiles, step is the slope, rate what full cards reach. Tiles of 64 are as fast as
 * those of 128 where a chunk has several. */
struct variant_row {
    struct decode_variant (*variant)(void);
    const char *tactic;
    struct mla_decode_cost cost;
};

/* Rows up to 8192 tokens are one, two, four, eight parts; longer ones are cut into more. */
static const struct mla_cut WHOLE = {0, 13}, HALVES = {1, 12}, PARTS = {2, 11}, EIGHTHS = {3, 10};

static const struct variant_row rows[] = {
    {mla_variant_parts, "64 heads, whole rows", {"whole", 2, 6, 1.65, 4300, 64, 64, 0, 0, WHOLE}},
    {mla_variant_parts, "64 heads, 2 parts", {"halves", 2, 6, 1.65, 4300, 64, 64, 0, 0, HALVES}},
    {mla_variant_parts, "64 heads, 4 parts", {"parts", 2, 6, 1.65, 4300, 64, 64, 0, 0, PARTS}},
    {mla_variant_parts, "64 heads, 8 parts", {"eighths", 2, 6, 1.65, 4300, 64, 64, 0, 0, EIGHTHS}},
    {mla_variant_spread64,
     "16 heads, chunks of 64 tokens",
     {"spread64", 0.9, 5.7, 1.45, 4450, 16, 64, 64, MLA_MAIL, {}}},
    {mla_variant_spread128,
     "16 heads, chunks of 128 tokens",
     {"spread128", 1.1, 3.9, 3.9, 4450, 16, 128, 128, MLA_MAIL, {}}},
    {mla_variant_spread64,
     "16 heads, chunks of 256 tokens",
     {"spread256", 0.9, 5.7, 1.45, 4450, 16, 64, 256, MLA_MAIL, {}}},
    {mla_variant_spread64,
     "16 heads, chunks of 512 tokens",
     {"spread512", 0.9, 5.7, 1.45, 4450, 16, 64, 512, MLA_MAIL, {}}},
    {mla_variant_spread64,
     "16 heads, chunks of 1024 tokens",
     {"spread1024", 0.9, 5.7, 1.45, 4450, 16, 64, 1024, MLA_MAIL, {}}},
    {mla_variant_spread64,
     "16 heads, chunks of 2048 tokens",
     {"spread2048", 0.9, 5.7, 1.45, 4450, 16, 64, 2048, MLA_MAIL, {}}},
    {mla_variant_spread64,
     "16 heads, chunks of 4096 tokens",
     {"spread4096", 0.9, 5.7, 1.45, 4450, 16, 64, 4096, MLA_MAIL, {}}},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static struct mla_decode_size size_of(const struct mla_attend *a)
{
    return {a->rows,    a->heads, a->parts,  a->most,
            a->longest, a->seen,  a->tokens, a->tokens == a->rows * a->seen};
}

/* Leaves the rows cut as the variant does it. */
static enum err_code choose(struct gpu *g, struct mla_attend *a, int *best, struct err *err)
{
    const char *forced = tactic_forced("mla.decode");
    double least = 0;
    *best = -1;
    for (int i = 0; i < ROWS; i++) {
        const struct decode_variant v = rows[i].variant();
        if (forced && strcmp(forced, rows[i].cost.name) != 0) continue;
        if (!rows[i].cost.unit) mla_cut_rows(a, rows[i].cost.cut);
        const struct mla_decode_size s = size_of(a);
        if (!mla_decode_serves(&rows[i].cost, &s, g->sms)) continue;
        if (gpu_shared(g, (const void *)v.kernel, "mla_decode_wgmma", (size_t)v.shared, err) !=
            ERR_OK)
            return err->code;
        double us = mla_decode_microseconds(&rows[i].cost, &s, g->sms);
        if (*best < 0 || us < least) *best = i, least = us;
    }
    if (*best < 0)
        return tactic_none("mla.decode", "rows, heads or tokens that it does not serve", err);
    if (!rows[*best].cost.unit) mla_cut_rows(a, rows[*best].cost.cut);
    return ERR_OK;
}

/* Boxes of 64 entries and 64 columns of the cache. */
static bool map_tiles(const struct mla_attend *a, CUtensorMap *map)
{
    const struct mla_keys *k = &a->keys;
    const cuuint64_t size[2] = {(cuuint64_t)(a->K + a->R), (cuuint64_t)k->entries};
    const cuuint64_t steps[1] = {(cuuint64_t)k->step * sizeof(bf16)};
    const cuuint32_t box[2] = {64, MLA_PAGE}, every[2] = {1, 1};
    PFN_cuTensorMapEncodeTiled_v12000 make = gpu_map_encoder();
    return make && make(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)k->key, size, steps, box,
                        every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool mla_decode_has_wgmma(const struct gpu *g)
{
    const struct decode_variant v = mla_variant_parts();
    cudaFuncAttributes attributes;
    return g->major == 9 && g->minor == 0 && g->shared_max >= (size_t)v.shared &&
           cudaFuncGetAttributes(&attributes, (const void *)v.kernel) == cudaSuccess &&
           attributes.ptxVersion >= 90;
}

/* Scratch for parts. */
static enum err_code take_scratch(struct gpu *g, struct mla_attend *a, struct err *err)
{
    /* A place for each part that a row may have spares the merge a look-up, but not at any price.
     */
    bool spaced = a->rows * a->most <= 2 * a->parts;
    int64_t places = spaced ? a->rows * a->most : a->parts;
    a->places = spaced ? a->most : 0;
    a->first = gpu_new<int32_t>(g, a->rows, "parts of rows", err);
    if (a->most > 1)
        a->part = gpu_new<float>(g, places * mla_head_blocks(a->heads, 64) * 64 * a->W,
                                 "partial sums of attention", err);
    a->stat = gpu_new<float2>(g, places * a->heads, "partial maxima of attention", err);
    return err->code;
}

/* Blocks stay and take part after part, or chunk after chunk. Those of chunks have the heads along
 * x, and wait for each other: all of them must run at once. */
static dim3 grid_of(const struct gpu *g, const struct mla_decode_cost *c,
                    const struct mla_decode_size *s)
{
    int64_t items = mla_decode_items(c, s), most = mla_decode_at_once(c, s, g->sms);
    unsigned blocks = (unsigned)(items < most ? items : most);
    unsigned across = (unsigned)mla_head_blocks(s->heads, c->heads);
    if (!c->unit) return dim3(blocks ? blocks : 1);
    return dim3(across, blocks ? blocks / across : 1);
}

enum err_code mla_decode_wgmma(struct gpu *g, struct mla_attend *a, struct err *err)
{
    struct decode_maps maps = {};
    int chosen;
    if (choose(g, a, &chosen, err) != ERR_OK) return err->code;
    const struct mla_decode_size s = size_of(a);
    maps.every_lane = g->every_lane;
    maps.paged =
        a->keys.block % MLA_PAGE == 0 && a->keys.entries <= INT32_MAX && map_tiles(a, &maps.tile);
    /* Where the partial results fit the far cache, they stay there if the cache's tiles do not: 32
     * rows of 4096 in 51 us instead of 54; 128 rows of 8192, whose do not, in 346 instead of 337.
     */
    maps.once = a->most > 1 && (size_t)(a->parts * a->heads * a->W) * sizeof(float) <= g->l2 / 2;
    const struct mla_decode_cost *c = &rows[chosen].cost;
    const struct decode_variant v = rows[chosen].variant();
    a->unit = (uint32_t)c->unit;
    if (c->unit)
        a->places = s.seen > 0 ? mla_chunks_most(s.seen, c->unit) : 1; /* to be cleared */
    else if (take_scratch(g, a, err) != ERR_OK)
        return err->code;
    const struct gpu_launch l = {"mla_decode_wgmma",        rows[chosen].tactic, grid_of(g, c, &s),
                                 dim3((unsigned)v.threads), (size_t)v.shared,    a->overlap};
    if (gpu_launch(g, &l, err, v.kernel, *a, maps) != ERR_OK) return err->code;
    return c->unit || a->most <= 1 ? ERR_OK : mla_decode_merge(g, a, err);
}
