/* pt.c: from the archive and the machine's objects to values; see pt.h. */
#include "core/pt.h"

#include "core/archive.h"
#include "core/pt_pickle.h"
#include "core/strided.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH = 64,    /* nesting of values: torch's own files have three or four levels */
    SHARED = 4096, /* values beyond four a byte of the pickle */
};

struct reader {
    const char *path;
    struct archive archive;
    struct arena *arena;
    char folder[FILE_PATH];
    const void **loaded; /* [members] the bytes of a storage, or NULL */
    int64_t *loaded_size;
    int64_t values_left; /* a value that is written takes a byte; one that is shared may not */
    int64_t copy_left;   /* bytes that views may still be copied to */
};

static enum err_code values_of(struct reader *r, const struct pickle_value *v, int depth,
                               struct pt_value *out, struct err *err);

/* ---- members ---- */

static enum err_code member_path(const struct reader *r, const char *name, char *out,
                                 struct err *err)
{
    return file_join(r->folder, name, out, err);
}

/* The whole member at *bytes, of the arena. */
static enum err_code read_member(struct reader *r, int64_t member, const void **bytes,
                                 int64_t *size, struct err *err)
{
    if (archive_size(&r->archive, member, size, err) != ERR_OK) return err->code;
    void *out = arena_alloc(r->arena, *size, 1, "a member of a torch file", err);
    if (!out) return err->code;
    *bytes = out;
    return archive_read(&r->archive, member, out, *size, err);
}

/* The folder is that of the first member, "archive" or the file's own name. */
static enum err_code find_folder(struct reader *r, struct err *err)
{
    const char *name = archive_count(&r->archive) ? archive_name(&r->archive, 0) : "";
    const char *slash = strchr(name, '/');
    if (!slash || slash - name >= FILE_PATH)
        return err_set(err, ERR_INPUT, "read torch file|%s|first member %s|FOLDER/data.pkl",
                       r->path, name[0] ? name : "missing");
    memcpy(r->folder, name, (size_t)(slash - name));
    r->folder[slash - name] = '\0';
    return ERR_OK;
}

/* Files of torch before 2.1 have no such member, and are little-endian. */
static enum err_code check_byte_order(struct reader *r, struct err *err)
{
    char name[FILE_PATH];
    const void *bytes = NULL;
    int64_t size = 0;
    if (member_path(r, "byteorder", name, err) != ERR_OK) return err->code;
    int64_t member = archive_find(&r->archive, name);
    if (member < 0) return ERR_OK;
    if (read_member(r, member, &bytes, &size, err) != ERR_OK) return err->code;
    if (size != 6 || memcmp(bytes, "little", 6) != 0)
        return err_set(err, ERR_INPUT, "read torch file|%s: %s|%.*s|little", r->path, name,
                       size < 16 ? (int)size : 16, (const char *)bytes);
    return ERR_OK;
}

static enum err_code load_storage(struct reader *r, struct pickle_object *s, struct err *err)
{
    char name[FILE_PATH], key[FILE_PATH];
    int n = snprintf(key, sizeof key, "data/%s", s->key.text);
    if (n < 0 || n >= FILE_PATH || strlen(s->key.text) != (size_t)s->key.whole)
        return err_set(err, ERR_INPUT, "read torch file|%s|a storage key of %lld bytes|a number",
                       r->path, (long long)s->key.whole);
    if (member_path(r, key, name, err) != ERR_OK) return err->code;
    int64_t member = archive_find(&r->archive, name);
    if (member < 0)
        return err_set(err, ERR_INPUT, "read torch file|%s: %s|no such member|the storage", r->path,
                       name);
    if (!r->loaded[member] &&
        read_member(r, member, &r->loaded[member], &r->loaded_size[member], err) != ERR_OK)
        return err->code;
    if (s->elements > r->loaded_size[member] / dtype_size(s->dtype))
        return err_set(err, ERR_INPUT, "read torch file|%s: %s|%lld bytes|%lld elements of %s",
                       r->path, name, (long long)r->loaded_size[member], (long long)s->elements,
                       dtype_name(s->dtype));
    s->bytes = r->loaded[member];
    return ERR_OK;
}

/* ---- tensors ---- */

