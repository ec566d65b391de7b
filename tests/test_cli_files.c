/* test_cli_files.c: checkpoints that are broken or hostile, as the program meets them: each is
 * refused with exit 2, in one line that names the file and the tensor, and nothing is written. The
 * readers' own tests are test_safetensors.c and test_weights.c. */
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NORM SMALL_LAYER(0) "input_layernorm.weight"
#define EMBED "language_model.model.embed_tokens.weight"
#define HEAD "language_model.lm_head.weight"
#define PACKED SMALL_LAYER(1) "mlp.experts.0.gate_proj.weight_packed"

static void forward_refuses(void **state, struct refusal r, const char *model)
{
    const char *out = textf("%s/out.safetensors", (const char *)*state);
    cli_refused(state, r,
                (const char *const[]){"forward", model, "--tokens", "1,2", "--out", out, NULL},
                __FILE__, __LINE__);
}

/* A model whose one shard is to be replaced. */
static const char *shard(void **state)
{
    return textf("%s/model.safetensors", small_model(state, "m"));
}

static const char *model(void **state)
{
    return textf("%s/m", (const char *)*state);
}

static void shard__is_refused__when_truncated_anywhere(void **state)
{
    const char *path = shard(state);
    size_t size;
    char *all = read_whole(path, &size);
    const size_t at[] = {0, 1, 7, 8, 9, 100, 4000, size / 3, size / 2, size - 99, size - 1};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        write_whole(path, all, at[i]);
        struct refusal r = {2, "safetensors", "model.safetensors", "bytes", NULL};
        struct refusal in_data = {2, "tensor offsets", "model.safetensors: ", NULL, "of data"};
        forward_refuses(state, at[i] < 4001 ? r : in_data, model(state));
    }
    free(all);
}

static void shard__is_refused__when_bytes_follow_the_last_tensor(void **state)
{
    const char *path = shard(state);
    size_t size;
    char *all = read_whole(path, &size);
    write_whole(path, all, size + 1); /* its NUL is read_whole's */
    struct refusal r = {2, "file size", "model.safetensors", NULL, "where the last tensor ends"};
    forward_refuses(state, r, model(state));
    free(all);
}

static void shard__is_refused__when_its_header_is_longer_than_the_file(void **state)
{
    const char *path = shard(state);
    static const unsigned char lengths[][8] = {
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0, 0, 0, 0, 0, 0, 0, 0x80},
        {0xff, 0xff, 0, 0, 0, 0, 0, 0},
        {1, 0, 0, 6, 0, 0, 0, 0}, /* above 100 MB */
    };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char file[10] = {0};
        memcpy(file, lengths[i], 8);
        memcpy(file + 8, "{}", 2);
        write_whole(path, file, sizeof file);
        struct refusal r = {2, "safetensors header length", "model.safetensors", "bytes",
                            "at most"};
        forward_refuses(state, r, model(state));
    }
}

