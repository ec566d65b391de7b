/* test_npy.c: arrays that numpy wrote are read, and written back to the same bytes; what is no
 * plain array is refused. */
#include "core/npy.h"

#include "tests/fuzz/zip_wrap.h"
#include "tests/support.h"

#include <stdio.h>

static const char *fixture(const char *name)
{
    static char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/pt/%s", ASSAY_SOURCE_DIR, name);
    return path;
}

static void open_fixture(struct npy_file *f, const char *name)
{
    struct err err = ERR_INIT;
    (void)!npy_open(f, fixture(name), &err);
    assert_ok(&err);
}

static const struct {
    const char *name;
    enum dtype dtype;
} types[] = {{"b1.npy", DT_BOOL}, {"i1.npy", DT_I8},  {"u1.npy", DT_U8},  {"i2.npy", DT_I16},
             {"i4.npy", DT_I32},  {"i8.npy", DT_I64}, {"f2.npy", DT_F16}, {"f4.npy", DT_F32},
             {"f8.npy", DT_F64},  {"u2.npy", DT_U16}, {"u4.npy", DT_U32}, {"u8.npy", DT_U64}};
enum { TYPES = sizeof types / sizeof types[0] };

static void open__reads_every_type(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        struct npy_file f;
        open_fixture(&f, types[i].name);
        assert_int_equal(f.count, 1);
        const struct st_tensor *t = &f.tensors[0];
        assert_string_equal(t->name, "");
        assert_int_equal(t->dtype, types[i].dtype);
        assert_int_equal(t->dims, 2);
        assert_int_equal(t->shape[0], 2);
        assert_int_equal(t->shape[1], 3);
        assert_int_equal(t->bytes, 6 * dtype_size(t->dtype));
        for (int64_t k = 0; k < 6; k++) {
            double x = 0;
            if (dtype_is_float(t->dtype))
                dtype_to_f64(t->dtype, (const char *)t->data + k * dtype_size(t->dtype), 1, &x);
            else
                x = (double)dtype_int_at(t->dtype, t->data, k);
            assert_true(x == (double)(t->dtype == DT_BOOL ? k % 3 > 0 : k % 3));
        }
        npy_close(&f);
    }
}

static void open__turns_fortran_order_into_c_order(void **state)
{
    (void)state;
    struct npy_file f;
    open_fixture(&f, "fortran.npy");
    assert_int_equal(f.tensors[0].dims, 3);
    for (int32_t i = 0; i < 24; i++)
        assert_int_equal(dtype_int_at(DT_I32, f.tensors[0].data, i), i);
    npy_close(&f);
}

static void open__turns_the_other_byte_order(void **state)
{
    (void)state;
    struct npy_file f;
    open_fixture(&f, "big_endian.npy");
    assert_int_equal(f.tensors[0].dtype, DT_I32);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(dtype_int_at(DT_I32, f.tensors[0].data, i), i);
    npy_close(&f);
    open_fixture(&f, "big_fortran.npy");
    assert_int_equal(f.tensors[0].dtype, DT_F64);
    for (int64_t i = 0; i < 6; i++) {
        double x;
        dtype_to_f64(DT_F64, (const char *)f.tensors[0].data + 8 * i, 1, &x);
        assert_true(x == (double)i);
    }
    npy_close(&f);
}

/* What ml_dtypes saves as void, and what others save as uint16. */
static void open_as__reads_bfloat16__as_void_and_as_uint16(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype as, dtype;
        double first, second;
    } cases[] = {{"void_bf16.npy", DT_BF16, DT_BF16, 1.5, -2},
                 {"u2_bf16.npy", DT_BF16, DT_BF16, 1.5, -2},
                 {"u2_bf16.npy", DT_COUNT, DT_U16, 0x3FC0, 0xC000},
                 {"u2_bf16.npy", DT_F32, DT_U16, 0x3FC0, 0xC000},
                 {"f4.npy", DT_BF16, DT_F32, 0, 1},
                 {"void_e4m3.npy", DT_F8_E4M3, DT_F8_E4M3, 1.5, -2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        struct npy_file f;
        double x[2];
        (void)!npy_open_as(&f, fixture(cases[i].name), cases[i].as, &err);
        assert_ok(&err);
        assert_int_equal(f.tensors[0].dtype, cases[i].dtype);
        dtype_to_f64(f.tensors[0].dtype, f.tensors[0].data, 2, x);
        assert_true(x[0] == cases[i].first && x[1] == cases[i].second);
        npy_close(&f);
    }
}

