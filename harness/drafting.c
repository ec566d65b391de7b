/* drafting.c: see drafting.h. Step 0 of row p is cached at slot p; step s >= 1 at its step's base
 * + p, and sees the slots of the true rows j <= p and those of its own chain. */
#include "harness/drafting.h"

#include "core/fault.h"
#include "core/logits.h"

#include <string.h>

enum { CACHE_BLOCK = 64 };

/* Buffers of one sequence, for its rows of one step. */
struct chain {
    const struct drafting *d;
    struct engine engine;
    const struct head_config *c;
    int64_t rows;
    struct cache cache;
    int64_t *base; /* [steps]: slot of row 0 */
    int32_t *sequence, *chosen;
    int64_t *position, *token, *row, *slot, *span, *extra;
    double *fused, *out, *feed, *logits, *margin;
};

static enum err_code make_chain(struct chain *k, struct err *err)
{
    struct arena *a = k->d->run.arena;
    int64_t n = k->rows, H = k->c->base.hidden, total = n * k->d->steps;
    const struct {
        void *at;
        int64_t count;
        size_t size;
    } buffers[] = {
        {&k->base, k->d->steps, sizeof *k->base},
        {&k->sequence, n, sizeof *k->sequence},
        {&k->chosen, n, sizeof *k->chosen},
        {&k->position, n, sizeof *k->position},
        {&k->token, n, sizeof *k->token},
        {&k->row, n, sizeof *k->row},
        {&k->slot, n, sizeof *k->slot},
        {&k->span, n, sizeof *k->span},
        {&k->extra, total, sizeof *k->extra},
        {&k->fused, n * H, sizeof *k->fused},
        {&k->out, n * H, sizeof *k->out},
        {&k->feed, n * H, sizeof *k->feed},
        {&k->logits, n * k->c->draft_vocab, sizeof *k->logits},
        {&k->margin, n, sizeof *k->margin},
    };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        void *p = arena_alloc(a, buffers[i].count, buffers[i].size, "draft rows", err);
        if (!p) return err->code;
        memcpy(buffers[i].at, &p, sizeof p);
    }
    const struct cache_sizes sizes = {.layers = k->c->base.layers,
                                      .sequences = 1,
                                      .lengths_max = &total,
                                      .block = total < CACHE_BLOCK ? total : CACHE_BLOCK,
                                      .width = head_cache_width(k->c),
                                      .seed = 1};
    return engine_cache_open(&k->engine, &k->cache, a, &sizes, err);
}

/* The rows of step s; returns how many. */
static int64_t fill_rows(struct chain *k, int64_t s, const int64_t *token)
{
    const int64_t *teacher = k->d->teacher;
    int64_t n = teacher ? k->rows - s : k->rows;
    for (int64_t p = 0; p < n; p++) {
        k->sequence[p] = 0;
        k->row[p] = k->d->first_row + p;
        k->position[p] = p + s;
        k->slot[p] = k->base[s] + p;
        k->span[p] = p + 1;
        /* A row without a choice has NaN for a state: what it is fed changes nothing. */
        int64_t own = k->chosen[p] >= 0 ? k->chosen[p] : 0;
        k->token[p] = s == 0 ? token[p + 1] : teacher ? teacher[p + 1 + s] : own;
        for (int64_t i = 1; i <= s; i++) k->extra[p * s + i - 1] = k->base[i] + p;
    }
    return n;
}

static int64_t target_id(const struct chain *k, int64_t s, int64_t id)
{
    const struct draft_step at = {.head = k->d->head, .number = s};
    struct faults *faults = k->d->run.faults;
    return faults ? fault_target_id(faults, &at, id) : at.head->target_id[id];
}

static void choose(struct chain *k, int64_t s, int64_t n)
{
    int64_t V = k->c->draft_vocab;
    for (int64_t p = 0; p < n; p++) {
        int64_t id = logits_argmax(k->logits + p * V, V, &k->margin[p]);
        k->chosen[p] = id < 0 ? -1 : (int32_t)target_id(k, s, id);
    }
}

static enum err_code run_step(struct chain *k, int64_t s, int64_t n, const double *aux,
                              const int64_t *token, struct err *err)
{
    const struct drafting *d = k->d;
    const struct drafting_hold *hold = d->hold;
    const struct rows rows = {.count = n,
                              .sequence = k->sequence,
                              .position = k->position,
                              .token = k->token,
                              .dump_row = k->row,
                              .slot = k->slot,
                              .span = k->span,
                              .extra = s > 0 ? k->extra : NULL,
                              .extra_max = s};
    const struct draft_step step = {.head = d->head,
                                    .cache = &k->cache,
                                    .rows = &rows,
                                    .aux = s == 0 ? aux : NULL,
                                    .hidden = k->feed,
                                    .number = s,
                                    .own_token = s == 0 ? token : NULL,
                                    .aux_near = {d->aux_near[0], d->aux_near[1]},
                                    .replace = hold ? hold->states : NULL,
                                    .replace_ctx = hold ? hold->ctx : NULL,
                                    .fused = s == 0 ? k->fused : NULL,
                                    .out = k->out,
                                    .feed = k->feed,
                                    .logits = k->logits};
    struct run run = d->run;
    return engine_draft(&k->engine, &step, &run, err);
}

static enum err_code run_chain(struct chain *k, int64_t sequence, const double *aux,
                               const int64_t *token, struct err *err)
{
    int64_t cached = 0;
    for (int64_t s = 0; s < k->d->steps; s++) {
        k->base[s] = cached;
        int64_t n = fill_rows(k, s, token);
        if (n <= 0) return ERR_OK;
        cached += n;
        if (run_step(k, s, n, aux, token, err) != ERR_OK)
            return err_note(err, "draft step %lld", (long long)s);
        choose(k, s, n);
        const struct drafting_out out = {.sequence = sequence,
                                         .rows = n,
                                         .step = s,
                                         .fused = s == 0 ? k->fused : NULL,
                                         .hidden = k->out,
                                         .logits = k->logits,
                                         .token = k->chosen,
                                         .margin = k->margin};
        if (k->d->give(k->d->ctx, &out, err) != ERR_OK) return err->code;
        const struct drafting_hold *hold = k->d->hold;
        if (hold) hold->tokens(hold->ctx, s, k->d->first_row, n, k->chosen);
    }
    return ERR_OK;
}

enum err_code drafting_run(const struct drafting *d, int64_t sequence, int64_t rows,
                           const double *aux, const int64_t *token, struct err *err)
{
    struct chain k = {.d = d, .c = &d->head->config, .rows = rows};
    k.engine = d->engine ? *d->engine : (struct engine){ref_engine(), NULL};
    if (rows < 1 || d->steps < 1) return ERR_OK;
    struct arena_block *mark = arena_mark(d->run.arena);
    if (make_chain(&k, err) == ERR_OK) (void)!run_chain(&k, sequence, aux, token, err);
    engine_cache_close(&k.engine, &k.cache);
    arena_release(d->run.arena, mark);
    return err->code;
}
