/* test_safetensors.c: every rule of safetensors.h, each broken file built in memory, each message
 * in its parts. */
#include "tests/assert_array.h"
#include "tests/support.h"

#include <stdio.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define F32_PAIR "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

/* Opens header + n data bytes and expects this error. */
static void refused(const char *header, size_t n, const char *what, const char *where,
                    const char *found, const char *wanted)
{
    struct err err = ERR_INIT;
    struct st_file f;
    size_t size;
    unsigned char *bytes = st_bytes(header, NULL, n, &size);
    assert_int_equal(st_open_memory(&f, "m.safetensors", bytes, (int64_t)size, &err), ERR_INPUT);
    st_close(&f);
    free(bytes);
    assert_err(&err, ERR_INPUT, what, where, found, wanted);
    assert_non_null(strstr(err.where, "m.safetensors"));
}

static void open__reads_tensors_by_name_with_shapes_and_bytes(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct st_file f;
    size_t size;
    unsigned char *bytes =
        st_bytes("{\"__metadata__\":{\"k\":\"v\",\"e\":\"\"},"
                 "\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[3,7]}}",
                 NULL, 7, &size);
    assert_int_equal(st_open_memory(&f, "m", bytes, (int64_t)size, &err), ERR_OK);
    assert_int_equal(f.count, 2);
    assert_string_equal(f.tensors[0].name, "b"); /* ascending by name, not by offset */
    assert_string_equal(f.tensors[1].name, "z");
    const struct st_tensor *b = st_find(&f, "b");
    assert_ptr_equal(b, &f.tensors[0]);
    assert_int_equal(b->dtype, DT_BF16);
    assert_int_equal(b->dims, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 1);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->offset, 3);
    assert_int_equal(b->bytes, 4);
    assert_memory_equal(b->data, "\x03\x04\x05\x06", 4);
    assert_memory_equal(st_find(&f, "z")->data, "\x00\x01\x02", 3);
    assert_null(st_find(&f, "c"));
    assert_string_equal(st_meta(&f, "k"), "v");
    assert_string_equal(st_meta(&f, "e"), "");
    assert_null(st_meta(&f, "missing"));
    assert_int_equal(f.metas, 2);
    st_close(&f);
    st_close(&f);
    free(bytes);
}

static void open__bears_odd_addresses_and_trailing_spaces(void **state)
{
    (void)state;
    for (int pad = 0; pad < 9; pad++) {
        struct err err = ERR_INIT;
        struct st_file f;
        char header[256];
        size_t size;
        double x[2];
        const float data[2] = {1.5f, -2};
        snprintf(header, sizeof header, "{" F32_PAIR "}%.*s", pad, "         ");
        unsigned char *bytes = st_bytes(header, data, sizeof data, &size);
        assert_int_equal(st_open_memory(&f, "m", bytes, (int64_t)size, &err), ERR_OK);
        dtype_to_f64(DT_F32, st_find(&f, "a")->data, 2, x);
        assert_f64_bits(x, ((const double[]){1.5, -2}), 1, 2);
        st_close(&f);
        free(bytes);
    }
}

static void open__takes_empty_tensors_scalars_and_empty_files(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct st_file f;
    size_t size;
    unsigned char *bytes =
        st_bytes("{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                 "\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]},"
                 "\"d\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[0,0]}}",
                 NULL, 4, &size);
    assert_int_equal(st_open_memory(&f, "m", bytes, (int64_t)size, &err), ERR_OK);
    assert_int_equal(st_find(&f, "s")->dims, 0);
    assert_int_equal(st_find(&f, "s")->count, 1);
    assert_int_equal(st_find(&f, "e")->count, 0);
    assert_int_equal(st_find(&f, "e")->bytes, 0);
    assert_non_null(st_find(&f, "e")->data);
    st_close(&f);
    free(bytes);
    bytes = st_bytes("{}", NULL, 0, &size);
    assert_int_equal(st_open_memory(&f, "m", bytes, (int64_t)size, &err), ERR_OK);
    assert_int_equal(f.count, 0);
    assert_null(st_find(&f, "a"));
    st_close(&f);
    free(bytes);
}

