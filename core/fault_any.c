/* fault_any.c: what can happen to any buffer: a cell, a row, a tile, all of it. The op runs, then
 * its outputs are edited. Where no row or cell is given it is chosen by hash, the same on every
 * machine. Test: tests/test_fault_simple.c */
#include "core/fault_edits.h"
#include "core/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum err_code edit_output(struct fault_call *c, struct fault_output y, int64_t which,
                                  struct run *run, struct err *err);

static enum err_code with_outputs(struct fault_call *c, const void *arg, struct run *run,
                                  edit_output *edit, struct err *err)
{
    struct fault_output out[2];
    int64_t only = (int64_t)fault_value(c->use, "output");
    if (fault_next(c, arg, run, err) != ERR_OK) return err->code;
    int n = fault_outputs(c->place->op, arg, out);
    for (int i = 0; i < n && err->code == ERR_OK; i++) {
        if (only < 0 || only == i) (void)!edit(c, out[i], i, run, err);
    }
    return err->code;
}

/* The cell of keys row and col, NULL: there is no such row or column here. */
static double *cell_of(const struct fault_call *c, struct fault_output y)
{
    int64_t row = fault_row_of(c, y.rows), col = (int64_t)fault_value(c->use, "col");
    if (col < 0 && y.cols > 0) col = (int64_t)(fault_hash(c, 1) % (uint64_t)y.cols);
    return row < 0 || col < 0 || col >= y.cols ? NULL : y.data + row * y.cols + col;
}

static enum err_code set_cell(struct fault_call *c, struct fault_output y, double v)
{
    double *cell = cell_of(c, y);
    if (cell) *cell = v;
    return ERR_OK;
}

static enum err_code make_nan(struct fault_call *c, struct fault_output y, int64_t which,
                              struct run *run, struct err *err)
{
    (void)which;
    (void)run;
    (void)err;
    return set_cell(c, y, NAN);
}

static enum err_code make_inf(struct fault_call *c, struct fault_output y, int64_t which,
                              struct run *run, struct err *err)
{
    (void)which;
    (void)run;
    (void)err;
    return set_cell(c, y, INFINITY);
}

/* Bit `bit` of the value as bf16: the upper half of a float32. */
static enum err_code flip_bit(struct fault_call *c, struct fault_output y, int64_t which,
                              struct run *run, struct err *err)
{
    double *cell = cell_of(c, y);
    int64_t bit = (int64_t)fault_value(c->use, "bit");
    (void)which;
    (void)run;
    (void)err;
    if (cell && bit < 16) *cell = (double)f32_from_bits(f32_bits((float)*cell) ^ 1u << (16 + bit));
    return ERR_OK;
}

static enum err_code zero_one_row(struct fault_call *c, struct fault_output y, int64_t which,
                                  struct run *run, struct err *err)
{
    int64_t row = fault_row_of(c, y.rows);
    (void)which;
    (void)run;
    (void)err;
    if (row >= 0) memset(y.data + row * y.cols, 0, (size_t)y.cols * sizeof *y.data);
    return ERR_OK;
}

/* Read as [cols, rows]; key `way` 1: written as [cols, rows], and read as it should be. */
static enum err_code transpose(struct fault_call *c, struct fault_output y, int64_t which,
                               struct run *run, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    double *right = fault_copy(run, y.data, y.rows * y.cols, err);
    bool written = fault_value(c->use, "way") == 1;
    int64_t wide = written ? y.rows : y.cols, high = written ? y.cols : y.rows;
    (void)which;
    for (int64_t i = 0; right && i < y.rows * y.cols; i++)
        y.data[i] = right[i % wide * high + i / wide];
    arena_release(run->arena, mark);
    return err->code;
}

/* Row i holds what belongs to row i + by. Where there is none it keeps its own; key `edge` 1: the
 * rows run around. */
