/* sample_read.c: a sample file as one set of views; see sample.h. */
#include "harness/sample.h"

#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a sample_file owns. */
struct source {
    struct pt_file pt;
    struct st_file st;
    int64_t *token; /* a copy: a safetensors file may have them at an odd address */
};

/* The layouts of torch files, told apart by a key that the others lack; in this order. */
static const struct layout {
    const char *mark;
    enum sample_format format;
    const char *last, *aux; /* aux NULL: `last` is a list of all states */
    bool batched;           /* states have a leading dimension of 1 */
    bool masked;            /* loss_mask must be there */
    bool normed;
} layouts[] = {
    {"aux_hidden_states", SAMPLE_SPECFORGE, "hidden_states", "aux_hidden_states", false, false,
     true},
    {"aux_hidden_state", SAMPLE_SPECFORGE, "hidden_state", "aux_hidden_state", true, true, true},
    {"target", SAMPLE_V03, "target", "hidden_state", false, true, false},
    {"hidden_states", SAMPLE_V03, "hidden_states", NULL, false, true, false},
    {"hidden_state", SAMPLE_SPECFORGE, "hidden_state", "aux_hidden_state", true, true, true},
};

static enum err_code refuse(const char *path, const char *key, const char *found,
                            const char *wanted, struct err *err)
{
    return err_set(err, ERR_INPUT, "read sample|%s: %s|%s|%s", path, key, found, wanted);
}

/* "BF16 [48, 256]" */
static const char *tensor_text(const struct st_tensor *t, char *buf, size_t size)
{
    char shape[128];
    snprintf(buf, size, "%s %s", dtype_name(t->dtype),
             st_shape_text(t->dims, t->shape, shape, sizeof shape));
    return buf;
}

static const char *kind_text(const struct pt_value *v)
{
    static const char *const names[] = {"None",   "a bool",  "an integer", "a float", "a text",
                                        "a list", "a tuple", "a dict",     "a tensor"};
    return v ? names[v->kind] : "no such key";
}

static bool is_state_type(enum dtype t)
{
    return t == DT_BF16 || t == DT_F16 || t == DT_F32;
}

/* i64 [rows] */
static enum err_code check_ids(const char *path, const char *key, const struct st_tensor *t,
                               int64_t rows, struct err *err)
{
    char found[192], wanted[64];
    if (t->dtype == DT_I64 && t->dims == 1 && t->shape[0] == rows) return ERR_OK;
    snprintf(wanted, sizeof wanted, "I64 [%lld]", (long long)rows);
    return refuse(path, key, tensor_text(t, found, sizeof found), wanted, err);
}

/* ---- torch files ---- */

static enum err_code get_tensor(const char *path, const struct pt_value *root, const char *key,
                                const struct st_tensor **out, struct err *err)
{
    const struct pt_value *v = pt_get(root, key);
    if (!v || v->kind != PT_TENSOR) return refuse(path, key, kind_text(v), "a tensor", err);
    *out = v->tensor;
    return ERR_OK;
}

/* One state [rows, hidden] or [1, rows, hidden]; the first one sets rows, hidden and type. */
static enum err_code check_state(const char *path, const char *key, const struct st_tensor *t,
                                 bool batched, struct sample *s, struct err *err)
{
    char found[192], wanted[96];
    const char *lead = batched ? "1, " : "";
    const int64_t *shape = t->shape + batched;
    bool formed = is_state_type(t->dtype) && t->dims == 2 + batched &&
                  (!batched || t->shape[0] == 1) && shape[0] > 0 && shape[1] > 0;
    if (!s->rows) {
        snprintf(wanted, sizeof wanted, "BF16, F16 or F32 [%srows, hidden]", lead);
        if (!formed) return refuse(path, key, tensor_text(t, found, sizeof found), wanted, err);
        s->rows = shape[0];
        s->hidden = shape[1];
        s->dtype = t->dtype;
        return ERR_OK;
    }
    if (formed && shape[0] == s->rows && shape[1] == s->hidden && t->dtype == s->dtype)
        return ERR_OK;
    snprintf(wanted, sizeof wanted, "%s [%s%lld, %lld] like the others", dtype_name(s->dtype), lead,
             (long long)s->rows, (long long)s->hidden);
    return refuse(path, key, tensor_text(t, found, sizeof found), wanted, err);
}