static enum err_code make_tensor(struct reader *r, struct pickle_object *t, struct err *err)
{
    int64_t count;
    if (!t->storage->bytes && load_storage(r, t->storage, err) != ERR_OK) return err->code;
    int size = dtype_size(t->storage->dtype);
    if (!strided_count(t->dims, t->shape, &count))
        return err_set(err, ERR_INPUT, "read torch file|%s|a tensor of 2^60 elements|fewer",
                       r->path);
    const char *data = (const char *)t->storage->bytes + t->offset * size;
    if (!strided_is_plain(t->dims, t->shape, t->stride)) {
        if (count * size > r->copy_left)
            return err_set(err, ERR_INPUT,
                           "read torch file|%s|views of %lld bytes more|at most %lld: the file's "
                           "own bytes and %d MiB",
                           r->path, (long long)(count * size), (long long)r->copy_left,
                           ARCHIVE_EXPAND >> 20);
        r->copy_left -= count * size;
        char *copy = arena_alloc(r->arena, count, (size_t)size, "a view of a torch file", err);
        if (!copy) return err->code;
        strided_copy(t->dims, t->shape, t->stride, size, data, copy);
        data = copy;
    }
    struct st_tensor *made = arena_alloc(r->arena, 1, sizeof *made, "a tensor", err);
    if (!made) return err->code;
    *made = (struct st_tensor){.name = "",
                               .dtype = t->storage->dtype,
                               .dims = t->dims,
                               .count = count,
                               .bytes = count * size,
                               .data = data};
    memcpy(made->shape, t->shape, sizeof made->shape);
    t->made = made;
    return ERR_OK;
}

/* ---- values ---- */

static int compare_keys(const void *a, const void *b)
{
    const struct pt_value *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->kind == PT_INT) return (x->whole > y->whole) - (x->whole < y->whole);
    int64_t n = x->count < y->count ? x->count : y->count;
    int order = memcmp(x->text, y->text, (size_t)n);
    return order ? order : (x->count > y->count) - (x->count < y->count);
}

static enum err_code check_keys(struct reader *r, const struct pt_value *dict, struct err *err)
{
    struct pt_value *sorted = malloc((size_t)dict->count * sizeof *sorted + 1);
    if (!sorted) return err_set(err, ERR_MEMORY, "read torch file|%s|no memory", r->path);
    for (int64_t i = 0; i < dict->count; i++) {
        sorted[i] = dict->keys[i];
        if (sorted[i].kind != PT_INT && sorted[i].kind != PT_TEXT)
            err_set(err, ERR_INPUT,
                    "read torch file|%s|a dict key that is neither text nor int|"
                    "one of them",
                    r->path);
    }
    if (err->code == ERR_OK) qsort(sorted, (size_t)dict->count, sizeof *sorted, compare_keys);
    for (int64_t i = 1; err->code == ERR_OK && i < dict->count; i++) {
        const struct pt_value *k = &sorted[i];
        if (compare_keys(k, k - 1) != 0) continue;
        if (k->kind == PT_TEXT)
            err_set(err, ERR_INPUT, "read torch file|%s|key %.80s twice|once", r->path, k->text);
        else
            err_set(err, ERR_INPUT, "read torch file|%s|key %lld twice|once", r->path,
                    (long long)k->whole);
    }
    free(sorted);
    return err->code;
}

/* Every `step`-th of the object's items, from `first` on. */
static enum err_code items_of(struct reader *r, const struct pickle_object *o, int first, int step,
                              int depth, struct pt_value **out, struct err *err)
{
    int64_t n = o->count / step;
    *out = arena_alloc(r->arena, n, sizeof **out, "values of a torch file", err);
    for (int64_t i = 0; *out && i < n; i++) {
        if (values_of(r, &o->items[i * step + first], depth + 1, &(*out)[i], err) != ERR_OK) break;
    }
    return err->code;
}

static enum err_code container_of(struct reader *r, const struct pickle_value *v, int depth,
                                  struct pt_value *out, struct err *err)
{
    const struct pickle_object *o = v->object;
    bool dict = v->kind == PICKLE_DICT;
    if (depth == DEPTH)
        return err_set(err, ERR_INPUT, "read torch file|%s|values nested %d deep|less", r->path,
                       DEPTH);
    out->kind = dict ? PT_DICT : v->kind == PICKLE_LIST ? PT_LIST : PT_TUPLE;
    out->count = dict ? o->count / 2 : o->count;
    if (dict && items_of(r, o, 0, 2, depth, &out->keys, err) != ERR_OK) return err->code;
    if (dict && check_keys(r, out, err) != ERR_OK) return err->code;
    return items_of(r, o, dict, dict ? 2 : 1, depth, &out->items, err);
}

