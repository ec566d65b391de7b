/* synth.c: see synth.h. */
#include "harness/synth.h"

#include "core/check.h"
#include "core/file.h"
#include "core/model.h"
#include "core/text.h"
#include "harness/session.h"
#include "harness/staging.h"
#include "harness/verb.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every tensor of the checkpoint, in the order in which one file holds them. */
struct list {
    struct tensor *tensor;
    int64_t *item; /* what it is kept together with: its layer, or layers + 0, 1, 2 for the ends */
    int64_t count, room;
    int64_t now; /* the item being listed */
};

/* ---- the tensors ---- */

static enum err_code add(struct list *l, const struct tensor *t, struct err *err)
{
    if (!tensor_exists(t)) return ERR_OK;
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 256;
        struct tensor *more = realloc(l->tensor, (size_t)l->room * sizeof *more);
        if (more) l->tensor = more;
        int64_t *items = realloc(l->item, (size_t)l->room * sizeof *items);
        if (items) l->item = items;
        if (!more || !items) return err_set(err, ERR_MEMORY, "list tensors||no memory");
    }
    l->item[l->count] = l->now;
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
    l->now = i;
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
    const int64_t layers = m->config->layers;
    l->now = layers;
    if (add(l, &m->embed, err) != ERR_OK) return err->code;
    l->now = layers + 1;
    if (add(l, &m->norm, err) != ERR_OK) return err->code;
    l->now = layers + 2;
    if (!m->config->tied_embeddings && add_matrix(l, &m->head, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < layers; i++) {
        if (add_layer(l, m, i, err) != ERR_OK) return err_note(err, "layer %lld", (long long)i);
    }
    return ERR_OK;
}

static int64_t tensor_bytes(const struct tensor *t)
{
    return tensor_count(t) * dtype_size(t->dtype);
}

/* ---- who goes where ---- */

/* Fills shards up to `most` bytes each, but leaves one part for each shard to come. Returns how
 * many shards that takes (more than `shards`: it does not fit). */
static int64_t fill(const int64_t *bytes, int64_t items, int64_t shards, int64_t most,
                    int64_t *shard_of)
{
    int64_t shard = 0, sum = 0;
    for (int64_t i = 0; i < items; i++) {
        bool full = bytes[i] > most - sum, needed = items - i < shards - shard;
        if (i > 0 && (full || needed)) {
            shard++;
            sum = 0;
        }
        sum += bytes[i];
        if (shard_of) shard_of[i] = shard;
    }
    return shard + 1;
}

void synth_balance(const int64_t *bytes, int64_t items, int64_t shards, int64_t *shard_of)
{
    int64_t low = 0, high = 0;
    CHECK(shards >= 1 && shards <= items);
    for (int64_t i = 0; i < items; i++) {
        low = bytes[i] > low ? bytes[i] : low;
        high += bytes[i];
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (fill(bytes, items, shards, middle, NULL) <= shards)
            high = middle;
        else
            low = middle + 1;
    }
    CHECK(fill(bytes, items, shards, low, shard_of) == shards);
}

struct plan {
    struct list list;
    int64_t shards;
    int64_t *shard_of; /* [list.count] of each tensor */
    char (*name)[STAGING_NAME];
    int64_t files;      /* shards, index where there is one, config.json */
    int64_t data_bytes; /* of all tensors */
};

/* More shards than layers and ends: no layer stays together. */
static enum err_code plan_tensors(struct plan *p, struct err *err)
{
    if (p->shards > p->list.count)
        return err_set(err, ERR_INPUT, "option|--shards|%lld|at most %lld: a tensor each",
                       (long long)p->shards, (long long)p->list.count);
    int64_t *bytes = calloc((size_t)p->list.count, sizeof *bytes);
    if (!bytes) return err_set(err, ERR_MEMORY, "plan shards||no memory");
    for (int64_t i = 0; i < p->list.count; i++)
        p->data_bytes += bytes[i] = tensor_bytes(&p->list.tensor[i]);
    synth_balance(bytes, p->list.count, p->shards, p->shard_of);
    free(bytes);
    return ERR_OK;
}

/* The ends are one part, or as many as there are shards for. */
static enum err_code plan_shards(struct plan *p, const struct config *c, struct err *err)
{
    int64_t ends = c->tied_embeddings ? 2 : 3, part[3], bytes[4096 + 3] = {0}, shard[4096 + 3];
    int64_t parts = p->shards <= c->layers ? 1 : p->shards - c->layers;
    p->shard_of = calloc((size_t)p->list.count, sizeof *p->shard_of);
    if (!p->shard_of) return err_set(err, ERR_MEMORY, "plan shards||no memory");
    if (parts > ends) return plan_tensors(p, err);
    for (int64_t i = 0; i < 3; i++) part[i] = c->layers + (i < parts ? i : parts - 1);
    for (int64_t i = 0; i < p->list.count; i++) {
        int64_t item = p->list.item[i], size = tensor_bytes(&p->list.tensor[i]);
        if (item >= c->layers) item = part[item - c->layers];
        p->shard_of[i] = item;
        bytes[item] += size;
        p->data_bytes += size;
    }
    synth_balance(bytes, c->layers + parts, p->shards, shard);
    for (int64_t i = 0; i < p->list.count; i++) p->shard_of[i] = shard[p->shard_of[i]];
    return ERR_OK;
}

