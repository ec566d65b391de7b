/* head_map.c: draft ids to target ids; see head_parts.h. A d2t holds offsets: zeros are the
 * identity. */
#include "core/head_parts.h"

#include "core/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err_code head_map_find(struct head *h, struct err *err)
{
    const struct st_tensor *vllm = weights_stored(&h->weights, "draft_id_to_target_id");
    h->d2t = weights_stored(&h->weights, "d2t");
    h->t2d = weights_stored(&h->weights, "t2d");
    if (vllm && h->d2t)
        return err_set(err, ERR_INPUT,
                       "draft vocabulary|%s|d2t and draft_id_to_target_id|one of them",
                       h->weights.path);
    if (vllm) h->d2t = vllm;
    h->mapped = h->d2t || (h->weights.synthetic && h->config.draft_vocab < h->config.base.vocab);
    return ERR_OK;
}

/* Ranks of a synthetic vocabulary: by x, equal ones by id. */
struct ranked {
    uint64_t x;
    int64_t id;
};

static int by_x(const void *a, const void *b)
{
    const struct ranked *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return p->id < q->id ? -1 : p->id > q->id;
}

static int by_id(const void *a, const void *b)
{
    int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return p < q ? -1 : p > q;
}

/* The draft_vocab ids with the smallest x of the name d2t, ascending. */
static enum err_code make_synthetic(struct head *h, struct err *err)
{
    int64_t n = h->config.base.vocab;
    struct ranked *all = malloc((size_t)n * sizeof *all);
    if (!all) return err_set(err, ERR_MEMORY, "draft vocabulary|%s|no memory", h->weights.path);
    uint64_t base = synth_base(h->weights.seed, "d2t");
    for (int64_t i = 0; i < n; i++) all[i] = (struct ranked){synth_x(base, i), i};
    qsort(all, (size_t)n, sizeof *all, by_x);
    for (int64_t i = 0; i < h->config.draft_vocab; i++) h->target_id[i] = all[i].id;
    qsort(h->target_id, (size_t)h->config.draft_vocab, sizeof *h->target_id, by_id);
    free(all);
    return ERR_OK;
}

/* One dimension of n elements of one of two types. */
static enum err_code check_form(const struct st_tensor *t, const char *where, int64_t n,
                                enum dtype a, enum dtype b, const char *as, struct err *err)
{
    char shape[96];
    if (t->dims == 1 && t->shape[0] == n && (t->dtype == a || t->dtype == b)) return ERR_OK;
    return err_set(err, ERR_INPUT, "draft vocabulary|%s: %s|%s %s|[%lld] %s, as %s says", where,
                   t->name, st_shape_text(t->dims, t->shape, shape, sizeof shape),
                   dtype_name(t->dtype), (long long)n, a == DT_BOOL ? "BOOL or U8" : "I64 or I32",
                   as);
}

static enum err_code read_d2t(struct head *h, struct err *err)
{
    const struct head_config *c = &h->config;
    int64_t before = -1, vocab = c->base.vocab;
    if (check_form(h->d2t, h->weights.path, c->draft_vocab, DT_I64, DT_I32, "draft_vocab_size",
                   err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < c->draft_vocab; i++) {
        int64_t offset = dtype_int_at(h->d2t->dtype, h->d2t->data, i);
        /* i + offset could overflow; the bounds on offset cannot. */
        if (offset < -i || offset >= vocab - i)
            return err_set(err, ERR_INPUT,
                           "draft vocabulary|%s: %s[%lld]|offset %lld|a target id %lld + offset "
                           "inside 0..%lld",
                           h->weights.path, h->d2t->name, (long long)i, (long long)offset,
                           (long long)i, (long long)vocab - 1);
        if (i + offset <= before)
            return err_set(err, ERR_INPUT,
                           "draft vocabulary|%s: %s[%lld]|target id %lld after %lld|ascending "
                           "target ids (the stored numbers are offsets: id - index)",
                           h->weights.path, h->d2t->name, (long long)i, (long long)(i + offset),
                           (long long)before);
        before = h->target_id[i] = i + offset;
    }
    return ERR_OK;
}

/* t2d must mark the ids of the map and no others. */
static enum err_code check_t2d(const struct head *h, struct err *err)
{
    int64_t vocab = h->config.base.vocab, k = 0;
    if (check_form(h->t2d, h->weights.path, vocab, DT_BOOL, DT_U8, "vocab_size", err) != ERR_OK)
        return err->code;
    const unsigned char *marks = h->t2d->data;
    for (int64_t id = 0; id < vocab; id++) {
        bool drafted = k < h->config.draft_vocab && h->target_id[k] == id;
        if ((marks[id] != 0) != drafted)
            return err_set(err, ERR_INPUT, "draft vocabulary|%s: t2d[%lld]|%d|%d, as %s says",
                           h->weights.path, (long long)id, marks[id], drafted,
                           h->d2t ? h->d2t->name : "a full draft vocabulary");
        k += drafted;
    }
    return ERR_OK;
}

enum err_code head_map_make(struct head *h, struct err *err)
{
    const struct head_config *c = &h->config;
    /* Without a map engines take draft ids for target ids, and acceptance collapses. */
    if (!h->mapped && c->draft_vocab < c->base.vocab)
        return err_set(
            err, ERR_INPUT,
            "draft vocabulary|%s|no d2t|one, as draft_vocab_size %lld is below vocab_size "
            "%lld",
            h->weights.path, (long long)c->draft_vocab, (long long)c->base.vocab);
    h->target_id = malloc((size_t)c->draft_vocab * sizeof *h->target_id);
    if (!h->target_id)
        return err_set(err, ERR_MEMORY, "draft vocabulary|%s|no memory", h->weights.path);
    for (int64_t i = 0; i < c->draft_vocab; i++) h->target_id[i] = i;
    if (h->d2t && read_d2t(h, err) != ERR_OK) return err->code;
    if (h->mapped && !h->d2t && make_synthetic(h, err) != ERR_OK) return err->code;
    return h->t2d ? check_t2d(h, err) : ERR_OK;
}