static enum err_code values_of(struct reader *r, const struct pickle_value *v, int depth,
                               struct pt_value *out, struct err *err)
{
    *out = (struct pt_value){.kind = PT_NONE};
    if (r->values_left-- == 0)
        return err_set(err, ERR_INPUT,
                       "read torch file|%s|containers that hold each other many times|values that "
                       "are written once",
                       r->path);
    switch (v->kind) {
    case PICKLE_NONE:
        return ERR_OK;
    case PICKLE_BOOL:
    case PICKLE_INT:
        out->kind = v->kind == PICKLE_BOOL ? PT_BOOL : PT_INT;
        out->whole = v->whole;
        return ERR_OK;
    case PICKLE_FLOAT:
        out->kind = PT_FLOAT;
        out->real = v->real;
        return ERR_OK;
    case PICKLE_TEXT:
        out->kind = PT_TEXT;
        out->text = v->text;
        out->count = v->whole;
        return ERR_OK;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_DICT:
        return container_of(r, v, depth, out, err);
    case PICKLE_TENSOR:
        out->kind = PT_TENSOR;
        if (!v->object->made && make_tensor(r, v->object, err) != ERR_OK) return err->code;
        out->tensor = v->object->made;
        return ERR_OK;
    default:
        return err_set(err, ERR_INPUT, "read torch file|%s|%s as a value|data or a tensor", r->path,
                       pickle_kind_name(v->kind));
    }
}

/* ---- files ---- */

static enum err_code read_values(struct reader *r, struct pt_value *root, struct err *err)
{
    char name[FILE_PATH];
    const void *bytes = NULL;
    int64_t size = 0, members = archive_count(&r->archive);
    struct pickle machine = {0};
    struct pickle_value value;
    if (find_folder(r, err) != ERR_OK || check_byte_order(r, err) != ERR_OK ||
        member_path(r, "data.pkl", name, err) != ERR_OK)
        return err->code;
    int64_t member = archive_find(&r->archive, name);
    if (member < 0)
        return err_set(err, ERR_INPUT, "read torch file|%s|no member %s|a file of torch.save",
                       r->path, name);
    r->loaded = calloc((size_t)members, sizeof *r->loaded);
    r->loaded_size = calloc((size_t)members, sizeof *r->loaded_size);
    if (!r->loaded || !r->loaded_size)
        return err_set(err, ERR_MEMORY, "read torch file|%s|no memory", r->path);
    if (read_member(r, member, &bytes, &size, err) == ERR_OK &&
        pickle_run(&machine, r->path, bytes, size, r->arena, &value, err) == ERR_OK) {
        r->values_left = SHARED + 4 * size;
        (void)!values_of(r, &value, 0, root, err);
    }
    pickle_free(&machine);
    return err->code;
}

/* What it is instead, for the message. */
static const char *other_kind(const void *data, int64_t size)
{
    if (size >= 2 && memcmp(data, "\x1f\x8b", 2) == 0) return "a gzip file: gunzip it first";
    if (size >= 2 && memcmp(data, "\x80\x02", 2) == 0)
        return "a bare pickle, as torch.save wrote before 1.6";
    return "no zip archive";
}

enum err_code pt_open_memory(struct pt_file *f, const char *path, const void *data, int64_t size,
                             struct err *err)
{
    *f = (struct pt_file){.root = {.kind = PT_NONE}};
    snprintf(f->path, sizeof f->path, "%s", path);
    if (!archive_is(data, size))
        return err_set(err, ERR_INPUT,
                       "read torch file|%s|%s|a zip archive of torch.save (torch.load and save it "
                       "again)",
                       path, other_kind(data, size));
    struct reader r = {.path = path, .copy_left = size + ARCHIVE_EXPAND};
    f->owned = r.arena = calloc(1, sizeof *r.arena);
    if (!r.arena) return err_set(err, ERR_MEMORY, "read torch file|%s|no memory", path);
    if (archive_open(&r.archive, path, data, size, err) == ERR_OK)
        (void)!read_values(&r, &f->root, err);
    archive_close(&r.archive);
    free(r.loaded);
    free(r.loaded_size);
    if (err->code != ERR_OK) pt_close(f);
    return err->code;
}

enum err_code pt_open(struct pt_file *f, const char *path, struct err *err)
{
    struct file_map map;
    *f = (struct pt_file){.root = {.kind = PT_NONE}};
    if (file_map(path, &map, err) != ERR_OK) return err->code;
    (void)!pt_open_memory(f, path, map.data, map.size, err);
    file_unmap(&map);
    return err->code;
}

void pt_close(struct pt_file *f)
{
    if (f->owned) arena_release(f->owned, NULL);
    free(f->owned);
    *f = (struct pt_file){.root = {.kind = PT_NONE}};
}

const struct pt_value *pt_get(const struct pt_value *dict, const char *key)
{
    if (dict->kind != PT_DICT) return NULL;
    for (int64_t i = 0; i < dict->count; i++) {
        const struct pt_value *k = &dict->keys[i];
        if (k->kind == PT_TEXT && strlen(key) == (size_t)k->count &&
            memcmp(key, k->text, (size_t)k->count) == 0)
            return &dict->items[i];
    }
    return NULL;
}
