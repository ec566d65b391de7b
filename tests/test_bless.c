/* test_bless.c: goldens of one's own engine: shown before they are written, written whole and only
 * from a green plan, with their provenance; a golden of another checkpoint or config is refused. */
#include "core/checkpoint.h"
#include "harness/bless.h"
#include "tests/cli.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define K25 FIXTURE("tiny-k25")
#define SYNTH(seed) "synth:" K25 "/config.json?seed=" #seed
#define PLAN(model, options, more)                                                                 \
    "assay: 1\nmodel: " model "\ntokens: 1,489,120\nsteps:\n"                                      \
    "  - name: mine\n    forward: {layers: '0:2', " options "}\n"                                  \
    "  - name: same\n    diff: {subject: mine, truth: golden.safetensors, bound: 1e-6, "           \
    "bless: true}\n" more

/* Runs `text` with one more option, or none. The object is the caller's. */
static json_t *run_plan(void **state, const char *text, const char *option, int status)
{
    struct cli r;
    write_text(folder_path(state, "p.yaml"), text);
    cli(&r, "run", folder_path(state, "p.yaml"), "--json", "--out", folder_path(state, "out"),
        option);
    if (r.status != status) print_error("%s\n%s\n%s\n", text, r.err, r.out);
    assert_int_equal(r.status, status);
    json_t *j = json_incref(r.json);
    assert_non_null(j);
    cli_free(&r);
    return j;
}

static void bless(void **state, const char *text)
{
    json_decref(run_plan(state, text, "--bless=write", 0));
}

static const json_t *blessed(const json_t *j)
{
    assert_int_equal(json_array_size(field(j, "blessed")), 1);
    return json_array_get(field(j, "blessed"), 0);
}

static char *golden_bytes(void **state, size_t *size)
{
    return read_whole(folder_path(state, "golden.safetensors"), size);
}

static void assert_golden(void **state, const char *bytes, size_t size)
{
    size_t now_size;
    char *now = golden_bytes(state, &now_size);
    assert_int_equal(now_size, size);
    assert_memory_equal(now, bytes, size);
    free(now);
}

static void bless__shows__and_then_writes(void **state)
{
    static const char plan[] = PLAN(K25, "precision: f32", "");
    json_t *j = run_plan(state, plan, NULL, 2);
    assert_non_null(strstr(field_text(field(j, "error"), "found"), "no golden yet"));
    json_decref(j);
    for (int i = 0; i < 2; i++) { /* no terminal: show */
        j = run_plan(state, plan, i ? "--bless" : "--bless=show", 1);
        assert_true(json_is_true(field(blessed(j), "fresh")));
        assert_true(json_is_false(field(blessed(j), "written")));
        assert_int_equal(json_array_size(field(blessed(j), "taps")), 24);
        assert_string_equal(field_text(named(field(blessed(j), "taps"), "embed"), "change"),
                            "added");
        assert_false(file_exists(folder_path(state, "golden.safetensors")));
        json_decref(j);
    }
    j = run_plan(state, plan, "--bless=write", 0);
    assert_true(json_is_true(field(blessed(j), "written")));
    assert_int_equal(field_int(j, "compared"), 24); /* the file as written, read back */
    assert_int_equal(field_int(j, "passed"), 2);
    json_decref(j);
    assert_same_tensors(folder_path(state, "golden.safetensors"),
                        folder_path(state, "out/mine.safetensors"), false);
    j = run_plan(state, plan, NULL, 0);
    assert_int_equal(field_int(j, "compared"), 24);
    json_decref(j);
}

static void golden__carries_its_provenance(void **state)
{
    struct dump d;
    struct err err = ERR_INIT;
    bless(state, PLAN(K25, "profile: hf", ""));
    (void)!dump_open(&d, folder_path(state, "golden.safetensors"), &err);
    assert_ok(&err);
    assert_string_equal(st_meta(&d.file, "assay.golden"), "1");
    assert_string_equal(d.engine, "assay ref");
    assert_string_equal(st_meta(&d.file, "assay.engine_version"), ASSAY_VERSION);
    assert_string_equal(d.profile, "hf");
    assert_int_equal(strlen(d.config_sha256), 64);
    assert_int_equal(strncmp(d.checkpoint, "sha256:", 7), 0);
    assert_int_equal(strlen(d.checkpoint), 7 + 64);
    assert_int_equal(strlen(st_meta(&d.file, "assay.date")), 20);
    assert_non_null(strstr(st_meta(&d.file, "assay.command"), "p.yaml --bless"));
    assert_string_equal(st_meta(&d.file, "assay.tokens"), "[1,489,120]");
    assert_int_equal(d.promised_count, 24);
    dump_close(&d);
}

