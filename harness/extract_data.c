/* extract_data.c: see extract_data.h. */
#include "harness/extract_data.h"

#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one sample ---- */

static enum err_code make_room(struct extract_sample *s, size_t count, struct err *err)
{
    s->count = (int64_t)count;
    s->id = calloc(count, sizeof *s->id);
    s->mask = calloc(count, sizeof *s->mask);
    if (!s->id || !s->mask)
        return err_set(err, ERR_MEMORY, "read sample|sample %lld|no memory", (long long)s->number);
    for (size_t i = 0; i < count; i++) s->mask[i] = 1;
    return ERR_OK;
}

void extract_sample_free(struct extract_sample *s)
{
    free(s->id);
    free(s->mask);
    s->id = s->mask = NULL;
    s->count = 0;
}

/* Sample and line, the way messages name them. */
static const char *place_of(const struct extract_data *d, const struct extract_sample *s,
                            char text[64])
{
    int n = snprintf(text, 64, "sample %lld", (long long)s->number);
    if (d->map.data) snprintf(text + n, 64 - (size_t)n, " (line %lld)", (long long)d->line);
    return text;
}

/* Whole numbers of an array, each in [0, end). */
static void read_numbers(const struct extract_data *d, struct extract_sample *s, const json_t *from,
                         const char *field, int64_t end, const char *what, int64_t *out)
{
    char place[64];
    for (size_t i = 0; i < json_array_size(from); i++) {
        const json_t *v = json_array_get(from, i);
        out[i] = json_is_integer(v) ? json_integer_value(v) : -1;
        if (json_is_integer(v) && out[i] >= 0 && out[i] < end) continue;
        char found[32];
        snprintf(found, sizeof found, "%lld", (long long)out[i]);
        err_set(&s->bad, ERR_INPUT, "read sample|%s: %s[%zu]|%s|0 to %lld, %s",
                place_of(d, s, place), field, i, json_is_integer(v) ? found : json_kind(v),
                (long long)end - 1, what);
        return;
    }
}

static void check_length(const struct extract_data *d, struct extract_sample *s, size_t count)
{
    char place[64];
    if (count == 0)
        err_set(&s->bad, ERR_INPUT, "read sample|%s|no tokens|at least one", place_of(d, s, place));
    else if ((int64_t)count > d->limits.length_max)
        err_set(&s->bad, ERR_INPUT, "read sample|%s|%zu tokens|at most %lld", place_of(d, s, place),
                count, (long long)d->limits.length_max);
}

static void read_mask(const struct extract_data *d, struct extract_sample *s, const json_t *mask)
{
    char place[64];
    s->masked = true;
    if (!json_is_array(mask))
        err_set(&s->bad, ERR_INPUT, "read sample|%s: loss_mask|%s|an array", place_of(d, s, place),
                json_kind(mask));
    else if ((int64_t)json_array_size(mask) != s->count)
        err_set(&s->bad, ERR_INPUT, "read sample|%s: loss_mask|%zu entries|%lld, as input_ids has",
                place_of(d, s, place), json_array_size(mask), (long long)s->count);
    else
        read_numbers(d, s, mask, "loss_mask", 2, "whether the token counts", s->mask);
}

/* [1, 5, 9] or {"input_ids": [1, 5, 9], "loss_mask": [0, 1, 1]}. */
static enum err_code read_json_sample(const struct extract_data *d, struct extract_sample *s,
                                      const json_t *v, struct err *err)
{
    char place[64];
    const json_t *ids = v, *mask = NULL;
    if (json_is_object(v)) {
        ids = json_object_get(v, "input_ids");
        if (!ids) ids = json_object_get(v, "tokens");
        if (json_has(v, "loss_mask")) mask = json_object_get(v, "loss_mask");
    }
    if (!json_is_array(ids)) {
        err_set(&s->bad, ERR_INPUT,
                "read sample|%s|%s|an array of token ids, or an object with "
                "input_ids",
                place_of(d, s, place), ids ? json_kind(ids) : "an object without them");
        return ERR_OK;
    }
    check_length(d, s, json_array_size(ids));
    if (s->bad.code != ERR_OK) return ERR_OK;
    if (make_room(s, json_array_size(ids), err) != ERR_OK) return err->code;
    read_numbers(d, s, ids, "input_ids", d->limits.vocab, "the vocabulary", s->id);
    if (mask && s->bad.code == ERR_OK) read_mask(d, s, mask);
    if (s->bad.code != ERR_OK) extract_sample_free(s);
    return ERR_OK;
}

/* ---- JSONL ---- */

/* The line at *at, and the position behind it. False at the end. */
static bool next_line(const struct file_map *m, int64_t *at, const char **line, int64_t *size)
{
    if (*at >= m->size) return false;
    *line = (const char *)m->data + *at;
    const char *stop = memchr(*line, '\n', (size_t)(m->size - *at));
    *size = stop ? stop - *line : m->size - *at;
    *at += *size + (stop ? 1 : 0);
    return true;
}

static bool is_blank(const char *line, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    }
    return true;
}

static void count_lines(struct extract_data *d)
{
    const char *line;
    int64_t at = 0, size;
    while (next_line(&d->map, &at, &line, &size)) d->total += !is_blank(line, size);
}

