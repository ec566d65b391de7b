/* ranks_rank.c: what a rank of an engine of ranks keeps between its tasks, and how it opens; see
 * ranks_parts.h. */
#include "core/check.h"
#include "core/text.h"
#include "harness/ranks_parts.h"
#include "harness/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- its state ---- */

static void drop_cache(struct rank_state *s, struct rank_cache **at)
{
    struct rank_cache *c = *at;
    *at = c->next;
    engine_cache_close(&s->engine, &c->cache);
    arena_release(&c->arena, NULL);
    free(c);
}

static void forget(void *state)
{
    struct rank_state *s = state;
    load_end(s->load);
    while (s->caches) drop_cache(s, &s->caches);
    while (s->heads) {
        struct rank_head *h = s->heads;
        s->heads = h->next;
        head_close(&h->head);
        free(h);
    }
    engine_close(&s->engine);
    shard_model_close(&s->part);
    model_release(&s->whole);
    weights_close(&s->weights);
    arena_release(&s->arena, NULL);
    segment_free(&s->piece);
    free(s->request.data);
    free(s->kernels);
    free(s->taps);
    free(s);
}

/* ---- opening ---- */

static enum err_code open_part(struct worker *w, struct rank_state *s,
                               const struct ranks_open_head *h, const char *fault, struct err *err)
{
    struct shard shard;
    if (shard_plan_check(&h->plan, s->whole.config, err) != ERR_OK) return err->code;
    CHECK(shard_world(&h->plan) == w->world);
    shard_of(&h->plan, s->whole.config, w->rank, &shard);
    shard.replicas_agree = !h->gpu; /* two devices need not give the same bits */
    if (fault) {
        if (shard_fault_parse(&s->fault, fault, &h->plan, err) != ERR_OK) return err->code;
        shard.fault = &s->fault;
    }
    if (shard_join(&shard, w->collective, &s->tensor, err) != ERR_OK ||
        shard_model_open(&s->part, &s->whole, &shard, err) != ERR_OK)
        return err->code;
    return tap_list(s->whole.config, 0, s->whole.config->layers, &s->taps, &s->tap_count, err);
}

static enum err_code open_model(struct worker *w, struct rank_state *s, const char *path,
                                struct err *err)
{
    const struct load_options options = load_defaults();
    struct load *watch = text_starts(path, "synth:") ? NULL : load_begin_opening(&options);
    load_opening(watch, path);
    worker_doing(w, "open the checkpoint", -1, -1);
    if (weights_open(&s->weights, path, err) == ERR_OK) {
        worker_doing(w, "bind its tensors", -1, -1);
        (void)!model_bind(&s->whole, &s->weights, err);
    }
    load_end(watch);
    return err->code;
}

static enum err_code open_engine(struct worker *w, struct rank_state *s,
                                 const struct ranks_open_head *h, struct err *err)
{
    worker_doing(w, "open the engine", -1, -1);
    s->kernels = calloc(1, sizeof *s->kernels);
    if (!s->kernels) return err_set(err, ERR_MEMORY, "open a rank||no memory|its log of kernels");
    return engine_open(&s->engine, h->gpu ? gpu_engine() : ref_engine(), &s->part.model, err);
}

enum err_code rank_open_task(struct worker *w, struct err *err)
{
    struct unpack u = {.data = w->data, .bytes = w->bytes};
    struct ranks_open_head h;
    bool head = unpack_copy(&u, &h, sizeof h);
    const char *path = unpack_text(&u), *fault = unpack_text(&u);
    struct rank_state *s = calloc(1, sizeof *s);
    if (w->state) w->forget(w->state);
    w->state = s;
    w->forget = forget;
    if (!s) return err_set(err, ERR_MEMORY, "open a rank||no memory|its state");
    s->piece = (struct segment)SEGMENT_INIT;
    if (!head || !path || u.failed)
        return err_set(err, ERR_PROCESS, "open a rank|its request|cut|a whole one");
    s->base_bytes = memory_anonymous();
    s->piece_most = h.piece;
    if (open_model(w, s, path, err) != ERR_OK || open_part(w, s, &h, fault, err) != ERR_OK ||
        open_engine(w, s, &h, err) != ERR_OK)
        return err->code;
    return rank_reply(w, err);
}

/* ---- requests of steps ---- */

static struct rank_cache **find_cache(struct rank_state *s, int64_t number)
{
    struct rank_cache **at = &s->caches;
    while (*at && (*at)->number != number) at = &(*at)->next;
    return at;
}

/* The parent planned it: the table is its, the pool is this engine's. */
static enum err_code make_cache(struct rank_state *s, const struct ranks_head *h,
                                const int32_t *table, struct rank_cache **at, struct err *err)
{
    struct rank_cache *c = calloc(1, sizeof *c);
    if (!c) return err_set(err, ERR_MEMORY, "cache of a rank||no memory|some bytes");
    *at = c;
    c->number = h->cache;
    c->cache = (struct cache){.layers = h->layers,
                              .sequences = h->sequences,
                              .block = h->block,
                              .blocks = h->blocks,
                              .blocks_max = h->blocks_max,
                              .width = h->width};
    int64_t entries = h->sequences * h->blocks_max;
    c->cache.table = arena_alloc(&c->arena, entries, sizeof *table, "cache table", err);
    c->cache.length = arena_alloc(&c->arena, h->sequences, sizeof *c->cache.length, "lengths", err);
    if (err->code != ERR_OK) return err->code;
    memcpy(c->cache.table, table, (size_t)entries * sizeof *table);
    return s->engine.kind->cache_open(s->engine.self, &c->cache, &c->arena, err);
}

