/* npy.c: the reader of npy.h.
 *
 *   6 bytes   "\x93NUMPY"; 1 byte major, 1 byte minor version
 *   2 or 4    header length, little-endian (2 in version 1)
 *   header    a Python dict: {'descr': '<i8', 'fortran_order': False, 'shape': (64,), }, spaces, \n
 *   the rest  data */
#include "core/npy.h"

#include "core/archive.h"
#include "core/arena.h"
#include "core/strided.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *descr;
    enum dtype dtype;
} types[] = {
    {"|b1", DT_BOOL}, {"|i1", DT_I8},  {"|u1", DT_U8},  {"<i2", DT_I16},
    {"<i4", DT_I32},  {"<i8", DT_I64}, {"<u2", DT_U16}, {"<u4", DT_U32},
    {"<u8", DT_U64},  {"<f2", DT_F16}, {"<f4", DT_F32}, {"<f8", DT_F64},
};
enum { TYPES = sizeof types / sizeof types[0] };

static const char *descr_of(enum dtype t)
{
    for (int i = 0; i < TYPES; i++) {
        if (types[i].dtype == t) return types[i].descr;
    }
    return NULL;
}

/* A header that is being read. */
struct header {
    const char *path;
    const char *at, *end;
    enum dtype as; /* what void and unsigned integers of its width hold; DT_COUNT: not known */
    bool fortran, big_endian;
    bool seen[3]; /* descr, fortran_order, shape */
    struct st_tensor *t;
};

static enum err_code refuse(const struct header *h, const char *found, const char *wanted,
                            struct err *err)
{
    return err_set(err, ERR_INPUT, "read numpy array|%s|%s|%s", h->path, found, wanted);
}

static void skip_spaces(struct header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n')) h->at++;
}

/* Takes the text, and spaces before it, where it comes next. */
static bool take(struct header *h, const char *text)
{
    size_t n = strlen(text);
    skip_spaces(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, text, n) != 0) return false;
    h->at += n;
    return true;
}

/* "V2" behind any byte order: elements that are bytes to numpy. */
static bool is_void(const char *type, int size)
{
    char want[8];
    snprintf(want, sizeof want, "V%d", size);
    return type[0] && strcmp(type + 1, want) == 0;
}

/* The type of a descr such as "<f4"; false where it is none that is read. */
static bool find_type(struct header *h, const char *type)
{
    enum dtype *t = &h->t->dtype;
    *t = DT_COUNT;
    for (int i = 0; i < TYPES; i++) {
        if (type[0] && strcmp(type + 1, types[i].descr + 1) == 0 &&
            (type[0] == types[i].descr[0] || (type[0] == '>' && types[i].descr[0] == '<')))
            *t = types[i].dtype;
    }
    h->big_endian = type[0] == '>';
    if (h->as == DT_COUNT) return *t != DT_COUNT;
    int size = dtype_size(h->as);
    bool plain = *t == DT_U8 || *t == DT_U16 || *t == DT_U32 || *t == DT_U64;
    if ((plain && dtype_size(*t) == size) || is_void(type, size)) *t = h->as;
    return *t != DT_COUNT;
}

static enum err_code read_descr(struct header *h, struct err *err)
{
    char found[48];
    if (!take(h, "'")) return refuse(h, "a record type", "one of the plain types", err);
    const char *end = memchr(h->at, '\'', (size_t)(h->end - h->at));
    if (!end) return refuse(h, "a descr without an end", "'<f4' or the like", err);
    snprintf(found, sizeof found, "type %.*s", end - h->at < 40 ? (int)(end - h->at) : 40, h->at);
    h->at = end + 1;
    if (find_type(h, found + 5)) return ERR_OK;
    return refuse(h, found,
                  found[5] && found[6] == 'V'
                      ? "a word of what it holds, of that width (--dtype bf16)"
                      : "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8",
                  err);
}

static enum err_code read_order(struct header *h, struct err *err)
{
    h->fortran = take(h, "True");
    if (!h->fortran && !take(h, "False"))
        return refuse(h, "another fortran_order", "True or False", err);
    return ERR_OK;
}