static void bless__shows_each_change__and_only_green_plans_write(void **state)
{
    size_t size;
    bless(state, PLAN(K25, "profile: hf", ""));
    char *bytes = golden_bytes(state, &size);
    struct stat before, after;
    assert_int_equal(stat(folder_path(state, "golden.safetensors"), &before), 0);
    json_t *j = run_plan(state, PLAN(K25, "profile: hf", ""), "--bless=write", 0);
    assert_int_equal(stat(folder_path(state, "golden.safetensors"), &after), 0);
    assert_true(before.st_ino == after.st_ino); /* not even replaced by the same */
    assert_int_equal(field_int(blessed(j), "changes"), 0);
    assert_true(json_is_false(field(blessed(j), "written")));
    assert_golden(state, bytes, size);
    json_decref(j);

    json_decref(run_plan(state, PLAN(K25, "profile: math", ""), NULL, 1));
    j = run_plan(state, PLAN(K25, "taps: ['*mlp', final_nor?, '*attn'], profile: math", ""),
                 "--bless=show", 2);
    json_decref(j);
    j = run_plan(state, PLAN(K25, "taps: ['*mlp', '*attn'], profile: math", ""), "--bless=show", 1);
    const json_t *taps = field(blessed(j), "taps");
    assert_string_equal(field_text(named(taps, "layers.1.mlp"), "change"), "changed");
    double rel = json_real_value(field(named(taps, "layers.1.mlp"), "rel_rms"));
    assert_true(rel > 1e-4 && rel < 0.1);
    assert_string_equal(field_text(named(taps, "embed"), "change"), "removed");
    assert_string_equal(
        json_string_value(field(json_array_get(field(blessed(j), "meta"), 0), "key")),
        "assay.profile");
    assert_golden(state, bytes, size);
    json_decref(j);

    j = run_plan(state, PLAN(K25, "dump-dtype: f64, rows: '1:3', profile: hf", ""), "--bless=show",
                 1);
    assert_string_equal(field_text(named(field(blessed(j), "taps"), "embed"), "change"),
                        "another type or shape");
    json_decref(j);

    static const char red[] = PLAN(K25, "profile: math",
                                   "  - diff: {subject: mine, truth: mine}\n"
                                   "    expect: {verdict: fail}\n");
    j = run_plan(state, red, "--bless=write", 1);
    assert_string_equal(json_string_value(json_array_get(field(j, "why"), 0)),
                        "a golden was not recorded: the plan is red");
    assert_golden(state, bytes, size);
    json_decref(j);

    j = run_plan(state, PLAN(K25, "profile: math", ""), "--bless=write", 0);
    assert_int_equal(field_int(j, "compared"), 24);
    assert_int_equal(field_int(j, "passed"), 2);
    json_decref(j);
    json_decref(run_plan(state, PLAN(K25, "profile: math", ""), NULL, 0));
    free(bytes);
}

static void bless__writes__on_a_terminal(void **state)
{
    const char *plan = textf("%s/p.yaml", (const char *)*state);
    const char *out = textf("%s/out", (const char *)*state);
    int master, status = 0;
    char seen[8192] = "";
    size_t used = 0;
    write_text(plan, PLAN(K25, "precision: f32", ""));
    fflush(NULL);
    pid_t child = forkpty(&master, NULL, NULL, NULL);
    assert_true(child >= 0);
    if (child == 0) {
        execl(ASSAY_PROGRAM, ASSAY_PROGRAM, "run", plan, "--bless", "--out", out, (char *)NULL);
        _exit(127);
    }
    for (ssize_t n; used < sizeof seen - 1; used += (size_t)n) {
        n = read(master, seen + used, sizeof seen - 1 - used);
        if (n <= 0) break;
    }
    close(master);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0) print_error("%s\n", seen);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_non_null(strstr(seen, "golden.safetensors: new, 24 taps differ"));
    assert_non_null(strstr(seen, "... and 12 more"));
    assert_true(file_exists(folder_path(state, "golden.safetensors")));
}

