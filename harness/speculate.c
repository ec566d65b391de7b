/* speculate.c: rounds of draft, verify, accept; see speculate.h. */
#include "harness/speculate.h"

#include "core/fault.h"
#include "core/logits.h"
#include "core/ops.h"
#include "harness/chance.h"
#include "harness/speculate_parts.h"

#include <math.h>
#include <string.h>

bool speculate_near_tie(const struct session *session, const double *row, double gap)
{
    const struct config *c = session->loaded->model.config;
    double largest = 0;
    for (int64_t i = 0; i < c->vocab; i++) largest = fmax(largest, fabs(row[i]));
    const bool *rounds = session->options.profile.rounds;
    bool rounded = rounds[RP_LOGITS] || rounds[RP_NORM];
    return gap <= 4 * dtype_unit(rounded ? c->dtype : DT_F32) * largest;
}

/* ---- opening ---- */

static enum err_code check_options(const struct head *head, const struct speculate_options *o,
                                   struct err *err)
{
    enum { MOST = 4096 };
    if (!(o->temperature >= 0) || !isfinite(o->temperature))
        return err_set(err, ERR_INPUT, "speculate|temperature|%g|0 or more", o->temperature);
    if (!head) return ERR_OK;
    if (o->drafts < 1 || o->drafts > MOST)
        return err_set(err, ERR_INPUT, "speculate|drafts of a round|%lld|1 to %d",
                       (long long)o->drafts, MOST);
    if (!o->tree) return ERR_OK;
    if (o->depth < 0 || o->depth > 64 || o->top_k < 1 || o->top_k > 256)
        return err_set(err, ERR_INPUT,
                       "speculate|tree|depth %lld, top-k %lld|0 to 64, and 1 to 256",
                       (long long)o->depth, (long long)o->top_k);
    if (o->top_k > head->config.draft_vocab)
        return err_set(err, ERR_INPUT, "speculate|tree|top-k %lld|at most the %lld tokens of %s",
                       (long long)o->top_k, (long long)head->config.draft_vocab,
                       head->weights.path);
    return ERR_OK;
}

static enum err_code open_states(struct speculate *s, struct err *err)
{
    const struct head_config *c = &s->head->config;
    s->states =
        (struct states){.count = c->aux_count, .rows = s->nodes_max, .hidden = c->target_hidden};
    memcpy(s->states.id, c->aux, (size_t)c->aux_count * sizeof *c->aux);
    s->states.data = arena_alloc(&s->arena, s->nodes_max * c->aux_count * c->target_hidden,
                                 sizeof(double), "aux states of a round", err);
    return err->code;
}

static enum err_code open_round(struct speculate *s, struct err *err)
{
    struct arena *a = &s->arena;
    struct draft_tree *t = &s->tree;
    int64_t n = s->nodes_max, V = s->vocab;
    bool samples = s->options.temperature > 0;
    t->parent = arena_alloc(a, n, sizeof *t->parent, "nodes of a round", err);
    t->token = arena_alloc(a, n, sizeof *t->token, "nodes of a round", err);
    t->depth = arena_alloc(a, n, sizeof *t->depth, "nodes of a round", err);
    s->path = arena_alloc(a, n, sizeof *s->path, "nodes of a round", err);
    s->coin = arena_alloc(a, n, sizeof *s->coin, "nodes of a round", err);
    s->draw = arena_alloc(a, n, sizeof *s->draw, "nodes of a round", err);
    s->target = arena_alloc(a, n * V, sizeof *s->target, "logits of a round", err);
    if (samples && s->head && !s->options.tree) {
        t->q = arena_alloc(a, n * V, sizeof *t->q, "draft laws of a round", err);
        if (t->q) memset(t->q, 0, (size_t)(n * V) * sizeof *t->q);
    }
    s->text = arena_alloc(a, s->capacity + 1, sizeof *s->text, "tokens", err);
    s->generated = arena_alloc(a, s->capacity + 1, sizeof *s->generated, "tokens", err);
    return err->code;
}

enum err_code speculate_open(struct speculate *s, struct session *session, const struct head *head,
                             const struct speculate_options *o, struct err *err)
{
    const struct cache *cache = &session->cache;
    *s = (struct speculate){.session = session,
                            .head = head,
                            .options = *o,
                            .arena = ARENA_INIT,
                            .vocab = session->loaded->model.config->vocab,
                            .capacity = cache->blocks_max * cache->block};
    if (check_options(head, o, err) != ERR_OK) return err->code;
    int64_t drafts = !head ? 0 : o->tree ? draft_pool_size(o) : o->drafts;
    s->nodes_max = 1 + (drafts < o->drafts ? drafts : o->drafts);
    if (!head) s->nodes_max = 1;
    if (open_round(s, err) != ERR_OK) return err->code;
    return !head || (open_states(s, err) == ERR_OK && draft_open(s, err) == ERR_OK) ? ERR_OK
                                                                                    : err->code;
}

void speculate_close(struct speculate *s)
{
    if (s->session) engine_cache_close(engine_of(s), &s->draft);
    arena_release(&s->arena, NULL);
    *s = (struct speculate){0};
}

/* ---- one more token ---- */

static enum err_code no_room(const struct speculate *s, int64_t wanted, struct err *err)
{
    return err_set(err, ERR_INPUT,
                   "generate|token %lld|a cache for %lld tokens|%lld: those before it and a "
                   "round's nodes",
                   (long long)(s->length - s->prompt), (long long)s->capacity, (long long)wanted);
}

