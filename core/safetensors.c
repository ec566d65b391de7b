/* safetensors.c: the reader and the header writer; see safetensors.h. */
#include "core/safetensors.h"

#include "core/bytes.h"
#include "core/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX                                                                                 \
    100000000 /* the format's own limit: a corrupt length must not become a huge allocation */

const char *st_shape_text(int dims, const int64_t *shape, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "[");
    for (int i = 0; i < dims && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

/* Elements of a shape; false from 2^60 on, so that the bytes of any type still fit an int64_t. */
static bool shape_count(int dims, const int64_t *shape, int64_t *count)
{
    *count = 1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(*count, shape[i], count) ||
            *count >= ((int64_t)1 << 60))
            return false;
    }
    return true;
}

static enum err_code read_shape(const struct st_file *f, const json_t *v, struct st_tensor *t,
                                struct err *err)
{
    const json_t *shape = json_object_get(v, "shape");
    if (!json_is_array(shape))
        return err_set(err, ERR_INPUT, "tensor shape|%s: %s|%s|an array", f->path, t->name,
                       json_kind(shape));
    if (json_array_size(shape) > ST_DIMS)
        return err_set(err, ERR_INPUT, "tensor shape|%s: %s|%zu dimensions|at most %d", f->path,
                       t->name, json_array_size(shape), ST_DIMS);
    t->dims = (int)json_array_size(shape);
    for (int i = 0; i < t->dims; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return err_set(err, ERR_INPUT,
                           "tensor shape|%s: %s: dimension %d|%s|an integer of 0 or more", f->path,
                           t->name, i, json_is_integer(d) ? "a negative number" : json_kind(d));
        t->shape[i] = json_integer_value(d);
    }
    if (!shape_count(t->dims, t->shape, &t->count))
        return err_set(err, ERR_INPUT,
                       "tensor shape|%s: %s|2^60 elements or more|a shape that fits", f->path,
                       t->name);
    return ERR_OK;
}

static enum err_code read_tensor(const struct st_file *f, const json_t *v, int64_t data_bytes,
                                 struct st_tensor *t, struct err *err)
{
    const char *key;
    json_t *field;
    if (!json_is_object(v))
        return err_set(err, ERR_INPUT, "tensor entry|%s: %s|%s|an object", f->path, t->name,
                       json_kind(v));
    json_object_foreach((json_t *)(uintptr_t)v, key, field)
    {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            return err_set(err, ERR_INPUT,
                           "tensor entry|%s: %s|key \"%s\"|dtype, shape, data_offsets", f->path,
                           t->name, key);
    }
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    if (!dtype || !dtype_parse(dtype, &t->dtype))
        return err_set(err, ERR_INPUT, "tensor dtype|%s: %s|%s|one of BOOL U8 I8 F8_E4M3 ... F64",
                       f->path, t->name, dtype && dtype[0] ? dtype : "no text");
    if (read_shape(f, v, t, err) != ERR_OK) return err->code;
    const json_t *off = json_object_get(v, "data_offsets");
    const json_t *b = json_array_get(off, 0), *e = json_array_get(off, 1);
    if (json_array_size(off) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return err_set(err, ERR_INPUT, "tensor offsets|%s: %s|%s|two integers", f->path, t->name,
                       json_kind(off));
    int64_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin || end > data_bytes)
        return err_set(err, ERR_INPUT,
                       "tensor offsets|%s: %s|[%lld, %lld)|inside the %lld bytes of data", f->path,
                       t->name, (long long)begin, (long long)end, (long long)data_bytes);
    t->offset = begin;
    t->bytes = end - begin;
    if (t->bytes != t->count * dtype_size(t->dtype)) {
        char text[96];
        return err_set(err, ERR_INPUT, "tensor size|%s: %s|%lld bytes|%lld for %s %s", f->path,
                       t->name, (long long)t->bytes, (long long)(t->count * dtype_size(t->dtype)),
                       dtype_name(t->dtype), st_shape_text(t->dims, t->shape, text, sizeof text));
    }
    t->data = t->bytes ? f->map.data + f->map.size - data_bytes + begin : f->map.data;
    return ERR_OK;
}

