/* test_fault_env.c: the program under the failure of its n-th malloc, write, fsync, mmap, rename,
 * open: it ends with a message or copes, and never leaves half a file. Skipped where a sanitizer
 * owns malloc. */
#include "harness/fault_env.h"
#include "tests/cli.h"

#include "core/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_SANITIZED() skip()
#else
#define SKIP_SANITIZED() (void)0
#endif

static struct fault_outcome run_one(const char *kind, int64_t call, const char *const *argv)
{
    struct err err = ERR_INIT;
    struct fault_outcome o;
    const struct fault_env f = {.kind = kind, .call = call, .limit_s = 30};
    char line[ERR_LINE];
    setenv("ASSAY_PROGRAM_FILE", ASSAY_PROGRAM, 1);
    if (fault_env_run(&f, argv, NULL, &o, &err) != ERR_OK)
        fail_msg("%s", err_line(&err, line, sizeof line));
    if (fault_env_judge(&f, &o, &err) != ERR_OK) fail_msg("%s", err_line(&err, line, sizeof line));
    return o;
}

/* A run that fails leaves nothing under the output's name; one that copes leaves what a clean run
 * does. */
static void check_output(const char *folder, const struct fault_outcome *o, const char *clean)
{
    const char *path = textf("%s/out.safetensors", folder);
    if (o->status != 0) {
        assert_int_not_equal(access(path, F_OK), 0);
    } else {
        assert_same_tensors(path, clean, false);
        assert_int_equal(unlink(path), 0);
    }
}

/* Every `step`-th call of the kind, from the first to the last, once each. */
static int64_t sweep(void **state, const char *kind, int64_t samples)
{
    const char *folder = (const char *)*state;
    const char *clean = textf("%s/clean.safetensors", folder);
    const char *const make[] = {
        "forward", FIXTURE("tiny-k25"), "--tokens", "1,2,3", "--threads", "1", "--out", clean,
        NULL};
    const char *const argv[] = {"forward",   FIXTURE("tiny-k25"),
                                "--tokens",  "1,2,3",
                                "--threads", "1",
                                "--out",     textf("%s/out.safetensors", folder),
                                NULL};
    struct cli r;
    cli_run(&r, make);
    assert_int_equal(r.status, 0);
    cli_free(&r);
    int64_t calls = run_one(kind, 0, argv).calls, injected = 0;
    assert_true(calls > 0);
    unlink(argv[7]);
    for (int64_t i = 0; i < samples && i < calls; i++) {
        int64_t at = calls <= samples
                         ? i + 1
                         : 1 + (int64_t)(synth_x(synth_base(7, kind), i) % (uint64_t)calls);
        struct fault_outcome o = run_one(kind, at, argv);
        injected += o.injected;
        if (o.status != 0) assert_true(o.injected);
        check_output(folder, &o, clean);
    }
    return injected;
}

static void write__fails_anywhere__and_nothing_half_written_stays(void **state)
{
    SKIP_SANITIZED();
    assert_true(sweep(state, "write", 20) == 20);
}

static void write__is_short__and_the_rest_follows(void **state)
{
    SKIP_SANITIZED();
    assert_true(sweep(state, "short_write", 20) == 20);
}

static void fsync_rename_open_mmap__fail__with_a_message(void **state)
{
    SKIP_SANITIZED();
    static const char *const kinds[] = {"fsync", "rename", "open", "mmap"};
    for (int i = 0; i < 4; i++) assert_true(sweep(state, kinds[i], 8) >= 1);
}

static void malloc__fails_anywhere__and_the_program_says_so(void **state)
{
    SKIP_SANITIZED();
    assert_true(sweep(state, "malloc", 80) >= 70);
}

/* One that closes its streams and stays would be waited for without end by whoever reads them. */
static void child__that_does_not_end__hangs__whether_it_holds_its_streams_or_not(void **state)
{
    static const char *const scripts[] = {"#!/bin/sh\nexec sleep 600\n",
                                          "#!/bin/sh\nexec sleep 600 > /dev/null 2>&1\n"};
    const struct fault_env f = {.kind = "rename", .call = 1, .limit_s = 1};
    const char *program = folder_path(state, "bin/program"), *const argv[] = {NULL};
    struct err err = ERR_INIT;
    char library[FILE_PATH];
    SKIP_SANITIZED();
    snprintf(library, sizeof library, "%.*s/assay_faults.so",
             (int)(strrchr(ASSAY_PROGRAM, '/') - ASSAY_PROGRAM), ASSAY_PROGRAM);
    assert_int_equal(file_make_folder(folder_path(state, "bin"), &err), ERR_OK);
    assert_int_equal(symlink(library, folder_path(state, "bin/assay_faults.so")), 0);
    for (int i = 0; i < 2; i++) {
        struct fault_outcome o;
        write_text(program, scripts[i]);
        assert_int_equal(chmod(program, 0700), 0);
        setenv("ASSAY_PROGRAM_FILE", program, 1);
        (void)!fault_env_run(&f, argv, NULL, &o, &err);
        setenv("ASSAY_PROGRAM_FILE", ASSAY_PROGRAM, 1);
        assert_ok(&err);
        assert_true(o.hung);
        assert_int_equal(fault_env_judge(&f, &o, &err), ERR_FAULT);
        assert_non_null(strstr(err.found, "no end after 1 s"));
        err_clear(&err);
    }
}

static void judge__is_red__for_a_crash_a_wrong_status_or_an_empty_message(void **state)
{
    (void)state;
    const struct fault_env f = {.kind = "write", .call = 3, .limit_s = 1};
    const struct fault_outcome bad[] = {
        {.status = -1, .signal = 11},       {.status = 2, .message = "assay: error: x\n"},
        {.status = 3, .message = ""},       {.status = 3, .message = "\n"},
        {.status = 3, .message = "a\nb\n"}, {.status = 0, .hung = true},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        assert_int_equal(fault_env_judge(&f, &bad[i], &err), ERR_FAULT);
        assert_non_null(strstr(err.where, "env.write_n@call=3"));
    }
    const struct fault_outcome good[] = {{.status = 0},
                                         {.status = 3, .message = "assay: error: x\n"}};
    for (size_t i = 0; i < 2; i++) {
        struct err err = ERR_INIT;
        assert_int_equal(fault_env_judge(&f, &good[i], &err), ERR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write__fails_anywhere__and_nothing_half_written_stays,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(write__is_short__and_the_rest_follows, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(fsync_rename_open_mmap__fail__with_a_message, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(malloc__fails_anywhere__and_the_program_says_so,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(
            child__that_does_not_end__hangs__whether_it_holds_its_streams_or_not, folder_setup,
            folder_teardown),
        cmocka_unit_test(judge__is_red__for_a_crash_a_wrong_status_or_an_empty_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
