/* bench_against.c: see bench_against.h. */
#include "harness/bench_against.h"

#include "core/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three whole runs on three H200s (2026-11-29 and 30, reports/measured/gpu-h200.json and its
 * history): of 93 pairs of rows 88 differed by no more than this beyond half of each one's spread;
 * with 1 % it were 69. */
static const double DRIFT = 0.04;

double bench_noise(double spread, double other)
{
    return spread / 2 + other / 2 + DRIFT;
}

/* ---- the recorded run ---- */

static enum err_code check_row(const json_t *row, size_t i, const char *file, struct err *err)
{
    const char *text;
    double seconds;
    char where[512];
    snprintf(where, sizeof where, "%.400s, row %zu", file, i);
    if (!json_is_object(row))
        return err_set(err, ERR_INPUT, "bench --against|%s|%s|an object", where, json_kind(row));
    if (json_text_or(row, "op", "", where, &text, err) != ERR_OK ||
        json_text_or(row, "case", "", where, &text, err) != ERR_OK ||
        json_text_or(row, "on", "", where, &text, err) != ERR_OK ||
        json_double_or(row, "spread", 0, where, &seconds, err) != ERR_OK ||
        json_double(row, "seconds", where, &seconds, err) != ERR_OK)
        return err->code;
    if (!(seconds > 0) || !isfinite(seconds))
        return err_set(err, ERR_INPUT, "bench --against|%s|seconds %g|more than 0", where, seconds);
    return ERR_OK;
}

static enum err_code check_rows(const struct bench_against *b, struct err *err)
{
    const json_t *row;
    size_t i;
    json_array_foreach(b->rows, i, row)
    {
        if (check_row(row, i, b->file, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

enum err_code bench_against_open(struct bench_against *b, const char *file, struct err *err)
{
    *b = (struct bench_against){.file = file, .device = ""};
    if (json_read(file, &b->root, err) != ERR_OK) return err->code;
    const json_t *run = json_object_get(b->root, "bench");
    if (!json_is_object(run)) run = b->root;
    b->rows = json_object_get(run, "rows");
    if (json_array_size(b->rows) == 0)
        return err_set(err, ERR_INPUT, "bench --against|%s|no rows|what assay bench --json printed",
                       file);
    if (json_text_or(run, "device", "", file, &b->device, err) != ERR_OK ||
        check_rows(b, err) != ERR_OK)
        return err->code;
    b->met = calloc(json_array_size(b->rows), sizeof *b->met);
    return b->met ? ERR_OK : err_set(err, ERR_MEMORY, "bench||no memory");
}

void bench_against_close(struct bench_against *b)
{
    json_decref(b->root);
    free(b->met);
    *b = (struct bench_against){0};
}

/* ---- a row ---- */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static double number_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static bool same(const json_t *a, const json_t *b)
{
    const char *x = text_of(a, "case"), *y = text_of(b, "case");
    size_t n = strcspn(x, ";");
    return strcmp(text_of(a, "op"), text_of(b, "op")) == 0 &&
           strcmp(text_of(a, "on"), text_of(b, "on")) == 0 && n == strcspn(y, ";") &&
           strncmp(x, y, n) == 0;
}

static const json_t *find(struct bench_against *b, const json_t *row)
{
    const json_t *old;
    size_t i;
    json_array_foreach(b->rows, i, old)
    {
        if (!same(row, old)) continue;
        b->met[i] = true;
        return old;
    }
    return NULL;
}

/* A ratio is as far from 1 in both directions: twice as fast and half as fast are one distance. */
static const char *verdict(struct bench_against *b, double ratio, double noise)
{
    if (ratio > 1 + noise) return b->faster++, "faster";
    if (1 / ratio > 1 + noise) return b->slower++, "slower";
    return b->noise++, "noise";
}

enum err_code bench_against_row(struct bench_against *b, json_t *row, struct err *err)
{
    const json_t *old = find(b, row);
    json_t *said;
    if (old) {
        double seconds = number_of(old, "seconds"), spread = number_of(old, "spread");
        double ratio = seconds / number_of(row, "seconds");
        double noise = bench_noise(number_of(row, "spread"), spread);
        said = json_pack("{s:s, s:f, s:f, s:f, s:f, s:s}", "verdict", verdict(b, ratio, noise),
                         "ratio", ratio, "noise", noise, "seconds", seconds, "spread", spread,
                         "case", text_of(old, "case"));
    } else {
        b->fresh++;
        said = json_pack("{s:s}", "verdict", "new");
    }
    if (!said || json_object_set_new(row, "against", said) != 0)
        return err_set(err, ERR_MEMORY, "bench||no memory");
    return ERR_OK;
}

json_t *bench_against_json(const struct bench_against *b,
                           bool (*wanted)(const void *ctx, const char *op), const void *ctx)
{
    json_t *missing = json_array();
    const json_t *old;
    size_t i;
    json_array_foreach(b->rows, i, old)
    {
        if (b->met[i] || (wanted && !wanted(ctx, text_of(old, "op")))) continue;
        json_array_append_new(missing,
                              json_sprintf("%s: %s", text_of(old, "op"), text_of(old, "case")));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "file", b->file, "device", b->device,
                     "faster", b->faster, "slower", b->slower, "noise", b->noise, "new", b->fresh,
                     "missing", missing);
}