static enum err_code next_of_lines(struct extract_data *d, struct extract_sample *s,
                                   struct err *err)
{
    const char *line = NULL;
    char place[64];
    int64_t size = 0;
    json_t *v = NULL;
    do {
        d->line++;
    } while (next_line(&d->map, &d->at, &line, &size) && is_blank(line, size));
    if (json_parse(line, size, place_of(d, s, place), &v, &s->bad) != ERR_OK) return ERR_OK;
    (void)!read_json_sample(d, s, v, err);
    json_decref(v);
    return err->code;
}

/* ---- the other kinds ---- */

/* The samples of a JSON file as an array. */
static json_t *list_of(json_t *v)
{
    const json_t *ids = json_is_object(v) ? json_object_get(v, "input_ids") : NULL;
    if (json_is_object(v) && !ids) ids = json_object_get(v, "tokens");
    const json_t *batch = ids ? ids : v, *first = json_array_get(batch, 0);
    bool many = json_is_array(batch) && (json_is_array(first) || json_is_object(first));
    if (many || (json_is_array(v) && !first)) return json_incref((json_t *)(uintptr_t)batch);
    return json_pack("[O]", v);
}

static enum err_code open_json(struct extract_data *d, struct err *err)
{
    json_t *v = NULL;
    if (digest_file(d->path, d->sha256, err) != ERR_OK || json_read(d->path, &v, err) != ERR_OK)
        return err->code;
    d->list = list_of(v);
    json_decref(v);
    if (!d->list) return err_set(err, ERR_MEMORY, "read samples|%s|no memory", d->path);
    d->total = (int64_t)json_array_size(d->list);
    return ERR_OK;
}

static enum err_code next_of_tokens(struct extract_data *d, struct extract_sample *s,
                                    struct err *err)
{
    char place[64];
    const int64_t *id = d->tokens.id + d->token;
    int64_t count = d->tokens.length[s->number];
    d->token += count;
    check_length(d, s, (size_t)count);
    for (int64_t i = 0; i < count && s->bad.code == ERR_OK; i++) {
        if (id[i] >= d->limits.vocab)
            err_set(&s->bad, ERR_INPUT,
                    "read sample|%s: input_ids[%lld]|%lld|0 to %lld, the "
                    "vocabulary",
                    place_of(d, s, place), (long long)i, (long long)id[i],
                    (long long)d->limits.vocab - 1);
    }
    if (s->bad.code != ERR_OK) return ERR_OK;
    if (make_room(s, (size_t)count, err) != ERR_OK) return err->code;
    memcpy(s->id, id, (size_t)count * sizeof *id);
    return ERR_OK;
}

static enum err_code open_tokens(struct extract_data *d, const char *spec, bool list,
                                 struct err *err)
{
    if (tokens_read(spec, &d->tokens, err) != ERR_OK) return err->code;
    d->total = d->tokens.sequences;
    return list ? digest_sha256(spec, (int64_t)strlen(spec), spec, d->sha256, err)
                : digest_file(spec, d->sha256, err);
}

static enum err_code open_lines(struct extract_data *d, struct err *err)
{
    if (file_map(d->path, &d->map, err) != ERR_OK ||
        digest_sha256(d->map.data ? (const void *)d->map.data : "", d->map.size, d->path, d->sha256,
                      err) != ERR_OK)
        return err->code;
    count_lines(d);
    return ERR_OK;
}

enum err_code extract_data_open(struct extract_data *d, const char *spec, struct err *err)
{
    bool file = spec[0] == '@' || file_exists(spec);
    bool list = !file && spec[0] && spec[strspn(spec, "0123456789,- ")] == '\0';
    *d = (struct extract_data){.limits = {INT64_MAX, INT64_MAX}};
    int n = snprintf(d->path, sizeof d->path, "%s", spec + (spec[0] == '@'));
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "path|--data|%d bytes|fewer than %d", n, FILE_PATH);
    if (list || text_ends(d->path, ".safetensors"))
        (void)!open_tokens(d, list ? spec : d->path, list, err);
    else if (text_ends(d->path, ".jsonl"))
        (void)!open_lines(d, err);
    else
        (void)!open_json(d, err);
    if (err->code == ERR_OK && d->total == 0)
        err_set(err, ERR_INPUT, "read samples|%s|none|at least one", d->path);
    return err->code;
}

void extract_data_close(struct extract_data *d)
{
    file_unmap(&d->map);
    json_decref(d->list);
    tokens_free(&d->tokens);
    *d = (struct extract_data){0};
}

enum err_code extract_data_next(struct extract_data *d, struct extract_sample *out, bool *more,
                                struct err *err)
{
    *out = (struct extract_sample){.number = d->next, .bad = ERR_INIT};
    *more = d->next < d->total;
    if (!*more) return ERR_OK;
    d->next++;
    if (d->map.data)
        (void)!next_of_lines(d, out, err);
    else if (d->list)
        (void)!read_json_sample(d, out, json_array_get(d->list, (size_t)out->number), err);
    else
        (void)!next_of_tokens(d, out, err);
    if (err->code != ERR_OK) extract_sample_free(out);
    return err->code;
}