static void header_length__is_refused__when_past_the_file_or_the_limit(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[12];
        int64_t size;
        const char *found, *wanted;
    } rows[] = {
        {{0}, 0, "0 bytes", "8 bytes of header length"},
        {{2, 0, 0, 0, 0, 0, 0}, 7, "7 bytes", "8 bytes of header length"},
        {{5, 0, 0, 0, 0, 0, 0, 0, '{', '}'},
         10,
         "5 bytes",
         "at most 2, the rest of the file (truncated?)"},
        {{1, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{', '}'}, 10, "100000001 bytes", "at most 100000000"},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'},
         10,
         "18446744073709551615 bytes",
         "at most"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        struct st_file f;
        assert_int_equal(st_open_memory(&f, "m", rows[i].bytes, rows[i].size, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "safetensors", "m", rows[i].found, rows[i].wanted);
        st_close(&f);
    }
}

/* A hole of a file that is as long as its header says: the limit alone refuses it. */
static void header_length__is_refused__when_past_the_limit_in_a_file_that_has_it(void **state)
{
    struct err err = ERR_INIT;
    struct st_file f;
    const unsigned char start[9] = {1, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{'};
    char path[FILE_PATH];
    snprintf(path, sizeof path, "%s", folder_path(state, "m"));
    write_whole(path, start, sizeof start);
    assert_int_equal(truncate(path, 8 + 100000001), 0);
    assert_int_equal(st_open(&f, path, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "safetensors header length", "/m", "100000001 bytes",
               "at most 100000000");
    st_close(&f);
}

static void header__is_refused__when_it_is_no_json_object(void **state)
{
    (void)state;
    char line[ERR_LINE];
    refused("", 0, "safetensors header", "m.safetensors", "an empty header",
            "'{' as its first byte");
    refused(" {}", 0, "safetensors header", "m.safetensors", "another byte",
            "'{' as its first byte");
    refused("[]", 0, "safetensors header", "m.safetensors", "another byte",
            "'{' as its first byte");
    refused("{\"a\":}", 0, "parse JSON", "m.safetensors: line 1, column 6", "unexpected token",
            "valid JSON");
    refused("{}x", 0, "parse JSON", "line 1", "end of file expected", "valid JSON");
    struct err err = ERR_INIT;
    struct st_file f;
    size_t size;
    unsigned char *bytes = st_bytes("{\"a\":}", NULL, 0, &size);
    assert_int_equal(st_open_memory(&f, "m", bytes, (int64_t)size, &err), ERR_INPUT);
    assert_non_null(strstr(err_line(&err, line, sizeof line), "(safetensors header)"));
    st_close(&f);
    free(bytes);
}

static void key__is_refused__when_it_is_there_twice(void **state)
{
    (void)state;
    refused("{" F32_PAIR "," F32_PAIR "}", 8, "parse JSON", "line 1", "duplicate object key",
            "valid JSON");
    refused("{\"__metadata__\":{},\"__metadata__\":{}," F32_PAIR "}", 8, "parse JSON", NULL,
            "duplicate", NULL);
}

static void entry__is_refused__when_it_has_the_wrong_form(void **state)
{
    (void)state;
    refused("{\"a\":[]}", 0, "tensor entry", "m.safetensors: a", "an array", "an object");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8,
            "tensor entry", "m.safetensors: a", "key \"x\"", "dtype, shape, data_offsets");
    refused("{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor dtype",
            "m.safetensors: a", "F31", "one of BOOL U8");
    refused("{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor dtype", "a",
            "no text", "one of");
    refused("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor dtype", "a", "no text",
            "one of");
}

static void shape__is_refused__when_no_array_of_sizes_or_too_large(void **state)
{
    (void)state;
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "tensor shape",
            "m.safetensors: a", "an integer", "an array");
    refused("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "tensor shape", "a", "nothing",
            "an array");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
            "tensor shape", "a", "9 dimensions", "at most 8");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-2],\"data_offsets\":[0,8]}}", 8,
            "tensor shape", "a: dimension 1", "a negative number", "an integer of 0 or more");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "tensor shape",
            "a: dimension 0", "a fraction", "an integer of 0 or more");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
            8, "tensor shape", "a", "2^60 elements or more", "a shape that fits");
    /* The largest count that passes must not overflow when it is taken times the size of an
     * element. */
    refused("{\"a\":{\"dtype\":\"F64\",\"shape\":[1152921504606846976],\"data_offsets\":[0,8]}}", 8,
            "tensor s", "a", NULL, NULL);
}

