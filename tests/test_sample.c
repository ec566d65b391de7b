/* test_sample.c: samples that torch and an engine wrote are one thing in memory and are written
 * back as they were; a key, shape or type that is wrong is named. */
#include "harness/sample.h"

#include "tests/sample_files.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *fixture(const char *name)
{
    static char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/samples/%s", ASSAY_SOURCE_DIR, name);
    return path;
}

static const char *const fixtures[SAMPLE_FORMATS] = {
    "speculators-v03/data_0.pt", "vllm/hs_0.safetensors", "specforge/rows_0-2000/data_0.ckpt"};

static void open_fixture(struct sample_file *f, int format)
{
    struct err err = ERR_INIT;
    (void)!sample_open(f, fixture(fixtures[format]), 256, &err);
    assert_ok(&err);
    assert_int_equal(f->format, format);
}

/* Row r of state k, bytes. */
static const char *row(const struct sample *s, int k, int64_t r)
{
    return (const char *)s->state[k] + r * s->stride[k] * dtype_size(s->dtype);
}

static void assert_same_states(const struct sample *a, const struct sample *b, int states)
{
    assert_int_equal(a->dtype, b->dtype);
    for (int k = 0; k < states; k++) {
        for (int64_t r = 0; r < a->rows; r++)
            assert_memory_equal(row(a, k, r), row(b, k, r), a->hidden * dtype_size(a->dtype));
    }
}

/* The three fixtures hold one sample: the layouts differ, and in one the last state is normed. */
static void open__gives_one_thing__from_three_formats(void **state)
{
    (void)state;
    struct sample_file f[SAMPLE_FORMATS];
    for (int i = 0; i < SAMPLE_FORMATS; i++) {
        open_fixture(&f[i], i);
        const struct sample *s = &f[i].sample;
        assert_int_equal(s->rows, 48);
        assert_int_equal(s->hidden, 256);
        assert_int_equal(s->states, 4);
        assert_int_equal(s->dtype, DT_BF16);
        assert_memory_equal(s->token, f[0].sample.token, 48 * sizeof *s->token);
        assert_int_equal(s->token[1], 489);
        assert_int_equal(s->last_normed, i == SAMPLE_SPECFORGE);
        assert_int_equal(s->mask == NULL, i == SAMPLE_VLLM);
        assert_same_states(s, &f[0].sample, i == SAMPLE_SPECFORGE ? 3 : 4);
    }
    assert_memory_equal(f[0].sample.mask, f[SAMPLE_SPECFORGE].sample.mask, 48 * 8);
    assert_true(memcmp(row(&f[0].sample, 3, 0), row(&f[2].sample, 3, 0), 512) != 0);
    for (int i = 0; i < SAMPLE_FORMATS; i++) sample_close(&f[i]);
    sample_close(&f[0]);
}

/* Bytes as torch's are test_pt.c's business; here each format goes through each other one. */
static void write__keeps_every_bit__between_all_formats(void **state)
{
    for (int from = 0; from < SAMPLE_FORMATS; from++) {
        for (int to = 0; to < SAMPLE_FORMATS; to++) {
            struct err err = ERR_INIT;
            struct sample_file f, g;
            char path[FILE_PATH];
            int64_t mask[48] = {0, 1};
            open_fixture(&f, from);
            struct sample s = f.sample;
            s.mask = mask;
            assert_int_equal(sample_path((enum sample_format)to, *state, 5, path, &err), ERR_OK);
            (void)!sample_write((enum sample_format)to, path, &s, &err);
            assert_ok(&err);
            (void)!sample_open(&g, path, 0, &err);
            assert_ok(&err);
            assert_int_equal(g.format, to);
            assert_int_equal(g.sample.states, 4);
            assert_same_states(&s, &g.sample, 4);
            assert_memory_equal(g.sample.token, s.token, 48 * 8);
            if (to != SAMPLE_VLLM) assert_memory_equal(g.sample.mask, mask, sizeof mask);
            sample_close(&f);
            sample_close(&g);
        }
    }
}

