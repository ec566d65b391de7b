/* test_cli_extract.c: verb extract as its user meets it: what must be said, refusals, a full disk,
 * signals, kill -9 and --resume. */
#include "tests/extracting.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MODEL FIXTURE("tiny-k25")
#define DATA "1,489,120"

/* The arguments of a run that is right, but for `name`, which gets another value (NULL: is left
 * out). */
static void refused_but_for(void **state, struct refusal r, const char *name, const char *value)
{
    const char *argv[24] = {"extract", MODEL};
    const char *rows[][2] = {
        {"--data", DATA},
        {"--layers", "2,3,5,6"},
        {"--numbering", "entry"},
        {"--format", "vllm"},
        {"--out", textf("%s/out", (const char *)*state)},
    };
    int n = 2;
    bool seen = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool this = strcmp(rows[i][0], name) == 0;
        seen |= this;
        if (this && !value) continue;
        argv[n++] = rows[i][0];
        argv[n++] = this ? value : rows[i][1];
    }
    if (!seen) {
        argv[n++] = name;
        if (value) argv[n++] = value;
    }
    argv[n] = NULL;
    cli_refused(state, r, argv, __FILE__, __LINE__);
}

static void options__are_refused__one_at_a_time(void **state)
{
    static const struct {
        const char *name, *value;
        struct refusal r;
    } rows[] = {
        {"--data", NULL, {2, "arguments", "extract", "no --data", "--data FILE"}},
        {"--layers", NULL, {2, "arguments", "extract", "no --layers", "--layers 2,30"}},
        {"--numbering", NULL, {2, "arguments", "extract", "no --numbering", "entry (id i enters"}},
        {"--format", NULL, {2, "arguments", "extract", "no --format", "specforge"}},
        {"--out", NULL, {2, "arguments", "extract", "no --out", "--out DIR"}},
        {"--out", "", {2, "option", "--out", "an empty path", NULL}},
        {"--numbering", "input", {2, "option", "--numbering", "\"input\"", "entry or output"}},
        {"--format", "v1", {2, "option", "--format", "\"v1\"", "speculators-v0.3 or vllm"}},
        {"--layers", "2,2,5,6", {2, "option", "--layers", "2 twice", "each id once"}},
        {"--layers", "5,2", {2, "option", "--layers", "2 after a larger one", "ascending"}},
        {"--layers", "2,7", {2, "option", "--layers", "7", "0 to 6 in entry numbering"}},
        {"--dtype", "f64", {2, "option", "--dtype", "\"f64\"", "bf16 or f16 or f32"}},
        {"--batch", "0", {2, "option", "--batch", "\"0\"", "1 to"}},
        {"--batch-tokens", "x", {2, "option", "--batch-tokens", "\"x\"", "1 to"}},
        {"--max-length", "0", {2, "option", "--max-length", "\"0\"", "1 to"}},
        {"--draft-vocab", "513", {2, "option", "--draft-vocab", "513", "1 to 512"}},
        {"--linear", "blas", {2, "option", "extract", "--linear", NULL}},
        {"--on", "tpu", {2, "option", "--on", "\"tpu\"", "ref or gpu"}},
        {"--on", "gpu", {3, "run", "--on gpu", NULL, "a CUDA device"}},
        {"--data", "nowhere.jsonl", {2, "open", "nowhere.jsonl", "No such file", NULL}},
        {"--data", "1,512", {2, "read sample", "sample 0: input_ids[1]", "512", "0 to 511"}},
        {"--out", "/dev/null/x", {2, "make folder", "/dev/null", NULL, NULL}},
        {"--out", MODEL "/config.json", {2, "make folder", "config.json", NULL, NULL}},
        {"--out", MODEL, {2, "extract", "tiny-k25", "in it", "an empty folder, or --resume"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refused_but_for(state, rows[i].r, rows[i].name, rows[i].value);
}

static void result__counts_what_was_written_and_resumed(void **state)
{
    const char *out = textf("%s/out", (const char *)*state);
    const char *data = extract_lines(state, "{\"input_ids\": [1, 2], \"loss_mask\": [0, 1]}\n"
                                            "{\"input_ids\": [3], \"loss_mask\": [1]}\n");
#define ARGS                                                                                       \
    "extract", MODEL, "--data", data, "--layers", "1,2,4,5", "--numbering", "output", "--format",  \
        "speculators-v0.3", "--out", out
    json_t *v = cli_passes(ARGS);
    assert_int_equal(field_int(v, "written"), 2);
    assert_int_equal(field_int(v, "resumed"), 0);
    assert_int_equal(json_array_size(field(v, "skipped")), 0);
    assert_int_equal(field_int(v, "tokens"), 3);
    assert_true(json_number_value(field(v, "tokens_per_second")) > 0);
    json_decref(v);
    v = cli_passes(ARGS, "--resume");
    assert_int_equal(field_int(v, "written"), 0);
    assert_int_equal(field_int(v, "resumed"), 2);
    json_decref(v);
    struct refusal full = {2, "extract", "out", "in it", "an empty folder, or --resume"};
    cli_refuses(state, full, ARGS);
    struct refusal other = {2, "resume", "out: dtype", "\"F32\"", "\"BF16\", what the samples"};
    cli_refuses(state, other, ARGS, "--resume", "--dtype", "f32");
    struct cli r;
    cli(&r, ARGS, "--resume");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "0 samples written, 2 there before, 0 skipped"));
    cli_free(&r);
#undef ARGS
}

static void bad_samples__are_listed__and_the_run_is_no_pass(void **state)
{
    const char *out = textf("%s/out", (const char *)*state);
    const char *data = extract_lines(state, "{\"input_ids\": [1], \"loss_mask\": [1]}\n"
                                            "{\"input_ids\": [1, 512], \"loss_mask\": [1, 1]}\n"
                                            "{\"input_ids\": [3], \"loss_mask\": [1]}\n");
#define ARGS                                                                                       \
    "extract", MODEL, "--data", data, "--layers", "2,6", "--numbering", "entry", "--format",       \
        "vllm", "--out", out
    struct cli r;
    cli(&r, ARGS, "--json");
    assert_int_equal(r.status, 2);
    assert_string_equal(r.err, "assay: error: read sample: sample 1 (line 2): input_ids[1]: found "
                               "512, wanted 0 to 511, the vocabulary (batch 0)\n");
    assert_int_equal(field_int(r.json, "written"), 1);
    cli_free(&r);
    assert_true(file_exists(textf("%s/hs_0.safetensors", out)));
    cli(&r, ARGS, "--resume", "--skip-bad");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "skipped read sample: sample 1 (line 2)"));
    assert_non_null(strstr(r.out, "1 samples written, 1 there before, 1 skipped"));
    assert_non_null(strstr(r.err, "assay: fail: extract: "));
    cli_free(&r);
    cli(&r, ARGS, "--resume", "--skip-bad", "--json");
    assert_int_equal(r.status, 1);
    assert_string_equal(field_text(r.json, "verdict"), "fail");
    const json_t *skipped = field(r.json, "skipped");
    assert_int_equal(json_array_size(skipped), 1);
    assert_int_equal(field_int(json_array_get(skipped, 0), "sample"), 1);
    assert_non_null(strstr(field_text(json_array_get(skipped, 0), "why"), "512"));
    cli_free(&r);
