/* mla_core.cu: op mla.core: the choice of form, and the adapter that brings a host cache to the
 * device; see mla.cuh. Contract: core/mla.h. The forms: mla_absorbed.cu, mla_expanded.cu. Test:
 * assay op mla.core --sweep --on ref,gpu */
#include "gpu/mla_core.cuh"

#include "core/cache.h"
#include "core/mla.h"
#include "gpu/linear.cuh"
#include "gpu/ops.h"

#include <string.h>

/* ---- rows and their parts ---- */

float mla_scale(double scale)
{
    return (float)(scale * 1.4426950408889634);
}

/* Exact where the host knows the rows; otherwise what may be. */
void mla_cut_rows(struct mla_attend *a, struct mla_cut cut)
{
    const struct gpu_rows *r = a->all;
    a->cut = cut;
    a->most = r->context_max > 0 ? mla_parts_most(cut, r->context_max) : 1;
    a->parts = a->rows * a->most;
    a->longest = mla_part_tokens(cut, r->context_max);
    a->seen = r->context_max;
    a->tokens = a->rows * a->seen;
    if (!r->host) return;
    a->most = 1;
    a->parts = a->longest = a->seen = a->tokens = 0;
    for (int64_t i = a->begin; i < a->begin + a->rows; i++) {
        const int64_t *extra;
        int64_t span = rows_span(r->host, i), extras = rows_extras(r->host, i, &extra);
        int64_t seen = (span > 0 ? span : 0) + extras;
        int64_t parts = mla_parts(cut, seen), tokens = mla_part_tokens(cut, seen);
        if (tokens > seen) tokens = seen;
        a->parts += parts;
        a->tokens += seen;
        if (parts > a->most) a->most = parts;
        if (tokens > a->longest) a->longest = tokens;
        if (seen > a->seen) a->seen = seen;
    }
}

void mla_attend_begin(const struct gpu_mla_core *op, int64_t first, int64_t n, struct mla_attend *a)
{
    const struct gpu_rows *r = op->rows;
    *a = (struct mla_attend){};
    a->rows = n;
    a->heads = op->heads;
    a->R = op->R;
    a->scale = mla_scale(op->scale);
    a->sequence = r->sequence + first;
    a->span = r->span + first;
    a->extra = r->extra ? r->extra + first * r->extra_max : NULL;
    a->extra_max = r->extra_max;
    a->all = r;
    a->begin = first;
    mla_cut_rows(a, mla_cut_usual());
}

enum err_code gpu_mla_core(struct gpu *g, const struct gpu_mla_core *op, struct err *err)
{
    if (op->rows->count == 0) return ERR_OK;
    if (op->rows->context_max > INT32_MAX || op->cache->block > INT32_MAX)
        return err_set(err, ERR_INPUT, "mla.core on gpu|context|%lld tokens|fewer than 2^31",
                       (long long)op->rows->context_max);
    return op->absorbed ? mla_absorbed(g, op, err) : mla_expanded(g, op, err);
}

/* ---- adapter ---- */

/* Slots of one sequence that some row sees; also into *n. NULL: no memory. */
static int64_t *seen_slots(const struct mla_core *op, int64_t sequence, struct arena *arena,
                           int64_t *n, struct err *err)
{
    const struct rows *r = op->rows;
    int64_t length = op->cache->length[sequence], prefix = 0;
    char *seen = (char *)arena_alloc(arena, length, 1, "seen slots", err);
    int64_t *slots = (int64_t *)arena_alloc(arena, length, sizeof *slots, "seen slots", err);
    if (!seen || !slots) return NULL;
    memset(seen, 0, (size_t)length);
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t *extra;
        if (r->sequence[i] != sequence) continue;
        if (rows_span(r, i) > prefix) prefix = rows_span(r, i);
        for (int64_t e = rows_extras(r, i, &extra) - 1; e >= 0; e--) seen[extra[e]] = 1;
    }
    memset(seen, 1, (size_t)prefix);
    *n = 0;
    for (int64_t t = 0; t < length; t++) {
        if (seen[t]) slots[(*n)++] = t;
    }
    return slots;
}

/* The entries of these slots as two host buffers: latents and roped keys. */
static void split_entries(const struct mla_core *op, int64_t sequence, const int64_t *slots,
                          int64_t n, double *latent, double *rope)
{
    for (int64_t i = 0; i < n; i++) {
        const double *entry = cache_read(op->cache, op->layer, sequence, slots[i]);
        memcpy(latent + i * op->L, entry, (size_t)op->L * sizeof *latent);
        memcpy(rope + i * op->R, entry + op->L, (size_t)op->R * sizeof *rope);
    }
}

