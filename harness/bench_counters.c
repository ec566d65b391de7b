/* bench_counters.c: see bench_counters.h. */
#include "harness/bench_counters.h"

#include "core/file.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 2048, NUMBER = 64 }; /* the card's attributes are columns too, hundreds of them */

static const char *const MARK = "bench_case";

/* What is read of a kernel, and how launches come together. */
enum { SECONDS, READ, WRITTEN, TENSOR, METRICS };
static const struct {
    const char *name; /* a column begins with it */
    double unit;
} metrics[METRICS] = {
    [SECONDS] = {"gpu__time_duration", 1e-9},
    [READ] = {"dram__bytes_read", 1},
    [WRITTEN] = {"dram__bytes_write", 1},
    [TENSOR] = {"sm__pipe_tensor", 0.01},
};

/* Where columns are; -1: not there. */
struct columns {
    int kernel, grid, metric[METRICS];
};

struct record {
    char *field[FIELDS]; /* in the line itself */
    int fields;
};

/* ---- one line ---- */

/* Fields in quotes, quotes in them doubled, with commas between. Takes the line apart. */
static void split(char *line, struct record *out)
{
    out->fields = 0;
    while (*line == '"' && out->fields < FIELDS) {
        char *to = ++line;
        out->field[out->fields++] = to;
        for (; *line && (line[0] != '"' || line[1] == '"'); line++) {
            if (line[0] == '"') line++;
            *to++ = *line;
        }
        bool more = line[0] && line[1] == ',';
        if (*line) line += more ? 2 : 1;
        *to = '\0';
    }
}

static bool find_columns(const struct record *r, struct columns *out)
{
    *out = (struct columns){-1, -1, {-1, -1, -1, -1}};
    for (int i = 0; i < r->fields; i++) {
        if (strcmp(r->field[i], "Kernel Name") == 0) out->kernel = i;
        if (strcmp(r->field[i], "Grid Size") == 0) out->grid = i;
        for (int m = 0; m < METRICS; m++) {
            if (text_starts(r->field[i], metrics[m].name)) out->metric[m] = i;
        }
    }
    return out->kernel >= 0 && out->grid >= 0 && out->metric[SECONDS] >= 0;
}

/* NaN: no such column, or no number there. Thousands may stand apart by commas. */
static double number_of(const struct record *r, int column)
{
    char digits[NUMBER];
    double value;
    int n = 0;
    if (column < 0 || column >= r->fields) return NAN;
    for (const char *s = r->field[column]; *s && n < NUMBER - 1; s++) {
        if (*s != ',') digits[n++] = *s;
    }
    digits[n] = '\0';
    return text_double(digits, &value) ? value : NAN;
}

/* ---- kernels of a case ---- */

static json_t *kernel_of(json_t *kernels, const char *name)
{
    json_t *k;
    size_t i;
    json_array_foreach(kernels, i, k)
    {
        if (strcmp(json_string_value(json_object_get(k, "kernel")), name) == 0) return k;
    }
    k = json_pack("{s:s, s:i}", "kernel", name, "launches", 0);
    json_array_append_new(kernels, k);
    return k;
}

static void add(json_t *kernel, const char *key, double value)
{
    double before = json_number_value(json_object_get(kernel, key));
    json_object_set_new(kernel, key, json_real(before + value)); /* not where that is no number */
}

static void add_launch(json_t *kernels, const struct record *r, const struct columns *at)
{
    double value[METRICS];
    json_t *k = kernel_of(kernels, r->field[at->kernel]);
    for (int m = 0; m < METRICS; m++) value[m] = number_of(r, at->metric[m]) * metrics[m].unit;
    json_object_set_new(k, "launches",
                        json_integer(json_integer_value(json_object_get(k, "launches")) + 1));
    add(k, "seconds", value[SECONDS]);
    add(k, "bytes", value[READ] + value[WRITTEN]);
    add(k, "tensor_seconds", value[TENSOR] * value[SECONDS]);
}

/* The case that a marker's grid "(7, 1, 1)" begins, made where it is new; NULL: no such grid. */
static json_t *case_of(struct bench_counters *b, const char *grid)
{
    char number[NUMBER];
    int at = 0;
    if (sscanf(grid, "(%d", &at) != 1 || at < 1) return NULL;
    snprintf(number, sizeof number, "%d", at);
    if (!json_object_get(b->cases, number)) json_object_set_new(b->cases, number, json_array());
    return json_object_get(b->cases, number);
}

/* ---- the file ---- */

struct reading {
    struct bench_counters *b;
    struct columns at;
    bool headed;
    json_t *kernels; /* of the case at hand; NULL before the first */
    struct record record;
};

