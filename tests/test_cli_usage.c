/* test_cli_usage.c: command lines that cannot be used, outputs that cannot be written, and a result
 * that nobody can read. Parsing in detail: test_args.c. */
#include "tests/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define K25 FIXTURE("tiny-k25")
#define CLEAN FIXTURE("bugs/clean.safetensors")

static const char *out_path(void **state)
{
    return textf("%s/out.safetensors", (const char *)*state);
}

/* Rows of words; the first NULL ends them. */
struct line {
    const char *word[14];
    struct refusal r;
};

static void lines_are_refused(void **state, const struct line *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) cli_refused(state, rows[i].r, rows[i].word, __FILE__, __LINE__);
}
#define REFUSED(state, rows) lines_are_refused(state, rows, sizeof(rows) / sizeof(rows)[0])

static void word__is_refused__when_unknown(void **state)
{
    static const struct line rows[] = {
        {{"forwrad"}, {2, "verb", "assay", "\"forwrad\"", "forward"}},
        {{"forwrad", K25}, {2, "verb", "assay", "\"forwrad\"", "forward"}},
        {{""}, {2, "verb", "assay", "\"\"", "forward"}},
        {{"--verbose"}, {2, "verb", "assay", "\"--verbose\"", NULL}},
        {{"forward", K25, "--token", "1"}, {2, "option", "forward", "--token", "--help lists"}},
        {{"forward", K25, "--"}, {2, "arguments", "forward", "no --tokens", NULL}},
        {{"forward", K25, "-n", "4"}, {2, "option", "forward", "-n", NULL}},
        {{"forward", "-h"}, {2, "option", "forward", "-h", NULL}},
        {{"diff", "--seed=4"}, {2, "option", "diff", "--seed", NULL}},
        {{"generate", K25, "--out", "x"}, {2, "option", "generate", "--out", NULL}},
        {{"synth", K25, "--rows", "2"}, {2, "option", "synth", "--rows", NULL}},
        {{"forward", K25, "--=1"}, {2, "option", "forward", "--", NULL}},
    };
    REFUSED(state, rows);
}

static void words__are_refused__when_too_few_or_many(void **state)
{
    static const struct line rows[] = {
        {{"forward"}, {2, "arguments", "forward", "0 words", "MODEL --tokens T"}},
        {{"forward", K25}, {2, "arguments", "forward", "no --tokens", "--tokens T"}},
        {{"forward", K25, "--tokens", "1"}, {2, "arguments", "forward", "no --out", "--out DUMP"}},
        {{"forward", K25, K25, "--tokens", "1"},
         {2, "arguments", "forward", "after 1 words", NULL}},
        {{"generate", K25}, {2, "arguments", "generate", "no --tokens", NULL}},
        {{"generate"}, {2, "arguments", "generate", "0 words", NULL}},
        {{"synth", K25 "/config.json"}, {2, "arguments", "synth", "no --seed", NULL}},
        {{"synth", K25 "/config.json", "--seed", "1"}, {2, "arguments", "synth", "no --out", NULL}},
        {{"diff"}, {2, "arguments", "diff", "0 words", "SUBJECT TRUTH"}},
        {{"diff", CLEAN}, {2, "arguments", "diff", "one dump", "--model"}},
        {{"diff", CLEAN, CLEAN, CLEAN}, {2, "arguments", "diff", "after 2 words", NULL}},
        {{"diff", CLEAN, CLEAN, "--profile", "hf"},
         {2, "arguments", "diff", "--profile", "--model"}},
    };
    REFUSED(state, rows);
}

static void option__is_refused__when_its_value_is_missing_or_too_much(void **state)
{
    static const struct line rows[] = {
        {{"forward", K25, "--tokens"}, {2, "option", "forward", "--tokens at the end", NULL}},
        {{"forward", K25, "--out", "--tokens", "1"},
         {2, "option", "forward", "--out before --tokens", "--out=DUMP"}},
        {{"generate", K25, "-n"}, {2, "option", "generate", "-n at the end", "-n N"}},
        {{"diff", CLEAN, CLEAN, "--bound"}, {2, "option", "diff", "--bound at the end", NULL}},
        {{"forward", K25, "--tokens", "1", "--tokens", "2"},
         {2, "option", "forward", "--tokens twice", "once"}},
        {{"generate", K25, "-n", "1", "-n", "2"}, {2, "option", "generate", "-n twice", "once"}},
        {{"generate", K25, "--stop-eos", "--stop-eos"},
         {2, "option", "generate", "--stop-eos twice", "once"}},
        {{"generate", K25, "--stop-eos=yes"},
         {2, "option", "generate", "--stop-eos=yes", "without a value"}},
        {{"diff", CLEAN, CLEAN, "--bound=1", "--bound=1"},
         {2, "option", "diff", "--bound twice", "once"}},
    };
    REFUSED(state, rows);
}

