/* speculate_draft.c: the draft's rows: true ones, which extend its cache, and provisional ones
 * behind them; see speculate.h. */
#include "core/fault.h"
#include "harness/speculate_parts.h"

#include <math.h>
#include <string.h>

int64_t draft_width(const struct speculate_options *o)
{
    return o->tree ? o->top_k : 1;
}

int64_t draft_pool_size(const struct speculate_options *o)
{
    return o->tree ? o->top_k + o->depth * o->top_k * o->top_k : o->drafts;
}

static int64_t fed_size(const struct speculate_options *o)
{
    return o->tree ? o->depth * o->top_k : o->drafts;
}

static enum err_code open_pool(struct speculate *s, struct err *err)
{
    struct arena *a = &s->arena;
    const struct head_config *c = &s->head->config;
    struct pool *pool = s->pool = arena_alloc(a, 1, sizeof *pool, "draft nodes", err);
    if (!pool) return err->code;
    *pool =
        (struct pool){.count_max = draft_pool_size(&s->options), .fed_max = fed_size(&s->options)};
    int64_t **const lists[] = {&pool->token, &pool->parent,   &pool->level,
                               &pool->place, &pool->frontier, &pool->chosen};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        *lists[i] = arena_alloc(a, pool->count_max, sizeof **lists[i], "draft nodes", err);
    pool->score = arena_alloc(a, pool->count_max, sizeof *pool->score, "draft nodes", err);
    pool->feed = arena_alloc(a, pool->fed_max * c->base.hidden, sizeof(double), "draft nodes", err);
    pool->logits = arena_alloc(a, draft_width(&s->options) * c->draft_vocab, sizeof(double),
                               "draft logits", err);
    pool->law = arena_alloc(a, c->draft_vocab, sizeof(double), "a draft law", err);
    return err->code;
}

enum err_code draft_open(struct speculate *s, struct err *err)
{
    const struct head_config *c = &s->head->config;
    int64_t room = s->capacity + fed_size(&s->options), block = s->session->cache.block;
    s->run = s->session->run;
    s->run.progress = NULL;
    s->run.arena = &s->arena;
    s->feed = arena_alloc(&s->arena, c->base.hidden, sizeof *s->feed, "draft state", err);
    s->logits = arena_alloc(&s->arena, c->draft_vocab, sizeof *s->logits, "draft logits", err);
    if (err->code != ERR_OK || open_pool(s, err) != ERR_OK) return err->code;
    const struct cache_sizes sizes = {.layers = c->base.layers,
                                      .sequences = 1,
                                      .lengths_max = &room,
                                      .block = block < room ? block : room,
                                      .width = head_cache_width(c),
                                      .seed = 2};
    return engine_cache_open(engine_of(s), &s->draft, &s->arena, &sizes, err);
}

/* ---- true rows ---- */

/* `count` rows from the cached length on in one step; feed and logits [count, ...] or NULL. */
static enum err_code true_rows(struct speculate *s, int64_t count, const double *aux, double *feed,
                               double *logits, struct err *err)
{
    int64_t first = s->draft.length[0];
    struct arena_block *mark = arena_mark(&s->arena);
    int32_t *sequence = arena_alloc(&s->arena, count, sizeof *sequence, "draft rows", err);
    int64_t *position = arena_alloc(&s->arena, count, sizeof *position, "draft rows", err);
    if (sequence && position) {
        for (int64_t i = 0; i < count; i++) {
            sequence[i] = 0;
            position[i] = first + i;
        }
        const struct rows rows = {.count = count,
                                  .sequence = sequence,
                                  .position = position,
                                  .token = s->text + first + 1,
                                  .dump_row = position};
        const struct draft_step step = {.head = s->head,
                                        .cache = &s->draft,
                                        .rows = &rows,
                                        .aux = aux,
                                        .own_token = s->text + first,
                                        .feed = feed,
                                        .logits = logits};
        (void)!engine_draft(engine_of(s), &step, &s->run, err);
    }
    arena_release(&s->arena, mark);
    return err->code;
}

/* The last rows, of which the very last says what comes next. */
static enum err_code last_rows(struct speculate *s, int64_t count, const double *aux,
                               struct err *err)
{
    const struct head_config *c = &s->head->config;
    int64_t H = c->base.hidden, V = c->draft_vocab;
    struct arena_block *mark = arena_mark(&s->arena);
    double *feed = arena_alloc(&s->arena, count * H, sizeof *feed, "draft states", err);
    double *logits = arena_alloc(&s->arena, count * V, sizeof *logits, "draft logits", err);
    if (feed && logits && true_rows(s, count, aux, feed, logits, err) == ERR_OK) {
        memcpy(s->feed, feed + (count - 1) * H, (size_t)H * sizeof *feed);
        memcpy(s->logits, logits + (count - 1) * V, (size_t)V * sizeof *logits);
    }
    arena_release(&s->arena, mark);
    return err->code;
}