static void size__is_refused__when_it_is_not_that_of_the_shape(void **state)
{
    (void)state;
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,8]}}", 8, "tensor size",
            "m.safetensors: a", "8 bytes", "24 for F32 [2, 3]");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, "tensor size",
            "a", "8 bytes", "4 for F32 []");
}

static void offsets__are_refused__when_wrong_in_form_or_outside(void **state)
{
    (void)state;
    static const struct {
        const char *offsets, *found, *wanted;
    } rows[] = {
        {"[0]", "an array", "two integers"},
        {"[0,8,9]", "an array", "two integers"},
        {"[0,8.0]", "an array", "two integers"},
        {"{}", "an object", "two integers"},
        {"[0,9]", "[0, 9)", "inside the 8 bytes of data"},
        {"[-8,0]", "[-8, 0)", "inside the 8 bytes of data"},
        {"[8,0]", "[8, 0)", "inside the 8 bytes of data"},
        {"[9223372036854775800,9223372036854775807]", "9223372036854775807)",
         "inside the 8 bytes of data"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[256];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":%s}}", rows[i].offsets);
        refused(header, 8, "tensor offsets", "m.safetensors: a", rows[i].found, rows[i].wanted);
    }
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "tensor offsets", "a", "nothing",
            "two integers");
}

static void layout__is_refused__when_tensors_overlap_or_leave_a_hole(void **state)
{
    (void)state;
    refused("{" F32_PAIR ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12,
            "tensor offsets", "m.safetensors: b", "begin 4: overlaps a", "begin 8");
    refused("{" F32_PAIR ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16,
            "tensor offsets", "m.safetensors: b", "begin 12: leaves a hole after a", "begin 8");
    refused("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "tensor offsets",
            "b", "begin 4: leaves a hole after the start", "begin 0");
    refused("{" F32_PAIR ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
            "tensor offsets", NULL, "begin 0: overlaps", "begin 8");
    refused("{" F32_PAIR ",\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}", 8,
            "tensor offsets", "e", "overlaps a", "begin 8");
    refused("{" F32_PAIR "}", 9, "file size", "m.safetensors", "9 bytes of data",
            "8, where the last tensor ends");
    refused("{}", 1, "file size", "m.safetensors", "1 bytes of data",
            "0, where the last tensor ends");
}

static void metadata__is_refused__when_it_is_no_text(void **state)
{
    (void)state;
    refused("{\"__metadata__\":[]," F32_PAIR "}", 8, "file metadata", "m.safetensors: __metadata__",
            "an array", "an object of texts");
    refused("{\"__metadata__\":{\"k\":1}," F32_PAIR "}", 8, "file metadata", "__metadata__.k",
            "an integer", "a string");
}