/* Option and value on an otherwise good line. */
static const struct {
    const char *verb, *option, *value;
} bad_values[] = {
    {"forward", "--threads", "0"},
    {"forward", "--threads", "257"},
    {"forward", "--threads", "two"},
    {"forward", "--threads", "1.5"},
    {"forward", "--threads", ""},
    {"forward", "--threads", " 1"},
    {"forward", "--threads", "+1"},
    {"forward", "--threads", "1x"},
    {"forward", "--threads", "-1"},
    {"forward", "--block-size", "0"},
    {"forward", "--block-size", "1048577"},
    {"forward", "--prefill-chunk", "0"},
    {"forward", "--prefill-chunk", "1e3"},
    {"forward", "--decode-last", "-1"},
    {"forward", "--decode-last", "99999999999999999999"},
    {"forward", "--precision", "f16"},
    {"forward", "--linear", "mkl"},
    {"forward", "--on", "cpu"},
    {"forward", "--dump-dtype", "bf16"},
    {"forward", "--profile", "trt"},
    {"forward", "--profile", ""},
    {"forward", "--layers", "0"},
    {"forward", "--layers", "0:0"},
    {"forward", "--layers", "0:7"},
    {"forward", "--layers", "-7:"},
    {"forward", "--layers", "3:2"},
    {"forward", "--layers", "a:b"},
    {"forward", "--layers", "0:1:2"},
    {"forward", "--layers", ""},
    {"forward", "--layers", "0:9223372036854775807"},
    {"forward", "--layers", "-9223372036854775808:"},
    {"forward", "--rows", "0:4"},
    {"forward", "--rows", "-4:"},
    {"forward", "--rows", "2:2"},
    {"forward", "--rows", "x"},
    {"forward", "--taps", "layers.9.attn"},
    {"forward", "--taps", "logits,nothing"},
    {"forward", "--taps", ""},
    {"forward", "--taps", ",,"},
    {"forward", "--taps", "LOGITS"},
    {"forward", "--taps", "layers.5.routed "},
    {"generate", "-n", "0"},
    {"generate", "-n", "-4"},
    {"generate", "-n", "4.0"},
    {"generate", "-n", "2147483648"},
    {"generate", "--prompt", "0"},
    {"generate", "--prompt", "4"},
};

static void value__is_refused__when_no_number_of_the_range(void **state)
{
    for (size_t i = 0; i < sizeof bad_values / sizeof bad_values[0]; i++) {
        bool forward = strcmp(bad_values[i].verb, "forward") == 0;
        struct refusal r = {2, NULL, NULL, NULL, NULL};
        const char *argv[] = {bad_values[i].verb,
                              K25,
                              "--tokens",
                              "1,2,3",
                              textf("%s=%s", bad_values[i].option, bad_values[i].value),
                              forward ? "--out" : NULL,
                              out_path(state),
                              NULL};
        cli_refused(state, r, argv, __FILE__, __LINE__);
    }
    static const char *const bounds[] = {"", "-1", "x", "nan", "inf", "1e999", "1e-3x", " 1"};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        struct refusal r = {2, "option", "--bound", bounds[i], "a number"};
        cli_refuses(state, r, "diff", CLEAN, CLEAN, textf("--bound=%s", bounds[i]));
    }
    struct refusal taps = {2, "option", "--taps", "\"none*\", which matches no tap", "logits"};
    cli_refuses(state, taps, "forward", K25, "--tokens", "1", "--out", out_path(state), "--taps",
                "logits,none*");
    static const char *const seeds[] = {"", "-1", "1.0", "18446744073709551616", "x"};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        struct refusal r = {2, "option", "--seed", seeds[i], "a whole number"};
        cli_refuses(state, r, "synth", K25 "/config.json", "--out", textf("%s/m", (char *)*state),
                    textf("--seed=%s", seeds[i]));
    }
}

