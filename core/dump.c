/* dump.c: the reader of dump.h. */
#include "core/dump.h"

#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMPTY_ROWS_MAX = 1 << 20 };

/* A JSON array of whole numbers in the metadata; absent: *out stays NULL. */
static enum err_code meta_ints(const struct dump *d, const char *key, int64_t **out, int64_t *count,
                               struct err *err)
{
    const char *text = st_meta(&d->file, key);
    json_t *v = NULL;
    char where[FILE_PATH + 64];
    if (!text) return ERR_OK;
    snprintf(where, sizeof where, "%s: metadata %s", d->file.path, key);
    if (json_parse(text, (int64_t)strlen(text), where, &v, err) != ERR_OK) return err->code;
    if (!json_is_array(v))
        err_set(err, ERR_INPUT, "dump metadata|%s|%s|an array of whole numbers", where,
                json_kind(v));
    if (err->code == ERR_OK) {
        *count = (int64_t)json_array_size(v);
        *out = calloc((size_t)*count + 1, sizeof **out);
        if (!*out) err_set(err, ERR_MEMORY, "read dump|%s|no memory", where);
    }
    for (int64_t i = 0; err->code == ERR_OK && i < *count; i++) {
        const json_t *e = json_array_get(v, (size_t)i);
        if (!json_is_integer(e))
            err_set(err, ERR_INPUT, "dump metadata|%s: entry %lld|%s|a whole number", where,
                    (long long)i, json_kind(e));
        (*out)[i] = json_integer_value(e);
    }
    json_decref(v);
    return err->code;
}

static enum err_code meta_order(struct dump *d, struct err *err)
{
    const char *text = st_meta(&d->file, "assay.order");
    json_t *v = NULL;
    if (!text) return ERR_OK;
    if (json_parse(text, (int64_t)strlen(text), d->file.path, &v, err) != ERR_OK)
        return err_note(err, "metadata assay.order");
    d->promised = calloc(json_array_size(v) + 1, sizeof *d->promised);
    if (!json_is_array(v)) {
        err_set(err, ERR_INPUT, "dump metadata|%s: assay.order|%s|an array of names", d->file.path,
                json_kind(v));
    } else if (!d->promised) {
        err_set(err, ERR_MEMORY, "read dump|%s|no memory", d->file.path);
    }
    for (size_t i = 0; err->code == ERR_OK && i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        char *copy = name ? strdup(name) : NULL;
        if (!copy)
            err_set(err, ERR_INPUT, "dump metadata|%s: assay.order[%zu]|%s|a name", d->file.path, i,
                    json_kind(json_array_get(v, i)));
        else
            d->promised[d->promised_count++] = copy;
    }
    json_decref(v);
    return err->code;
}

static int by_order(const void *a, const void *b)
{
    const struct dump_tap *s = a, *t = b;
    if (s->order != t->order) return s->order < t->order ? -1 : 1;
    return strcmp(s->name, t->name);
}

static int by_name(const void *a, const void *b)
{
    const struct dump_tap *s = *(const struct dump_tap *const *)a,
                          *t = *(const struct dump_tap *const *)b;
    return strcmp(s->name, t->name);
}

static void index_names(struct dump *d)
{
    for (int64_t i = 0; i < d->count; i++) d->by_name[i] = &d->taps[i];
    qsort(d->by_name, (size_t)d->count, sizeof *d->by_name, by_name);
}

/* Execution order: as promised; a foreign dump takes the order of tap.h; what neither knows comes
 * last. */
static enum err_code order_taps(struct dump *d, struct err *err)
{
    d->by_name = calloc((size_t)d->count + 1, sizeof *d->by_name);
    if (!d->by_name) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", d->file.path);
    index_names(d);
    for (int64_t i = 0; i < d->count; i++) {
        struct dump_tap *t = &d->taps[i];
        t->order = d->promised_count + (t->known ? tap_rank(t->kind, t->layer) : TAP_RANK_END);
    }
    for (int64_t i = d->promised_count - 1; i >= 0; i--) { /* a name's first place holds */
        struct dump_tap *t = (struct dump_tap *)(uintptr_t)dump_find(d, d->promised[i]);
        if (t) t->order = i;
    }
    qsort(d->taps, (size_t)d->count, sizeof *d->taps, by_order);
    index_names(d);
    return ERR_OK;
}

/* A count that all taps of a class share: the first, and -1 from the first other one on. */
static void share_rows(int64_t *rows, int64_t of_tap)
{
    if (*rows == INT64_MAX) *rows = of_tap;
    if (*rows != of_tap) *rows = -1;
}