enum err_code draft_extend(struct speculate *s, int64_t count, const double *aux, int64_t chunk,
                           struct err *err)
{
    int64_t width = s->states.count * s->states.hidden, done = 0;
    /* Logits only for a few rows: those of a whole prompt may be gigabytes. */
    while (count - done > s->nodes_max) {
        int64_t n = count - done - 1;
        if (chunk > 0 && n > chunk) n = chunk;
        if (true_rows(s, n, aux + done * width, NULL, NULL, err) != ERR_OK) return err->code;
        done += n;
    }
    return last_rows(s, count - done, aux + done * width, err);
}

/* ---- provisional rows ---- */

int64_t draft_add(struct pool *pool, int64_t parent, int64_t token, double score)
{
    int64_t i = pool->count++;
    pool->token[i] = token;
    pool->parent[i] = parent;
    pool->level[i] = parent < 0 ? 0 : pool->level[parent] + 1;
    pool->score[i] = score;
    pool->place[i] = -1;
    return i;
}

int64_t draft_target_id(const struct speculate *s, int64_t level, int64_t id)
{
    const struct draft_step at = {.head = s->head, .number = level};
    return s->run.faults ? fault_target_id(s->run.faults, &at, id) : s->head->target_id[id];
}

enum err_code draft_nan(const struct speculate *s, int64_t level, struct err *err)
{
    return err_set(err, ERR_DIFF, "generate|draft of token %lld|logits with NaN|numbers",
                   (long long)(s->length - s->prompt + level));
}

/* Rows of nodes that are fed: extra [count][levels]. */
struct fed_rows {
    int32_t *sequence;
    int64_t *position, *token, *row, *slot, *span, *extra;
    double *hidden;
};

static enum err_code make_fed(struct fed_rows *r, struct speculate *s, int64_t count,
                              int64_t levels, struct err *err)
{
    struct arena *a = &s->arena;
    int64_t **const lists[] = {&r->position, &r->token, &r->row, &r->slot, &r->span, &r->extra};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int64_t n = lists[i] == &r->extra ? count * levels : count;
        *lists[i] = arena_alloc(a, n, sizeof **lists[i], "draft rows", err);
    }
    r->sequence = arena_alloc(a, count, sizeof *r->sequence, "draft rows", err);
    r->hidden =
        arena_alloc(a, count * s->head->config.base.hidden, sizeof *r->hidden, "draft states", err);
    return err->code;
}

/* The row of node `node`, the i-th of its step; all of a step are of one level. */
static void fill_fed(struct fed_rows *r, struct speculate *s, int64_t i, int64_t node,
                     int64_t levels)
{
    struct pool *pool = s->pool;
    int64_t true_rows_count = s->length - 1, H = s->head->config.base.hidden;
    int64_t parent = pool->parent[node], at = levels;
    const double *state = parent < 0 ? s->feed : pool->feed + pool->place[parent] * H;
    pool->place[node] = pool->fed++;
    memcpy(r->hidden + i * H, state, (size_t)H * sizeof *state);
    r->sequence[i] = 0;
    r->row[i] = i;
    r->token[i] = pool->token[node];
    r->position[i] = true_rows_count + pool->level[node];
    r->slot[i] = true_rows_count + pool->place[node];
    r->span[i] = true_rows_count;
    for (int64_t k = node; k >= 0; k = pool->parent[k])
        r->extra[i * levels + --at] = true_rows_count + pool->place[k];
}

enum err_code draft_feed(struct speculate *s, const int64_t *which, int64_t count, struct err *err)
{
    struct pool *pool = s->pool;
    struct arena_block *mark = arena_mark(&s->arena);
    int64_t levels = pool->level[which[0]] + 1, first = pool->fed;
    struct fed_rows r;
    if (make_fed(&r, s, count, levels, err) == ERR_OK) {
        for (int64_t i = 0; i < count; i++) fill_fed(&r, s, i, which[i], levels);
        const struct rows rows = {.count = count,
                                  .sequence = r.sequence,
                                  .position = r.position,
                                  .token = r.token,
                                  .dump_row = r.row,
                                  .slot = r.slot,
                                  .span = r.span,
                                  .extra = r.extra,
                                  .extra_max = levels};
        const struct draft_step step = {.head = s->head,
                                        .cache = &s->draft,
                                        .rows = &rows,
                                        .hidden = r.hidden,
                                        .number = levels,
                                        .feed = pool->feed + first * s->head->config.base.hidden,
                                        .logits = pool->logits};
        (void)!engine_draft(engine_of(s), &step, &s->run, err);
    }
    arena_release(&s->arena, mark);
    return err->code;
}
