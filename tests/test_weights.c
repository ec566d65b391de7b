/* test_weights.c: checkpoint folders, their index, tensors and matrices in every stored format,
 * synthetic sources. */
#include "tests/config_texts.h"
#include "tests/support.h"

#include "core/weights.h"

#include <stdlib.h>
#include <string.h>

static const uint16_t bf16s[12] = {0x3f80, 0x4000, 0x4040, 0x4080, 0xbf80, 0,
                                   0x3f80, 0x4000, 0x4040, 0x4080, 0,      0};

/* A folder with this config and these tensors in model.safetensors. */
static void make_model(void **state, const char *config, const struct st_part *parts, int64_t count)
{
    write_text(folder_path(state, "config.json"), config);
    write_safetensors(folder_path(state, "model.safetensors"), parts, count, NULL, 0);
}

static void opened(struct weights *w, const char *model)
{
    struct err err = ERR_INIT;
    (void)!weights_open(w, model, &err);
    assert_ok(&err);
}

static void not_opened(const char *model, const char *what, const char *where, const char *found,
                       const char *wanted)
{
    struct err err = ERR_INIT;
    struct weights w;
    assert_int_equal(weights_open(&w, model, &err), ERR_INPUT);
    weights_close(&w);
    assert_err(&err, ERR_INPUT, what, where, found, wanted);
}

static void open__reads_a_folder_of_shards(void **state)
{
    const struct st_part a = {"a", DT_BF16, 2, {2, 3}, bf16s}, b = {"b", DT_F32, 1, {1}, NULL};
    struct weights w;
    write_text(folder_path(state, "config.json"), CONFIG_PLAIN);
    write_safetensors(folder_path(state, "model-1.safetensors"), &a, 1, NULL, 0);
    write_safetensors(folder_path(state, "model-2.safetensors"), &b, 1, NULL, 0);
    write_text(folder_path(state, "notes.txt"), "no shard");
    opened(&w, *state);
    assert_false(w.synthetic);
    assert_int_equal(w.config.vocab, 48);
    assert_int_equal(w.file_count, 2);
    assert_non_null(weights_stored(&w, "a"));
    assert_non_null(weights_stored(&w, "b"));
    assert_null(weights_stored(&w, "c"));
    weights_close(&w);
    weights_close(&w);
}

static void open__follows_the_index(void **state)
{
    const struct st_part a = {"a", DT_U8, 1, {1}, NULL}, b = {"b", DT_U8, 1, {1}, NULL};
    struct weights w;
    write_text(folder_path(state, "config.json"), CONFIG_PLAIN);
    write_safetensors(folder_path(state, "x.safetensors"), &a, 1, NULL, 0);
    write_safetensors(folder_path(state, "y.safetensors"), &b, 1, NULL, 0);
    write_safetensors(folder_path(state, "other.safetensors"), &a, 1, NULL,
                      0); /* not named: not opened */
    write_text(folder_path(state, "model.safetensors.index.json"),
               "{\"metadata\": {\"total_size\": 2}, \"weight_map\": {\"a\": \"x.safetensors\", "
               "\"b\": \"y.safetensors\"}}");
    opened(&w, *state);
    assert_int_equal(w.file_count, 2);
    assert_non_null(weights_stored(&w, "b"));
    weights_close(&w);
}

