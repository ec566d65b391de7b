/* foreign.c: see foreign.h. Layouts are turned in foreign_layout.c. */
#include "harness/foreign.h"

#include "core/json.h"
#include "core/npy.h"
#include "core/pt.h"
#include "core/text.h"
#include "harness/foreign_layout.h"
#include "harness/taps_write.h"
#include "harness/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A tensor of the foreign file under its flat name. */
struct found {
    char name[MAP_NAME];
    struct st_tensor tensor;
};

struct source {
    const char *path;
    struct st_file st;
    struct pt_file pt;
    struct npy_file npy;
    struct found *found;
    int64_t count, room;
    struct arena arena;
    struct map map;
    struct assay_tap *taps;
    int64_t tap_count, tap_room;
    char *tokens; /* JSON, or NULL */
    bool *used;   /* [map.count] */
};

static enum err_code add_found(struct source *s, const char *name, const struct st_tensor *t,
                               struct err *err)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        struct found *more = realloc(s->found, (size_t)s->room * sizeof *more);
        if (!more) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
        s->found = more;
    }
    struct found *f = &s->found[s->count++];
    f->tensor = *t;
    if (snprintf(f->name, sizeof f->name, "%s", name) >= MAP_NAME)
        return err_set(err, ERR_INPUT, "read dump|%s: %.64s...|a name of %zu bytes|fewer than %d",
                       s->path, name, strlen(name), MAP_NAME);
    return ERR_OK;
}

/* Tensors of a tree; names are joined by dots. What is no tensor is passed over. */
static enum err_code flatten(struct source *s, const struct pt_value *v, const char *prefix,
                             struct err *err)
{
    char name[MAP_NAME + 32];
    if (v->kind == PT_TENSOR) return add_found(s, prefix[0] ? prefix : "tensor", v->tensor, err);
    bool list = v->kind == PT_LIST || v->kind == PT_TUPLE;
    for (int64_t i = 0; (list || v->kind == PT_DICT) && i < v->count && err->code == ERR_OK; i++) {
        const char *dot = prefix[0] ? "." : "";
        int n = 0;
        if (list)
            n = snprintf(name, sizeof name, "%s%s%lld", prefix, dot, (long long)i);
        else if (v->keys[i].kind == PT_TEXT)
            n = snprintf(name, sizeof name, "%s%s%s", prefix, dot, v->keys[i].text);
        else if (v->keys[i].kind == PT_INT)
            n = snprintf(name, sizeof name, "%s%s%lld", prefix, dot, (long long)v->keys[i].whole);
        else
            continue;
        if (n >= (int)sizeof name)
            return err_set(err, ERR_INPUT,
                           "read dump|%s: %.64s...|a name of %d bytes|fewer than %d", s->path, name,
                           n, MAP_NAME);
        (void)!flatten(s, &v->items[i], name, err);
    }
    return err->code;
}

/* "layers.0.attn" of "dir/layers.0.attn.npy" */
static const char *stem(const char *path, char out[MAP_NAME])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, MAP_NAME, "%s", slash ? slash + 1 : path);
    if (text_ends(out, ".npy")) out[strlen(out) - 4] = '\0';
    return out;
}

enum format { FORMAT_SAFETENSORS, FORMAT_PT, FORMAT_NPY };

/* By the file's name. */
static enum format format_of(const char *path)
{
    static const struct {
        const char *end;
        enum format format;
    } ends[] = {{".pt", FORMAT_PT},  {".pth", FORMAT_PT},  {".ckpt", FORMAT_PT},
                {".bin", FORMAT_PT}, {".npy", FORMAT_NPY}, {".npz", FORMAT_NPY}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (text_ends(path, ends[i].end)) return ends[i].format;
    }
    return FORMAT_SAFETENSORS;
}

