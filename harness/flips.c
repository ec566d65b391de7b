/* flips.c: see flips.h. */
#include "harness/flips.h"

#include "core/compare.h"
#include "core/router.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void read_ids(const struct dump_tap *t, int64_t row, int32_t *ids)
{
    for (int64_t j = 0; j < t->cols; j++)
        ids[j] = (int32_t)dtype_int_at(t->tensor->dtype, t->tensor->data, row * t->cols + j);
    qsort(ids, (size_t)t->cols, sizeof *ids, ascending);
}

static void read_reals(const struct dump_tap *t, int64_t row, double *out)
{
    const char *at = (const char *)t->tensor->data + row * t->cols * dtype_size(t->tensor->dtype);
    dtype_to_f64(t->tensor->dtype, at, t->cols, out);
}

static enum err_code make(struct flips *f, const struct dump *subject, int64_t top_k,
                          struct err *err)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < subject->count; i++) {
        if (subject->taps[i].known && subject->taps[i].kind == TAP_EXPERTS)
            rows += subject->taps[i].rows;
    }
    *f = (struct flips){.top_k = top_k};
    f->list = calloc((size_t)rows + 1, sizeof *f->list);
    f->ids = calloc((size_t)(rows + 1) * (size_t)top_k * 2, sizeof *f->ids);
    return f->list && f->ids ? ERR_OK : err_set(err, ERR_MEMORY, "compare experts||no memory");
}

/* A new entry with both sets. */
static struct flip *add(struct flips *f, int64_t layer, int64_t row, const int32_t *subject,
                        const int32_t *truth)
{
    int32_t *ids = f->ids + f->count * f->top_k * 2;
    memcpy(ids, subject, (size_t)f->top_k * sizeof *ids);
    memcpy(ids + f->top_k, truth, (size_t)f->top_k * sizeof *ids);
    struct flip *flip = &f->list[f->count++];
    *flip = (struct flip){.layer = layer,
                          .row = row,
                          .subject = ids,
                          .truth = ids + f->top_k,
                          .gap = NAN,
                          .allowed = NAN};
    return flip;
}

/* What one layer's comparison needs. */
struct layer_keys {
    struct router op;
    const struct dump_tap *ids, *logits, *math,
        *profile; /* subject, subject or NULL, reference runs */
    double *raw, *scores, *key, *other, *group_score;
    bool *kept;
    int32_t *subject, *own;
    double pooled; /* RMS over rows of the profile's largest key error */
};

static double largest_difference(const double *a, const double *b, int64_t n)
{
    double d = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(a[i] - b[i]) <= d)) d = fabs(a[i] - b[i]);
    }
    return d;
}

static void keys_of(struct layer_keys *k, const struct dump_tap *t, int64_t row, double *keys)
{
    read_reals(t, row, k->raw);
    router_keys(&k->op, k->raw, k->scores, keys);
}

static double profile_error(struct layer_keys *k, int64_t math_row, int64_t profile_row)
{
    keys_of(k, k->math, math_row, k->key);
    keys_of(k, k->profile, profile_row, k->other);
    return largest_difference(k->key, k->other, k->op.E);
}

static void judge_row(struct layer_keys *k, int64_t layer, int64_t row, int64_t math_row,
                      int64_t profile_row, struct flips *out)
{
    keys_of(k, k->math, math_row, k->key);
    router_choose(&k->op, k->key, k->kept, k->group_score, k->own);
    read_ids(k->ids, row, k->subject);
    if (memcmp(k->own, k->subject, (size_t)k->op.top_k * sizeof *k->own) == 0) return;
    struct flip *f = add(out, layer, row, k->subject, k->own);
    f->gap = router_gap(&k->op, k->key, k->subject, &f->by_group);
    double floor = 4 * dtype_unit(DT_F32),
           reference = fmax(profile_error(k, math_row, profile_row), k->pooled);
    reference = fmax(reference, floor);
    double subject = 2 * reference;
    if (k->logits) {
        keys_of(k, k->math, math_row, k->key);
        keys_of(k, k->logits, row, k->other);
        subject = fmin(subject, fmax(largest_difference(k->key, k->other, k->op.E), floor));
    }
    f->allowed = reference + subject;
    f->certified = !judge_fails(f->gap, f->allowed);
    out->certified += f->certified;
}