static void open__works_on_files_and_names_a_missing_one(void **state)
{
    struct err err = ERR_INIT;
    struct st_file f;
    const float data[2] = {3, 4};
    const struct st_part part = {"x", DT_F32, 1, {2}, data};
    write_safetensors(folder_path(state, "a.safetensors"), &part, 1, NULL, 0);
    assert_int_equal(st_open(&f, folder_path(state, "a.safetensors"), &err), ERR_OK);
    assert_non_null(strstr(f.path, "/a.safetensors"));
    assert_memory_equal(st_find(&f, "x")->data, data, 8);
    st_close(&f);
    assert_int_equal(st_open(&f, folder_path(state, "b"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "/b", "No such file", NULL);
    st_close(&f);
    write_text(folder_path(state, "c"), "");
    err_clear(&err);
    assert_int_equal(st_open(&f, folder_path(state, "c"), &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "safetensors file", "/c", "0 bytes", NULL);
    st_close(&f);
}

static void open__refuses_every_truncation_of_a_good_file(void **state)
{
    (void)state;
    size_t size;
    unsigned char *bytes =
        st_bytes("{\"__metadata__\":{\"k\":\"v\"}," F32_PAIR "}", NULL, 8, &size);
    for (size_t n = 0; n <= size; n++) {
        struct err err = ERR_INIT;
        struct st_file f;
        unsigned char *copy =
            malloc(n ? n : 1); /* exact, so that a sanitizer sees a read past the end */
        assert_non_null(copy);
        memcpy(copy, bytes, n);
        enum err_code rc = st_open_memory(&f, "m", copy, (int64_t)n, &err);
        assert_int_equal(rc, n == size ? ERR_OK : ERR_INPUT);
        assert_true(n == size || (err.what[0] && err.found[0] && err.wanted[0]));
        st_close(&f);
        free(copy);
    }
    free(bytes);
}

static void plan__round_trips_every_type_with_metadata(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct st_entry e[DT_COUNT + 2] = {0};
    char names[DT_COUNT][16];
    const struct st_meta meta[] = {{"k", "caf\xc3\xa9 \"quoted\"\n"}, {"assay.order", "[\"a\"]"}};
    for (int t = 0; t < DT_COUNT; t++) {
        snprintf(names[t], sizeof names[t], "t%d", t);
        e[t] =
            (struct st_entry){.name = names[t], .dtype = (enum dtype)t, .dims = 2, .shape = {3, t}};
    }
    e[DT_COUNT] = (struct st_entry){.name = "scalar", .dtype = DT_F64};
    e[DT_COUNT + 1] = (struct st_entry){
        .name = "deep", .dtype = DT_U8, .dims = 8, .shape = {1, 2, 1, 1, 1, 1, 1, 3}};
    char *header;
    int64_t size;
    assert_int_equal(st_plan(e, DT_COUNT + 2, meta, 2, &header, &size, &err), ERR_OK);
    assert_int_equal(size % 64, 0);
    int64_t data = e[DT_COUNT + 1].offset + e[DT_COUNT + 1].bytes;
    unsigned char *file = calloc(1, (size_t)(size + data));
    assert_non_null(file);
    memcpy(file, header, (size_t)size);
    struct st_file f;
    assert_int_equal(st_open_memory(&f, "m", file, size + data, &err), ERR_OK);
    assert_int_equal(f.count, DT_COUNT + 2);
    for (int i = 0; i < DT_COUNT + 2; i++) {
        const struct st_tensor *t = st_find(&f, e[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, e[i].dtype);
        assert_int_equal(t->dims, e[i].dims);
        assert_memory_equal(t->shape, e[i].shape, sizeof t->shape);
        assert_int_equal(t->offset, e[i].offset);
        assert_int_equal(t->bytes, e[i].bytes);
    }
    assert_string_equal(st_meta(&f, "k"), meta[0].value);
    assert_string_equal(st_meta(&f, "assay.order"), "[\"a\"]");
    st_close(&f);
    free(file);
    free(header);
}

static void plan__pads_the_header__at_every_length(void **state)
{
    (void)state;
    for (size_t n = 1; n < 140; n++) {
        struct err err = ERR_INIT;
        struct st_file f;
        char name[160], *header;
        int64_t size;
        memset(name, 'n', n);
        name[n] = '\0';
        struct st_entry e = {.name = name, .dtype = DT_F32, .dims = 1};
        assert_int_equal(st_plan(&e, 1, NULL, 0, &header, &size, &err), ERR_OK);
        assert_int_equal(size % 64, 0);
        assert_int_equal(st_open_memory(&f, "m", header, size, &err), ERR_OK);
        assert_non_null(st_find(&f, name));
        st_close(&f);
        free(header);
    }
}

static void plan__is_an_error__when_a_shape_or_name_cannot_be(void **state)
{
    (void)state;
    const struct {
        struct st_entry e;
        const char *where, *found;
    } rows[] = {
        {{.name = "a", .dtype = DT_F32, .dims = 2, .shape = {INT64_C(1) << 40, 1 << 30}},
         "a",
         "2^60"},
        {{.name = "b", .dtype = DT_F64, .dims = 1, .shape = {INT64_C(1) << 60}}, "b", "2^60"},
        {{.name = "c", .dtype = DT_F32, .dims = 1, .shape = {-1}}, "c", NULL},
        {{.name = "d", .dtype = DT_F32, .dims = ST_DIMS + 1}, "d", "9 dimensions"},
        {{.name = "e\xff", .dtype = DT_F32}, "e?", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        struct st_entry e = rows[i].e;
        char *header;
        int64_t size;
        assert_int_equal(st_plan(&e, 1, NULL, 0, &header, &size, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "plan tensor", rows[i].where, rows[i].found, NULL);
        assert_null(header);
    }
    struct err err = ERR_INIT;
    const struct st_meta meta = {"k", "\xff"};
    char *header;
    int64_t size;
    assert_int_equal(st_plan(NULL, 0, &meta, 1, &header, &size, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "write metadata", "k", "UTF-8", NULL);
}

static void plan__is_an_error__when_two_tensors_have_one_name(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct st_entry e[2] = {{.name = "a", .dtype = DT_U8}, {.name = "a", .dtype = DT_U8}};
    char *header;
    int64_t size;
    assert_int_equal(st_plan(e, 2, NULL, 0, &header, &size, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "plan tensor", "a", "twice", NULL);
}

static void shape_text__is_cut_to_its_buffer(void **state)
{
    (void)state;
    char buf[64];
    const int64_t shape[3] = {2, 3, 5};
    assert_string_equal(st_shape_text(3, shape, buf, sizeof buf), "[2, 3, 5]");
    assert_string_equal(st_shape_text(0, shape, buf, sizeof buf), "[]");
    assert_int_equal(strlen(st_shape_text(3, shape, buf, 5)), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__reads_tensors_by_name_with_shapes_and_bytes),
        cmocka_unit_test(open__bears_odd_addresses_and_trailing_spaces),
        cmocka_unit_test(open__takes_empty_tensors_scalars_and_empty_files),
        cmocka_unit_test(header_length__is_refused__when_past_the_file_or_the_limit),
        cmocka_unit_test_setup_teardown(
            header_length__is_refused__when_past_the_limit_in_a_file_that_has_it, folder_setup,
            folder_teardown),
        cmocka_unit_test(header__is_refused__when_it_is_no_json_object),
        cmocka_unit_test(key__is_refused__when_it_is_there_twice),
        cmocka_unit_test(entry__is_refused__when_it_has_the_wrong_form),
        cmocka_unit_test(shape__is_refused__when_no_array_of_sizes_or_too_large),
        cmocka_unit_test(size__is_refused__when_it_is_not_that_of_the_shape),
        cmocka_unit_test(offsets__are_refused__when_wrong_in_form_or_outside),
        cmocka_unit_test(layout__is_refused__when_tensors_overlap_or_leave_a_hole),
        cmocka_unit_test(metadata__is_refused__when_it_is_no_text),
        cmocka_unit_test_setup_teardown(open__works_on_files_and_names_a_missing_one, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(open__refuses_every_truncation_of_a_good_file),
        cmocka_unit_test(plan__round_trips_every_type_with_metadata),
        cmocka_unit_test(plan__pads_the_header__at_every_length),
        cmocka_unit_test(plan__is_an_error__when_a_shape_or_name_cannot_be),
        cmocka_unit_test(plan__is_an_error__when_two_tensors_have_one_name),
        cmocka_unit_test(shape_text__is_cut_to_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
