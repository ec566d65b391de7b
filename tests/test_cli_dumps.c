/* test_cli_dumps.c: dumps that a hostile or careless author made. Each is refused or judged red;
 * none is read past its end, and none passes because something was not looked at. */
#include "tests/cli.h"

#include "tests/config_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

/* A dump with one tap embed [4, 8] of zeros, "1,2,3,4" as its tokens where not said otherwise. */
static const char *plain(void **state, const char *name, const struct st_meta *meta, int64_t metas)
{
    const struct st_part part = {"embed", DT_F32, 2, {4, 8}, NULL};
    write_safetensors(file_in(state, name), &part, 1, meta, metas);
    return file_in(state, name);
}

static void metadata__is_refused__when_malformed(void **state)
{
    static const struct {
        struct st_meta meta[2];
        int64_t n;
        struct refusal r;
    } rows[] = {
        {{{"assay.tokens", "x"}}, 1, {2, "parse JSON", "metadata assay.tokens", NULL, NULL}},
        {{{"assay.tokens", ""}}, 1, {2, "parse JSON", "metadata assay.tokens", NULL, NULL}},
        {{{"assay.tokens", "{}"}},
         1,
         {2, "dump metadata", "assay.tokens", "an object", "an array"}},
        {{{"assay.tokens", "[1,2,3,4.5]"}},
         1,
         {2, "dump metadata", "assay.tokens: entry 3", "a fraction", "a whole number"}},
        {{{"tokens", "[1,2,3]"}}, 1, {2, "dump metadata", "tokens", "3", "4, one a row"}},
        {{{"tokens", "[1,[2]]"}}, 1, {2, "dump metadata", "tokens: entry 1", "an array", NULL}},
        {{{"assay.order", "5"}}, 1, {2, "parse JSON", NULL, NULL, NULL}},
        {{{"assay.order", "{}"}}, 1, {2, "dump metadata", "assay.order", "an object", "names"}},
        {{{"assay.order", "[1]"}},
         1,
         {2, "dump metadata", "assay.order[0]", "an integer", "a name"}},
        {{{"assay.rows", "[0,1,2]"}}, 1, {2, "dump metadata", "assay.rows", "3 entries", "4"}},
        {{{"assay.rows", "[0,1,2,-3]"}}, 1, {2, "dump metadata", "assay.rows[3]", "-3", NULL}},
        {{{"assay.rows", "[3,2,1,0]"}},
         1,
         {2, "dump metadata", "assay.rows[1]", "2 after 3", "ascend"}},
        {{{"assay.rows", "[0,1,1,2]"}},
         1,
         {2, "dump metadata", "assay.rows[2]", "1 after 1", "ascend"}},
        {{{"assay.rows", "[0,1,2,9]"}, {"assay.tokens", "[1,2,3,4]"}},
         2,
         {2, "dump metadata", "assay.rows[3]", "9", "a row of the batch"}},
        {{{"assay.lengths", "[2,3]"}, {"assay.tokens", "[1,2,3,4]"}},
         2,
         {2, "dump metadata", "assay.lengths", "5 tokens in all", "4"}},
        {{{"assay.lengths", "[-1,5]"}, {"assay.tokens", "[1,2,3,4]"}},
         2,
         {2, "dump metadata", "assay.lengths[0]", "-1", NULL}},
        {{{"assay.lengths", "[9223372036854775807,9223372036854775807]"}},
         1,
         {2, "dump metadata", "assay.lengths[1]", "9223372036854775807", NULL}},
    };
    const char *good = plain(state, "good", NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *bad = plain(state, "bad", rows[i].meta, rows[i].n);
        cli_refuses(state, rows[i].r, "diff", bad, good);
        cli_refuses(state, rows[i].r, "diff", good, bad);
    }
}