static enum err_code read_shape(struct header *h, struct err *err)
{
    if (!take(h, "(")) return refuse(h, "a shape without (", "a tuple", err);
    while (!take(h, ")")) {
        int64_t n = 0;
        bool digits = false;
        skip_spaces(h);
        for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
            digits = true;
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *h->at - '0', &n))
                return refuse(h, "a dimension of 2^63 or more", "one that fits", err);
        }
        if (!digits || h->t->dims == ST_DIMS)
            return refuse(h, "another shape", "at most 8 whole numbers", err);
        h->t->shape[h->t->dims++] = n;
        if (!take(h, ",") && (h->at == h->end || *h->at != ')'))
            return refuse(h, "a shape without an end", "a tuple", err);
    }
    return ERR_OK;
}

static enum err_code read_header(struct header *h, struct err *err)
{
    static const struct {
        const char *key;
        enum err_code (*read)(struct header *h, struct err *err);
    } keys[3] = {
        {"'descr':", read_descr}, {"'fortran_order':", read_order}, {"'shape':", read_shape}};
    if (!take(h, "{")) return refuse(h, "a header without {", "a dict", err);
    while (!take(h, "}")) {
        int k = 0;
        while (k < 3 && (h->seen[k] || !take(h, keys[k].key))) k++;
        if (k == 3)
            return refuse(h, "another key, or one twice", "descr, fortran_order, shape", err);
        h->seen[k] = true;
        if (keys[k].read(h, err) != ERR_OK) return err->code;
        if (!take(h, ",") && (h->at == h->end || *h->at != '}'))
            return refuse(h, "a header without an end", "a dict", err);
    }
    skip_spaces(h);
    if (!h->seen[0] || !h->seen[1] || !h->seen[2] || h->at != h->end)
        return refuse(h, "a key too few, or text behind them", "descr, fortran_order, shape", err);
    return ERR_OK;
}

/* The other byte order, in place. */
static void turn_bytes(char *data, int64_t count, int size)
{
    for (int64_t i = 0; i < count; i++) {
        char *at = data + i * size;
        for (int k = 0; k < size / 2; k++) {
            char b = at[k];
            at[k] = at[size - 1 - k];
            at[size - 1 - k] = b;
        }
    }
}

/* The array's data, copied into C order. */
static enum err_code read_data(struct header *h, const char *data, int64_t size,
                               struct arena *arena, struct err *err)
{
    struct st_tensor *t = h->t;
    int64_t stride[ST_DIMS], step = 1;
    int bytes = dtype_size(t->dtype);
    if (!strided_count(t->dims, t->shape, &t->count) || t->count * bytes != size) {
        char shape[128];
        return err_set(err, ERR_INPUT, "read numpy array|%s|%lld bytes of data|those of %s %s",
                       h->path, (long long)size, dtype_name(t->dtype),
                       st_shape_text(t->dims, t->shape, shape, sizeof shape));
    }
    t->bytes = size;
    char *out = arena_alloc(arena, size, 1, "a numpy array", err);
    if (!out) return err->code;
    t->data = out;
    if (!h->fortran || t->dims < 2) {
        memcpy(out, data, (size_t)size);
    } else {
        for (int i = 0; i < t->dims; i++) {
            stride[i] = step;
            step *= t->count ? t->shape[i] : 0;
        }
        strided_copy(t->dims, t->shape, stride, bytes, data, out);
    }
    if (h->big_endian) turn_bytes(out, t->count, bytes);
    return ERR_OK;
}

/* One .npy into *t, its data in the arena. `path` for messages. */
static enum err_code read_array(const char *path, const char *data, int64_t size, enum dtype as,
                                struct arena *arena, struct st_tensor *t, struct err *err)
{
    struct header h = {.path = path, .t = t, .as = as};
    const unsigned char *b = (const unsigned char *)data;
    if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return refuse(&h, "another file", "a .npy or .npz of numpy.save", err);
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return refuse(&h, "another format version", "1.0, 2.0 or 3.0", err);
    int64_t head = b[6] == 1 ? 10 : 12, n = b[8] | b[9] << 8;
    if (size >= 12 && head == 12) n |= b[10] << 16 | (int64_t)b[11] << 24;
    if (size < head || n > size - head)
        return refuse(&h, "fewer bytes than the header's", "a whole file (truncated?)", err);
    h.at = data + head;
    h.end = h.at + n;
    if (read_header(&h, err) != ERR_OK) return err->code;
    return read_data(&h, h.end, size - head - n, arena, err);
}

