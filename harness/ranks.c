/* ranks.c: see ranks.h. */
#include "harness/ranks.h"

#include "core/check.h"
#include "harness/ranks_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank that works shows it at every op; however long a step takes is no sign of anything. A week
 * is the deadline that no call is without. */
#define STEP_S (7 * 86400.0)
#define TIMEOUT_S 600.0
#define LAUNCH_S 60.0

enum { FAILURES_MOST = 1000 /* kept for the result */ };

/* A launcher's processes start together: what has not come in a minute does not come. */
static double launch_wait(const struct ranks_options *o)
{
    return o->timeout_s > 0 && o->timeout_s < LAUNCH_S ? o->timeout_s : LAUNCH_S;
}

/* Whose ranks they are, and that there are as many as the cut has. */
static enum err_code read_launch(const struct args *a, struct ranks_options *o, struct err *err)
{
    static const char *const who[] = {"own", "launcher", NULL};
    int choice, world = shard_world(&o->plan);
    struct launch l;
    if (args_choice(a, "--ranks", who, 2, &choice, err) != ERR_OK) return err->code;
    if (choice == 0 || (choice == 2 && !o->on)) return ERR_OK;
    if (launch_read(&l, err) != ERR_OK) return err->code;
    if (choice == 1 && !l.by)
        return err_set(err, ERR_USAGE,
                       "option|--ranks launcher|no launcher's variables|a start by "
                       "mpirun, srun or torchrun");
    if (choice == 1 && !o->on)
        return err_set(err, ERR_USAGE,
                       "option|--ranks launcher|no --tp, no --ep|how %d ranks share "
                       "the model",
                       l.world);
    if (!l.by || (choice == 2 && l.world == 1)) return ERR_OK;
    if (launch_check_hosts(&l, err) != ERR_OK) return err->code;
    if (l.world != world)
        return err_set(err, ERR_USAGE, "launcher|%s|%d ranks|%d for --tp %d --ep %d", l.by, l.world,
                       world, o->plan.tp, o->plan.ep);
    o->launch = l;
    return ERR_OK;
}

enum err_code ranks_options_read(const struct args *a, enum precision precision,
                                 struct ranks_options *o, struct err *err)
{
    *o = (struct ranks_options){.on = args_has(a, "--tp") || args_has(a, "--ep")};
    if (shard_options_read(a, precision, &o->plan, err) != ERR_OK ||
        args_double(a, "--rank-timeout", 0.1, STEP_S, TIMEOUT_S, &o->timeout_s, err) != ERR_OK)
        return err->code;
    const char *fault = getenv("ASSAY_RANK_FAULT");
    if (fault && fault[0]) o->fault = fault;
    return read_launch(a, o, err);
}

bool ranks_follow(const struct args *a, int *status)
{
    struct ranks_options o;
    struct err none = ERR_INIT;
    /* What is wrong with the options rank 0 says. */
    if (ranks_options_read(a, PRECISION_F32, &o, &none) != ERR_OK) return false;
    if (!o.on || !o.launch.by || o.launch.rank == 0) return false;
    *status = worker_launched(&o.launch, launch_wait(&o), worker_tasks);
    return true;
}

/* ---- failures ---- */

static void keep_failures(struct ranks *r)
{
    json_t *now = workers_failures_json(r->workers), *one;
    size_t i;
    json_array_foreach(now, i, one)
    {
        if (json_array_size(r->failures) < FAILURES_MOST) json_array_append(r->failures, one);
    }
    json_decref(now);
    if (!r->o.quiet) workers_failures_print(r->workers, stderr);
}

/* ---- calls ---- */

void ranks_pack_head(struct ranks *r, const struct cache *c, const struct rows *rows,
                     const struct run *run)
{
    const struct ranks_cache *own = c->own;
    int threads = run->threads / shard_world(&r->o.plan);
    struct ranks_head h = {.cache = own->number,
                           .layers = c->layers,
                           .sequences = c->sequences,
                           .block = c->block,
                           .blocks = c->blocks,
                           .blocks_max = c->blocks_max,
                           .width = c->width,
                           .drops = r->drops,
                           .moves = own->moves,
                           .rows = rows->count,
                           .extra_max = rows->extra ? rows->extra_max : 0,
                           .has_slot = rows->slot != NULL,
                           .has_span = rows->span != NULL,
                           .has_extra = rows->extra != NULL,
                           .progress = run->progress != NULL,
                           .kernels = run->kernels != NULL,
                           .precision = run->precision,
                           .linear = run->linear,
                           .act = run->act,
                           .threads = threads < 1 ? 1 : threads};
    int64_t n = rows->count * (int64_t)sizeof(int64_t);
    snprintf(h.profile, sizeof h.profile, "%s", run->profile.name);
    pack_begin(&r->pack);
    pack_add(&r->pack, &h, sizeof h);
    pack_add(&r->pack, r->drop, h.drops * (int64_t)sizeof *r->drop);
    pack_add(&r->pack, c->table, c->sequences * c->blocks_max * (int64_t)sizeof *c->table);
    pack_add(&r->pack, c->length, c->sequences * (int64_t)sizeof *c->length);
    pack_add(&r->pack, own->move, h.moves * RANKS_MOVE * (int64_t)sizeof *own->move);
    pack_add(&r->pack, rows->sequence, rows->count * (int64_t)sizeof *rows->sequence);
    pack_add(&r->pack, rows->position, n);
    pack_add(&r->pack, rows->token, n);
    pack_add(&r->pack, rows->dump_row, n);
    if (h.has_slot) pack_add(&r->pack, rows->slot, n);
    if (h.has_span) pack_add(&r->pack, rows->span, n);
    if (h.has_extra) pack_add(&r->pack, rows->extra, n * rows->extra_max);
}