static void tap__is_refused__when_no_matrix_of_numbers(void **state)
{
    static const struct {
        struct st_part part;
        struct refusal r;
    } rows[] = {
        {{"embed", DT_C64, 2, {4, 8}, NULL}, {2, "read dump", ": embed", "C64 [4, 8]", "a matrix"}},
        {{"embed", DT_F32, 0, {0}, NULL}, {2, "read dump", ": embed", "F32 []", "a matrix"}},
        {{"embed", DT_F32, 2, {(int64_t)1 << 40, 0}, NULL},
         {2, "read dump", ": embed", "1099511627776 rows without columns", NULL}},
    };
    const char *good = plain(state, "good", NULL, 0), *bad = file_in(state, "bad");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_safetensors(bad, &rows[i].part, 1, NULL, 0);
        cli_refuses(state, rows[i].r, "diff", bad, good);
        cli_refuses(state, rows[i].r, "diff", good, bad);
    }
    struct refusal none = {2, "open", "nowhere", "No such file", NULL};
    cli_refuses(state, none, "diff", good, file_in(state, "nowhere"));
    cli_refuses(state, none, "diff", file_in(state, "nowhere"), good);
    cli_refuses(state, none, "diff", good, good, "--profile-run", file_in(state, "nowhere"));
    struct refusal folder = {2, "read dump", NULL, "2 names", "tensor files"};
    cli_refuses(state, folder, "diff", good, *state);
    struct refusal device = {2, "open", "/dev/null", "a special file", "a regular file"};
    cli_refuses(state, device, "diff", "/dev/null", good);
    struct refusal empty = {2, "open", NULL, "an empty path", NULL};
    cli_refuses(state, empty, "diff", good, "");
}