static enum err_code read_npy(struct source *s, struct err *err)
{
    char name[MAP_NAME];
    if (npy_open(&s->npy, s->path, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < s->npy.count && err->code == ERR_OK; i++) {
        const struct st_tensor *t = &s->npy.tensors[i];
        (void)!add_found(s, t->name && t->name[0] ? t->name : stem(s->path, name), t, err);
    }
    return err->code;
}

static enum err_code read_source(struct source *s, struct err *err)
{
    enum format format = format_of(s->path);
    if (format == FORMAT_NPY) return read_npy(s, err);
    if (format == FORMAT_PT) {
        if (pt_open(&s->pt, s->path, err) != ERR_OK) return err->code;
        return flatten(s, &s->pt.root, "", err);
    }
    if (st_open(&s->st, s->path, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < s->st.count && err->code == ERR_OK; i++)
        (void)!add_found(s, s->st.tensors[i].name, &s->st.tensors[i], err);
    return err->code;
}

static enum err_code add_tap(struct source *s, const char *name, const struct matrix_view *v,
                             struct err *err)
{
    if (s->tap_count == s->tap_room) {
        s->tap_room = s->tap_room ? 2 * s->tap_room : 64;
        struct assay_tap *more = realloc(s->taps, (size_t)s->tap_room * sizeof *more);
        if (!more) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
        s->taps = more;
    }
    for (int64_t i = 0; i < s->tap_count; i++) {
        if (strcmp(s->taps[i].name, name) == 0)
            return err_set(err, ERR_INPUT, "map names|%s: %s|two tensors become it|one", s->path,
                           name);
    }
    char *kept = arena_alloc(&s->arena, (int64_t)strlen(name) + 1, 1, "tap name", err);
    if (!kept) return err->code;
    memcpy(kept, name, strlen(name) + 1);
    s->taps[s->tap_count++] = (struct assay_tap){
        .name = kept, .dtype = v->dtype, .rows = v->rows, .cols = v->cols, .data = v->data};
    return ERR_OK;
}

/* Slices of a stack, one a name. */
static enum err_code add_stack(struct source *s, const struct found *f, const struct map_rule *rule,
                               struct err *err)
{
    const struct st_tensor *t = &f->tensor;
    if (rule->axis >= t->dims || t->shape[rule->axis] != rule->stack_count)
        return err_set(err, ERR_INPUT,
                       "map names|%s: %s|%lld along axis %d|%lld, the names of stack", s->path,
                       f->name, rule->axis < t->dims ? (long long)t->shape[rule->axis] : 0LL,
                       rule->axis, (long long)rule->stack_count);
    for (int64_t i = 0; i < rule->stack_count && err->code == ERR_OK; i++) {
        struct st_tensor slice;
        struct matrix_view v;
        if (layout_slice(t, rule->axis, i, &s->arena, &slice, err) == ERR_OK &&
            layout_matrix(&slice, rule, &s->arena, &v, err) == ERR_OK)
            (void)!add_tap(s, rule->stack[i], &v, err);
    }
    return err->code;
}

/* Token ids as a JSON array. */
static enum err_code take_tokens(struct source *s, const struct found *f, struct err *err)
{
    json_t *ids = json_array();
    if (!dtype_is_int(f->tensor.dtype))
        err_set(err, ERR_INPUT, "map names|%s: %s|%s|token ids", s->path, f->name,
                dtype_name(f->tensor.dtype));
    for (int64_t i = 0; i < f->tensor.count && err->code == ERR_OK; i++)
        json_array_append_new(ids, json_integer(dtype_int_at(f->tensor.dtype, f->tensor.data, i)));
    if (err->code == ERR_OK) s->tokens = json_dumps(ids, JSON_COMPACT);
    json_decref(ids);
    return err->code;
}

static enum err_code translate(struct source *s, const struct found *f, struct err *err)
{
    const struct map_rule *rule = NULL;
    const struct map_rule plain = {0};
    struct matrix_view v;
    char to[MAP_NAME];
    if (s->map.tokens && strcmp(f->name, s->map.tokens) == 0) return take_tokens(s, f, err);
    if (!map_find(&s->map, f->name, &rule, to))
        return err_set(err, ERR_INPUT,
                       "map names|%s: %s|no layer of that number|0 or more, in \"%s\"", s->path,
                       f->name, rule && rule->to ? rule->to : "");
    if (rule) s->used[rule - s->map.rules] = true;
    if (rule && rule->skip) return ERR_OK;
    if (rule && rule->stack) return add_stack(s, f, rule, err);
    if (layout_matrix(&f->tensor, rule ? rule : &plain, &s->arena, &v, err) != ERR_OK)
        return err_note(err, "%s", f->name);
    return add_tap(s, to, &v, err);
}

static enum err_code translate_all(struct source *s, struct err *err)
{
    s->used = calloc((size_t)s->map.count + 1, sizeof *s->used);
    if (!s->used) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
    for (int64_t i = 0; i < s->count && err->code == ERR_OK; i++)
        (void)!translate(s, &s->found[i], err);
    /* A map is written for an engine, not for one dump: rules for what this one lacks are fine. */
    bool any = s->map.count == 0;
    for (int64_t i = 0; i < s->map.count; i++) any |= s->used[i];
    if (err->code == ERR_OK && !any)
        err_set(err, ERR_INPUT, "map names|%s|no rule fits a tensor of %s|one at least",
                s->map.path, s->path);
    if (err->code == ERR_OK && s->map.tokens && !s->tokens)
        err_set(err, ERR_INPUT, "map names|%s: tokens|no \"%s\" in %s|a tensor of ids", s->map.path,
                s->map.tokens, s->path);
    return err->code;
}

/* What the file itself says is kept, but for an order of names that hold no longer. */
static enum err_code write_taps(const struct source *s, const char *path, struct err *err)
{
    struct st_meta *meta = calloc((size_t)s->st.metas + 4, sizeof *meta);
    int64_t n = 0;
    if (!meta) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
    for (int64_t i = 0; i < s->st.metas; i++) {
        const char *key = s->st.meta[i].key;
        bool replaced =
            (s->tokens && (strcmp(key, "tokens") == 0 || strcmp(key, "assay.tokens") == 0)) ||
            (s->map.rows && (strcmp(key, "rows") == 0 || strcmp(key, "assay.rows") == 0)) ||
            (s->map.engine && (strcmp(key, "engine") == 0 || strcmp(key, "assay.engine") == 0));
        if (!replaced && strcmp(key, "assay.order") != 0) meta[n++] = s->st.meta[i];
    }
    if (s->tokens) meta[n++] = (struct st_meta){"tokens", s->tokens};
    if (s->map.rows) meta[n++] = (struct st_meta){"rows", s->map.rows};
    if (s->map.engine) meta[n++] = (struct st_meta){"engine", s->map.engine};
    (void)!taps_write(path, s->taps, s->tap_count, meta, n, err);
    free(meta);
    return err->code;
}

static enum err_code rewrite(struct source *s, struct dump *d, struct err *err)
{
    char path[FILE_PATH];
    if (temporary_dump(path, err) != ERR_OK) return err->code;
    if (write_taps(s, path, err) == ERR_OK) (void)!dump_open(d, path, err);
    unlink(path); /* the mapping keeps it alive */
    snprintf(d->file.path, sizeof d->file.path, "%s", s->path);
    return err->code;
}

static void source_close(struct source *s)
{
    st_close(&s->st);
    pt_close(&s->pt);
    npy_close(&s->npy);
    arena_release(&s->arena, NULL);
    free(s->found);
    free(s->taps);
    free(s->tokens);
    free(s->used);
}

enum err_code foreign_open(struct dump *d, const char *path, const char *map, struct err *err)
{
    struct source s = {.path = path, .arena = ARENA_INIT};
    *d = (struct dump){0};
    if (!map && format_of(path) == FORMAT_SAFETENSORS) return dump_open(d, path, err);
    if (map) (void)!map_read(map, &s.arena, &s.map, err);
    if (err->code == ERR_OK && read_source(&s, err) == ERR_OK && translate_all(&s, err) == ERR_OK)
        (void)!rewrite(&s, d, err);
    source_close(&s);
    return err->code;
}
