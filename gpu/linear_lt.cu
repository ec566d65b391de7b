/* linear_lt.cu: dense bf16 products by cuBLASLt: float32 accumulation, partial sums of split
 * columns in float32 too, one rounding at the output; the same algorithm for the same shape for the
 * whole process. See linear.cuh. */
#include "gpu/linear.cuh"

#include <stdio.h>
#include <string.h>

enum { PLANS = 1024 };

struct lt_plan {
    struct lt_shape shape;
    cublasLtMatmulAlgo_t algo;
    bool made, possible;
    char tactic[KERNEL_NAME];
};

static struct lt_plan plans[PLANS];

struct lt_call {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

static cublasStatus_t set_batch(cublasLtMatrixLayoutOpaque_t *layout, int64_t batch, int64_t step)
{
    int32_t count = (int32_t)batch;
    cublasStatus_t code = cublasLtMatrixLayoutSetAttribute(
        layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (code != CUBLAS_STATUS_SUCCESS) return code;
    return cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &step, sizeof step);
}

static cublasStatus_t make_layout(cublasLtMatrixLayoutOpaque_t *layout, enum dtype type,
                                  int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                                  int64_t step)
{
    cublasStatus_t code = cublasLtMatrixLayoutInit(
        layout, type == DT_F32 ? CUDA_R_32F : CUDA_R_16BF, (uint64_t)rows, (uint64_t)columns, ld);
    return code == CUBLAS_STATUS_SUCCESS && batch > 1 ? set_batch(layout, batch, step) : code;
}

static cublasStatus_t make_call(const struct lt_shape *s, struct lt_call *c)
{
    cublasOperation_t op = s->transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t code = cublasLtMatmulDescInit(&c->product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = cublasLtMatmulDescSetAttribute(&c->product, CUBLASLT_MATMUL_DESC_TRANSA, &op,
                                              sizeof op);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(&c->a, DT_BF16, s->transpose ? s->k : s->m, s->transpose ? s->m : s->k,
                           s->lda, s->batch, s->step_a);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(&c->b, DT_BF16, s->k, s->n, s->ldb, s->batch, s->step_b);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(&c->c, (enum dtype)s->type, s->m, s->n, s->ldc, s->batch, s->step_c);
    return code;
}

/* What an algorithm may use: the fixed workspace, and split columns summed in float32 alone. */
static cublasStatus_t make_preference(const struct gpu *g, const struct lt_shape *s,
                                      cublasLtMatmulPreferenceOpaque_t *p)
{
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, a = (uint32_t)s->align_a,
                   b = (uint32_t)s->align_b, c = (uint32_t)s->align_c;
    const uint64_t workspace = g->lt_workspace_size;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c},
    };
    cublasStatus_t code = cublasLtMatmulPreferenceInit(p);
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (code == CUBLAS_STATUS_SUCCESS)
            code = cublasLtMatmulPreferenceSetAttribute(p, attributes[i].name, attributes[i].value,
                                                        attributes[i].size);
    }
    return code;
}

static int32_t config_of(const cublasLtMatmulAlgo_t *algo,
                         cublasLtMatmulAlgoConfigAttributes_t what)
{
    int32_t value = -1;
    size_t written;
    cublasStatus_t code =
        cublasLtMatmulAlgoConfigGetAttribute(algo, what, &value, sizeof value, &written);
    return code == CUBLAS_STATUS_SUCCESS ? value : -1;
}

static enum err_code make_plan(struct gpu *g, const struct lt_shape *s, struct lt_call *call,
                               struct lt_plan *plan, struct err *err)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    if (gpu_lt_call(g, make_preference(g, s, &preference), "set preferences", err) != ERR_OK)
        return err->code;
    cublasStatus_t code =
        cublasLtMatmulAlgoGetHeuristic(g->lt, &call->product, &call->a, &call->b, &call->c,
                                       &call->c, &preference, 1, &result, &count);
    bool none = code == CUBLAS_STATUS_NOT_SUPPORTED || (code == CUBLAS_STATUS_SUCCESS && !count);
    if (gpu_lt_call(g, none ? CUBLAS_STATUS_SUCCESS : code, "choose an algorithm", err) != ERR_OK)
        return err->code;
    *plan = (struct lt_plan){};
    plan->shape = *s;
    plan->made = true;
    plan->possible = !none && result.state == CUBLAS_STATUS_SUCCESS;
    if (!plan->possible) return ERR_OK;
    plan->algo = result.algo;
    snprintf(plan->tactic, sizeof plan->tactic, "algorithm %d, tile %d, stages %d, split %d",
             config_of(&result.algo, CUBLASLT_ALGO_CONFIG_ID),
             config_of(&result.algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
             config_of(&result.algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
             config_of(&result.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
    return ERR_OK;
}

/* Where the plan of a shape stands; another shape that falls there makes its own again. */
static struct lt_plan *plan_place(const struct lt_shape *s)
{
    const unsigned char *p = (const unsigned char *)s;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof *s; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return &plans[(h ^ h >> 32) % PLANS];
}

/* Every element of c is NaN before the product. The library stores by the bulk copy engine, which
 * compute-sanitizer's initcheck does not see: without, it finds all of it unwritten. */
static enum err_code prefill(struct gpu *g, const struct lt_shape *s, void *c, struct err *err)
{
    size_t size = (size_t)dtype_size((enum dtype)s->type);
    for (int64_t i = 0; err->code == ERR_OK && i < (s->batch > 1 ? s->batch : 1); i++)
        (void)!gpu_call(g,
                        cudaMemset2DAsync((char *)c + (size_t)(i * s->step_c) * size,
                                          (size_t)s->ldc * size, 0xFF, (size_t)s->m * size,
                                          (size_t)s->n, g->stream),
                        "fill a product's place", err);
    return err->code;
}

enum err_code linear_lt(struct gpu *g, const struct lt_shape *s, const void *a, const void *b,
                        void *c, bool *done, struct err *err)
{
    const float one = 1, zero = 0;
    struct lt_call call;
    struct lt_plan *plan = plan_place(s);
    *done = false;
    if (gpu_lt_call(g, make_call(s, &call), "describe a product", err) != ERR_OK) return err->code;
    if ((!plan->made || memcmp(&plan->shape, s, sizeof *s) != 0) &&
        make_plan(g, s, &call, plan, err) != ERR_OK)
        return err->code;
    if (!plan->possible) return ERR_OK;
    if (g->prefill && prefill(g, s, c, err) != ERR_OK) return err->code;
    if (gpu_before(g, "cublasLt", plan->tactic, dim3(0, 0, 0), dim3(0, 0, 0), 0, err) != ERR_OK)
        return err->code;
    *done = true;
    cublasStatus_t code =
        cublasLtMatmul(g->lt, &call.product, &one, a, &call.a, b, &call.b, &zero, c, &call.c, c,
                       &call.c, &plan->algo, g->lt_workspace, g->lt_workspace_size, g->stream);
    if (gpu_lt_call(g, code, "cublasLt", err) != ERR_OK) return err->code;
    return gpu_after(g, "cublasLt", err);
}