static enum err_code plan_names(struct plan *p, struct err *err)
{
    p->files = p->shards + (p->shards > 1) + 1;
    p->name = calloc((size_t)p->files, sizeof *p->name);
    if (!p->name) return err_set(err, ERR_MEMORY, "plan shards||no memory");
    for (int64_t i = 0; i < p->shards; i++)
        snprintf(p->name[i], STAGING_NAME, "model-%05lld-of-%06lld.safetensors", (long long)i + 1,
                 (long long)p->shards);
    if (p->shards == 1)
        snprintf(p->name[0], STAGING_NAME, "model.safetensors");
    else
        snprintf(p->name[p->shards], STAGING_NAME, "model.safetensors.index.json");
    snprintf(p->name[p->files - 1], STAGING_NAME, "config.json");
    return ERR_OK;
}

static void plan_free(struct plan *p)
{
    free(p->list.tensor);
    free(p->list.item);
    free(p->shard_of);
    free(p->name);
}

/* ---- writing ---- */

/* Elements in pieces that threads make, as many as lie in the buffer at once. */
enum { PIECE = 1 << 16, PIECES = 64, ELEMENT = 4 };

struct making {
    const struct tensor *tensor;
    int64_t first, count; /* those of the buffer */
    unsigned char *buf;   /* [PIECES][PIECE] elements */
};

static void make_piece(void *ctx, int64_t i, int worker)
{
    const struct making *k = ctx;
    int64_t at = i * PIECE, left = k->count - at, n = left < PIECE ? left : PIECE;
    unsigned char *to = k->buf + at * dtype_size(k->tensor->dtype);
    (void)worker;
    CHECK(tensor_elements(k->tensor, k->first + at, n, to) == to);
}

static enum err_code write_tensor(struct file_out *f, const struct tensor *t, struct err *err)
{
    static _Alignas(64) unsigned char buf[PIECES * PIECE * ELEMENT];
    const struct run run = {.threads = session_defaults().threads};
    int64_t n = tensor_count(t), size = dtype_size(t->dtype), most = (int64_t)PIECES * PIECE;
    CHECK(size <= ELEMENT);
    for (int64_t i = 0; i < n; i += most) {
        struct making k = {t, i, n - i < most ? n - i : most, buf};
        run_parallel(&run, (k.count + PIECE - 1) / PIECE, make_piece, &k);
        if (file_out_write(f, buf, k.count * size, err) != ERR_OK)
            return err_note(err, "tensor %s", t->name);
    }
    return ERR_OK;
}

/* The header of one shard; the caller's. */
static enum err_code shard_header(const struct plan *p, int64_t shard, char **header, int64_t *size,
                                  struct err *err)
{
    const struct st_meta meta = {"format", "pt"};
    struct st_entry *entries = calloc((size_t)p->list.count + 1, sizeof *entries);
    int64_t n = 0;
    if (!entries) return err_set(err, ERR_MEMORY, "plan checkpoint||no memory");
    for (int64_t i = 0; i < p->list.count; i++) {
        const struct tensor *t = &p->list.tensor[i];
        if (p->shard_of[i] != shard) continue;
        entries[n] = (struct st_entry){.name = t->name, .dtype = t->dtype, .dims = t->dims};
        memcpy(entries[n++].shape, t->shape, sizeof t->shape);
    }
    (void)!st_plan(entries, n, &meta, 1, header, size, err);
    free(entries);
    return err->code;
}