static enum err_code read_cache(struct rank_state *s, struct rank_request *q, struct unpack *u,
                                struct err *err)
{
    const struct ranks_head *h = &q->head;
    const int64_t *drop = unpack_take(u, h->drops * (int64_t)sizeof *drop);
    const int32_t *table = unpack_take(u, h->sequences * h->blocks_max * (int64_t)sizeof(int32_t));
    const int64_t *length = unpack_take(u, h->sequences * (int64_t)sizeof *length);
    const int64_t *move = unpack_take(u, h->moves * RANKS_MOVE * (int64_t)sizeof *move);
    if (u->failed) return err_set(err, ERR_PROCESS, "a step's request|its cache|cut|a whole one");
    for (int64_t i = 0; i < h->drops; i++) {
        struct rank_cache **old = find_cache(s, drop[i]);
        if (*old) drop_cache(s, old);
    }
    struct rank_cache **at = find_cache(s, h->cache);
    if (!*at && make_cache(s, h, table, at, err) != ERR_OK) {
        drop_cache(s, at);
        return err->code;
    }
    q->cache = *at;
    memcpy(q->cache->cache.length, length, (size_t)h->sequences * sizeof *length);
    for (int64_t i = 0; i < h->moves && err->code == ERR_OK; i++, move += RANKS_MOVE)
        (void)!engine_cache_move(&s->engine, &q->cache->cache, move[0], move[1], move[2], err);
    return err->code;
}

static enum err_code read_rows(struct rank_request *q, struct unpack *u, struct err *err)
{
    const struct ranks_head *h = &q->head;
    int64_t n = h->rows * (int64_t)sizeof(int64_t);
    q->rows = (struct rows){.count = h->rows, .extra_max = h->extra_max};
    q->rows.sequence = unpack_take(u, h->rows * (int64_t)sizeof(int32_t));
    q->rows.position = unpack_take(u, n);
    q->rows.token = unpack_take(u, n);
    q->rows.dump_row = unpack_take(u, n);
    if (h->has_slot) q->rows.slot = unpack_take(u, n);
    if (h->has_span) q->rows.span = unpack_take(u, n);
    if (h->has_extra) q->rows.extra = unpack_take(u, n * h->extra_max);
    if (u->failed) return err_set(err, ERR_PROCESS, "a step's request|its rows|cut|a whole one");
    return profile_find(h->profile, &q->profile, err);
}

enum err_code rank_request_read(struct worker *w, struct rank_request *q, struct err *err)
{
    struct rank_state *s = w->state;
    *q = (struct rank_request){0};
    if (!s || !s->engine.kind)
        return err_set(err, ERR_USAGE, "a step|rank %d|no model|shard.open before", w->rank);
    pack_begin(&s->request);
    pack_add(&s->request, w->data, w->bytes);
    if (s->request.failed)
        return err_set(err, ERR_MEMORY, "a step's request|rank %d|no memory|%lld bytes", w->rank,
                       (long long)w->bytes);
    q->rest = (struct unpack){.data = s->request.data, .bytes = s->request.bytes};
    const void *head = unpack_take(&q->rest, sizeof q->head);
    if (!head) return err_set(err, ERR_PROCESS, "a step's request|its head|cut|a whole one");
    memcpy(&q->head, head, sizeof q->head);
    if (read_cache(s, q, &q->rest, err) != ERR_OK) return err->code;
    return read_rows(q, &q->rest, err);
}

struct run rank_run(struct worker *w, const struct rank_request *q)
{
    struct rank_state *s = w->state;
    *s->kernels = (struct kernel_log){0};
    return (struct run){.arena = &s->arena,
                        .profile = q->profile,
                        .precision = q->head.precision,
                        .linear = q->head.linear,
                        .act = q->head.act,
                        .threads = q->head.threads,
                        .kernels = q->head.kernels ? s->kernels : NULL};
}

enum err_code rank_reply(struct worker *w, struct err *err)
{
    struct rank_state *s = w->state;
    int64_t now = memory_anonymous(), peak = s->base_bytes + (int64_t)s->arena.bytes_peak;
    const struct ranks_reply r = {.peak_bytes = now > peak ? now : peak,
                                  .kernels = s->kernels->rows,
                                  .lost = s->kernels->lost,
                                  .edits = s->fault.edits};
    pack_begin(&s->request);
    pack_add(&s->request, &r, sizeof r);
    for (int i = 0; i < s->kernels->rows; i++)
        pack_add(&s->request, &s->kernels->row[i], sizeof s->kernels->row[i]);
    pack_text(&s->request, engine_device(&s->engine));
    if (s->request.failed) return err_set(err, ERR_MEMORY, "reply|rank %d|no memory|some", w->rank);
    return worker_reply(w, s->request.data, s->request.bytes, err);
}
