/* foreign.c: see foreign.h. Layouts are turned in foreign_layout.c. */
#include "harness/foreign.h"

#include "core/text.h"
#include "harness/foreign_layout.h"
#include "harness/foreign_parts.h"
#include "harness/taps_write.h"
#include "harness/temporary.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What becomes of a source. */
struct target {
    struct source *s;
    struct assay_tap *taps;
    int64_t tap_count, tap_room;
    json_t *parts; /* taps that were put together: of how many ranks */
    char *tokens;  /* JSON, or NULL */
    bool *used;    /* [map.count] */
};

static enum err_code add_tap(struct target *g, const char *name, const struct matrix_view *v,
                             int ranks, struct err *err)
{
    struct source *s = g->s;
    if (g->tap_count == g->tap_room) {
        g->tap_room = g->tap_room ? 2 * g->tap_room : 64;
        struct assay_tap *more = realloc(g->taps, (size_t)g->tap_room * sizeof *more);
        if (!more) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
        g->taps = more;
    }
    for (int64_t i = 0; i < g->tap_count; i++) {
        if (strcmp(g->taps[i].name, name) == 0)
            return err_set(err, ERR_INPUT, "map names|%s: %s|two tensors become it|one", s->path,
                           name);
    }
    if (ranks > 1) json_object_set_new(g->parts, name, json_integer(ranks));
    char *kept = arena_alloc(&s->arena, (int64_t)strlen(name) + 1, 1, "tap name", err);
    if (!kept) return err->code;
    memcpy(kept, name, strlen(name) + 1);
    g->taps[g->tap_count++] = (struct assay_tap){
        .name = kept, .dtype = v->dtype, .rows = v->rows, .cols = v->cols, .data = v->data};
    return ERR_OK;
}

/* Slices of a stack, one a name. */
static enum err_code add_stack(struct target *g, const struct piece *f, const struct map_rule *rule,
                               struct err *err)
{
    struct source *s = g->s;
    const struct st_tensor *t = &f->tensor;
    const int64_t n = rule->axis < t->dims ? t->shape[rule->axis] : -1;
    char to[MAP_NAME];
    if (n < 0 || !map_stack_name(rule, n, 0, to))
        return err_set(
            err, ERR_INPUT, "map names|%s: %s|%lld along axis %d|%lld%s, the names of stack",
            s->path, f->name, n < 0 ? 0LL : (long long)n, rule->axis,
            (long long)(rule->stack_count - (rule->open >= 0)), rule->open >= 0 ? " or more" : "");
    for (int64_t i = 0; i < n && err->code == ERR_OK; i++) {
        struct st_tensor slice;
        struct matrix_view v;
        if (map_stack_name(rule, n, i, to) &&
            layout_slice(t, rule->axis, i, &s->arena, &slice, err) == ERR_OK &&
            layout_matrix(&slice, rule, &s->arena, &v, err) == ERR_OK)
            (void)!add_tap(g, to, &v, f->ranks, err);
    }
    return err->code;
}

/* Token ids as a JSON array. */
static enum err_code take_tokens(struct target *g, const struct piece *f, struct err *err)
{
    json_t *ids = json_array();
    if (!dtype_is_int(f->tensor.dtype))
        err_set(err, ERR_INPUT, "map names|%s: %s|%s|token ids", g->s->path, f->name,
                dtype_name(f->tensor.dtype));
    for (int64_t i = 0; i < f->tensor.count && err->code == ERR_OK; i++)
        json_array_append_new(ids, json_integer(dtype_int_at(f->tensor.dtype, f->tensor.data, i)));
    if (g->tokens)
        err_set(err, ERR_INPUT, "map names|%s: %s|a second tensor of token ids|one", g->s->path,
                f->name);
    if (err->code == ERR_OK) g->tokens = json_dumps(ids, JSON_COMPACT);
    json_decref(ids);
    return err->code;
}