static enum err_code write_shard(const struct plan *p, int64_t shard, const char *path,
                                 int64_t *done, int64_t *bytes, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    char *header = NULL;
    int64_t size = 0;
    if (shard_header(p, shard, &header, &size, err) == ERR_OK &&
        file_out_open(&f, path, err) == ERR_OK && file_out_write(&f, header, size, err) == ERR_OK) {
        for (int64_t i = 0; i < p->list.count && err->code == ERR_OK; i++) {
            if (p->shard_of[i] != shard) continue;
            progress_show(NULL, "tensors", (*done)++, p->list.count);
            (void)!write_tensor(&f, &p->list.tensor[i], err);
        }
    }
    *bytes += f.bytes;
    if (err->code == ERR_OK) (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    free(header);
    return err->code;
}

static enum err_code write_text(const char *path, const char *text, int64_t size, struct err *err)
{
    struct file_out f = FILE_OUT_INIT;
    if (file_out_open(&f, path, err) == ERR_OK && file_out_write(&f, text, size, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}

static enum err_code write_index(const struct plan *p, const char *path, struct err *err)
{
    json_t *map = json_object();
    for (int64_t i = 0; i < p->list.count; i++)
        json_object_set_new(map, p->list.tensor[i].name, json_string(p->name[p->shard_of[i]]));
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)p->data_bytes,
                             "weight_map", map);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text) return err_set(err, ERR_MEMORY, "write index|%s|no memory", path);
    (void)!write_text(path, text, (int64_t)strlen(text), err);
    free(text);
    return err->code;
}

/* Errors name the file that was asked for, not where it is being made. */
static void name_final(const struct staging *s, struct err *err)
{
    size_t folder = strlen(s->folder), temporary = strlen(s->temporary);
    if (!temporary || !text_starts(err->where, s->temporary)) return;
    memmove(err->where + folder, err->where + temporary, strlen(err->where + temporary) + 1);
}

static enum err_code write_files(const struct plan *p, const char *folder, const char *config,
                                 int64_t config_size, int64_t *bytes, struct err *err)
{
    struct staging s;
    int64_t done = 0;
    if (staging_open(&s, folder, p->files, (const char(*)[STAGING_NAME])p->name, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < p->shards && err->code == ERR_OK; i++)
        (void)!write_shard(p, i, s.path[i], &done, bytes, err);
    if (err->code == ERR_OK && p->shards > 1) (void)!write_index(p, s.path[p->shards], err);
    if (err->code == ERR_OK) (void)!write_text(s.path[p->files - 1], config, config_size, err);
    if (err->code == ERR_OK) (void)!staging_commit(&s, err);
    if (err->code == ERR_OK) return ERR_OK;
    name_final(&s, err);
    staging_abandon(&s);
    return err->code;
}

/* ---- the whole ---- */

/* The seed, the gain and the rules are checked on the config as it is given. */
static enum err_code open_source(const struct synth_request *q, struct weights *w, struct err *err)
{
    char spec[FILE_PATH];
    int n = snprintf(spec, sizeof spec, "synth:%s?seed=%llu%s%s", q->config,
                     (unsigned long long)q->seed, q->latent_gain ? "&latent_gain=" : "",
                     q->latent_gain ? q->latent_gain : "");
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "open config|%.64s...|%d bytes|a shorter path", q->config,
                       n);
    return weights_open(w, spec, err);
}

/* A config that is made smaller must not take the place of the one that it was made from. */
static enum err_code refuse_own_folder(const struct synth_request *q, struct err *err)
{
    char path[FILE_PATH];
    if (file_join(q->folder, "config.json", path, err) != ERR_OK) return err->code;
    char *from = realpath(q->config, NULL), *to = realpath(path, NULL);
    if (from && to && strcmp(from, to) == 0)
        err_set(err, ERR_INPUT, "option|--out|%s, which holds the config to shrink|another folder",
                q->folder);
    free(from);
    free(to);
    return err->code;
}

static enum err_code make(const struct synth_request *q, struct weights *w, const char *text,
                          int64_t size, struct synth_result *out, struct err *err)
{
    struct plan p = {.shards = q->shards};
    struct model m = {0};
    if (model_bind(&m, w, err) == ERR_OK && list_tensors(&p.list, &m, err) == ERR_OK &&
        plan_shards(&p, &w->config, err) == ERR_OK && plan_names(&p, err) == ERR_OK)
        (void)!write_files(&p, q->folder, text, size, &out->bytes, err);
    out->tensors = p.list.count;
    model_release(&m);
    plan_free(&p);
    return err->code;
}

enum err_code synth_checkpoint(const struct synth_request *q, struct synth_result *out,
                               struct err *err)
{
    struct weights w = {0};
    struct file_map map = {0};
    *out = (struct synth_result){0};
    CHECK(q->shards >= 1);
    if (open_source(q, &w, err) == ERR_OK && file_map(q->config, &map, err) == ERR_OK) {
        struct shrink *s = &out->shrunk;
        if (!q->shrink) {
            (void)!make(q, &w, (const char *)map.data, map.size, out, err);
        } else if (refuse_own_folder(q, err) == ERR_OK &&
                   shrink_make(s, q->shrink, (const char *)map.data, map.size, q->config, err) ==
                       ERR_OK) {
            w.config = s->config;
            (void)!make(q, &w, s->text, s->size, out, err);
        }
    }
    file_unmap(&map);
    weights_close(&w);
    return err->code;
}

void synth_result_free(struct synth_result *r)
{
    shrink_free(&r->shrunk);
}
