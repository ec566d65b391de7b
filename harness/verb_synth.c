/* verb_synth.c: a synthetic checkpoint on disk, in the real layout: config.json and safetensors
 * shards. */
#include "core/check.h"
#include "core/file.h"
#include "core/model.h"
#include "core/text.h"
#include "harness/session.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row options[] = {
    {"--seed", "S", "seed of the values (needed)", false},
    {"--latent-gain", "G", "scale of q_a_proj and kv_a_proj_with_mqa (default 1)", false},
    {"--out", "DIR", "folder to write, made if absent (needed)", false},
    {NULL, NULL, NULL, false},
};

/* Every tensor of the checkpoint, in the order of the layers. */
struct list {
    struct tensor *tensor;
    int64_t count, room;
};

static enum err_code add(struct list *l, const struct tensor *t, struct err *err)
{
    if (!tensor_exists(t)) return ERR_OK;
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 256;
        struct tensor *more = realloc(l->tensor, (size_t)l->room * sizeof *more);
        if (!more) return err_set(err, ERR_MEMORY, "list tensors||no memory");
        l->tensor = more;
    }
    l->tensor[l->count++] = *t;
    return ERR_OK;
}

static enum err_code add_matrix(struct list *l, const struct matrix *m, struct err *err)
{
    if (add(l, &m->data, err) != ERR_OK || add(l, &m->scale, err) != ERR_OK) return err->code;
    if (m->format != MATRIX_PACKED) return ERR_OK;
    struct tensor shape = {.dtype = DT_I32,
                           .dims = 1,
                           .shape = {2},
                           .rule = {.kind = SYNTH_SHAPE, .out = m->out, .in = m->in}};
    size_t stem = strlen(m->data.name) - strlen("packed");
    CHECK(text_ends(m->data.name, "packed"));
    snprintf(shape.name, sizeof shape.name, "%.*sshape", (int)stem, m->data.name);
    return add(l, &shape, err);
}

static enum err_code add_layer(struct list *l, const struct model *m, int64_t i, struct err *err)
{
    const struct layer *y = &m->layers[i];
    const struct tensor *const tensors[] = {&y->attn_norm, &y->mlp_norm, &y->q_norm, &y->kv_norm,
                                            &y->bias};
    const struct matrix *const matrices[] = {&y->q_a,  &y->q_b, &y->kv_a, &y->kv_b,  &y->o,
                                             &y->gate, &y->up,  &y->down, &y->router};
    for (size_t k = 0; k < sizeof tensors / sizeof tensors[0]; k++) {
        if (add(l, tensors[k], err) != ERR_OK) return err->code;
    }
    for (size_t k = 0; k < sizeof matrices / sizeof matrices[0]; k++) {
        if (add_matrix(l, matrices[k], err) != ERR_OK) return err->code;
    }
    for (int64_t e = 0; y->moe && e < m->config->experts; e++) {
        struct expert x;
        if (model_expert(m, i, e, &x, err) != ERR_OK || add_matrix(l, &x.gate, err) != ERR_OK ||
            add_matrix(l, &x.up, err) != ERR_OK || add_matrix(l, &x.down, err) != ERR_OK)
            return err->code;
    }
    return ERR_OK;
}

static enum err_code list_tensors(struct list *l, const struct model *m, struct err *err)
{
    if (add(l, &m->embed, err) != ERR_OK || add(l, &m->norm, err) != ERR_OK) return err->code;
    if (!m->config->tied_embeddings && add_matrix(l, &m->head, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < m->config->layers; i++) {
        if (add_layer(l, m, i, err) != ERR_OK) return err_note(err, "layer %lld", (long long)i);
    }
    return ERR_OK;
}

static enum err_code write_tensor(struct file_out *f, const struct tensor *t, struct err *err)
{
    enum { CHUNK = 1 << 16 };
    static _Alignas(64) unsigned char buf[CHUNK * 4];
    int64_t n = tensor_count(t), size = dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        if (file_out_write(f, tensor_elements(t, i, m, buf), m * size, err) != ERR_OK)
            return err_note(err, "tensor %s", t->name);
    }
    return ERR_OK;
}