static void bless__refuses(void **state)
{
    static const char plan[] = PLAN(K25, "precision: f32", "");
    struct refusal r = {2, "run --bless", "p.yaml", "no step to record", "bless: true"};
    const char *path = textf("%s/p.yaml", (const char *)*state);
    const char *out = textf("%s/out", (const char *)*state);
    write_text(path, "assay: 1\nsteps:\n  - diff: {subject: a, truth: b}\n");
    cli_refuses(state, r, "run", path, "--bless", "--out", out);
    r = (struct refusal){2, "option", "--bless", "\"maybe\"", "show or write"};
    cli_refuses(state, r, "run", path, "--bless=maybe", "--out", out);
    /* What an outside implementation wrote is not ours to replace. */
    struct st_part part = {"embed", DT_F32, 2, {3, 4}, NULL};
    write_safetensors(folder_path(state, "golden.safetensors"), &part, 1, NULL, 0);
    json_t *j = run_plan(state, plan, "--bless=write", 2);
    assert_non_null(strstr(field_text(field(j, "error"), "found"), "did not record"));
    json_decref(j);
    assert_int_equal(remove(folder_path(state, "golden.safetensors")), 0);
    /* A subject that says too little, or contradicts the model. */
    const struct {
        struct st_meta meta[3];
        int metas;
        const char *model, *found;
    } rows[] = {
        {{{"x", "y"}}, 1, "model: " K25 "\n", "no engine"},
        {{{"engine", "e"}}, 1, "", "no assay.config_sha256"},
        {{{"engine", "e"}, {"assay.config_sha256", "c"}}, 2, "", "no assay.checkpoint"},
        {{{"engine", "e"}, {"assay.config_sha256", "c"}}, 2, "model: " K25 "\n", "c"},
        {{{"engine", "e"}, {"assay.checkpoint", "sha256:d"}}, 2, "model: " K25 "\n", "sha256:d"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_safetensors(folder_path(state, "s.safetensors"), &part, 1, rows[i].meta,
                          rows[i].metas);
        j = run_plan(state,
                     textf("assay: 1\n%ssteps:\n  - diff: {subject: s.safetensors, truth: "
                           "golden.safetensors, bless: true}\n",
                           rows[i].model),
                     "--bless=write", 2);
        assert_non_null(strstr(field_text(field(j, "error"), "found"), rows[i].found));
        json_decref(j);
        assert_false(file_exists(folder_path(state, "golden.safetensors")));
    }
    j = run_plan(state,
                 "assay: 1\nmodel: " K25 "\nsteps:\n  - diff: {subject: s.safetensors, truth: "
                 "none/golden.safetensors, bless: true}\n",
                 "--bless=write", 2);
    json_decref(j);
    assert_int_equal(folder_count(*state), 3); /* p.yaml, out, s.safetensors */
}

/* A foreign engine's dump takes config and checkpoint from the plan's model. */
static void bless__takes_the_rest_from_the_model__and_a_missing_folder_is_an_error(void **state)
{
    struct dump d;
    struct err err = ERR_INIT;
    struct st_part part = {"embed", DT_F32, 2, {3, 4}, NULL};
    const struct st_meta meta = {"engine", "mine 2.1"};
    write_safetensors(folder_path(state, "s.safetensors"), &part, 1, &meta, 1);
    bless(state, "assay: 1\nmodel: " SYNTH(1) "\nsteps:\n  - diff: {subject: s.safetensors, truth: "
                                              "golden.safetensors, bless: true}\n");
    (void)!dump_open(&d, folder_path(state, "golden.safetensors"), &err);
    assert_ok(&err);
    assert_string_equal(d.engine, "mine 2.1");
    assert_int_equal(strlen(d.config_sha256), 64);
    assert_string_equal(d.checkpoint, "synth:seed=1,latent_gain=1");
    dump_close(&d);
    json_t *j = run_plan(state,
                         "assay: 1\nmodel: " K25 "\nsteps:\n  - diff: {subject: s.safetensors, "
                         "truth: none/golden.safetensors, bless: true}\n",
                         "--bless=write", 2);
    assert_true(json_is_false(field(blessed(j), "written")));
    json_decref(j);
    assert_false(file_exists(folder_path(state, "none")));
}

static void diff__refuses_a_golden_of_another_checkpoint_or_config(void **state)
{
    static const char other[] = PLAN(SYNTH(2), "precision: f32", "");
    bless(state, PLAN(SYNTH(1), "precision: f32", ""));
    json_t *j = run_plan(state, other, NULL, 2);
    const json_t *error = field(j, "error");
    assert_non_null(strstr(field_text(error, "found"), "checkpoint synth:seed=2"));
    assert_non_null(strstr(field_text(error, "found"), "beside synth:seed=1"));
    assert_non_null(strstr(field_text(error, "where"), "mine.safetensors and "));
    assert_non_null(strstr(field_text(error, "where"), "golden.safetensors"));
    json_decref(j);
    j = run_plan(state,
                 PLAN("synth:" FIXTURE("tiny-dsv3/config.json?seed=1"), "precision: f32", ""), NULL,
                 2);
    assert_non_null(strstr(field_text(field(j, "error"), "found"), "config "));
    json_decref(j);
    /* The golden may be replaced all the same, and the show says what it is of. */
    j = run_plan(state, other, "--bless=show", 1);
    assert_string_equal(field_text(json_array_get(field(blessed(j), "meta"), 0), "key"),
                        "assay.checkpoint");
    json_decref(j);
    bless(state, other);
    json_decref(run_plan(state, other, NULL, 0));
}

static void name_of(const char *model, char out[CHECKPOINT_TEXT])
{
    struct weights w;
    struct err err = ERR_INIT;
    (void)!weights_open(&w, model, &err);
    assert_ok(&err);
    assert_int_equal(checkpoint_name(&w, out, &err), ERR_OK);
    weights_close(&w);
}

/* Same header, a 64th of the data changed by a bit a byte: another checkpoint, wherever it lies. */
static void checkpoint__is_told_by_its_data(void **state)
{
    char first[CHECKPOINT_TEXT], now[CHECKPOINT_TEXT];
    const char *model = small_model(state, "m"), *shard = textf("%s/model.safetensors", model);
    size_t size, header = 0;
    unsigned char *bytes = (unsigned char *)read_whole(shard, &size);
    for (int i = 7; i >= 0; i--) header = header << 8 | bytes[i];
    header += 8;
    const size_t part = (size - header) / 63 + 64;
    name_of(model, first);
    for (size_t at = header; at < size; at += part) {
        size_t end = at + part < size ? at + part : size;
        if (end == size) at = size - part;
        for (size_t i = at; i < end; i++) bytes[i] ^= 1;
        write_whole(shard, bytes, size);
        name_of(model, now);
        assert_true(checkpoint_contradicts(first, now));
        for (size_t i = at; i < end; i++) bytes[i] ^= 1;
    }
    write_whole(shard, bytes, size);
    name_of(model, now);
    assert_string_equal(first, now);
    free(bytes);
}

static void checkpoint__contradicts__within_one_kind(void **state)
{
    (void)state;
    assert_true(checkpoint_contradicts("sha256:a", "sha256:b"));
    assert_false(checkpoint_contradicts("sha256:a", "sha256:a"));
    assert_false(checkpoint_contradicts("sha256:a", "synth:a"));
    assert_false(checkpoint_contradicts("sha256:a", ""));
    assert_false(checkpoint_contradicts("", "sha256:a"));
    assert_true(checkpoint_contradicts("synth:seed=1", "synth:seed=12"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        CASE(bless__shows__and_then_writes),
        CASE(golden__carries_its_provenance),
        CASE(bless__shows_each_change__and_only_green_plans_write),
        CASE(bless__writes__on_a_terminal),
        CASE(bless__refuses),
        CASE(bless__takes_the_rest_from_the_model__and_a_missing_folder_is_an_error),
        CASE(diff__refuses_a_golden_of_another_checkpoint_or_config),
        CASE(checkpoint__is_told_by_its_data),
        cmocka_unit_test(checkpoint__contradicts__within_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
