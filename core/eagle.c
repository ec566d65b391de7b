/* eagle.c: argument checks of eagle.fc and eagle.layer; see eagle.h. */
#include "core/eagle.h"

#include "core/matrix.h"

static enum err_code want_eps(const struct head_config *c, const char *what, struct err *err)
{
    if (c->base.norm_eps >= 0) return ERR_OK;
    return err_set(err, ERR_INPUT, "%s||eps = %g|0 or more", what, c->base.norm_eps);
}

static enum err_code want_norm(const struct tensor *w, const char *what, int64_t n, struct err *err)
{
    if (tensor_exists(w) && tensor_count(w) == n && dtype_is_float(w->dtype)) return ERR_OK;
    return err_set(err, ERR_INPUT, "%s|%s|%lld weights|%lld floats", what,
                   tensor_exists(w) ? w->name : "",
                   tensor_exists(w) ? (long long)tensor_count(w) : 0LL, (long long)n);
}

enum err_code eagle_fc_check(const struct eagle_fc *op, struct err *err)
{
    const struct head_config *c = op->head ? &op->head->config : NULL;
    if (op->T < 0 || !c || c->aux_count < 1 || c->aux_count > HEAD_AUX || c->target_hidden < 1 ||
        c->base.hidden < 1)
        return err_set(err, ERR_INPUT,
                       "eagle.fc||T = %lld, %d aux states of %lld|0 or more rows, 1 to %d aux "
                       "states of 1 or more columns",
                       (long long)op->T, c ? c->aux_count : 0,
                       c ? (long long)c->target_hidden : 0LL, HEAD_AUX);
    if (want_eps(c, "eagle.fc", err) != ERR_OK) return err->code;
    if (c->norm_before_fc && c->fc_norm)
        return err_set(err, ERR_INPUT, "eagle.fc||norm_before_fc and fc_norm|one of them");
    int64_t wide = c->aux_count * c->target_hidden;
    if (c->norm_before_fc &&
        want_norm(&op->head->fc_input_norm, "eagle.fc input norm", wide, err) != ERR_OK)
        return err->code;
    for (int i = 0; c->fc_norm && i < c->aux_count; i++) {
        if (want_norm(&op->head->fc_norm[i], "eagle.fc norm of an aux state", c->target_hidden,
                      err) != ERR_OK)
            return err->code;
    }
    return matrix_want(&op->head->fc, "eagle.fc", c->base.hidden, wide, err);
}

/* Queries, keys and values of a Llama layer whose input has `in` columns. */
static enum err_code check_llama(const struct head *h, const struct head_layer *l, int64_t in,
                                 struct err *err)
{
    const struct head_config *c = &h->config;
    int64_t heads = c->base.heads, hd = c->head_dim;
    if (heads < 1 || c->kv_heads < 1 || heads % c->kv_heads || hd < 2 || h->rope.R != hd)
        return err_set(err, ERR_INPUT,
                       "eagle.layer||%lld heads, %lld key heads of %lld, rope over %lld|key heads "
                       "that divide the heads, rope over a whole head",
                       (long long)heads, (long long)c->kv_heads, (long long)hd,
                       (long long)h->rope.R);
    if (c->qk_norm && (want_norm(&l->q_head_norm, "eagle.layer query norm", hd, err) != ERR_OK ||
                       want_norm(&l->k_head_norm, "eagle.layer key norm", hd, err) != ERR_OK))
        return err->code;
    if (matrix_want(&l->q, "eagle.layer q", heads * hd, in, err) != ERR_OK ||
        matrix_want(&l->k, "eagle.layer k", c->kv_heads * hd, in, err) != ERR_OK ||
        matrix_want(&l->v, "eagle.layer v", c->kv_heads * hd, in, err) != ERR_OK)
        return err->code;
    return matrix_want(&l->o, "eagle.layer o", c->base.hidden, heads * hd, err);
}