static enum err_code read_meta(struct st_file *f, const json_t *v, struct err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return err_set(err, ERR_INPUT, "file metadata|%s: __metadata__|%s|an object of texts",
                       f->path, json_kind(v));
    f->meta = calloc(json_object_size(v) + 1, sizeof *f->meta);
    if (!f->meta) return err_set(err, ERR_MEMORY, "read metadata|%s|no memory", f->path);
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_INPUT, "file metadata|%s: __metadata__.%s|%s|a string", f->path,
                           key, json_kind(value));
        f->meta[f->metas++] = (struct st_meta){key, json_string_value(value)};
    }
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const struct st_tensor *s = *(const struct st_tensor *const *)a,
                           *t = *(const struct st_tensor *const *)b;
    if (s->offset != t->offset) return s->offset < t->offset ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes); /* empty tensors lie in front */
}

/* The data must be covered without overlap and without holes. */
static enum err_code check_layout(const struct st_file *f, int64_t data_bytes, struct err *err)
{
    const struct st_tensor **order = calloc((size_t)f->count + 1, sizeof *order);
    if (!order) return err_set(err, ERR_MEMORY, "check offsets|%s|no memory", f->path);
    for (int64_t i = 0; i < f->count; i++) order[i] = &f->tensors[i];
    qsort(order, (size_t)f->count, sizeof *order, by_offset);
    int64_t at = 0;
    const char *last = "the start";
    for (int64_t i = 0; i < f->count && err->code == ERR_OK; i++) {
        if (order[i]->offset != at)
            err_set(err, ERR_INPUT, "tensor offsets|%s: %s|begin %lld: %s %s|begin %lld", f->path,
                    order[i]->name, (long long)order[i]->offset,
                    order[i]->offset < at ? "overlaps" : "leaves a hole after", last,
                    (long long)at);
        at = order[i]->offset + order[i]->bytes;
        last = order[i]->name;
    }
    if (err->code == ERR_OK && at != data_bytes)
        err_set(err, ERR_INPUT, "file size|%s|%lld bytes of data|%lld, where the last tensor ends",
                f->path, (long long)data_bytes, (long long)at);
    free(order);
    return err->code;
}

static enum err_code read_header(struct st_file *f, struct err *err)
{
    if (f->map.size < 8)
        return err_set(err, ERR_INPUT,
                       "safetensors file|%s|%lld bytes|8 bytes of header length and more", f->path,
                       (long long)f->map.size);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | f->map.data[i];
    if (n > HEADER_MAX || n > (uint64_t)f->map.size - 8)
        return err_set(err, ERR_INPUT, "safetensors header length|%s|%llu bytes|at most %lld%s",
                       f->path, (unsigned long long)n,
                       n > HEADER_MAX ? (long long)HEADER_MAX : (long long)f->map.size - 8,
                       n > HEADER_MAX ? "" : ", the rest of the file (truncated?)");
    const char *text = (const char *)f->map.data + 8;
    if (n == 0 || text[0] != '{')
        return err_set(err, ERR_INPUT, "safetensors header|%s|%s|'{' as its first byte", f->path,
                       n ? "another byte" : "an empty header");
    json_t *root;
    if (json_parse(text, (int64_t)n, f->path, &root, err) != ERR_OK)
        return err_note(err, "safetensors header");
    f->header = root;
    int64_t data_bytes = f->map.size - 8 - (int64_t)n;
    f->tensors = calloc(json_object_size(root) + 1, sizeof *f->tensors);
    if (!f->tensors) return err_set(err, ERR_MEMORY, "read header|%s|no memory", f->path);
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v)
    {
        if (strcmp(key, "__metadata__") == 0) {
            if (read_meta(f, v, err) != ERR_OK) return err->code;
            continue;
        }
        struct st_tensor *t = &f->tensors[f->count++];
        t->name = key;
        if (read_tensor(f, v, data_bytes, t, err) != ERR_OK) return err->code;
    }
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_name);
    return check_layout(f, data_bytes, err);
}

enum err_code st_open_memory(struct st_file *f, const char *path, const void *data, int64_t size,
                             struct err *err)
{
    *f = (struct st_file){.map = {data, size}};
    snprintf(f->path, sizeof f->path, "%s", path);
    return read_header(f, err);
}

