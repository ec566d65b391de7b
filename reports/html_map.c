/* html_map.c: see html_parts.h. */
#include "reports/html_parts.h"

#include "reports/fields.h"
#include "reports/markup.h"

#include <math.h>

enum {
    SIDE_MAX = 64, /* cells of a side */
    GRIDS_MAX = 6, /* divisions that can be switched; as many as the style sheet has rules for */
    WIDTH = 860,
    LEFT = 70,
    TOP = 10,
    SHADES = 10,
    SPAN = 300 /* three decades below the worst, in levels, from shade 0 to 9 */
};

struct map {
    const json_t *o, *levels;
    size_t rows, cols;     /* cells */
    long long worst;       /* level; only finite ones */
    double cell_w, cell_h; /* pixels */
};

static long long worst_level(const json_t *levels)
{
    const json_t *row, *v;
    size_t i, k;
    bool any = false;
    long long worst = 0;
    json_array_foreach(levels, i, row)
    {
        json_array_foreach(row, k, v)
        {
            if (!json_is_integer(v) || (any && json_integer_value(v) <= worst)) continue;
            worst = json_integer_value(v);
            any = true;
        }
    }
    return worst;
}

static bool map_read(const json_t *r, struct map *m)
{
    m->o = json_object_get(r, "error_map");
    m->levels = json_object_get(m->o, "levels");
    m->rows = json_array_size(m->levels);
    m->cols = json_array_size(json_array_get(m->levels, 0));
    if (m->rows == 0 || m->cols == 0 || m->rows > SIDE_MAX || m->cols > SIDE_MAX ||
        int_at(m->o, "cols") <= 0 || int_at(m->o, "row_step") <= 0 || int_at(m->o, "col_step") <= 0)
        return false;
    m->worst = worst_level(m->levels);
    m->cell_w = (double)(WIDTH - LEFT - 10) / (double)m->cols;
    m->cell_h = m->rows > 32 ? 8 : m->rows > 12 ? 12 : 22;
    return true;
}

/* What a level stands for. */
static double relative(long long level)
{
    return pow(10, (double)level / 100);
}

/* Shade of a level, or -1 for none. */
static int shade_of(const struct map *m, const json_t *v)
{
    if (!json_is_integer(v)) return -1;
    const long long below = m->worst - json_integer_value(v);
    return below >= SPAN ? 0 : (int)((SPAN - below) * (SHADES - 1) / SPAN);
}

static void put_range(FILE *out, const char *what, long long at, long long step, long long of)
{
    const long long last = (at + 1) * step < of ? (at + 1) * step - 1 : of - 1;
    fprintf(out, "%s %lld", what, at * step);
    if (last > at * step) fprintf(out, " to %lld", last);
}

static void put_cell(const struct map *m, size_t row, size_t col, FILE *out)
{
    const json_t *v = json_array_get(json_array_get(m->levels, row), col);
    const int shade = shade_of(m, v);
    if (shade < 0 && !json_is_string(v)) return;
    fprintf(out, "<rect class=\"cell c%c\" x=%.1f y=%.1f width=%.1f height=%.1f><title>",
            shade < 0 ? 'i' : (char)('0' + shade), LEFT + (double)col * m->cell_w,
            TOP + (double)row * m->cell_h, m->cell_w, m->cell_h);
    put_range(out, "row", (long long)row, int_at(m->o, "row_step"), int_at(m->o, "rows"));
    put_range(out, ", column", (long long)col, int_at(m->o, "col_step"), int_at(m->o, "cols"));
    if (shade < 0)
        fputs(": not finite</title></rect>\n", out);
    else
        fprintf(out, ": %.2g</title></rect>\n", relative(json_integer_value(v)));
}

/* What is finer than a cell cannot be seen in it. */
static bool is_shown(const struct map *m, const json_t *division)
{
    return int_at(division, "size") >= int_at(m->o, "col_step");
}

