/* eagle.cu: a draft head's weights on the device, and op eagle.fc; see eagle.cuh. The layer:
 * eagle_layer.cu; verification: eagle_verify.cu. Test: assay op eagle.fc --sweep --on ref,gpu */
#include "gpu/eagle.cuh"

#include "gpu/linear.cuh"
#include "gpu/norm.cuh"
#include "gpu/ops.h"

#include <stddef.h>

/* ---- weights ---- */

#define ROLE(name)                                                                                 \
    {                                                                                              \
        offsetof(struct head_layer, name), offsetof(struct gpu_head_layer, name)                   \
    }

struct role {
    size_t host, device;
};

static const struct role tensors[] = {ROLE(embed_norm),  ROLE(hidden_norm), ROLE(mlp_norm),
                                      ROLE(q_head_norm), ROLE(k_head_norm), ROLE(q_norm),
                                      ROLE(kv_norm)};
static const struct role matrices[] = {ROLE(q),    ROLE(k),    ROLE(v),    ROLE(q_a),
                                       ROLE(q_b),  ROLE(kv_a), ROLE(kv_b), ROLE(o),
                                       ROLE(gate), ROLE(up),   ROLE(down)};

static enum err_code send_tensor(struct gpu *g, const struct tensor *t, bool keep,
                                 struct gpu_tensor *out, struct err *err)
{
    if (!tensor_exists(t)) return ERR_OK;
    if (gpu_want_real(t, err) != ERR_OK) return err->code;
    return gpu_tensor_send(g, t, keep, out, err);
}

static enum err_code send_rope(struct gpu *g, const struct head *h, bool keep, struct gpu_head *out,
                               struct err *err)
{
    return out->rope.frequency ? ERR_OK : gpu_rope_send(g, &h->rope, keep, &out->rope, err);
}

enum err_code gpu_head_send_fc(struct gpu *g, const struct head *h, bool keep, struct gpu_head *out,
                               struct err *err)
{
    out->host = h;
    if (send_tensor(g, &h->fc_input_norm, keep, &out->fc_input_norm, err) != ERR_OK)
        return err->code;
    for (int i = 0; i < HEAD_AUX; i++) {
        if (send_tensor(g, &h->fc_norm[i], keep, &out->fc_norm[i], err) != ERR_OK) return err->code;
    }
    return gpu_matrix_send(g, &h->fc, keep, &out->fc, err);
}

enum err_code gpu_head_send_layer(struct gpu *g, const struct head *h, int64_t layer, bool keep,
                                  struct gpu_head *out, struct err *err)
{
    const char *from = (const char *)&h->layers[layer];
    char *to = (char *)&out->layers[layer];
    out->host = h;
    for (const struct role &r : tensors) {
        if (send_tensor(g, (const struct tensor *)(from + r.host), keep,
                        (struct gpu_tensor *)(to + r.device), err) != ERR_OK)
            return err->code;
    }
    for (const struct role &r : matrices) {
        const struct matrix *m = (const struct matrix *)(from + r.host);
        if (!tensor_exists(&m->data)) continue;
        if (gpu_matrix_send(g, m, keep, (struct gpu_matrix *)(to + r.device), err) != ERR_OK)
            return err->code;
    }
    return send_rope(g, h, keep, out, err);
}

enum err_code gpu_head_send(struct gpu *g, const struct head *h, bool keep, struct gpu_head *out,
                            struct err *err)
{
    *out = (struct gpu_head){};
    (void)!gpu_head_send_fc(g, h, keep, out, err);
    for (int64_t k = 0; k < h->config.base.layers && err->code == ERR_OK; k++)
        (void)!gpu_head_send_layer(g, h, k, keep, out, err);
    if (err->code != ERR_OK && keep) gpu_head_drop(g, out);
    return err->code;
}

void gpu_head_drop(struct gpu *g, struct gpu_head *h)
{
    for (int k = HEAD_LAYERS - 1; k >= 0; k--) {
        char *layer = (char *)&h->layers[k];
        for (const struct role &r : matrices)
            gpu_matrix_drop(g, (struct gpu_matrix *)(layer + r.device));
        for (const struct role &r : tensors)
            gpu_tensor_drop(g, (struct gpu_tensor *)(layer + r.device));
    }
    for (struct gpu_tensor &t : h->fc_norm) gpu_tensor_drop(g, &t);
    gpu_tensor_drop(g, &h->fc_input_norm);
    gpu_matrix_drop(g, &h->fc);
    gpu_drop(g, h->rope.frequency);
    *h = (struct gpu_head){};
}

/* ---- eagle.fc ---- */

/* What the projection reads, in scratch: the aux states normed as the head has it. */
static const bf16 *norm_aux(struct gpu *g, const struct gpu_head *h, int64_t T, const bf16 *aux,
                            struct err *err)
{
    const struct head_config *c = &h->host->config;
    int64_t H = c->target_hidden, wide = h->fc.in;
    if (!c->norm_before_fc && !c->fc_norm) return aux;
    bf16 *y = gpu_new<bf16>(g, T * wide, "normed aux states", err);
    if (y && c->norm_before_fc)
        (void)!gpu_norm(g, T, wide, c->base.norm_eps, aux, wide, &h->fc_input_norm, y, wide, err);
    for (int i = 0; y && c->fc_norm && i < c->aux_count && err->code == ERR_OK; i++)
        (void)!gpu_norm(g, T, H, c->base.norm_eps, aux + i * H, wide, &h->fc_norm[i], y + i * H,
                        wide, err);
    return err->code == ERR_OK ? y : NULL;
}

enum err_code gpu_eagle_fc(struct gpu *g, const struct gpu_head *h, int64_t T, const bf16 *aux,
                           bf16 *y, struct err *err)
{
    struct gpu_mark m = gpu_mark(g);
    const bf16 *x = norm_aux(g, h, T, aux, err);
    if (x) (void)!gpu_linear(g, T, x, &h->fc, y, DT_BF16, err);
    gpu_release(g, m);
    return err->code;
}

enum err_code eagle_fc_gpu(const struct eagle_fc *op, struct run *run, struct err *err)
{
    if (eagle_fc_check(op, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter("eagle.fc", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_head head = {};
    const struct matrix *fc = &op->head->fc;
    int64_t n = op->T * fc->out;
    bf16 *aux = gpu_send_act(g, op->aux, op->T, fc->in, "aux states", err);
    bf16 *y = aux ? gpu_new<bf16>(g, n, "fused state", err) : NULL;
    if (y && gpu_head_send_fc(g, op->head, false, &head, err) == ERR_OK &&
        gpu_eagle_fc(g, &head, op->T, aux, y, err) == ERR_OK &&
        gpu_fetch_act(g, op->y, y, n, "fused state", err) == ERR_OK)
        (void)!gpu_linear_explain(op->aux, op->T * fc->in, op->y, n, &fc, 1, err);
    return gpu_leave(g, m, err);
}