#undef ARGS
}

/* ---- the machine ---- */

/* Samples of 16 tokens: 40 of them take some tenths of a second. */
static const char *long_data(void **state, int count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (int n = 0; n < count; n++) {
        for (int i = 0; i < 16; i++) fprintf(f, "%s%d", i ? "," : "[", (n * 97 + i * 31) % 512);
        fprintf(f, "]\n");
    }
    fclose(f);
    const char *path = extract_lines(state, text);
    free(text);
    return path;
}

#define LONG_ARGS(data, out)                                                                       \
    "extract", MODEL, "--data", data, "--layers", "2,3,5,6", "--numbering", "entry", "--format",   \
        "vllm", "--batch", "1", "--out", out

static void disk__may_be_full__and_what_was_written_stays(void **state)
{
    const char *data = long_data(state, 3), *out = textf("%s/out", (const char *)*state),
               *whole = textf("%s/whole", (const char *)*state);
    /* A sample has 33 kB: the limit is met by the first. */
    struct rlimit before;
    struct cli r;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {20000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    cli(&r, LONG_ARGS(data, out), "--json");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(r.status, 3);
    const json_t *error = field(r.json, "error");
    assert_string_equal(field_text(error, "what"), "write");
    assert_non_null(strstr(field_text(error, "where"), "hs_0.safetensors"));
    assert_int_equal(field_int(r.json, "written"), 0);
    assert_false(file_exists(out));
    cli_free(&r);
    cli(&r, LONG_ARGS(data, out), "--resume");
    assert_int_equal(r.status, 0);
    cli_free(&r);
    cli(&r, LONG_ARGS(data, whole));
    cli_free(&r);
    assert_true(extract_print(out) == extract_print(whole));
}

static void folder__is_refused__when_it_is_read_only(void **state)
{
    if (geteuid() == 0) {
        print_message("skipped: root may write everywhere\n");
        skip();
    }
    const char *folder = textf("%s/sealed", (const char *)*state);
    assert_int_equal(mkdir(folder, 0555), 0);
    struct refusal r = {3, "write", "sealed", "Permission denied", "permission"};
    refused_but_for(state, r, "--out", folder);
    struct refusal below = {3, "make folder", "sealed/out", "Permission denied", "permission"};
    refused_but_for(state, below, "--out", textf("%s/out", folder));
}

/* Samples in the folder; -1: there is no folder. */
static int samples_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) return -1;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strncmp(e->d_name, "hs_", 3) == 0 && strstr(e->d_name, ".tmp-") == NULL;
    closedir(d);
    return n;
}