static enum err_code take_next_row(struct fault_call *c, struct fault_output y, int64_t which,
                                   struct run *run, struct err *err)
{
    int64_t by = (int64_t)fault_value(c->use, "by");
    bool around = fault_value(c->use, "edge") == 1;
    struct arena_block *mark = arena_mark(run->arena);
    double *right = fault_copy(run, y.data, y.rows * y.cols, err);
    (void)which;
    for (int64_t i = 0; right && i < y.rows; i++) {
        int64_t from = around ? ((i + by) % y.rows + y.rows) % y.rows : i + by;
        if (from < 0 || from >= y.rows) continue;
        memcpy(y.data + i * y.cols, right + from * y.cols, (size_t)y.cols * sizeof *y.data);
    }
    arena_release(run->arena, mark);
    return err->code;
}

/* A tile of one row holds whatever bits there were: bf16 values of any size, NaN among them. */
static enum err_code leave_tile(struct fault_call *c, struct fault_output y, int64_t which,
                                struct run *run, struct err *err)
{
    int64_t tile = (int64_t)fault_value(c->use, "tile");
    double *cell = cell_of(c, y);
    (void)which;
    (void)run;
    (void)err;
    if (!cell || tile < 1) return ERR_OK;
    int64_t at = cell - y.data, row = at / y.cols, first = at % y.cols / tile * tile;
    for (int64_t i = first; i < first + tile && i < y.cols; i++)
        y.data[row * y.cols + i] = (double)bf16_to_f32((uint16_t)(fault_hash(c, 2 + i) >> 48));
    return ERR_OK;
}

/* ---- what an earlier call left ---- */

enum { KEPT = 48 }; /* ops, taps and outputs of a model */

struct kept {
    struct {
        const char *op;
        enum tap_kind tap;
        int64_t which, n;
        double *data;
    } entry[KEPT];
};

static void forget(void *memory)
{
    struct kept *k = memory;
    for (int i = 0; i < KEPT; i++) free(k->entry[i].data);
    free(k);
}

/* Index of the entry of an output, or of a free one; KEPT: none. */
static int entry_of(const struct kept *k, const struct fault_place *p, int64_t which)
{
    int i = 0;
    for (; i < KEPT && k->entry[i].op; i++) {
        if (strcmp(k->entry[i].op, p->op) == 0 && k->entry[i].tap == p->tap &&
            k->entry[i].which == which)
            break;
    }
    return i;
}

static void keep_outputs(struct fault_use *u, const struct fault_place *p, const void *arg,
                         bool after)
{
    struct fault_output out[2];
    struct kept *k = u->memory ? u->memory : calloc(1, sizeof *k);
    int n = k && after ? fault_outputs(p->op, arg, out) : 0;
    u->memory = k;
    for (int i = 0; i < n; i++) {
        int e = entry_of(k, p, i);
        int64_t count = out[i].rows * out[i].cols;
        double *data =
            e < KEPT ? realloc(k->entry[e].data, (size_t)(count + 1) * sizeof *data) : NULL;
        if (!data) continue;
        memcpy(data, out[i].data, (size_t)count * sizeof *data);
        k->entry[e].op = p->op;
        k->entry[e].tap = p->tap;
        k->entry[e].which = i;
        k->entry[e].n = count;
        k->entry[e].data = data;
    }
}

/* The row is not written: it holds what the call before left in that place, or zeros; key `from` 1:
 * the row before it of this call. */
static enum err_code keep_row(struct fault_call *c, struct fault_output y, int64_t which,
                              struct run *run, struct err *err)
{
    const struct kept *k = c->use->memory;
    int64_t row = fault_row_of(c, y.rows);
    (void)run;
    (void)err;
    if (row > 0 && fault_value(c->use, "from") == 1)
        memcpy(y.data + row * y.cols, y.data + (row - 1) * y.cols, (size_t)y.cols * sizeof *y.data);
    if (row < 0 || !k || fault_value(c->use, "from") == 1) return ERR_OK;
    int e = entry_of(k, c->place, which);
    bool held = e < KEPT && k->entry[e].op && k->entry[e].n >= (row + 1) * y.cols;
    for (int64_t i = 0; i < y.cols; i++)
        y.data[row * y.cols + i] = held ? k->entry[e].data[row * y.cols + i] : 0;
    return ERR_OK;
}

