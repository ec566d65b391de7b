/* inspect_index.c: which files a checkpoint has, by model.safetensors.index.json or by their names,
 * and whether the index is right. */
#include "harness/inspect.h"

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char index_name[] = "model.safetensors.index.json";

static void problem(struct inspection *s, const char *what, const char *tensor, const char *found,
                    const char *wanted)
{
    ins_problem(
        s,
        (struct ins_problem){
            .what = what, .where = index_name, .tensor = tensor, .found = found, .wanted = wanted});
}

/* ---- reading the index ---- */

static void read_map(struct inspection *s, json_t *map)
{
    const char *key;
    json_t *value;
    s->entries = calloc(json_object_size(map) + 1, sizeof *s->entries);
    if (!s->entries) {
        s->broken = true;
        return;
    }
    json_object_foreach(map, key, value)
    {
        const char *file = json_string_value(value);
        if (!file || !file[0] || strchr(file, '/')) {
            problem(s, "index entry", key,
                    file ? ins_text(s, "\"%.200s\"", file) : json_kind(value),
                    "the name of a file beside the index");
            continue;
        }
        struct ins_entry *e = &s->entries[s->entry_count++];
        e->raw = e->name = ins_keep(s, key);
        e->file = ins_file_of(s, file);
    }
}

void ins_parse_index(struct inspection *s, const char *text, int64_t size)
{
    json_error_t e;
    json_t *root = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &e);
    if (!root && json_error_code(&e) == json_error_duplicate_key) {
        json_error_t first = e;
        root = json_loadb(text, (size_t)size, 0, &e);
        if (root && !ins_duplicate_keys(s, index_name, text, size))
            problem(s, "duplicate key", "", first.text, "each key once");
    }
    if (!root) {
        problem(s, "index", "", ins_text(s, "line %d, column %d: %.300s", e.line, e.column, e.text),
                "valid JSON");
        return;
    }
    json_t *map = json_object_get(root, "weight_map");
    const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
    double bytes = json_number_value(total); /* some writers give a fraction */
    if (json_is_integer(total)) {
        s->total_size = json_integer_value(total);
    } else if (total && bytes > 0 && bytes < 9e18) {
        s->total_size = (int64_t)bytes;
    } else if (total) {
        problem(s, "index total_size", "", json_kind(total), "a number of bytes");
    }
    if (json_is_object(map) && json_object_size(map) > 0) {
        read_map(s, map);
        s->has_index = s->entry_count > 0;
    } else {
        problem(s, "index", "", ins_text(s, "\"weight_map\": %s", json_kind(map)),
                "an object of file names");
    }
    json_decref(root);
}

/* ---- the folder ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of the folder's *.safetensors; free each and the list. */
static enum err_code list_folder(struct inspection *s, char ***names, int64_t *count,
                                 struct err *err)
{
    int64_t room = 0;
    DIR *d = opendir(s->path);
    if (!d) return err_sys(err, errno, "open model folder|%s", s->path);
    for (struct dirent *e = readdir(d); e && !s->broken; e = readdir(d)) {
        if (!text_ends(e->d_name, ".safetensors")) continue;
        if (*count == room) {
            room = room ? room * 2 : 64;
            char **more = realloc(*names, (size_t)room * sizeof *more);
            if (more) *names = more;
            s->broken |= !more;
        }
        char *copy = s->broken ? NULL : strdup(e->d_name);
        s->broken |= !copy;
        if (copy) (*names)[(*count)++] = copy;
    }
    closedir(d);
    if (*count) qsort(*names, (size_t)*count, sizeof **names, by_text);
    return ERR_OK;
}

/* "model-00007-of-00064.safetensors": 7 and 64. */
static bool shard_number(const char *name, int64_t *number, int64_t *of)
{
    long long i, n;
    int end = 0;
    if (sscanf(name, "model-%lld-of-%lld.safetensors%n", &i, &n, &end) != 2) return false;
    *number = i;
    *of = n;
    return end == (int)strlen(name);
}

/* Without an index the names say how many shards there should be. */
static void check_numbers(struct inspection *s)
{
    int64_t number, of, most = 0, missing = 0;
    bool *seen = NULL;
    for (int64_t i = 0; i < s->file_count; i++) {
        if (shard_number(s->files[i].name, &number, &of) && of > most && of <= 1000000) most = of;
    }
    if (most) seen = calloc((size_t)most + 1, sizeof *seen);
    s->broken |= most && !seen;
    for (int64_t i = 0; i < s->file_count && seen; i++) {
        if (shard_number(s->files[i].name, &number, &of) && number >= 0 && number <= most)
            seen[number] = true;
    }
    for (int64_t i = 1; i <= most && seen; i++) {
        if (seen[i] || missing++ > 1000) continue;
        ins_problem(s, (struct ins_problem){
                           .what = "missing file",
                           .where = ins_text(s, "model-%05lld-of-%05lld.safetensors", (long long)i,
                                             (long long)most),
                           .found = "nothing of that name",
                           .wanted = ins_text(s, "%lld shards, as the names of the others say",
                                              (long long)most),
                           .group = "missing file"});
    }
    free(seen);
}