/* The line below the names, which holds units, comes before the first case. */
static void read_line(struct reading *r, char *line)
{
    if (text_starts(line, "==ERROR==")) json_array_append_new(r->b->said, json_string(line));
    if (line[0] != '"') return;
    split(line, &r->record);
    if (!r->headed) {
        r->headed = find_columns(&r->record, &r->at);
        return;
    }
    if (r->record.fields <= r->at.grid) return;
    if (strcmp(r->record.field[r->at.kernel], MARK) == 0)
        r->kernels = case_of(r->b, r->record.field[r->at.grid]);
    else if (r->kernels)
        add_launch(r->kernels, &r->record, &r->at);
}

static enum err_code read_lines(struct bench_counters *b, const struct file_map *m, struct err *err)
{
    struct reading *r = calloc(1, sizeof *r);
    char *text = malloc((size_t)m->size + 1);
    if (!r || !text) {
        free(r);
        free(text);
        return err_set(err, ERR_MEMORY, "bench||no memory");
    }
    if (m->size > 0) memcpy(text, m->data, (size_t)m->size);
    text[m->size] = '\0';
    r->b = b;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        read_line(r, line);
    }
    free(text);
    free(r);
    return ERR_OK;
}

enum err_code bench_counters_open(struct bench_counters *b, const char *file, struct err *err)
{
    struct file_map m;
    *b = (struct bench_counters){.file = file, .cases = json_object(), .said = json_array()};
    if (!b->cases || !b->said) return err_set(err, ERR_MEMORY, "bench||no memory");
    if (file_map(file, &m, err) != ERR_OK) return err->code;
    (void)!read_lines(b, &m, err);
    file_unmap(&m);
    if (err->code == ERR_OK && json_object_size(b->cases) == 0 && json_array_size(b->said) == 0)
        return err_set(
            err, ERR_INPUT,
            "bench --counters|%s|no counted kernel behind a launch of %s, and no error of "
            "the profiler|what ncu --csv --page raw wrote of assay bench",
            file, MARK);
    return err->code;
}

void bench_counters_close(struct bench_counters *b)
{
    json_decref(b->cases);
    json_decref(b->said);
    *b = (struct bench_counters){0};
}

/* ---- beside a row ---- */

static json_t *figures(const json_t *k, const struct bench_ceilings *c)
{
    double seconds = json_number_value(json_object_get(k, "seconds"));
    const json_t *bytes = json_object_get(k, "bytes"), *busy = json_object_get(k, "tensor_seconds");
    json_t *out = json_object();
    json_object_set(out, "kernel", json_object_get(k, "kernel"));
    json_object_set(out, "launches", json_object_get(k, "launches"));
    if (!(seconds > 0)) return out;
    json_object_set_new(out, "seconds", json_real(seconds));
    if (bytes) {
        double rate = json_number_value(bytes) / seconds;
        json_object_set_new(out, "gbps", json_real(rate / 1e9));
        json_object_set_new(out, "read_share", json_real(rate / c->read));
    }
    if (busy)
        json_object_set_new(out, "tensor_share", json_real(json_number_value(busy) / seconds));
    return out;
}

void bench_counters_row(const struct bench_counters *b, int number, const struct bench_ceilings *c,
                        json_t *row)
{
    char key[NUMBER];
    const json_t *k;
    size_t i;
    snprintf(key, sizeof key, "%d", number);
    const json_t *kernels = json_object_get(b->cases, key);
    if (!kernels) return;
    json_t *list = json_array();
    json_array_foreach(kernels, i, k) json_array_append_new(list, figures(k, c));
    json_object_set_new(row, "counters", list);
}

void bench_counters_print(const json_t *row, FILE *out)
{
    const json_t *k;
    size_t i;
    json_array_foreach(json_object_get(row, "counters"), i, k)
    {
        fprintf(out, "  counted: %-36s %4lld x", json_string_value(json_object_get(k, "kernel")),
                (long long)json_integer_value(json_object_get(k, "launches")));
        if (json_object_get(k, "gbps"))
            fprintf(out, "  %8.1f GB/s, %5.1f %% of read",
                    json_number_value(json_object_get(k, "gbps")),
                    100 * json_number_value(json_object_get(k, "read_share")));
        if (json_object_get(k, "tensor_share"))
            fprintf(out, "  tensor cores %5.1f %%",
                    100 * json_number_value(json_object_get(k, "tensor_share")));
        fprintf(out, "\n");
    }
}

json_t *bench_counters_json(const struct bench_counters *b)
{
    return json_pack("{s:s, s:I, s:O}", "file", b->file, "cases",
                     (json_int_t)json_object_size(b->cases), "errors", b->said);
}