/* As the map says; without one, "input_ids", as everybody calls them. */
static bool is_tokens(const struct source *s, const struct piece *f)
{
    if (s->map.count == 0)
        return strcmp(f->name, "input_ids") == 0 && dtype_is_int(f->tensor.dtype);
    return s->map.tokens && text_glob(s->map.tokens, f->name);
}

static enum err_code translate(struct target *g, const struct piece *f, struct err *err)
{
    struct source *s = g->s;
    const struct map_rule *rule = NULL;
    const struct map_rule plain = {0};
    struct matrix_view v;
    char to[MAP_NAME];
    if (is_tokens(s, f)) return take_tokens(g, f, err);
    if (!map_find(&s->map, f->name, &rule, to))
        return err_set(err, ERR_INPUT,
                       "map names|%s: %s|no layer of that number|0 or more, in \"%s\"", s->path,
                       f->name, rule && rule->to ? rule->to : "");
    if (rule && !rule->skip) g->used[rule - s->map.rules] = true;
    if (rule && rule->skip) return ERR_OK;
    if (rule && rule->stack) return add_stack(g, f, rule, err);
    if (layout_matrix(&f->tensor, rule ? rule : &plain, &s->arena, &v, err) != ERR_OK)
        return err_note(err, "%s", f->name);
    return add_tap(g, to, &v, f->ranks, err);
}

static enum err_code translate_all(struct target *g, struct err *err)
{
    struct source *s = g->s;
    g->used = calloc((size_t)s->map.count + 1, sizeof *g->used);
    g->parts = json_object();
    if (!g->used || !g->parts) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
    for (int64_t i = 0; i < s->count && err->code == ERR_OK; i++)
        (void)!translate(g, &s->pieces[i], err);
    /* A map is written for an engine, not for one dump: rules for what this one lacks are fine. */
    bool any = s->map.count == 0;
    for (int64_t i = 0; i < s->map.count; i++) any |= g->used[i];
    if (err->code == ERR_OK && !any)
        err_set(err, ERR_INPUT, "map names|%s|no rule fits a tensor of %s|one at least",
                s->map.path, s->path);
    if (err->code == ERR_OK && s->map.tokens && !g->tokens && !s->map.shipped)
        err_set(err, ERR_INPUT, "map names|%s: tokens|no \"%s\" in %s|a tensor of ids", s->map.path,
                s->map.tokens, s->path);
    return err->code;
}

/* ---- the dump ---- */

/* What a key of the file itself says that does not hold for the dump. */
static bool is_replaced(const struct target *g, const char *key)
{
    const struct source *s = g->s;
    const struct {
        const char *key;
        bool replaced;
    } all[] = {
        {"tokens", g->tokens},         {"assay.tokens", g->tokens}, {"rows", s->map.rows},
        {"assay.rows", s->map.rows},   {"engine", s->map.engine},   {"assay.engine", s->map.engine},
        {"assay.order", s->map.count}, {"assay.counts", s->counts}, {"assay.rank", true},
        {"assay.ranks", true},         {"assay.shards", true},      {"assay.step", s->rank_count}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].replaced && strcmp(all[i].key, key) == 0) return true;
    }
    return false;
}

/* What the file itself says is kept, but for an order of names that hold no longer. */
static enum err_code write_taps(const struct target *g, const char *path, struct err *err)
{
    const struct source *s = g->s;
    const int64_t said = s->said ? s->said->metas : 0;
    struct st_meta *meta = calloc((size_t)said + 8, sizeof *meta);
    char *parts = json_object_size(g->parts) ? json_dumps(g->parts, JSON_COMPACT) : NULL,
         *counts = s->counts ? json_dumps(s->counts, JSON_COMPACT) : NULL;
    const char *engine = s->map.engine ? s->map.engine : s->engine;
    const struct st_meta own[] = {{"tokens", g->tokens},
                                  {"rows", s->map.rows},
                                  {"engine", engine},
                                  {"assay.parts", parts},
                                  {"assay.counts", counts}};
    int64_t n = 0;
    if (!meta) err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
    for (int64_t i = 0; meta && i < said; i++) {
        if (!is_replaced(g, s->said->meta[i].key)) meta[n++] = s->said->meta[i];
    }
    for (size_t i = 0; meta && i < sizeof own / sizeof own[0]; i++) {
        if (own[i].value) meta[n++] = own[i];
    }
    if (meta) (void)!taps_write(path, g->taps, g->tap_count, meta, n, err);
    free(meta);
    free(parts);
    free(counts);
    return err->code;
}

