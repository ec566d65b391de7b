/* inspect_header.c: the header of one safetensors file, read so that the first fault is not the
 * last: each is listed, and what is known of a tensor is kept. core/safetensors.c is the strict
 * reader of the same format; tests/fuzz/fuzz_index.c holds them against each other: a header
 * without a problem here opens there, and the other way round. */
#include "harness/inspect.h"

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/strided.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_MAX 100000000 /* as the strict reader */

/* What is being read. */
struct header {
    struct inspection *s;
    int64_t file;
    const char *name;   /* of the file */
    int64_t data_at;    /* where the data begins */
    int64_t data_bytes; /* as many as the file has */
};

static void problem(const struct header *h, const char *what, const char *tensor, const char *found,
                    const char *wanted)
{
    ins_problem(
        h->s,
        (struct ins_problem){
            .what = what, .where = h->name, .tensor = tensor, .found = found, .wanted = wanted});
}

/* The tensors of this file cannot be known. The reason becomes a problem once it is known how many
 * tensors it costs. */
static void lose(const struct header *h, const char *why)
{
    h->s->files[h->file].lost = ins_keep(h->s, why);
}

/* ---- one tensor ---- */

static void read_shape(const struct header *h, const json_t *shape, struct ins_tensor *t)
{
    struct inspection *s = h->s;
    size_t dims = json_array_size(shape);
    t->dims = -1;
    if (!json_is_array(shape)) {
        problem(h, "tensor shape", t->raw, json_kind(shape), "an array");
        return;
    }
    if (dims > ST_DIMS) {
        problem(h, "tensor shape", t->raw, ins_text(s, "%zu dimensions", dims),
                ins_text(s, "at most %d", ST_DIMS));
        return;
    }
    for (size_t i = 0; i < dims; i++) {
        const json_t *d = json_array_get(shape, i);
        t->shape[i] = json_integer_value(d);
        if (json_is_integer(d) && t->shape[i] >= 0) continue;
        problem(h, "tensor shape", t->raw,
                ins_text(s, "dimension %zu: %s", i,
                         json_is_integer(d) ? "a negative number" : json_kind(d)),
                "an integer of 0 or more");
        return;
    }
    int64_t count;
    t->dims = (int)dims;
    if (strided_count(t->dims, t->shape, &count)) return;
    problem(h, "tensor shape", t->raw, "2^60 elements or more", "a shape that fits");
    t->dims = -1;
}

static void read_dtype(const struct header *h, const json_t *v, struct ins_tensor *t)
{
    const char *name = json_string_value(v);
    t->dtype = DT_COUNT;
    if (name && dtype_parse(name, &t->dtype)) return;
    t->dtype = DT_COUNT;
    problem(h, "tensor dtype", t->raw, name ? ins_text(h->s, "\"%.200s\"", name) : json_kind(v),
            "one of BOOL U8 I8 F8_E4M3 ... F64");
}

/* True when begin and end are numbers that can be used. They may lie behind the file's end. */
static bool read_offsets(const struct header *h, const json_t *v, struct ins_tensor *t)
{
    const json_t *b = json_array_get(v, 0), *e = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(b) || !json_is_integer(e)) {
        problem(h, "tensor offsets", t->raw, json_kind(v), "two integers");
        return false;
    }
    int64_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin || end > INT64_MAX / 2) {
        problem(h, "tensor offsets", t->raw,
                ins_text(h->s, "[%lld, %lld)", (long long)begin, (long long)end),
                "begin and end that do not descend");
        return false;
    }
    t->offset = h->data_at + begin;
    t->bytes = end - begin;
    return true;
}