/* Each member of a .npz. */
static enum err_code read_members(struct npy_file *f, struct archive *a, enum dtype as,
                                  struct arena *arena, struct err *err)
{
    int64_t count = archive_count(a);
    f->tensors = arena_alloc(arena, count, sizeof *f->tensors, "numpy arrays", err);
    for (int64_t i = 0; f->tensors && i < count && err->code == ERR_OK; i++) {
        char where[2 * FILE_PATH];
        int64_t size;
        const char *member = archive_name(a, i);
        size_t n = strlen(member);
        bool suffix = n >= 4 && strcmp(member + n - 4, ".npy") == 0;
        snprintf(where, sizeof where, "%s: %s", a->path, member);
        if (archive_size(a, i, &size, err) != ERR_OK) break;
        char *data = malloc((size_t)size + 1);
        char *name = arena_alloc(arena, (int64_t)n + 1, 1, "name of a numpy array", err);
        if (!data) err_set(err, ERR_MEMORY, "read numpy array|%s|no memory", where);
        struct st_tensor *t = &f->tensors[f->count++];
        *t = (struct st_tensor){.name = name};
        if (name) {
            memcpy(name, member, n + 1);
            if (suffix) name[n - 4] = '\0';
        }
        if (err->code == ERR_OK && archive_read(a, i, data, size, err) == ERR_OK)
            (void)!read_array(where, data, size, as, arena, t, err);
        free(data);
    }
    return err->code;
}

enum err_code npy_open_memory(struct npy_file *f, const char *path, const void *data, int64_t size,
                              enum dtype as, struct err *err)
{
    struct arena *arena = calloc(1, sizeof *arena);
    *f = (struct npy_file){.owned = arena};
    if (!arena) return err_set(err, ERR_MEMORY, "read numpy array|%s|no memory", path);
    if (archive_is(data, size)) {
        struct archive a;
        if (archive_open(&a, path, data, size, err) == ERR_OK)
            (void)!read_members(f, &a, as, arena, err);
        archive_close(&a);
    } else {
        f->tensors = arena_alloc(arena, 1, sizeof *f->tensors, "a numpy array", err);
        if (f->tensors) {
            f->tensors[f->count++] = (struct st_tensor){.name = ""};
            (void)!read_array(path, data, size, as, arena, &f->tensors[0], err);
        }
    }
    if (err->code != ERR_OK) npy_close(f);
    return err->code;
}

enum err_code npy_open(struct npy_file *f, const char *path, struct err *err)
{
    return npy_open_as(f, path, DT_COUNT, err);
}

enum err_code npy_open_as(struct npy_file *f, const char *path, enum dtype as, struct err *err)
{
    struct file_map map;
    *f = (struct npy_file){0};
    if (file_map(path, &map, err) != ERR_OK) return err->code;
    (void)!npy_open_memory(f, path, map.data, map.size, as, err);
    file_unmap(&map);
    return err->code;
}

void npy_close(struct npy_file *f)
{
    if (f->owned) arena_release(f->owned, NULL);
    free(f->owned);
    *f = (struct npy_file){0};
}

/* ---- writing ---- */

/* The header as numpy.save has it, padded so that data starts at a multiple of 64. */
static int make_header(const struct st_tensor *t, const char *descr, char *out, size_t room)
{
    int n =
        snprintf(out + 10, room - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->dims; i++)
        n += snprintf(out + 10 + n, room - 10 - (size_t)n, "%s%lld%s", i ? " " : "",
                      (long long)t->shape[i], i + 1 < t->dims || t->dims == 1 ? "," : "");
    n += snprintf(out + 10 + n, room - 10 - (size_t)n, "), }");
    int padded = (10 + n + 1 + 63) / 64 * 64 - 10;
    memset(out + 10 + n, ' ', (size_t)(padded - n));
    out[10 + padded - 1] = '\n';
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)(padded & 255);
    out[9] = (char)(padded >> 8);
    return 10 + padded;
}

enum err_code npy_write(const char *path, const struct st_tensor *t, struct err *err)
{
    char header[512];
    struct file_out out = FILE_OUT_INIT;
    const char *descr = descr_of(t->dtype);
    if (!descr)
        return err_set(err, ERR_INPUT,
                       "write numpy array|%s|%s|BOOL I8 I16 I32 I64 U8 U16 U32 U64 F16 F32 F64",
                       path, dtype_name(t->dtype));
    int n = make_header(t, descr, header, sizeof header);
    if (file_out_open(&out, path, err) == ERR_OK &&
        file_out_write(&out, header, n, err) == ERR_OK &&
        file_out_write(&out, t->data, t->bytes, err) == ERR_OK)
        (void)!file_out_commit(&out, err);
    file_out_abandon(&out);
    return err->code;
}
