/* inspect.c: the parts of an inspection that all its files share, and the order of its steps; see
 * inspect.h. */
#include "harness/inspect.h"

#include "core/digest.h"
#include "core/tap.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts lie in chunks that never move: 200,000 names are a few hundred allocations. */
struct ins_chunk {
    struct ins_chunk *next;
    size_t used, room;
    char text[];
};

void inspection_open(struct inspection *s, const char *path)
{
    *s = (struct inspection){.path = path, .total_size = -1};
    s->problems = json_array();
    s->missing = json_array();
    s->extra = json_array();
    s->known = json_object();
    s->broken = !s->problems || !s->missing || !s->extra || !s->known;
}

void inspection_close(struct inspection *s)
{
    for (struct ins_chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    json_decref(s->problems);
    json_decref(s->missing);
    json_decref(s->extra);
    json_decref(s->known);
    layout_free(&s->layout);
    free(s->files);
    free(s->tensors);
    free(s->entries);
    free(s->absent);
    *s = (struct inspection){0};
}

const char *ins_text(struct inspection *s, const char *format, ...)
{
    va_list list;
    s->turn = (s->turn + 1) % 8;
    va_start(list, format);
    vsnprintf(s->scratch[s->turn], sizeof s->scratch[0], format, list);
    va_end(list);
    return s->scratch[s->turn];
}

const char *ins_keep(struct inspection *s, const char *text)
{
    enum { CHUNK = 1 << 16 };
    size_t n = strlen(text) + 1;
    if (!s->chunks || s->chunks->room - s->chunks->used < n) {
        size_t room = n > CHUNK ? n : CHUNK;
        struct ins_chunk *c = malloc(sizeof *c + room);
        if (!c) {
            s->broken = true;
            return "";
        }
        *c = (struct ins_chunk){.next = s->chunks, .room = room};
        s->chunks = c;
    }
    char *out = s->chunks->text + s->chunks->used;
    memcpy(out, text, n);
    s->chunks->used += n;
    return out;
}

json_t *ins_json(const char *text)
{
    json_t *v = json_string(text);
    if (v) return v;
    char *copy = strdup(text);
    if (!copy) return NULL;
    for (char *p = copy; *p; p++) {
        if ((unsigned char)*p >= 0x80) *p = '?';
    }
    v = json_string(copy);
    free(copy);
    return v;
}

void ins_problem(struct inspection *s, struct ins_problem p)
{
    const struct {
        const char *key, *text;
    } fields[] = {{"what", p.what},    {"where", p.where},   {"tensor", p.tensor},
                  {"found", p.found},  {"wanted", p.wanted}, {"group", p.group},
                  {"remedy", p.remedy}};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (i >= 5 && !fields[i].text) continue;
        if (json_object_set_new(o, fields[i].key, ins_json(fields[i].text ? fields[i].text : "")))
            s->broken = true;
    }
    if (json_array_append_new(s->problems, o) != 0) s->broken = true;
}

const char *ins_shape(struct inspection *s, int dims, const int64_t *shape)
{
    char text[200];
    return ins_text(s, "%s", st_shape_text(dims, shape, text, sizeof text));
}

bool ins_sha256(const void *data, size_t size, char hex[65])
{
    struct err err = ERR_INIT;
    hex[0] = '\0';
    return digest_sha256(data, (int64_t)size, "inspect", hex, &err) == ERR_OK;
}

/* ---- look-up ---- */

static int by_name(const void *a, const void *b)
{
    const struct ins_tensor *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order == 0) order = (x->file > y->file) - (x->file < y->file);
    return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const struct ins_entry *)a)->name, ((const struct ins_entry *)b)->name);
}

void ins_sort(struct inspection *s)
{
    if (s->tensor_count) qsort(s->tensors, (size_t)s->tensor_count, sizeof *s->tensors, by_name);
    if (s->entry_count) qsort(s->entries, (size_t)s->entry_count, sizeof *s->entries, by_entry);
}