static void check_size(const struct header *h, struct ins_tensor *t)
{
    struct inspection *s = h->s;
    if (t->dims < 0 || t->dtype == DT_COUNT) return;
    int64_t wanted;
    CHECK(strided_count(t->dims, t->shape, &wanted)); /* or it has no dims: read_shape() */
    wanted *= dtype_size(t->dtype);
    t->placed = t->bytes == wanted;
    if (t->placed) return;
    problem(h, "tensor size", t->raw, ins_text(s, "%lld bytes", (long long)t->bytes),
            ins_text(s, "%lld for %s %s", (long long)wanted, dtype_name(t->dtype),
                     ins_shape(s, t->dims, t->shape)));
}

static struct ins_tensor *new_tensor(struct inspection *s)
{
    if (s->tensor_count == s->tensor_room) {
        int64_t room = s->tensor_room ? s->tensor_room + s->tensor_room / 2 : 4096;
        struct ins_tensor *more = realloc(s->tensors, (size_t)room * sizeof *more);
        if (!more) {
            s->broken = true;
            return NULL;
        }
        s->tensors = more;
        s->tensor_room = room;
    }
    return &s->tensors[s->tensor_count++];
}

static void read_tensor(const struct header *h, const char *name, json_t *v)
{
    const char *key;
    json_t *field;
    struct ins_tensor *t = new_tensor(h->s);
    if (!t) return;
    *t = (struct ins_tensor){.raw = ins_keep(h->s, name),
                             .dims = -1,
                             .dtype = DT_COUNT,
                             .offset = -1,
                             .file = (int32_t)h->file,
                             .expected = -1};
    t->name = t->raw;
    h->s->files[h->file].tensors++;
    if (!json_is_object(v)) {
        problem(h, "tensor entry", t->raw, json_kind(v), "an object");
        return;
    }
    json_object_foreach(v, key, field)
    {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            problem(h, "tensor entry", t->raw, ins_text(h->s, "key \"%.200s\"", key),
                    "dtype, shape, data_offsets");
    }
    read_dtype(h, json_object_get(v, "dtype"), t);
    read_shape(h, json_object_get(v, "shape"), t);
    if (read_offsets(h, json_object_get(v, "data_offsets"), t)) check_size(h, t);
}

static void read_meta(const struct header *h, json_t *v)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v)) {
        problem(h, "file metadata", "__metadata__", json_kind(v), "an object of texts");
        return;
    }
    json_object_foreach(v, key, value)
    {
        if (!json_is_string(value))
            problem(h, "file metadata", "__metadata__",
                    ins_text(h->s, "\"%.200s\": %s", key, json_kind(value)), "a text");
    }
}

/* ---- the whole file ---- */

static int by_offset(const void *a, const void *b)
{
    const struct ins_tensor *s = *(const struct ins_tensor *const *)a,
                            *t = *(const struct ins_tensor *const *)b;
    if (s->offset != t->offset) return s->offset < t->offset ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

/* Data that ends before its tensors do: one problem, with the first that is cut. */
static void check_end(const struct header *h, struct ins_tensor **order, int64_t n)
{
    struct inspection *s = h->s;
    int64_t end = h->data_at + h->data_bytes, last = h->data_at, cut = 0;
    const struct ins_tensor *first = NULL;
    for (int64_t i = 0; i < n; i++) {
        int64_t t_end = order[i]->offset + order[i]->bytes;
        if (t_end > last) last = t_end;
        if (t_end <= end) continue;
        order[i]->placed = false;
        if (cut++ == 0) first = order[i];
    }
    if (cut) {
        problem(h, "truncated file", first->raw,
                ins_text(s, "%lld bytes, %lld tensors incomplete", (long long)end, (long long)cut),
                ins_text(s, "%lld bytes, where the last tensor ends", (long long)last));
    } else if (last != end) {
        problem(h, "file size", "", ins_text(s, "%lld bytes", (long long)end),
                ins_text(s, "%lld, where the last tensor ends", (long long)last));
    }
}

/* The data must be covered without overlap and without holes. */
static void check_cover(const struct header *h, int64_t first)
{
    struct inspection *s = h->s;
    int64_t n = 0, at = h->data_at;
    struct ins_tensor **order = calloc((size_t)(s->tensor_count - first) + 1, sizeof *order);
    if (!order) {
        s->broken = true;
        return;
    }
    for (int64_t i = first; i < s->tensor_count; i++) {
        if (s->tensors[i].offset >= 0) order[n++] = &s->tensors[i];
    }
    if (n) qsort(order, (size_t)n, sizeof *order, by_offset);
    const char *last = "the start";
    for (int64_t i = 0; i < n; i++) {
        const struct ins_tensor *t = order[i];
        if (t->offset != at)
            problem(
                h, t->offset < at ? "tensors overlap" : "hole in the data", t->raw,
                ins_text(s, "begin %lld, after %.300s", (long long)(t->offset - h->data_at), last),
                ins_text(s, "begin %lld", (long long)(at - h->data_at)));
        at = t->offset + t->bytes;
        last = t->raw;
    }
    check_end(h, order, n);
    free(order);
}

/* The JSON of a header, or NULL; all keys that stand twice are problems, and the last one holds. */
static json_t *parse(const struct header *h, const char *text, int64_t n)
{
    json_error_t e;
    json_t *root = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &e);
    if (root) return root;
    if (json_error_code(&e) == json_error_duplicate_key) {
        json_error_t first = e;
        root = json_loadb(text, (size_t)n, 0, &e);
        if (root && !ins_duplicate_keys(h->s, h->name, text, n))
            problem(h, "duplicate key", "", first.text, "each key once");
    }
    if (!root)
        lose(h, ins_text(h->s, "a header that is no JSON: line %d, column %d: %.300s", e.line,
                         e.column, e.text));
    return root;
}