static enum err_code rewrite(const struct target *g, struct dump *d, struct err *err)
{
    char path[FILE_PATH];
    if (temporary_dump(path, err) != ERR_OK) return err->code;
    if (write_taps(g, path, err) == ERR_OK && dump_open(d, path, err) != ERR_OK) {
        /* What is wrong with the dump is wrong with the source. */
        const struct err inner = *err;
        err_clear(err);
        err_set(err, inner.code, "%s|%s|%s|%s", inner.what, g->s->path, inner.found, inner.wanted);
    }
    unlink(path); /* the mapping keeps it alive */
    snprintf(d->file.path, sizeof d->file.path, "%s", g->s->path);
    return err->code;
}

static enum err_code convert(struct source *s, struct dump *d, struct err *err)
{
    struct target g = {.s = s};
    for (int64_t i = 0; i < s->count; i++) map_learn(&s->map, s->pieces[i].name);
    if (source_join(s, err) == ERR_OK && translate_all(&g, err) == ERR_OK)
        (void)!rewrite(&g, d, err);
    json_decref(g.parts);
    free(g.taps);
    free(g.tokens);
    free(g.used);
    return err->code;
}

/* ---- sources ---- */

static enum err_code read_source(struct source *s, struct err *err)
{
    s->axis = -1;
    if (file_is_folder(s->path)) return source_folder(s, err);
    if (s->options->has_step)
        return err_set(err, ERR_INPUT, "read dump|%s|one file|a folder of passes for --step",
                       s->path);
    return source_is_raw(s->path) ? source_raw(s, s->path, err) : source_file(s, s->path, err);
}

bool foreign_is(const char *path)
{
    if (file_is_folder(path)) return source_is_folder(path);
    return source_is_raw(path) || (source_is_file(path) && !text_ends(path, ".safetensors"));
}

enum err_code foreign_open(struct dump *d, const char *path, const struct foreign_options *o,
                           struct err *err)
{
    struct source s = {
        .path = path, .options = o, .arena = ARENA_INIT, .spool = {.fd = -1}, .joined = {.fd = -1}};
    const struct foreign_options none = {0};
    char map[FILE_PATH];
    *d = (struct dump){0};
    if (!o) s.options = o = &none;
    if (!o->map && !o->has_step && !file_is_folder(path) && !foreign_is(path))
        return dump_open(d, path, err);
    if (o->map && map_path(o->map, map, err) == ERR_OK) (void)!map_read(map, &s.arena, &s.map, err);
    s.map.shipped = o->map && strcmp(map, o->map) != 0;
    if (err->code == ERR_OK && read_source(&s, err) == ERR_OK) (void)!convert(&s, d, err);
    source_close(&s);
    return err->code;
}

enum err_code foreign_read_options(const struct args *a, struct foreign_options *out,
                                   struct err *err)
{
    const char *dtype = args_value(a, "--dtype");
    *out = (struct foreign_options){
        .map = args_value(a, "--map"), .has_as = dtype, .has_step = args_has(a, "--step")};
    if (dtype && !source_dtype(dtype, &out->as))
        return err_set(err, ERR_USAGE, "arguments|--dtype|%.60s|%s", dtype, SOURCE_DTYPES);
    return args_int(a, "--step", 0, INT64_MAX, 0, &out->step, err);
}
