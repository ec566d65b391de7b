/* foreign_source.c: files of any format into pieces; see foreign_parts.h. */
#include "core/text.h"
#include "harness/foreign_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err_code no_memory(const struct source *s, struct err *err)
{
    return err_set(err, ERR_MEMORY, "read dump|%s|no memory", s->path);
}

enum err_code source_add(struct source *s, const char *name, const struct st_tensor *t,
                         struct err *err)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        struct piece *more = realloc(s->pieces, (size_t)s->room * sizeof *more);
        if (!more) return no_memory(s, err);
        s->pieces = more;
    }
    struct piece *p = &s->pieces[s->count++];
    *p = (struct piece){.tensor = *t,
                        .spooled = -1,
                        .order = s->count,
                        .file = s->files,
                        .rank = s->rank,
                        .ranks = s->ranks,
                        .axis = s->axis};
    if (snprintf(p->name, sizeof p->name, "%s", name) >= MAP_NAME)
        return err_set(err, ERR_INPUT, "read dump|%s: %.64s...|a name of %zu bytes|fewer than %d",
                       s->path, name, strlen(name), MAP_NAME);
    if (!s->streamed) return ERR_OK;
    p->tensor.data = NULL;
    return spool_add(&s->spool, t->data, t->bytes, &p->spooled, err);
}

enum err_code source_flatten(struct source *s, const struct pt_value *v, const char *prefix,
                             struct err *err)
{
    char name[MAP_NAME + 32];
    if (v->kind == PT_TENSOR) return source_add(s, prefix[0] ? prefix : "tensor", v->tensor, err);
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
        (void)!source_flatten(s, &v->items[i], name, err);
    }
    return err->code;
}

bool source_dtype(const char *name, enum dtype *out)
{
    char upper[16];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof upper; n++) upper[n] = (char)toupper((unsigned char)name[n]);
    upper[n] = '\0';
    return !name[n] && dtype_parse(upper, out);
}

/* ---- formats ---- */

enum format { FORMAT_SAFETENSORS, FORMAT_PT, FORMAT_NPY };

static const struct {
    const char *end;
    enum format format;
} ends[] = {{".pt", FORMAT_PT},
            {".pth", FORMAT_PT},
            {".ckpt", FORMAT_PT},
            {".bin", FORMAT_PT},
            {".npy", FORMAT_NPY},
            {".npz", FORMAT_NPY},
            {".safetensors", FORMAT_SAFETENSORS}};
enum { ENDS = sizeof ends / sizeof ends[0] };

static int end_of(const char *path)
{
    int i = 0;
    while (i < ENDS && !text_ends(path, ends[i].end)) i++;
    return i;
}

bool source_is_file(const char *path)
{
    return end_of(path) < ENDS;
}

/* "layers.0.attn" of "dir/layers.0.attn.npy" */
static void stem(const char *path, char out[MAP_NAME])
{
    const char *slash = strrchr(path, '/');
    int end = end_of(path);
    snprintf(out, MAP_NAME, "%s", slash ? slash + 1 : path);
    if (end < ENDS && text_ends(out, ends[end].end)) out[strlen(out) - strlen(ends[end].end)] = 0;
}

static enum err_code read_npy(struct source *s, const char *path, struct err *err)
{
    char name[MAP_NAME];
    struct npy_file own, *f = s->streamed ? &own : &s->npy;
    stem(path, name);
    (void)!npy_open_as(f, path, s->options->has_as ? s->options->as : DT_COUNT, err);
    for (int64_t i = 0; i < f->count && err->code == ERR_OK; i++) {
        const struct st_tensor *t = &f->tensors[i];
        (void)!source_add(s, t->name && t->name[0] ? t->name : name, t, err);
    }
    if (s->streamed) npy_close(f);
    return err->code;
}

/* A bare tensor of a folder is named by its file. */
static enum err_code read_pt(struct source *s, const char *path, struct err *err)
{
    char name[MAP_NAME] = "";
    struct pt_file own, *f = s->streamed ? &own : &s->pt;
    if (pt_open(f, path, err) != ERR_OK) return err->code;
    if (s->streamed && f->root.kind == PT_TENSOR) stem(path, name);
    (void)!source_flatten(s, &f->root, name, err);
    if (s->streamed) pt_close(f);
    return err->code;
}

enum err_code source_safetensors(struct source *s, const char *path, struct st_file **out,
                                 struct err *err)
{
    struct st_file **more = realloc(s->st, (size_t)(s->st_count + 1) * sizeof(struct st_file *));
    if (more) s->st = more;
    *out = more ? calloc(1, sizeof **out) : NULL;
    if (!*out) return no_memory(s, err);
    s->st[s->st_count++] = *out;
    if (!s->said) s->said = *out;
    return st_open(*out, path, err);
}

static enum err_code read_safetensors(struct source *s, const char *path, struct err *err)
{
    struct st_file *f;
    bool streamed = s->streamed;
    if (source_safetensors(s, path, &f, err) != ERR_OK) return err->code;
    s->streamed = false; /* it stays mapped: no copy is needed */
    for (int64_t i = 0; i < f->count && err->code == ERR_OK; i++)
        (void)!source_add(s, f->tensors[i].name, &f->tensors[i], err);
    s->streamed = streamed;
    return err->code;
}

enum err_code source_file(struct source *s, const char *path, struct err *err)
{
    int end = end_of(path);
    enum format format = end < ENDS ? ends[end].format : FORMAT_SAFETENSORS;
    s->files++;
    if (format == FORMAT_NPY) return read_npy(s, path, err);
    if (format == FORMAT_PT) return read_pt(s, path, err);
    return read_safetensors(s, path, err);
}

void source_close(struct source *s)
{
    for (int64_t i = 0; i < s->st_count; i++) {
        st_close(s->st[i]);
        free(s->st[i]);
    }
    free(s->st);
    pt_close(&s->pt);
    npy_close(&s->npy);
    spool_close(&s->spool);
    spool_close(&s->joined);
    arena_release(&s->arena, NULL);
    json_decref(s->counts);
    free(s->pieces);
}