/* The token that node `node` gives is the next of the text. */
static void append(struct speculate *s, int64_t node, int64_t token)
{
    struct generated *g = &s->generated[s->length];
    const double *row = s->target + node * s->vocab;
    *g = (struct generated){.margin = NAN};
    if (s->options.temperature == 0) {
        (void)logits_argmax(row, s->vocab, &g->margin);
        g->near_tie = speculate_near_tie(s->session, row, g->margin);
    }
    s->text[s->length++] = token;
}

/* Logits that are numbers; where it samples, the laws that they are. */
static enum err_code settle_target(struct speculate *s, int64_t first, struct err *err)
{
    for (int64_t i = 0; i < s->tree.nodes; i++) {
        double margin, *row = s->target + i * s->vocab;
        if (logits_argmax(row, s->vocab, &margin) < 0)
            return err_set(err, ERR_DIFF, "generate|token %lld|logits with NaN|numbers",
                           (long long)(first + s->tree.depth[i] - s->prompt));
        if (s->options.temperature > 0) chance_law(row, s->vocab, s->options.temperature, row);
    }
    return ERR_OK;
}

/* Where a fault can edit it. */
static enum err_code verify_op(const struct eagle_verify *op, struct run *run, struct err *err)
{
    const struct fault_place place = {.op = "eagle.verify", .layer = -1, .side = ref_side()};
    return run->faults ? fault_call(&place, op, run, err) : eagle_verify_ref(op, run, err);
}

/* What the target confirms of s->tree, whose root has the position root. */
static enum err_code verify(struct speculate *s, int64_t root, int64_t *next, struct err *err)
{
    const struct draft_tree *t = &s->tree;
    bool greedy = s->options.temperature == 0;
    if (settle_target(s, root + 1, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < t->nodes && !greedy; i++) {
        int64_t position = root + t->depth[i];
        s->coin[i] = chance_coin(s->options.seed, position, t->token[i], s->vocab);
        s->draw[i] = chance_draw(s->options.seed, position + 1);
    }
    const struct eagle_verify op = {.nodes = t->nodes,
                                    .V = s->vocab,
                                    .parent = t->parent,
                                    .token = t->token,
                                    .target = s->target,
                                    .draft = t->nodes > 1 ? t->q : NULL,
                                    .greedy = greedy,
                                    .coin = greedy ? NULL : s->coin,
                                    .draw = greedy ? NULL : s->draw,
                                    .path = s->path,
                                    .accepted = &s->accepted,
                                    .next = next};
    return verify_op(&op, &s->session->run, err);
}

static void plant_root(struct speculate *s)
{
    s->tree.nodes = 1;
    s->tree.parent[0] = -1;
    s->tree.token[0] = s->text[s->length - 1];
    s->tree.depth[0] = 0;
}

/* ---- the prompt ---- */

/* The first token, and the draft's rows of the prompt. */
static enum err_code begin(struct speculate *s, const struct tokens *prompt, struct states *states,
                           struct err *err)
{
    struct states_capture capture;
    struct tap_sink *sink = s->head ? states_sink(&capture, states, NULL) : NULL;
    int64_t next;
    if (session_forward(s->session, prompt, sink, NULL, s->target, err) != ERR_OK) return err->code;
    memcpy(s->text, prompt->id, (size_t)prompt->count * sizeof *prompt->id);
    s->length = s->prompt = prompt->count;
    plant_root(s);
    if (verify(s, s->length - 1, &next, err) != ERR_OK) return err->code;
    append(s, 0, next);
    if (!s->head) return ERR_OK;
    return draft_extend(s, prompt->count, states->data, s->session->options.chunk, err);
}

enum err_code speculate_begin(struct speculate *s, const struct tokens *prompt, struct err *err)
{
    struct states states = s->states;
    struct arena_block *mark = arena_mark(&s->arena);
    if (prompt->sequences != 1)
        return err_set(err, ERR_INPUT, "generate|prompt|%lld sequences|one",
                       (long long)prompt->sequences);
    if (prompt->count > s->capacity) return no_room(s, prompt->count, err);
    states.rows = prompt->count;
    if (s->head)
        states.data = arena_alloc(&s->arena, states.rows * states.count * states.hidden,
                                  sizeof(double), "aux states of the prompt", err);
    if (err->code == ERR_OK) (void)!begin(s, prompt, &states, err);
    arena_release(&s->arena, mark);
    return err->code;
}

/* ---- a round ---- */

static enum err_code draft(struct speculate *s, struct err *err)
{
    plant_root(s);
    if (!s->head) return ERR_OK;
    s->pool->count = s->pool->fed = 0;
    return s->options.tree ? draft_tree(s, err) : draft_chain(s, err);
}

static enum err_code accept(struct speculate *s, int64_t next, struct err *err)
{
    int64_t true_rows = s->length - 1;
    if (target_keep_path(s, err) != ERR_OK) return err->code;
    for (int64_t i = 1; i <= s->accepted; i++) append(s, s->path[i - 1], s->tree.token[s->path[i]]);
    append(s, s->path[s->accepted], next);
    if (!s->head) return ERR_OK;
    s->draft.length[0] = true_rows;
    return draft_extend(s, s->accepted + 1, s->states.data, 0, err);
}

enum err_code speculate_round(struct speculate *s, struct err *err)
{
    int64_t next, root = s->length - 1;
    if (root + s->nodes_max > s->capacity) return no_room(s, root + s->nodes_max, err);
    if (draft(s, err) != ERR_OK || target_step(s, err) != ERR_OK ||
        verify(s, root, &next, err) != ERR_OK)
        return err->code;
    return accept(s, next, err);
}
