/* router_parts.cuh: between gpu/router.cu and gpu/router_few.cu. */
#ifndef ASSAY_GPU_ROUTER_PARTS_CUH
#define ASSAY_GPU_ROUTER_PARTS_CUH

#include "gpu/router.cuh"

/* Few tokens, sigmoid scores, one group, nothing forced: both steps made to be quick. */
bool router_few_fits(const struct gpu_router *r);
enum err_code router_few(struct gpu *g, const struct gpu_router *op, struct err *err) ERR_USED;

#endif
