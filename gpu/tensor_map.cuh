/* tensor_map.cuh: tiles of a bf16 tensor that the copy engine of compute capability 9.0 brings into
 * shared memory as boxes of gpu/mla_tile.cuh: [rows][64], 128 bytes a row, 128-byte swizzle,
 * aligned to 1024 bytes. What lies outside the tensor arrives as zeros. Private to gpu/. */
#ifndef ASSAY_GPU_TENSOR_MAP_CUH
#define ASSAY_GPU_TENSOR_MAP_CUH

#include "gpu/context.cuh"

#include <cuda.h>
#include <cudaTypedefs.h>

/* The driver's function that describes a tensor; NULL: it has none. */
PFN_cuTensorMapEncodeTiled_v12000 gpu_map_encoder(void);

/* [rows][middle][columns], elements apart by their steps; columns are dense. Steps and address are
 * multiples of 16 bytes. A tile is 64 columns of one `middle`, tile_rows <= 256 rows. */
struct tensor_shape {
    const bf16 *data;
    int64_t rows, middle, columns;
    int64_t row_step, middle_step;
    int tile_rows;
};

/* Errors: ERR_DEVICE where the driver has no such function or refuses the shape. */
enum err_code gpu_tensor_map(struct gpu *g, const struct tensor_shape *s, CUtensorMap *out,
                             struct err *err) ERR_USED;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* A tile into shared memory; `barrier` (gpu/moe_barrier.cuh) waits for its bytes. By one thread. */
__device__ static inline void tile_copy(uint32_t to, const CUtensorMap &map, int column, int middle,
                                        int row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(&map), "r"(column), "r"(middle), "r"(row), "r"(barrier)
                 : "memory");
}

/* And from there; of this thread's bulk group. What lies outside the tensor is not written. */
__device__ static inline void tile_store(const CUtensorMap &map, int column, int middle, int row,
                                         uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], "
                 "[%4];" ::"l"(&map),
                 "r"(column), "r"(middle), "r"(row), "r"(from)
                 : "memory");
}

#endif
#endif