/* The first and the last state lie where the file has them, those between do not. */
static void write__puts_states_in_order__wherever_they_lie(void **state)
{
    for (int to = 0; to < SAMPLE_FORMATS; to++) {
        struct err err = ERR_INIT;
        struct sample_file f, g;
        const char *path = folder_path(state, "sample");
        const int64_t mask[48] = {0};
        open_fixture(&f, SAMPLE_VLLM);
        struct sample s = f.sample;
        s.mask = mask;
        s.state[1] = f.sample.state[2];
        s.state[2] = f.sample.state[1];
        assert_int_equal(sample_write((enum sample_format)to, path, &s, &err), ERR_OK);
        assert_int_equal(sample_open(&g, path, 0, &err), ERR_OK);
        assert_same_states(&s, &g.sample, 4);
        sample_close(&g);
        sample_close(&f);
    }
}

static void path__is_that_of_the_trainer(void **state)
{
    (void)state;
    static const struct {
        enum sample_format format;
        int64_t n;
        const char *path;
    } rows[] = {{SAMPLE_V03, 0, "out/data_0.pt"},
                {SAMPLE_V03, 12345678901, "out/data_12345678901.pt"},
                {SAMPLE_VLLM, 7, "out/hs_7.safetensors"},
                {SAMPLE_SPECFORGE, 0, "out/rows_0-2000/data_0.ckpt"},
                {SAMPLE_SPECFORGE, 1999, "out/rows_0-2000/data_1999.ckpt"},
                {SAMPLE_SPECFORGE, 2000, "out/rows_2000-4000/data_2000.ckpt"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        char path[FILE_PATH];
        assert_int_equal(sample_path(rows[i].format, "out", rows[i].n, path, &err), ERR_OK);
        assert_string_equal(path, rows[i].path);
    }
    assert_string_equal(sample_format_name(SAMPLE_VLLM), "vllm");
    assert_null(sample_format_name(SAMPLE_FORMATS));
    assert_null(sample_format_name(-1));
}

static void write__leaves_nothing__when_it_fails(void **state)
{
    for (int to = 0; to < SAMPLE_FORMATS; to++) {
        struct err err = ERR_INIT;
        struct sample_file f;
        open_fixture(&f, SAMPLE_V03);
        write_text(folder_path(state, "file"), "");
        const char *path = folder_path(state, "file/data_0");
        assert_true(sample_write((enum sample_format)to, path, &f.sample, &err) != ERR_OK);
        assert_int_equal(folder_count(*state), 1);
        f.sample.states = 1;
        err_clear(&err);
        if (to == SAMPLE_SPECFORGE) {
            assert_int_equal(sample_write(SAMPLE_SPECFORGE, path, &f.sample, &err), ERR_INPUT);
            assert_err(&err, ERR_INPUT, "write sample", "data_0", "one state", "two or more");
        }
        sample_close(&f);
    }
}

/* ---- layouts, right and wrong ---- */

/* The four torch layouts, each of 6 rows, width 4, four states. */
enum { V03, SPECFORGE, MODELOPT, OLDER, LAYOUTS };
static struct pt_value list_items[LAYOUTS][4];

static struct dict layout(int i)
{
    struct dict d = {.count = 0};
    const int64_t flat[] = {6, 4}, wide[] = {6, 12}, flat1[] = {1, 6, 4}, wide1[] = {1, 6, 12};
    dict_add(&d, "input_ids", counting(6));
    if (i != MODELOPT) dict_add(&d, "loss_mask", counting(6));
    if (i == V03) {
        for (int k = 0; k < 4; k++) list_items[i][k] = zeros(DT_BF16, 2, flat);
        dict_add(&d, "hidden_states",
                 (struct pt_value){.kind = PT_LIST, .count = 4, .items = list_items[i]});
    } else if (i == SPECFORGE) {
        dict_add(&d, "hidden_state", zeros(DT_BF16, 3, flat1));
        dict_add(&d, "aux_hidden_state", zeros(DT_BF16, 3, wide1));
    } else if (i == MODELOPT) {
        dict_add(&d, "hidden_states", zeros(DT_BF16, 2, flat));
        dict_add(&d, "aux_hidden_states", zeros(DT_BF16, 2, wide));
        dict_add(&d, "conversation_id",
                 (struct pt_value){.kind = PT_TEXT, .text = "c7", .count = 2});
    } else {
        dict_add(&d, "hidden_state", zeros(DT_BF16, 2, wide));
        dict_add(&d, "target", zeros(DT_BF16, 2, flat));
    }
    return d;
}

static void open__reads_four_layouts_of_torch_files(void **state)
{
    static const enum sample_format formats[LAYOUTS] = {SAMPLE_V03, SAMPLE_SPECFORGE,
                                                        SAMPLE_SPECFORGE, SAMPLE_V03};
    for (int i = 0; i < LAYOUTS; i++) {
        struct err err = ERR_INIT;
        struct sample_file f;
        struct dict d = layout(i);
        dict_add(&d, "further", (struct pt_value){.kind = PT_INT, .whole = 1}); /* is ignored */
        dict_write(&d, folder_path(state, "a.pt"));
        (void)!sample_open(&f, folder_path(state, "a.pt"), 0, &err);
        assert_ok(&err);
        assert_int_equal(f.format, formats[i]);
        assert_int_equal(f.sample.rows, 6);
        assert_int_equal(f.sample.hidden, 4);
        assert_int_equal(f.sample.states, 4);
        assert_int_equal(f.sample.last_normed, formats[i] == SAMPLE_SPECFORGE);
        assert_int_equal(f.sample.mask == NULL, i == MODELOPT);
        for (int k = 0; k < 3 && i != V03; k++) {
            assert_int_equal(f.sample.stride[k], 12);
            assert_ptr_equal(f.sample.state[k], (const char *)f.sample.state[0] + k * 8);
        }
        sample_close(&f);
    }
    sample_files_free();
}

/* A key of a layout gets this value (dims < 0: goes), and the message names it. */
static const struct wrong {
    int layout;
    const char *key;
    enum dtype dtype;
    int dims;
    int64_t shape[3];
    const char *where, *found;
} wrongs[] = {
    {V03, "input_ids", DT_I64, -1, {0}, "input_ids", "no such key"},
    {V03, "loss_mask", DT_I64, -1, {0}, "loss_mask", "no such key"},
    {V03, "hidden_states", DT_I64, -1, {0}, "content", "keys input_ids, loss_mask"},
    {V03, "input_ids", DT_I32, 1, {6}, "input_ids", "I32 [6]"},
    {V03, "input_ids", DT_I64, 1, {5}, "input_ids", "I64 [5]"},
    {V03, "input_ids", DT_I64, 2, {1, 6}, "input_ids", "I64 [1, 6]"},
    {V03, "loss_mask", DT_BOOL, 1, {6}, "loss_mask", "BOOL [6]"},
    {V03, "loss_mask", DT_I64, 1, {7}, "loss_mask", "I64 [7]"},
    {V03, "hidden_states", DT_BF16, 2, {6, 4}, "hidden_states", "a tensor"},
    {SPECFORGE, "aux_hidden_state", DT_I64, -1, {0}, "aux_hidden_state", "no such key"},
    {SPECFORGE, "hidden_state", DT_I64, -1, {0}, "hidden_state", "no such key"},
    {SPECFORGE, "loss_mask", DT_I64, -1, {0}, "loss_mask", "no such key"},
    {SPECFORGE, "hidden_state", DT_BF16, 2, {6, 4}, "hidden_state", "BF16 [6, 4]"},
    {SPECFORGE, "hidden_state", DT_BF16, 3, {2, 6, 4}, "hidden_state", "BF16 [2, 6, 4]"},
    {SPECFORGE, "hidden_state", DT_BF16, 3, {1, 0, 4}, "hidden_state", "BF16 [1, 0, 4]"},
    {SPECFORGE, "hidden_state", DT_F64, 3, {1, 6, 4}, "hidden_state", "F64 [1, 6, 4]"},
    {SPECFORGE, "hidden_state", DT_I64, 3, {1, 6, 4}, "hidden_state", "I64 [1, 6, 4]"},
    {SPECFORGE, "aux_hidden_state", DT_BF16, 3, {1, 5, 12}, "aux_hidden_state", "[1, 5, 12]"},
    {SPECFORGE, "aux_hidden_state", DT_BF16, 3, {2, 6, 12}, "aux_hidden_state", "[2, 6, 12]"},
    {SPECFORGE, "aux_hidden_state", DT_BF16, 3, {1, 6, 10}, "aux_hidden_state", "[1, 6, 10]"},
    {SPECFORGE, "aux_hidden_state", DT_BF16, 3, {1, 6, 0}, "aux_hidden_state", "[1, 6, 0]"},
    {SPECFORGE, "aux_hidden_state", DT_BF16, 3, {1, 6, 64}, "aux_hidden_state", "[1, 6, 64]"},
    {SPECFORGE, "aux_hidden_state", DT_F16, 3, {1, 6, 12}, "aux_hidden_state", "F16"},
    {SPECFORGE, "aux_hidden_state", DT_BF16, 1, {12}, "aux_hidden_state", "BF16 [12]"},
    {MODELOPT, "hidden_states", DT_BF16, 3, {1, 6, 4}, "hidden_states", "BF16 [1, 6, 4]"},
    {MODELOPT, "aux_hidden_states", DT_BF16, -1, {0}, "hidden_states", "a tensor"},
    {OLDER, "target", DT_BF16, -1, {0}, "aux_hidden_state", "no such key"},
    {OLDER, "target", DT_BF16, 1, {6}, "target", "BF16 [6]"},
};

static void refused(void **state, const struct dict *d, const char *where, const char *found)
{
    struct err err = ERR_INIT;
    struct sample_file f;
    const char *path = folder_path(state, "a.pt");
    dict_write(d, path);
    if (sample_open(&f, path, 0, &err) != ERR_INPUT)
        fail_msg("%s with %s was read, not refused", where, found);
    sample_close(&f);
    assert_err(&err, ERR_INPUT, "read sample", where, found, NULL);
    assert_non_null(strstr(err.where, "a.pt"));
    assert_true(err.wanted[0] != '\0');
}

static void open__names_what_is_wrong(void **state)
{
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        const struct wrong *w = &wrongs[i];
        struct dict d = layout(w->layout);
        struct pt_value v = zeros(w->dtype, w->dims < 0 ? 0 : w->dims, w->shape);
        pt_dict_set(&d, w->key, w->dims < 0 ? NULL : &v);
        refused(state, &d, w->where, w->found);
        sample_files_free();
    }
}