struct ins_tensor *ins_find(const struct inspection *s, const char *name)
{
    int64_t low = 0, high = s->tensor_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (strcmp(s->tensors[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool hit = low < s->tensor_count && strcmp(s->tensors[low].name, name) == 0;
    return hit ? &s->tensors[low] : NULL;
}

const struct ins_entry *ins_indexed(const struct inspection *s, const char *name)
{
    struct ins_entry key = {.name = name};
    if (!s->entry_count) return NULL;
    return bsearch(&key, s->entries, (size_t)s->entry_count, sizeof *s->entries, by_entry);
}

int32_t ins_file_of(struct inspection *s, const char *name)
{
    for (int64_t i = s->file_count; i-- > 0;) { /* an index names a file many times in a row */
        if (strcmp(s->files[i].name, name) == 0) return (int32_t)i;
    }
    if (s->file_count == s->file_room) {
        int64_t room = s->file_room ? s->file_room * 2 : 64;
        struct ins_file *more = realloc(s->files, (size_t)room * sizeof *more);
        if (!more) {
            s->broken = true;
            return 0;
        }
        s->files = more;
        s->file_room = room;
    }
    s->files[s->file_count] = (struct ins_file){.name = ins_keep(s, name)};
    return (int32_t)s->file_count++;
}

enum err_code ins_path(const struct inspection *s, int64_t file, char *out, struct err *err)
{
    if (s->folder) return file_join(s->path, s->files[file].name, out, err);
    snprintf(out, FILE_PATH, "%s", s->path);
    return ERR_OK;
}

/* ---- the steps ---- */

static enum err_code check_broken(const struct inspection *s, struct err *err)
{
    if (!s->broken) return ERR_OK;
    if (s->cause.code != ERR_OK) {
        *err = s->cause;
        return err->code;
    }
    return err_set(err, ERR_MEMORY, "inspect|%s|no memory", s->path);
}

enum err_code inspect_folder(struct inspection *s, struct err *err)
{
    char path[FILE_PATH];
    s->folder = true;
    if (file_join(s->path, "config.json", path, err) != ERR_OK ||
        config_read(path, &s->config, err) != ERR_OK || ins_list_files(s, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < s->file_count && !s->broken; i++) ins_read_header(s, i);
    ins_fix_prefix(s);
    ins_sort(s);
    if (check_broken(s, err) != ERR_OK || ins_check_layout(s, err) != ERR_OK) return err->code;
    if (s->has_index) ins_check_index(s);
    ins_check_weight_shapes(s);
    return check_broken(s, err);
}

/* A dump says so in its metadata, or holds a tap. */
static bool is_dump(const struct inspection *s)
{
    struct err err = ERR_INIT;
    struct st_file f;
    bool dump = false;
    enum tap_kind kind;
    int64_t layer;
    if (st_open(&f, s->path, &err) == ERR_OK)
        dump = st_meta(&f, "assay.version") || st_meta(&f, "assay.order");
    for (int64_t i = 0; i < s->tensor_count && !dump; i++)
        dump = tap_parse(s->tensors[i].name, &kind, &layer);
    st_close(&f);
    return dump;
}

enum err_code inspect_file(struct inspection *s, bool *dump, struct err *err)
{
    struct file_map map;
    if (file_map(s->path, &map, err) != ERR_OK) return err->code;
    file_unmap(&map);
    const char *slash = strrchr(s->path, '/');
    (void)ins_file_of(s, slash ? slash + 1 : s->path);
    if (check_broken(s, err) != ERR_OK) return err->code;
    ins_read_header(s, 0);
    if (s->files[0].lost && s->tensor_count == 0 && !text_ends(s->path, ".safetensors"))
        return err_set(err, ERR_INPUT, "inspect|%s|%s|a folder, a dump or a safetensors file",
                       s->path, s->files[0].lost);
    ins_report_lost(s);
    ins_sort(s);
    *dump = is_dump(s);
    return check_broken(s, err);
}
