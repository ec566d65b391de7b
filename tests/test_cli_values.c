/* test_cli_values.c: weights that hold NaN or infinities, and token lists that cannot be used, as
 * the program meets them. A NaN weight must never become a dump that somebody compares. */
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MLP SMALL_LAYER(0) "mlp.down_proj.weight"
#define SCALE SMALL_LAYER(1) "mlp.experts.2.up_proj.weight_scale"
#define BIAS SMALL_LAYER(1) "mlp.gate.e_score_correction_bias"

static void refuses_tokens(void **state, struct refusal r, const char *model, const char *tokens)
{
    const char *out = textf("%s/out", (const char *)*state);
    cli_refused(state, r,
                (const char *const[]){"forward", model, "--tokens", tokens, "--out", out, NULL},
                __FILE__, __LINE__);
    cli_refused(state, r,
                (const char *const[]){"generate", model, "--tokens", tokens, "-n", "2", NULL},
                __FILE__, __LINE__);
}

/* Every expert and every row of these tokens is met: 4 experts, 2 a token. */
#define TOKENS "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24"

static void weight__is_refused__when_nan_or_infinite(void **state)
{
    static const struct {
        const char *name;
        int64_t element;
        unsigned char bytes[4];
        int size;
    } rows[] = {
        {SMALL_LAYER(0) "input_layernorm.weight", 3, {0xc0, 0x7f}, 2},
        {SMALL_LAYER(1) "self_attn.kv_a_layernorm.weight", 0, {0xc0, 0xff}, 2},
        {SMALL_LAYER(2) "self_attn.q_a_layernorm.weight", 7, {0x80, 0x7f}, 2},
        {"language_model.model.norm.weight", 63, {0x80, 0xff}, 2},
        {MLP, 77, {0xc0, 0x7f}, 2},
        {SMALL_LAYER(0) "self_attn.o_proj.weight", 5, {0x80, 0x7f}, 2},
        {SMALL_LAYER(2) "self_attn.kv_b_proj.weight", 9, {0xc0, 0x7f}, 2},
        {SMALL_LAYER(1) "mlp.gate.weight", 64, {0xc0, 0x7f}, 2},
        {SMALL_LAYER(1) "mlp.shared_experts.up_proj.weight", 64, {0xc0, 0x7f}, 2},
        {SCALE, 1, {0xc0, 0x7f}, 2},
        {SCALE, 63, {0x80, 0x7f}, 2},
        {BIAS, 2, {0, 0, 0xc0, 0x7f}, 4},
        {BIAS, 0, {0, 0, 0x80, 0xff}, 4},
        {"language_model.lm_head.weight", 47 * 64, {0xc0, 0x7f}, 2},
        {"language_model.model.embed_tokens.weight", 9 * 64 + 1, {0xc0, 0x7f}, 2},
    };
    const char *model = small_model(state, "m"), *path = textf("%s/model.safetensors", model);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct st_edit e;
        unsigned char kept[4];
        size_t n = (size_t)rows[i].size;
        st_edit_read(&e, path);
        unsigned char *at = st_edit_data(&e, rows[i].name) + rows[i].element * rows[i].size;
        memcpy(kept, at, n);
        memcpy(at, rows[i].bytes, n);
        st_edit_write(&e, path);
        struct refusal r = {2, NULL, rows[i].name, NULL, "finite"};
        refuses_tokens(state, r, model, TOKENS);
        memcpy(at, kept, n);
        st_edit_write(&e, path);
        st_edit_free(&e);
    }
    const char *out = textf("%s/out", (const char *)*state);
    json_decref(cli_passes("forward", model, "--tokens", TOKENS, "--out", out));
}

