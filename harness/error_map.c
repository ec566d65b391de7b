/* error_map.c: see error_map.h. */
#include "harness/error_map.h"

#include <math.h>
#include <stdlib.h>

enum { GROUP = 32, LEVELS = 100 };

/* Sums of squares of a block's difference. */
struct grid {
    int64_t row_step, col_step, rows, cols; /* rows and columns of cells */
    double cell[ERROR_MAP_SIDE][ERROR_MAP_SIDE];
    double truth; /* sum of squares of all of it */
    int64_t elements;
};

int64_t error_map_step(int64_t n)
{
    const int64_t lines = (n + ERROR_MAP_SIDE - 1) / ERROR_MAP_SIDE;
    int64_t step = 1;
    if (lines > GROUP) return (lines + GROUP - 1) / GROUP * GROUP;
    while (step < lines) step *= 2;
    return step;
}

static void read_row(const struct dump_tap *t, int64_t row, double *out)
{
    const char *at = (const char *)t->tensor->data + row * t->cols * dtype_size(t->tensor->dtype);
    dtype_to_f64(t->tensor->dtype, at, t->cols, out);
}

static void add_row(struct grid *g, int64_t row, int64_t cols, const double *subject,
                    const double *truth)
{
    double *cell = g->cell[row / g->row_step];
    for (int64_t c = 0; c < cols; c++) {
        const double s = subject[c], t = truth[c], d = s - t;
        const bool same = s == t || (isnan(s) && isnan(t)); /* inf beside inf too */
        cell[c / g->col_step] += same ? 0 : d * d;
        if (isfinite(t)) g->truth += t * t;
    }
    g->elements += cols;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static json_t *level(const struct grid *g, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    const int64_t high = least(g->row_step, rows - row * g->row_step),
                  wide = least(g->col_step, cols - col * g->col_step);
    const double sum = g->cell[row][col], size = (double)high * (double)wide;
    const double relative = sqrt(sum / size) / sqrt(g->truth / (double)g->elements);
    if (sum == 0) return json_null();
    if (!isfinite(relative)) return json_string("inf");
    return json_integer((json_int_t)lround(LEVELS * log10(relative)));
}

static json_t *levels(const struct grid *g, int64_t rows, int64_t cols)
{
    json_t *all = json_array();
    for (int64_t r = 0; r < g->rows; r++) {
        json_t *line = json_array();
        for (int64_t c = 0; c < g->cols; c++)
            json_array_append_new(line, level(g, r, c, rows, cols));
        json_array_append_new(all, line);
    }
    return all;
}

/* The coarsest first: ranks, then heads; where there are any, they say more. */
static json_t *divisions(const struct dump_tap *t, int64_t heads, int64_t ranks)
{
    json_t *list = json_array();
    if (ranks > 1 && t->cols % ranks == 0)
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "what", "ranks", "size", (json_int_t)(t->cols / ranks)));
    if (heads > 1 && t->cols % heads == 0)
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "what", "heads", "size", (json_int_t)(t->cols / heads)));
    if (t->known && t->kind == TAP_ROUTER_LOGITS)
        json_array_append_new(list,
                              json_pack("{s:s, s:I}", "what", "experts", "size", (json_int_t)1));
    if (t->cols > GROUP)
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "what", "groups of 32", "size", (json_int_t)GROUP));
    return list;
}

enum err_code error_map_make(const struct pair *p, const int64_t *map, int64_t heads, int64_t ranks,
                             json_t **out, struct err *err)
{
    const struct dump_tap *s = p->subject, *t = p->truth;
    struct grid *g = calloc(1, sizeof *g);
    double *cells = calloc((size_t)s->cols * 2 + 1, sizeof *cells);
    if (!g || !cells) {
        free(g);
        free(cells);
        return err_set(err, ERR_MEMORY, "map of an error|%s|no memory", s->name);
    }
    g->row_step = error_map_step(s->rows);
    g->col_step = error_map_step(s->cols);
    g->rows = (s->rows + g->row_step - 1) / g->row_step;
    g->cols = (s->cols + g->col_step - 1) / g->col_step;
    for (int64_t r = 0; r < s->rows; r++) {
        const int64_t at = map ? map[r] : r;
        if (at < 0) continue;
        read_row(s, r, cells);
        read_row(t, at, cells + s->cols);
        add_row(g, r, s->cols, cells, cells + s->cols);
    }
    *out = json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "tap", s->name, "rows",
                     (json_int_t)s->rows, "cols", (json_int_t)s->cols, "row_step",
                     (json_int_t)g->row_step, "col_step", (json_int_t)g->col_step, "divisions",
                     divisions(s, heads, ranks), "levels", levels(g, s->rows, s->cols));
    free(g);
    free(cells);
    return *out ? ERR_OK : err_set(err, ERR_MEMORY, "map of an error|%s|no memory", s->name);
}