static enum err_code write_model(const struct list *l, const char *path, int64_t *bytes,
                                 struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    const struct st_meta meta = {"format", "pt"};
    struct st_entry *entries = calloc((size_t)l->count + 1, sizeof *entries);
    char *header = NULL;
    int64_t header_bytes = 0;
    if (!entries) return err_set(err, ERR_MEMORY, "plan checkpoint|%s|no memory", path);
    for (int64_t i = 0; i < l->count; i++) {
        const struct tensor *t = &l->tensor[i];
        entries[i] = (struct st_entry){.name = t->name, .dtype = t->dtype, .dims = t->dims};
        memcpy(entries[i].shape, t->shape, sizeof t->shape);
    }
    if (st_plan(entries, l->count, &meta, 1, &header, &header_bytes, err) == ERR_OK &&
        file_out_open(&f, path, err) == ERR_OK &&
        file_out_write(&f, header, header_bytes, err) == ERR_OK) {
        for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
            progress_show(NULL, "tensors", i, l->count);
            (void)!write_tensor(&f, &l->tensor[i], err);
        }
    }
    *bytes = f.bytes;
    if (err->code == ERR_OK) (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    free(header);
    free(entries);
    return err->code;
}

static enum err_code copy_config(const char *from, const char *folder, struct err *err)
{
    char path[FILE_PATH];
    struct file_map m;
    struct file_out f = FILE_OUT_INIT;
    if (file_map(from, &m, err) != ERR_OK) return err->code;
    if (file_join(folder, "config.json", path, err) == ERR_OK &&
        file_out_open(&f, path, err) == ERR_OK && file_out_write(&f, m.data, m.size, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    file_unmap(&m);
    return err->code;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    char spec[FILE_PATH], path[FILE_PATH], text[32];
    const char *seed = args_value(a, "--seed"), *gain = args_value(a, "--latent-gain"),
               *folder = args_value(a, "--out");
    struct loaded l = {0};
    struct list list = {0};
    int64_t bytes = 0;
    uint64_t number;
    if (!seed || !folder)
        return err_set(err, ERR_USAGE, "arguments|synth|no %s|--seed S --out DIR",
                       seed ? "--out" : "--seed");
    if (!text_u64(seed, &number))
        return err_set(err, ERR_USAGE, "option|--seed|\"%s\"|a whole number of 0 or more", seed);
    int n = snprintf(spec, sizeof spec, "synth:%s?seed=%s%s%s", a->word[0], seed,
                     gain ? "&latent_gain=" : "", gain ? gain : "");
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "open config|%.64s...|%d bytes|a shorter path", a->word[0],
                       n);
    if (loaded_open(&l, spec, err) == ERR_OK && list_tensors(&list, &l.model, err) == ERR_OK &&
        file_make_folder(folder, err) == ERR_OK &&
        file_join(folder, "model.safetensors", path, err) == ERR_OK &&
        write_model(&list, path, &bytes, err) == ERR_OK &&
        copy_config(a->word[0], folder, err) == ERR_OK) {
        json_object_set_new(result, "out", json_string(folder));
        json_object_set_new(result, "tensors", json_integer(list.count));
        json_object_set_new(result, "bytes", json_integer(bytes));
        if (!a->json)
            printf("%lld tensors, %s -> %s\n", (long long)list.count,
                   text_bytes((double)bytes, text, sizeof text), path);
    }
    free(list.tensor);
    loaded_close(&l);
    return err->code;
}

const struct verb verb_synth = {
    .name = "synth",
    .usage = "CONFIG.json --seed S --out DIR [--latent-gain G]",
    .about = "write a synthetic checkpoint in the real layout",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
