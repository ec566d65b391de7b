/* tokens.c: see tokens.h. */
#include "harness/tokens.h"

#include "core/file.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

static enum err_code add_id(struct tokens *t, int64_t id, const char *where, struct err *err)
{
    if ((t->count & (t->count - 1)) == 0) { /* room doubles at powers of two */
        int64_t *more = realloc(t->id, (size_t)(t->count ? t->count * 2 : 1) * sizeof *more);
        if (!more) return err_set(err, ERR_MEMORY, "read tokens|%s|no memory", where);
        t->id = more;
    }
    if (id < 0)
        return err_set(err, ERR_INPUT, "read tokens|%s: token %lld|%lld|0 or more", where,
                       (long long)t->count, (long long)id);
    t->id[t->count++] = id;
    return ERR_OK;
}

static enum err_code end_sequence(struct tokens *t, int64_t began, const char *where,
                                  struct err *err)
{
    if (t->count == began)
        return err_set(err, ERR_INPUT, "read tokens|%s: sequence %lld|no tokens|at least one",
                       where, (long long)t->sequences);
    int64_t *more = realloc(t->length, (size_t)(t->sequences + 1) * sizeof *more);
    if (!more) return err_set(err, ERR_MEMORY, "read tokens|%s|no memory", where);
    t->length = more;
    t->length[t->sequences++] = t->count - began;
    return ERR_OK;
}

static enum err_code add_array(struct tokens *t, const json_t *array, const char *where,
                               struct err *err)
{
    int64_t began = t->count;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_integer(v))
            return err_set(err, ERR_INPUT, "read tokens|%s: entry %zu|%s|a whole number", where, i,
                           json_kind(v));
        if (add_id(t, json_integer_value(v), where, err) != ERR_OK) return err->code;
    }
    return end_sequence(t, began, where, err);
}

