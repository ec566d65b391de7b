/* mla_decode_choose.cu: which decode kernel of sm_90a serves a launch, and its launch. Contract:
 * gpu/mla_core.cuh. A row has the same bits from each of them, so the choice is one of time alone.
 * --tactic mla.decode=NAME forces one; it is refused where it cannot serve. */
#include "core/tactic.h"

#include "gpu/launch.cuh"
#include "gpu/mla_choose.h"
#include "gpu/mla_decode_variants.cuh"
#include "gpu/tensor_map.cuh"

#include <string.h>

/* Measured on an H200, 64 heads of 1 to 128 rows of 512 to 8192 tokens: begin is what is left at no
 * tiles, step the slope. */
struct variant_row {
    struct decode_variant (*variant)(void);
    struct mla_decode_cost cost;
};

static const struct variant_row rows[] = {
    {mla_variant_parts, {"parts", 10, 2.05, 1, 1, false, 0}},
    {mla_variant_spread, {"spread", 4, 10, 16, 16, true, MLA_MEETINGS}},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static struct mla_decode_size size_of(const struct mla_attend *a)
{
    return {a->rows, a->heads, a->parts, a->most, a->longest};
}

/* Blocks or clusters of a variant that run at once; asked once, of the process' one device. */
static int64_t slots(const struct gpu *g, int i, const struct decode_variant *v)
{
    static int known[ROWS];
    cudaLaunchAttribute attributes[2] = {};
    const struct gpu_launch l = {"",
                                 "",
                                 dim3((unsigned)(g->sms / v->cluster * v->cluster)),
                                 dim3((unsigned)v->threads),
                                 (size_t)v->shared,
                                 v->cluster,
                                 false};
    if (v->cluster == 1) return g->sms;
    cudaLaunchConfig_t how = gpu_launch_config(g, &l, attributes);
    if (!known[i] &&
        cudaOccupancyMaxActiveClusters(&known[i], (const void *)v->kernel, &how) != cudaSuccess) {
        (void)cudaGetLastError();
        known[i] = -1; /* not on this card */
    }
    return known[i];
}

/* Lets the kernels use their shared memory and clusters. */
static enum err_code prepare(struct gpu *g, const struct decode_variant *v, struct err *err)
{
    const void *kernel = (const void *)v->kernel;
    if (gpu_shared(g, kernel, "mla_decode_wgmma", (size_t)v->shared, err) != ERR_OK)
        return err->code;
    if (v->cluster <= 8) return ERR_OK;
    return gpu_call(g,
                    cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                    "allow clusters of sixteen", err);
}

static enum err_code choose(struct gpu *g, const struct mla_decode_size *s, bool mapped, int *best,
                            struct err *err)
{
    const char *forced = tactic_forced("mla.decode");
    double least = 0;
    *best = -1;
    for (int i = 0; i < ROWS; i++) {
        const struct decode_variant v = rows[i].variant();
        if (forced && strcmp(forced, rows[i].cost.name) != 0) continue;
        if (v.cluster > 1 && !mapped) continue; /* its queries come by the copy engine */
        if (!mla_decode_serves(&rows[i].cost, s)) continue;
        if (prepare(g, &v, err) != ERR_OK) return err->code;
        int64_t at_once = slots(g, i, &v);
        if (at_once <= 0) continue;
        double us = mla_decode_microseconds(&rows[i].cost, s, at_once);
        if (*best < 0 || us < least) *best = i, least = us;
    }
    if (*best >= 0) return ERR_OK;
    return tactic_none("mla.decode", "rows, heads or tokens that it does not serve", err);
}

/* Boxes of 64 rows and `wide` columns, swizzled by the bytes of a row, of [rows][columns] whose
 * rows are `step` apart. */
static bool map_boxes(CUtensorMap *map, const bf16 *data, int64_t rows, int64_t columns,
                      int64_t step, unsigned wide)
{
    const cuuint64_t size[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    const cuuint64_t steps[1] = {(cuuint64_t)step * sizeof(bf16)};
    const cuuint32_t box[2] = {wide, MLA_PAGE}, every[2] = {1, 1};
    PFN_cuTensorMapEncodeTiled_v12000 make = gpu_map_encoder();
    return make && make(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)data, size, steps, box,
                        every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                        wide == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* False where the copy engine cannot bring the queries. */
static bool map_all(const struct mla_attend *a, struct decode_maps *maps)
{
    const struct mla_keys *k = &a->keys;
    int64_t width = a->K + a->R, heads = a->rows * a->heads;
    maps->paged = k->block % MLA_PAGE == 0 && k->entries <= INT32_MAX &&
                  map_boxes(&maps->tile, k->key, k->entries, width, k->step, 64) &&
                  map_boxes(&maps->narrow, k->key, k->entries, width, k->step, 32);
    return map_boxes(&maps->query, a->q, heads, a->K, a->q_head, 64) &&
           map_boxes(&maps->rope, a->q_rope, heads, a->R, a->rope_head, 64);
}

bool mla_decode_has_wgmma(const struct gpu *g)
{
    const struct decode_variant v = mla_variant_parts();
    cudaFuncAttributes attributes;
    return g->major == 9 && g->minor == 0 && g->shared_max >= (size_t)v.shared &&
           cudaFuncGetAttributes(&attributes, (const void *)v.kernel) == cudaSuccess &&
           attributes.ptxVersion >= 90;
}

/* Scratch of a variant: partial results, and the weights that the blocks of a cluster exchange. */
static enum err_code take_scratch(struct gpu *g, const struct decode_variant *v,
                                  struct mla_attend *a, struct err *err)
{
    /* A place for each part that a row may have spares the merge a look-up, but not at any price.
     */
    bool spaced = v->cluster > 1 || a->rows * a->most <= 2 * a->parts;
    int64_t places = spaced ? a->rows * a->most : a->parts;
    a->places = spaced ? a->most : 0;
    a->first = gpu_new<int32_t>(g, a->rows, "parts of rows", err);
    a->part = gpu_new<float>(g, places * mla_head_blocks(a->heads) * 64 * a->W,
                             "partial sums of attention", err);
    a->stat = gpu_new<float2>(g, places * a->heads, "partial maxima of attention", err);
    if (v->cluster > 1)
        a->weights =
            gpu_new<char>(g, places * mla_head_blocks(a->heads) * v->cluster * MLA_SENT_BYTES,
                          "weights of parts", err);
    return err->code;
}

enum err_code mla_decode_wgmma(struct gpu *g, struct mla_attend *a, struct err *err)
{
    const struct mla_decode_size s = size_of(a);
    struct decode_maps maps = {};
    int chosen;
    bool mapped = map_all(a, &maps);
    /* Where the partial results fit the far cache, they stay there if the cache's tiles do not: 32
     * rows of 4096 in 51 us instead of 54; 128 rows of 8192, whose do not, in 346 instead of 337.
     */
    maps.once = (size_t)(a->parts * a->heads * a->W) * sizeof(float) <= g->l2 / 2;
    if (choose(g, &s, mapped, &chosen, err) != ERR_OK) return err->code;
    const struct decode_variant v = rows[chosen].variant();
    if (take_scratch(g, &v, a, err) != ERR_OK) return err->code;
    /* Blocks of a cluster share a part once; others stay and take part after part. */
    int64_t items = mla_decode_items(&rows[chosen].cost, &s);
    int64_t most = v.cluster > 1 ? items : slots(g, chosen, &v);
    int64_t clusters = items < most ? items : most;
    const struct gpu_launch l = {"mla_decode_wgmma",
                                 v.tactic,
                                 dim3((unsigned)((clusters ? clusters : 1) * v.cluster)),
                                 dim3((unsigned)v.threads),
                                 (size_t)v.shared,
                                 v.cluster,
                                 a->overlap};
    if (gpu_launch(g, &l, err, v.kernel, *a, maps) != ERR_OK) return err->code;
    return rows[chosen].cost.merges ? ERR_OK : mla_decode_merge(g, a, err);
}
