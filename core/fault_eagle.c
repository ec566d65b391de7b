/* fault_eagle.c: a draft head that is fed, wired or read otherwise than it was trained. Faults of
 * its verification: fault_eagle_verify.c. Source of the layouts: core/eagle.h. Test:
 * tests/test_fault_eagle.c */
#include "core/eagle.h"
#include "core/embed.h"
#include "core/fault_edits.h"
#include "core/norm.h"

#include <math.h>
#include <string.h>

/* ---- the aux states ---- */

static enum err_code with_aux(struct fault_call *c, const struct eagle_fc *given, const double *aux,
                              struct run *run, struct err *err)
{
    struct eagle_fc op = *given;
    op.aux = aux;
    return fault_next(c, &op, run, err);
}

static enum err_code aux_off_by_one(struct fault_call *c, const void *arg, struct run *run,
                                    struct err *err)
{
    const struct eagle_fc *op = arg;
    const struct draft_step *s = c->place->draft;
    const double *near = s ? s->aux_near[fault_value(c->use, "by") > 0] : NULL;
    return with_aux(c, op, near ? near : op->aux, run, err);
}

/* Which of n states stands at place i. */
static int64_t aux_at(int64_t order, int64_t n, int64_t i)
{
    switch (order) {
    case 0:
        return n - 1 - i;
    case 1:
        return (i + 1) % n;
    case 2:
        return (i + n - 1) % n;
    case 3:
        return i < 2 && n > 1 ? 1 - i : i;
    default:
        return i >= n - 2 && n > 1 ? 2 * n - 3 - i : i;
    }
}

