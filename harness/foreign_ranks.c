/* foreign_ranks.c: a folder of ranks and forward passes in our own layout, as
 * compat/python/assay_taps.py writes it; see foreign_parts.h.
 *
 *   step0.rank0.safetensors    a dump (dump.h) whose __metadata__ has also
 *       assay.rank, assay.ranks, assay.step   numbers
 *       assay.shards   {"layers.0.q": 1}: the axis of which this file holds a part; others: copies
 *       assay.counts   {"layers.0.q": 1, ...}: how often each expected tap came; once is right */
#include "harness/foreign_parts.h"

#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rank_files_is(const char *folder, const struct listing *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        struct err err = ERR_INIT;
        struct st_file f;
        char path[FILE_PATH];
        if (!text_ends(l->names[i], ".safetensors") ||
            file_join(folder, l->names[i], path, &err) != ERR_OK)
            continue;
        const bool is = st_open(&f, path, &err) == ERR_OK && st_meta(&f, "assay.rank");
        st_close(&f);
        return is;
    }
    return false;
}

static enum err_code number(const struct st_file *f, const char *key, int64_t *out, struct err *err)
{
    const char *text = st_meta(f, key);
    if (text && text_int(text, out) && *out >= 0 && *out < 1 << 20) return ERR_OK;
    return err_set(err, ERR_INPUT, "read dump|%s: %s|%.40s|a number", f->path, key,
                   text ? text : "nothing");
}

static enum err_code add_tensors(struct source *s, const struct st_file *f, struct err *err)
{
    const char *text = st_meta(f, "assay.shards");
    json_t *shards = NULL;
    if (json_parse(text ? text : "{}", text ? (int64_t)strlen(text) : 2, f->path, &shards, err) !=
        ERR_OK)
        return err->code;
    const bool streamed = s->streamed;
    s->streamed = false; /* it stays mapped */
    for (int64_t i = 0; i < f->count && err->code == ERR_OK; i++) {
        const json_t *axis = json_object_get(shards, f->tensors[i].name);
        const json_int_t at = json_integer_value(axis);
        if (axis && (!json_is_integer(axis) || at < 0 || at >= ST_DIMS))
            err_set(err, ERR_INPUT, "read dump|%s: assay.shards: %.80s|no axis|a number", f->path,
                    f->tensors[i].name);
        s->axis = axis ? (int)at : -1;
        if (err->code == ERR_OK) (void)!source_add(s, f->tensors[i].name, &f->tensors[i], err);
    }
    s->streamed = streamed;
    json_decref(shards);
    return err->code;
}

/* The worst count of any rank: whatever is not 1. */
static enum err_code add_counts(struct source *s, const struct st_file *f, struct err *err)
{
    const char *text = st_meta(f, "assay.counts"), *name;
    json_t *counts = NULL, *n;
    if (!text) return ERR_OK;
    if (json_parse(text, (int64_t)strlen(text), f->path, &counts, err) != ERR_OK) return err->code;
    if (!s->counts) s->counts = json_object();
    json_object_foreach(counts, name, n)
    {
        const json_t *was = json_object_get(s->counts, name);
        if (!was || json_integer_value(was) == 1) json_object_set(s->counts, name, n);
    }
    json_decref(counts);
    return ERR_OK;
}

static enum err_code read_one(struct source *s, const struct st_file *f, struct err *err)
{
    int64_t rank = 0, ranks = 0;
    if (number(f, "assay.rank", &rank, err) != ERR_OK ||
        number(f, "assay.ranks", &ranks, err) != ERR_OK)
        return err->code;
    s->files = rank;
    s->rank = (int)rank;
    s->ranks = (int)ranks;
    if (s->rank_count < s->ranks) s->rank_count = s->ranks;
    if (rank == 0) s->said = f;
    if (add_counts(s, f, err) != ERR_OK) return err->code;
    return add_tensors(s, f, err);
}

/* Files of other forward passes are opened for their header only. */
enum err_code rank_files_read(struct source *s, const char *folder, const struct listing *l,
                              struct err *err)
{
    int64_t *steps = calloc(2 * (size_t)l->count + 1, sizeof *steps), count = 0, step = 0;
    if (!steps) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", folder);
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        char path[FILE_PATH];
        struct st_file *f;
        if (text_ends(l->names[i], ".safetensors") &&
            file_join(folder, l->names[i], path, err) == ERR_OK &&
            source_safetensors(s, path, &f, err) == ERR_OK)
            (void)!number(f, "assay.step", &steps[count++], err);
        else if (err->code == ERR_OK && source_is_file(l->names[i]))
            err_set(err, ERR_INPUT, "read dump|%s: %.100s|another format|dumps of ranks alone",
                    folder, l->names[i]);
    }
    memcpy(steps + l->count, steps, (size_t)count * sizeof *steps); /* in the order of files */
    if (err->code == ERR_OK) (void)!source_step(s, steps, count, &step, err);
    for (int64_t i = 0; i < count && err->code == ERR_OK; i++) {
        if (steps[l->count + i] == step) (void)!read_one(s, s->st[i], err);
    }
    free(steps);
    return err->code;
}
