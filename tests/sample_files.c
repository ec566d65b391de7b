/* sample_files.c: see sample_files.h. */
#include "tests/sample_files.h"

#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 256 };
static struct st_tensor *kept[KEPT];
static int kept_count;

static struct st_tensor *make(enum dtype dtype, int dims, const int64_t *shape)
{
    struct st_tensor *t = calloc(1, sizeof *t);
    assert_true(t && kept_count < KEPT);
    kept[kept_count++] = t;
    *t = (struct st_tensor){.name = "", .dtype = dtype, .dims = dims, .count = 1};
    for (int i = 0; i < dims; i++) {
        t->shape[i] = shape[i];
        t->count *= shape[i];
    }
    t->bytes = t->count * dtype_size(dtype);
    t->data = calloc((size_t)t->bytes + 1, 1);
    assert_non_null(t->data);
    return t;
}

struct pt_value zeros(enum dtype dtype, int dims, const int64_t *shape)
{
    return (struct pt_value){.kind = PT_TENSOR, .tensor = make(dtype, dims, shape)};
}

struct pt_value counting(int64_t count)
{
    struct st_tensor *t = make(DT_I64, 1, &count);
    for (int64_t i = 0; i < count; i++) memcpy((char *)(uintptr_t)t->data + 8 * i, &i, sizeof i);
    return (struct pt_value){.kind = PT_TENSOR, .tensor = t};
}

void sample_files_free(void)
{
    while (kept_count > 0) {
        kept_count--;
        free((void *)(uintptr_t)kept[kept_count]->data);
        free(kept[kept_count]);
    }
}

void dict_add(struct dict *d, const char *key, struct pt_value value)
{
    assert_true(d->count < 8);
    d->keys[d->count] =
        (struct pt_value){.kind = PT_TEXT, .text = key, .count = (int64_t)strlen(key)};
    d->items[d->count++] = value;
}

void pt_dict_set(struct dict *d, const char *key, const struct pt_value *value)
{
    int64_t i = 0;
    while (i < d->count && strcmp(d->keys[i].text, key) != 0) i++;
    assert_true(i < d->count);
    if (value) {
        d->items[i] = *value;
        return;
    }
    d->count--;
    d->keys[i] = d->keys[d->count];
    d->items[i] = d->items[d->count];
}

void dict_write(const struct dict *d, const char *path)
{
    struct err err = ERR_INIT;
    const struct pt_value root = {.kind = PT_DICT,
                                  .count = d->count,
                                  .keys = (struct pt_value *)(uintptr_t)d->keys,
                                  .items = (struct pt_value *)(uintptr_t)d->items};
    (void)!pt_write(path, &root, &err);
    assert_ok(&err);
}
