/* speculate_target.c: the target on a round's nodes: one step for all of them, each seeing the
 * prefix, its ancestors and itself, and the accepted path closing up; see speculate.h. */
#include "harness/speculate_parts.h"

#include <string.h>

/* Rows of the nodes: [nodes], extra [nodes][nodes]. */
struct node_rows {
    int32_t *sequence;
    int64_t *position, *row, *slot, *span, *extra;
};

static enum err_code make_rows(struct node_rows *r, struct speculate *s, struct err *err)
{
    struct arena *a = &s->session->arena;
    int64_t n = s->tree.nodes;
    r->sequence = arena_alloc(a, n, sizeof *r->sequence, "nodes of a round", err);
    int64_t **const lists[] = {&r->position, &r->row, &r->slot, &r->span, &r->extra};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int64_t count = lists[i] == &r->extra ? n * n : n;
        *lists[i] = arena_alloc(a, count, sizeof **lists[i], "nodes of a round", err);
    }
    return err->code;
}

static void fill_rows(struct node_rows *r, const struct speculate *s)
{
    const struct draft_tree *t = &s->tree;
    int64_t prefix = s->length - 1, n = t->nodes;
    for (int64_t i = 0; i < n; i++) {
        r->sequence[i] = 0;
        r->row[i] = i;
        r->position[i] = prefix + t->depth[i];
        r->slot[i] = prefix + i;
        r->span[i] = prefix;
        int64_t *seen = r->extra + i * n, at = t->depth[i];
        if (at + 1 < n) seen[at + 1] = -1;
        for (int64_t j = i; j >= 0; j = t->parent[j]) seen[at--] = prefix + j;
    }
}

enum err_code target_step(struct speculate *s, struct err *err)
{
    struct session *session = s->session;
    struct arena_block *mark = arena_mark(&session->arena);
    struct node_rows r;
    struct states_capture capture;
    if (make_rows(&r, s, err) == ERR_OK) {
        fill_rows(&r, s);
        const struct rows rows = {.count = s->tree.nodes,
                                  .sequence = r.sequence,
                                  .position = r.position,
                                  .token = s->tree.token,
                                  .dump_row = r.row,
                                  .slot = r.slot,
                                  .span = r.span,
                                  .extra = r.extra,
                                  .extra_max = s->tree.nodes};
        const struct step step = {.model = &session->loaded->model,
                                  .cache = &session->cache,
                                  .rows = &rows,
                                  .layer_end = session->loaded->model.config->layers,
                                  .decode = true,
                                  .sink = s->head ? states_sink(&capture, &s->states, NULL) : NULL,
                                  .logits = s->target};
        (void)!engine_step(engine_of(s), &step, &session->run, err);
    }
    arena_release(&session->arena, mark);
    return err->code;
}

enum err_code target_keep_path(struct speculate *s, struct err *err)
{
    struct cache *cache = &s->session->cache;
    size_t bytes = (size_t)(s->states.count * s->states.hidden) * sizeof(double);
    /* Nodes of a path ascend, so none is overwritten before it has moved. */
    for (int64_t i = 0; i <= s->accepted; i++) {
        if (engine_cache_move(engine_of(s), cache, 0, s->length - 1 + s->path[i], s->length - 1 + i,
                              err) != ERR_OK)
            return err->code;
        if (s->head)
            memmove((char *)s->states.data + (size_t)i * bytes,
                    (char *)s->states.data + (size_t)s->path[i] * bytes, bytes);
    }
    cache->length[0] = s->length + s->accepted;
    return ERR_OK;
}
