/* test_sample_set.c: folders of samples, what lies beside them, and the vocabulary maps. */
#include "harness/sample.h"

#include "tests/sample_files.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *fixture(const char *name)
{
    static char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/samples%s", ASSAY_SOURCE_DIR, name);
    return path;
}

static void open_set(struct sample_set *s, const char *path)
{
    struct err err = ERR_INIT;
    (void)!sample_set_open(s, path, &err);
    assert_ok(&err);
}

static void open__lists_a_trainers_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum sample_format format;
        int64_t count, first;
    } rows[] = {{"/speculators-v03", SAMPLE_V03, 2, 0},
                {"/vllm", SAMPLE_VLLM, 2, 0},
                {"/specforge", SAMPLE_SPECFORGE, 2, 0},
                {"/specforge/rows_0-2000", SAMPLE_SPECFORGE, 2, 0},
                {"/speculators-v03/data_1.pt", SAMPLE_V03, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sample_set s;
        open_set(&s, fixture(rows[i].path));
        assert_int_equal(s.format, rows[i].format);
        assert_int_equal(s.count, rows[i].count);
        for (int64_t k = 0; k < s.count; k++) {
            struct err err = ERR_INIT;
            struct sample_file f;
            assert_int_equal(s.entries[k].n, rows[i].first + k);
            assert_int_equal(sample_open(&f, s.entries[k].path, 256, &err), ERR_OK);
            assert_int_equal(f.format, s.format);
            sample_close(&f);
        }
        assert_true(sample_is(fixture(rows[i].path)));
        sample_set_close(&s);
        sample_set_close(&s);
    }
}

static void open__reads_what_speculators_puts_beside(void **state)
{
    (void)state;
    struct sample_set s;
    open_set(&s, fixture("/speculators-v03"));
    assert_int_equal(s.layer_count, 4);
    assert_int_equal(s.layer_ids[0], 1);
    assert_int_equal(s.layer_ids[3], 5);
    assert_string_equal(s.numbering, ""); /* the file does not say */
    assert_int_equal(s.draft_vocab, 64);
    assert_int_equal(s.vocab, 512);
    int64_t drafted = 0;
    for (int64_t i = 0; i < 512; i++) drafted += s.t2d[i];
    assert_int_equal(drafted, 64);
    for (int64_t i = 0; i < 64; i++) assert_int_equal(s.t2d[i + s.d2t[i]], 1);
    sample_set_close(&s);
}

/* A sample file of this format and number, two rows. */
static void put_sample(void **state, enum sample_format format, int64_t n)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    const int64_t ids[2] = {3, 4};
    const float data[2 * 4 * 2] = {0};
    struct sample s = {
        .rows = 2, .hidden = 2, .states = 4, .dtype = DT_F32, .token = ids, .mask = ids};
    for (int k = 0; k < 4; k++) {
        s.state[k] = data + k * 2;
        s.stride[k] = 8;
    }
    assert_int_equal(sample_path(format, *state, n, path, &err), ERR_OK);
    (void)!sample_write(format, path, &s, &err);
    assert_ok(&err);
}