static enum err_code read_list(const char *path, const struct layout *l,
                               const struct pt_value *root, struct sample *s, struct err *err)
{
    const struct pt_value *list = pt_get(root, l->last);
    char key[64];
    if (list->kind != PT_LIST && list->kind != PT_TUPLE)
        return refuse(path, l->last, kind_text(list), "a list of tensors", err);
    if (list->count < 1 || list->count > SAMPLE_STATES) {
        snprintf(key, sizeof key, "%lld tensors", (long long)list->count);
        return refuse(path, l->last, key, "1 to 16", err);
    }
    for (int64_t i = 0; i < list->count; i++) {
        const struct pt_value *v = &list->items[i];
        snprintf(key, sizeof key, "%s[%lld]", l->last, (long long)i);
        if (v->kind != PT_TENSOR) return refuse(path, key, kind_text(v), "a tensor", err);
        if (check_state(path, key, v->tensor, l->batched, s, err) != ERR_OK) return err->code;
        s->state[s->states] = v->tensor->data;
        s->stride[s->states++] = s->hidden;
    }
    return ERR_OK;
}

/* The last state, and all others side by side in one tensor. */
static enum err_code read_flat(const char *path, const struct layout *l,
                               const struct pt_value *root, struct sample *s, struct err *err)
{
    const struct st_tensor *last = NULL, *aux = NULL;
    char found[192], wanted[96];
    if (get_tensor(path, root, l->last, &last, err) != ERR_OK ||
        get_tensor(path, root, l->aux, &aux, err) != ERR_OK ||
        check_state(path, l->last, last, l->batched, s, err) != ERR_OK)
        return err->code;
    const int64_t *shape = aux->shape + l->batched;
    int64_t width = aux->dims == 2 + l->batched ? shape[1] : 0, n = width / s->hidden;
    if (aux->dtype != s->dtype || (l->batched && aux->shape[0] != 1) || width == 0 ||
        shape[0] != s->rows || width % s->hidden != 0 || n > SAMPLE_STATES - 1) {
        snprintf(wanted, sizeof wanted, "%s [%s%lld, 1 to 15 times %lld]", dtype_name(s->dtype),
                 l->batched ? "1, " : "", (long long)s->rows, (long long)s->hidden);
        return refuse(path, l->aux, tensor_text(aux, found, sizeof found), wanted, err);
    }
    for (int64_t i = 0; i < n; i++) {
        s->state[i] = (const char *)aux->data + i * s->hidden * dtype_size(s->dtype);
        s->stride[i] = width;
    }
    s->state[n] = last->data;
    s->stride[n] = s->hidden;
    s->states = (int)n + 1;
    return ERR_OK;
}

static const struct layout *find_layout(const struct pt_value *root)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (pt_get(root, layouts[i].mark)) return &layouts[i];
    }
    return NULL;
}

/* "keys a, b, c" */
static const char *keys_text(const struct pt_value *root, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, root->count ? "keys " : "an empty dict");
    for (int64_t i = 0; i < root->count && n < size; i++) {
        const struct pt_value *k = &root->keys[i];
        n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "",
                              k->kind == PT_TEXT ? k->text : "a number");
    }
    return buf;
}