static enum err_code send_sequence(struct gpu *g, const struct mla_core *op, int64_t sequence,
                                   struct arena *arena, const struct gpu_cache *c, struct err *err)
{
    int64_t n = 0, *slots = seen_slots(op, sequence, arena, &n, err);
    if (!slots || n == 0) return err->code;
    double *latent = (double *)arena_alloc(arena, n * op->L, sizeof *latent, "seen latents", err);
    double *rope = (double *)arena_alloc(arena, n * op->R, sizeof *rope, "seen keys", err);
    int32_t *own = (int32_t *)arena_alloc(arena, n, sizeof *own, "sequence of slots", err);
    struct gpu_rows rows = {};
    if (!latent || !rope || !own) return err->code;
    split_entries(op, sequence, slots, n, latent, rope);
    for (int64_t i = 0; i < n; i++) own[i] = (int32_t)sequence;
    bf16 *latent_sent = gpu_send_act(g, latent, n, op->L, "cached latents", err);
    bf16 *rope_sent = latent_sent ? gpu_send_act(g, rope, n, op->R, "cached keys", err) : NULL;
    int32_t *sequence_sent = rope_sent ? gpu_new<int32_t>(g, n, "sequence of slots", err) : NULL;
    int64_t *slot_sent = sequence_sent ? gpu_new<int64_t>(g, n, "slots", err) : NULL;
    if (!slot_sent ||
        gpu_send(g, sequence_sent, own, (size_t)n * sizeof *own, "sequence of slots", err) !=
            ERR_OK ||
        gpu_send(g, slot_sent, slots, (size_t)n * sizeof *slots, "slots", err) != ERR_OK)
        return err->code;
    rows.count = n;
    rows.sequence = sequence_sent;
    rows.slot = slot_sent;
    return gpu_cache_write(g, c, 0, &rows, op->L, latent_sent, op->R, rope_sent, err);
}

/* One layer of the host's cache under the same block tables; what no row sees is NaN. */
static enum err_code send_cache(struct gpu *g, const struct mla_core *op, struct arena *arena,
                                struct gpu_cache *out, struct err *err)
{
    const struct cache *c = op->cache;
    int64_t entries = c->blocks * c->block, tables = c->sequences * c->blocks_max;
    *out = (struct gpu_cache){1,        c->sequences, c->block, c->blocks, c->blocks_max,
                              c->width, NULL,         NULL};
    out->table = gpu_new<int32_t>(g, tables, "block tables", err);
    out->pool = gpu_new<bf16>(g, entries * c->width, "latent cache", err);
    if (!out->table || !out->pool ||
        gpu_send(g, out->table, c->table, (size_t)tables * sizeof *c->table, "block tables", err) !=
            ERR_OK ||
        gpu_call(g,
                 cudaMemsetAsync(out->pool, 0xff, (size_t)(entries * c->width) * sizeof(bf16),
                                 g->stream),
                 "poison the latent cache", err) != ERR_OK)
        return err->code;
    for (int64_t s = 0; s < c->sequences && err->code == ERR_OK; s++) {
        struct arena_block *mark = arena_mark(arena);
        struct gpu_mark scratch = gpu_mark(g);
        (void)!send_sequence(g, op, s, arena, out, err);
        gpu_release(g, scratch);
        arena_release(arena, mark);
    }
    return err->code;
}

/* y that is not finite though what it was made of is: a weight is to blame, and named. */
static enum err_code explain(const struct mla_core *op, struct err *err)
{
    int64_t n = op->rows->count * op->heads;
    return gpu_linear_explain(op->q, n * (op->P + op->R), op->y, n * op->V, &op->kv_b, 1, err);
}

enum err_code mla_core_gpu(const struct mla_core *op, struct run *run, struct err *err)
{
    if (mla_core_check(op, err) != ERR_OK || op->rows->count == 0) return err->code;
    struct gpu *g = gpu_enter("mla.core", run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    int64_t n = op->rows->count * op->heads;
    struct gpu_cache cache;
    struct gpu_rows rows;
    struct gpu_matrix kv_b;
    bf16 *q = gpu_send_act(g, op->q, op->rows->count, op->heads * (op->P + op->R), "queries", err);
    bf16 *y = q ? gpu_new<bf16>(g, n * op->V, "attention output", err) : NULL;
    if (y && send_cache(g, op, run->arena, &cache, err) == ERR_OK &&
        gpu_rows_send(g, op->rows, &rows, err) == ERR_OK &&
        gpu_matrix_send(g, op->kv_b, false, &kv_b, err) == ERR_OK) {
        const struct gpu_mla_core core = {
            op->heads, op->P, op->R, op->V,  op->L, op->scale, op->form == MLA_ABSORBED,
            &rows,     q,     &kv_b, &cache, 0,     y};
        if (gpu_mla_core(g, &core, err) == ERR_OK &&
            gpu_fetch_act(g, op->y, y, n * op->V, "attention output", err) == ERR_OK)
            (void)!explain(op, err);
    }
    return gpu_leave(g, m, err);
}
