/* foreign_raw.c: raw files and the sidecar that says what they hold; see foreign_parts.h.
 *
 *     assay-raw: 1                      # YAML, or the same as JSON: dump.yaml, dump.json
 *     engine: my-engine 1.2             # optional
 *     tensors:
 *       - {name: layers.0.attn, file: attn0.raw, dtype: bf16, shape: [24, 256]}
 *       - {name: embed, file: all.raw, dtype: f32, shape: [24, 256], order: F, offset: 4096}
 *
 * A file lies beside the sidecar or below it. Elements are little-endian; order C (the last axis is
 * the closest, the default) or F. Without an offset the file holds the tensor and nothing else;
 * with one it may hold more. FILE.raw is read by the sidecar FILE.raw.yaml or FILE.raw.json.
 * Strict: any other key, a type or shape that is missing, a size that is not the file's are refused
 * with line and column. Test: tests/test_foreign_raw.c */
#include "harness/foreign_parts.h"

#include "core/strided.h"
#include "core/text.h"
#include "core/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct source *s;
    const char *path; /* of the sidecar */
    struct err *err;
};

struct raw {
    const char *name, *file, *dtype;
    struct st_tensor tensor;
    bool has_shape, fortran, has_offset;
    int64_t offset;
};

static bool ends(const char *path, const char *const *list)
{
    while (*list && !text_ends(path, *list)) list++;
    return *list != NULL;
}

bool source_is_raw(const char *path)
{
    static const char *const list[] = {".yaml", ".yml", ".json", ".raw", NULL};
    return ends(path, list);
}

static enum err_code bad(struct reader *r, const struct yaml_node *n, const char *found,
                         const char *wanted)
{
    return yaml_bad(r->path, n, "raw files", found, wanted, r->err);
}

static const char *text_of(struct reader *r, const struct yaml_node *n)
{
    if (n->kind == YAML_TEXT && n->text[0]) return n->text;
    (void)bad(r, n, yaml_kind_name(n), "a text");
    return NULL;
}

static void read_dtype(struct reader *r, const struct yaml_node *n, struct raw *raw)
{
    raw->dtype = text_of(r, n);
    if (raw->dtype && !source_dtype(raw->dtype, &raw->tensor.dtype))
        (void)bad(r, n, raw->dtype, SOURCE_DTYPES);
}

static void read_shape(struct reader *r, const struct yaml_node *n, struct raw *raw)
{
    struct st_tensor *t = &raw->tensor;
    raw->has_shape = true;
    if (n->kind != YAML_LIST) {
        (void)bad(r, n, yaml_kind_name(n), "a list of sizes, such as [24, 256]");
        return;
    }
    for (const struct yaml_node *i = n->child; i; i = i->next) {
        int64_t size = -1;
        const char *text = text_of(r, i);
        if (r->err->code != ERR_OK) return;
        if (t->dims == ST_DIMS || !text_int(text, &size) || size < 0) {
            (void)bad(r, i, text, "at most 8 sizes of 0 or more");
            return;
        }
        t->shape[t->dims++] = size;
    }
    if (!strided_count(t->dims, t->shape, &t->count)) (void)bad(r, n, "2^60 elements", "fewer");
}

static void read_key(struct reader *r, const struct yaml_node *n, struct raw *raw)
{
    if (strcmp(n->key, "name") == 0) {
        raw->name = text_of(r, n);
    } else if (strcmp(n->key, "file") == 0) {
        raw->file = text_of(r, n);
        if (raw->file && (raw->file[0] == '/' || strstr(raw->file, "..")))
            (void)bad(r, n, raw->file, "a file beside the sidecar or below it");
    } else if (strcmp(n->key, "dtype") == 0) {
        read_dtype(r, n, raw);
    } else if (strcmp(n->key, "shape") == 0) {
        read_shape(r, n, raw);
    } else if (strcmp(n->key, "order") == 0) {
        const char *order = text_of(r, n);
        raw->fortran = order && strcmp(order, "F") == 0;
        if (order && !raw->fortran && strcmp(order, "C") != 0) (void)bad(r, n, order, "C or F");
    } else if (strcmp(n->key, "offset") == 0) {
        const char *offset = text_of(r, n);
        raw->has_offset = true;
        if (offset && (!text_int(offset, &raw->offset) || raw->offset < 0))
            (void)bad(r, n, offset, "bytes, 0 or more");
    } else {
        char found[96];
        snprintf(found, sizeof found, "the key \"%.60s\"", n->key);
        (void)yaml_bad_key(r->path, n, "raw files", found,
                           "name, file, dtype, shape, order, offset", r->err);
    }
}

/* ---- data ---- */

