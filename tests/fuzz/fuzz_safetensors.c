/* fuzz_safetensors.c: any bytes either open, and then every promise of safetensors.h holds, or give
 * an error with a text. What opens is planned again and must open again. */
#include "core/check.h"
#include "core/safetensors.h"
#include "tests/fuzz/st_repair.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(const struct st_file *f, const struct st_tensor *t, const uint8_t *end)
{
    const uint8_t *first = t->data;
    CHECK(st_find(f, t->name) == t);
    CHECK(t->bytes == t->count * dtype_size(t->dtype));
    CHECK(t->bytes == 0 || (first >= f->map.data && first + t->bytes <= end));
    int64_t n = t->count < 64 ? t->count : 64;
    double x[64];
    if (dtype_is_float(t->dtype) || dtype_is_int(t->dtype)) dtype_to_f64(t->dtype, t->data, n, x);
}

static void plan_again(const struct st_file *f)
{
    struct err err = ERR_INIT;
    struct st_entry *e = calloc((size_t)f->count + 1, sizeof *e);
    char *header = NULL;
    int64_t size = 0;
    CHECK(e);
    for (int64_t i = 0; i < f->count; i++) {
        e[i] = (struct st_entry){
            .name = f->tensors[i].name, .dtype = f->tensors[i].dtype, .dims = f->tensors[i].dims};
        memcpy(e[i].shape, f->tensors[i].shape, sizeof e[i].shape);
    }
    CHECK(st_plan(e, f->count, f->meta, f->metas, &header, &size, &err) == ERR_OK);
    int64_t bytes = f->count ? e[f->count - 1].offset + e[f->count - 1].bytes : 0;
    if (bytes < 1 << 20) {
        struct st_file again;
        char *whole = calloc(1, (size_t)(size + bytes));
        CHECK(whole);
        memcpy(whole, header, (size_t)size);
        CHECK(st_open_memory(&again, "again", whole, size + bytes, &err) == ERR_OK);
        CHECK(again.count == f->count && again.metas == f->metas);
        st_close(&again);
        free(whole);
    }
    free(header);
    free(e);
}

static void open_and_check(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct st_file f;
    enum err_code rc = st_open_memory(&f, "fuzz", data, (int64_t)size, &err);
    CHECK(rc == err.code);
    if (rc == ERR_OK) {
        for (int64_t i = 0; i < f.count; i++) check_tensor(&f, &f.tensors[i], data + size);
        plan_again(&f);
    } else {
        CHECK(err.what[0] && err.where[0]);
    }
    st_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *repaired = st_repaired(data, size);
    open_and_check(data, size);
    if (repaired) open_and_check(repaired, size);
    free(repaired);
    return 0;
}