static void open__refuses_void__with_the_option_that_says_what_it_is(void **state)
{
    (void)state;
    static const enum dtype wrong[] = {DT_COUNT, DT_F32, DT_F8_E4M3};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct err err = ERR_INIT;
        struct npy_file f;
        assert_int_equal(npy_open_as(&f, fixture("void_bf16.npy"), wrong[i], &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "read numpy array", "void_bf16.npy", "type <V2",
                   "--dtype bf16");
    }
}

static void open__reads_archives__packed_or_not(void **state)
{
    (void)state;
    static const char *const names[] = {"plain.npz", "packed.npz"};
    for (int i = 0; i < 2; i++) {
        struct npy_file f;
        open_fixture(&f, names[i]);
        assert_int_equal(f.count, 2);
        assert_string_equal(f.tensors[0].name, "a");
        assert_string_equal(f.tensors[1].name, "b");
        assert_int_equal(dtype_int_at(DT_I64, f.tensors[0].data, 2), 2);
        assert_int_equal(f.tensors[1].dims, 2);
        npy_close(&f);
        npy_close(&f);
    }
}

static void write__gives_the_bytes_of_numpy(void **state)
{
    static const char *const more[] = {"scalar.npy", "vector.npy"};
    for (int i = 0; i < TYPES + 2; i++) {
        struct err err = ERR_INIT;
        struct npy_file f;
        size_t want_size, size;
        const char *name = i < TYPES ? types[i].name : more[i - TYPES],
                   *path = folder_path(state, name);
        open_fixture(&f, name);
        assert_int_equal(npy_write(path, &f.tensors[0], &err), ERR_OK);
        npy_close(&f);
        char *want = read_whole(fixture(name), &want_size), *got = read_whole(path, &size);
        assert_int_equal(size, want_size);
        assert_memory_equal(got, want, size);
        free(want);
        free(got);
    }
}

