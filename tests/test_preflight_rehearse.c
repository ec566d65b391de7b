/* test_preflight_rehearse.c: `preflight --rehearse`: the user's own commands on a small checkpoint,
 * under guard, within their time, and nothing left behind. */
#include "core/file.h"
#include "harness/preflight_shrink.h"
#include "tests/preflighting.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int setup(void **state)
{
    struct err err = ERR_INIT;
    if (folder_setup(state) != 0) return -1;
    (void)!file_make_folder(folder_path(state, "tmp"), &err);
    setenv("TMPDIR", folder_path(state, "tmp"), 1);
    return err.code;
}

static int teardown(void **state)
{
    unsetenv("TMPDIR");
    return folder_teardown(state);
}

#define PLAN(more)                                                                                 \
    "assay: 1\nmodel: " FIXTURE(                                                                   \
        "tiny-k25") "\npreflight:\n  load_minutes: 18\n  layers: [1, 2, 5]\n"                      \
                    "  numbering: output\n  rehearse: " more "\n"

static void assert_nothing_left(void **state)
{
    assert_int_equal(folder_count(folder_path(state, "tmp")), 0);
}

/* Waits until `name` holds the number of a process; gives it. */
static int pid_in(void **state, const char *name)
{
    for (int i = 0; i < 2000; i++) {
        const struct timespec tick = {0, 10000000};
        FILE *f = fopen(folder_path(state, name), "r");
        int pid = 0, got = f ? fscanf(f, "%d\n", &pid) : 0;
        if (f) fclose(f);
        if (got == 1) return pid;
        nanosleep(&tick, NULL);
    }
    fail_msg("no process number in %s", name);
    return 0;
}

