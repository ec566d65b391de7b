/* router_parts.cuh: between gpu/router.cu and gpu/router_few.cu. */
#ifndef ASSAY_GPU_ROUTER_PARTS_CUH
#define ASSAY_GPU_ROUTER_PARTS_CUH

#include "gpu/router.cuh"
#include "gpu/router_choose.h"

/* A variant where a block chooses for a token. */
enum err_code router_few(struct gpu *g, const struct gpu_router *op, const struct router_variant *v,
                         struct err *err) ERR_USED;

#endif
