/* weights_matrix.c: the tensors of a linear's weight in each format; see weights.h. Test:
 * tests/test_weights.c */
#include "core/weights.h"

#include "core/weights_synth.h"

#include <stdio.h>

/* A companion tensor of a packed matrix: NAME.SUFFIX. */
static enum err_code companion(const struct weights *w, const char *name, const char *suffix,
                               enum dtype as, int dims, const int64_t *shape, struct tensor *out,
                               struct err *err)
{
    char full[NAME_MAX_BYTES + 32];
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    return weights_tensor(w, full, as, dims, shape, out, err);
}

/* weight_shape, where it is stored, must repeat what the config says: int32 or int64, both are
 * written. */
static enum err_code check_weight_shape(const struct weights *w, const char *name, int64_t out,
                                        int64_t in, struct err *err)
{
    char full[NAME_MAX_BYTES + 32];
    snprintf(full, sizeof full, "%s.weight_shape", name);
    const struct st_tensor *s = weights_stored(w, full);
    if (!s) return ERR_OK;
    if ((s->dtype != DT_I32 && s->dtype != DT_I64) || s->count != 2)
        return err_set(err, ERR_INPUT, "tensor dtype|%s: %s|%lld of %s|2 of I32 or I64",
                       weights_file(w, s), full, (long long)s->count, dtype_name(s->dtype));
    int64_t stored_out = dtype_int_at(s->dtype, s->data, 0),
            stored_in = dtype_int_at(s->dtype, s->data, 1);
    if (stored_out != out || stored_in != in)
        return err_set(err, ERR_INPUT,
                       "packed shape|%s: %s|(%lld, %lld)|(%lld, %lld), as config.json says",
                       weights_file(w, s), full, (long long)stored_out, (long long)stored_in,
                       (long long)out, (long long)in);
    return ERR_OK;
}

/* A companion that the config has no use for would have changed every value: one of the two lies.
 */
static enum err_code refuse_companion(const struct weights *w, const char *name, const char *suffix,
                                      const char *says, struct err *err)
{
    char full[NAME_MAX_BYTES + 32];
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    const struct st_tensor *s = weights_stored(w, full);
    if (!s) return ERR_OK;
    return err_set(err, ERR_INPUT, "packed weight|%s: %s|a stored %s|none, as config.json has %s",
                   weights_file(w, s), full, suffix, says);
}

static enum err_code packed_matrix(const struct weights *w, const char *name, struct matrix *m,
                                   struct err *err)
{
    const struct quant *q = &w->config.quant;
    m->format = MATRIX_PACKED;
    m->bits = q->bits;
    m->group = q->group;
    if (q->group && m->in % q->group && !q->act_order)
        return err_set(
            err, ERR_INPUT,
            "packed weight|%s|%lld columns in groups of %lld|groups that divide the columns", name,
            (long long)m->in, (long long)q->group);
    int64_t per_word = 32 / q->bits, groups = q->group ? ceil_div(m->in, q->group) : 1;
    const int64_t packed[2] = {m->out, ceil_div(m->in, per_word)}, scale[2] = {m->out, groups};
    const int64_t zero[2] = {ceil_div(m->out, per_word), groups}, g_idx[1] = {m->in};
    if (companion(w, name, "weight_packed", DT_I32, 2, packed, &m->data, err) != ERR_OK ||
        companion(w, name, "weight_scale", DT_COUNT, 2, scale, &m->scale, err) != ERR_OK ||
        check_weight_shape(w, name, m->out, m->in, err) != ERR_OK)
        return err->code;
    if (w->synthetic) weights_synth_set_inputs(m);
    if ((q->symmetric
             ? refuse_companion(w, name, "weight_zero_point", "symmetric: true", err)
             : companion(w, name, "weight_zero_point", DT_I32, 2, zero, &m->zero, err)) != ERR_OK)
        return err->code;
    return q->act_order ? companion(w, name, "weight_g_idx", DT_I32, 1, g_idx, &m->g_idx, err)
                        : refuse_companion(w, name, "weight_g_idx", "no actorder: group", err);
}

static enum err_code fp8_matrix(const struct weights *w, const char *name, struct matrix *m,
                                struct err *err)
{
    const int64_t *block = w->config.quant.block;
    const int64_t shape[2] = {m->out, m->in},
                  scale[2] = {ceil_div(m->out, block[0]), ceil_div(m->in, block[1])};
    m->format = MATRIX_FP8_BLOCK;
    m->block[0] = block[0];
    m->block[1] = block[1];
    if (companion(w, name, "weight", DT_F8_E4M3, 2, shape, &m->data, err) != ERR_OK)
        return err->code;
    return companion(w, name, "weight_scale_inv", DT_F32, 2, scale, &m->scale, err);
}

/* What is stored decides the format; the config says what to ask for where nothing is. */
static enum matrix_format stored_format(const struct weights *w, const char *name)
{
    char full[NAME_MAX_BYTES + 32];
    bool wanted = config_is_quantised(&w->config, name);
    enum matrix_format quantised =
        w->config.quant.kind == QUANT_FP8_BLOCK ? MATRIX_FP8_BLOCK : MATRIX_PACKED;
    if (w->config.quant.kind == QUANT_NONE) return MATRIX_DENSE;
    if (w->synthetic) return wanted ? quantised : MATRIX_DENSE;
    snprintf(full, sizeof full, "%s.%s", name,
             quantised == MATRIX_PACKED ? "weight_packed" : "weight_scale_inv");
    if (weights_stored(w, full)) return quantised;
    snprintf(full, sizeof full, "%s.weight", name);
    const struct st_tensor *dense = weights_stored(w, full);
    if (dense && dense->dtype != DT_F8_E4M3) return MATRIX_DENSE;
    return wanted || dense ? quantised : MATRIX_DENSE;
}

enum err_code weights_matrix(const struct weights *w, const char *name, int64_t out, int64_t in,
                             struct matrix *m, struct err *err)
{
    const int64_t shape[2] = {out, in};
    *m = (struct matrix){.format = MATRIX_DENSE, .out = out, .in = in};
    switch (stored_format(w, name)) {
    case MATRIX_PACKED:
        return packed_matrix(w, name, m, err);
    case MATRIX_FP8_BLOCK:
        return fp8_matrix(w, name, m, err);
    case MATRIX_DENSE:
        break;
    }
    return companion(w, name, "weight", DT_COUNT, 2, shape, &m->data, err);
}
