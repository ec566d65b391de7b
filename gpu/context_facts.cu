/* context_facts.cu: what is known of a kernel that is logged; see context.cuh. A row's facts are
 * asked for once: a kernel's code does not change, and its size is part of its tactic. */
#include "gpu/context.cuh"

enum { WARP = 32 };

void gpu_facts(struct gpu *g, const void *kernel, dim3 block, size_t shared)
{
    struct kernel_row *row = g->logged;
    cudaFuncAttributes has;
    int blocks = 0, threads = (int)(block.x * block.y * block.z), most = 0;
    if (!row || row->facts.registers) return;
    if (cudaFuncGetAttributes(&has, kernel) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, g->device) !=
            cudaSuccess) {
        (void)cudaGetLastError(); /* the row says nothing then; the launch says what is wrong */
        return;
    }
    row->facts.registers = has.numRegs;
    row->facts.local = (int64_t)has.localSizeBytes;
    row->facts.static_shared = (int64_t)has.sharedSizeBytes;
    row->facts.blocks = blocks;
    row->facts.occupancy = (double)blocks * ((threads + WARP - 1) / WARP) * WARP / most;
}