/* A tap of expert ids is compared whatever its type and width are. */
static void experts__are_red__when_they_differ_in_an_odd_form(void **state)
{
    static const int32_t narrow[] = {1, 2, 3, 4}, other[] = {1, 2, 3, 7};
    static const int32_t wide[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float reals[] = {1, 2, 3, 4}, more[] = {1, 2, 3, 9};
    const char *a = file_in(state, "a"), *b = file_in(state, "b");
    /* Two layers of different widths: the narrower one differs. */
    const struct st_part subject[] = {{"layers.0.experts", DT_I32, 2, {2, 2}, narrow},
                                      {"layers.1.experts", DT_I32, 2, {2, 4}, wide}};
    const struct st_part truth[] = {{"layers.0.experts", DT_I32, 2, {2, 2}, other},
                                    {"layers.1.experts", DT_I32, 2, {2, 4}, wide}};
    write_safetensors(a, subject, 2, NULL, 0);
    write_safetensors(b, truth, 2, NULL, 0);
    json_t *j = cli_fails("diff", a, b);
    assert_string_equal(field_text(field(j, "first"), "tap"), "layers.0.experts");
    json_decref(j);
    json_decref(cli_passes("diff", a, a));
    const struct st_part real = {"layers.0.experts", DT_F32, 2, {2, 2}, reals};
    const struct st_part real_other = {"layers.0.experts", DT_F32, 2, {2, 2}, more};
    const struct st_part whole = {"layers.0.experts", DT_I32, 2, {2, 2}, narrow};
    write_safetensors(a, &real, 1, NULL, 0);
    write_safetensors(b, &real_other, 1, NULL, 0);
    json_decref(cli_fails("diff", a, b));
    write_safetensors(b, &whole, 1, NULL, 0);
    json_decref(cli_passes("diff", a, b));
    write_safetensors(a, &real_other, 1, NULL, 0);
    json_decref(cli_fails("diff", a, b));
}

/* 1 and 1 + 2^32 are two numbers. */
static void experts__are_red__when_equal_modulo_2_32(void **state)
{
    static const int64_t one[] = {1, 2}, two[] = {1 + ((int64_t)1 << 32), 2};
    const char *a = file_in(state, "a"), *b = file_in(state, "b");
    const struct st_part subject = {"layers.0.experts", DT_I64, 2, {1, 2}, one};
    const struct st_part truth = {"layers.0.experts", DT_I64, 2, {1, 2}, two};
    write_safetensors(a, &subject, 1, NULL, 0);
    write_safetensors(b, &truth, 1, NULL, 0);
    json_decref(cli_passes("diff", a, a));
    json_decref(cli_fails("diff", a, b));
    json_decref(cli_fails("diff", b, a));
}

/* As sets: the order of an engine's ids means nothing. */
static void experts__pass__when_only_their_order_differs(void **state)
{
    static const int32_t one[] = {4, 1, 2, 3}, two[] = {1, 4, 3, 2}, three[] = {1, 4, 3, 3};
    const char *a = file_in(state, "a"), *b = file_in(state, "b");
    const struct st_part subject = {"layers.0.experts", DT_I32, 2, {2, 2}, one};
    const struct st_part truth = {"layers.0.experts", DT_I32, 2, {2, 2}, two};
    const struct st_part twice = {"layers.0.experts", DT_I32, 2, {2, 2}, three};
    write_safetensors(a, &subject, 1, NULL, 0);
    write_safetensors(b, &truth, 1, NULL, 0);
    json_decref(cli_passes("diff", a, b));
    write_safetensors(b, &twice, 1, NULL, 0);
    json_t *j = cli_fails("diff", a, b);
    const json_t *flip = json_array_get(field(j, "flips"), 0);
    assert_int_equal(field_int(flip, "layer"), 0);
    assert_int_equal(field_int(flip, "row"), 1);
    assert_int_equal(json_integer_value(json_array_get(field(flip, "subject"), 0)), 2);
    assert_int_equal(json_integer_value(json_array_get(field(flip, "truth"), 1)), 3);
    assert_true(json_is_false(field(flip, "certified")));
    json_decref(j);
}

/* Taps of different row counts in one file: compared where they can be, refused where a place in
 * the batch would have to be known. */
static void ragged_dump__is_refused__when_rows_must_be_placed(void **state)
{
    static const struct st_part parts[] = {{"embed", DT_F32, 2, {40, 8}, NULL},
                                           {"logits", DT_F32, 2, {3, 8}, NULL}};
    static const struct st_meta rows = {"assay.rows", "[0,1,2]"};
    const char *ragged = file_in(state, "ragged"), *good = file_in(state, "good");
    const struct st_part even[] = {{"embed", DT_F32, 2, {40, 8}, NULL},
                                   {"logits", DT_F32, 2, {40, 8}, NULL}};
    write_safetensors(ragged, parts, 2, NULL, 0);
    write_safetensors(good, even, 2, NULL, 0);
    json_decref(cli_passes("diff", ragged, ragged));
    json_decref(cli_fails("diff", ragged, good));
    struct refusal r = {2, "align dumps", "ragged", "different row counts", "the same in all taps"};
    cli_refuses(state, r, "diff", ragged, ragged, "--profile-run", good);
    cli_refuses(state, r, "diff", good, good, "--profile-run", ragged);
    cli_refuses(state, r, "diff", good, ragged, "--profile-run", good);
    write_safetensors(ragged, parts, 2, &rows, 1);
    struct refusal place = {2, "dump metadata", "assay.rows", "different row counts", NULL};
    cli_refuses(state, place, "diff", ragged, good);
    cli_refuses(state, place, "diff", ragged, "--model", FIXTURE("tiny-k25"), "--tokens", "1,2,3");
}

/* The reference's own router logits may come from a file. */
static void profile_run__is_refused__when_its_router_is_another(void **state)
{
    const char *config = file_in(state, "config.json"), *a = file_in(state, "a");
    const char *b = file_in(state, "b");
    const char *model = textf("synth:%s?seed=3", config);
    write_text(config, CONFIG_K25);
    json_decref(cli_passes("forward", model, "--tokens", "1,2,3", "--out", a));
    json_decref(cli_passes("diff", a, "--model", model, "--profile-run", a));
    static const int64_t cols[] = {1, 3, 500};
    for (int i = 0; i < 3; i++) {
        const struct st_part part = {"layers.1.router_logits", DT_F32, 2, {3, cols[i]}, NULL};
        write_safetensors(b, &part, 1, NULL, 0);
        struct refusal r = {2, "compare experts", "layers.1.router_logits", NULL,
                            "4 router logits"};
        cli_refuses(state, r, "diff", a, "--model", model, "--profile-run", b);
    }
}

static void forced_experts__are_refused__when_no_choice_of_the_router(void **state)
{
    static const int32_t twice[] = {0, 0}, outside[] = {0, 4}, negative[] = {-1, 0};
    const char *config = file_in(state, "config.json"), *b = file_in(state, "b");
    const char *model = textf("synth:%s?seed=3", config), *out = file_in(state, "out");
    const struct {
        struct st_part part;
        struct refusal r;
    } rows[] = {
        {{"layers.1.experts", DT_I32, 2, {1, 2}, twice},
         {2, "force experts", "row 0", "twice", NULL}},
        {{"layers.1.experts", DT_I32, 2, {1, 2}, outside},
         {2, "force experts", "slot 1", "4", "0 to 3"}},
        {{"layers.1.experts", DT_I32, 2, {1, 2}, negative},
         {2, "force experts", "slot 0", "-1", NULL}},
        {{"layers.1.experts", DT_I32, 2, {1, 3}, NULL},
         {2, "force experts", NULL, "3 of I32", "2 int"}},
        {{"layers.1.experts", DT_F32, 2, {1, 2}, NULL},
         {2, "force experts", NULL, "2 of F32", NULL}},
    };
    const struct st_part none = {"embed", DT_F32, 2, {1, 64}, NULL};
    const struct st_part two = {"layers.1.experts", DT_I32, 2, {2, 2}, NULL};
    write_text(config, CONFIG_K25);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_safetensors(b, &rows[i].part, 1, NULL, 0);
        cli_refuses(state, rows[i].r, "forward", model, "--tokens", "1", "--out", out, "--experts",
                    b);
        cli_refuses(state, rows[i].r, "diff", b, "--model", model, "--tokens", "1");
    }
    write_safetensors(b, &none, 1, NULL, 0);
    struct refusal nothing = {2, "option", "--experts", "no tap layers.N.experts", NULL};
    cli_refuses(state, nothing, "forward", model, "--tokens", "1", "--out", out, "--experts", b);
    write_safetensors(b, &two, 1, NULL, 0);
    struct refusal count = {2, "option", "--experts", "2 rows", "1, as the tokens have"};
    cli_refuses(state, count, "forward", model, "--tokens", "1", "--out", out, "--experts", b);
}

