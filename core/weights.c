/* weights.c: checkpoint folders and tensor look-up; see weights.h. The rules of synthetic tensors
 * are in weights_synth.c. */
#include "core/weights.h"

#include "core/check.h"
#include "core/json.h"
#include "core/text.h"
#include "core/weights_synth.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static void (*watch_opening)(const char *path);

void weights_watch(void (*opening)(const char *path))
{
    watch_opening = opening;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of a folder's files NAME*.safetensors. */
static enum err_code list_files(const char *folder, const char *prefix, char ***names,
                                int64_t *count, struct err *err)
{
    DIR *d = opendir(folder);
    if (!d) return err_sys(err, errno, "open model folder|%s", folder);
    int64_t room = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (!text_ends(e->d_name, ".safetensors") || !text_starts(e->d_name, prefix)) continue;
        if (*count == room) {
            room = room ? room * 2 : 64;
            char **more = realloc(*names, (size_t)room * sizeof *more);
            if (!more) break;
            *names = more;
        }
        (*names)[*count] = strdup(e->d_name);
        if (!(*names)[*count]) break;
        (*count)++;
    }
    closedir(d);
    if (*count > 0) qsort(*names, (size_t)*count, sizeof **names, by_text);
    return ERR_OK;
}

/* Without an index: model.safetensors, or else the shards model-*.safetensors, or else every file.
 * Dumps and goldens may lie beside a checkpoint. */
static enum err_code list_shards(const char *folder, char ***names, int64_t *count, struct err *err)
{
    static const char *const prefixes[] = {"model.safetensors", "model-", ""};
    for (int i = 0; i < 3 && *count == 0; i++) {
        if (list_files(folder, prefixes[i], names, count, err) != ERR_OK) return err->code;
    }
    if (*count == 0)
        return err_set(err, ERR_INPUT, "open model folder|%s|no *.safetensors file|at least one",
                       folder);
    return ERR_OK;
}

/* The sorted names of the files that an index maps tensors to, each once. */
static enum err_code list_indexed(const json_t *map, const char *path, char ***names,
                                  int64_t *count, struct err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return err_set(err, ERR_INPUT, "read key \"weight_map\"|%s|%s|an object of file names",
                       path, json_kind(map));
    *names = calloc(json_object_size(map), sizeof **names);
    if (!*names) return err_set(err, ERR_MEMORY, "read index|%s|no memory", path);
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        const char *file = json_string_value(value);
        if (!file || !file[0] || strchr(file, '/'))
            return err_set(err, ERR_INPUT,
                           "read index|%s: %s|%s|the name of a file beside the index", path, key,
                           file && file[0] ? file
                           : file          ? "an empty text"
                                           : json_kind(value));
        char **slot = bsearch(&file, *names, (size_t)*count, sizeof **names, by_text);
        if (slot) continue;
        (*names)[*count] = strdup(file);
        if (!(*names)[*count]) return err_set(err, ERR_MEMORY, "read index|%s|no memory", path);
        (*count)++;
        qsort(*names, (size_t)*count, sizeof **names, by_text); /* few files: tens */
    }
    return ERR_OK;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp((*(const struct st_tensor *const *)a)->name,
                  (*(const struct st_tensor *const *)b)->name);
}

const char *weights_file(const struct weights *w, const struct st_tensor *t)
{
    for (int64_t i = 0; i < w->file_count; i++) {
        if (t >= w->files[i].tensors && t < w->files[i].tensors + w->files[i].count)
            return w->files[i].path;
    }
    return "?";
}