#define WITH_OUTPUTS(name, edit)                                                                   \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_outputs(c, arg, run, edit, err);                                               \
    }

WITH_OUTPUTS(any_nan, make_nan)
WITH_OUTPUTS(any_inf, make_inf)
WITH_OUTPUTS(bit_flip, flip_bit)
WITH_OUTPUTS(zero_row, zero_one_row)
WITH_OUTPUTS(stale_row, keep_row)
WITH_OUTPUTS(transposed, transpose)
WITH_OUTPUTS(off_by_one_row, take_next_row)
WITH_OUTPUTS(uninitialised, leave_tile)

static const double tries_output[] = {0, 1, NAN};
static const double tries_bit[] = {6, 7, 8, 9, 13, 14, 15, NAN};
static const double tries_by[] = {1, -1, NAN};
static const double tries_two[] = {0, 1, NAN};
static const double tries_tile[] = {8, 16, 32, 64, 128, NAN};

#define ANY .hosts = {"any"}, .detector = "diff"
#define KEY_OP                                                                                     \
    {                                                                                              \
        .name = "op", .dflt = -1, .fit = FIT_OP, .about = "op, by name; every one"                 \
    }
#define KEY_ROW KEY_SITE("row", "row; one by hash where not given")
#define KEY_COL KEY_SITE("col", "column; one by hash where not given")
#define WHERE                                                                                      \
    KEY_OP, KEY_LAYER, KEY_STEP, KEY_SITE("call", "call at the site, from 0; every one"),          \
        KEY_TRY("output", -1, tries_output, "which of the op's outputs, from 0; every one")

const struct fault_row fault_rows_any[] = {
    {.id = "any.nan",
     ANY,
     .keys = {WHERE, KEY_ROW, KEY_COL},
     .wrap = any_nan,
     .edit = "one cell is NaN",
     .source = "B020, B051, B102"},
    {.id = "any.inf",
     ANY,
     .keys = {WHERE, KEY_ROW, KEY_COL},
     .wrap = any_inf,
     .edit = "one cell is infinite",
     .source = "B050, B161"},
    {.id = "any.bit_flip",
     ANY,
     .wrap = bit_flip,
     .keys = {WHERE, KEY_ROW, KEY_COL, KEY_TRY("bit", 7, tries_bit, "bit of the bf16 value")},
     .edit = "one bit of one cell is inverted",
     .source = "B052, B111, B114"},
    {.id = "any.zero_row",
     ANY,
     .keys = {WHERE, KEY_ROW},
     .wrap = zero_row,
     .edit = "one row is zero",
     .source = "B094, B097, B098"},
    {.id = "any.stale_row",
     ANY,
     .keys = {WHERE, KEY_ROW,
              KEY_TRY("from", 0, tries_two, "0: the call before, 1: the row before")},
     .wrap = stale_row,
     .watch = keep_outputs,
     .forget = forget,
     .edit = "one row holds what the call before left there, or the row before it",
     .source = "B022, B057, B162"},
    {.id = "any.transposed",
     ANY,
     .keys = {WHERE, KEY_TRY("way", 0, tries_two, "0: so read, 1: so written")},
     .wrap = transposed,
     .edit = "the output is read, or written, as [columns, rows]",
     .source = "B059, B109"},
    {.id = "any.off_by_one_row",
     ANY,
     .keys = {WHERE,
              {.name = "by", .dflt = 1, .fit = FIT_TRY, .tries = tries_by, .about = "rows"},
              KEY_TRY("edge", 0, tries_two, "at the last: 0 its own, 1 the first one's")},
     .wrap = off_by_one_row,
     .edit = "a row holds what belongs to the next one, or to the one before",
     .source = "B086, B093, B095, B107"},
    {.id = "any.uninitialised",
     ANY,
     .wrap = uninitialised,
     .keys = {WHERE, KEY_ROW, KEY_COL, KEY_TRY("tile", 32, tries_tile, "columns of the tile")},
     .edit = "a tile of one row is never written",
     .source = "B057, B070, B159"},
    {0},
};