/* Hit once `samples` are there; taken up; the bytes of a run that was not. */
static void hit(void **state, int number, int samples)
{
    const char *data = long_data(state, 40), *out = textf("%s/out", (const char *)*state),
               *whole = textf("%s/whole", (const char *)*state);
    const char *argv[] = {LONG_ARGS(data, out), NULL};
    pid_t child = cli_start(argv);
    for (int tries = 0; tries < 20000 && samples_in(out) < samples; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    assert_int_equal(kill(child, number), 0);
    assert_int_equal(cli_wait(child), number);
    int there = samples_in(out);
    assert_in_range(there, samples, 39);
    assert_true(file_exists(textf("%s/extract.journal", out)));
    if (number != SIGKILL) assert_int_equal(folder_count(out), there + 1);
    struct cli r;
    cli(&r, LONG_ARGS(data, out), "--resume", "--json");
    assert_int_equal(r.status, 0);
    assert_int_equal(field_int(r.json, "written") + field_int(r.json, "resumed"), 40);
    assert_true(field_int(r.json, "resumed") >= samples - 1);
    cli_free(&r);
    cli(&r, LONG_ARGS(data, whole));
    assert_int_equal(r.status, 0);
    cli_free(&r);
    assert_true(extract_print(out) == extract_print(whole));
}

static void extract__keeps_whole_samples__when_interrupted(void **state)
{
    hit(state, SIGINT, 2);
}

static void extract__keeps_whole_samples__when_killed(void **state)
{
    hit(state, SIGKILL, 5);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(options__are_refused__one_at_a_time),
        TEST(result__counts_what_was_written_and_resumed),
        TEST(bad_samples__are_listed__and_the_run_is_no_pass),
        TEST(disk__may_be_full__and_what_was_written_stays),
        TEST(folder__is_refused__when_it_is_read_only),
        TEST(extract__keeps_whole_samples__when_interrupted),
        TEST(extract__keeps_whole_samples__when_killed),
    };
    return cmocka_run_group_tests_name("cli_extract", tests, NULL, NULL);
}
