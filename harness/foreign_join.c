/* foreign_join.c: what several ranks wrote of one tensor becomes that tensor; see foreign_parts.h.
 *
 * Ranks that hold parts are put together in the order of their numbers, terms of a sum are added.
 * Ranks that hold the whole
 * must hold the same bits: a tensor that differs is no copy, and either a rank is wrong or it is
 * cut and nobody said so. */
#include "harness/foreign_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pieces of one name, in the order of ranks. */
struct group {
    struct source *s;
    struct piece **piece;
    int64_t count;
    int axis;     /* -1: copies */
    bool partial; /* terms of a sum */
    bool said;    /* the file or the map said how it is cut, or that it is not */
};

static int by_rank(const void *a, const void *b)
{
    const struct piece *x = *(struct piece *const *)a, *y = *(struct piece *const *)b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

static bool same_shape(const struct st_tensor *a, const struct st_tensor *b, int but)
{
    if (a->dtype != b->dtype || a->dims != b->dims) return false;
    for (int k = 0; k < a->dims; k++) {
        if (k != but && a->shape[k] != b->shape[k]) return false;
    }
    return true;
}

static bool same_bytes(const struct st_tensor *a, const struct st_tensor *b)
{
    return a->bytes == 0 || memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

static enum err_code shapes_differ(const struct group *g, const struct piece *a,
                                   const struct piece *b, struct err *err)
{
    char x[96], y[96];
    return err_set(err, ERR_INPUT, "join ranks|%s: %s|rank %d %s %s, rank %d %s %s|%s", g->s->path,
                   a->name, a->rank, dtype_name(a->tensor.dtype),
                   st_shape_text(a->tensor.dims, a->tensor.shape, x, sizeof x), b->rank,
                   dtype_name(b->tensor.dtype),
                   st_shape_text(b->tensor.dims, b->tensor.shape, y, sizeof y),
                   g->axis < 0 ? "one shape, or `shard: AXIS` of a map: the axis that is cut"
                               : "shapes that differ along the axis that is cut");
}

/* Two copies that differ: where, and both values. */
static enum err_code differ(const struct group *g, const struct piece *a, const struct piece *b,
                            struct err *err)
{
    const int size = dtype_size(a->tensor.dtype);
    const char *x = a->tensor.data, *y = b->tensor.data;
    int64_t at = 0, cols = 1;
    while (memcmp(x + at * size, y + at * size, (size_t)size) == 0) at++;
    for (int k = 1; k < a->tensor.dims; k++) cols *= a->tensor.shape[k];
    double u = 0, v = 0;
    dtype_to_f64(a->tensor.dtype, x + at * size, 1, &u);
    dtype_to_f64(b->tensor.dtype, y + at * size, 1, &v);
    return err_set(
        err, g->said ? ERR_DIFF : ERR_INPUT,
        "join ranks|%s: %s: row %" PRId64 ", column %" PRId64
        "|%.9g on rank %d, %.9g on rank %d|%s",
        g->s->path, a->name, at / cols, at % cols, u, a->rank, v, b->rank,
        g->said
            ? "the same bits: this is not cut"
            : "the same bits, or a map: `shard: AXIS` where it is cut, `partial: true` where it "
              "is a sum");
}

/* Copies of one rank that several files hold (each stage of a pipeline has the token ids). */
static enum err_code drop_copies(struct group *g, struct err *err)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < g->count; i++) {
        struct piece *p = g->piece[i], *last = kept ? g->piece[kept - 1] : NULL;
        if (!last || p->rank != last->rank) {
            g->piece[kept++] = p;
            continue;
        }
        if (p->file == last->file || g->s->rank_count == 0)
            return err_set(err, ERR_INPUT, "read dump|%s: %s|twice|once a forward pass", g->s->path,
                           p->name);
        if (!same_shape(&p->tensor, &last->tensor, -1)) return shapes_differ(g, last, p, err);
        if (!same_bytes(&p->tensor, &last->tensor)) return differ(g, last, p, err);
    }
    g->count = kept;
    return ERR_OK;
}