/* A scale of the wrong sign or of zero is a value like any other; a broken one is not. */
static void first_bad_element__is_named__when_a_weight_is_nan(void **state)
{
    const char *model = small_model(state, "m"), *path = textf("%s/model.safetensors", model);
    struct st_edit e;
    st_edit_read(&e, path);
    unsigned char *at = st_edit_data(&e, MLP);
    memcpy(at + 2 * 89, (const unsigned char[]){0xc0, 0x7f}, 2);
    memcpy(at + 2 * 99, (const unsigned char[]){0x80, 0x7f}, 2);
    st_edit_write(&e, path);
    st_edit_free(&e);
    struct refusal r = {2, NULL, MLP " row 1, column 9", "NaN", NULL};
    refuses_tokens(state, r, model, "1");
}

static void tokens__are_refused__when_no_list(void **state)
{
    static const struct {
        const char *tokens;
        struct refusal r;
    } rows[] = {
        {"48", {2, "token id", "token 0", "48", "0 to 47, the vocabulary"}},
        {"1,2,48", {2, "token id", "token 2", "48", "0 to 47"}},
        {"1,9223372036854775807", {2, "token id", "token 1", "9223372036854775807", "0 to 47"}},
        {"1,9223372036854775808", {2, "read tokens", "token 1", "9223372036854775808", NULL}},
        {"1,-2", {2, "read tokens", "token 1", "-2", "0 or more"}},
        {"-2", {2, "read tokens", "token 0", "-2", "0 or more"}},
        {"", {2, "read tokens", "--tokens", "no tokens", "at least one"}},
        {",", {2, "read tokens", "token 0", "\"\"", "a whole number"}},
        {"1,", {2, "read tokens", "token 1", "\"\"", "a whole number"}},
        {",1", {2, "read tokens", "token 0", "\"\"", "a whole number"}},
        {"1,,2", {2, "read tokens", "token 1", "\"\"", "a whole number"}},
        {"1 2", {2, "read tokens", "token 0", "1 2", "a whole number"}},
        {"1, 2", {2, "read tokens", "token 1", " 2", "a whole number"}},
        {"1-2", {2, "read tokens", "token 0", "1-2", "a whole number"}},
        {"1;2", {2, "open", "1;2", "No such file", NULL}},
        {"@", {2, "open", NULL, "an empty path", NULL}},
        {"@nowhere.json", {2, "open", "nowhere.json", "No such file", NULL}},
    };
    const char *model = small_model(state, "m");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses_tokens(state, rows[i].r, model, rows[i].tokens);
}

static void token_file__is_refused__when_it_holds_no_tokens(void **state)
{
    static const struct {
        const char *name, *text;
        struct refusal r;
    } rows[] = {
        {"a.json", "", {2, "parse JSON", "a.json", NULL, NULL}},
        {"a.json", "[]", {2, "read tokens", "a.json", "no tokens", "at least one"}},
        {"a.json", "[[]]", {2, "read tokens", "a.json", "no tokens", "at least one"}},
        {"a.json", "[[1],[]]", {2, "read tokens", "a.json: sequence 1", "no tokens", NULL}},
        {"a.json", "[[1],2]", {2, "read tokens", "a.json: sequence 1", "an integer", "an array"}},
        {"a.json", "[1,[2]]", {2, "read tokens", "a.json: entry 1", "an array", NULL}},
        {"a.json", "[1,2.0]", {2, "read tokens", "a.json: entry 1", "a fraction", NULL}},
        {"a.json", "[1,\"2\"]", {2, "read tokens", "a.json: entry 1", "a string", NULL}},
        {"a.json", "[1,null]", {2, "read tokens", "a.json: entry 1", "null", NULL}},
        {"a.json", "[-1]", {2, "read tokens", "a.json: token 0", "-1", NULL}},
        {"a.json", "[99]", {2, "token id", "token 0", "99", "0 to 47"}},
        {"a.json", "{}", {2, "read tokens", "a.json", "without them", "\"input_ids\""}},
        {"a.json", "{\"tokens\": 5}", {2, "read tokens", "a.json", "an integer", "an array"}},
        {"a.json",
         "{\"tokens\": [1], \"tokens\": [2]}",
         {2, "parse JSON", NULL, "duplicate", NULL}},
        {"a.jsonl", "", {2, "read tokens", "a.jsonl", "no tokens", "at least one"}},
        {"a.jsonl", "\n \r\n\t\n", {2, "read tokens", "a.jsonl", "no tokens", "at least one"}},
        {"a.jsonl", "[1]\n[2\n", {2, "parse JSON", "a.jsonl", NULL, NULL}},
        {"a.jsonl",
         "{\"input_ids\": [1]}\n{\"ids\": [2]}\n",
         {2, "read tokens", "a.jsonl", NULL, NULL}},
        {"a.safetensors", "x", {2, "safetensors file", "a.safetensors", "1 bytes", NULL}},
    };
    const char *model = small_model(state, "m");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = textf("%s/%s", (const char *)*state, rows[i].name);
        write_text(path, rows[i].text);
        refuses_tokens(state, rows[i].r, model, path);
        refuses_tokens(state, rows[i].r, model, textf("@%s", path));
    }
}

