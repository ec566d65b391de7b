/* fault_file.c: see fault_file.h. A file is taken apart into header (JSON) and data, edited, and
 * written again. */
#include "harness/fault_file.h"

#include "core/json.h"
#include "core/synth.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS_MAX = 256 };

/* One file on its way from the old folder to the new one. */
struct edit {
    uint64_t draw; /* hash-random; each use takes the next */
    int64_t draws;
    json_t *header, *before; /* as edited, as it was */
    char *text;              /* of the header as it stood in the file */
    unsigned char *data;
    int64_t size;      /* of the data */
    int64_t cut;       /* bytes of the whole file that are written; -1: all */
    int64_t hole;      /* this many bytes at the end are a hole; 0: none */
    const char *twice; /* a tensor whose entry stands twice in the header, or NULL */
    struct fault_file *out;
    bool inert;
};

static uint64_t next_draw(struct edit *e)
{
    return synth_x(e->draw, e->draws++);
}

/* A tensor of the header with at least `bytes` bytes, picked at random; NULL: none. */
static const char *pick(struct edit *e, int64_t bytes, const char *other_than)
{
    const char *name, *fits[512];
    json_t *t;
    int n = 0;
    json_object_foreach(e->header, name, t)
    {
        json_t *at = json_object_get(t, "data_offsets");
        if (strcmp(name, "__metadata__") == 0 || (other_than && strcmp(name, other_than) == 0))
            continue;
        int64_t first = json_integer_value(json_array_get(at, 0)),
                end = json_integer_value(json_array_get(at, 1));
        if (end - first >= bytes && n < 512) fits[n++] = name;
    }
    return n ? fits[next_draw(e) % (uint64_t)n] : NULL;
}

static void name_tensor(struct edit *e, const char *name)
{
    if (!name) e->inert = true;
    snprintf(e->out->tensor, sizeof e->out->tensor, "%s", name ? name : "");
}

static json_t *entry(struct edit *e)
{
    return json_object_get(e->header, e->out->tensor);
}

static void truncated(struct edit *e)
{
    e->cut = e->size / 2 + (int64_t)(next_draw(e) % (uint64_t)(e->size / 2));
}

static void short_read(struct edit *e)
{
    /* What a copy leaves that was cut off after the size was set. */
    e->hole = e->size / 4;
}

static void bit_flip(struct edit *e)
{
    name_tensor(e, pick(e, 64, NULL));
    if (e->inert) return;
    json_t *at = json_object_get(entry(e), "data_offsets");
    int64_t first = json_integer_value(json_array_get(at, 0)),
            end = json_integer_value(json_array_get(at, 1));
    e->data[first + (int64_t)(next_draw(e) % (uint64_t)(end - first))] ^=
        (unsigned char)(1u << next_draw(e) % 8);
    e->out->content = true;
}

static void missing_tensor(struct edit *e)
{
    name_tensor(e, pick(e, 1, NULL));
    if (e->inert) return;
    /* Its bytes stay, under a name that nobody asks for: the file itself is sound. */
    json_t *t = json_incref(entry(e));
    json_object_del(e->header, e->out->tensor);
    json_object_set_new(e->header, "lost_and_found", t);
}

static void extra_tensor(struct edit *e)
{
    snprintf(e->out->tensor, sizeof e->out->tensor, "model.layers.0.mlp.left_over.weight");
    unsigned char *more = realloc(e->data, (size_t)e->size + 64);
    if (!more) {
        e->inert = true;
        return;
    }
    e->data = more;
    memset(e->data + e->size, 0, 64);
    json_object_set_new(e->header, e->out->tensor,
                        json_pack("{s:s, s:[i], s:[I, I]}", "dtype", "BF16", "shape", 32,
                                  "data_offsets", (json_int_t)e->size, (json_int_t)e->size + 64));
    e->size += 64;
}

static void wrong_dtype(struct edit *e)
{
    name_tensor(e, pick(e, 2, NULL));
    if (e->inert) return;
    const char *was = json_string_value(json_object_get(entry(e), "dtype"));
    /* Of the same width, so that the file stays sound. */
    const char *now = strcmp(was, "BF16") == 0  ? "I16"
                      : strcmp(was, "F32") == 0 ? "U32"
                      : strcmp(was, "I32") == 0 ? "F32"
                      : strcmp(was, "I64") == 0 ? "F64"
                                                : NULL;
    if (!now) e->inert = true;
    if (now) json_object_set_new(entry(e), "dtype", json_string(now));
}

static void wrong_shape(struct edit *e)
{
    name_tensor(e, pick(e, 8, NULL));
    if (e->inert) return;
    json_t *shape = json_object_get(entry(e), "shape");
    if (json_array_size(shape) == 2) {
        int64_t a = json_integer_value(json_array_get(shape, 0)),
                b = json_integer_value(json_array_get(shape, 1));
        if (a == b) e->inert = true;
        json_array_set_new(shape, 0, json_integer(b));
        json_array_set_new(shape, 1, json_integer(a));
    } else {
        /* [n] as [1, n]. */
        json_array_insert_new(shape, 0, json_integer(1));
    }
}