static enum err_code check_ranks(const struct group *g, struct err *err)
{
    const struct piece *first = g->piece[0];
    const int ranks = first->ranks ? first->ranks : g->s->rank_count;
    for (int64_t i = 0; i < g->count; i++) {
        if (g->piece[i]->rank != i)
            return err_set(err, ERR_INPUT,
                           "join ranks|%s: %s|none of rank %" PRId64 "|one of each of %d",
                           g->s->path, first->name, i, ranks);
    }
    if (g->count == ranks || ranks == 0) return ERR_OK;
    return err_set(err, ERR_INPUT, "join ranks|%s: %s|%" PRId64 " ranks|%d, as many as there are",
                   g->s->path, first->name, g->count, ranks);
}

/* A row of blocks, one a rank, for each index before the axis. */
static enum err_code concatenate(const struct group *g, struct st_tensor *out, struct err *err)
{
    const struct st_tensor *first = &g->piece[0]->tensor;
    int64_t outer = 1, inner = dtype_size(first->dtype), at = 0;
    *out = *first;
    out->shape[g->axis] = 0;
    for (int64_t i = 0; i < g->count; i++) {
        const struct piece *p = g->piece[i];
        if (!same_shape(&p->tensor, first, g->axis)) return shapes_differ(g, g->piece[0], p, err);
        out->shape[g->axis] += p->tensor.shape[g->axis];
    }
    for (int k = 0; k < g->axis; k++) outer *= first->shape[k];
    for (int k = g->axis + 1; k < first->dims; k++) inner *= first->shape[k];
    out->count = outer * out->shape[g->axis] * (inner / dtype_size(first->dtype));
    out->bytes = outer * out->shape[g->axis] * inner;
    char *whole = malloc((size_t)out->bytes + 1), *to = whole;
    if (!whole)
        return err_set(err, ERR_MEMORY, "join ranks|%s: %s|no memory", g->s->path, first->name);
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < g->count; i++) {
            const struct st_tensor *t = &g->piece[i]->tensor;
            const int64_t bytes = t->shape[g->axis] * inner;
            memcpy(to, (const char *)t->data + o * bytes, (size_t)bytes);
            to += bytes;
        }
    }
    (void)!spool_add(&g->s->joined, whole, out->bytes, &at, err);
    free(whole);
    out->offset = at;
    out->data = NULL; /* it lies in the spool of what is joined */
    return err->code;
}

/* The sum of the ranks' terms, in their order, as float32: what one engine rounds here another does
 * elsewhere, and the sum is judged, not its last bit. */
static enum err_code add_up(const struct group *g, struct st_tensor *out, struct err *err)
{
    enum { PART = 1024 };
    double sum[PART], term[PART];
    const struct st_tensor *first = &g->piece[0]->tensor;
    const int size = dtype_size(first->dtype);
    int64_t at = 0;
    *out = *first;
    out->dtype = DT_F32;
    out->bytes = first->count * 4;
    out->data = NULL;
    if (!dtype_is_float(first->dtype))
        return err_set(err, ERR_INPUT, "join ranks|%s: %s|terms of %s|a float type", g->s->path,
                       g->piece[0]->name, dtype_name(first->dtype));
    for (int64_t i = 1; i < g->count; i++) {
        const struct piece *p = g->piece[i];
        if (!same_shape(&p->tensor, first, -1)) return shapes_differ(g, g->piece[0], p, err);
    }
    float *whole = malloc((size_t)out->bytes + 1);
    if (!whole)
        return err_set(err, ERR_MEMORY, "join ranks|%s: %s|no memory", g->s->path,
                       g->piece[0]->name);
    for (int64_t from = 0; from < first->count; from += PART) {
        const int64_t n = first->count - from < PART ? first->count - from : PART;
        memset(sum, 0, sizeof sum);
        for (int64_t i = 0; i < g->count; i++) {
            dtype_to_f64(first->dtype, (const char *)g->piece[i]->tensor.data + from * size, n,
                         term);
            for (int64_t k = 0; k < n; k++) sum[k] += term[k];
        }
        for (int64_t k = 0; k < n; k++) whole[from + k] = (float)sum[k];
    }
    (void)!spool_add(&g->s->joined, whole, out->bytes, &at, err);
    free(whole);
    out->offset = at;
    return err->code;
}