/* Names are data: they come out as they are, in valid JSON, in one line. */
static void names__are_shown_safely__when_odd(void **state)
{
    const char *a = file_in(state, "a"), *b = file_in(state, "b");
    size_t size;
    unsigned char *file =
        st_bytes("{\"a\\nb\\u001b[31m\\u00e9 \\\"|%s\":{\"dtype\":\"F32\",\"shape\":[1,1],"
                 "\"data_offsets\":[0,4]}}",
                 "\0\0\x80\x3f", 4, &size);
    write_whole(a, file, size);
    json_decref(cli_passes("diff", a, a));
    memset(file + size - 4, 0, 4);
    write_whole(b, file, size);
    json_t *j = cli_fails("diff", a, b);
    assert_string_equal(field_text(field(j, "first"), "tap"), "a\nb\x1b[31m\xc3\xa9 \"|%s");
    json_decref(j);
    free(file);
    file = st_bytes("{\"a\\nb\\u001b[31m|%s%n\":{\"dtype\":\"Q\"}}", NULL, 0, &size);
    write_whole(a, file, size);
    struct refusal r = {2, "tensor dtype", "a?b?[31m|%s%n", "Q", NULL};
    cli_refuses(state, r, "diff", a, b);
    free(file);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(metadata__is_refused__when_malformed),
        TEST(tap__is_refused__when_no_matrix_of_numbers),
        TEST(experts__are_red__when_they_differ_in_an_odd_form),
        TEST(experts__are_red__when_equal_modulo_2_32),
        TEST(experts__pass__when_only_their_order_differs),
        TEST(ragged_dump__is_refused__when_rows_must_be_placed),
        TEST(profile_run__is_refused__when_its_router_is_another),
        TEST(forced_experts__are_refused__when_no_choice_of_the_router),
        TEST(names__are_shown_safely__when_odd),
    };
    return cmocka_run_group_tests_name("cli_dumps", tests, NULL, NULL);
}