/* Lines at every multiple of a division's size, within the columns. */
static void put_grid(const struct map *m, const json_t *division, int number, FILE *out)
{
    const long long size = int_at(division, "size"), cols = int_at(m->o, "cols");
    const double bottom = TOP + (double)m->rows * m->cell_h;
    const double pixels = m->cell_w / (double)int_at(m->o, "col_step");
    for (long long at = size; at < cols && is_shown(m, division); at += size)
        fprintf(out, "<line class=\"grid g%d\" x1=%.1f x2=%.1f y1=%d y2=%.1f />\n", number,
                LEFT + (double)at * pixels, LEFT + (double)at * pixels, TOP, bottom);
}

static void put_switches(const struct map *m, int number, FILE *out)
{
    const json_t *d;
    size_t i;
    bool first = true;
    json_array_foreach(json_object_get(m->o, "divisions"), i, d)
    {
        if (i >= GRIDS_MAX) break;
        if (is_shown(m, d)) {
            fprintf(out, "<input type=checkbox class=t%zu id=m%dt%zu%s><label for=m%dt%zu>", i,
                    number, i, first ? " checked" : "", number, i);
            first = false;
        } else {
            fputs("<span class=dim>finer than a block: ", out);
        }
        markup_short(out, text_at(d, "what"), 60);
        fprintf(out, " (%lld columns)</%s>\n", int_at(d, "size"),
                is_shown(m, d) ? "label" : "span");
    }
}

static void put_axes(const struct map *m, FILE *out)
{
    const double bottom = TOP + (double)m->rows * m->cell_h;
    const size_t down = (m->rows + 7) / 8, right = (m->cols + 7) / 8;
    for (size_t r = 0; r < m->rows; r += down)
        fprintf(out, "<text class=d x=%d y=%.1f text-anchor=end>row %lld</text>\n", LEFT - 6,
                TOP + (double)r * m->cell_h + 10, (long long)r * int_at(m->o, "row_step"));
    for (size_t c = 0; c < m->cols; c += right)
        fprintf(out, "<text class=d x=%.1f y=%.1f>%lld</text>\n", LEFT + (double)c * m->cell_w,
                bottom + 16, (long long)c * int_at(m->o, "col_step"));
    fprintf(out, "<text x=%d y=%.1f text-anchor=middle>column</text>\n", (WIDTH + LEFT) / 2,
            bottom + 34);
    fprintf(out, "<rect class=frame x=%d y=%d width=%d height=%.1f />\n", LEFT, TOP,
            WIDTH - LEFT - 10, bottom - TOP);
}

void html_map(const json_t *r, int number, FILE *out)
{
    struct map m;
    const json_t *d;
    size_t i;
    if (!map_read(r, &m)) return;
    fputs("<h3>Where the error lies: ", out);
    markup_short(out, text_at(m.o, "tap"), 200);
    fprintf(out,
            "</h3>\n<p class=dim>RMS of the difference in each block of %lld rows by %lld columns, "
            "over the RMS of the whole truth. Full colour: %.2g, each shade a third of a decade "
            "less; empty: equal; black or white: not finite.</p>\n<div class=map>\n",
            int_at(m.o, "row_step"), int_at(m.o, "col_step"), relative(m.worst));
    put_switches(&m, number, out);
    const double height = TOP + (double)m.rows * m.cell_h + 42;
    fprintf(out,
            "<svg role=img aria-label=\"Map of the error by rows and columns\" width=%d "
            "height=%.0f viewBox=\"0 0 %d %.0f\">\n",
            WIDTH, height, WIDTH, height);
    for (size_t row = 0; row < m.rows; row++) {
        for (size_t col = 0; col < m.cols; col++) put_cell(&m, row, col, out);
    }
    json_array_foreach(json_object_get(m.o, "divisions"), i, d)
    {
        if (i < GRIDS_MAX) put_grid(&m, d, (int)i, out);
    }
    put_axes(&m, out);
    fputs("</svg></div>\n", out);
}