/* The mapping of a file ends with its last page: nothing may be looked for behind it. */
static void token_lines__are_refused__when_blank_to_the_end_of_a_page(void **state)
{
    const char *path = textf("%s/a.jsonl", (const char *)*state);
    char blank[4096];
    memset(blank, ' ', sizeof blank);
    write_whole(path, blank, sizeof blank);
    struct refusal r = {2, "read tokens", "a.jsonl", "no tokens", "at least one"};
    refuses_tokens(state, r, small_model(state, "m"), path);
}

static void token_tensor__is_refused__when_not_input_ids(void **state)
{
    static const int32_t ids[] = {1, 2, 3, -4};
    static const struct {
        struct st_part part;
        struct refusal r;
    } rows[] = {
        {{"ids", DT_I32, 1, {4}, ids}, {2, "read tokens", ".safetensors", "no input_ids", NULL}},
        {{"input_ids", DT_F32, 1, {4}, NULL}, {2, "read tokens", NULL, "another kind", NULL}},
        {{"input_ids", DT_I32, 0, {0}, ids}, {2, "read tokens", NULL, "another kind", NULL}},
        {{"input_ids", DT_I32, 3, {1, 2, 2}, ids}, {2, "read tokens", NULL, "another kind", NULL}},
        {{"input_ids", DT_I32, 1, {4}, ids}, {2, "read tokens", "token 3", "-4", "0 or more"}},
        {{"input_ids", DT_I32, 1, {0}, NULL}, {2, "read tokens", NULL, "no tokens", NULL}},
        {{"input_ids", DT_I32, 2, {0, 4}, NULL}, {2, "read tokens", NULL, "no tokens", NULL}},
        {{"input_ids", DT_I32, 2, {4, 0}, NULL}, {2, "read tokens", NULL, "no tokens", NULL}},
        {{"input_ids", DT_U64, 1, {1}, "\xff\xff\xff\xff\xff\xff\xff\xff"},
         {2, NULL, NULL, NULL, NULL}},
    };
    const char *model = small_model(state, "m");
    const char *path = textf("%s/t.safetensors", (const char *)*state);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_safetensors(path, &rows[i].part, 1, NULL, 0);
        refuses_tokens(state, rows[i].r, model, path);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(weight__is_refused__when_nan_or_infinite),
        TEST(first_bad_element__is_named__when_a_weight_is_nan),
        TEST(tokens__are_refused__when_no_list),
        TEST(token_file__is_refused__when_it_holds_no_tokens),
        TEST(token_lines__are_refused__when_blank_to_the_end_of_a_page),
        TEST(token_tensor__is_refused__when_not_input_ids),
    };
    return cmocka_run_group_tests_name("cli_values", tests, NULL, NULL);
}
