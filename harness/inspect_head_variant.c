/* inspect_head_variant.c: a head wired in another way; see inspect_head.h. */
#include "harness/inspect_head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *keep(struct head_variant *v, size_t size, const char *what, struct err *err)
{
    void *p = calloc(size ? size : 1, 1);
    if (!p) err_set(err, ERR_MEMORY, "wire a head|%s|no memory", what);
    v->copies[v->count++] = p;
    return p;
}

/* The matrix with the halves of its columns exchanged. */
static enum err_code swap_halves(struct head_variant *v, struct matrix *m, struct err *err)
{
    if (!tensor_exists(&m->data)) return ERR_OK;
    if (m->format != MATRIX_DENSE)
        return err_set(err, ERR_INPUT, "wire a head|%s|quantised|dense weights", m->data.name);
    size_t size = (size_t)dtype_size(m->data.dtype), half = (size_t)m->in / 2 * size;
    char *out = keep(v, (size_t)m->out * 2 * half, m->data.name, err);
    char *row = out ? malloc(2 * half) : NULL;
    if (!row) return err_set(err, ERR_MEMORY, "wire a head|%s|no memory", m->data.name);
    for (int64_t i = 0; i < m->out; i++) {
        const char *from = tensor_elements(&m->data, i * m->in, m->in, row);
        memcpy(out + (size_t)i * 2 * half, from + half, half);
        memcpy(out + (size_t)i * 2 * half + half, from, half);
    }
    free(row);
    tensor_hold(&m->data, out);
    return ERR_OK;
}

/* fc that gives state j as it came. */
static enum err_code skip_fc(struct head_variant *v, int j, struct err *err)
{
    struct head *h = &v->head;
    int64_t H = h->config.base.hidden, in = H * h->config.aux_count;
    float *w = keep(v, (size_t)(H * in) * sizeof *w, "fc", err);
    if (!w) return err->code;
    for (int64_t i = 0; i < H; i++) w[i * in + j * H + i] = 1;
    h->fc = (struct matrix){.format = MATRIX_DENSE, .out = H, .in = in};
    h->fc.data = (struct tensor){.dtype = DT_F32, .dims = 2, .shape = {H, in}, .data = w};
    snprintf(h->fc.data.name, sizeof h->fc.data.name, "no fc");
    h->config.norm_before_fc = false;
    h->config.fc_norm = false;
    return ERR_OK;
}

enum err_code head_variant_make(struct head_variant *v, const struct head *h,
                                const struct setting *set, struct err *err)
{
    *v = (struct head_variant){.head = *h};
    struct head_layer *l = &v->head.layers[0];
    struct matrix *const inputs[] = {&l->q, &l->k, &l->v, &l->q_a, &l->kv_a};
    v->head.config.norm_before_residual = set->normed;
    v->head.config.norm_output = set->fed;
    for (size_t i = 0; set->swapped && i < sizeof inputs / sizeof *inputs; i++) {
        if (swap_halves(v, inputs[i], err) != ERR_OK) return err->code;
    }
    /* MLA without a query latent takes the wide input in q_b. */
    if (set->swapped && !tensor_exists(&l->q_a.data) && !tensor_exists(&l->q.data) &&
        swap_halves(v, &l->q_b, err) != ERR_OK)
        return err->code;
    return set->skip >= 0 ? skip_fc(v, set->skip, err) : ERR_OK;
}

void head_variant_free(struct head_variant *v)
{
    for (int i = 0; i < v->count; i++) free(v->copies[i]);
    v->count = 0;
}