static enum err_code aux_order(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    const struct eagle_fc *op = arg;
    int64_t n = op->head->config.aux_count, H = op->head->config.target_hidden;
    struct arena_block *mark = arena_mark(run->arena);
    double *aux = fault_copy(run, op->aux, op->T * n * H, err);
    for (int64_t i = 0; aux && i < op->T * n; i++) {
        int64_t from = i / n * n + aux_at((int64_t)fault_value(c->use, "order"), n, i % n);
        memcpy(aux + i * H, op->aux + from * H, (size_t)H * sizeof *aux);
    }
    if (aux) (void)!with_aux(c, op, aux, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* One state as it is; where it is wider than the draft, its first columns. */
static enum err_code fc_skipped(struct fault_call *c, const void *arg, struct run *run,
                                struct err *err)
{
    const struct eagle_fc *op = arg;
    const struct head_config *h = &op->head->config;
    int64_t n = h->aux_count, from = h->target_hidden, H = h->base.hidden,
            slice = (int64_t)fault_value(c->use, "slice"), cols = from < H ? from : H;
    if (slice < 0) slice = n - 1;
    if (slice >= n) return fault_next(c, arg, run, err);
    memset(op->y, 0, (size_t)(op->T * H) * sizeof *op->y);
    for (int64_t t = 0; t < op->T; t++)
        memcpy(op->y + t * H, op->aux + (t * n + slice) * from, (size_t)cols * sizeof *op->y);
    return ERR_OK;
}

/* ---- the first layer's inputs ---- */

/* The state was fed back; an op that runs alone does not say, and may have been. */
static bool fed_back(const struct fault_place *p)
{
    return !p->draft || !p->draft->aux;
}

/* Token p beside the states of p. Where nobody says the row's own token, rows take the embedding
 * of the row before them. */
static enum err_code own_embedding(struct fault_call *c, const struct eagle_layer *op, double *e,
                                   struct run *run, struct err *err)
{
    const struct draft_step *s = c->place->draft;
    const struct rows *r = op->rows;
    int64_t H = op->head->config.base.hidden;
    if (s && s->own_token) {
        const struct embed own = {.T = r->count,
                                  .H = H,
                                  .V = op->head->config.base.vocab,
                                  .id = s->own_token,
                                  .table = &op->head->embed,
                                  .y = e};
        return fault_other(c, "embed", &own, run, err);
    }
    for (int64_t i = 1; i < r->count; i++) {
        if (r->sequence[i - 1] == r->sequence[i] && r->position[i - 1] + 1 == r->position[i])
            memcpy(e + i * H, op->embed + (i - 1) * H, (size_t)H * sizeof *e);
    }
    return ERR_OK;
}

static enum err_code no_shift(struct fault_call *c, const void *arg, struct run *run,
                              struct err *err)
{
    struct eagle_layer op = *(const struct eagle_layer *)arg;
    bool first = !c->place->draft || c->place->draft->aux;
    if (!op.embed || !first) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    double *e = fault_copy(run, op.embed, op.rows->count * op.head->config.base.hidden, err);
    if (e && own_embedding(c, &op, e, run, err) == ERR_OK) {
        op.embed = e;
        (void)!fault_next(c, &op, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code feedback_post_norm(struct fault_call *c, const void *arg, struct run *run,
                                        struct err *err)
{
    struct eagle_layer op = *(const struct eagle_layer *)arg;
    const struct head *h = op.head;
    int64_t H = h->config.base.hidden;
    bool normed = h->config.norm_output || !tensor_exists(&h->norm);
    if (op.layer > 0 || normed || !fed_back(c->place)) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    double *x = fault_copy(run, op.hidden, op.rows->count * H, err);
    const struct norm norm = {.T = op.rows->count,
                              .H = H,
                              .eps = h->config.base.norm_eps,
                              .x = op.hidden,
                              .w = &h->norm,
                              .y = x};
    op.hidden = x;
    if (x && fault_other(c, "norm", &norm, run, err) == ERR_OK) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* ---- another head ---- */

/* Edits a copy of the head, whose tensors still lead to what is stored. */
typedef enum err_code edit_head(struct run *run, struct head *h, struct err *err);

static enum err_code with_head(struct fault_call *c, const void *arg, struct run *run,
                               edit_head *edit, struct err *err)
{
    struct eagle_layer op = *(const struct eagle_layer *)arg;
    if (op.layer > 0) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    struct head *h = arena_alloc(run->arena, 1, sizeof *h, "a fault's head", err);
    if (h) {
        *h = *op.head;
        op.head = h;
        if (edit(run, h, err) == ERR_OK) (void)!fault_next(c, &op, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code other_residual(struct run *run, struct head *h, struct err *err)
{
    (void)run;
    h->config.norm_before_residual = !h->config.norm_before_residual;
    return err->code;
}

/* The matrix reads the second half of its input where the first one is, and the other way round. */
static enum err_code swap_halves(struct run *run, struct matrix *m, struct err *err)
{
    int64_t half = m->in / 2, cell = dtype_size(m->data.dtype), bytes = half * cell;
    char *to = arena_alloc(run->arena, m->out * m->in, (size_t)cell, "a fault's matrix", err);
    char *raw = arena_alloc(run->arena, m->in, (size_t)cell, "a fault's row", err);
    for (int64_t r = 0; to && raw && r < m->out; r++) {
        const char *row = tensor_elements(&m->data, r * m->in, m->in, raw);
        memcpy(to + r * 2 * bytes, row + bytes, (size_t)bytes);
        memcpy(to + (r * 2 + 1) * bytes, row, (size_t)bytes);
    }
    tensor_hold(&m->data, to);
    return err->code;
}

static enum err_code swap_inputs(struct run *run, struct head *h, struct err *err)
{
    struct head_layer *l = &h->layers[0];
    struct matrix *const llama[] = {&l->q, &l->k, &l->v}, *const mla[] = {h->config.base.q_lora
                                                                              ? &l->q_a
                                                                              : &l->q_b,
                                                                          &l->kv_a};
    bool is_mla = h->config.kind == HEAD_MLA;
    for (int i = 0; i < (is_mla ? 2 : 3); i++) {
        if (swap_halves(run, is_mla ? mla[i] : llama[i], err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

#define WITH_HEAD(name, edit)                                                                      \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_head(c, arg, run, edit, err);                                                  \
    }

WITH_HEAD(residual_normed, other_residual)
WITH_HEAD(concat_swapped, swap_inputs)

/* ---- the draft's cache ---- */

/* The slot at which a chain of this step cached its guess of the token that true slot k holds: that
 * of the row whose true rows end before it. -1: none. */
static int64_t guess_of(const struct rows *r, int32_t sequence, int64_t k)
{
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t *extra;
        if (r->sequence[i] == sequence && rows_span(r, i) == k && rows_extras(r, i, &extra) > 0)
            return extra[0];
    }
    return -1;
}

/* Rows that were verified see, of those before them, what the draft guessed. True rows come first:
 * guesses are cached behind all of them. */
static void view_guesses(const struct fault_call *c, const struct rows *r, struct fault_view *v)
{
    int64_t only = (int64_t)fault_value(c->use, "slot"), most = v->rows.extra_max;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t *own = NULL;
        int64_t span = rows_span(r, i), n = rows_extras(r, i, &own), kept = 0,
                *out = v->extra + i * most;
        for (int turn = 0; turn < 2; turn++) {
            for (int64_t k = 0; k < span; k++) {
                bool stale = k > 0 && (only < 0 || only == k);
                int64_t guess = stale ? guess_of(r, r->sequence[i], k) : -1;
                if (turn == 0 && guess < 0) out[kept++] = k;
                if (turn == 1 && guess >= 0) out[kept++] = guess;
            }
        }
        for (int64_t k = 0; k < n; k++) out[kept++] = own[k];
        for (; kept < most; kept++) out[kept] = -1;
        v->span[i] = 0;
    }
}

static enum err_code stale_draft_kv(struct fault_call *c, const void *arg, struct run *run,
                                    struct err *err)
{
    struct eagle_layer op = *(const struct eagle_layer *)arg;
    struct fault_view v;
    int64_t most = fault_longest(op.rows);
    if (!op.rows->extra || !fed_back(c->place)) return fault_next(c, arg, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    if (fault_view_make(&v, op.rows, most + op.rows->extra_max, run, err) == ERR_OK) {
        view_guesses(c, op.rows, &v);
        op.rows = &v.rows;
        (void)!fault_next(c, &op, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

/* ---- the choice ---- */

static int64_t offset_as_id(const struct head *h, int64_t draft_id)
{
    return h->mapped ? h->target_id[draft_id] - draft_id : h->target_id[draft_id];
}

/* The logits are right: the op itself runs as it is. */
static enum err_code unchanged(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    return fault_next(c, arg, run, err);
}

static const double tries_by[] = {1, -1, NAN};
static const double tries_order[] = {0, 1, 2, 3, 4, NAN};
static const double tries_slice[] = {0, 1, 2, NAN};

#define FC .hosts = {"eagle.fc"}, .detector = "diff"
#define LAYER .hosts = {"eagle.layer"}, .detector = "diff", .keys = {KEY_STEP}

const struct fault_row fault_rows_eagle[] = {
    {.id = "eagle.aux_off_by_one",
     FC,
     .wrap = aux_off_by_one,
     .keys = {{.name = "by",
               .dflt = 1,
               .fit = FIT_TRY,
               .tries = tries_by,
               .about = "entry ids by which the states are off: 1 or -1"}},
     .edit = "the aux states are those of the layer after, or before",
     .source = "B075, B076, B077"},
    {.id = "eagle.aux_order",
     FC,
     .wrap = aux_order,
     .keys = {KEY_TRY("order", 0, tries_order,
                      "0 reversed, 1 and 2 rotated, 3 first two exchanged, 4 last two exchanged")},
     .edit = "the aux states meet the columns of fc in another order",
     .source = "EAGLE-3 fact sheet 3.2"},
    {.id = "eagle.fc_skipped",
     FC,
     .wrap = fc_skipped,
     .keys = {KEY_TRY("slice", -1, tries_slice, "which aux state stands in; the last")},
     .edit = "an aux state goes in as it is, without fc",
     .source = "sglang PR#21272"},
    {.id = "eagle.no_shift",
     LAYER,
     .wrap = no_shift,
     .edit = "a row's states are paired with its own token, not with the one behind it",
     .source = "vllm#14649"},
    {.id = "eagle.concat_swapped",
     LAYER,
     .wrap = concat_swapped,
     .edit = "state and embedding change places in the attention's input",
     .source = "EAGLE-3 fact sheet 2.1"},
    {.id = "eagle.residual_normed",
     LAYER,
     .wrap = residual_normed,
     .edit = "the skip path starts at the normed state, or where it should at the plain one",
     .source = "EAGLE-3 fact sheet 1.4"},
    {.id = "eagle.feedback_post_norm",
     LAYER,
     .wrap = feedback_post_norm,
     .edit = "the state is fed back after the final norm",
     .source = "SpecForge PR#879, vllm PR#46488"},
    {.id = "eagle.stale_draft_kv",
     .hosts = {"eagle.layer"},
     .detector = "diff",
     .wrap = stale_draft_kv,
     .keys = {KEY_STEP, KEY_SITE("slot", "cached token, from 1; every one")},
     .edit = "what the draft cached while it guessed is not overwritten from the true states",
     .source = "B083, B085"},
    {.id = "eagle.d2t_absolute",
     LAYER,
     .wrap = unchanged,
     .target_id = offset_as_id,
     .edit = "d2t is read as target ids, not as offsets",
     .source = "B080, EAGLE-3 fact sheet 0.2"},
    {0},
};