static void prefix(struct edit *e)
{
    json_t *renamed = json_object();
    const char *name;
    json_t *t;
    char longer[512];
    json_object_foreach(e->header, name, t)
    {
        bool meta = strcmp(name, "__metadata__") == 0;
        snprintf(longer, sizeof longer, "%s%s", meta ? "" : "module.", name);
        json_object_set(renamed, longer, t);
    }
    json_decref(e->header);
    e->header = renamed;
    snprintf(e->out->tensor, sizeof e->out->tensor, "module.");
}

static void duplicate_key(struct edit *e)
{
    name_tensor(e, pick(e, 1, NULL));
    e->twice = e->out->tensor;
}

static const struct {
    const char *id;
    void (*edit)(struct edit *e);
} edits[] = {
    {"file.truncated", truncated},         {"file.short_read", short_read},
    {"file.bit_flip", bit_flip},           {"file.missing_tensor", missing_tensor},
    {"file.extra_tensor", extra_tensor},   {"file.wrong_dtype", wrong_dtype},
    {"file.wrong_shape", wrong_shape},     {"file.prefix", prefix},
    {"file.duplicate_key", duplicate_key},
};

/* ---- files ---- */

static enum err_code take_apart(struct edit *e, const char *path, struct err *err)
{
    struct file_map m;
    uint64_t header = 0;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    if (m.size >= 8) memcpy(&header, m.data, 8);
    if (m.size < 8 || header > (uint64_t)m.size - 8) {
        err_set(err, ERR_INPUT, "inject file fault|%s|%lld bytes|a safetensors file", path,
                (long long)m.size);
    } else if (json_parse((const char *)m.data + 8, (int64_t)header, path, &e->header, err) ==
               ERR_OK) {
        e->size = m.size - 8 - (int64_t)header;
        e->data = malloc((size_t)e->size + 1);
        e->text = strndup((const char *)m.data + 8, (size_t)header);
        e->before = json_deep_copy(e->header);
        if (e->data && e->text && e->before)
            memcpy(e->data, m.data + 8 + header, (size_t)e->size);
        else
            err_set(err, ERR_MEMORY, "inject file fault|%s|no memory", path);
    }
    file_unmap(&m);
    return err->code;
}

/* The header's text, byte for byte where nothing in it was edited; the entry of `twice` stands in
 * front once more. */
static char *header_text(const struct edit *e)
{
    if (!e->twice && json_equal(e->header, e->before)) return strdup(e->text);
    char *text = json_dumps(e->header, JSON_COMPACT), *one, *both = NULL;
    if (!text || !e->twice) return text;
    one = json_dumps(json_object_get(e->header, e->twice), JSON_COMPACT);
    size_t room = strlen(text) + (one ? strlen(one) : 0) + strlen(e->twice) + 8;
    both = one ? malloc(room) : NULL;
    if (both) snprintf(both, room, "{\"%s\":%s,%s", e->twice, one, text + 1);
    free(one);
    free(text);
    return both;
}

static enum err_code put_together(const struct edit *e, const char *path, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    char *text = header_text(e);
    if (!text) return err_set(err, ERR_MEMORY, "inject file fault|%s|no memory", path);
    uint64_t length = strlen(text);
    int64_t data = e->size - e->hole;
    if (e->cut >= 0) {
        data = e->cut;
    }
    if (file_out_open(&f, path, err) == ERR_OK && file_out_write(&f, &length, 8, err) == ERR_OK &&
        file_out_write(&f, text, (int64_t)length, err) == ERR_OK &&
        file_out_write(&f, e->data, data, err) == ERR_OK && file_out_commit(&f, err) == ERR_OK &&
        e->hole > 0 && truncate(path, (off_t)(8 + (int64_t)length + e->size)) != 0)
        (void)!err_sys(err, errno, "extend|%s", path);
    file_out_abandon(&f);
    free(text);
    return err->code;
}