static enum err_code list_taps(struct dump *d, struct err *err)
{
    d->taps = calloc((size_t)d->file.count + 1, sizeof *d->taps);
    if (!d->taps) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", d->file.path);
    d->rows = d->draft_rows = INT64_MAX;
    for (int64_t i = 0; i < d->file.count; i++) {
        const struct st_tensor *s = &d->file.tensors[i];
        if (strcmp(s->name, "input_ids") == 0) continue;
        if (s->dims < 1 || (!dtype_is_float(s->dtype) && !dtype_is_int(s->dtype))) {
            char text[96];
            return err_set(err, ERR_INPUT,
                           "read dump|%s: %s|%s %s|a matrix of numbers, a row a token",
                           d->file.path, s->name, dtype_name(s->dtype),
                           st_shape_text(s->dims, s->shape, text, sizeof text));
        }
        if (s->bytes == 0 && s->shape[0] > EMPTY_ROWS_MAX) /* costs no byte of the file */
            return err_set(err, ERR_INPUT, "read dump|%s: %s|%lld rows without columns|at most %d",
                           d->file.path, s->name, (long long)s->shape[0], EMPTY_ROWS_MAX);
        struct dump_tap *t = &d->taps[d->count++];
        *t = (struct dump_tap){.name = s->name, .tensor = s, .rows = s->shape[0]};
        t->cols = s->shape[0] ? s->count / s->shape[0] : 0;
        t->known = tap_parse(s->name, &t->kind, &t->layer);
        share_rows(t->known && tap_is_draft(t->kind) ? &d->draft_rows : &d->rows, t->rows);
    }
    if (d->rows == INT64_MAX) d->rows = 0;
    if (d->draft_rows == INT64_MAX) d->draft_rows = 0;
    return order_taps(d, err);
}

/* The sequences must make up the batch. */
static enum err_code check_lengths(const struct dump *d, struct err *err)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < d->sequences; i++) {
        if (d->lengths[i] < 0 || __builtin_add_overflow(sum, d->lengths[i], &sum))
            return err_set(err, ERR_INPUT,
                           "dump metadata|%s: assay.lengths[%lld]|%lld|the length of a sequence",
                           d->file.path, (long long)i, (long long)d->lengths[i]);
    }
    if (d->lengths && d->tokens && sum != d->token_count)
        return err_set(
            err, ERR_INPUT,
            "dump metadata|%s: assay.lengths|%lld tokens in all|%lld, as there are tokens",
            d->file.path, (long long)sum, (long long)d->token_count);
    return ERR_OK;
}

/* assay.rows, n entries: rows of the batch that ascend. */
static enum err_code check_batch_rows(const struct dump *d, const int64_t *row, int64_t n,
                                      struct err *err)
{
    for (int64_t i = 0; i < n; i++) {
        bool inside = row[i] >= 0 && (!d->tokens || row[i] < d->token_count);
        if (!inside)
            return err_set(err, ERR_INPUT,
                           "dump metadata|%s: assay.rows[%lld]|%lld|a row of the batch",
                           d->file.path, (long long)i, (long long)row[i]);
        if (i > 0 && row[i] <= row[i - 1]) /* rows are matched in one pass */
            return err_set(err, ERR_INPUT,
                           "dump metadata|%s: assay.rows[%lld]|%lld after %lld|rows that ascend",
                           d->file.path, (long long)i, (long long)row[i], (long long)row[i - 1]);
    }
    return ERR_OK;
}

/* Rows of a file that says "last N": what a foreign dump of a long prompt says. -1: it does not. */
static int64_t last_rows(const struct dump *d)
{
    int64_t last;
    const char *rows = st_meta(&d->file, "rows");
    return rows && text_starts(rows, "last ") && text_int(rows + 5, &last) ? last : -1;
}

static bool has_plain_taps(const struct dump *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        if (!d->taps[i].known || !tap_is_draft(d->taps[i].kind)) return true;
    }
    return d->count == 0;
}

/* Which rows of the batch the file's rows are. */
static enum err_code map_rows(struct dump *d, struct err *err)
{
    int64_t n = 0;
    if (meta_ints(d, "assay.rows", &d->batch_row, &n, err) != ERR_OK) return err->code;
    if (d->batch_row && d->rows < 0)
        return err_set(
            err, ERR_INPUT,
            "dump metadata|%s: assay.rows|taps of different row counts|the same in all taps",
            d->file.path);
    if (d->batch_row && !has_plain_taps(d)) d->rows = n;
    if (d->batch_row && n != d->rows)
        return err_set(err, ERR_INPUT, "dump metadata|%s: assay.rows|%lld entries|%lld, one a row",
                       d->file.path, (long long)n, (long long)d->rows);
    if (check_batch_rows(d, d->batch_row, n, err) != ERR_OK) return err->code;
    if (d->batch_row || d->rows < 0 || !has_plain_taps(d)) return ERR_OK;
    bool tail = last_rows(d) == d->rows;
    if (tail && d->token_count < d->rows)
        return ERR_OK; /* its place is known only beside a longer dump */
    if (!tail && d->tokens && d->token_count != d->rows)
        return err_set(err, ERR_INPUT, "dump metadata|%s: tokens|%lld|%lld, one a row",
                       d->file.path, (long long)d->token_count, (long long)d->rows);
    if (tail || d->tokens) {
        d->batch_row = calloc((size_t)d->rows + 1, sizeof *d->batch_row);
        if (!d->batch_row) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", d->file.path);
        for (int64_t i = 0; i < d->rows; i++)
            d->batch_row[i] = tail ? d->token_count - d->rows + i : i;
    }
    return ERR_OK;
}

