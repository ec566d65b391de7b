/* mla.cu: ops mla.q, mla.kv and mla.output, composed of linears, norms and rotations; see mla.cuh.
 * Contract: core/mla.h. Attention: mla_core.cu; rows and cache: mla_rows.cu. Test: assay op mla.q
 * --sweep --on ref,gpu */
#include "gpu/mla.cuh"

#include "core/mla.h"
#include "core/norm.h"
#include "gpu/linear.cuh"
#include "gpu/norm.cuh"
#include "gpu/ops.h"
#include "gpu/rope.cuh"

enum err_code gpu_mla_q(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *a,
                        const struct gpu_tensor *norm, const struct gpu_matrix *b, double eps,
                        bf16 *q, struct err *err)
{
    if (!a) return gpu_linear(g, T, x, b, q, DT_BF16, err);
    struct gpu_mark m = gpu_mark(g);
    bf16 *latent = gpu_new<bf16>(g, T * a->out, "query latent", err);
    if (latent && gpu_linear(g, T, x, a, latent, DT_BF16, err) == ERR_OK &&
        gpu_norm(g, T, a->out, eps, latent, a->out, norm, latent, a->out, err) == ERR_OK)
        (void)!gpu_linear(g, T, latent, b, q, DT_BF16, err);
    gpu_release(g, m);
    return err->code;
}

enum err_code gpu_mla_kv(struct gpu *g, int64_t T, int64_t L, int64_t R, const bf16 *x,
                         const struct gpu_matrix *a, const struct gpu_tensor *norm, double eps,
                         const int64_t *position, const struct gpu_rope *table, bool interleaved,
                         bf16 *latent, bf16 *k_rope, struct err *err)
{
    struct gpu_mark m = gpu_mark(g);
    struct gpu_latents op = {};
    bf16 *both = gpu_new<bf16>(g, T * (L + R), "latent and key", err);
    op.T = T;
    op.L = L;
    op.eps = eps;
    op.kv_norm = norm;
    op.both = both;
    op.position = position;
    op.table = table;
    op.interleaved = interleaved;
    op.latent = latent;
    op.k_rope = k_rope;
    if (both && gpu_linear(g, T, x, a, both, DT_BF16, err) == ERR_OK)
        (void)!gpu_mla_latents(g, &op, err);
    gpu_release(g, m);
    return err->code;
}

/* ---- adapters ---- */

/* Where an output is not finite: a stored value that is not finite is named. */
static enum err_code explain(const struct mla_q *op, struct err *err)
{
    const struct matrix *parts[2] = {op->b, op->a};
    int64_t in = op->a ? op->a->in : op->b->in;
    return gpu_linear_explain(op->x, op->T * in, op->q, op->T * op->b->out, parts, op->a ? 2 : 1,
                              err);
}

static enum err_code check_q(const struct mla_q *op, struct err *err)
{
    if (mla_q_check(op, err) != ERR_OK || !op->a) return err->code;
    const struct norm norm = {op->T, op->a->out, op->eps, NULL, op->norm, NULL};
    return norm_check(&norm, err) == ERR_OK ? gpu_want_real(op->norm, err) : err->code;
}

enum err_code mla_q_gpu(const struct mla_q *op, struct run *run, struct err *err)
{
    if (check_q(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("mla.q", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_matrix a, b;
    struct gpu_tensor norm;
    bf16 *x = gpu_send_act(g, op->x, op->T, op->a ? op->a->in : op->b->in, "mla.q input", err);
    bf16 *q = x ? gpu_new<bf16>(g, op->T * op->b->out, "queries", err) : NULL;
    if (q && gpu_matrix_send(g, op->b, false, &b, err) == ERR_OK &&
        (!op->a || (gpu_matrix_send(g, op->a, false, &a, err) == ERR_OK &&
                    gpu_tensor_send(g, op->norm, false, &norm, err) == ERR_OK)) &&
        gpu_mla_q(g, op->T, x, op->a ? &a : NULL, op->a ? &norm : NULL, &b, op->eps, q, err) ==
            ERR_OK &&
        gpu_fetch_act(g, op->q, q, op->T * op->b->out, "queries", err) == ERR_OK)
        (void)!explain(op, err);
    return gpu_leave(g, m, err);
}

/* What mla.kv takes and gives, on the device. */
struct kv_device {
    bf16 *x, *latent, *k_rope;
    int64_t *position;
    struct gpu_matrix a;
    struct gpu_tensor norm;
    struct gpu_rope table;
};

static enum err_code send_kv(struct gpu *g, const struct mla_kv *op, struct kv_device *d,
                             struct err *err)
{
    d->x = gpu_send_act(g, op->x, op->T, op->a->in, "mla.kv input", err);
    d->latent = d->x ? gpu_new<bf16>(g, op->T * op->L, "latents", err) : NULL;
    d->k_rope = d->latent ? gpu_new<bf16>(g, op->T * op->R, "roped keys", err) : NULL;
    d->position = d->k_rope ? gpu_new<int64_t>(g, op->T, "positions", err) : NULL;
    if (!d->position ||
        gpu_send(g, d->position, op->position, (size_t)op->T * sizeof *d->position, "positions",
                 err) != ERR_OK ||
        gpu_matrix_send(g, op->a, false, &d->a, err) != ERR_OK ||
        gpu_tensor_send(g, op->norm, false, &d->norm, err) != ERR_OK)
        return err->code;
    return gpu_rope_send(g, op->table, false, &d->table, err);
}

static enum err_code check_kv(const struct mla_kv *op, struct err *err)
{
    const struct norm norm = {op->T, op->L, op->eps, NULL, op->norm, NULL};
    const struct rope rope = {op->T,        1,         op->R,           0,
                              op->position, op->table, op->interleaved, op->k_rope};
    if (mla_kv_check(op, err) != ERR_OK || norm_check(&norm, err) != ERR_OK ||
        rope_check(&rope, err) != ERR_OK)
        return err->code;
    return gpu_want_real(op->norm, err);
}

enum err_code mla_kv_gpu(const struct mla_kv *op, struct run *run, struct err *err)
{
    if (check_kv(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("mla.kv", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct kv_device d;
    if (send_kv(g, op, &d, err) == ERR_OK &&
        gpu_mla_kv(g, op->T, op->L, op->R, d.x, &d.a, &d.norm, op->eps, d.position, &d.table,
                   op->interleaved, d.latent, d.k_rope, err) == ERR_OK &&
        gpu_fetch_act(g, op->latent, d.latent, op->T * op->L, "latents", err) == ERR_OK &&
        gpu_fetch_act(g, op->k_rope, d.k_rope, op->T * op->R, "roped keys", err) == ERR_OK)
        (void)!gpu_linear_explain(op->x, op->T * op->a->in, op->latent, op->T * op->L, &op->a, 1,
                                  err);
    return gpu_leave(g, m, err);
}

enum err_code mla_output_gpu(const struct mla_output *op, struct run *run, struct err *err)
{
    if (mla_output_check(op, err) != ERR_OK) return err->code;
    const struct gpu_linear_op linear = {"mla.output", op->T, op->x,
                                         op->o,        op->y, op->partial ? RP_NONE : RP_LINEAR};
    return gpu_linear_run(&linear, run, err);
}
