/* pt_write.c: the writer of pt.h: a pickle as CPython's pickler makes it (protocol 2), then each
 * tensor as a storage of its own. */
#include "core/archive.h"
#include "core/bytes.h"
#include "core/check.h"
#include "core/pt.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1000, DEPTH = 64 };

struct writer {
    const char *path;
    char *bytes; /* the pickle so far */
    int64_t size, room;
    json_t *texts, *globals; /* text to memo number */
    int64_t memos;
    const struct st_tensor **tensors; /* in order: storage K is tensors[K] */
    int64_t tensor_count, tensor_room;
    struct err *err; /* the first failure; every step after it does nothing */
};

static const char *storage_class(enum dtype t)
{
    switch (t) {
    case DT_F64:
        return "DoubleStorage";
    case DT_F32:
        return "FloatStorage";
    case DT_F16:
        return "HalfStorage";
    case DT_BF16:
        return "BFloat16Storage";
    case DT_I64:
        return "LongStorage";
    case DT_I32:
        return "IntStorage";
    case DT_I16:
        return "ShortStorage";
    case DT_I8:
        return "CharStorage";
    case DT_U8:
        return "ByteStorage";
    case DT_BOOL:
        return "BoolStorage";
    default:
        return NULL;
    }
}

static bool failed(const struct writer *w)
{
    return w->err->code != ERR_OK;
}

static void no_memory(struct writer *w)
{
    err_set(w->err, ERR_MEMORY, "write torch file|%s|no memory", w->path);
}

static void put(struct writer *w, const void *data, size_t size)
{
    if (failed(w)) return;
    if (w->size + (int64_t)size > w->room) {
        int64_t room = 2 * w->room + (int64_t)size + 1024;
        char *grown = realloc(w->bytes, (size_t)room);
        if (!grown) {
            no_memory(w);
            return;
        }
        w->bytes = grown;
        w->room = room;
    }
    memcpy(w->bytes + w->size, data, size);
    w->size += (int64_t)size;
}

static void put_op(struct writer *w, int op)
{
    char byte = (char)op;
    put(w, &byte, 1);
}

static void put_number(struct writer *w, int op, uint64_t value, int bytes)
{
    unsigned char b[8];
    bytes_put(b, value, bytes);
    put_op(w, op);
    put(w, b, (size_t)bytes);
}

static void put_memo(struct writer *w, int short_op, int long_op, int64_t i)
{
    if (i < 256)
        put_number(w, short_op, (uint64_t)i, 1);
    else
        put_number(w, long_op, (uint64_t)i, 4);
}

/* The pickler notes every object that something could name again, in the order they are made. */
static void memoize(struct writer *w)
{
    put_memo(w, 'q', 'r', w->memos++);
}

/* True where `text` is in the table and was named again; else it is noted for the memoize() that
 * follows. */
static bool recall(struct writer *w, json_t *table, const char *text)
{
    const json_t *known = json_object_get(table, text);
    if (known) {
        put_memo(w, 'h', 'j', json_integer_value(known));
    } else if (json_object_set_new(table, text, json_integer(w->memos)) != 0) {
        no_memory(w);
    }
    return known != NULL;
}

static void put_text(struct writer *w, const char *text, int64_t bytes)
{
    json_t *valid = json_stringn(text, (size_t)bytes);
    if (!valid || strlen(text) != (size_t)bytes)
        err_set(w->err, ERR_INPUT, "write torch file|%s|a text with a NUL or not UTF-8|UTF-8",
                w->path);
    json_decref(valid);
    if (failed(w) || recall(w, w->texts, text)) return;
    put_number(w, 'X', (uint64_t)bytes, 4);
    put(w, text, (size_t)bytes);
    memoize(w);
}

static void put_global(struct writer *w, const char *module, const char *name)
{
    char text[64];
    int n = snprintf(text, sizeof text, "c%s\n%s\n", module, name);
    CHECK(n > 0 && n < (int)sizeof text);
    if (recall(w, w->globals, text)) return;
    put(w, text, (size_t)n);
    memoize(w);
}

