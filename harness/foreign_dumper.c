/* foreign_dumper.c: a folder of SGLang's dumper; see foreign_parts.h.
 *
 *   step=0___rank=1___dump_index=7___name=attn_out___recompute_status=disabled___layer_id=3.pt
 *       {"value": tensor, "meta": {"name": ..., "dims": "t h[tp]", "world_size": 2,
 *        "sglang_parallel_info": {"tp_rank": 1, "tp_size": 2, ...}}}
 *
 * Older versions have forward_pass_id or curr_step for step. A tensor is called by its name,
 * without "non_intrusive__"; where it has a layer_id that the name does not say, ".ID" stands
 * behind it; any other tag of the caller stands behind that as ".key=value". Values that are no
 * tensors (text ids of requests) are passed over. With `dims` the ranks are joined as it says;
 * without, they must hold the same, or the map says which axis is cut. Refused: data-parallel
 * attention (each rank has other tokens), gradients beside values under one name. Source:
 * sgl-project/sglang@00d3554, python/sglang/srt/debug_utils/dumper.py */
#include "harness/foreign_dims.h"
#include "harness/foreign_parts.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAGS_MAX = 24 };

struct tags {
    char text[FILE_PATH];
    const char *key[TAGS_MAX], *value[TAGS_MAX];
    int count;
};

static bool parse(const char *name, struct tags *t)
{
    *t = (struct tags){0};
    if (!text_ends(name, ".pt") || snprintf(t->text, sizeof t->text, "%s", name) >= FILE_PATH)
        return false;
    t->text[strlen(t->text) - 3] = '\0';
    for (char *at = t->text, *next; at; at = next) {
        next = strstr(at, "___");
        if (next) *next = '\0';
        char *equals = strchr(at, '=');
        if (!equals || t->count == TAGS_MAX) return false;
        *equals = '\0';
        t->key[t->count] = at;
        t->value[t->count++] = equals + 1;
        if (next) next += 3;
    }
    return true;
}

static const char *tag(const struct tags *t, const char *key)
{
    for (int i = 0; i < t->count; i++) {
        if (strcmp(t->key[i], key) == 0) return t->value[i];
    }
    return NULL;
}

static bool tag_int(const struct tags *t, const char *key, int64_t *n)
{
    const char *v = tag(t, key);
    return v && text_int(v, n) && *n >= 0;
}

static bool step_of(const struct tags *t, int64_t *n)
{
    return tag_int(t, "step", n) || tag_int(t, "forward_pass_id", n) || tag_int(t, "curr_step", n);
}

static bool parse_all(const char *name, struct tags *t, int64_t *step, int64_t *rank)
{
    return parse(name, t) && tag(t, "name") && step_of(t, step) && tag_int(t, "rank", rank);
}

bool dumper_is(const struct listing *l)
{
    struct tags t;
    int64_t step, rank;
    for (int64_t i = 0; i < l->count; i++) {
        if (parse_all(l->names[i], &t, &step, &rank)) return true;
    }
    return false;
}

/* ---- names ---- */

/* Tags that say where and when, not what. */
static bool is_place(const char *key)
{
    static const char *const keys[] = {"step",       "forward_pass_id",  "curr_step", "rank",
                                       "dump_index", "recompute_status", "name",      "layer_id",
                                       "pp_rank",    "tp_rank",          "cp_rank",   "ep_rank",
                                       "etp_rank"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i]) == 0) return true;
    }
    return false;
}

/* "model.layers.3.mlp" says layer 3 itself. */
static bool says_layer(const char *name, const char *layer)
{
    char part[48];
    if (snprintf(part, sizeof part, "layers.%.20s", layer) >= (int)sizeof part) return false;
    const char *at = strstr(name, part);
    return at && (at[strlen(part)] == '.' || at[strlen(part)] == '\0');
}

static enum err_code name_of(const struct tags *t, const char *path, char out[MAP_NAME],
                             struct err *err)
{
    const char *prefix = "non_intrusive__", *name = tag(t, "name"), *layer = tag(t, "layer_id");
    if (text_starts(name, prefix)) name += strlen(prefix);
    const bool said = !layer || says_layer(name, layer);
    int n = snprintf(out, MAP_NAME, "%s%s%s", name, said ? "" : ".", said ? "" : layer);
    for (int i = 0; i < t->count && n < MAP_NAME; i++) {
        if (!is_place(t->key[i]))
            n += snprintf(out + n, (size_t)(MAP_NAME - n), ".%s=%s", t->key[i], t->value[i]);
    }
    if (n < MAP_NAME) return ERR_OK;
    return err_set(err, ERR_INPUT, "read dump|%.150s|a name of %d bytes|fewer than %d", path, n,
                   MAP_NAME);
}

