/* fault_tp.c: linears that are cut over ranks along their sum, and added up wrongly. On one
 * process: rank r of n holds columns [r in/n, (r+1) in/n) of a row-parallel weight. Test:
 * tests/test_fault_moe.c
 *
 * For mla.output the rank's part of x is edited. In a feed-forward the cut runs along the inner
 * width: rows of gate and up are edited, a row of zeros in up takes its column out of the sum. */
#include "core/fault_edits.h"
#include "core/mla.h"
#include "core/mlp.h"

#include <string.h>

/* Where column i of the sum comes from: its own place, another rank's, or nowhere (-1). `keep`: the
 * rank whose part alone is wanted, for partial sums. */
typedef int64_t cut_place(const struct fault_use *u, int64_t i, int64_t n, int64_t keep);

static int64_t ranks_of(const struct fault_use *u)
{
    int64_t ranks = (int64_t)fault_value(u, "ranks");
    return ranks < 1 ? 1 : ranks;
}

static int64_t rank_of(const struct fault_use *u)
{
    int64_t rank = (int64_t)fault_value(u, "rank");
    return rank < 0 ? ranks_of(u) - 1 : rank;
}

static bool holds(int64_t i, int64_t n, int64_t rank, int64_t ranks)
{
    return i >= rank_begin(n, rank, ranks) && i < rank_begin(n, rank + 1, ranks);
}

static int64_t without_rank(const struct fault_use *u, int64_t i, int64_t n, int64_t keep)
{
    (void)keep;
    return holds(i, n, rank_of(u), ranks_of(u)) ? -1 : i;
}

static int64_t of_rank(const struct fault_use *u, int64_t i, int64_t n, int64_t keep)
{
    return holds(i, n, keep, ranks_of(u)) ? i : -1;
}

/* A rank and the one after it hold each other's part. */
static int64_t exchanged(const struct fault_use *u, int64_t i, int64_t n, int64_t keep)
{
    int64_t ranks = ranks_of(u), width = n / ranks, a = rank_of(u), b = (a + 1) % ranks;
    (void)keep;
    if (n % ranks || a >= ranks) return i;
    if (holds(i, n, a, ranks)) return i + (b - a) * width;
    return holds(i, n, b, ranks) ? i + (a - b) * width : i;
}

/* ---- the sum's columns edited ---- */

struct cut {
    cut_place *place;
    int64_t keep;
};

static enum err_code cut_rows(const struct fault_stored *s, struct matrix *m, struct err *err)
{
    const struct cut *cut = s->ctx;
    int64_t *map = arena_alloc(s->arena, m->out, sizeof *map, "rows of a rank", err);
    bool same = true;
    if (!map || s->part == PART_DOWN) return err->code;
    for (int64_t i = 0; i < m->out; i++) {
        map[i] = cut->place(s->call->use, i, m->out, cut->keep);
        if (s->part == PART_FIRST && map[i] < 0) map[i] = i; /* up's zeros are enough */
        same = same && map[i] == i;
    }
    return same ? ERR_OK : fault_matrix_rows(s, m, map, err);
}

static enum err_code cut_columns(struct fault_call *c, const struct mla_output *given,
                                 const struct cut *cut, struct run *run, struct err *err)
{
    struct mla_output op = *given;
    int64_t in = op.o->in;
    struct arena_block *mark = arena_mark(run->arena);
    double *x = arena_alloc(run->arena, op.T * in, sizeof *x, "attention values of ranks", err);
    for (int64_t i = 0; x && i < op.T * in; i++) {
        int64_t from = cut->place(c->use, i % in, in, cut->keep);
        x[i] = from < 0 ? 0 : op.x[i / in * in + from];
    }
    op.x = x;
    if (x) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code with_cut(struct fault_call *c, const void *arg, cut_place *place, int64_t keep,
                              struct run *run, struct err *err)
{
    const struct cut cut = {place, keep};
    if (strcmp(c->place->op, "mla.output") == 0) return cut_columns(c, arg, &cut, run, err);
    return fault_with_matrices(c, arg, run, cut_rows, &cut, err);
}

static enum err_code partial_sum_lost(struct fault_call *c, const void *arg, struct run *run,
                                      struct err *err)
{
    return with_cut(c, arg, without_rank, 0, run, err);
}

static enum err_code shard_swapped(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    return with_cut(c, arg, exchanged, 0, run, err);
}

/* ---- the reduction ---- */

static enum err_code double_reduce(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    struct fault_output out[2], y;
    if (fault_next(c, arg, run, err) != ERR_OK) return err->code;
    (void)fault_outputs(c->place->op, arg, out);
    y = out[0];
    for (int64_t i = 0; i < y.rows * y.cols; i++) y.data[i] *= (double)ranks_of(c->use);
    run_round(run, RP_LINEAR, y.data, y.rows * y.cols);
    return ERR_OK;
}

/* Every partial sum and every step of their addition rounds to bf16. */
static enum err_code reduce_bf16(struct fault_call *c, const void *arg, struct run *run,
                                 struct err *err)
{
    struct fault_output out[2], y;
    (void)fault_outputs(c->place->op, arg, out);
    y = out[0];
    int64_t n = y.rows * y.cols, ranks = ranks_of(c->use);
    struct arena_block *mark = arena_mark(run->arena);
    double *sum = arena_alloc(run->arena, n, sizeof *sum, "partial sums", err);
    for (int64_t i = 0; sum && i < n; i++) sum[i] = 0;
    for (int64_t r = 0; sum && r < ranks; r++) {
        if (with_cut(c, arg, of_rank, r, run, err) != ERR_OK) break;
        for (int64_t i = 0; i < n; i++)
            sum[i] = dtype_round(DT_BF16, sum[i] + dtype_round(DT_BF16, y.data[i]));
    }
    if (err->code == ERR_OK) memcpy(y.data, sum, (size_t)n * sizeof *sum);
    arena_release(run->arena, mark);
    return err->code;
}

#define REDUCED .hosts = {"mla.output", "mlp", "moe.shared", "moe"}, .detector = "diff"
#define KEY_RANK KEY_SITE("rank", "rank; the last one where not given")

const struct fault_row fault_rows_tp[] = {
    {.id = "tp.partial_sum_lost",
     REDUCED,
     .keys = {KEY_LAYER, KEY_RANK, KEY_RANKS(4)},
     .wrap = partial_sum_lost,
     .edit = "a rank's partial sum is missing",
     .source = "B047"},
    {.id = "tp.double_reduce",
     REDUCED,
     .keys = {KEY_LAYER, KEY_RANKS(2)},
     .wrap = double_reduce,
     .edit = "a sum over the ranks is taken twice",
     .source = "B124"},
    {.id = "tp.shard_swapped",
     REDUCED,
     .keys = {KEY_LAYER, KEY_RANK, KEY_RANKS(2)},
     .wrap = shard_swapped,
     .edit = "a rank and the next one hold each other's part of the weight",
     .source = "B047"},
    {.id = "tp.reduce_bf16",
     REDUCED,
     .keys = {KEY_LAYER, KEY_RANKS(2)},
     .wrap = reduce_bf16,
     .edit = "partial sums round to bf16 before they are added",
     .source = "model math 11.43"},
    {0},
};