static enum err_code build_index(struct weights *w, struct err *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->file_count; i++) n += w->files[i].count;
    w->index = calloc((size_t)n + 1, sizeof *w->index);
    if (!w->index) return err_set(err, ERR_MEMORY, "index tensors|%s|no memory", w->path);
    for (int64_t i = 0; i < w->file_count; i++) {
        for (int64_t k = 0; k < w->files[i].count; k++)
            w->index[w->index_count++] = &w->files[i].tensors[k];
    }
    qsort(w->index, (size_t)n, sizeof *w->index, by_tensor);
    for (int64_t i = 1; i < n; i++) {
        if (by_tensor(&w->index[i - 1], &w->index[i]) == 0)
            return err_set(err, ERR_INPUT, "index tensors|%s|in %s and in %s|one file",
                           w->index[i]->name, weights_file(w, w->index[i - 1]),
                           weights_file(w, w->index[i]));
    }
    return ERR_OK;
}

/* Every entry of the index file must be in the file that it names. */
static enum err_code check_indexed(const struct weights *w, const json_t *map, const char *path,
                                   struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        const struct st_tensor *t = weights_stored(w, key);
        const char *file = json_string_value(value);
        if (!t)
            return err_set(err, ERR_INPUT,
                           "read index|%s: %s|no such tensor in %s|what the index promises", path,
                           key, file);
        const char *in = strrchr(weights_file(w, t), '/');
        if (in && strcmp(in + 1, file) != 0)
            return err_set(err, ERR_INPUT, "read index|%s: %s|in %s|in %s, as the index says", path,
                           key, in + 1, file);
    }
    return ERR_OK;
}

static enum err_code open_files(struct weights *w, char **names, int64_t count, struct err *err)
{
    char path[FILE_PATH];
    w->files = calloc((size_t)count, sizeof *w->files);
    if (!w->files) return err_set(err, ERR_MEMORY, "open model|%s|no memory", w->path);
    for (int64_t i = 0; i < count; i++) {
        if (file_join(w->path, names[i], path, err) != ERR_OK) return err->code;
        w->file_count = i + 1;
        if (watch_opening) watch_opening(path);
        if (st_open(&w->files[i], path, err) != ERR_OK) return err->code;
        /* Until the model is bound only weight_shape tensors are read, two numbers each, all over
         * the file: read-ahead would load most of it. */
        file_advise(&w->files[i].map, true);
    }
    return build_index(w, err);
}

static enum err_code open_shards(struct weights *w, struct err *err)
{
    char path[FILE_PATH];
    char **names = NULL;
    int64_t count = 0;
    json_t *index = NULL;
    const json_t *map = NULL;
    if (file_join(w->path, "model.safetensors.index.json", path, err) != ERR_OK) return err->code;
    if (file_exists(path)) {
        if (json_read(path, &index, err) == ERR_OK) {
            map = json_object_get(index, "weight_map");
            (void)!list_indexed(map, path, &names, &count, err);
        }
    } else {
        (void)!list_shards(w->path, &names, &count, err);
    }
    if (err->code == ERR_OK) (void)!open_files(w, names, count, err);
    if (err->code == ERR_OK && map) (void)!check_indexed(w, map, path, err);
    for (int64_t i = 0; i < count; i++) free(names[i]);
    free(names);
    if (index) json_decref(index);
    return err->code;
}

static enum err_code begin(struct weights *w, const char *spec, struct err *err)
{
    *w = (struct weights){.latent_gain = 1};
    if (!spec[0])
        return err_set(err, ERR_INPUT,
                       "open model|MODEL|an empty text|a folder, or synth:CONFIG.json?seed=N");
    if (strlen(spec) >= sizeof w->path)
        return err_set(err, ERR_INPUT, "open model|%.64s...|%zu bytes|a shorter path", spec,
                       strlen(spec));
    snprintf(w->path, sizeof w->path, "%s", spec);
    return ERR_OK;
}

/* Where the config lies; a synthetic source is complete with that. */
static enum err_code find_config(struct weights *w, char *path, struct err *err)
{
    if (text_starts(w->path, "synth:")) return weights_synth_spec(w, path, err);
    if (file_join(w->path, "config.json", path, err) != ERR_OK) return err->code;
    if (file_is_folder(w->path)) return ERR_OK;
    return err_set(err, ERR_INPUT,
                   "open model|%s|%s|a folder with config.json, or synth:CONFIG.json?seed=N",
                   w->path, file_exists(w->path) ? "a file" : "nothing of that name");
}