static void parse_header(struct header *h, const unsigned char *data, int64_t size)
{
    struct inspection *s = h->s;
    uint64_t n = 0;
    const char *key;
    json_t *v;
    if (size < 8) {
        lose(h, ins_text(s, "%lld bytes, less than a header's length", (long long)size));
        return;
    }
    for (int i = 7; i >= 0; i--) n = n << 8 | data[i];
    if (n > HEADER_MAX || n > (uint64_t)size - 8) {
        lose(h, ins_text(s, "a header of %llu bytes in a file of %lld (truncated?)",
                         (unsigned long long)n, (long long)size));
        return;
    }
    const char *text = (const char *)data + 8;
    if (n == 0 || text[0] != '{') {
        lose(h, n ? "a header that does not begin with '{'" : "an empty header");
        return;
    }
    if (!ins_sha256(data, (size_t)n + 8, s->files[h->file].header_sha256)) s->broken = true;
    json_t *root = parse(h, text, (int64_t)n);
    if (!root) return;
    int64_t first = s->tensor_count;
    h->data_at = 8 + (int64_t)n;
    h->data_bytes = size - h->data_at;
    json_object_foreach(root, key, v)
    {
        if (strcmp(key, "__metadata__") == 0) {
            read_meta(h, v);
        } else {
            read_tensor(h, key, v);
        }
    }
    json_decref(root);
    check_cover(h, first);
}

void ins_parse_header(struct inspection *s, int64_t file, const void *data, int64_t size)
{
    struct header h = {.s = s, .file = file, .name = s->files[file].name};
    s->files[file].size = size;
    parse_header(&h, data, size);
}

void ins_read_header(struct inspection *s, int64_t file)
{
    char path[FILE_PATH];
    struct err err = ERR_INIT;
    struct file_map map = {0};
    struct stat st;
    struct header h = {.s = s, .file = file, .name = s->files[file].name};
    if (ins_path(s, file, path, &err) != ERR_OK || file_map(path, &map, &err) != ERR_OK) {
        if (!ins_refused(&err)) {
            lose(&h, err.found);
            return;
        }
        s->broken = true;
        s->cause = err;
        return;
    }
    if (stat(path, &st) == 0) {
        s->files[file].mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        s->files[file].written = (int64_t)st.st_blocks * 512;
    }
    ins_parse_header(s, file, map.data, map.size);
    file_unmap(&map);
}
