/* graph.cuh: launches captured once and replayed, as CUDA graphs in a row. One graph of a whole
 * decode step is long in the launching: on an H200 the host takes 690 us for 61 layers of a rank's
 * part at one row, and the card waits for it: 6.22 ms, of which kernels run for 5.53. As graphs of
 * eight layers the first runs while the host launches the others: 5.77 ms against 5.70 where no
 * launch waits for the host. Private to gpu/. */
#ifndef ASSAY_GPU_GRAPH_CUH
#define ASSAY_GPU_GRAPH_CUH

#include "gpu/context.cuh"

enum { GPU_GRAPH_PARTS = 64 };

struct gpu_graph {
    int parts; /* 0: nothing is captured */
    int64_t nodes;
    cudaGraphExec_t part[GPU_GRAPH_PARTS];
};

/* What is launched from here on is captured, not run. */
enum err_code gpu_graph_begin(struct gpu *g, struct gpu_graph *out, struct err *err) ERR_USED;
/* The next launch begins another graph, if one is being captured that has room for more. */
enum err_code gpu_graph_cut(struct gpu *g, struct err *err) ERR_USED;
/* After this nothing is captured any more, whatever `err` says already; then out is empty. */
enum err_code gpu_graph_end(struct gpu *g, struct err *err) ERR_USED;
enum err_code gpu_graph_launch(struct gpu *g, const struct gpu_graph *x, struct err *err) ERR_USED;
/* Safe on one that is all zero. */
void gpu_graph_drop(struct gpu_graph *x);

#endif
