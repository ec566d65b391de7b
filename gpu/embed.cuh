/* embed.cuh: rows of the embedding table, op embed on the device. Contract: core/embed.h */
#ifndef ASSAY_GPU_EMBED_CUH
#define ASSAY_GPU_EMBED_CUH

#include "gpu/weights.cuh"

/* y [T, H] = table[id - first], zeros where the table has no such row: ids of other ranks. Ids and
 * everything else on the device; one outside the vocabulary is refused on the host by those who
 * call this. */
enum err_code gpu_embed(struct gpu *g, int64_t T, int64_t H, const int64_t *id, int64_t first,
                        const struct gpu_tensor *table, bf16 *y, struct err *err) ERR_USED;

#endif
