/* foreign_msprobe.c: a folder of Ascend's msprobe (PyTorch, vLLM); see foreign_parts.h.
 *
 *   step0/rank0/dump.json             what was dumped: "data": each object with a "data_name"
 *   step0/rank0/dump_tensor_data/     Module.model.norm.RMSNorm.forward.0.output.0.pt, bare tensors
 *
 * One process without ranks writes proc12345 for rank0. A step or a rank by itself is read too. A
 * tensor is named by its file without the .pt. What dump.json lists and is not there is an error.
 * Nothing in it says how the ranks hold a tensor: the map does. Source:
 * Ascend/msprobe@acac035/docs/en/user_guide/dump/pytorch_data_dump_instruct.md */
#include "harness/foreign_parts.h"

#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_json(const char *folder)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    return file_join(folder, "dump.json", path, &err) == ERR_OK && file_exists(path);
}

/* rank12: 12; rank, proc4242: 0. */
static bool rank_of(const char *name, int64_t *rank)
{
    int64_t pid;
    if (source_numbered(name, "rank", rank)) return true;
    *rank = 0;
    return strcmp(name, "rank") == 0 || source_numbered(name, "proc", &pid);
}

static bool any_rank(const char *folder, const struct listing *l)
{
    int64_t rank;
    char path[FILE_PATH];
    struct err err = ERR_INIT;
    for (int64_t i = 0; i < l->count; i++) {
        if (rank_of(l->names[i], &rank) && file_join(folder, l->names[i], path, &err) == ERR_OK &&
            has_json(path))
            return true;
    }
    return false;
}

bool msprobe_is(const char *folder, const struct listing *l)
{
    bool is = has_json(folder) || any_rank(folder, l);
    for (int64_t i = 0; i < l->count && !is; i++) {
        struct listing below = {0};
        struct err err = ERR_INIT;
        char path[FILE_PATH];
        int64_t step;
        if (source_numbered(l->names[i], "step", &step) &&
            file_join(folder, l->names[i], path, &err) == ERR_OK && file_is_folder(path) &&
            listing_read(path, &below, &err) == ERR_OK)
            is = any_rank(path, &below);
        listing_free(&below);
    }
    return is;
}

/* One tensor was read, and has the shape that is said, where one is. */
static bool has_shape(const struct source *s, int64_t before, const json_t *shape)
{
    if (s->count != before + 1) return false;
    const struct st_tensor *t = &s->pieces[before].tensor;
    bool same = !json_is_array(shape) || (int)json_array_size(shape) == t->dims;
    for (int k = 0; same && json_is_array(shape) && k < t->dims; k++)
        same = json_integer_value(json_array_get(shape, (size_t)k)) == t->shape[k];
    return same;
}

/* One entry of dump.json: the tensor and what is said of it. */
static enum err_code read_entry(struct source *s, const char *folder, const json_t *o,
                                struct err *err)
{
    char path[FILE_PATH], inner[FILE_PATH];
    const char *file = json_string_value(json_object_get(o, "data_name"));
    if (strchr(file, '/') || !source_is_file(file))
        return err_set(err, ERR_INPUT,
                       "read dump|%s: dump.json|data_name %.80s|NAME.pt or NAME.npy", folder, file);
    const int64_t before = s->count;
    if (file_join(folder, "dump_tensor_data", inner, err) != ERR_OK ||
        file_join(inner, file, path, err) != ERR_OK)
        return err->code;
    const int64_t rank = s->files;
    (void)!source_file(s, path, err);
    s->files = rank;
    for (int64_t i = before; i < s->count; i++) s->pieces[i].file = rank;
    if (err->code != ERR_OK || has_shape(s, before, json_object_get(o, "shape"))) return err->code;
    return err_set(err, ERR_INPUT, "read dump|%s|another shape|one tensor, as dump.json says",
                   path);
}

static enum err_code walk(struct source *s, const char *folder, const json_t *v, int depth,
                          struct err *err)
{
    const char *key;
    const json_t *item;
    size_t i;
    if (depth > 32)
        return err_set(err, ERR_INPUT, "read dump|%s: dump.json|nested 32 deep|less", folder);
    if (json_is_string(json_object_get(v, "data_name"))) return read_entry(s, folder, v, err);
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        if (walk(s, folder, item, depth + 1, err) != ERR_OK) break;
    }
    json_array_foreach(v, i, item)
    {
        if (walk(s, folder, item, depth + 1, err) != ERR_OK) break;
    }
    return err->code;
}

static enum err_code read_rank(struct source *s, const char *folder, int64_t rank, struct err *err)
{
    char path[FILE_PATH];
    json_t *root = NULL;
    if (file_join(folder, "dump.json", path, err) != ERR_OK ||
        json_read(path, &root, err) != ERR_OK)
        return err->code;
    const char *task = json_string_value(json_object_get(root, "task"));
    const int64_t before = s->count;
    s->files = rank;
    s->rank = (int)rank;
    if (s->rank_count <= s->rank) s->rank_count = s->rank + 1;
    if (!task || strcmp(task, "tensor") != 0)
        err_set(err, ERR_INPUT, "read dump|%s: task|%.40s|tensor: no other holds values", path,
                task ? task : "nothing");
    else
        (void)!walk(s, folder, json_object_get(root, "data"), 0, err);
    if (err->code == ERR_OK && s->count == before)
        err_set(err, ERR_INPUT, "read dump|%s|no tensor|one at least", path);
    json_decref(root);
    return err->code;
}

/* The ranks of one step. */
static enum err_code read_ranks(struct source *s, const char *folder, const struct listing *l,
                                struct err *err)
{
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        char path[FILE_PATH];
        int64_t rank;
        if (rank_of(l->names[i], &rank) && file_join(folder, l->names[i], path, err) == ERR_OK &&
            has_json(path))
            (void)!read_rank(s, path, rank, err);
    }
    return err->code;
}

static enum err_code read_steps(struct source *s, const char *folder, const struct listing *l,
                                struct err *err)
{
    int64_t *steps = calloc((size_t)l->count + 1, sizeof *steps), count = 0, step = 0;
    if (!steps) return err_set(err, ERR_MEMORY, "read dump|%s|no memory", folder);
    for (int64_t i = 0; i < l->count; i++) {
        if (source_numbered(l->names[i], "step", &step)) steps[count++] = step;
    }
    char name[32], path[FILE_PATH];
    struct listing below = {0};
    if (source_step(s, steps, count, &step, err) == ERR_OK) {
        snprintf(name, sizeof name, "step%lld", (long long)step);
        if (file_join(folder, name, path, err) == ERR_OK &&
            listing_read(path, &below, err) == ERR_OK)
            (void)!read_ranks(s, path, &below, err);
    }
    listing_free(&below);
    free(steps);
    return err->code;
}

enum err_code msprobe_read(struct source *s, const char *folder, const struct listing *l,
                           struct err *err)
{
    if (has_json(folder)) return read_rank(s, folder, 0, err);
    return any_rank(folder, l) ? read_ranks(s, folder, l, err) : read_steps(s, folder, l, err);
}