static void open__sorts_by_number__not_by_name(void **state)
{
    static const int64_t numbers[] = {10, 9, 2, 100, 1999, 2000};
    struct sample_set s;
    for (int i = 0; i < 6; i++) put_sample(state, SAMPLE_SPECFORGE, numbers[i]);
    write_text(folder_path(state, "data_x.ckpt"), "");
    write_text(folder_path(state, "data_.ckpt"), "");
    write_text(folder_path(state, "data_1.ckpt.tmp-7"), "");
    write_text(folder_path(state, "data_99999999999999999999999999.ckpt"), "");
    open_set(&s, *state);
    static const int64_t sorted[] = {2, 9, 10, 100, 1999, 2000};
    assert_int_equal(s.count, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(s.entries[i].n, sorted[i]);
    assert_non_null(strstr(s.entries[5].path, "rows_2000-4000/data_2000.ckpt"));
    assert_string_equal(s.folder, *state);
    sample_set_close(&s);
}

static void set_refused(void **state, const char *what, const char *where, const char *found)
{
    struct err err = ERR_INIT;
    struct sample_set s;
    assert_int_equal(sample_set_open(&s, *state, &err), ERR_INPUT);
    assert_null(s.entries);
    sample_set_close(&s);
    assert_err(&err, ERR_INPUT, what, where, found, NULL);
}

static void open__refuses__folders_that_are_no_set(void **state)
{
    set_refused(state, "read samples", "scratch", "no sample");
    assert_false(sample_is(*state));
    put_sample(state, SAMPLE_V03, 0);
    assert_true(sample_is(*state));
    put_sample(state, SAMPLE_VLLM, 1);
    set_refused(state, "read samples", NULL, NULL);
    remove(folder_path(state, "hs_1.safetensors"));
    write_text(folder_path(state, "data_00.pt"), "");
    set_refused(state, "read samples", "data_0", "number 0 twice");
    remove(folder_path(state, "data_00.pt"));
    write_text(folder_path(state, "data_3.ckpt.gz"), "");
    set_refused(state, "read samples", "data_3.ckpt.gz", "a gzip file");
}

static void open__refuses__paths_that_are_no_file(void **state)
{
    struct err err = ERR_INIT;
    struct sample_set s;
    char *path = calloc(1, FILE_PATH + 8);
    assert_non_null(path);
    memset(path, 'a', FILE_PATH + 4);
    assert_int_equal(sample_set_open(&s, path, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read samples", "aaa", "1028 bytes", "fewer than 1024");
    free(path);
    err_clear(&err);
    assert_int_equal(sample_set_open(&s, folder_path(state, "none"), &err), ERR_INPUT);
    assert_false(sample_is(folder_path(state, "data_0.pt")));
}

static void is__goes_by_name_and_by_keys(void **state)
{
    static const struct st_part sample[] = {{"hidden_states", DT_BF16, 3, {6, 4, 2}, NULL},
                                            {"token_ids", DT_I64, 1, {6}, NULL}};
    write_safetensors(folder_path(state, "a.safetensors"), sample, 2, NULL, 0);
    write_safetensors(folder_path(state, "b.safetensors"), sample, 1, NULL, 0);
    write_text(folder_path(state, "token_freq.pt"), "");
    write_text(folder_path(state, "broken.pt"), "");
    size_t size;
    char *bytes = read_whole(fixture("/speculators-v03/data_1.pt"), &size);
    write_whole(folder_path(state, "conversation.pt"), bytes, size);
    free(bytes);
    write_text(folder_path(state, "a.txt"), "");
    assert_true(sample_is(folder_path(state, "a.safetensors")));
    assert_false(sample_is(folder_path(state, "b.safetensors")));
    assert_false(sample_is(folder_path(state, "token_freq.pt")));
    assert_true(sample_is(folder_path(state, "conversation.pt")));
    assert_false(sample_is(folder_path(state, "broken.pt")));
    assert_false(sample_is(folder_path(state, "a.txt")));
    assert_false(sample_is(*state));
    assert_int_equal(mkdir(folder_path(state, "rows_0-2000"), 0777), 0);
    assert_false(sample_is(*state));
    write_text(folder_path(state, "rows_0-2000/data_0.ckpt"), "");
    assert_true(sample_is(*state));
}

/* ---- beside the samples ---- */

static void manifest__counts_before_data_config(void **state)
{
    struct sample_set s;
    put_sample(state, SAMPLE_V03, 0);
    open_set(&s, *state);
    assert_null(s.layer_ids);
    assert_int_equal(s.layer_count, 0);
    assert_null(s.d2t);
    sample_set_close(&s);
    write_text(folder_path(state, "data_config.json"),
               "{\"hidden_states\": {\"layer_ids\": [9, 9, 1]}}");
    open_set(&s, *state);
    assert_int_equal(s.layer_count, 3); /* as they stand, wrong or not */
    sample_set_close(&s);
    write_text(folder_path(state, "manifest.json"),
               "{\"layer_ids\": [2, 5], \"numbering\": \"entry\", \"more\": 1}");
    open_set(&s, *state);
    assert_int_equal(s.layer_count, 2);
    assert_int_equal(s.layer_ids[1], 5);
    assert_string_equal(s.numbering, "entry");
    sample_set_close(&s);
}

static void beside__is_found_above_a_block__of_specforge_only(void **state)
{
    struct sample_set s;
    put_sample(state, SAMPLE_SPECFORGE, 0);
    write_text(folder_path(state, "manifest.json"),
               "{\"layer_ids\": [2, 5], \"numbering\": \"output\"}");
    open_set(&s, folder_path(state, "rows_0-2000"));
    assert_int_equal(s.layer_count, 2);
    assert_string_equal(s.numbering, "output");
    sample_set_close(&s);
    open_set(&s, folder_path(state, "rows_0-2000/data_0.ckpt"));
    assert_int_equal(s.layer_count, 2);
    sample_set_close(&s);
    void *below = (void *)(uintptr_t)folder_path(state, "below");
    assert_int_equal(mkdir(below, 0777), 0);
    put_sample(&below, SAMPLE_VLLM, 0);
    open_set(&s, below); /* what lies above it is another folder's */
    assert_int_equal(s.layer_count, 0);
    sample_set_close(&s);
}

static void beside__is_named__where_it_is_wrong(void **state)
{
    static const struct {
        const char *file, *text, *what, *where, *found;
    } rows[] = {
        {"manifest.json", "{\"layer_ids\": 3}", "layer ids", "manifest.json", "integer"},
        {"manifest.json", "{\"layer_ids\": [1, \"a\"]}", "layer ids", "layer_ids[1]", "string"},
        {"manifest.json", "{\"layer_ids\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}",
         "layer ids", "layer_ids", "array"},
        {"manifest.json", "{\"layer_ids\": [1], \"numbering\": \"other\"}", "layer ids",
         "numbering", "other"},
        {"manifest.json", "{", NULL, "manifest.json", NULL},
        {"data_config.json", "{\"hidden_states\": {\"layer_ids\": {}}}", "layer ids",
         "data_config.json", "object"},
        {"d2t.npy", "text", "numpy array", "d2t.npy", "another file"},
        {"t2d.npy", "text", "numpy array", "t2d.npy", "another file"},
        {"vocab_mapping/vocab_mapping.pt", "text", "torch file", "vocab_mapping.pt", "no zip"},
    };
    put_sample(state, SAMPLE_V03, 0);
    assert_int_equal(mkdir(folder_path(state, "vocab_mapping"), 0777), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_text(folder_path(state, rows[i].file), rows[i].text);
        set_refused(state, rows[i].what, rows[i].where, rows[i].found);
        remove(folder_path(state, rows[i].file));
    }
}

static void maps__are_refused__in_other_shapes_and_types(void **state)
{
    struct err err = ERR_INIT;
    const int64_t flat[] = {2, 3}, none[] = {0};
    put_sample(state, SAMPLE_V03, 0);
    const struct pt_value bad[] = {zeros(DT_I64, 2, flat), zeros(DT_F32, 1, flat),
                                   zeros(DT_I64, 1, none)};
    static const char *const found[] = {"I64 [2, 3]", "F32 [2]", "I64 [0]"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(npy_write(folder_path(state, "d2t.npy"), bad[i].tensor, &err), ERR_OK);
        set_refused(state, "read vocabulary map", "d2t", found[i]);
    }
    remove(folder_path(state, "d2t.npy"));
    assert_int_equal(mkdir(folder_path(state, "vocab_mapping"), 0777), 0);
    struct dict d = {.count = 0};
    dict_add(&d, "d2t", counting(3));
    dict_write(&d, folder_path(state, "vocab_mapping/vocab_mapping.pt"));
    set_refused(state, "read vocabulary map", "vocab_mapping.pt", "another content");
    dict_add(&d, "t2d", zeros(DT_F32, 1, flat));
    dict_write(&d, folder_path(state, "vocab_mapping/vocab_mapping.pt"));
    set_refused(state, "read vocabulary map", "t2d", "F32 [2]");
    sample_files_free();
}

static void maps__take_the_most_frequent__ties_to_the_lower_id(void **state)
{
    /*                            0  1  2  3  4  5  6  7 */
    static const int64_t freq[] = {0, 5, 1, 7, 1, 0, 1, 5};
    static const struct {
        int64_t draft;
        int64_t ids[8];
    } rows[] = {{1, {3}},
                {2, {1, 3}},
                {4, {1, 2, 3, 7}},
                {5, {1, 2, 3, 4, 7}},
                {7, {0, 1, 2, 3, 4, 6, 7}}, /* padded with an unused one */
                {8, {0, 1, 2, 3, 4, 5, 6, 7}}};
    for (int f = 0; f < SAMPLE_FORMATS; f++) {
        void *folder = (void *)(uintptr_t)folder_path(state, sample_format_name(f));
        assert_int_equal(mkdir(folder, 0777), 0);
        put_sample(&folder, (enum sample_format)f, 0);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            struct err err = ERR_INIT;
            struct sample_set s;
            assert_int_equal(
                sample_write_maps((enum sample_format)f, folder, freq, 8, rows[i].draft, &err),
                ERR_OK);
            open_set(&s, folder);
            assert_int_equal(s.draft_vocab, rows[i].draft);
            assert_int_equal(s.vocab, 8);
            int64_t set = 0;
            for (int64_t k = 0; k < 8; k++) set += s.t2d[k];
            assert_int_equal(set, rows[i].draft);
            for (int64_t k = 0; k < rows[i].draft; k++) {
                assert_int_equal(k + s.d2t[k], rows[i].ids[k]);
                assert_int_equal(s.t2d[rows[i].ids[k]], 1);
            }
            sample_set_close(&s);
        }
    }
}

/* The oracle's own maps, from its own counts. */
static void maps__are_those_of_speculators(void **state)
{
    struct err err = ERR_INIT;
    struct pt_file f;
    int64_t count[512] = {0};
    size_t want_size, size;
    assert_int_equal(pt_open(&f, fixture("/speculators-v03/token_freq.pt"), &err), ERR_OK);
    for (int64_t i = 0; i < f.root.count; i++) count[f.root.keys[i].whole] = f.root.items[i].whole;
    pt_close(&f);
    assert_int_equal(sample_write_freq(folder_path(state, "token_freq.pt"), count, 512, &err),
                     ERR_OK);
    assert_int_equal(pt_open(&f, folder_path(state, "token_freq.pt"), &err), ERR_OK);
    int64_t nonzero = 0;
    for (int i = 0; i < 512; i++) nonzero += count[i] > 0;
    assert_int_equal(f.root.count, nonzero);
    for (int64_t i = 0; i < f.root.count; i++) {
        assert_int_equal(f.root.items[i].whole, count[f.root.keys[i].whole]);
        if (i) assert_true(f.root.keys[i].whole > f.root.keys[i - 1].whole);
    }
    pt_close(&f);
    assert_int_equal(sample_write_maps(SAMPLE_V03, *state, count, 512, 64, &err), ERR_OK);
    char *want = read_whole(fixture("/speculators-v03/t2d.npy"), &want_size);
    char *got = read_whole(folder_path(state, "t2d.npy"), &size);
    assert_int_equal(size, want_size);
    assert_memory_equal(got, want, 128); /* the header: type and shape as numpy has them */
    free(want);
    free(got);
}

static void maps__are_refused__for_sizes_that_cannot_be(void **state)
{
    static const int64_t draft[] = {0, -1, 5};
    const int64_t count[4] = {0};
    for (int i = 0; i < 3; i++) {
        struct err err = ERR_INIT;
        assert_int_equal(sample_write_maps(SAMPLE_V03, *state, count, 4, draft[i], &err),
                         ERR_INPUT);
        assert_err(&err, ERR_INPUT, "write vocabulary maps", NULL, "draft vocabulary", "1 to 4");
    }
    struct err err = ERR_INIT;
    assert_int_equal(sample_write_maps(SAMPLE_V03, folder_path(state, "none"), count, 4, 2, &err),
                     ERR_INPUT);
    assert_int_equal(folder_count(*state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__lists_a_trainers_folder),
        cmocka_unit_test(open__reads_what_speculators_puts_beside),
        cmocka_unit_test_setup_teardown(open__sorts_by_number__not_by_name, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(open__refuses__folders_that_are_no_set, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(open__refuses__paths_that_are_no_file, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(is__goes_by_name_and_by_keys, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(manifest__counts_before_data_config, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(beside__is_found_above_a_block__of_specforge_only,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(beside__is_named__where_it_is_wrong, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(maps__are_refused__in_other_shapes_and_types, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(maps__take_the_most_frequent__ties_to_the_lower_id,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(maps__are_those_of_speculators, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(maps__are_refused__for_sizes_that_cannot_be, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