static void write__is_refused__for_types_that_numpy_lacks(void **state)
{
    struct err err = ERR_INIT;
    const struct st_tensor t = {
        .dtype = DT_BF16, .dims = 1, .shape = {1}, .count = 1, .bytes = 2, .data = "ab"};
    assert_int_equal(npy_write(folder_path(state, "a.npy"), &t, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write numpy array", "a.npy", "BF16", "F32");
    err_clear(&err);
    const struct st_tensor ok = {
        .dtype = DT_I16, .dims = 1, .shape = {1}, .count = 1, .bytes = 2, .data = "ab"};
    assert_int_equal(npy_write(folder_path(state, "none/a.npy"), &ok, &err), ERR_INPUT);
    assert_int_equal(folder_count(*state), 0);
}

/* ---- refused ---- */

/* A file of this version and header, and n zero bytes. The caller's. */
static char *npy_bytes(int version, const char *header, size_t n, size_t *size)
{
    size_t length = strlen(header), head = version == 1 ? 10 : 12;
    char *b = calloc(1, head + length + n + 1);
    assert_non_null(b);
    memcpy(b, "\x93NUMPY", 6);
    b[6] = (char)version;
    b[8] = (char)(length & 255);
    b[9] = (char)(length >> 8);
    memcpy(b + head, header, length);
    *size = head + length + n;
    return b;
}

static void refused_bytes(const char *bytes, size_t size, const char *found)
{
    struct err err = ERR_INIT;
    struct npy_file f;
    char *copy = malloc(size + !size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    if (npy_open_memory(&f, "a.npy", copy, (int64_t)size, DT_COUNT, &err) != ERR_INPUT)
        fail_msg("was read, not refused: %s", found ? found : "a part");
    npy_close(&f);
    free(copy);
    assert_err(&err, ERR_INPUT, "read numpy array", "a.npy", found, NULL);
    assert_true(err.wanted[0] != '\0');
}

static void refused(const char *header, size_t n, const char *found)
{
    size_t size;
    char *bytes = npy_bytes(1, header, n, &size);
    refused_bytes(bytes, size, found);
    free(bytes);
}

static void open__takes_versions_2_and_3_and_keys_in_any_order(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++) {
        struct err err = ERR_INIT;
        struct npy_file f;
        size_t size;
        char *bytes = npy_bytes(
            version, "{'shape': (2, 1), 'fortran_order': False, 'descr': '<f4'}\n", 8, &size);
        assert_int_equal(npy_open_memory(&f, "a.npy", bytes, (int64_t)size, DT_COUNT, &err),
                         ERR_OK);
        assert_int_equal(f.tensors[0].count, 2);
        npy_close(&f);
        free(bytes);
    }
}

static void open__refuses__what_is_no_plain_array(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct npy_file f;
#define HEADER(descr, order, shape)                                                                \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"
    refused(HEADER("'=i4'", "False", "(2,)"), 8, "type =i4");
    refused(HEADER("'>b1'", "False", "(2,)"), 2, "type >b1");
    refused(HEADER("''", "False", "(2,)"), 2, "type ");
    refused(HEADER("'|O'", "False", "(1,)"), 8, "type |O");
    refused(HEADER("'<c8'", "False", "(1,)"), 8, "type <c8");
    refused(HEADER("'|V2'", "False", "(1,)"), 2, "type |V2");
    refused(HEADER("[('a', '<f4')]", "False", "()"), 4, "a record type");
    refused(HEADER("'<f4'", "None", "(1,)"), 4, "another fortran_order");
    refused(HEADER("'<f4'", "False", "[1]"), 4, "a shape without (");
    refused(HEADER("'<f4'", "False", "(-1,)"), 4, "another shape");
    refused(HEADER("'<f4'", "False", "(1 2)"), 4, "a shape without an end");
    refused(HEADER("'<f4'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4, "another shape");
    refused(HEADER("'<f4'", "False", "(99999999999999999999,)"), 4, "a dimension of 2^63");
    refused(HEADER("'<f4'", "False", "(9999999999, 9999999999)"), 4, "4 bytes of data");
    refused(HEADER("'<f4'", "False", "(2,)"), 7, "7 bytes of data");
    refused(HEADER("'<f4'", "False", "(2,)"), 9, "9 bytes of data");
    refused("{'descr': '<f4', 'descr': '<f4', 'shape': (), }", 4, "another key, or one twice");
    refused("{'descr': '<f4', 'shape': (), }", 4, "a key too few");
    refused("{'descr': '<f4', 'shape': (), 'more': 1}", 4, "another key");
    refused("{'descr': '<f4", 4, "a descr without an end");
    refused("{'descr': '<f4' 'shape': ()}", 4, "a header without an end");
    refused("['descr']", 4, "a header without {");
    refused_bytes("", 0, "another file");
    refused_bytes("\x93NUMPY\4\0\0\0", 10, "another format version");
    refused_bytes("\x93NUMPY\2\0\0\0\0", 11, "fewer bytes");
    assert_int_equal(npy_open(&f, fixture("none.npy"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "none.npy", NULL, NULL);
}

static void open__refuses__every_file_that_was_cut(void **state)
{
    (void)state;
    static const char *const names[] = {"f4.npy", "fortran.npy", "packed.npz"};
    for (int i = 0; i < 3; i++) {
        size_t size;
        char *bytes = read_whole(fixture(names[i]), &size);
        for (size_t n = 0; n < size; n++) {
            struct err err = ERR_INIT;
            struct npy_file f;
            char *copy = malloc(n + !n);
            assert_non_null(copy);
            memcpy(copy, bytes, n);
            assert_int_equal(npy_open_memory(&f, "a", copy, (int64_t)n, DT_COUNT, &err), ERR_INPUT);
            assert_true(err.what[0] && err.where[0] && err.found[0]);
            npy_close(&f);
            free(copy);
        }
        free(bytes);
    }
}

static void open__names_the_member__in_an_archive(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct npy_file f;
    size_t size;
    const struct zip_part parts[] = {{"x", "text", 4, 0}};
    unsigned char *bytes = zip_wrap(parts, 1, &size);
    assert_int_equal(npy_open_memory(&f, "a.npz", bytes, (int64_t)size, DT_COUNT, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read numpy array", "a.npz: x", "another file", NULL);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__reads_every_type),
        cmocka_unit_test(open__turns_fortran_order_into_c_order),
        cmocka_unit_test(open__turns_the_other_byte_order),
        cmocka_unit_test(open_as__reads_bfloat16__as_void_and_as_uint16),
        cmocka_unit_test(open__refuses_void__with_the_option_that_says_what_it_is),
        cmocka_unit_test(open__reads_archives__packed_or_not),
        cmocka_unit_test_setup_teardown(write__gives_the_bytes_of_numpy, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(write__is_refused__for_types_that_numpy_lacks, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(open__takes_versions_2_and_3_and_keys_in_any_order),
        cmocka_unit_test(open__refuses__what_is_no_plain_array),
        cmocka_unit_test(open__refuses__every_file_that_was_cut),
        cmocka_unit_test(open__names_the_member__in_an_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
