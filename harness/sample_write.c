/* sample_write.c: names of formats and files, and the writer of sample.h. */
#include "harness/sample.h"

#include "core/check.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Samples of one specforge folder. */
enum { BLOCK = 2000 };

const char *sample_format_name(int format)
{
    static const char *const names[SAMPLE_FORMATS] = {"speculators-v0.3", "vllm", "specforge"};
    return format >= 0 && format < SAMPLE_FORMATS ? names[format] : NULL;
}

enum err_code sample_path(enum sample_format f, const char *folder, int64_t n, char *out,
                          struct err *err)
{
    char name[128];
    long long i = n, first = n / BLOCK * BLOCK;
    if (f == SAMPLE_SPECFORGE) {
        snprintf(name, sizeof name, "rows_%lld-%lld/data_%lld.ckpt", first, first + BLOCK, i);
    } else {
        snprintf(name, sizeof name, f == SAMPLE_V03 ? "data_%lld.pt" : "hs_%lld.safetensors", i);
    }
    return file_join(folder, name, out, err);
}

/* States first .. first + n - 1 side by side, [rows][n][hidden]: where they lie so already the
 * place itself, else a copy that goes to *copy (free()). NULL: no memory. */
static const void *gather(const struct sample *s, int first, int n, void **copy, struct err *err)
{
    int64_t size = dtype_size(s->dtype), row = s->hidden * size;
    bool placed = true;
    *copy = NULL;
    for (int k = 0; k < n; k++)
        placed = placed && s->stride[first + k] == n * s->hidden &&
                 s->state[first + k] == (const char *)s->state[first] + k * row;
    if (placed) return s->state[first];
    char *out = *copy = malloc((size_t)(s->rows * n * row));
    if (!out) {
        err_set(err, ERR_MEMORY, "write sample|%lld rows of states|no memory", (long long)s->rows);
        return NULL;
    }
    for (int64_t r = 0; r < s->rows; r++) {
        for (int k = 0; k < n; k++)
            memcpy(out + (r * n + k) * row,
                   (const char *)s->state[first + k] + r * s->stride[first + k] * size,
                   (size_t)row);
    }
    return out;
}

static struct st_tensor ids_of(const struct sample *s, const int64_t *ids)
{
    return (struct st_tensor){.name = "",
                              .dtype = DT_I64,
                              .dims = 1,
                              .shape = {s->rows},
                              .count = s->rows,
                              .bytes = s->rows * 8,
                              .data = ids};
}

/* [rows, n * hidden], or with a leading 1. Its copy, where one is made, goes to *copy. */
static enum err_code states_of(const struct sample *s, int first, int n, bool batched,
                               struct st_tensor *out, void **copy, struct err *err)
{
    const void *data = gather(s, first, n, copy, err);
    *out = (struct st_tensor){.name = "",
                              .dtype = s->dtype,
                              .dims = 2 + batched,
                              .count = s->rows * n * s->hidden,
                              .bytes = s->rows * n * s->hidden * dtype_size(s->dtype),
                              .data = data};
    out->shape[0] = 1;
    out->shape[batched] = s->rows;
    out->shape[batched + 1] = n * s->hidden;
    return data ? ERR_OK : err->code;
}

static struct pt_value text_value(const char *text)
{
    return (struct pt_value){.kind = PT_TEXT, .text = text, .count = (int64_t)strlen(text)};
}

static struct pt_value tensor_value(const struct st_tensor *t)
{
    return (struct pt_value){.kind = PT_TENSOR, .tensor = t};
}

static enum err_code write_v03(const char *path, const struct sample *s, struct err *err)
{
    struct st_tensor ids = ids_of(s, s->token), mask = ids_of(s, s->mask), state[SAMPLE_STATES];
    struct pt_value item[SAMPLE_STATES];
    void *copy[SAMPLE_STATES] = {NULL};
    for (int i = 0; i < s->states; i++) {
        if (states_of(s, i, 1, false, &state[i], &copy[i], err) != ERR_OK) break;
        item[i] = tensor_value(&state[i]);
    }
    struct pt_value keys[3] = {text_value("input_ids"), text_value("hidden_states"),
                               text_value("loss_mask")};
    struct pt_value items[3] = {tensor_value(&ids),
                                {.kind = PT_LIST, .count = s->states, .items = item},
                                tensor_value(&mask)};
    struct pt_value root = {.kind = PT_DICT, .count = 3, .keys = keys, .items = items};
    if (err->code == ERR_OK) (void)!pt_write(path, &root, err);
    for (int i = 0; i < SAMPLE_STATES; i++) free(copy[i]);
    return err->code;
}

static enum err_code write_specforge(const char *path, const struct sample *s, struct err *err)
{
    struct st_tensor ids = ids_of(s, s->token), mask = ids_of(s, s->mask), last, aux;
    void *copy[2] = {NULL, NULL};
    char folder[FILE_PATH];
    if (s->states < 2)
        return err_set(err, ERR_INPUT,
                       "write sample|%s|one state|two or more: specforge keeps the last one apart",
                       path);
    struct pt_value keys[4] = {text_value("input_ids"), text_value("loss_mask"),
                               text_value("hidden_state"), text_value("aux_hidden_state")};
    struct pt_value items[4] = {tensor_value(&ids), tensor_value(&mask), tensor_value(&last),
                                tensor_value(&aux)};
    struct pt_value root = {.kind = PT_DICT, .count = 4, .keys = keys, .items = items};
    snprintf(folder, sizeof folder, "%s", path);
    if (file_make_folder(dirname(folder), err) == ERR_OK &&
        states_of(s, s->states - 1, 1, true, &last, &copy[0], err) == ERR_OK &&
        states_of(s, 0, s->states - 1, true, &aux, &copy[1], err) == ERR_OK)
        (void)!pt_write(path, &root, err);
    free(copy[0]);
    free(copy[1]);
    return err->code;
}

static enum err_code write_vllm(const char *path, const struct sample *s, struct err *err)
{
    struct st_entry entries[2] = {
        {.name = "token_ids", .dtype = DT_I64, .dims = 1, .shape = {s->rows}},
        {.name = "hidden_states",
         .dtype = s->dtype,
         .dims = 3,
         .shape = {s->rows, s->states, s->hidden}}};
    struct file_out out = FILE_OUT_INIT;
    void *copy = NULL;
    char *header = NULL;
    int64_t size;
    const void *states = gather(s, 0, s->states, &copy, err);
    if (states && st_plan(entries, 2, NULL, 0, &header, &size, err) == ERR_OK &&
        file_out_open(&out, path, err) == ERR_OK &&
        file_out_write(&out, header, size, err) == ERR_OK &&
        file_out_write(&out, s->token, entries[0].bytes, err) == ERR_OK &&
        file_out_write(&out, states, entries[1].bytes, err) == ERR_OK)
        (void)!file_out_commit(&out, err);
    file_out_abandon(&out);
    free(header);
    free(copy);
    return err->code;
}

enum err_code sample_write(enum sample_format f, const char *path, const struct sample *s,
                           struct err *err)
{
    CHECK(s->rows > 0 && s->hidden > 0 && s->states > 0 && s->states <= SAMPLE_STATES);
    CHECK(s->token && (s->mask || f == SAMPLE_VLLM));
    if (f == SAMPLE_VLLM) return write_vllm(path, s, err);
    return f == SAMPLE_V03 ? write_v03(path, s, err) : write_specforge(path, s, err);
}
