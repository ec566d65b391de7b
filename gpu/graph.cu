/* graph.cu: see graph.cuh. */
#include "gpu/graph.cuh"

static enum err_code begin_part(struct gpu *g, struct err *err)
{
    if (gpu_call(g, cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal),
                 "begin a capture", err) == ERR_OK)
        g->capturing = true;
    return err->code;
}

/* Ends the capture first: no error before it may leave it open. */
static enum err_code end_part(struct gpu *g, struct err *err)
{
    struct gpu_graph *x = g->graph;
    cudaGraph_t graph = NULL;
    size_t nodes = 0;
    if (!g->capturing) return err->code;
    cudaError_t ended = cudaStreamEndCapture(g->stream, &graph);
    g->capturing = false;
    if (err->code == ERR_OK && gpu_call(g, ended, "end a capture", err) == ERR_OK &&
        gpu_call(g, cudaGraphGetNodes(graph, NULL, &nodes), "count a graph's nodes", err) ==
            ERR_OK &&
        gpu_call(g, cudaGraphInstantiate(&x->part[x->parts], graph, 0), "make a graph", err) ==
            ERR_OK)
        x->parts++;
    x->nodes += (int64_t)nodes;
    if (graph) (void)cudaGraphDestroy(graph);
    return err->code;
}

enum err_code gpu_graph_begin(struct gpu *g, struct gpu_graph *out, struct err *err)
{
    *out = (struct gpu_graph){};
    g->graph = out;
    return begin_part(g, err);
}

enum err_code gpu_graph_cut(struct gpu *g, struct err *err)
{
    if (!g->capturing || g->graph->parts + 1 == GPU_GRAPH_PARTS) return ERR_OK;
    return end_part(g, err) == ERR_OK ? begin_part(g, err) : err->code;
}

enum err_code gpu_graph_end(struct gpu *g, struct err *err)
{
    if (end_part(g, err) != ERR_OK) gpu_graph_drop(g->graph);
    g->graph = NULL;
    return err->code;
}

enum err_code gpu_graph_launch(struct gpu *g, const struct gpu_graph *x, struct err *err)
{
    for (int i = 0; i < x->parts; i++) {
        if (gpu_call(g, cudaGraphLaunch(x->part[i], g->stream), "launch a graph", err) != ERR_OK)
            break;
    }
    return err->code;
}

void gpu_graph_drop(struct gpu_graph *x)
{
    for (int i = 0; i < x->parts; i++) (void)cudaGraphExecDestroy(x->part[i]);
    *x = (struct gpu_graph){};
}
