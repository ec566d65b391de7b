/* model_draft.cuh: a draft head on the device and one step of it. Private to gpu/. */
#ifndef ASSAY_GPU_MODEL_DRAFT_CUH
#define ASSAY_GPU_MODEL_DRAFT_CUH

#include "core/eagle.h"
#include "gpu/eagle.cuh"
#include "gpu/model.cuh"

/* Loaded when a step first needs it; another head takes its place. */
struct gpu_draft {
    struct gpu *g;
    const struct head *host; /* NULL: none is loaded */
    struct gpu_head head;    /* what fc and the layers read */
    struct gpu_tensor embed, norm;
    struct gpu_matrix lm_head;
};

enum err_code gpu_draft_step(struct gpu_draft *d, const struct draft_step *s, struct run *run,
                             struct err *err) ERR_USED;
void gpu_draft_close(struct gpu_draft *d);

#endif
