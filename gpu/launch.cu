/* launch.cu: see launch.cuh. */
#include "gpu/launch.cuh"

__global__ static void probe(void)
{
}

/* A build without code for this card may run its code for an older one, in which the instructions
 * are missing. */
bool gpu_can_overlap(const struct gpu *g)
{
    static int has = -1;
    cudaFuncAttributes a = {};
    if (has < 0)
        has = g->major >= 9 && cudaFuncGetAttributes(&a, (const void *)probe) == cudaSuccess &&
              a.ptxVersion >= 90;
    return has != 0;
}
