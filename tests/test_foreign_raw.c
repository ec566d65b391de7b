/* test_foreign_raw.c: raw files are what their sidecar says, and refused where they cannot be. */
#include "harness/foreign.h"
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "assay-raw: 1\nengine: mine 3\ntensors:\n"

static void open_ok(struct dump *d, const char *path)
{
    struct err err = ERR_INIT;
    (void)!foreign_open(d, path, NULL, &err);
    assert_ok(&err);
}

static double at(const struct dump *d, const char *name, int64_t i)
{
    const struct dump_tap *t = dump_find(d, name);
    double x = 0;
    assert_non_null(t);
    dtype_to_f64(t->tensor->dtype, (const char *)t->tensor->data + i * dtype_size(t->tensor->dtype),
                 1, &x);
    return x;
}

/* x.raw: six float32 0 .. 5; y.raw: eight bytes that are not for us, then bf16 1.5, -2. */
static void write_files(void **state)
{
    const float x[] = {0, 1, 2, 3, 4, 5};
    const unsigned char y[] = {9, 9, 9, 9, 9, 9, 9, 9, 0xC0, 0x3F, 0x00, 0xC0};
    write_whole(folder_path(state, "x.raw"), x, sizeof x);
    write_whole(folder_path(state, "y.raw"), y, sizeof y);
}

static void open__reads_types_orders_and_offsets(void **state)
{
    struct dump d;
    const char *path = folder_path(state, "dump.yaml");
    write_files(state);
    write_text(path,
               HEAD "  - {name: embed, file: x.raw, dtype: f32, shape: [2, 3]}\n"
                    "  - {name: final_norm, file: x.raw, dtype: F32, shape: [2, 3], order: F}\n"
                    "  - {name: logits, file: y.raw, dtype: bf16, shape: [2, 1], offset: 8}\n"
                    "  - {name: part, file: x.raw, dtype: f32, shape: [2], offset: 4}\n");
    open_ok(&d, path);
    assert_string_equal(d.engine, "mine 3");
    for (int i = 0; i < 6; i++) assert_true(at(&d, "embed", i) == i);
    /* Columns are closest: [0 2 4; 1 3 5]. */
    assert_true(at(&d, "final_norm", 1) == 2 && at(&d, "final_norm", 3) == 1);
    assert_true(at(&d, "logits", 0) == 1.5 && at(&d, "logits", 1) == -2);
    assert_true(at(&d, "part", 0) == 1 && at(&d, "part", 1) == 2);
    dump_close(&d);
}

static void open__takes_json__and_the_raw_file_s_own_name(void **state)
{
    struct dump d;
    write_files(state);
    write_text(folder_path(state, "x.raw.json"),
               "{\"assay-raw\": \"1\", \"tensors\": [{\"name\": \"embed\", \"file\": \"x.raw\","
               " \"dtype\": \"f32\", \"shape\": [\"2\", \"3\"], \"order\": \"C\"}]}");
    open_ok(&d, folder_path(state, "x.raw"));
    assert_true(at(&d, "embed", 5) == 5);
    dump_close(&d);
    open_ok(&d, folder_path(state, "x.raw.json"));
    dump_close(&d);
    cli_refuses(state, ((struct refusal){2, "raw files", "y.raw", "no sidecar", ".json"}), "diff",
                folder_path(state, "y.raw"), folder_path(state, "y.raw"));
}

static void open__refuses__with_line_and_column(void **state)
{
    static const struct {
        const char *text, *where, *found;
    } cases[] = {
        {"tensors: []\n", "dump.yaml:1:1", "no assay-raw"},
        {"assay-raw: 2\n", "dump.yaml:1:12", "2"},
        {"assay-raw: 1\n", "dump.yaml:1", "no list of tensors"},
        {"assay-raw: 1\ntensors: []\n", "dump.yaml:2", "no list of tensors"},
        {"assay-raw: 1\nmore: 2\n", "dump.yaml:2:1", "more"},
        {"- 1\n", "dump.yaml:1", "a list"},
        {HEAD "  - 7\n", "dump.yaml:4", "a text"},
        {HEAD "  - {file: x.raw, dtype: f32, shape: [6]}\n", "dump.yaml:4", "without one"},
        {HEAD "  - {name: a, dtype: f32, shape: [6]}\n", "dump.yaml:4", "without one"},
        {HEAD "  - {name: a, file: x.raw, shape: [6]}\n", "dump.yaml:4", "without one"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32}\n", "dump.yaml:4", "without one"},
        {HEAD "  - {name: a, file: x.raw, dtype: f31, shape: [6]}\n", "dump.yaml:4", "f31"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: 6}\n", "dump.yaml:4", "a text"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [-6]}\n", "dump.yaml:4", "-6"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [6], order: K}\n", "dump.yaml:4", "K"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [6], offset: -1}\n", "dump.yaml:4",
         "-1"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [6], swap: 1}\n", "dump.yaml:4",
         "swap"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [5]}\n", "dump.yaml:4",
         "a file of 24 bytes"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [7]}\n", "dump.yaml:4",
         "a file of 24 bytes"},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [6], offset: 1}\n", "dump.yaml:4",
         "a file of 24 bytes"},
        {HEAD "  - {name: a, file: ../x.raw, dtype: f32, shape: [6]}\n", "dump.yaml:4", "../x.raw"},
        {HEAD "  - {name: a, file: z.raw, dtype: f32, shape: [6]}\n", "z.raw", NULL},
        {HEAD "  - {name: a, file: x.raw, dtype: f32, shape: [99999999999, 99999999999]}\n",
         "dump.yaml:4", "2^60"},
    };
    write_files(state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = ERR_INIT;
        struct dump d;
        const char *path = folder_path(state, "dump.yaml");
        write_text(path, cases[i].text);
        if (foreign_open(&d, path, NULL, &err) == ERR_OK) fail_msg("read: %s", cases[i].text);
        dump_close(&d);
        assert_err(&err, ERR_INPUT, NULL, cases[i].where, cases[i].found, NULL);
    }
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(open__reads_types_orders_and_offsets),
        in_folder(open__takes_json__and_the_raw_file_s_own_name),
        in_folder(open__refuses__with_line_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