static void put_int(struct writer *w, int64_t x)
{
    if (x >= 0 && x <= UINT8_MAX) {
        put_number(w, 'K', (uint64_t)x, 1);
    } else if (x >= 0 && x <= UINT16_MAX) {
        put_number(w, 'M', (uint64_t)x, 2);
    } else if (x >= INT32_MIN && x <= INT32_MAX) {
        put_number(w, 'J', (uint64_t)x, 4);
    } else {
        int bytes = 5; /* the fewest that hold the sign: none is shorter past 32 bits */
        while (bytes < 8 && (x >> (8 * bytes - 1)) != (x < 0 ? -1 : 0)) bytes++;
        put_op(w, 0x8a);
        put_number(w, bytes, (uint64_t)x, bytes);
    }
}

static void put_float(struct writer *w, double x)
{
    uint64_t bits, swapped = 0;
    memcpy(&bits, &x, sizeof bits);
    for (int i = 0; i < 8; i++) swapped = swapped << 8 | (bits >> 8 * i & 255);
    put_number(w, 'G', swapped, 8);
}

/* Ends a tuple of n values that are written already, behind a mark where n > 3. */
static void end_tuple(struct writer *w, int64_t n)
{
    put_op(w, n > 3 ? 't' : n == 0 ? ')' : 0x84 + (int)n);
    if (n) memoize(w);
}

static void put_dims(struct writer *w, const int64_t *x, int n)
{
    if (n > 3) put_op(w, '(');
    for (int i = 0; i < n; i++) put_int(w, x[i]);
    end_tuple(w, n);
}

static void put_storage(struct writer *w, const struct st_tensor *t)
{
    char key[24];
    int n = snprintf(key, sizeof key, "%lld", (long long)w->tensor_count);
    const char *name = storage_class(t->dtype);
    if (!name) {
        err_set(w->err, ERR_INPUT,
                "write torch file|%s|a tensor of %s|F64 F32 F16 BF16 I64 I32 "
                "I16 I8 U8 BOOL",
                w->path, dtype_name(t->dtype));
        return;
    }
    put_op(w, '(');
    put_text(w, "storage", 7);
    put_global(w, "torch", name);
    put_text(w, key, n);
    put_text(w, "cpu", 3);
    put_int(w, t->count);
    end_tuple(w, 5);
    put_op(w, 'Q');
}

static void note_tensor(struct writer *w, const struct st_tensor *t)
{
    if (w->tensor_count == w->tensor_room) {
        int64_t room = 2 * w->tensor_room + 8;
        void *grown = realloc(w->tensors, (size_t)room * sizeof *w->tensors);
        if (!grown) {
            no_memory(w);
            return;
        }
        w->tensors = grown;
        w->tensor_room = room;
    }
    w->tensors[w->tensor_count++] = t;
}

/* _rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()) */
static void put_tensor(struct writer *w, const struct st_tensor *t)
{
    int64_t stride[ST_DIMS], step = 1;
    for (int i = t->dims - 1; i >= 0; i--) {
        stride[i] = step;
        step *= t->shape[i] > 1 ? t->shape[i] : 1;
    }
    put_global(w, "torch._utils", "_rebuild_tensor_v2");
    put_op(w, '(');
    put_storage(w, t);
    put_int(w, 0);
    put_dims(w, t->shape, t->dims);
    put_dims(w, stride, t->dims);
    put_op(w, 0x89);
    put_global(w, "collections", "OrderedDict");
    put_op(w, ')');
    put_op(w, 'R');
    memoize(w);
    end_tuple(w, 6);
    put_op(w, 'R');
    memoize(w);
    note_tensor(w, t);
}

static void put_value(struct writer *w, const struct pt_value *v, int depth);

/* Items come in batches behind a mark; a single one without. A dict whose size is a multiple of the
 * batch ends in an empty batch: that is what CPython writes. */
static void put_items(struct writer *w, const struct pt_value *v, int depth)
{
    bool dict = v->kind == PT_DICT;
    int64_t end = v->count + (dict && v->count > 1 && v->count % BATCH == 0);
    for (int64_t i = 0; i < end; i += BATCH) {
        if (v->count > 1) put_op(w, '(');
        for (int64_t k = i; k < i + BATCH && k < v->count; k++) {
            if (dict) put_value(w, &v->keys[k], depth + 1);
            put_value(w, &v->items[k], depth + 1);
        }
        put_op(w, v->count > 1 ? (dict ? 'u' : 'e') : dict ? 's' : 'a');
    }
}