enum err_code weights_open_bare(struct weights *w, const char *spec, char *config_path,
                                struct err *err)
{
    if (begin(w, spec, err) != ERR_OK || find_config(w, config_path, err) != ERR_OK)
        return err->code;
    return w->synthetic ? ERR_OK : open_shards(w, err);
}

enum err_code weights_open(struct weights *w, const char *model, struct err *err)
{
    char path[FILE_PATH];
    if (begin(w, model, err) != ERR_OK || find_config(w, path, err) != ERR_OK ||
        config_read(path, &w->config, err) != ERR_OK)
        return err->code;
    return w->synthetic ? weights_synth_check(w, err) : open_shards(w, err);
}

void weights_advise(const struct weights *w)
{
    for (int64_t i = 0; i < w->file_count; i++) file_advise(&w->files[i].map, false);
}

void weights_close(struct weights *w)
{
    for (int64_t i = 0; i < w->file_count; i++) st_close(&w->files[i]);
    free(w->files);
    free(w->index);
    *w = (struct weights){0};
}

/* ---- look-up ---- */

const struct st_tensor *weights_stored(const struct weights *w, const char *name)
{
    const struct st_tensor key = {.name = name}, *at = &key;
    if (!w->index_count) return NULL;
    const struct st_tensor **hit =
        bsearch(&at, w->index, (size_t)w->index_count, sizeof *w->index, by_tensor);
    return hit ? *hit : NULL;
}

static enum err_code check_shape(const struct weights *w, const struct st_tensor *s, int dims,
                                 const int64_t *shape, struct err *err)
{
    char found[96], wanted[96];
    bool same = s->dims == dims && memcmp(s->shape, shape, (size_t)dims * sizeof *shape) == 0;
    if (same) return ERR_OK;
    return err_set(err, ERR_INPUT, "tensor shape|%s: %s|%s|%s, as config.json says",
                   weights_file(w, s), s->name,
                   st_shape_text(s->dims, s->shape, found, sizeof found),
                   st_shape_text(dims, shape, wanted, sizeof wanted));
}

static enum err_code stored_tensor(const struct weights *w, const char *name, enum dtype as,
                                   int dims, const int64_t *shape, struct tensor *out,
                                   struct err *err)
{
    const struct st_tensor *s = weights_stored(w, name);
    if (!s)
        return err_set(err, ERR_INPUT, "find tensor|%s: %s|nothing|a tensor of that name", w->path,
                       name);
    if (check_shape(w, s, dims, shape, err) != ERR_OK) return err->code;
    bool real = s->dtype == DT_BF16 || s->dtype == DT_F16 || s->dtype == DT_F32;
    if (as == DT_COUNT ? !real : s->dtype != as)
        return err_set(err, ERR_INPUT, "tensor dtype|%s: %s|%s|%s", weights_file(w, s), name,
                       dtype_name(s->dtype), as == DT_COUNT ? "BF16, F16 or F32" : dtype_name(as));
    out->dtype = s->dtype;
    out->data = s->data;
    return ERR_OK;
}

enum err_code weights_tensor(const struct weights *w, const char *name, enum dtype as, int dims,
                             const int64_t *shape, struct tensor *out, struct err *err)
{
    CHECK(dims <= ST_DIMS);
    *out = (struct tensor){.dims = dims};
    memcpy(out->shape, shape, (size_t)dims * sizeof *shape);
    int n = snprintf(out->name, sizeof out->name, "%s", name);
    if (n < 0 || n >= NAME_MAX_BYTES)
        return err_set(err, ERR_INPUT, "tensor name|%.64s...|%d bytes|fewer than %d", name, n,
                       NAME_MAX_BYTES);
    if (w->synthetic) return weights_synth_rule(w, as, out, err);
    return stored_tensor(w, name, as, dims, shape, out, err);
}