/* Rank 0's kernels stand for those of all: every rank runs the same ops. */
static void take_kernels(struct unpack *u, const struct ranks_reply *head, struct kernel_log *log)
{
    for (int64_t i = 0; i < head->kernels; i++) {
        struct kernel_row row;
        if (!unpack_copy(u, &row, sizeof row)) return;
        for (int64_t k = 0; k < row.calls; k++) kernel_log_add(log, &row);
    }
    log->lost += head->lost;
}

static void take_replies(struct ranks *r, int count, struct run *run)
{
    int64_t bytes = 0, edits = 0;
    for (int i = 0; i < count; i++) {
        const struct worker_reply *reply = &r->replies.of[i];
        struct unpack u = {.data = reply->data, .bytes = reply->bytes};
        struct ranks_reply head;
        if (!unpack_copy(&u, &head, sizeof head)) continue;
        bytes += head.peak_bytes;
        edits += head.edits;
        if (i == 0 && run && run->kernels) take_kernels(&u, &head, run->kernels);
    }
    if (bytes > r->peak_bytes) r->peak_bytes = bytes;
    if (edits > r->edits) r->edits = edits;
}

enum err_code ranks_call(struct ranks *r, bool all, struct worker_request *q, struct cache *c,
                         struct run *run, struct err *err)
{
    struct worker_reply one;
    if (r->pack.failed)
        return err_set(err, ERR_MEMORY, "call the ranks|%s|no memory|its request", q->task);
    q->data = r->pack.data;
    q->bytes = r->pack.bytes;
    q->batch = r->batch;
    q->samples = r->samples;
    (void)!(all ? workers_call_all(r->workers, q, &r->replies, err)
                : workers_call_one(r->workers, 0, q, &one, err));
    if (err->code != ERR_OK) {
        keep_failures(r);
        return err->code;
    }
    if (!all) r->replies.of[0] = one;
    take_replies(r, all ? r->replies.count : 1, run);
    if (all) r->drops = 0;
    if (c) ((struct ranks_cache *)c->own)->moves = 0;
    return ERR_OK;
}

/* ---- caches: the ranks make them at the first step that uses them ---- */

static enum err_code no_memory(struct err *err)
{
    return err_set(err, ERR_MEMORY, "cache over ranks||no memory|some bytes");
}

static enum err_code open_cache(void *self, struct cache *c, struct arena *arena, struct err *err)
{
    struct ranks *r = self;
    struct ranks_cache *own = calloc(1, sizeof *own);
    (void)arena;
    if (!own) return no_memory(err);
    own->number = r->caches++;
    c->own = own;
    return ERR_OK;
}

static bool grow(int64_t **list, int64_t *room, int64_t count)
{
    if (count <= *room) return true;
    int64_t *more = realloc(*list, (size_t)(2 * count) * sizeof *more);
    if (!more) return false;
    *list = more;
    *room = 2 * count;
    return true;
}

static void close_cache(void *self, struct cache *c)
{
    struct ranks *r = self;
    struct ranks_cache *own = c->own;
    if (!own) return;
    /* Without memory for its number the ranks keep it to their end: no more than that is lost. */
    if (grow(&r->drop, &r->drop_room, r->drops + 1)) r->drop[r->drops++] = own->number;
    free(own->move);
    free(own);
    c->own = NULL;
}

static enum err_code move(void *self, struct cache *c, int64_t sequence, int64_t from, int64_t to,
                          struct err *err)
{
    struct ranks_cache *own = c->own;
    const int64_t one[RANKS_MOVE] = {sequence, from, to};
    (void)self;
    if (!grow(&own->move, &own->room, (own->moves + 1) * RANKS_MOVE)) return no_memory(err);
    memcpy(own->move + own->moves++ * RANKS_MOVE, one, sizeof one);
    return ERR_OK;
}

/* ---- opening ---- */

static void close_ranks(void *self)
{
    struct ranks *r = self;
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    if (r->workers && workers_finish(r->workers, &err) != ERR_OK && !r->o.quiet)
        fprintf(stderr, "assay: warning: %s\n", err_line(&err, line, sizeof line));
    workers_close(r->workers);
    segment_free(&r->inputs);
    free(r->pack.data);
    free(r->drop);
    free(r->wanted);
    free(r->taps);
    free(r->device);
    json_decref(r->failures);
    free(r);
}