static void header__is_refused__when_it_is_no_json_object(void **state)
{
    const char *path = shard(state);
    static const struct {
        const char *header;
        struct refusal r;
    } rows[] = {
        {"", {2, "safetensors header", "model.safetensors", "an empty header", NULL}},
        {"[]", {2, "safetensors header", "model.safetensors", NULL, "'{'"}},
        {"{\"a\"", {2, "parse JSON", "model.safetensors: line 1", NULL, "valid JSON"}},
        {"{} {}", {2, "parse JSON", "model.safetensors", NULL, NULL}},
        {"{\"\xff\": 1}", {2, "parse JSON", "model.safetensors", NULL, NULL}},
        {"{\"a\": 5}", {2, "tensor entry", "model.safetensors: a", "an integer", "an object"}},
        {"{\"__metadata__\": 5}", {2, "file metadata", NULL, "an integer", NULL}},
        {"{\"__metadata__\": {\"k\": 5}}",
         {2, "file metadata", "__metadata__.k", NULL, "a string"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size;
        unsigned char *file = st_bytes(rows[i].header, NULL, 0, &size);
        write_whole(path, file, size);
        forward_refuses(state, rows[i].r, model(state));
        free(file);
    }
}

/* One entry "x" with these fields, eight bytes of data. */
static void entry__is_refused__when_a_field_is_wrong(void **state)
{
    const char *path = shard(state);
    static const struct {
        const char *fields;
        struct refusal r;
    } rows[] = {
        {"\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]",
         {2, "tensor dtype", "model.safetensors: x", "F33", NULL}},
        {"\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]",
         {2, "tensor dtype", ": x", "f32", NULL}},
        {"\"shape\":[2],\"data_offsets\":[0,8]", {2, "tensor dtype", ": x", "no text", NULL}},
        {"\"dtype\":\"F32\",\"data_offsets\":[0,8]",
         {2, "tensor shape", ": x", "nothing", "an array"}},
        {"\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]",
         {2, "tensor shape", ": x: dimension 0", "negative", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]",
         {2, "tensor shape", ": x", "a fraction", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]",
         {2, "tensor shape", ": x", "2^60", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]",
         {2, "tensor shape", ": x", "9 dimensions", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[2]", {2, "tensor offsets", ": x", "nothing", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]",
         {2, "tensor offsets", ": x", NULL, "two integers"}},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]",
         {2, "tensor offsets", ": x", "[8, 0)", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]",
         {2, "tensor offsets", ": x", "[-8, 0)", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]",
         {2, "tensor offsets", ": x", "9223372036854775807", "8 bytes of data"}},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775808]",
         {2, "parse JSON", "model.safetensors", "too big", NULL}},
        {"\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]",
         {2, "tensor size", ": x", "8 bytes", "12 for F32 [3]"}},
        {"\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1",
         {2, "tensor entry", ": x", "more", NULL}},
        {"\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]",
         {2, "parse JSON", "model.safetensors", "duplicate", NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size;
        unsigned char *file = st_bytes(textf("{\"x\":{%s}}", rows[i].fields), NULL, 8, &size);
        write_whole(path, file, size);
        forward_refuses(state, rows[i].r, model(state));
        free(file);
    }
}

static void entries__are_refused__when_they_overlap_leave_holes_or_repeat(void **state)
{
    const char *path = shard(state);
    static const struct {
        const char *first, *second, *name;
        struct refusal r;
    } rows[] = {
        {"[0,4]", "[0,4]", "y", {2, "tensor offsets", ": y", "overlaps x", NULL}},
        {"[0,4]", "[2,6]", "y", {2, "tensor offsets", ": y", "begin 2: overlaps x", "begin 4"}},
        {"[0,4]", "[6,10]", "y", {2, "tensor offsets", ": y", "hole after x", "begin 4"}},
        {"[2,6]", "[6,10]", "y", {2, "tensor offsets", ": x", "hole after the start", "begin 0"}},
        {"[0,4]", "[4,8]", "x", {2, "parse JSON", "model.safetensors", "duplicate", NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size;
        const char *fields = "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":";
        const char *header = textf("{\"x\":{%s%s},\"%s\":{%s%s}}", fields, rows[i].first,
                                   rows[i].name, fields, rows[i].second);
        unsigned char *file = st_bytes(header, NULL, 10, &size);
        write_whole(path, file, size);
        forward_refuses(state, rows[i].r, model(state));
        free(file);
    }
}

/* Every tensor of a checkpoint is needed, in its shape and type. */
static void tensors__are_refused__when_config_and_shard_disagree(void **state)
{
    const char *path = shard(state);
    static const char *const names[] = {
        EMBED,
        HEAD,
        NORM,
        PACKED,
        SMALL_LAYER(0) "mlp.up_proj.weight",
        SMALL_LAYER(1) "mlp.gate.e_score_correction_bias",
        SMALL_LAYER(1) "mlp.gate.weight",
        SMALL_LAYER(2) "mlp.experts.3.down_proj.weight_scale",
        SMALL_LAYER(2) "self_attn.kv_a_proj_with_mqa.weight",
        "language_model.model.norm.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct st_edit e;
        st_edit_read(&e, path);
        json_t *entry = json_incref(json_object_get(e.header, names[i]));
        assert_non_null(entry);
        json_t *shape = json_object_get(entry, "shape");
        json_t *flat = json_deep_copy(shape), *swapped = json_deep_copy(shape);
        json_array_insert_new(flat, 0, json_integer(1));
        json_object_set_new(entry, "shape", flat);
        st_edit_write(&e, path);
        struct refusal r = {2, "tensor shape", names[i], "[1, ", "as config.json says"};
        forward_refuses(state, r, model(state));
        json_object_del(e.header, names[i]);
        json_object_set_new(entry, "shape", swapped);
        json_object_set_new(e.header, textf("%s.other", names[i]), entry);
        st_edit_write(&e, path);
        struct refusal none = {2, "find tensor", NULL, "nothing", NULL};
        forward_refuses(state, none, model(state));
        json_object_set(e.header, names[i], entry);
        json_object_del(e.header, textf("%s.other", names[i]));
        st_edit_write(&e, path);
        st_edit_free(&e);
    }
    json_decref(cli_passes("forward", model(state), "--tokens", "1,2", "--out",
                           textf("%s/out", (const char *)*state)));
}

static void tensors__are_refused__when_of_another_type(void **state)
{
    const char *path = shard(state);
    static const struct {
        const char *name, *dtype, *wanted;
    } rows[] = {
        {NORM, "I16", "BF16, F16 or F32"},
        {EMBED, "U16", "BF16, F16 or F32"},
        {PACKED, "F32", "I32"},
        {PACKED, "U32", "I32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct st_edit e;
        st_edit_read(&e, path);
        json_t *entry = json_object_get(e.header, rows[i].name);
        const char *before = textf("%s", field_text(entry, "dtype"));
        json_object_set_new(entry, "dtype", json_string(rows[i].dtype));
        st_edit_write(&e, path);
        struct refusal r = {2, "tensor dtype", rows[i].name, rows[i].dtype, rows[i].wanted};
        forward_refuses(state, r, model(state));
        json_object_set_new(entry, "dtype", json_string(before));
        st_edit_write(&e, path);
        st_edit_free(&e);
    }
}

/* What is stored beside the codes must repeat the config's shape. */
static void packed_shape__is_refused__when_it_contradicts_the_config(void **state)
{
    const char *path = shard(state), *name = SMALL_LAYER(1) "mlp.experts.0.gate_proj.weight_shape";
    struct st_edit e;
    st_edit_read(&e, path);
    st_edit_data(&e, name)[0] ^= 1;
    st_edit_write(&e, path);
    struct refusal r = {2, "packed shape", name, "(33, 64)", "(32, 64), as config.json says"};
    forward_refuses(state, r, model(state));
    st_edit_free(&e);
}

static void tensor__is_refused__when_in_two_shards(void **state)
{
    const char *path = shard(state);
    size_t size;
    char *all = read_whole(path, &size);
    assert_int_equal(rename(path, textf("%s/model-00001.safetensors", model(state))), 0);
    write_whole(textf("%s/model-00002.safetensors", model(state)), all, size);
    struct refusal r = {2, "index tensors", NULL, "model-00001.safetensors and in", "one file"};
    forward_refuses(state, r, model(state));
    free(all);
}

static void index__is_refused__when_it_promises_what_is_not_there(void **state)
{
    static const struct {
        const char *text;
        struct refusal r;
    } rows[] = {
        {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}",
         {2, "open", "gone.safetensors", "No such file", NULL}},
        {"{\"weight_map\": {\"a\": \"model.safetensors\"}}",
         {2, "read index", ": a", "no such tensor", NULL}},
        {"{\"weight_map\": {\"a\": \"../m/model.safetensors\"}}",
         {2, "read index", ": a", "../m", "beside the index"}},
        {"{\"weight_map\": {\"a\": 5}}", {2, "read index", ": a", "an integer", NULL}},
        {"{\"weight_map\": {\"a\": \"\"}}", {2, "read index", ": a", NULL, "the name of a file"}},
        {"{\"weight_map\": {}}", {2, "weight_map", "index.json", NULL, "an object of file names"}},
        {"{\"weight_map\": []}", {2, "weight_map", "index.json", "an array", NULL}},
        {"{}", {2, "weight_map", "index.json", "nothing", NULL}},
        {"", {2, "parse JSON", "index.json", NULL, NULL}},
    };
    shard(state);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_text(textf("%s/model.safetensors.index.json", model(state)), rows[i].text);
        forward_refuses(state, rows[i].r, model(state));
    }
}

static void folder__is_refused__when_missing_empty_or_half(void **state)
{
    const char *folder = textf("%s/empty", (const char *)*state);
    struct refusal none = {2, "open model", "/nowhere", "nothing of that name", "config.json"};
    forward_refuses(state, none, textf("%s/nowhere", (const char *)*state));
    assert_int_equal(mkdir(folder, 0777), 0);
    struct refusal empty = {2, "open", "empty/config.json", "No such file", "exists"};
    forward_refuses(state, empty, folder);
    shard(state);
    struct refusal file = {2, "open model", "model.safetensors", "a file", "a folder"};
    forward_refuses(state, file, textf("%s/model.safetensors", model(state)));
    assert_int_equal(unlink(textf("%s/model.safetensors", model(state))), 0);
    struct refusal weights = {2, "open model folder", "/m", "no *.safetensors file", NULL};
    forward_refuses(state, weights, model(state));
    assert_int_equal(mkdir(textf("%s/model.safetensors", model(state)), 0777), 0);
    struct refusal inside = {2, "open", "model.safetensors", "a folder", "a regular file"};
    forward_refuses(state, inside, model(state));
    forward_refuses(state, (struct refusal){2, NULL, NULL, NULL, NULL}, "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(shard__is_refused__when_truncated_anywhere),
        TEST(shard__is_refused__when_bytes_follow_the_last_tensor),
        TEST(shard__is_refused__when_its_header_is_longer_than_the_file),
        TEST(header__is_refused__when_it_is_no_json_object),
        TEST(entry__is_refused__when_a_field_is_wrong),
        TEST(entries__are_refused__when_they_overlap_leave_holes_or_repeat),
        TEST(tensors__are_refused__when_config_and_shard_disagree),
        TEST(tensors__are_refused__when_of_another_type),
        TEST(packed_shape__is_refused__when_it_contradicts_the_config),
        TEST(tensor__is_refused__when_in_two_shards),
        TEST(index__is_refused__when_it_promises_what_is_not_there),
        TEST(folder__is_refused__when_missing_empty_or_half),
    };
    return cmocka_run_group_tests_name("cli_files", tests, NULL, NULL);
}