static enum err_code copy(const char *from, const char *to, struct err *err)
{
    struct file_map m;
    struct file_out f = FILE_OUT_INIT;
    if (link(from, to) == 0) return ERR_OK; /* nothing edits it in place */
    if (file_map(from, &m, err) != ERR_OK) return err->code;
    if (file_out_open(&f, to, err) == ERR_OK && file_out_write(&f, m.data, m.size, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    file_unmap(&m);
    return err->code;
}

struct shards {
    char name[SHARDS_MAX][256];
    int count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool is_shard(const char *name)
{
    return text_ends(name, ".safetensors") && text_starts(name, "model");
}

static enum err_code copy_others(const char *from, const char *to, struct shards *s,
                                 struct err *err)
{
    char a[FILE_PATH], b[FILE_PATH];
    DIR *d = opendir(from);
    if (!d) return err_sys(err, errno, "inject file fault|%s", from);
    for (struct dirent *e = readdir(d); e && err->code == ERR_OK; e = readdir(d)) {
        if (is_shard(e->d_name)) {
            if (s->count == SHARDS_MAX)
                err_set(err, ERR_INPUT, "inject file fault|%s|more than %d shards|fewer", from,
                        SHARDS_MAX);
            else
                snprintf(s->name[s->count++], sizeof s->name[0], "%s", e->d_name);
        } else if (strcmp(e->d_name, "config.json") == 0 ||
                   strcmp(e->d_name, "model.safetensors.index.json") == 0) {
            if (file_join(from, e->d_name, a, err) == ERR_OK &&
                file_join(to, e->d_name, b, err) == ERR_OK)
                (void)!copy(a, b, err);
        }
    }
    closedir(d);
    qsort(s->name, (size_t)s->count, sizeof s->name[0], by_name);
    if (err->code == ERR_OK && s->count == 0)
        err_set(err, ERR_INPUT, "inject file fault|%s|no model*.safetensors|at least one", from);
    return err->code;
}

/* Shard i under the name of shard k. */
static enum err_code copy_shard(const char *from, const char *to, const struct shards *s, int i,
                                int k, struct err *err)
{
    char a[FILE_PATH], b[FILE_PATH];
    if (file_join(from, s->name[i], a, err) != ERR_OK ||
        file_join(to, s->name[k], b, err) != ERR_OK)
        return err->code;
    return copy(a, b, err);
}

static enum err_code edit_shard(struct edit *e, const struct fault_row *row, const char *from,
                                const char *to, const char *name, struct err *err)
{
    char a[FILE_PATH], b[FILE_PATH];
    if (file_join(from, name, a, err) != ERR_OK || file_join(to, name, b, err) != ERR_OK ||
        take_apart(e, a, err) != ERR_OK)
        return err->code;
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        if (strcmp(edits[i].id, row->id) == 0) edits[i].edit(e);
    }
    return put_together(e, b, err);
}

static bool known(const char *id)
{
    if (strcmp(id, "file.swapped_shards") == 0) return true;
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        if (strcmp(edits[i].id, id) == 0) return true;
    }
    return false;
}

static enum err_code inject(struct edit *e, const struct fault_row *row, const char *from,
                            const char *to, struct err *err)
{
    struct shards *s = calloc(1, sizeof *s);
    if (!s) return err_set(err, ERR_MEMORY, "inject file fault|%s|no memory", from);
    if (file_make_folder(to, err) != ERR_OK || copy_others(from, to, s, err) != ERR_OK) goto done;
    bool swap = strcmp(row->id, "file.swapped_shards") == 0;
    int at = (int)(next_draw(e) % (uint64_t)s->count), with = (at + 1) % s->count;
    e->inert = swap && s->count < 2;
    snprintf(e->out->file, sizeof e->out->file, "%s", s->name[at]);
    for (int i = 0; i < s->count && err->code == ERR_OK; i++) {
        if (i == at && !swap)
            (void)!edit_shard(e, row, from, to, s->name[i], err);
        else
            (void)!copy_shard(from, to, s, i,
                              swap && i == at     ? with
                              : swap && i == with ? at
                                                  : i,
                              err);
    }
done:
    free(s);
    return err->code;
}

static void remove_folder(const char *path)
{
    char file[FILE_PATH];
    struct err ignored = ERR_INIT;
    DIR *d = opendir(path);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (e->d_name[0] != '.' && file_join(path, e->d_name, file, &ignored) == ERR_OK)
            unlink(file);
    }
    if (d) closedir(d);
    rmdir(path);
}

enum err_code fault_file_inject(const struct fault_row *row, uint64_t seed, const char *from,
                                const char *to, struct fault_file *out, bool *inert,
                                struct err *err)
{
    struct edit e = {.draw = synth_base(seed, row->id), .cut = -1, .out = out};
    *out = (struct fault_file){0};
    if (row->stage != FAULT_FILE || !known(row->id))
        return err_set(err, ERR_USAGE, "inject file fault|%s|no edit of a file|one of family file",
                       row->id);
    if (file_exists(to) || file_is_folder(to))
        return err_set(err, ERR_USAGE, "inject file fault|%s|something of that name|a new folder",
                       to);
    (void)!inject(&e, row, from, to, err);
    if (e.inert || err->code != ERR_OK) remove_folder(to);
    *inert = e.inert;
    json_decref(e.header);
    json_decref(e.before);
    free(e.text);
    free(e.data);
    return err->code;
}