/* As the reader takes them: model.safetensors, else model-*.safetensors, else all. */
static void take_files(struct inspection *s, char **names, int64_t count)
{
    static const char *const prefixes[] = {"model.safetensors", "model-", ""};
    for (int k = 0; k < 3 && s->file_count == 0; k++) {
        for (int64_t i = 0; i < count; i++) {
            if (text_starts(names[i], prefixes[k])) (void)ins_file_of(s, names[i]);
        }
    }
    check_numbers(s);
}

/* A shard that no reader will open. Other *.safetensors (dumps, goldens) may lie beside. */
static void check_unnamed(struct inspection *s, char **names, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bool named = false;
        for (int64_t k = 0; k < s->file_count && !named; k++)
            named = strcmp(s->files[k].name, names[i]) == 0;
        if (named || !text_starts(names[i], "model")) continue;
        ins_problem(s, (struct ins_problem){.what = "unnamed file",
                                            .where = names[i],
                                            .found = s->has_index
                                                         ? "a shard that the index does not name"
                                                         : "a shard beside model.safetensors",
                                            .wanted = "a file that is read, or none",
                                            .group = "unnamed file"});
    }
}

enum err_code ins_list_files(struct inspection *s, struct err *err)
{
    char path[FILE_PATH];
    char **names = NULL;
    int64_t count = 0;
    struct err trouble = ERR_INIT;
    if (list_folder(s, &names, &count, err) == ERR_OK &&
        file_join(s->path, index_name, path, err) == ERR_OK && file_exists(path)) {
        struct file_map map;
        if (file_map(path, &map, &trouble) == ERR_OK) {
            ins_parse_index(s, map.data ? (const char *)map.data : "", map.size);
            file_unmap(&map);
        } else if (ins_refused(&trouble)) {
            *err = trouble;
        } else {
            problem(s, "index", "", trouble.found, "a file that can be read");
        }
    }
    if (err->code == ERR_OK && !s->has_index) take_files(s, names, count);
    if (err->code == ERR_OK) check_unnamed(s, names, count);
    for (int64_t i = 0; i < count; i++) free(names[i]);
    free(names);
    if (err->code == ERR_OK && s->file_count == 0)
        return err_set(err, ERR_INPUT, "inspect|%s|no *.safetensors file|at least one", s->path);
    return err->code;
}

/* ---- the index against the files ---- */

/* Entries whose file cannot be read are counted with that file; an expected tensor that is nowhere
 * is a missing tensor. */
static void check_entry(struct inspection *s, const struct ins_entry *e)
{
    const struct ins_tensor *t = ins_find(s, e->name);
    if (s->files[e->file].lost) return;
    if (!t) {
        if (ins_absent(s, e->name)) return;
        ins_problem(s, (struct ins_problem){.what = "index entry without a tensor",
                                            .where = s->files[e->file].name,
                                            .tensor = e->raw,
                                            .found = "no such tensor",
                                            .wanted = "what the index promises"});
        return;
    }
    const struct ins_tensor *at = t;
    for (; at < s->tensors + s->tensor_count && strcmp(at->name, e->name) == 0; at++) {
        if (at->file == e->file) return;
    }
    const char *found = ins_text(s, "in %.300s", s->files[t->file].name),
               *wanted = ins_text(s, "in %.300s, as the index says", s->files[e->file].name);
    ins_problem(s,
                (struct ins_problem){.what = "tensor of another shard",
                                     .where = s->files[t->file].name,
                                     .tensor = t->raw,
                                     .found = found,
                                     .wanted = wanted,
                                     .group = ins_text(s, "shard %.300s %.300s", found, wanted)});
}

/* total_size is the sum of the tensors' bytes; some writers give that of the files. */
static void check_total(struct inspection *s)
{
    int64_t tensors = 0, files = 0;
    if (!s->has_index || s->total_size == -1) return;
    for (int64_t i = 0; i < s->tensor_count; i++) {
        if (!s->tensors[i].placed) return;
        tensors += s->tensors[i].bytes;
    }
    for (int64_t i = 0; i < s->file_count; i++) {
        if (s->files[i].lost) return;
        files += s->files[i].size;
    }
    if (s->total_size == tensors || s->total_size == files) return;
    problem(s, "index total_size", "", ins_text(s, "%lld", (long long)s->total_size),
            ins_text(s, "%lld, the bytes of its tensors", (long long)tensors));
}

void ins_check_index(struct inspection *s)
{
    for (int64_t i = 0; i < s->entry_count; i++) check_entry(s, &s->entries[i]);
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        if (ins_indexed(s, t->name)) continue;
        ins_problem(s, (struct ins_problem){.what = "tensor not in the index",
                                            .where = s->files[t->file].name,
                                            .tensor = t->raw,
                                            .found = "no entry",
                                            .wanted = "an entry that names its file"});
    }
    check_total(s);
}