static enum err_code make_keys(struct layer_keys *k, const struct model *model, int64_t layer,
                               struct err *err)
{
    const struct config *c = model->config;
    const struct layer *l = &model->layers[layer];
    k->op = (struct router){.E = c->experts,
                            .top_k = c->top_k,
                            .groups = c->groups,
                            .top_groups = c->top_groups,
                            .scoring = c->scoring,
                            .method = c->topk_method,
                            .bias = tensor_exists(&l->bias) ? &l->bias : NULL};
    size_t n = (size_t)(4 * c->experts + c->groups) + 1;
    k->raw = calloc(n, sizeof(double));
    k->kept = calloc((size_t)c->groups, sizeof(bool));
    k->subject = calloc((size_t)c->top_k * 2, sizeof(int32_t));
    if (!k->raw || !k->kept || !k->subject)
        return err_set(err, ERR_MEMORY, "compare experts||no memory");
    k->scores = k->raw + c->experts;
    k->key = k->scores + c->experts;
    k->other = k->key + c->experts;
    k->group_score = k->other + c->experts;
    k->own = k->subject + c->top_k;
    return ERR_OK;
}

static void free_keys(struct layer_keys *k)
{
    free(k->raw);
    free(k->kept);
    free(k->subject);
}

static enum err_code find_in_layer(const struct model *model, int64_t layer, struct layer_keys *k,
                                   const int64_t *math_row, const int64_t *profile_row,
                                   struct flips *out, struct err *err)
{
    if (make_keys(k, model, layer, err) != ERR_OK) return err->code;
    double squares = 0;
    int64_t n = 0;
    for (int64_t r = 0; r < k->ids->rows; r++) {
        if (math_row[r] < 0 || profile_row[r] < 0) continue;
        double e = profile_error(k, math_row[r], profile_row[r]);
        squares += e * e;
        n++;
    }
    k->pooled = n ? sqrt(squares / (double)n) : 0;
    for (int64_t r = 0; r < k->ids->rows; r++) {
        if (math_row[r] >= 0 && profile_row[r] >= 0)
            judge_row(k, layer, r, math_row[r], profile_row[r], out);
    }
    return ERR_OK;
}

enum err_code flips_find(const struct model *model, const struct dump *subject,
                         const struct dump *math, const int64_t *math_row,
                         const struct dump *profile, const int64_t *profile_row, struct flips *out,
                         struct err *err)
{
    if (make(out, subject, model->config->top_k, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < subject->count && err->code == ERR_OK; i++) {
        struct layer_keys k = {.ids = &subject->taps[i]};
        char name[TAP_NAME];
        if (!k.ids->known || k.ids->kind != TAP_EXPERTS || k.ids->cols != out->top_k ||
            k.ids->layer >= model->config->layers)
            continue;
        tap_format(TAP_ROUTER_LOGITS, k.ids->layer, name);
        k.logits = dump_find(subject, name);
        k.math = dump_find(math, name);
        k.profile = dump_find(profile, name);
        if (k.logits && k.logits->cols != model->config->experts) k.logits = NULL;
        /* The profile run may be a file of the user's. */
        if (k.profile && (k.profile->cols != model->config->experts ||
                          !dtype_is_float(k.profile->tensor->dtype)))
            err_set(err, ERR_INPUT,
                    "compare experts|%s: %s|%s [%lld, %lld]|%lld router logits a row",
                    profile->file.path, name, dtype_name(k.profile->tensor->dtype),
                    (long long)k.profile->rows, (long long)k.profile->cols,
                    (long long)model->config->experts);
        else if (k.math && k.profile)
            (void)!find_in_layer(model, k.ids->layer, &k, math_row, profile_row, out, err);
        free_keys(&k);
    }
    return err->code;
}

enum err_code flips_compare(const struct dump *subject, const struct dump *truth,
                            const int64_t *row, struct flips *out, struct err *err)
{
    int64_t widest = 1;
    for (int64_t i = 0; i < subject->count; i++) {
        if (subject->taps[i].known && subject->taps[i].kind == TAP_EXPERTS &&
            subject->taps[i].cols > widest)
            widest = subject->taps[i].cols;
    }
    int32_t *ids = calloc((size_t)widest * 2, sizeof *ids);
    if (!ids) return err_set(err, ERR_MEMORY, "compare experts||no memory");
    if (make(out, subject, widest, err) == ERR_OK) {
        for (int64_t i = 0; i < subject->count; i++) {
            const struct dump_tap *s = &subject->taps[i], *t = dump_find(truth, s->name);
            if (!s->known || s->kind != TAP_EXPERTS || !t || t->cols != s->cols ||
                s->cols != widest)
                continue;
            if (!dtype_is_int(s->tensor->dtype) || !dtype_is_int(t->tensor->dtype))
                continue; /* judged as a plain tap */
            for (int64_t r = 0; r < s->rows; r++) {
                int64_t at = row ? row[r] : r;
                if (at < 0 || at >= t->rows) continue;
                read_ids(s, r, ids);
                read_ids(t, at, ids + widest);
                if (memcmp(ids, ids + widest, (size_t)widest * sizeof *ids))
                    add(out, s->layer, r, ids, ids + widest);
            }
        }
    }
    free(ids);
    return err->code;
}

void flips_free(struct flips *f)
{
    free(f->list);
    free(f->ids);
    *f = (struct flips){0};
}