static void open__refuses_a_broken_index(void **state)
{
    static const struct {
        const char *index, *what, *where, *found, *wanted;
    } rows[] = {
        {"{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"gone.safetensors\"}}", "open",
         "/gone.safetensors", "No such file", NULL},
        {"{\"weight_map\": {\"a\": \"x.safetensors\", \"c\": \"x.safetensors\"}}", "read index",
         "index.json: c", "no such tensor in x.safetensors", "what the index promises"},
        {"{\"weight_map\": {\"a\": \"y.safetensors\", \"b\": \"x.safetensors\"}}", "read index",
         "index.json: a", "in x.safetensors", "in y.safetensors, as the index says"},
        {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "read index", "index.json: a",
         "../x.safetensors", "the name of a file beside the index"},
        {"{\"weight_map\": {\"a\": 3}}", "read index", "index.json: a", "an integer",
         "the name of a file"},
        {"{\"weight_map\": {\"a\": \"\"}}", "read index", "index.json: a", NULL,
         "the name of a file"},
        {"{\"weight_map\": {}}", "read key \"weight_map\"", "index.json", "an object",
         "an object of file names"},
        {"{}", "read key \"weight_map\"", "index.json", "nothing", "an object of file names"},
        {"[", "parse JSON", "index.json: line 1", NULL, "valid JSON"},
    };
    const struct st_part a = {"a", DT_U8, 1, {1}, NULL}, b = {"b", DT_U8, 1, {1}, NULL};
    write_text(folder_path(state, "config.json"), CONFIG_PLAIN);
    write_safetensors(folder_path(state, "x.safetensors"), &a, 1, NULL, 0);
    write_safetensors(folder_path(state, "y.safetensors"), &b, 1, NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_text(folder_path(state, "model.safetensors.index.json"), rows[i].index);
        not_opened(*state, rows[i].what, rows[i].where, rows[i].found, rows[i].wanted);
    }
}

static void open__refuses_a_tensor_in_two_files(void **state)
{
    const struct st_part a = {"a", DT_U8, 1, {1}, NULL};
    write_text(folder_path(state, "config.json"), CONFIG_PLAIN);
    write_safetensors(folder_path(state, "x.safetensors"), &a, 1, NULL, 0);
    write_safetensors(folder_path(state, "y.safetensors"), &a, 1, NULL, 0);
    not_opened(*state, "index tensors", "a", "/x.safetensors and in", "one file");
}

static void open__refuses_folders_that_are_no_checkpoint(void **state)
{
    char path[FILE_PATH * 2];
    not_opened(*state, "open", "/config.json", "No such file", NULL);
    write_text(folder_path(state, "config.json"), CONFIG_PLAIN);
    not_opened(*state, "open model folder", *state, "no *.safetensors file", "at least one");
    write_text(folder_path(state, "x.safetensors"), "short");
    not_opened(*state, "safetensors file", "/x.safetensors", "5 bytes", NULL);
    not_opened(folder_path(state, "none"), "open model", "/none", "nothing of that name",
               "a folder");
    not_opened(folder_path(state, "config.json"), "open model", "/config.json", "a file",
               "a folder");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    not_opened(path, "open model", "xxx", "2047 bytes", "a shorter path");
    write_text(folder_path(state, "config.json"), "{}");
    not_opened(*state, "read key \"model_type\"", "/config.json", "nothing", NULL);
}

static void tensor__is_a_view_of_the_mapping(void **state)
{
    const struct st_part a = {"a", DT_BF16, 2, {2, 3}, bf16s};
    struct err err = ERR_INIT;
    struct weights w;
    struct tensor t;
    make_model(state, CONFIG_PLAIN, &a, 1);
    opened(&w, *state);
    const int64_t shape[2] = {2, 3};
    assert_int_equal(weights_tensor(&w, "a", DT_COUNT, 2, shape, &t, &err), ERR_OK);
    assert_true(tensor_exists(&t));
    assert_int_equal(tensor_count(&t), 6);
    assert_int_equal(t.dtype, DT_BF16);
    assert_ptr_equal(t.data, weights_stored(&w, "a")->data);
    assert_memory_equal(tensor_elements(&t, 0, 6, NULL), bf16s, 12);
    assert_ptr_equal(tensor_elements(&t, 4, 2, NULL), (const char *)t.data + 8);
    assert_false(tensor_exists(&(struct tensor){0}));
    weights_close(&w);
}

