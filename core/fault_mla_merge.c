/* fault_mla_merge.c: two parts of an attention row merged wrongly by their log-sum-exp: chunks of a
 * prefill, splits of the cached tokens. Test: tests/test_fault_mla.c
 *
 * The op gives no log-sum-exp, so the right one is taken from what it gives: y = a y1 + (1 - a) y2
 * with y1, y2 the same op over one part each tells a, and ln(a / (1 - a)) is the difference of the
 * two. */
#include "core/fault_edits.h"
#include "core/mla.h"

#include <math.h>
#include <string.h>

/* What the merge takes for the first part's log-sum-exp minus the second's, at i of [rows][heads];
 * d holds the right, natural ones. */
typedef double edit_merge(const struct fault_call *c, const double *d, int64_t i, int64_t rows,
                          int64_t heads);

/* Where the second part of row i begins. */
static int64_t part_begins(const struct fault_call *c, const struct rows *rows, int64_t i)
{
    int64_t at = (int64_t)fault_value(c->use, "at"), first = fault_step_begins(rows, i);
    if (at >= 0) return at;
    return first > 0 ? first : rows_context(rows, i) / 2;
}

static bool in_first_part(const struct fault_call *c, const struct mla_core *op, int64_t i,
                          int64_t slot)
{
    return slot < part_begins(c, op->rows, i);
}

static bool in_second_part(const struct fault_call *c, const struct mla_core *op, int64_t i,
                           int64_t slot)
{
    return !in_first_part(c, op, i, slot);
}

/* The op over one part of what its rows see, unrounded, in memory of the run. */
static double *part_of(struct fault_call *c, const struct mla_core *op, fault_sees *sees,
                       struct run *run, struct err *err)
{
    struct mla_core part = *op;
    struct run exact = *run;
    struct fault_view v;
    memset(exact.profile.rounds, 0, sizeof exact.profile.rounds);
    exact.precision = PRECISION_F64;
    part.y = arena_alloc(run->arena, op->rows->count * op->heads * op->V, sizeof *part.y,
                         "a part of the attention", err);
    if (!part.y) return NULL;
    if (sees) {
        if (fault_view_make(&v, op->rows, fault_longest(op->rows), run, err) != ERR_OK) return NULL;
        fault_thin_out(c, op, &v, sees);
        part.rows = &v.rows;
    }
    return fault_other(c, "mla.core", &part, &exact, err) == ERR_OK ? part.y : NULL;
}

/* ln(a / (1 - a)); NAN: the parts give the same value. */
static double parts_apart(const double *y, const double *y1, const double *y2, int64_t n)
{
    double top = 0, bottom = 0;
    for (int64_t i = 0; i < n; i++) {
        top += (y[i] - y2[i]) * (y1[i] - y2[i]);
        bottom += (y1[i] - y2[i]) * (y1[i] - y2[i]);
    }
    double a = top / bottom;
    return a > 0 && a < 1 ? log(a / (1 - a)) : NAN;
}

/* y of one head from its parts' values and the difference d of their log-sum-exps. */
static void merge(double *y, const double *y1, const double *y2, double d, int64_t n)
{
    double a = 1 / (1 + exp(-d));
    for (int64_t v = 0; v < n; v++) y[v] = a * y1[v] + (1 - a) * y2[v];
}

static enum err_code with_merge(struct fault_call *c, const void *arg, struct run *run,
                                edit_merge *edit, struct err *err)
{
    const struct mla_core *op = arg;
    int64_t rows = op->rows->count, n = rows * op->heads;
    struct arena_block *mark = arena_mark(run->arena);
    double *d = arena_alloc(run->arena, n, sizeof *d, "differences of LSE", err);
    const double *y1 = NULL, *y2 = NULL, *y = NULL;
    if (d && fault_next(c, op, run, err) == ERR_OK) y = part_of(c, op, NULL, run, err);
    if (y) y1 = part_of(c, op, in_first_part, run, err);
    if (y1) y2 = part_of(c, op, in_second_part, run, err);
    for (int64_t i = 0; y2 && i < n; i++) {
        int64_t begins = part_begins(c, op->rows, i / op->heads), at = i * op->V;
        bool both = begins > 0 && begins < rows_context(op->rows, i / op->heads);
        d[i] = both ? parts_apart(y + at, y1 + at, y2 + at, op->V) : NAN;
    }
    for (int64_t i = 0; y2 && i < n; i++) {
        int64_t at = i * op->V;
        double taken = isfinite(d[i]) ? edit(c, d, i, rows, op->heads) : NAN;
        if (!isfinite(taken)) continue;
        merge(op->y + at, y1 + at, y2 + at, taken, op->V);
        run_round(run, RP_ATTN_CORE, op->y + at, op->V);
    }
    arena_release(run->arena, mark);
    return err->code;
}

static double take_base_2(const struct fault_call *c, const double *d, int64_t i, int64_t rows,
                          int64_t heads)
{
    (void)c;
    (void)rows;
    (void)heads;
    return d[i] / log(2);
}

static double add_offset(const struct fault_call *c, const double *d, int64_t i, int64_t rows,
                         int64_t heads)
{
    (void)rows;
    (void)heads;
    return d[i] + fault_value(c->use, "by");
}

/* [rows][heads] read as [heads][rows]. */
static double swap_axes(const struct fault_call *c, const double *d, int64_t i, int64_t rows,
                        int64_t heads)
{
    (void)c;
    return d[i % heads * rows + i / heads];
}

static enum err_code lse_base(struct fault_call *c, const void *arg, struct run *run,
                              struct err *err)
{
    return with_merge(c, arg, run, take_base_2, err);
}

static enum err_code lse_offset(struct fault_call *c, const void *arg, struct run *run,
                                struct err *err)
{
    return with_merge(c, arg, run, add_offset, err);
}

static enum err_code lse_transposed(struct fault_call *c, const void *arg, struct run *run,
                                    struct err *err)
{
    return with_merge(c, arg, run, swap_axes, err);
}

static const double tries_offset[] = {0.5, -0.5, 0.6931471805599453, NAN};
static const double tries_chunk[] = {8, 16, 32, 64, 128, 256, 512, 2048, 8192, NAN};

#define CORE .hosts = {"mla.core"}, .detector = "diff"
#define KEY_AT                                                                                     \
    KEY_TRY("at", -1, tries_chunk,                                                                 \
            "slot at which the second part begins; not given: "                                    \
            "the step's first, or half of what a row sees")

const struct fault_row fault_rows_mla_merge[] = {
    {.id = "mla.lse_base",
     CORE,
     .keys = {KEY_LAYER, KEY_AT},
     .wrap = lse_base,
     .edit = "two parts are merged with log-sum-exp of base 2 taken for natural ones",
     .source = "B018"},
    {.id = "mla.lse_offset",
     CORE,
     .wrap = lse_offset,
     .keys = {KEY_LAYER,
              KEY_AT,
              {.name = "by",
               .dflt = 0.5,
               .fit = FIT_TRY,
               .tries = tries_offset,
               .about = "what the first part's log-sum-exp is off by"}},
     .edit = "two right parts are merged with a wrong log-sum-exp",
     .source = "B019, B022, B037"},
    {.id = "mla.lse_transposed",
     CORE,
     .keys = {KEY_LAYER, KEY_AT},
     .wrap = lse_transposed,
     .edit = "two parts are merged with log-sum-exps read as [heads, tokens]",
     .source = "B023"},
    {0},
};