int64_t dump_draft_rows(int64_t rows, const int64_t *lengths, int64_t sequences, int64_t *draft)
{
    int64_t n = 0, begin = 0;
    if (!lengths) sequences = 1;
    for (int64_t s = 0; s < sequences; s++) {
        int64_t end = lengths ? begin + lengths[s] : rows;
        for (int64_t r = begin; r < end && r < rows; r++) draft[r] = r + 1 < end ? n++ : -1;
        begin = end;
    }
    for (int64_t r = begin; r < rows; r++) draft[r] = -1;
    return n;
}

/* The same for draft taps: those rows of the file that have a token behind them. */
static enum err_code map_draft_rows(struct dump *d, struct err *err)
{
    if (d->draft_rows <= 0 || !d->tokens) return ERR_OK;
    int64_t *draft = calloc((size_t)d->token_count + 1, sizeof *draft), n = 0;
    d->draft_row = calloc((size_t)d->draft_rows + 1, sizeof *d->draft_row);
    if (!draft || !d->draft_row) {
        free(draft);
        return err_set(err, ERR_MEMORY, "read dump|%s|no memory", d->file.path);
    }
    d->draft_total = dump_draft_rows(d->token_count, d->lengths, d->sequences, draft);
    int64_t last = last_rows(d);
    bool tail = (last == d->draft_rows || last == d->rows) && d->draft_rows <= d->draft_total;
    int64_t rows = d->batch_row ? d->rows : d->token_count;
    for (int64_t i = 0; i < rows && !tail; i++) {
        int64_t at = draft[d->batch_row ? d->batch_row[i] : i];
        if (at >= 0 && n++ < d->draft_rows) d->draft_row[n - 1] = at;
    }
    for (; tail && n < d->draft_rows; n++) d->draft_row[n] = d->draft_total - d->draft_rows + n;
    free(draft);
    if (n == d->draft_rows) return ERR_OK;
    return err_set(err, ERR_INPUT,
                   "dump metadata|%s: draft taps|%lld rows|%lld, of tokens that "
                   "have one behind them",
                   d->file.path, (long long)d->draft_rows, (long long)n);
}

static const char *meta_text(const struct dump *d, const char *key)
{
    const char *text = st_meta(&d->file, key);
    return text ? text : "";
}

enum err_code dump_open(struct dump *d, const char *path, struct err *err)
{
    *d = (struct dump){0};
    if (st_open(&d->file, path, err) != ERR_OK || meta_order(d, err) != ERR_OK ||
        list_taps(d, err) != ERR_OK)
        return err->code;
    const char *key = st_meta(&d->file, "assay.tokens") ? "assay.tokens" : "tokens";
    if (meta_ints(d, key, &d->tokens, &d->token_count, err) != ERR_OK ||
        meta_ints(d, "assay.lengths", &d->lengths, &d->sequences, err) != ERR_OK ||
        check_lengths(d, err) != ERR_OK)
        return err->code;
    d->engine = meta_text(d, st_meta(&d->file, "assay.engine") ? "assay.engine" : "engine");
    d->profile = meta_text(d, "assay.profile");
    d->config_sha256 = meta_text(d, "assay.config_sha256");
    d->checkpoint = meta_text(d, "assay.checkpoint");
    return map_rows(d, err) == ERR_OK ? map_draft_rows(d, err) : err->code;
}

void dump_close(struct dump *d)
{
    for (int64_t i = 0; i < d->promised_count; i++) free(d->promised[i]);
    free(d->promised);
    free(d->taps);
    free(d->by_name);
    free(d->tokens);
    free(d->lengths);
    free(d->batch_row);
    free(d->draft_row);
    st_close(&d->file);
    *d = (struct dump){0};
}

const struct dump_tap *dump_find(const struct dump *d, const char *name)
{
    const struct dump_tap key = {.name = name}, *at = &key;
    if (d->by_name) {
        const struct dump_tap **hit =
            bsearch(&at, d->by_name, (size_t)d->count, sizeof *d->by_name, by_name);
        return hit ? *hit : NULL;
    }
    for (int64_t i = 0; i < d->count; i++) { /* a dump that was not read from a file */
        if (strcmp(d->taps[i].name, name) == 0) return &d->taps[i];
    }
    return NULL;
}
