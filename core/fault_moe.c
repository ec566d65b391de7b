/* fault_moe.c: experts exchanged, lost, counted twice; experts spread over ranks. Test:
 * tests/test_fault_moe.c */
#include "core/fault_edits.h"
#include "core/mlp.h"
#include "core/moe.h"

#include <math.h>
#include <string.h>

/* ---- matrices ---- */

static enum err_code swap_gate_and_up(const struct fault_stored *s, struct matrix *m,
                                      struct err *err)
{
    struct expert e;
    if (s->part == PART_DOWN) return ERR_OK;
    if (s->moe->expert(s->moe->ctx, s->expert, &e, err) == ERR_OK)
        *m = s->part == PART_FIRST ? e.up : e.gate;
    return err->code;
}

static enum err_code gate_up_swapped(struct fault_call *c, const void *arg, struct run *run,
                                     struct err *err)
{
    if (strcmp(c->place->op, "moe") == 0)
        return fault_with_matrices(c, arg, run, swap_gate_and_up, NULL, err);
    if (fault_value(c->use, "expert") >= 0) return fault_next(c, arg, run, err);
    const struct mlp *given = arg;
    struct mlp op = *given;
    op.gate = given->up;
    op.up = given->gate;
    return fault_next(c, &op, run, err);
}

/* Expert `from` in place of this one. */
static enum err_code replace_expert(const struct fault_stored *s, int64_t from, struct matrix *m,
                                    struct err *err)
{
    struct expert e;
    if (s->moe->expert(s->moe->ctx, from, &e, err) == ERR_OK)
        *m = s->part == PART_FIRST ? e.gate : s->part == PART_SECOND ? e.up : e.down;
    return err->code;
}

static enum err_code take_next_expert(const struct fault_stored *s, struct matrix *m,
                                      struct err *err)
{
    return replace_expert(s, (s->expert + 1) % s->moe->E, m, err);
}

static enum err_code expert_off_by_one(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    return fault_with_matrices(c, arg, run, take_next_expert, NULL, err);
}

/* The rank that holds expert e, when each holds a run of them. */
static int64_t rank_of(int64_t e, int64_t E, int64_t ranks)
{
    int64_t r = 0;
    while (r + 1 < ranks && e >= rank_begin(E, r + 1, ranks)) r++;
    return r;
}

static enum err_code shift_map(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    const struct fault_use *u = s->call->use;
    int64_t rank = (int64_t)fault_value(u, "rank"), ranks = (int64_t)fault_value(u, "ranks");
    bool here = rank < 0 || rank_of(s->expert, s->moe->E, ranks) == rank;
    return here ? take_next_expert(s, m, err) : ERR_OK;
}

static enum err_code expert_map_shift(struct fault_call *c, const void *arg, struct run *run,
                                      struct err *err)
{
    return fault_with_matrices(c, arg, run, shift_map, NULL, err);
}

/* ---- weights of the experts ---- */

/* Edits the weights of row t, [top_k], beside its ids. */
typedef void edit_weights(const struct fault_call *c, const struct moe *op, int64_t t, double *w);

static enum err_code with_weights(struct fault_call *c, const void *arg, struct run *run,
                                  edit_weights *edit, struct err *err)
{
    struct moe op = *(const struct moe *)arg;
    struct arena_block *mark = arena_mark(run->arena);
    double *w = fault_copy(run, op.weights, op.T * op.top_k, err);
    for (int64_t t = 0; w && t < op.T; t++) edit(c, &op, t, w + t * op.top_k);
    op.weights = w;
    if (w) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

static void drop_expert(const struct fault_call *c, const struct moe *op, int64_t t, double *w)
{
    int64_t e = (int64_t)fault_value(c->use, "expert");
    if (e < 0) e = op->ids[0];
    for (int64_t j = 0; j < op->top_k; j++) {
        if (op->ids[t * op->top_k + j] == e) w[j] = 0;
    }
}

static void square(const struct fault_call *c, const struct moe *op, int64_t t, double *w)
{
    (void)c;
    (void)t;
    for (int64_t j = 0; j < op->top_k; j++) w[j] *= w[j];
}

static void lose_token(const struct fault_call *c, const struct moe *op, int64_t t, double *w)
{
    int64_t rank = (int64_t)fault_value(c->use, "rank"), row = fault_row_of(c, op->T);
    int64_t ranks = (int64_t)fault_value(c->use, "ranks");
    const int32_t *ids = op->ids + t * op->top_k;
    if (t != row) return;
    if (rank < 0) rank = rank_of(ids[0], op->E, ranks);
    for (int64_t j = 0; j < op->top_k; j++) {
        if (rank_of(ids[j], op->E, ranks) == rank) w[j] = 0;
    }
}

/* What comes back rank by rank, experts dealt out in turn, meets the weights in the order of ids.
 */
static void combine_by_rank(const struct fault_call *c, const struct moe *op, int64_t t, double *w)
{
    int64_t ranks = (int64_t)fault_value(c->use, "ranks"), n = 0;
    const double *right = op->weights + t * op->top_k;
    for (int64_t r = 0; r < ranks; r++) {
        for (int64_t j = 0; j < op->top_k; j++) {
            if (op->ids[t * op->top_k + j] % ranks == r) w[j] = right[n++];
        }
    }
}

#define WITH_WEIGHTS(name, edit)                                                                   \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_weights(c, arg, run, edit, err);                                               \
    }

