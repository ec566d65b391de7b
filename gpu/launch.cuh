/* launch.cuh: GPU_LAUNCH for kernels that begin before the kernel before them has ended. Private to
 * gpu/.
 *
 * A kernel launched with `overlap` may begin as soon as every block of the one before it has ended
 * or called let_next_launch(). Until wait_for_launch_before() returns it may read only what was
 * written before that earlier kernel began, and write nothing; it waits before it ends, so that
 * who waits for it has waited for all that came before. One that lets the next begin only when it
 * has waited itself (the linear products) tells the next that all before it is complete. Weights
 * are read before the wait: whoever writes some by a kernel says so (gpu->fresh). Older cards do
 * not know this; there the two functions do nothing and `overlap` is ignored. */
#ifndef ASSAY_GPU_LAUNCH_CUH
#define ASSAY_GPU_LAUNCH_CUH

#include "gpu/context.cuh"

/* Whether this card, and the code of this build for it, know this. */
bool gpu_can_overlap(const struct gpu *g);

struct gpu_launch {
    const char *label, *tactic;
    dim3 grid, block;
    size_t shared;
    bool overlap;
    unsigned
        cluster; /* blocks side by side in x that run at the same time; 0, 1: each for itself */
};

#ifdef __CUDACC__

__device__ static inline void wait_for_launch_before(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ static inline void let_next_launch(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* attributes: room for two. */
static inline cudaLaunchConfig_t gpu_launch_config(const struct gpu *g, const struct gpu_launch *l,
                                                   cudaLaunchAttribute *attributes)
{
    cudaLaunchConfig_t how = {};
    how.gridDim = l->grid;
    how.blockDim = l->block;
    how.dynamicSmemBytes = l->shared;
    how.stream = g->stream;
    how.attrs = attributes;
    if (l->overlap && !g->fresh && gpu_can_overlap(g)) {
        attributes->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes->val.programmaticStreamSerializationAllowed = 1;
        how.numAttrs = 1;
    }
    if (l->cluster > 1) {
        cudaLaunchAttribute *size = &attributes[how.numAttrs++];
        size->id = cudaLaunchAttributeClusterDimension;
        size->val.clusterDim.x = l->cluster;
        size->val.clusterDim.y = size->val.clusterDim.z = 1;
    }
    return how;
}

template <typename... P, typename... A>
static inline enum err_code gpu_launch(struct gpu *g, const struct gpu_launch *l, struct err *err,
                                       void (*kernel)(P...), const A &...args)
{
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t how = gpu_launch_config(g, l, attributes);
    if (gpu_before(g, l->label, l->tactic, l->grid, l->block, l->shared, err) != ERR_OK)
        return err->code;
    gpu_facts(g, (const void *)kernel, l->block, l->shared);
    (void)cudaLaunchKernelEx(&how, kernel, args...); /* its error is the last one */
    return gpu_after(g, l->label, err);
}

/* GPU_LAUNCH of a kernel that may begin early, and calls wait_for_launch_before(). */
template <typename P>
static inline enum err_code gpu_launch_early(struct gpu *g, struct err *err, const char *label,
                                             const char *tactic, dim3 grid, dim3 block,
                                             size_t shared, void (*kernel)(const P), const P &p)
{
    const struct gpu_launch l = {label, tactic, grid, block, shared, true};
    return gpu_launch(g, &l, err, kernel, p);
}

#endif
#endif