static const char *device(void *self)
{
    const struct ranks *r = self;
    return r->device ? r->device : "";
}

static enum err_code start(struct ranks *r, struct err *err)
{
    double timeout = r->o.timeout_s > 0 ? r->o.timeout_s : TIMEOUT_S;
    const struct workers_options o = {.world = shard_world(&r->o.plan),
                                      .start_s = timeout < 30 ? 30 : timeout,
                                      .call_s = STEP_S,
                                      .stall_s = timeout,
                                      .collective_s = timeout,
                                      .fault = r->o.fault,
                                      .launch = r->o.launch.by ? &r->o.launch : NULL,
                                      .launch_s = launch_wait(&r->o),
                                      .quiet = r->o.quiet};
    return workers_open(&r->workers, &o, err);
}

static enum err_code open_shards(struct ranks *r, bool gpu, struct err *err)
{
    struct ranks_open_head h = {.plan = r->o.plan, .gpu = gpu, .piece = r->o.piece};
    if (h.piece <= 0) h.piece = RANKS_PIECE;
    struct worker_request q = {.task = "shard.open"};
    pack_begin(&r->pack);
    pack_add(&r->pack, &h, sizeof h);
    pack_text(&r->pack, r->model->weights->path);
    pack_text(&r->pack, r->o.shard_fault);
    if (ranks_call(r, true, &q, NULL, NULL, err) != ERR_OK || !gpu) return err->code;
    struct unpack u = {.data = r->replies.of[0].data, .bytes = r->replies.of[0].bytes};
    struct ranks_reply head = {0};
    (void)unpack_copy(&u, &head, sizeof head);
    for (int64_t i = 0; i < head.kernels; i++) (void)unpack_take(&u, sizeof(struct kernel_row));
    const char *name = unpack_text(&u);
    r->device = strdup(name ? name : "");
    return r->device ? ERR_OK : no_memory(err);
}

static void set_kind(struct ranks *r, const struct engine_kind *kind)
{
    r->kind = *kind;
    r->kind.rows_alone = kind->rows_alone && r->o.plan.redundant == 0;
    r->kind.close = close_ranks;
    r->kind.device = kind->device ? device : NULL;
    r->kind.cache_open = open_cache;
    r->kind.cache_close = close_cache;
    r->kind.cache_move = move;
    r->kind.step = ranks_step;
    r->kind.draft = ranks_draft;
}

enum err_code ranks_engine_open(struct engine *e, const struct engine_kind *kind,
                                const struct model *model, const struct ranks_options *o,
                                struct err *err)
{
    *e = (struct engine){0};
    if (engine_usable(kind, err) != ERR_OK ||
        shard_plan_check(&o->plan, model->config, err) != ERR_OK)
        return err->code;
    struct ranks *r = calloc(1, sizeof *r);
    if (!r) return no_memory(err);
    r->o = *o;
    r->model = model;
    r->batch = -1;
    r->inputs = (struct segment)SEGMENT_INIT;
    r->failures = json_array();
    set_kind(r, kind);
    if (tap_list(model->config, 0, model->config->layers, &r->taps, &r->tap_count, err) == ERR_OK) {
        r->wanted = calloc((size_t)r->tap_count + 1, 1);
        if (!r->wanted || !r->failures) (void)!no_memory(err);
    }
    if (err->code == ERR_OK && start(r, err) == ERR_OK)
        (void)!open_shards(r, kind->device != NULL, err);
    *e = (struct engine){&r->kind, r};
    return err->code;
}

/* ---- for those who know that there are ranks ---- */

bool ranks_is(const struct engine *e)
{
    return e->kind && e->kind->step == ranks_step;
}

void ranks_label(const struct engine *e, int64_t batch, const char *samples)
{
    if (!ranks_is(e)) return;
    struct ranks *r = e->self;
    r->batch = batch;
    snprintf(r->samples, sizeof r->samples, "%s", samples);
}

bool ranks_usable(const struct engine *e)
{
    return !ranks_is(e) || workers_usable(((const struct ranks *)e->self)->workers);
}

int64_t ranks_peak_bytes(const struct engine *e)
{
    return ranks_is(e) ? ((const struct ranks *)e->self)->peak_bytes : 0;
}

int64_t ranks_edits(const struct engine *e)
{
    return ranks_is(e) ? ((const struct ranks *)e->self)->edits : 0;
}

json_t *ranks_json(const struct engine *e)
{
    if (!ranks_is(e)) return NULL;
    const struct ranks *r = e->self;
    const struct shard_plan *p = &r->o.plan;
    return json_pack("{s:i, s:i, s:s, s:I, s:s, s:O}", "tp", p->tp, "ep", p->ep, "expert_map",
                     expert_map_name(p->map), "redundant", (json_int_t)p->redundant, "reduce",
                     dtype_name(p->reduce), "ranks", r->failures);
}
