/* images.c: see images.h. */
#include "tests/images.h"

#include "core/layout.h"
#include "core/synth.h"
#include "tests/config_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGE_SEED = 7 };

/* ---- the checkpoint ---- */

void image_set(struct image *f, const char *name, const void *data, size_t size)
{
    struct image next = {.data = malloc(size + 1), .size = size}; /* both may be parts of f */
    assert_non_null(next.data);
    snprintf(next.name, sizeof next.name, "%s", name);
    if (size) memcpy(next.data, data, size);
    next.data[size] = '\0';
    free(f->data);
    *f = next;
}

static void fill(const struct layout_tensor *t, enum dtype dtype, unsigned char *out, int64_t bytes)
{
    uint64_t base = synth_base(IMAGE_SEED, t->name);
    for (int64_t i = 0; i < bytes; i++) out[i] = (unsigned char)synth_x(base, i);
    if (t->kind != LAYOUT_PAIR) return;
    int32_t pair[2] = {(int32_t)t->out, (int32_t)t->in};
    assert_int_equal(dtype, DT_I32);
    memcpy(out, pair, sizeof pair);
}

/* Every shards-th tensor of the layout, as a file. */
static void make_shard(struct image *f, const char *name, const struct layout *l, int64_t part,
                       int64_t shards)
{
    struct err err = ERR_INIT;
    struct st_entry *entries = calloc((size_t)l->count, sizeof *entries);
    const struct st_meta meta = {"format", "pt"};
    int64_t n = 0, header_bytes = 0, at[1 + 4096];
    char *header = NULL;
    assert_non_null(entries);
    for (int64_t i = part; i < l->count; i += shards) {
        const struct layout_tensor *t = &l->tensors[i];
        enum dtype d = t->kind == LAYOUT_CODES || t->kind == LAYOUT_PAIR ? DT_I32 : DT_BF16;
        if (strstr(t->name, "e_score_correction_bias")) d = DT_F32;
        at[n] = i;
        entries[n++] = (struct st_entry){t->name, d, t->dims, {t->shape[0], t->shape[1]}, 0, 0};
    }
    (void)!st_plan(entries, n, &meta, 1, &header, &header_bytes, &err);
    assert_ok(&err);
    int64_t data = entries[n - 1].offset + entries[n - 1].bytes;
    unsigned char *all = malloc((size_t)(header_bytes + data));
    assert_non_null(all);
    memcpy(all, header, (size_t)header_bytes);
    for (int64_t i = 0; i < n; i++)
        fill(&l->tensors[at[i]], entries[i].dtype, all + header_bytes + entries[i].offset,
             entries[i].bytes);
    image_set(f, name, all, (size_t)(header_bytes + data));
    free(all);
    free(header);
    free(entries);
}

static void make_index(struct image *f, const struct layout *l, int64_t bytes)
{
    json_t *map = json_object();
    for (int64_t i = 0; i < l->count; i++) {
        char file[64];
        snprintf(file, sizeof file, "model-0000%lld-of-000003.safetensors", (long long)(i % 3 + 1));
        json_object_set_new(map, l->tensors[i].name, json_string(file));
    }
    json_t *root =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    char *text = json_dumps(root, JSON_INDENT(1));
    assert_non_null(text);
    image_set(f, "model.safetensors.index.json", text, strlen(text));
    free(text);
    json_decref(root);
}

uint64_t image_header_size(const struct image *f)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | f->data[i];
    return n;
}

void images_make(struct images *m, bool sharded, void **state)
{
    struct err err = ERR_INIT;
    struct config c;
    struct layout l;
    const struct layout_choice choice = {.weight_shapes = true};
    int64_t bytes = 0;
    (void)!config_parse(CONFIG_K25, (int64_t)strlen(CONFIG_K25), "test", &c, &err);
    (void)!layout_make(&l, &c, &choice, &err);
    assert_ok(&err);
    *m = (struct images){.count = sharded ? 5 : 2, .first = sharded ? 2 : 1};
    image_set(&m->files[0], "config.json", CONFIG_K25, strlen(CONFIG_K25));
    if (!sharded) make_shard(&m->files[1], "model.safetensors", &l, 0, 1);
    for (int64_t k = 0; k < 3 && sharded; k++) {
        char name[64];
        struct image *f = &m->files[2 + k];
        snprintf(name, sizeof name, "model-0000%lld-of-000003.safetensors", (long long)k + 1);
        make_shard(f, name, &l, k, 3);
        bytes += (int64_t)f->size - 8 - (int64_t)image_header_size(f);
    }
    if (sharded) make_index(&m->files[1], &l, bytes);
    layout_free(&l);
    snprintf(m->folder, sizeof m->folder, "%s", folder_path(state, sharded ? "shards" : "one"));
    snprintf(m->contract, sizeof m->contract, "%s",
             folder_path(state, sharded ? "shards.json" : "one.json"));
    assert_int_equal(file_make_folder(m->folder, &err), ERR_OK);
}

struct images images_copied(const struct images *m)
{
    struct images copy = *m;
    for (int i = 0; i < m->count; i++) {
        copy.files[i] = (struct image){0};
        image_set(&copy.files[i], m->files[i].name, m->files[i].data, m->files[i].size);
    }
    return copy;
}

void images_free(struct images *m)
{
    for (int i = 0; i < m->count; i++) free(m->files[i].data);
}

void images_write(const struct images *m)
{
    for (int i = 0; i < m->count; i++) {
        char path[FILE_PATH + IMAGE_NAME + 2];
        snprintf(path, sizeof path, "%s/%s", m->folder, m->files[i].name);
        if (!m->files[i].gone) write_whole(path, m->files[i].data, m->files[i].size);
    }
}

void images_remove(const struct images *m)
{
    for (int i = 0; i < m->count; i++) {
        char path[FILE_PATH + IMAGE_NAME + 2];
        snprintf(path, sizeof path, "%s/%s", m->folder, m->files[i].name);
        unlink(path);
    }
}

/* ---- headers ---- */

json_t *image_header(const struct image *f)
{
    json_t *root = json_loadb((const char *)f->data + 8, (size_t)image_header_size(f), 0, NULL);
    assert_non_null(root);
    return root;
}

void image_set_header_text(struct image *f, const char *text)
{
    size_t n = strlen(text), old = 8 + (size_t)image_header_size(f), data = f->size - old;
    unsigned char *all = malloc(8 + n + data);
    assert_non_null(all);
    for (int i = 0; i < 8; i++) all[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(all + 8, text, n);
    memcpy(all + 8 + n, f->data + old, data);
    image_set(f, f->name, all, 8 + n + data);
    free(all);
}

void image_set_header(struct image *f, json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    image_set_header_text(f, text);
    free(text);
    json_decref(root);
}
