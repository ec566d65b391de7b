/* sample_beside.c: the layer ids and the vocabulary maps beside samples; see sample.h. */
#include "harness/sample_set.h"

#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path of a file beside the samples; false where there is none. */
static bool find(const struct sample_set *s, const char *name, char path[FILE_PATH])
{
    static const char *const places[] = {"", "../"};
    /* A block's own folder holds samples only: the rest lies above it. */
    int count = s->format == SAMPLE_SPECFORGE ? 2 : 1;
    for (int i = 0; i < count; i++) {
        int n = snprintf(path, FILE_PATH, "%s/%s%s", s->folder, places[i], name);
        if (n > 0 && n < FILE_PATH && file_exists(path)) return true;
    }
    return false;
}

/* Ids as they stand: repeated or out of order, they are findings for who inspects. */
static enum err_code read_ids(struct sample_set *s, const json_t *list, const char *path,
                              struct err *err)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > SAMPLE_STATES)
        return err_set(err, ERR_INPUT, "read layer ids|%s: layer_ids|%s|an array of at most %d",
                       path, json_kind(list), SAMPLE_STATES);
    s->layer_ids = calloc(n + 1, sizeof *s->layer_ids);
    if (!s->layer_ids) return err_set(err, ERR_MEMORY, "read layer ids|%s|no memory", path);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id))
            return err_set(err, ERR_INPUT, "read layer ids|%s: layer_ids[%zu]|%s|an integer", path,
                           i, json_kind(id));
        s->layer_ids[s->layer_count++] = json_integer_value(id);
    }
    return ERR_OK;
}

static enum err_code read_manifest(struct sample_set *s, const char *path, struct err *err)
{
    json_t *root = NULL;
    const char *numbering = "";
    if (json_read(path, &root, err) == ERR_OK &&
        json_text_or(root, "numbering", "", path, &numbering, err) == ERR_OK &&
        json_has(root, "layer_ids"))
        (void)!read_ids(s, json_object_get(root, "layer_ids"), path, err);
    if (err->code == ERR_OK && numbering[0] && strcmp(numbering, "entry") &&
        strcmp(numbering, "output"))
        err_set(err, ERR_INPUT, "read layer ids|%s: numbering|%s|entry or output", path, numbering);
    if (err->code == ERR_OK) snprintf(s->numbering, sizeof s->numbering, "%s", numbering);
    json_decref(root);
    return err->code;
}

static enum err_code read_data_config(struct sample_set *s, const char *path, struct err *err)
{
    json_t *root = NULL;
    if (json_read(path, &root, err) == ERR_OK) {
        const json_t *states = json_object_get(root, "hidden_states");
        if (json_has(states, "layer_ids"))
            (void)!read_ids(s, json_object_get(states, "layer_ids"), path, err);
    }
    json_decref(root);
    return err->code;
}

/* A copy of a one-dimensional integer or bool tensor. */
static enum err_code copy_map(const struct st_tensor *t, const char *path, const char *key,
                              int64_t **out, int64_t *count, struct err *err)
{
    char shape[128];
    if (t->dims != 1 || t->count < 1 || !(dtype_is_int(t->dtype) || t->dtype == DT_BOOL))
        return err_set(err, ERR_INPUT,
                       "read vocabulary map|%s: %s|%s %s|integers or bools, one "
                       "dimension",
                       path, key, dtype_name(t->dtype),
                       st_shape_text(t->dims, t->shape, shape, sizeof shape));
    *out = malloc((size_t)t->count * sizeof **out);
    if (!*out) return err_set(err, ERR_MEMORY, "read vocabulary map|%s|no memory", path);
    for (int64_t i = 0; i < t->count; i++) (*out)[i] = dtype_int_at(t->dtype, t->data, i);
    *count = t->count;
    return ERR_OK;
}

static enum err_code read_npy(const char *path, const char *key, int64_t **out, int64_t *count,
                              struct err *err)
{
    struct npy_file f;
    if (npy_open(&f, path, err) != ERR_OK) return err->code;
    if (f.count != 1)
        err_set(err, ERR_INPUT, "read vocabulary map|%s|%lld arrays|one", path, (long long)f.count);
    else
        (void)!copy_map(&f.tensors[0], path, key, out, count, err);
    npy_close(&f);
    return err->code;
}

static enum err_code read_mapping(struct sample_set *s, const char *path, struct err *err)
{
    struct pt_file f;
    if (pt_open(&f, path, err) != ERR_OK) return err->code;
    const struct pt_value *d2t = pt_get(&f.root, "d2t"), *t2d = pt_get(&f.root, "t2d");
    if (!d2t || !t2d || d2t->kind != PT_TENSOR || t2d->kind != PT_TENSOR)
        err_set(err, ERR_INPUT, "read vocabulary map|%s|another content|tensors d2t and t2d", path);
    else if (copy_map(d2t->tensor, path, "d2t", &s->d2t, &s->draft_vocab, err) == ERR_OK)
        (void)!copy_map(t2d->tensor, path, "t2d", &s->t2d, &s->vocab, err);
    pt_close(&f);
    return err->code;
}

enum err_code sample_read_beside(struct sample_set *s, struct err *err)
{
    char path[FILE_PATH];
    if (find(s, "manifest.json", path) && read_manifest(s, path, err) != ERR_OK) return err->code;
    if (!s->layer_ids && find(s, "data_config.json", path) &&
        read_data_config(s, path, err) != ERR_OK)
        return err->code;
    if (find(s, "vocab_mapping/vocab_mapping.pt", path)) return read_mapping(s, path, err);
    if (find(s, "d2t.npy", path) && read_npy(path, "d2t", &s->d2t, &s->draft_vocab, err) != ERR_OK)
        return err->code;
    if (find(s, "t2d.npy", path)) return read_npy(path, "t2d", &s->t2d, &s->vocab, err);
    return ERR_OK;
}