/* ---- what a file says of its rank ---- */

static int64_t number(const struct pt_value *dict, const char *key, int64_t otherwise)
{
    const struct pt_value *v = dict ? pt_get(dict, key) : NULL;
    return v && v->kind == PT_INT ? v->whole : otherwise;
}

static enum err_code read_place(struct source *s, const struct pt_value *meta, int64_t rank,
                                const char *path, struct err *err)
{
    const struct pt_value *info = meta ? pt_get(meta, "sglang_parallel_info") : NULL;
    const struct pt_value *dims = meta ? pt_get(meta, "dims") : NULL;
    const bool grouped = number(info, "tp_size", 0) > 0;
    const int64_t tp = grouped ? number(info, "tp_size", 1) : number(meta, "world_size", 0);
    const struct dims_groups groups = {.tp = (int)tp,
                                       .cp = (int)number(info, "attn_cp_size", 1),
                                       .ep = (int)number(info, "moe_ep_size", 1),
                                       .sp = 1};
    int axes;
    s->files = rank;
    s->rank = (int)(grouped ? number(info, "tp_rank", rank) : rank);
    s->ranks = 0;
    s->axis = -1;
    if (s->rank < 0 || tp < 0 || tp > 1 << 16)
        return err_set(err, ERR_INPUT, "read dump|%.150s|rank %d of %lld|0 or more", path, s->rank,
                       (long long)tp);
    if (s->rank_count < tp) s->rank_count = (int)tp;
    if (s->rank_count <= s->rank) s->rank_count = s->rank + 1;
    if (number(info, "attn_dp_size", 1) > 1)
        return err_set(err, ERR_INPUT,
                       "read dump|%.150s|attention over %lld data-parallel ranks|1: each has other "
                       "tokens, and nothing says which",
                       path, (long long)number(info, "attn_dp_size", 1));
    if (!dims || dims->kind != PT_TEXT) return ERR_OK;
    s->ranks = (int)tp;
    return dims_parse(dims->text, &groups, path, &s->axis, &axes, err);
}

static enum err_code read_one(struct source *s, const char *folder, const char *file,
                              const struct tags *t, int64_t rank, struct err *err)
{
    char path[FILE_PATH], name[MAP_NAME];
    struct pt_file f;
    if (file_join(folder, file, path, err) != ERR_OK || name_of(t, path, name, err) != ERR_OK ||
        pt_open(&f, path, err) != ERR_OK)
        return err->code;
    const struct pt_value *value = pt_get(&f.root, "value");
    if (read_place(s, value ? pt_get(&f.root, "meta") : NULL, rank, path, err) == ERR_OK)
        (void)!source_flatten(s, value ? value : &f.root, name, err);
    pt_close(&f);
    return err->code;
}

/* ---- the folder ---- */

static enum err_code read_step(struct source *s, const char *folder, const struct listing *l,
                               int64_t wanted, struct err *err)
{
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        struct tags t;
        int64_t step, rank;
        if (parse_all(l->names[i], &t, &step, &rank) && step == wanted)
            (void)!read_one(s, folder, l->names[i], &t, rank, err);
    }
    return err->code;
}

enum err_code dumper_read(struct source *s, const char *folder, const struct listing *l,
                          struct err *err)
{
    int64_t *steps = calloc((size_t)l->count + 1, sizeof *steps), count = 0, step = 0, rank;
    if (!steps) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", folder);
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        struct tags t;
        if (parse_all(l->names[i], &t, &step, &rank))
            steps[count++] = step;
        else if (source_is_file(l->names[i]))
            err_set(err, ERR_INPUT, "read dump|%s: %.100s|no file of SGLang's dumper|them alone",
                    folder, l->names[i]);
    }
    if (err->code == ERR_OK && source_step(s, steps, count, &step, err) == ERR_OK)
        (void)!read_step(s, folder, l, step, err);
    free(steps);
    return err->code;
}