static enum err_code add_json(struct tokens *t, const json_t *v, const char *where, struct err *err)
{
    if (json_is_object(v)) {
        const json_t *field = json_object_get(v, "tokens");
        if (!field) field = json_object_get(v, "input_ids");
        if (!field)
            return err_set(
                err, ERR_INPUT,
                "read tokens|%s|an object without them|a field \"tokens\" or \"input_ids\"", where);
        v = field;
    }
    if (!json_is_array(v))
        return err_set(err, ERR_INPUT, "read tokens|%s|%s|an array", where, json_kind(v));
    if (!json_is_array(json_array_get(v, 0))) return add_array(t, v, where, err);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *row = json_array_get(v, i);
        if (!json_is_array(row))
            return err_set(err, ERR_INPUT, "read tokens|%s: sequence %zu|%s|an array", where, i,
                           json_kind(row));
        if (add_array(t, row, where, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

enum err_code tokens_parse_json(const char *text, int64_t size, const char *where,
                                struct tokens *out, struct err *err)
{
    json_t *v;
    *out = (struct tokens){0};
    if (json_parse(text, size, where, &v, err) != ERR_OK) return err->code;
    enum err_code rc = add_json(out, v, where, err);
    json_decref(v);
    return rc;
}

static enum err_code read_lines(const struct file_map *m, const char *path, struct tokens *out,
                                struct err *err)
{
    const char *at = (const char *)m->data, *end = at + m->size;
    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        json_t *v = NULL;
        const char *word = at; /* the mapping does not end in NUL */
        while (word < stop && strchr(" \t\r", *word) && *word) word++;
        bool blank = word == stop;
        if (!blank && json_parse(at, stop - at, path, &v, err) == ERR_OK)
            (void)!add_json(out, v, path, err);
        if (v) json_decref(v);
        if (err->code != ERR_OK)
            return err_note(err, "line %lld of the JSONL file", (long long)line);
        at = stop + 1;
    }
    return ERR_OK;
}

static enum err_code read_safetensors(const char *path, struct tokens *out, struct err *err)
{
    struct st_file f;
    if (st_open(&f, path, err) == ERR_OK) {
        const struct st_tensor *t = st_find(&f, "input_ids");
        if (!t || !dtype_is_int(t->dtype) || t->dims < 1 || t->dims > 2)
            err_set(err, ERR_INPUT, "read tokens|%s|%s|an integer tensor input_ids [T] or [B, T]",
                    path, t ? "input_ids of another kind" : "no input_ids");
        int64_t rows = t && t->dims == 2 ? t->shape[0] : 1, cols = t && rows ? t->count / rows : 0;
        for (int64_t r = 0; err->code == ERR_OK && r < rows; r++) {
            int64_t began = out->count;
            for (int64_t c = 0; err->code == ERR_OK && c < cols; c++)
                (void)!add_id(out, dtype_int_at(t->dtype, t->data, r * cols + c), path, err);
            if (err->code == ERR_OK) (void)!end_sequence(out, began, path, err);
        }
    }
    st_close(&f);
    return err->code;
}

static enum err_code read_file(const char *path, struct tokens *out, struct err *err)
{
    struct file_map m;
    if (text_ends(path, ".safetensors")) return read_safetensors(path, out, err);
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    const char *text = m.data ? (const char *)m.data : "";
    if (text_ends(path, ".jsonl"))
        (void)!read_lines(&m, path, out, err);
    else
        (void)!tokens_parse_json(text, m.size, path, out, err);
    file_unmap(&m);
    return err->code;
}

static enum err_code read_list(const char *text, struct tokens *out, struct err *err)
{
    for (bool more = text[0] != '\0'; more;) {
        char number[32];
        int64_t id;
        size_t n = strcspn(text, ",");
        if (n == 0 || n >= sizeof number)
            return err_set(err, ERR_INPUT,
                           "read tokens|--tokens: token %lld|\"%.*s\"|a whole number",
                           (long long)out->count, (int)n, text);
        memcpy(number, text, n);
        number[n] = '\0';
        if (!text_int(number, &id))
            return err_set(err, ERR_INPUT, "read tokens|--tokens: token %lld|\"%s\"|a whole number",
                           (long long)out->count, number);
        if (add_id(out, id, "--tokens", err) != ERR_OK) return err->code;
        more = text[n] == ','; /* a comma promises another one */
        text += n + more;
    }
    return end_sequence(out, 0, "--tokens", err);
}

enum err_code tokens_read(const char *spec, struct tokens *out, struct err *err)
{
    *out = (struct tokens){0};
    bool file = spec[0] == '@', list = spec[strspn(spec, "0123456789,- ")] == '\0';
    if (!file && list && !file_exists(spec)) return read_list(spec, out, err);
    if (read_file(spec + file, out, err) != ERR_OK) return err->code;
    /* A file of blank lines, or a tensor [0, N]: no sequence at all. */
    return out->count
               ? ERR_OK
               : err_set(err, ERR_INPUT, "read tokens|%s|no tokens|at least one", spec + file);
}

enum err_code tokens_copy(const int64_t *id, int64_t n, const int64_t *length, int64_t sequences,
                          struct tokens *out, struct err *err)
{
    *out = (struct tokens){0};
    int64_t at = 0;
    for (int64_t s = 0; s < (length ? sequences : 1); s++) {
        int64_t began = out->count, end = length ? at + length[s] : n;
        if (end > n || end < at)
            return err_set(
                err, ERR_INPUT,
                "read tokens|sequence %lld|a length past the tokens|lengths that sum to %lld",
                (long long)s, (long long)n);
        for (; at < end; at++) {
            if (add_id(out, id[at], "dump metadata", err) != ERR_OK) return err->code;
        }
        if (end_sequence(out, began, "dump metadata", err) != ERR_OK) return err->code;
    }
    return at == n
               ? ERR_OK
               : err_set(err, ERR_INPUT, "read tokens|dump metadata|lengths that sum to %lld|%lld",
                         (long long)at, (long long)n);
}

enum err_code tokens_check(const struct tokens *t, int64_t vocab, struct err *err)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (t->id[i] >= vocab)
            return err_set(err, ERR_INPUT, "token id|token %lld|%lld|0 to %lld, the vocabulary",
                           (long long)i, (long long)t->id[i], (long long)vocab - 1);
    }
    return ERR_OK;
}

void tokens_free(struct tokens *t)
{
    free(t->id);
    free(t->length);
    *t = (struct tokens){0};
}
