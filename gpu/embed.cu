/* embed.cu: rows of the embedding table; see embed.cuh. Test: assay op embed --sweep --on ref,gpu
 */
#include "gpu/embed.cuh"

#include "core/matrix.h"
#include "gpu/ops.h"
#include "gpu/vector.cuh"

#include <math.h>

__global__ static void embed_kernel(int64_t H, const int64_t *id, int64_t first, int64_t rows,
                                    const void *table, int type, bool wide, bf16 *y)
{
    int64_t row = blockIdx.x, at = id[row] - first, from = at * H;
    bool there = at >= 0 && at < rows;
    float v[VECTOR];
    for (int64_t i = (int64_t)threadIdx.x * VECTOR; i < H; i += (int64_t)blockDim.x * VECTOR) {
        if (!there) {
            for (int k = 0; k < VECTOR; k++) v[k] = 0.0f;
        } else if (type == DT_BF16) {
            vector_load((const bf16 *)table + from + i, H - i, wide, v);
        } else {
            for (int k = 0; k < VECTOR; k++)
                v[k] = i + k < H ? stored_float(table, type, from + i + k) : 0.0f;
        }
        vector_store(y + row * H + i, H - i, wide, v);
    }
}

enum err_code gpu_embed(struct gpu *g, int64_t T, int64_t H, const int64_t *id, int64_t first,
                        const struct gpu_tensor *table, bf16 *y, struct err *err)
{
    if (T == 0) return ERR_OK;
    bool wide = vector_fits(table->data, H) && vector_fits(y, H);
    return GPU_LAUNCH(g, err, "embed", wide ? "16 bytes" : "2 bytes", dim3((unsigned)T), dim3(256),
                      0, embed_kernel, H, id, first, table->count / H, table->data,
                      (int)table->dtype, wide, y);
}

/* The rows that are asked for, alone: a table may be larger than the device. */
static enum err_code send_rows(struct gpu *g, const struct embed *op, struct gpu_tensor *table,
                               int64_t **id, struct err *err)
{
    size_t size = (size_t)dtype_size(op->table->dtype);
    *table = (struct gpu_tensor){op->table->dtype, op->T * op->H, NULL};
    char *rows = (char *)gpu_alloc(g, op->T * op->H, size, "embedding rows", err);
    *id = rows ? gpu_new<int64_t>(g, op->T, "row numbers", err) : NULL;
    for (int64_t t = 0; *id && t < op->T && err->code == ERR_OK; t++) {
        int64_t at = op->id[t] - op->first, row = at >= 0 && at < op->table->shape[0] ? t : -1;
        if (row < 0 || gpu_tensor_send_part(g, op->table, at * op->H, op->H,
                                            rows + (size_t)(t * op->H) * size, err) == ERR_OK)
            (void)!gpu_send(g, *id + t, &row, sizeof row, "row numbers", err);
    }
    table->data = rows;
    return err->code;
}

/* A stored value that is not finite is the file's fault: it is named. */
static enum err_code find_bad_row(const struct embed *op, struct err *err)
{
    for (int64_t i = 0; i < op->T * op->H && err->code == ERR_OK; i++) {
        if (!isfinite(op->y[i]))
            (void)!tensor_find_bad(op->table, (op->id[i / op->H] - op->first) * op->H, op->H, err);
    }
    return err->code;
}

enum err_code embed_gpu(const struct embed *op, struct run *run, struct err *err)
{
    if (embed_check(op, err) != ERR_OK || gpu_want_real(op->table, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("embed", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_tensor table;
    int64_t *id;
    bf16 *y = gpu_new<bf16>(g, op->T * op->H, "embed output", err);
    if (y && send_rows(g, op, &table, &id, err) == ERR_OK &&
        gpu_embed(g, op->T, op->H, id, 0, &table, y, err) == ERR_OK &&
        gpu_fetch_act(g, op->y, y, op->T * op->H, "embed output", err) == ERR_OK)
        (void)!find_bad_row(op, err);
    return gpu_leave(g, m, err);
}
