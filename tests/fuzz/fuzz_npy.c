/* fuzz_npy.c: any bytes are arrays whose elements are there, or an error with a text. A mutated
 * archive fails at its checksums, so the input is also taken as the member of one. */
#include "core/check.h"
#include "core/npy.h"
#include "tests/fuzz/zip_wrap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_and_check(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct npy_file f;
    enum err_code rc =
        npy_open_memory(&f, "fuzz", data, (int64_t)size, size % 2 ? DT_BF16 : DT_COUNT, &err);
    CHECK(rc == err.code);
    CHECK(rc == ERR_OK || (err.what[0] && err.where[0] && err.found[0]));
    for (int64_t i = 0; i < f.count; i++) {
        const struct st_tensor *t = &f.tensors[i];
        double x[64];
        CHECK(t->name && t->data && t->bytes == t->count * dtype_size(t->dtype));
        if (t->dtype != DT_BOOL) dtype_to_f64(t->dtype, t->data, t->count < 64 ? t->count : 64, x);
    }
    npy_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct zip_part parts[] = {{"a.npy", data, size, 0}};
    size_t whole;
    unsigned char *archive = zip_wrap(parts, 1, &whole);
    open_and_check(data, size);
    open_and_check(archive, whole);
    free(archive);
    return 0;
}
