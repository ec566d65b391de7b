/* html_plot.c: see html_parts.h. */
#include "reports/html_parts.h"

#include "reports/fields.h"

#include <math.h>

enum { WIDTH = 860, HEIGHT = 320, LEFT = 70, TOP = 16, RIGHT = 16, BOTTOM = 44, DECADES_MAX = 12 };
enum { SERIES = 3 };

static const struct {
    const char *key, *label;
} series[SERIES] = {
    {"subject", "subject"}, {"profile", "reference in the subject's profile"}, {"bound", "bound"}};

/* Decades of the y axis, points of the x axis. */
struct axes {
    int low, high;
    size_t points;
};

/* A number that a log scale can hold, or NAN; infinite for one that is not finite in the result. */
static double value_at(const json_t *point, const char *key)
{
    const json_t *v = json_object_get(point, key);
    if (json_is_string(v)) return INFINITY;
    const double x = json_is_number(v) ? json_number_value(v) : 0;
    return x > 0 ? x : NAN;
}

static struct axes axes_of(const json_t *growth)
{
    struct axes a = {0, 0, json_array_size(growth)};
    double low = INFINITY, high = 0;
    const json_t *point;
    size_t i;
    json_array_foreach(growth, i, point)
    {
        for (int s = 0; s < SERIES; s++) {
            const double v = value_at(point, series[s].key);
            if (!isfinite(v)) continue;
            low = fmin(low, v);
            high = fmax(high, v);
        }
    }
    if (!(high > 0)) low = high = 1;
    a.low = (int)floor(log10(low));
    a.high = (int)ceil(log10(high));
    if (a.high == a.low) a.high++;
    if (a.high - a.low > DECADES_MAX) a.low = a.high - DECADES_MAX;
    return a;
}

static double x_of(const struct axes *a, size_t i)
{
    const double width = WIDTH - LEFT - RIGHT;
    return LEFT + (a->points > 1 ? width * (double)i / (double)(a->points - 1) : width / 2);
}

/* What is below the axis lies on it. */
static double y_of(const struct axes *a, double v)
{
    const double share = (log10(v) - a->low) / (a->high - a->low);
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * fmax(0, fmin(1, share));
}

static void put_axes(const json_t *growth, const struct axes *a, FILE *out)
{
    const size_t step = (a->points + 15) / 16;
    for (int d = a->low; d <= a->high; d++) {
        const double y = y_of(a, pow(10, d));
        fprintf(out,
                "<line class=axis x1=%d x2=%d y1=%.1f y2=%.1f /><text class=d x=%d y=%.1f "
                "text-anchor=end>1e%d</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 8, y + 4, d);
    }
    for (size_t i = 0; i < a->points; i += step)
        fprintf(out, "<text class=d x=%.1f y=%d text-anchor=middle>%lld</text>\n", x_of(a, i),
                HEIGHT - BOTTOM + 18, int_at(json_array_get(growth, i), "layer"));
    fprintf(out, "<text x=%d y=%d text-anchor=middle>layer</text>\n", (WIDTH + LEFT) / 2,
            HEIGHT - 8);
}

/* The line, broken where there is no value, and a mark for each point. */
static void put_series(const json_t *growth, const struct axes *a, int s, FILE *out)
{
    bool pen = false;
    fprintf(out, "<path class=l%d d=\"", s);
    for (size_t i = 0; i < a->points; i++) {
        const double v = value_at(json_array_get(growth, i), series[s].key);
        if (isfinite(v)) fprintf(out, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(a, i), y_of(a, v));
        pen = isfinite(v);
    }
    fputs("\"/>\n", out);
    for (size_t i = 0; i < a->points; i++) {
        const json_t *point = json_array_get(growth, i);
        const double v = value_at(point, series[s].key);
        if (isnan(v)) continue;
        if (isinf(v))
            fprintf(out, "<path class=px d=\"M%.1f %dl6 10h-12z\">", x_of(a, i), TOP);
        else
            fprintf(out, "<circle class=p%d cx=%.1f cy=%.1f r=3>", s, x_of(a, i), y_of(a, v));
        char text[32];
        fprintf(out, "<title>layer %lld, %s: %s</title></%s>\n", int_at(point, "layer"),
                series[s].label, isinf(v) ? "not finite" : html_number(point, series[s].key, text),
                isinf(v) ? "path" : "circle");
    }
}

static void put_legend(FILE *out)
{
    fputs("<p aria-hidden=true>", out);
    for (int s = 0; s < SERIES; s++)
        fprintf(out,
                "<svg width=44 height=12 viewBox=\"0 0 44 12\" style=\"display:inline\"><path "
                "class=l%d d=\"M0 6H40\"/><circle class=p%d cx=20 cy=6 r=3 /></svg>%s &emsp;",
                s, s, series[s].label);
    fputs("</p>\n", out);
}

static void put_table(const json_t *growth, FILE *out)
{
    const json_t *point;
    size_t i;
    char text[32];
    fputs("<details><summary>The same as a table</summary><div class=scroll><table><thead><tr>"
          "<th class=n>layer",
          out);
    for (int s = 0; s < SERIES; s++) fprintf(out, "<th class=n>%s", series[s].label);
    fputs("</thead><tbody>\n", out);
    json_array_foreach(growth, i, point)
    {
        fprintf(out, "<tr><td class=n>%lld", int_at(point, "layer"));
        for (int s = 0; s < SERIES; s++)
            html_element(out, "td class=n", html_number(point, series[s].key, text));
        fputc('\n', out);
    }
    fputs("</tbody></table></div></details>\n", out);
}

void html_plot(const json_t *r, FILE *out)
{
    const json_t *growth = json_object_get(r, "growth");
    if (json_array_size(growth) == 0) return;
    const struct axes a = axes_of(growth);
    fprintf(out,
            "<h3>Error by layer</h3>\n<p class=dim>Relative RMS at the output of each layer%s, "
            "log scale.</p>\n",
            json_is_true(json_object_get(r, "anchored"))
                ? ", every op from the subject's own inputs: each layer's own error"
                : "");
    put_legend(out);
    fprintf(out,
            "<svg role=img aria-label=\"Error by layer; the values are in the table below\" "
            "width=%d height=%d viewBox=\"0 0 %d %d\">\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_axes(growth, &a, out);
    for (int s = SERIES - 1; s >= 0; s--) put_series(growth, &a, s, out);
    fputs("</svg>\n", out);
    put_table(growth, out);
}