static enum err_code add_data(struct reader *r, const struct yaml_node *n, struct raw *raw,
                              const struct file_map *m)
{
    struct st_tensor *t = &raw->tensor;
    char found[96], wanted[96];
    const int size = dtype_size(t->dtype);
    int64_t end, stride[ST_DIMS], step = 1;
    t->bytes = t->count * size;
    const bool fits = !__builtin_add_overflow(raw->offset, t->bytes, &end) &&
                      (raw->has_offset ? end <= m->size : end == m->size);
    if (!fits) {
        snprintf(found, sizeof found, "a file of %lld bytes", (long long)m->size);
        if (raw->has_offset)
            snprintf(wanted, sizeof wanted, "%lld of the tensor behind offset %lld",
                     (long long)t->bytes, (long long)raw->offset);
        else
            snprintf(wanted, sizeof wanted, "the tensor's %lld, or an offset", (long long)t->bytes);
        return bad(r, n, found, wanted);
    }
    const char *data = m->data ? (const char *)m->data + raw->offset : "";
    t->data = data;
    if (!raw->fortran || t->dims < 2) return source_add(r->s, raw->name, t, r->err);
    for (int i = 0; i < t->dims; i++) {
        stride[i] = step;
        step *= t->count ? t->shape[i] : 0;
    }
    char *turned = malloc((size_t)t->bytes + 1);
    if (!turned) return err_set(r->err, ERR_MEMORY, "raw files|%s|no memory", raw->name);
    strided_copy(t->dims, t->shape, stride, size, data, turned);
    t->data = turned;
    (void)!source_add(r->s, raw->name, t, r->err);
    free(turned);
    return r->err->code;
}

static enum err_code read_tensor(struct reader *r, const struct yaml_node *n)
{
    struct raw raw = {.tensor = {.name = "", .dtype = DT_COUNT, .count = 1}};
    char path[FILE_PATH], folder[FILE_PATH];
    struct file_map m;
    if (n->kind != YAML_MAP) return bad(r, n, yaml_kind_name(n), "a mapping with name and file");
    for (const struct yaml_node *k = n->child; k && r->err->code == ERR_OK; k = k->next)
        read_key(r, k, &raw);
    if (r->err->code != ERR_OK) return r->err->code;
    if (!raw.name || !raw.file || !raw.dtype || !raw.has_shape)
        return bad(r, n, "a tensor without one of them", "name, file, dtype, shape");
    const char *slash = strrchr(r->path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - r->path) : 1,
             slash ? r->path : ".");
    if (file_join(slash == r->path ? "/" : folder, raw.file, path, r->err) != ERR_OK ||
        file_map(path, &m, r->err) != ERR_OK)
        return r->err->code;
    (void)!add_data(r, n, &raw, &m);
    file_unmap(&m);
    return r->err->code;
}

/* ---- the sidecar ---- */

static void read_root(struct reader *r, const struct yaml_node *root)
{
    const char *version = NULL;
    const struct yaml_node *tensors = NULL;
    for (const struct yaml_node *n = root->child; n && r->err->code == ERR_OK; n = n->next) {
        if (strcmp(n->key, "assay-raw") == 0) {
            version = text_of(r, n);
            if (version && strcmp(version, "1") != 0) (void)bad(r, n, version, "1");
        } else if (strcmp(n->key, "engine") == 0) {
            r->s->engine = text_of(r, n);
        } else if (strcmp(n->key, "tensors") == 0) {
            tensors = n;
        } else {
            char found[96];
            snprintf(found, sizeof found, "the key \"%.60s\"", n->key);
            (void)yaml_bad_key(r->path, n, "raw files", found, "assay-raw, engine, tensors",
                               r->err);
        }
    }
    if (r->err->code != ERR_OK) return;
    if (!version)
        (void)bad(r, root, "no assay-raw", "assay-raw: 1");
    else if (!tensors || tensors->kind != YAML_LIST || !tensors->child)
        (void)bad(r, tensors ? tensors : root, "no list of tensors", "tensors: one at least");
    else
        for (const struct yaml_node *i = tensors->child; i && r->err->code == ERR_OK; i = i->next)
            (void)!read_tensor(r, i);
}

/* FILE.raw is read by FILE.raw.yaml or FILE.raw.json. */
static enum err_code find_sidecar(const char *path, char out[FILE_PATH], struct err *err)
{
    static const char *const tails[] = {"", ".yaml", ".json"};
    const bool raw = text_ends(path, ".raw");
    for (int i = raw; i < (raw ? 3 : 1); i++) {
        const int n = snprintf(out, FILE_PATH, "%s%s", path, tails[i]);
        if (n < FILE_PATH && (!raw || file_exists(out))) return ERR_OK;
    }
    return err_set(
        err, ERR_INPUT,
        "raw files|%.180s|no sidecar|one of its name with .yaml or .json behind it, that "
        "says what the bytes are",
        path);
}

enum err_code source_raw(struct source *s, const char *path, struct err *err)
{
    char sidecar[FILE_PATH];
    struct file_map m;
    struct yaml_node *root = NULL;
    if (find_sidecar(path, sidecar, err) != ERR_OK || file_map(sidecar, &m, err) != ERR_OK)
        return err->code;
    struct reader r = {s, sidecar, err};
    s->streamed = true;
    s->axis = -1;
    if (yaml_parse(m.data ? (const char *)m.data : "", m.size, sidecar, &s->arena, &root, err) ==
        ERR_OK) {
        if (root->kind == YAML_MAP)
            read_root(&r, root);
        else
            (void)bad(&r, root, yaml_kind_name(root), "a mapping");
    }
    file_unmap(&m);
    return err->code;
}