/* How the ranks hold it: as the map says, else as the files do. */
static enum err_code read_cut(struct group *g, const struct map_rule *rule, struct err *err)
{
    const struct piece *p = g->piece[0];
    g->axis = rule && rule->sharded ? rule->shard : p->axis;
    g->partial = rule && rule->partial;
    g->said = (rule && rule->sharded) || p->ranks > 0;
    for (int64_t i = 1; i < g->count; i++) {
        if (g->piece[i]->axis == p->axis && g->piece[i]->ranks == p->ranks) continue;
        return err_set(err, ERR_INPUT,
                       "join ranks|%s: %s|ranks that say different things of how it is cut|one",
                       g->s->path, p->name);
    }
    if (g->axis < p->tensor.dims) return ERR_OK;
    return err_set(err, ERR_INPUT, "join ranks|%s: %s|cut along axis %d of %d|one that it has",
                   g->s->path, p->name, g->axis, p->tensor.dims);
}

/* Each rank made as many columns of the whole as any other. */
static bool columns_are_parts(const struct group *g)
{
    const struct st_tensor *first = &g->piece[0]->tensor;
    bool even = !g->partial && g->axis == first->dims - 1;
    for (int64_t i = 1; i < g->count; i++) even &= same_shape(&g->piece[i]->tensor, first, -1);
    return even;
}

static enum err_code join(struct group *g, struct piece *out, struct err *err)
{
    const struct map_rule *rule;
    char to[MAP_NAME];
    qsort(g->piece, (size_t)g->count, sizeof(struct piece *), by_rank);
    *out = *g->piece[0];
    out->ranks = 1;
    (void)map_find(&g->s->map, out->name, &rule, to);
    if (rule && rule->skip) return ERR_OK;
    if (read_cut(g, rule, err) != ERR_OK || drop_copies(g, err) != ERR_OK ||
        (g->s->rank_count && check_ranks(g, err) != ERR_OK))
        return err->code;
    out->spooled = -1;
    if (g->axis < 0 && !(g->partial && g->count > 1)) {
        for (int64_t i = 1; i < g->count; i++) {
            const struct piece *a = g->piece[0], *b = g->piece[i];
            if (!same_shape(&a->tensor, &b->tensor, -1)) return shapes_differ(g, a, b, err);
            if (!same_bytes(&a->tensor, &b->tensor)) return differ(g, a, b, err);
        }
        return ERR_OK;
    }
    if (g->count < 2) return ERR_OK;
    if ((g->partial ? add_up(g, &out->tensor, err) : concatenate(g, &out->tensor, err)) != ERR_OK)
        return err->code;
    out->spooled = out->tensor.offset;
    out->ranks = columns_are_parts(g) ? (int)g->count : 1;
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct piece *x = *(struct piece *const *)a, *y = *(struct piece *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

static int by_order(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* Data that lie in a spool, now that it is mapped. */
static void place(struct piece *pieces, int64_t count, const struct spool *p)
{
    for (int64_t i = 0; i < count; i++) {
        if (!pieces[i].tensor.data && pieces[i].spooled >= 0 && p->map)
            pieces[i].tensor.data = (const char *)p->map + pieces[i].spooled;
    }
}

enum err_code source_join(struct source *s, struct err *err)
{
    if (spool_map(&s->spool, err) != ERR_OK) return err->code;
    place(s->pieces, s->count, &s->spool);
    struct piece **sorted = calloc((size_t)s->count + 1, sizeof(struct piece *)),
                 *out = calloc((size_t)s->count + 1, sizeof *out);
    int64_t n = 0;
    if (!sorted || !out) err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
    for (int64_t i = 0; sorted && i < s->count; i++) sorted[i] = &s->pieces[i];
    if (err->code == ERR_OK) qsort(sorted, (size_t)s->count, sizeof(struct piece *), by_name);
    for (int64_t i = 0, end; i < s->count && err->code == ERR_OK; i = end) {
        for (end = i; end < s->count && strcmp(sorted[end]->name, sorted[i]->name) == 0;) end++;
        struct group g = {.s = s, .piece = sorted + i, .count = end - i};
        if (join(&g, &out[n], err) == ERR_OK) n++;
    }
    free(sorted);
    if (err->code == ERR_OK && spool_map(&s->joined, err) == ERR_OK) {
        place(out, n, &s->joined);
        qsort(out, (size_t)n, sizeof *out, by_order);
        free(s->pieces);
        s->pieces = out;
        s->count = n;
        return ERR_OK;
    }
    free(out);
    return err->code;
}