static void assert_gone(void **state, const char *name)
{
    assert_int_equal(kill(pid_in(state, name), 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void rehearsal__shows_the_error__behind_the_empty_line(void **state)
{
    json_t *r = rehearsed(
        state, PLAN("{run: \"python3 " FIXTURE("story/generate.py") " {model} {out}\"}"), 1);
    const json_t *f = finding_of(r, "rehearsal.empty_text");
    assert_non_null(f);
    assert_holds(f, "message", "AssertionError: (an empty text)");
    assert_holds(f, "message", "generate.py:41");
    assert_holds(f, "file", "generate.py");
    assert_int_equal(field_int(f, "line"), 16);
    assert_holds(f, "found", "a = 0, b = 3");
    assert_true(json_number_value(field(f, "minutes")) >= 18);
    const json_t *run = json_array_get(field(field(r, "rehearsal"), "runs"), 0);
    assert_int_equal(field_int(run, "exit"), 0);
    assert_holds(run, "output", "ERROR in batch 0-3: ");
    assert_int_equal(json_array_size(field(run, "findings")), 1);
    json_decref(r);
    assert_nothing_left(state);
    /* Only where it is asked for. */
    r = preflighted(state,
                    PLAN("{run: \"python3 " FIXTURE("story/generate.py") " {model} {out}\"}"), 0);
    assert_null(json_object_get(r, "rehearsal"));
    json_decref(r);
}

static void rehearsal__is_green__where_all_goes_well(void **state)
{
    json_t *r =
        rehearsed(state,
                  PLAN("{run: [\"" ASSAY_PROGRAM " inspect {model}\", \"test -e p.yaml\", "
                       "\"test {layers} = 1,2,5 && ls {model} > {out}/list\", \"ls {model}\"]}"),
                  0);
    assert_string_equal(field_text(check_of(r, "rehearsal"), "state"), "checked");
    /* Layers keep their number where ids name them; a shard for each, and one for the rest. */
    const json_t *run = json_array_get(field(field(r, "rehearsal"), "runs"), 0);
    assert_int_equal(field_int(run, "exit"), 0);
    run = json_array_get(field(field(r, "rehearsal"), "runs"), 3);
    assert_holds(run, "output", "config.json|golden.json|model.safetensors");
    assert_null(strstr(field_text(field(r, "rehearsal"), "shrink"), "layers="));
    json_decref(r);
    assert_nothing_left(state);
}

static void rehearsal__tells_a_status_and_an_end_in_time(void **state)
{
    json_t *r = rehearsed(state, PLAN("{run: \"ls {model}; echo why >&2; exit 3\"}"), 1);
    const json_t *f = finding_of(r, "rehearsal.exit");
    assert_holds(f, "message", "status 3");
    assert_holds(f, "found", "why");
    assert_int_equal(field_int(f, "line"), 7);
    json_decref(r);
    const char *plan = textf(PLAN("{seconds: 1, run: \"echo $$ > %s; echo {model}; exec sleep "
                                  "1000\"}"),
                             folder_path(state, "pid"));
    r = rehearsed(state, plan, 1);
    assert_holds(finding_of(r, "rehearsal.time"), "message", "did not end in 1 s");
    json_decref(r);
    assert_gone(state, "pid");
    assert_nothing_left(state);
}

static void rehearsal__leaves_no_process__that_has_left_its_group(void **state)
{
    const char *plan =
        textf(PLAN("{run: \"setsid sh -c 'echo $$ > %s; exec sleep 1000' & sleep 1; ls {model}\"}"),
              folder_path(state, "pid"));
    json_decref(rehearsed(state, plan, 0));
    assert_gone(state, "pid");
}

static void rehearsal__warns__where_nothing_is_written(void **state)
{
    json_t *r = rehearsed(state, PLAN("{run: \"ls {model} {out}\"}"), 1);
    const json_t *f = finding_of(r, "rehearsal.nothing");
    assert_string_equal(field_text(f, "severity"), "warning");
    assert_int_equal(field_int(f, "line"), 7);
    json_decref(r);
}

static void rehearsal__brings_the_tokenizer_along__and_its_vocabulary(void **state)
{
    size_t size;
    char *config = read_whole(FIXTURE("full-k25-2l/config.json"), &size);
    struct err err = ERR_INIT;
    (void)!file_make_folder(folder_path(state, "m"), &err);
    write_text(folder_path(state, "m/config.json"), config);
    write_text(folder_path(state, "m/tokenizer.json"), "{}");
    write_text(folder_path(state, "m/model.safetensors"), "cut");
    free(config);
    static const char plan[] =
        "assay: 1\nmodel: m\npreflight:\n  rehearse: {run: \"cp {model}/* {out}; grep -c "
        "vocab_size.*:.2048 {model}/config.json; test -L {model}/tokenizer.json\"}\n";
    json_t *r = rehearsed(state, plan, 1); /* the checkpoint itself is cut short */
    assert_null(finding_of(r, "rehearsal.exit"));
    assert_null(strstr(field_text(field(r, "rehearsal"), "shrink"), "vocab"));
    assert_non_null(strstr(field_text(field(r, "rehearsal"), "shrink"), "experts=8"));
    json_decref(r);
}

static void rehearsal__says_so__where_there_is_no_small_checkpoint(void **state)
{
    json_t *r = rehearsed(state, PLAN("{run: \"ls {model}\", shrink: \"layers=99\"}"), 3);
    assert_holds(json_array_get(field(r, "not_checked"), 0), "why", "layers");
    json_decref(r);
    assert_nothing_left(state);
}

static void rehearsal__removes_everything__also_after_a_signal(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    char *path = strdup(folder_path(state, "p.yaml"));
    for (int i = 0; i < 3; i++) {
        const char *pid_name = textf("pid-%d", i);
        signal(numbers[i], SIG_DFL); /* the tests may run under nohup */
        write_text(path, textf(PLAN("{run: \"echo $$ > %s; echo {model}; exec sleep 1000\"}"),
                               folder_path(state, pid_name)));
        pid_t child = cli_start((const char *const[]){"preflight", path, "--rehearse", NULL});
        int sleeper = pid_in(state, pid_name);
        assert_true(folder_count(folder_path(state, "tmp")) > 0);
        kill(child, numbers[i]);
        assert_int_equal(cli_wait(child), numbers[i]);
        assert_int_equal(kill(sleeper, 0), -1);
        assert_nothing_left(state);
    }
    free(path);
}

/* What nohup ignores stays ignored. */
static void rehearsal__goes_on__where_the_signal_is_ignored(void **state)
{
    char *path = strdup(folder_path(state, "p.yaml"));
    write_text(path, textf(PLAN("{run: \"echo $$ > %s; ls {model}; sleep 1; touch %s\"}"),
                           folder_path(state, "pid"), folder_path(state, "done")));
    signal(SIGHUP, SIG_IGN);
    pid_t child = cli_start((const char *const[]){"preflight", path, "--rehearse", NULL});
    signal(SIGHUP, SIG_DFL);
    (void)pid_in(state, "pid");
    kill(child, SIGHUP);
    assert_int_equal(cli_wait(child), 0); /* no signal ended it */
    assert_true(file_exists(folder_path(state, "done")));
    assert_nothing_left(state);
    free(path);
}

static void shrink__keeps_what_must_stay(void **state)
{
    char out[256];
    (void)state;
    struct config c = {.layers = 61,
                       .experts = 384,
                       .top_k = 8,
                       .groups = 1,
                       .top_groups = 1,
                       .vocab = 163840,
                       .hidden = 7168,
                       .heads = 64,
                       .intermediate = 18432,
                       .moe_intermediate = 2048,
                       .q_lora = 1536,
                       .kv_lora = 512,
                       .quant = {.group = 32}};
    assert_string_equal(preflight_shrink(&c, false, false, out, sizeof out),
                        "layers=4,experts=8,vocab=2048,hidden=256,heads=4,intermediate=256,"
                        "moe_intermediate=128,q_lora=64,kv_lora=64");
    assert_string_equal(preflight_shrink(&c, true, true, out, sizeof out),
                        "experts=8,hidden=256,heads=4,intermediate=256,moe_intermediate=128,"
                        "q_lora=64,kv_lora=64");
    /* V3's groups: eight, of which four are chosen from; two experts each. */
    c.groups = 8;
    c.top_groups = 4;
    c.quant.group = 96;
    c.q_lora = 0;
    assert_string_equal(preflight_shrink(&c, true, true, out, sizeof out),
                        "experts=16,hidden=288,heads=4,intermediate=288,moe_intermediate=192,"
                        "kv_lora=64");
    c = (struct config){.layers = 2, .experts = 2, .top_k = 1, .groups = 1, .top_groups = 1};
    assert_string_equal(preflight_shrink(&c, false, false, out, sizeof out), "");
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rehearsal__shows_the_error__behind_the_empty_line),
        TEST(rehearsal__is_green__where_all_goes_well),
        TEST(rehearsal__tells_a_status_and_an_end_in_time),
        TEST(rehearsal__leaves_no_process__that_has_left_its_group),
        TEST(rehearsal__warns__where_nothing_is_written),
        TEST(rehearsal__brings_the_tokenizer_along__and_its_vocabulary),
        TEST(rehearsal__says_so__where_there_is_no_small_checkpoint),
        TEST(rehearsal__removes_everything__also_after_a_signal),
        TEST(rehearsal__goes_on__where_the_signal_is_ignored),
        cmocka_unit_test(shrink__keeps_what_must_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
