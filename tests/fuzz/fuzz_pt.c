/* fuzz_pt.c: any bytes are a torch file whose values can be walked, or an error with a text. A
 * mutated archive fails at its checksums, so the input is also taken as the pickle of a whole
 * archive, with two storages. */
#include "core/check.h"
#include "core/pt.h"
#include "tests/fuzz/zip_wrap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(const struct st_tensor *t)
{
    double x[64];
    int64_t n = t->count < 64 ? t->count : 64;
    CHECK(t->bytes == t->count * dtype_size(t->dtype) && t->dims <= ST_DIMS && t->data);
    for (int64_t i = 0; i < t->bytes; i += 61) CHECK(((const volatile char *)t->data)[i] || true);
    if (t->dtype != DT_BOOL) dtype_to_f64(t->dtype, t->data, n, x);
}

static void check_value(const struct pt_value *v, int depth)
{
    CHECK(depth <= 64);
    switch (v->kind) {
    case PT_TEXT:
        CHECK(v->count >= 0 && v->text[v->count] == '\0');
        break;
    case PT_TENSOR:
        check_tensor(v->tensor);
        break;
    case PT_LIST:
    case PT_TUPLE:
    case PT_DICT:
        for (int64_t i = 0; i < v->count; i++) {
            check_value(&v->items[i], depth + 1);
            if (v->kind != PT_DICT) continue;
            CHECK(v->keys[i].kind == PT_TEXT || v->keys[i].kind == PT_INT);
            check_value(&v->keys[i], depth + 1);
        }
        break;
    default:
        CHECK(v->kind >= PT_NONE && v->kind <= PT_FLOAT);
    }
}

static void open_and_check(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct pt_file f;
    enum err_code rc = pt_open_memory(&f, "fuzz", data, (int64_t)size, &err);
    CHECK(rc == err.code);
    if (rc == ERR_OK) {
        check_value(&f.root, 0);
    } else {
        CHECK(err.what[0] && err.where[0] && err.found[0]);
    }
    pt_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char storage[96] = "\1\2\3\4\5\6\7\10";
    const struct zip_part parts[] = {{"archive/data.pkl", data, size, 0},
                                     {"archive/data/0", storage, sizeof storage, 0},
                                     {"archive/data/1", storage, 8, 0}};
    size_t whole;
    unsigned char *archive = zip_wrap(parts, 3, &whole);
    open_and_check(data, size);
    open_and_check(archive, whole);
    free(archive);
    return 0;
}
