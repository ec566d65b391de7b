/* mla_decode_variants.cuh: the decode kernels of sm_90a as data. Private to gpu/mla_decode_*.cu;
 * the table and the choice: gpu/mla_decode_choose.cu. */
#ifndef ASSAY_GPU_MLA_DECODE_VARIANTS_CUH
#define ASSAY_GPU_MLA_DECODE_VARIANTS_CUH

#include "gpu/mla_core.cuh"

#include <cuda.h>

/* Where the sums of one part and 64 heads lie: in the order of the products, 128 columns, then
 * eight, then the threads of a warpgroup with four values each: two columns of one head, the same
 * two of the head eight further on. */
__host__ __device__ static inline float *part_slot(const struct mla_attend &a, int64_t number,
                                                   int64_t head)
{
    return a.part + (number * ((a.heads + 63) / 64) + head / 64) * 64 * 512;
}

__host__ __device__ static constexpr int slot_at(int columns128, int columns8, int thread)
{
    return ((columns128 * 16 + columns8) * 128 + thread) * 4;
}

/* Boxes that the copy engine brings: 64 entries of the cache by 64 columns. paged: a tile of 64
 * tokens that begins at a multiple of 64 lies in one block of the cache, and they may be used.
 * once: tiles of the cache make room for others in the far cache. every_lane: as gpu->every_lane.
 */
struct decode_maps {
    CUtensorMap tile;
    bool paged, once, every_lane;
};

struct decode_variant {
    void (*kernel)(const struct mla_attend a, const struct decode_maps maps);
    int threads, shared;
};

/* Parts (gpu/mla_split.h); chunks in tiles of 64 or of 128 tokens. */
struct decode_variant mla_variant_parts(void);
struct decode_variant mla_variant_spread64(void);
struct decode_variant mla_variant_spread128(void);

/* Puts the parts of mla_variant_parts() together; rows of one part are in y already. */
enum err_code mla_decode_merge(struct gpu *g, const struct mla_attend *a, struct err *err) ERR_USED;

/* Blocks of a launch of chunks whose results there is room for: 18 MiB. */
enum { MLA_MAIL = 512 };

#endif