static void gpu__is_never_a_pass__when_it_has_no_op(void **state)
{
    struct refusal r = {3, NULL, NULL, NULL, NULL};
    cli_refuses(state, r, "forward", K25, "--tokens", "1", "--on", "gpu", "--out", out_path(state));
}

static void output__is_refused__when_it_cannot_be_a_file(void **state)
{
    const char *folder = *state;
    static const struct {
        const char *path; /* NULL: the test's folder */
        struct refusal r;
    } rows[] = {
        {"/dev/full", {3, "write", "/dev/full", "No space left", "room"}},
        {"/dev/null", {2, "write", "/dev/null", "a device or pipe", "a file"}},
        {"%s/none/out", {2, "write", "none/out", "No such file", "a path that exists"}},
        {"%s/file/out", {2, "write", "file/out", "Not a directory", "a path that exists"}},
        {"%s", {2, "write", "scratch-", "a folder", "a file name"}},
        {"%s/", {2, "write", "scratch-", "a folder", "a file name"}},
        {"", {2, "write", NULL, NULL, NULL}},
    };
    write_text(textf("%s/file", folder), "kept");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool own = strncmp(rows[i].path, "%s", 2) == 0;
        const char *path = textf("%s%s", own ? folder : "", rows[i].path + (own ? 2 : 0));
        cli_refuses(state, rows[i].r, "forward", K25, "--tokens", "1", "--out", path);
    }
    struct refusal folder_wanted = {2, "make folder", "/file", "a file of that name", "a folder"};
    cli_refuses(state, folder_wanted, "synth", K25 "/config.json", "--seed", "1", "--out",
                textf("%s/file", folder));
    cli_refuses(state, folder_wanted, "diff", CLEAN, CLEAN, "--bound", "0", "--out",
                textf("%s/file", folder));
}

static void output__is_refused__when_the_folder_is_read_only(void **state)
{
    if (geteuid() == 0) {
        print_message("skipped: root may write everywhere\n");
        skip();
    }
    const char *folder = textf("%s/ro", (const char *)*state);
    struct refusal r = {2, "write", "ro/out", "Permission denied", "permission"};
    assert_int_equal(mkdir(folder, 0555), 0);
    cli_refuses(state, r, "forward", K25, "--tokens", "1", "--out", textf("%s/out", folder));
}

/* A dump must not replace the weights that it is made from. */
static void output__is_refused__when_it_is_a_file_of_the_model(void **state)
{
    const char *model = small_model(state, "m"), *link = textf("%s/link", (const char *)*state);
    const char *path = textf("%s/model.safetensors", model);
    struct refusal r = {2, "option", "--out", "a file of the model", "another name"};
    cli_refuses(state, r, "forward", model, "--tokens", "1", "--out", path);
    assert_int_equal(symlink(path, link), 0);
    cli_refuses(state, r, "forward", model, "--tokens", "1", "--out", link);
}

static void word__is_refused__when_no_utf8(void **state)
{
    const char *out = textf("%s/\xff", (const char *)*state);
    struct refusal r = {2, "arguments", "forward", "?", "UTF-8"};
    cli_refuses(state, r, "forward", K25, "--tokens", "1", "--out", out);
    cli_refuses(state, r, "forward", "\xc0\x80", "--tokens", "1", "--out", out);
}

/* The name is free again, and what was there before is as it was. */
static void existing_output__is_not_touched__when_the_run_fails(void **state)
{
    const char *model = small_model(state, "m"), *path = textf("%s/model.safetensors", model);
    struct st_edit e;
    st_edit_read(&e, path);
    memcpy(st_edit_data(&e, SMALL_LAYER(2) "self_attn.o_proj.weight"), "\xc0\x7f", 2);
    st_edit_write(&e, path);
    st_edit_free(&e);
    write_text(out_path(state), "what was here before");
    struct refusal r = {2, NULL, "layers.2.self_attn.o_proj", NULL, "finite"};
    cli_refuses(state, r, "forward", model, "--tokens", "1,2", "--out", out_path(state));
    char *kept = read_whole(out_path(state), NULL);
    assert_string_equal(kept, "what was here before");
    free(kept);
}