static enum err_code check_mla(const struct head *h, const struct head_layer *l, int64_t in,
                               struct err *err)
{
    const struct config *c = &h->config.base;
    if (c->heads < 1 || c->nope < 1 || c->rope < 2 || c->v_head < 1 || c->kv_lora < 1 ||
        h->rope.R != c->rope)
        return err_set(err, ERR_INPUT,
                       "eagle.layer||heads = %lld, nope = %lld, rope = %lld of %lld, v = %lld, "
                       "latent = %lld|1 or more each, rope 2 or more and its table",
                       (long long)c->heads, (long long)c->nope, (long long)h->rope.R,
                       (long long)c->rope, (long long)c->v_head, (long long)c->kv_lora);
    int64_t q_in = c->q_lora ? c->q_lora : in;
    if (c->q_lora && (matrix_want(&l->q_a, "eagle.layer q_a", c->q_lora, in, err) != ERR_OK ||
                      want_norm(&l->q_norm, "eagle.layer q_a norm", c->q_lora, err) != ERR_OK))
        return err->code;
    if (matrix_want(&l->q_b, "eagle.layer q_b", c->heads * config_qk(c), q_in, err) != ERR_OK ||
        matrix_want(&l->kv_a, "eagle.layer kv_a", c->kv_lora + c->rope, in, err) != ERR_OK ||
        want_norm(&l->kv_norm, "eagle.layer kv_a norm", c->kv_lora, err) != ERR_OK ||
        matrix_want(&l->kv_b, "eagle.layer kv_b", c->heads * (c->nope + c->v_head), c->kv_lora,
                    err) != ERR_OK)
        return err->code;
    return matrix_want(&l->o, "eagle.layer o", c->hidden, c->heads * c->v_head, err);
}

static enum err_code check_weights(const struct eagle_layer *op, struct err *err)
{
    const struct head *h = op->head;
    const struct head_layer *l = &h->layers[op->layer];
    if (want_eps(&h->config, "eagle.layer", err) != ERR_OK) return err->code;
    int64_t H = h->config.base.hidden, in = op->layer == 0 ? 2 * H : H;
    if (want_norm(&l->embed_norm, "eagle.layer input norm", H, err) != ERR_OK ||
        want_norm(&l->mlp_norm, "eagle.layer mlp norm", H, err) != ERR_OK ||
        (op->layer == 0 && want_norm(&l->hidden_norm, "eagle.layer hidden norm", H, err) != ERR_OK))
        return err->code;
    if (matrix_want(&l->gate, "eagle.layer gate", l->down.in, H, err) != ERR_OK ||
        matrix_want(&l->up, "eagle.layer up", l->down.in, H, err) != ERR_OK ||
        matrix_want(&l->down, "eagle.layer down", H, l->gate.out, err) != ERR_OK)
        return err->code;
    return h->config.kind == HEAD_MLA ? check_mla(h, l, in, err) : check_llama(h, l, in, err);
}

enum err_code eagle_layer_check(const struct eagle_layer *op, struct err *err)
{
    if (!op->head || !op->rows || !op->cache || op->layer < 0 ||
        op->layer >= op->head->config.base.layers || op->layer >= HEAD_LAYERS ||
        op->layer >= op->cache->layers)
        return err_set(err, ERR_INPUT, "eagle.layer||layer %lld|0 to %lld, in the cache too",
                       (long long)op->layer,
                       op->head ? (long long)op->head->config.base.layers - 1 : 0LL);
    if ((op->embed != NULL) != (op->layer == 0))
        return err_set(err, ERR_INPUT, "eagle.layer|layer %lld|%s|embeddings in layer 0 alone",
                       (long long)op->layer, op->embed ? "embeddings" : "no embeddings");
    if (op->cache->width != head_cache_width(&op->head->config))
        return err_set(err, ERR_INPUT, "eagle.layer cache||entries of %lld|%lld, of this head",
                       (long long)op->cache->width, (long long)head_cache_width(&op->head->config));
    if (rows_check(op->rows, op->cache, "eagle.layer", err) != ERR_OK) return err->code;
    return check_weights(op, err);
}