static void put_value(struct writer *w, const struct pt_value *v, int depth)
{
    CHECK(depth < DEPTH);
    switch (v->kind) {
    case PT_NONE:
        put_op(w, 'N');
        break;
    case PT_BOOL:
        put_op(w, v->whole ? 0x88 : 0x89);
        break;
    case PT_INT:
        put_int(w, v->whole);
        break;
    case PT_FLOAT:
        put_float(w, v->real);
        break;
    case PT_TEXT:
        put_text(w, v->text, v->count);
        break;
    case PT_TUPLE:
        if (v->count > 3) put_op(w, '(');
        for (int64_t i = 0; i < v->count; i++) put_value(w, &v->items[i], depth + 1);
        end_tuple(w, v->count);
        break;
    case PT_LIST:
    case PT_DICT:
        put_op(w, v->kind == PT_DICT ? '}' : ']');
        memoize(w);
        put_items(w, v, depth);
        break;
    case PT_TENSOR:
        put_tensor(w, v->tensor);
        break;
    }
}

/* ---- the archive ---- */

/* The file's name without folder and last extension; "archive" where torch has no such name. */
static void folder_of(const char *path, char out[FILE_PATH])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    snprintf(out, FILE_PATH, "%.*s", (int)(dot ? dot - name : (ptrdiff_t)strlen(name)), name);
    bool plain = out[0] != '\0';
    for (const char *c = out; *c; c++) plain = plain && (unsigned char)*c < 0x80;
    if (!plain) snprintf(out, FILE_PATH, "archive");
}

static uint64_t combined(uint64_t before, uint64_t value)
{
    return before ^ (value + 0x9e3779b9u + (before << 6) + (before >> 2));
}

static void add(struct archive_out *a, const char *folder, const char *name, const void *data,
                int64_t size, struct err *err)
{
    char member[2 * FILE_PATH];
    if (err->code != ERR_OK) return;
    snprintf(member, sizeof member, "%s/%s", folder, name);
    (void)!archive_out_add(a, member, data, size, err);
}

/* Twenty digits of the names, twenty of the checksums, combined as torch does: empty members do not
 * count. */
static void add_id(struct archive_out *a, const char *folder, struct err *err)
{
    char text[48];
    uint64_t names = 0, sums = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const char *name = strchr(a->members[i].name, '/');
        names = combined(names, crc32_of(&a->crc, 0, name, (int64_t)strlen(name)));
        if (a->members[i].size) sums = combined(sums, a->members[i].crc);
    }
    int n = snprintf(text, sizeof text, "%020llu%020llu", (unsigned long long)names,
                     (unsigned long long)sums);
    add(a, folder, ".data/serialization_id", text, n, err);
}

static enum err_code write_archive(const struct writer *w, struct err *err)
{
    struct archive_out a;
    char folder[FILE_PATH], name[48];
    folder_of(w->path, folder);
    if (archive_out_open(&a, w->path, err) == ERR_OK) {
        add(&a, folder, "data.pkl", w->bytes, w->size, err);
        add(&a, folder, ".format_version", "1", 1, err);
        add(&a, folder, ".storage_alignment", "64", 2, err);
        add(&a, folder, "byteorder", "little", 6, err);
        for (int64_t i = 0; i < w->tensor_count; i++) {
            snprintf(name, sizeof name, "data/%lld", (long long)i);
            add(&a, folder, name, w->tensors[i]->data, w->tensors[i]->bytes, err);
        }
        add(&a, folder, "version", "3\n", 2, err);
        add_id(&a, folder, err);
        if (err->code == ERR_OK) (void)!archive_out_commit(&a, err);
    }
    archive_out_close(&a);
    return err->code;
}

enum err_code pt_write(const char *path, const struct pt_value *root, struct err *err)
{
    struct writer w = {.path = path, .texts = json_object(), .globals = json_object(), .err = err};
    if (!w.texts || !w.globals) no_memory(&w);
    put(&w, "\x80\x02", 2);
    put_value(&w, root, 0);
    put_op(&w, '.');
    if (err->code == ERR_OK) (void)!write_archive(&w, err);
    free(w.bytes);
    free(w.tensors);
    json_decref(w.texts);
    json_decref(w.globals);
    return err->code;
}