/* What a run killed under this process id left behind, or a link that somebody planted. */
static void temporary_name__is_not_written_through__when_it_is_a_link(void **state)
{
    const char *victim = textf("%s/victim", (const char *)*state);
    struct file_out f = FILE_OUT_INIT;
    struct err err = ERR_INIT;
    write_text(victim, "precious");
    assert_int_equal(symlink(victim, textf("%s.tmp-%ld", out_path(state), (long)getpid())), 0);
    (void)!file_out_open(&f, out_path(state), &err);
    (void)!file_out_write(&f, "data", 4, &err);
    (void)!file_out_commit(&f, &err);
    assert_ok(&err);
    char *text = read_whole(victim, NULL);
    assert_string_equal(text, "precious");
    free(text);
    text = read_whole(out_path(state), NULL);
    assert_string_equal(text, "data");
    free(text);
}

/* A verdict that nobody could read is no verdict. */
static void result__is_an_error__when_stdout_is_full_or_closed(void **state)
{
    static const char *const lines[][8] = {
        {"diff", CLEAN, CLEAN, "--json"},
        {"diff", CLEAN, CLEAN},
        {"generate", K25, "--tokens", "1", "-n", "1"},
        {"generate", K25, "--tokens", "1", "-n", "1", "--json"},
        {"forward", "--help"},
        {"--version"},
        {"help"},
    };
    static const char *const places[] = {"/dev/full", NULL};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        for (size_t p = 0; p < 2; p++) {
            struct cli r;
            cli_run_to(&r, places[p], lines[i]);
            assert_int_equal(r.status, 3);
            assert_string_equal(r.err, "assay: error: write result: standard output: found an "
                                       "error while writing, wanted room\n");
            cli_free(&r);
        }
    }
    (void)state;
}

static void dump__holds_only_taps__when_stdout_is_closed(void **state)
{
    struct cli r;
    const char *a = textf("%s/a", (char *)*state), *b = textf("%s/b", (char *)*state);
    json_decref(cli_passes("forward", K25, "--tokens", "1,2", "--out", a));
    cli_run_to(&r, NULL,
               (const char *const[]){"forward", K25, "--tokens", "1,2", "--out", b, NULL});
    assert_int_equal(r.status, 3);
    cli_free(&r);
    assert_same_tensors(a, b, false);
}

static void help__names_every_option__when_asked(void **state)
{
    static const char *const verbs[] = {"forward", "diff", "generate", "synth", "op", "doctor"};
    (void)state;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct cli r;
        cli(&r, verbs[i], "--help");
        assert_int_equal(r.status, 0);
        assert_string_equal(r.err, "");
        assert_non_null(strstr(r.out, textf("assay %s ", verbs[i])));
        assert_non_null(strstr(r.out, "--json"));
        cli_free(&r);
    }
    struct cli r;
    cli_run(&r, (const char *const[]){NULL});
    assert_int_equal(r.status, 2);
    assert_string_equal(r.out, "");
    assert_non_null(strstr(r.err, "assay forward"));
    cli_free(&r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(word__is_refused__when_unknown),
        TEST(words__are_refused__when_too_few_or_many),
        TEST(option__is_refused__when_its_value_is_missing_or_too_much),
        TEST(value__is_refused__when_no_number_of_the_range),
        TEST(gpu__is_never_a_pass__when_it_has_no_op),
        TEST(output__is_refused__when_it_cannot_be_a_file),
        TEST(output__is_refused__when_the_folder_is_read_only),
        TEST(output__is_refused__when_it_is_a_file_of_the_model),
        TEST(word__is_refused__when_no_utf8),
        TEST(existing_output__is_not_touched__when_the_run_fails),
        TEST(temporary_name__is_not_written_through__when_it_is_a_link),
        TEST(result__is_an_error__when_stdout_is_full_or_closed),
        TEST(dump__holds_only_taps__when_stdout_is_closed),
        TEST(help__names_every_option__when_asked),
    };
    return cmocka_run_group_tests_name("cli_usage", tests, NULL, NULL);
}