static void tensor__is_refused__when_missing_or_of_the_wrong_shape_or_type(void **state)
{
    const struct st_part parts[] = {
        {"a", DT_BF16, 2, {2, 3}, bf16s}, {"i", DT_I32, 1, {2}, NULL}, {"d", DT_F64, 1, {2}, NULL}};
    struct weights w;
    struct tensor t;
    make_model(state, CONFIG_PLAIN, parts, 3);
    opened(&w, *state);
    static const struct {
        const char *name;
        enum dtype as;
        int dims;
        int64_t shape[2];
        const char *what, *found, *wanted;
    } rows[] = {
        {"zz", DT_COUNT, 1, {2}, "find tensor", "nothing", "a tensor of that name"},
        {"a", DT_COUNT, 2, {3, 2}, "tensor shape", "[2, 3]", "[3, 2], as config.json says"},
        {"a", DT_COUNT, 1, {6}, "tensor shape", "[2, 3]", "[6]"},
        {"a", DT_F32, 2, {2, 3}, "tensor dtype", "BF16", "F32"},
        {"i", DT_COUNT, 1, {2}, "tensor dtype", "I32", "BF16, F16 or F32"},
        {"d", DT_COUNT, 1, {2}, "tensor dtype", "F64", "BF16, F16 or F32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = ERR_INIT;
        assert_int_equal(
            weights_tensor(&w, rows[i].name, rows[i].as, rows[i].dims, rows[i].shape, &t, &err),
            ERR_INPUT);
        assert_err(&err, ERR_INPUT, rows[i].what, rows[i].name, rows[i].found, rows[i].wanted);
    }
    struct err err = ERR_INIT;
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(weights_tensor(&w, name, DT_COUNT, 1, (const int64_t[]){1}, &t, &err),
                     ERR_INPUT);
    assert_err(&err, ERR_INPUT, "tensor name", "nnn", "399 bytes", "fewer than 192");
    weights_close(&w);
}

#define EXPERT "language_model.model.layers.1.mlp.experts.0.up_proj"

/* A packed linear [3, 64] in groups of 32, as the config says. */
static void packed__is_bound_with_its_companions(void **state)
{
    const int64_t stored[2] = {3, 64};
    const struct st_part parts[] = {{EXPERT ".weight_packed", DT_I32, 2, {3, 8}, NULL},
                                    {EXPERT ".weight_scale", DT_BF16, 2, {3, 2}, bf16s},
                                    {EXPERT ".weight_shape", DT_I64, 1, {2}, stored}};
    struct err err = ERR_INIT;
    struct weights w;
    struct matrix m;
    make_model(state, CONFIG_K25, parts, 3);
    opened(&w, *state);
    (void)!weights_matrix(&w, EXPERT, 3, 64, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_PACKED);
    assert_int_equal(m.bits, 4);
    assert_int_equal(m.group, 32);
    assert_int_equal(m.out, 3);
    assert_int_equal(m.in, 64);
    assert_true(tensor_exists(&m.data) && tensor_exists(&m.scale));
    assert_false(tensor_exists(&m.zero) || tensor_exists(&m.g_idx));
    weights_close(&w);
    make_model(state, CONFIG_K25, parts, 2); /* weight_shape may be absent */
    opened(&w, *state);
    (void)!weights_matrix(&w, EXPERT, 3, 64, &m, &err);
    assert_ok(&err);
    weights_close(&w);
}

static void packed__takes_zero_points_group_indices_and_channels(void **state)
{
    const struct st_part parts[] = {{EXPERT ".weight_packed", DT_I32, 2, {3, 8}, NULL},
                                    {EXPERT ".weight_scale", DT_BF16, 2, {3, 2}, bf16s},
                                    {EXPERT ".weight_zero_point", DT_I32, 2, {1, 2}, NULL},
                                    {EXPERT ".weight_g_idx", DT_I32, 1, {64}, NULL}};
    struct err err = ERR_INIT;
    struct weights w;
    struct matrix m;
    char *zeros = replaced(CONFIG_K25, "\"symmetric\": true", "\"symmetric\": false");
    char *both = replaced(zeros, "\"actorder\": null", "\"actorder\": \"group\"");
    make_model(state, both, parts, 4);
    opened(&w, *state);
    (void)!weights_matrix(&w, EXPERT, 3, 64, &m, &err);
    assert_ok(&err);
    assert_true(tensor_exists(&m.zero) && tensor_exists(&m.g_idx));
    weights_close(&w);
    make_model(state, both, parts, 3);
    opened(&w, *state);
    assert_int_equal(weights_matrix(&w, EXPERT, 3, 64, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "find tensor", EXPERT ".weight_g_idx", "nothing", NULL);
    weights_close(&w);
    err_clear(&err);
    make_model(state, zeros, parts, 2);
    opened(&w, *state);
    assert_int_equal(weights_matrix(&w, EXPERT, 3, 64, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "find tensor", EXPERT ".weight_zero_point", "nothing", NULL);
    weights_close(&w);
    err_clear(&err);
    /* Stored, and the config knows nothing of them: without them every value would be another. */
    const struct st_part odd[] = {parts[0], parts[1], parts[3]};
    make_model(state, CONFIG_K25, parts, 3);
    opened(&w, *state);
    assert_int_equal(weights_matrix(&w, EXPERT, 3, 64, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "packed weight", EXPERT ".weight_zero_point",
               "a stored weight_zero_point", "none, as config.json has symmetric: true");
    weights_close(&w);
    err_clear(&err);
    make_model(state, CONFIG_K25, odd, 3);
    opened(&w, *state);
    assert_int_equal(weights_matrix(&w, EXPERT, 3, 64, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "packed weight", EXPERT ".weight_g_idx", "a stored weight_g_idx",
               "none, as config.json has no actorder: group");
    weights_close(&w);
    err_clear(&err);
    char *channel = replaced(CONFIG_K25, "\"strategy\": \"group\"", "\"strategy\": \"channel\"");
    const struct st_part one[] = {parts[0], {EXPERT ".weight_scale", DT_F32, 2, {3, 1}, NULL}};
    make_model(state, channel, one, 2);
    opened(&w, *state);
    (void)!weights_matrix(&w, EXPERT, 3, 64, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.group, 0);
    weights_close(&w);
    free(channel);
    free(both);
    free(zeros);
}

/* Parts that a packed linear [3, 64] lacks or has wrong. */
#define CODES(type, columns)                                                                       \
    {                                                                                              \
        EXPERT ".weight_packed", type, 2, {3, columns}, NULL                                       \
    }
#define SCALE                                                                                      \
    {                                                                                              \
        EXPERT ".weight_scale", DT_BF16, 2, {3, 2}, NULL                                           \
    }
#define OTHER(name)                                                                                \
    {                                                                                              \
        name, DT_U8, 1, {1}, NULL                                                                  \
    }
static const int32_t swapped[2] = {64, 3}, taller[2] = {4, 64}, wider[2] = {3, 65};
static const struct {
    struct st_part parts[3];
    int64_t in;
    const char *what, *where, *found, *wanted;
} bad_packed[] = {
    {{CODES(DT_I32, 8), OTHER("x"), OTHER("y")},
     64,
     "find tensor",
     EXPERT ".weight_scale",
     "nothing",
     NULL},
    {{CODES(DT_I32, 7), OTHER("x"), OTHER("y")},
     64,
     "tensor shape",
     EXPERT ".weight_packed",
     "[3, 7]",
     "[3, 8]"},
    {{CODES(DT_I64, 8), OTHER("x"), OTHER("y")},
     64,
     "tensor dtype",
     EXPERT ".weight_packed",
     "I64",
     "I32"},
    {{CODES(DT_I32, 8), SCALE, {EXPERT ".weight_shape", DT_I32, 1, {2}, swapped}},
     64,
     "packed shape",
     EXPERT ".weight_shape",
     "(64, 3)",
     "(3, 64), as config.json says"},
    {{CODES(DT_I32, 8), SCALE, {EXPERT ".weight_shape", DT_I32, 1, {2}, taller}},
     64,
     "packed shape",
     EXPERT ".weight_shape",
     "(4, 64)",
     "(3, 64)"},
    {{CODES(DT_I32, 8), SCALE, {EXPERT ".weight_shape", DT_I32, 1, {2}, wider}},
     64,
     "packed shape",
     EXPERT ".weight_shape",
     "(3, 65)",
     "(3, 64)"},
    {{CODES(DT_I32, 8), SCALE, {EXPERT ".weight_shape", DT_F32, 1, {2}, NULL}},
     64,
     "tensor dtype",
     EXPERT ".weight_shape",
     "2 of F32",
     "2 of I32 or I64"},
    {{CODES(DT_I32, 5), OTHER("x"), OTHER("y")},
     40,
     "packed weight",
     EXPERT,
     "40 columns in groups of 32",
     "groups that divide"},
    {{OTHER("x"), OTHER("y"), OTHER("z")},
     64,
     "find tensor",
     EXPERT ".weight_packed",
     "nothing",
     NULL},
};

static void packed__is_refused__when_parts_are_missing_or_do_not_fit(void **state)
{
    for (size_t i = 0; i < sizeof bad_packed / sizeof *bad_packed; i++) {
        struct err err = ERR_INIT;
        struct weights w;
        struct matrix m;
        make_model(state, CONFIG_K25, bad_packed[i].parts, 3);
        opened(&w, *state);
        assert_int_equal(weights_matrix(&w, EXPERT, 3, bad_packed[i].in, &m, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, bad_packed[i].what, bad_packed[i].where, bad_packed[i].found,
                   bad_packed[i].wanted);
        weights_close(&w);
    }
}

static void matrix__is_what_is_stored__dense_beside_quantised(void **state)
{
    const struct st_part parts[] = {{EXPERT ".weight", DT_BF16, 2, {2, 3}, bf16s},
                                    {"language_model.lm_head.weight", DT_F32, 2, {2, 1}, NULL}};
    struct err err = ERR_INIT;
    struct weights w;
    struct matrix m;
    make_model(state, CONFIG_K25, parts, 2);
    opened(&w, *state);
    (void)!weights_matrix(&w, EXPERT, 2, 3, &m, &err); /* an expert that was left dense */
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_DENSE);
    (void)!weights_matrix(&w, "language_model.lm_head", 2, 1, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.data.dtype, DT_F32);
    assert_int_equal(weights_matrix(&w, "language_model.lm_head", 1, 2, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "tensor shape", "language_model.lm_head.weight", "[2, 1]",
               "[1, 2]");
    weights_close(&w);
}

static void fp8__is_bound_with_its_block_scales(void **state)
{
    const struct st_part parts[] = {{"a_proj.weight", DT_F8_E4M3, 2, {130, 5}, NULL},
                                    {"a_proj.weight_scale_inv", DT_F32, 2, {2, 1}, NULL},
                                    {"b_proj.weight", DT_BF16, 2, {2, 3}, bf16s},
                                    {"c_proj.weight", DT_F8_E4M3, 2, {1, 1}, NULL},
                                    {"d_proj.weight", DT_F8_E4M3, 2, {129, 1}, NULL},
                                    {"d_proj.weight_scale_inv", DT_F32, 2, {1, 1}, NULL}};
    struct err err = ERR_INIT;
    struct weights w;
    struct matrix m;
    make_model(state, CONFIG_DSV3, parts, 6);
    opened(&w, *state);
    (void)!weights_matrix(&w, "a_proj", 130, 5, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_FP8_BLOCK);
    assert_int_equal(m.block[0], 128);
    assert_int_equal(m.scale.shape[0], 2);
    (void)!weights_matrix(&w, "b_proj", 2, 3, &m, &err);
    assert_ok(&err);
    assert_int_equal(m.format, MATRIX_DENSE);
    assert_int_equal(weights_matrix(&w, "c_proj", 1, 1, &m, &err),
                     ERR_INPUT); /* codes without scales */
    assert_err(&err, ERR_INPUT, "find tensor", "c_proj.weight_scale_inv", "nothing", NULL);
    err_clear(&err);
    assert_int_equal(weights_matrix(&w, "d_proj", 129, 1, &m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "tensor shape", "d_proj.weight_scale_inv", "[1, 1]", "[2, 1]");
    weights_close(&w);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(open__reads_a_folder_of_shards),
        in_folder(open__follows_the_index),
        in_folder(open__refuses_a_broken_index),
        in_folder(open__refuses_a_tensor_in_two_files),
        in_folder(open__refuses_folders_that_are_no_checkpoint),
        in_folder(tensor__is_a_view_of_the_mapping),
        in_folder(tensor__is_refused__when_missing_or_of_the_wrong_shape_or_type),
        in_folder(packed__is_bound_with_its_companions),
        in_folder(packed__takes_zero_points_group_indices_and_channels),
        in_folder(packed__is_refused__when_parts_are_missing_or_do_not_fit),
        in_folder(matrix__is_what_is_stored__dense_beside_quantised),
        in_folder(fp8__is_bound_with_its_block_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