WITH_WEIGHTS(dropped_expert, drop_expert)
WITH_WEIGHTS(double_weight, square)
WITH_WEIGHTS(token_lost, lose_token)
WITH_WEIGHTS(combine_order, combine_by_rank)

/* ---- sums ---- */

static enum err_code drop_last_token(struct fault_call *c, const void *arg, struct run *run,
                                     struct err *err)
{
    const struct moe *op = arg;
    if (fault_next(c, op, run, err) == ERR_OK && op->T > 0)
        memset(op->y + (op->T - 1) * op->H, 0, (size_t)op->H * sizeof *op->y);
    return err->code;
}

static enum err_code no_shared(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    const struct mlp *op = arg;
    if (fault_next(c, op, run, err) == ERR_OK)
        memset(op->y, 0, (size_t)(op->T * op->down->out) * sizeof *op->y);
    return err->code;
}

/* Key `factor`; where it is not given, the model's routed_scaling_factor. */
static double factor_of(const struct fault_call *c)
{
    const double of_kimi = 2.827; /* where an op runs without a model */
    double given = fault_value(c->use, "factor");
    if (given >= 0) return given;
    return c->place->model ? c->place->model->config->routed_scale : of_kimi;
}

static enum err_code shared_scaled(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    const struct mlp *op = arg;
    int64_t n = op->T * op->down->out;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < n; i++) op->y[i] *= factor_of(c);
    run_round(run, RP_LINEAR, op->y, n);
    return ERR_OK;
}

static enum err_code scaling_twice(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    struct moe op = *(const struct moe *)arg;
    op.sum_scale *= factor_of(c);
    return fault_next(c, &op, run, err);
}

#define MOE .hosts = {"moe"}, .detector = "diff"
#define SHARED .hosts = {"moe.shared"}, .detector = "diff"
#define KEY_RANK KEY_SITE("rank", "rank; all of them where not given")
#define KEY_FACTOR                                                                                 \
    {                                                                                              \
        .name = "factor", .dflt = -1, .fit = FIT_LINEAR,                                           \
        .about = "factor; not given: routed_scaling_factor"                                        \
    }

const struct fault_row fault_rows_moe[] = {
    {.id = "moe.gate_up_swapped",
     .hosts = {"moe", "moe.shared", "mlp"},
     .detector = "diff",
     .keys = {KEY_LAYER, KEY_EXPERT},
     .wrap = gate_up_swapped,
     .edit = "silu meets the up projection",
     .source = "model math 11.8"},
    {.id = "moe.no_shared",
     SHARED,
     .added = true,
     .keys = {KEY_LAYER},
     .wrap = no_shared,
     .edit = "the shared experts have no part",
     .source = "our own"},
    {.id = "moe.shared_scaled",
     SHARED,
     .added = true,
     .keys = {KEY_LAYER, KEY_FACTOR},
     .wrap = shared_scaled,
     .edit = "routed_scaling_factor multiplies the shared experts too",
     .source = "model math 11.15"},
    {.id = "moe.scaling_twice",
     MOE,
     .added = true,
     .keys = {KEY_LAYER, KEY_FACTOR},
     .wrap = scaling_twice,
     .edit = "routed_scaling_factor is applied in the router and on the sum",
     .source = "B064, B066"},
    {.id = "moe.expert_off_by_one",
     MOE,
     .keys = {KEY_LAYER, KEY_EXPERT},
     .wrap = expert_off_by_one,
     .same_as = "the next expert's weights",
     .edit = "an expert's tokens meet the weights of the next one",
     .source = "B123"},
    {.id = "moe.drop_last_token",
     MOE,
     .keys = {KEY_LAYER},
     .wrap = drop_last_token,
     .edit = "the last row gets nothing from the experts",
     .source = "our own"},
    {.id = "moe.dropped_expert",
     MOE,
     .wrap = dropped_expert,
     .keys = {KEY_LAYER, KEY_SITE("expert", "expert; the first row's first")},
     .edit = "an expert's part is missing from the sum",
     .source = "B050, B055"},
    {.id = "moe.double_weight",
     MOE,
     .keys = {KEY_LAYER},
     .wrap = double_weight,
     .edit = "a routing weight is multiplied in twice",
     .source = "our own"},
    {.id = "ep.expert_map_shift",
     MOE,
     .keys = {KEY_LAYER, KEY_RANK, KEY_RANKS(2)},
     .wrap = expert_map_shift,
     .same_as = "the next expert's weights",
     .edit = "the map from global to local experts is off by one",
     .source = "B123"},
    {.id = "ep.token_lost",
     MOE,
     .wrap = token_lost,
     .keys = {KEY_LAYER, KEY_SITE("row", "row; one by hash"),
              KEY_SITE("rank", "rank; that of the row's first expert"), KEY_RANKS(2)},
     .edit = "what a rank's experts make of a token does not come back",
     .source = "B118, B123"},
    {.id = "ep.combine_order",
     MOE,
     .keys = {KEY_LAYER, KEY_RANKS(2)},
     .wrap = combine_order,
     .edit = "results come back in the order of ranks and meet the weights of other experts",
     .source = "our own"},
    {0},
};