enum err_code st_open(struct st_file *f, const char *path, struct err *err)
{
    struct file_map map;
    *f = (struct st_file){0};
    if (file_map(path, &map, err) != ERR_OK) return err->code;
    enum err_code rc = st_open_memory(f, path, map.data, map.size, err);
    f->mapped = true;
    return rc;
}

void st_close(struct st_file *f)
{
    if (f->header) json_decref(f->header);
    free(f->tensors);
    free(f->meta);
    if (f->mapped) file_unmap(&f->map);
    *f = (struct st_file){0};
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    struct st_tensor key = {.name = name};
    return f->count ? bsearch(&key, f->tensors, (size_t)f->count, sizeof *f->tensors, by_name)
                    : NULL;
}

const char *st_meta(const struct st_file *f, const char *key)
{
    for (int64_t i = 0; i < f->metas; i++) {
        if (strcmp(f->meta[i].key, key) == 0) return f->meta[i].value;
    }
    return NULL;
}

static enum err_code add_entry(json_t *root, struct st_entry *e, int64_t *at, struct err *err)
{
    int64_t count, end;
    if (e->dims < 0 || e->dims > ST_DIMS)
        return err_set(err, ERR_INPUT, "plan tensor|%s|%d dimensions|0 to %d", e->name, e->dims,
                       ST_DIMS);
    if (!shape_count(e->dims, e->shape, &count) ||
        __builtin_mul_overflow(count, dtype_size(e->dtype), &e->bytes) ||
        __builtin_add_overflow(*at, e->bytes, &end))
        return err_set(err, ERR_INPUT,
                       "plan tensor|%s|a negative size, or 2^60 elements or more|a shape that fits",
                       e->name);
    if (json_object_get(root, e->name) || strcmp(e->name, "__metadata__") == 0)
        return err_set(err, ERR_INPUT, "plan tensor|%s|the name twice|names that differ", e->name);
    e->offset = *at;
    *at = end;
    json_t *shape = json_array();
    for (int i = 0; i < e->dims; i++) json_array_append_new(shape, json_integer(e->shape[i]));
    json_t *v = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_name(e->dtype), "shape", shape,
                          "data_offsets", (json_int_t)e->offset, (json_int_t)*at);
    if (!v || json_object_set_new(root, e->name, v) != 0)
        return err_set(err, ERR_INPUT, "plan tensor|%s|a name that is no UTF-8 text, or no memory",
                       e->name);
    return ERR_OK;
}

/* The header text of `root`, its length in front, padded with spaces to a multiple of 64. */
static enum err_code encode_header(const json_t *root, char **out, int64_t *size, struct err *err)
{
    char *text = json_dumps(root, JSON_COMPACT);
    if (!text) return err_set(err, ERR_MEMORY, "write safetensors header||no memory");
    size_t n = strlen(text), padded = (n + 8 + 63) / 64 * 64 - 8;
    *out = malloc(padded + 8);
    if (*out) {
        bytes_put(*out, padded, 8);
        memcpy(*out + 8, text, n);
        memset(*out + 8 + n, ' ', padded - n);
        *size = (int64_t)padded + 8;
    }
    free(text);
    return *out ? ERR_OK : err_set(err, ERR_MEMORY, "write safetensors header||no memory");
}

enum err_code st_plan(struct st_entry *entries, int64_t count, const struct st_meta *meta,
                      int64_t metas, char **out, int64_t *size, struct err *err)
{
    *out = NULL;
    json_t *root = json_object(), *m = json_object();
    int64_t at = 0;
    for (int64_t i = 0; i < metas; i++) {
        if (json_object_set_new(m, meta[i].key, json_string(meta[i].value)) != 0)
            err_set(err, ERR_INPUT, "write metadata|%s|a value that is no UTF-8 text", meta[i].key);
    }
    if (metas) json_object_set(root, "__metadata__", m);
    for (int64_t i = 0; i < count && err->code == ERR_OK; i++)
        (void)!add_entry(root, &entries[i], &at, err);
    if (err->code == ERR_OK) (void)!encode_header(root, out, size, err);
    json_decref(m);
    json_decref(root);
    return err->code;
}