static void open__names_the_state__that_is_unlike_the_others(void **state)
{
    static const struct {
        enum dtype dtype;
        int64_t shape[2];
        const char *found;
    } rows[] = {{DT_BF16, {5, 4}, "BF16 [5, 4]"},
                {DT_BF16, {6, 3}, "BF16 [6, 3]"},
                {DT_F32, {6, 4}, "F32 [6, 4]"}};
    for (int i = 0; i < 3; i++) {
        struct dict d = layout(V03);
        list_items[V03][2] = zeros(rows[i].dtype, 2, rows[i].shape);
        refused(state, &d, "hidden_states[2]", rows[i].found);
    }
    struct dict d = layout(V03);
    list_items[V03][3] = (struct pt_value){.kind = PT_NONE};
    refused(state, &d, "hidden_states[3]", "None");
    d = layout(V03);
    d.items[2].count = 0;
    refused(state, &d, "hidden_states", "0 tensors");
    const struct dict none = {.count = 0};
    refused(state, &none, "content", "an empty dict");
    sample_files_free();
}

static void open__reads_values_as_they_are(void **state)
{
    struct err err = ERR_INIT;
    struct sample_file f;
    struct dict d = layout(V03);
    const uint16_t nan = 0x7FC0; /* of a state: for who inspects */
    memcpy((void *)(uintptr_t)list_items[V03][1].tensor->data, &nan, sizeof nan);
    dict_write(&d, folder_path(state, "a.pt"));
    assert_int_equal(sample_open(&f, folder_path(state, "a.pt"), 4, &err), ERR_OK);
    assert_memory_equal(f.sample.state[1], &nan, sizeof nan);
    sample_close(&f);
    assert_int_equal(sample_open(&f, folder_path(state, "a.pt"), 8, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read sample", "a.pt", "width 4", "8");
    sample_files_free();
}

static void open__refuses__safetensors_of_others(void **state)
{
    static const struct {
        struct st_part parts[2];
        const char *where, *found;
    } rows[] = {
        {{{"hidden_states", DT_BF16, 3, {6, 4, 2}, NULL}, {"ids", DT_I64, 1, {6}, NULL}},
         "token_ids",
         "no such tensor"},
        {{{"states", DT_BF16, 3, {6, 4, 2}, NULL}, {"token_ids", DT_I64, 1, {6}, NULL}},
         "hidden_states",
         "no such tensor"},
        {{{"hidden_states", DT_BF16, 2, {6, 8}, NULL}, {"token_ids", DT_I64, 1, {6}, NULL}},
         "hidden_states",
         "BF16 [6, 8]"},
        {{{"hidden_states", DT_I32, 3, {6, 4, 2}, NULL}, {"token_ids", DT_I64, 1, {6}, NULL}},
         "hidden_states",
         "I32 [6, 4, 2]"},
        {{{"hidden_states", DT_BF16, 3, {0, 4, 2}, NULL}, {"token_ids", DT_I64, 1, {0}, NULL}},
         "hidden_states",
         "BF16 [0, 4, 2]"},
        {{{"hidden_states", DT_BF16, 3, {6, 17, 2}, NULL}, {"token_ids", DT_I64, 1, {6}, NULL}},
         "hidden_states",
         "BF16 [6, 17, 2]"},
        {{{"hidden_states", DT_BF16, 3, {6, 4, 2}, NULL}, {"token_ids", DT_I64, 1, {7}, NULL}},
         "token_ids",
         "I64 [7]"},
        {{{"hidden_states", DT_BF16, 3, {6, 4, 2}, NULL}, {"token_ids", DT_I32, 1, {6}, NULL}},
         "token_ids",
         "I32 [6]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        struct sample_file f;
        const char *path = folder_path(state, "hs_0.safetensors");
        write_safetensors(path, rows[i].parts, 2, NULL, 0);
        assert_int_equal(sample_open(&f, path, 0, &err), ERR_INPUT);
        sample_close(&f);
        assert_err(&err, ERR_INPUT, "read sample", rows[i].where, rows[i].found, NULL);
    }
}

static void open__refuses__files_of_another_kind(void **state)
{
    struct err err = ERR_INIT;
    struct sample_file f;
    const struct pt_value number = {.kind = PT_INT, .whole = 1};
    assert_int_equal(pt_write(folder_path(state, "a.pt"), &number, &err), ERR_OK);
    assert_int_equal(sample_open(&f, folder_path(state, "a.pt"), 0, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read sample", "a.pt: content", "an integer", "a dict");
    err_clear(&err);
    write_whole(folder_path(state, "a.ckpt.gz"), "\x1f\x8b\x08\0", 4);
    assert_int_equal(sample_open(&f, folder_path(state, "a.ckpt.gz"), 0, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "read torch file", "a.ckpt.gz", "gunzip it first", NULL);
    err_clear(&err);
    assert_int_equal(sample_open(&f, folder_path(state, "none.pt"), 0, &err), ERR_INPUT);
    sample_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__gives_one_thing__from_three_formats),
        cmocka_unit_test_setup_teardown(write__keeps_every_bit__between_all_formats, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(write__puts_states_in_order__wherever_they_lie,
                                        folder_setup, folder_teardown),
        cmocka_unit_test(path__is_that_of_the_trainer),
        cmocka_unit_test_setup_teardown(write__leaves_nothing__when_it_fails, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(open__reads_four_layouts_of_torch_files, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(open__names_what_is_wrong, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(open__names_the_state__that_is_unlike_the_others,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(open__reads_values_as_they_are, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(open__refuses__safetensors_of_others, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(open__refuses__files_of_another_kind, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
