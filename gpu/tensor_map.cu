/* tensor_map.cu: see tensor_map.cuh. The driver's function is looked up by name: nothing else here
 * needs the driver's library at link time. */
#include "gpu/tensor_map.cuh"

#include "gpu/mla_tile.cuh"

enum { SINCE = 12000 }; /* the driver interface that has it as used here */

PFN_cuTensorMapEncodeTiled_v12000 gpu_map_encoder(void)
{
    static void *found;
    cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSuccess;
    if (!found && cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, SINCE,
                                                   cudaEnableDefault, &how) != cudaSuccess)
        (void)cudaGetLastError();
    if (how != cudaDriverEntryPointSuccess) found = NULL;
    return (PFN_cuTensorMapEncodeTiled_v12000)found;
}

enum err_code gpu_tensor_map(struct gpu *g, const struct tensor_shape *s, CUtensorMap *out,
                             struct err *err)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode = gpu_map_encoder();
    const cuuint64_t size[3] = {(cuuint64_t)s->columns, (cuuint64_t)s->middle, (cuuint64_t)s->rows};
    const cuuint64_t step[2] = {(cuuint64_t)s->middle_step * sizeof(bf16),
                                (cuuint64_t)s->row_step * sizeof(bf16)};
    const cuuint32_t box[3] = {BOX_COLUMNS, 1, (cuuint32_t)s->tile_rows}, dense[3] = {1, 1, 1};
    if (!encode)
        return err_set(err, ERR_DEVICE,
                       "describe a tensor|%s|a driver without cuTensorMapEncodeTiled|one of CUDA "
                       "12.0 or newer",
                       g->name);
    CUresult code = encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void *)s->data, size, step,
                           box, dense, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code == CUDA_SUCCESS) return ERR_OK;
    return err_set(err, ERR_DEVICE,
                   "describe a tensor|%s|driver error %d for [%lld][%lld][%lld]|success", g->name,
                   (int)code, (long long)s->rows, (long long)s->middle, (long long)s->columns);
}