static enum err_code read_torch(struct sample_file *f, const char *path,
                                const struct pt_value *root, struct err *err)
{
    struct sample *s = &f->sample;
    const struct st_tensor *ids = NULL, *mask = NULL;
    char found[192];
    if (root->kind != PT_DICT) return refuse(path, "content", kind_text(root), "a dict", err);
    const struct layout *l = find_layout(root);
    if (!l)
        return refuse(path, "content", keys_text(root, found, sizeof found),
                      "input_ids, loss_mask and hidden_states, or hidden_state and "
                      "aux_hidden_state or target",
                      err);
    if ((l->aux ? read_flat : read_list)(path, l, root, s, err) != ERR_OK ||
        get_tensor(path, root, "input_ids", &ids, err) != ERR_OK ||
        check_ids(path, "input_ids", ids, s->rows, err) != ERR_OK)
        return err->code;
    s->token = ids->data;
    if (l->masked) {
        if (get_tensor(path, root, "loss_mask", &mask, err) != ERR_OK ||
            check_ids(path, "loss_mask", mask, s->rows, err) != ERR_OK)
            return err->code;
        s->mask = mask->data;
    }
    s->last_normed = l->normed;
    f->format = l->format;
    return ERR_OK;
}

/* ---- safetensors ---- */

static enum err_code read_safetensors(struct sample_file *f, const char *path,
                                      struct source *source, struct err *err)
{
    struct sample *s = &f->sample;
    const struct st_tensor *states = st_find(&source->st, "hidden_states");
    const struct st_tensor *ids = st_find(&source->st, "token_ids");
    char found[192];
    if (!states) return refuse(path, "hidden_states", "no such tensor", "a tensor", err);
    if (!ids) return refuse(path, "token_ids", "no such tensor", "a tensor", err);
    if (!is_state_type(states->dtype) || states->dims != 3 || states->count == 0 ||
        states->shape[1] > SAMPLE_STATES)
        return refuse(path, "hidden_states", tensor_text(states, found, sizeof found),
                      "BF16, F16 or F32 [rows, 1 to 16, hidden]", err);
    if (check_ids(path, "token_ids", ids, states->shape[0], err) != ERR_OK) return err->code;
    *s = (struct sample){.rows = states->shape[0],
                         .hidden = states->shape[2],
                         .states = (int)states->shape[1],
                         .dtype = states->dtype};
    for (int i = 0; i < s->states; i++) {
        s->state[i] = (const char *)states->data + i * s->hidden * dtype_size(s->dtype);
        s->stride[i] = s->states * s->hidden;
    }
    source->token = malloc((size_t)ids->bytes);
    if (!source->token) return err_set(err, ERR_MEMORY, "read sample|%s|no memory", path);
    memcpy(source->token, ids->data, (size_t)ids->bytes);
    s->token = source->token;
    f->format = SAMPLE_VLLM;
    return ERR_OK;
}

/* ---- files ---- */

/* A safetensors header begins with its length and '{'; anything else is for pt.h to name. */
static enum err_code read_file(struct sample_file *f, const char *path, struct source *source,
                               struct err *err)
{
    struct file_map map;
    if (file_map(path, &map, err) != ERR_OK) return err->code;
    bool safetensors = map.size > 8 && map.data[8] == '{';
    if (!safetensors && pt_open_memory(&source->pt, path, map.data, map.size, err) == ERR_OK)
        (void)!read_torch(f, path, &source->pt.root, err);
    file_unmap(&map);
    if (safetensors && st_open(&source->st, path, err) == ERR_OK)
        (void)!read_safetensors(f, path, source, err);
    return err->code;
}

enum err_code sample_open(struct sample_file *f, const char *path, int64_t hidden, struct err *err)
{
    *f = (struct sample_file){.owned = calloc(1, sizeof(struct source))};
    if (!f->owned) return err_set(err, ERR_MEMORY, "read sample|%s|no memory", path);
    if (read_file(f, path, f->owned, err) == ERR_OK && hidden && f->sample.hidden != hidden)
        err_set(err, ERR_INPUT, "read sample|%s|states of width %lld|%lld, the model's", path,
                (long long)f->sample.hidden, (long long)hidden);
    if (err->code != ERR_OK) sample_close(f);
    return err->code;
}

void sample_close(struct sample_file *f)
{
    struct source *source = f->owned;
    if (source) {
        pt_close(&source->pt);
        st_close(&source->st);
        free(source->token);
        free(source);
    }
    *f = (struct sample_file){0};
}
