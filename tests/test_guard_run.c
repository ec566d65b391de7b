/* test_guard_run.c: a guarded command behaves as it would without a guard: bytes, exit statuses,
 * signals, terminals, and what happens when the guard itself has trouble. */
#include "tests/cli.h"
#include "tests/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define SHELL(r, command) cli(r, "guard", "--", "sh", "-c", command)

static void pause_ms(int ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static void guard__passes_every_byte__of_both_streams(void **state)
{
    struct cli r;
    char *text;
    size_t size;
    const char *made = folder_path(state, "made"), *out = folder_path(state, "out");
    char *data = malloc(3000000);
    assert_non_null(data);
    for (int i = 0; i < 3000000; i++) data[i] = (char)(i * 2654435761u >> 24);
    write_whole(made, data, 3000000);
    write_text(out, "");
    cli_run_to(&r, out, (const char *const[]){"guard", "--", "cat", made, NULL});
    assert_int_equal(r.status, 0);
    text = read_whole(out, &size);
    assert_int_equal(size, 3000000);
    assert_memory_equal(text, data, size);
    free(text);
    free(data);
    cli_free(&r);
    SHELL(&r, "printf 'a\\0b'; printf 'no end' >&2");
    assert_memory_equal(r.out, "a\0b", 3);
    assert_string_equal(r.err, "no end");
    cli_free(&r);
}

static void guard__keeps_the_order__where_both_streams_are_one_file(void **state)
{
    struct cli r;
    char wanted[256];
    (void)state;
    for (int i = 0; i < 200; i++) wanted[i] = i % 2 ? 'e' : 'o';
    wanted[200] = '\0';
    cli(&r, "guard", "--json", "--", "sh", "-c",
        "i=0; while [ $i -lt 100 ]; do printf o; printf e >&2; i=$((i+1)); done");
    assert_string_equal(r.err, wanted);
    cli_free(&r);
}

/* Waits for `wanted` on a pipe, before the program has ended. */
static void assert_comes(int from, const char *wanted)
{
    char text[64] = "";
    size_t n = 0;
    while (n < strlen(wanted)) {
        ssize_t got = read(from, text + n, sizeof text - 1 - n);
        if (got <= 0) fail_msg("only <%s> came", text);
        n += (size_t)got;
    }
    assert_string_equal(text, wanted);
}

static void guard__passes_output_on__before_a_line_or_the_command_ends(void **state)
{
    int ends[2], status;
    const char *seen = folder_path(state, "seen");
    const char *script = textf("printf ask; while [ ! -e %s ]; do sleep 0.02; done", seen);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(ASSAY_PROGRAM, ASSAY_PROGRAM, "guard", "--", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    assert_comes(ends[0], "ask");
    write_text(seen, "");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
}

static void guard__names_an_error__that_a_pipeline_or_a_program_ends_well_after(void **state)
{
    static const struct {
        const char *command, *rule;
    } rows[] = {{"(echo 'fatal: no space' >&2; exit 3) | cat", "error_line"},
                {"(echo 'ERROR in step 3: '; exit 1) | cat", "empty_line"},
                {"echo 'step 3: no errors' | cat", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cli r;
        cli(&r, "guard", "--json", "--", "sh", "-c", rows[i].command);
        const json_t *list = field(r.json, "findings");
        assert_int_equal(r.status, rows[i].rule ? 1 : 0);
        assert_int_equal(json_array_size(list), rows[i].rule ? 1 : 0);
        if (rows[i].rule)
            assert_string_equal(field_text(json_array_get(list, 0), "rule"), rows[i].rule);
        cli_free(&r);
    }
}

static void guard__gives_the_commands_own_exit_status(void **state)
{
    static const struct {
        const char *command;
        int status;
    } rows[] = {{"exit 0", 0},         {"exit 1", 1},          {"exit 7", 7},
                {"exit 255", 255},     {"kill -TERM $$", 143}, {"kill -KILL $$", 137},
                {"kill -SEGV $$", 139}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cli r;
        SHELL(&r, rows[i].command);
        assert_int_equal(r.status, rows[i].status);
        assert_string_equal(r.err, "");
        cli_free(&r);
    }
}

static void guard__is_127__when_there_is_no_such_command(void **state)
{
    struct cli r;
    int status;
    pid_t child = cli_start((const char *const[]){"guard", "--", "no-such-command-here", NULL});
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 127);
    write_text(folder_path(state, "plain"), "text");
    cli(&r, "guard", "--", folder_path(state, "plain"));
    assert_int_equal(r.status, 126);
    assert_non_null(strstr(r.err, "a command that can be run"));
    cli_free(&r);
}

static void guard__leaves_standard_signals__as_they_were(void **state)
{
    struct cli r;
    (void)state;
    SHELL(&r, "grep -E 'SigBlk|SigIgn' /proc/self/status");
    char *ignored = strstr(r.out, "SigIgn:"), *blocked = strstr(r.out, "SigBlk:");
    assert_non_null(ignored);
    assert_non_null(blocked);
    assert_int_equal(strtoull(ignored + 7, NULL, 16) & (1u << (SIGPIPE - 1)), 0);
    assert_int_equal(strtoull(blocked + 7, NULL, 16), 0);
    cli_free(&r);
    SHELL(&r, "yes | head -1");
    assert_string_equal(r.out, "y\n");
    assert_string_equal(r.err, "");
    cli_free(&r);
}

static void guard__forwards_signals(void **state)
{
    const char *ready = folder_path(state, "ready"), *got = folder_path(state, "got");
    pid_t child = cli_start((const char *const[]){
        "guard", "--", "sh", "-c",
        textf("trap 'echo term > %s; exit 5' TERM; : > %s; while :; do sleep 0.02; done", got,
              ready),
        NULL});
    while (!file_exists(ready)) pause_ms(10);
    kill(child, SIGTERM);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 5);
    assert_true(file_exists(got));
}

static void guard__comes_back_with_the_command__whoever_holds_its_streams(void **state)
{
    struct cli r;
    const char *late = folder_path(state, "late"), *go = folder_path(state, "go");
    cli(&r, "guard", "--", "sh", "-c",
        textf("(while [ ! -e %s ]; do sleep 0.02; done; echo still; echo x > %s) & echo now", go,
              late));
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "now\n");
    cli_free(&r);
    write_text(go, "");
    for (int i = 0; i < 500 && !file_exists(late); i++) pause_ms(20);
    assert_true(file_exists(late)); /* its write to the stream did not end it */
}

/* Runs the program with a terminal of 33 lines and 77 columns; what it showed. */
static void in_terminal(char *text, size_t size, const char *command)
{
    struct winsize shape = {.ws_row = 33, .ws_col = 77};
    size_t n = 0;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    assert_int_equal(ioctl(master, TIOCSWINSZ, &shape), 0);
    const char *name = ptsname(master);
    assert_non_null(name);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        int slave = open(name, O_RDWR);
        for (int i = 0; i < 3; i++) dup2(slave, i);
        execl(ASSAY_PROGRAM, ASSAY_PROGRAM, "guard", "--", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (ssize_t got = 1; got > 0 && n + 1 < size; n += got > 0 ? (size_t)got : 0)
        got = read(master, text + n, size - 1 - n);
    text[n] = '\0';
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(master);
}

static void guard__leaves_a_terminal_a_terminal__with_its_size(void **state)
{
    char text[1024];
    (void)state;
    in_terminal(text, sizeof text,
                "test -t 0 && test -t 1 && test -t 2 && echo yes; stty size <&1; printf 'a\\tb'");
    assert_string_equal(text, "yes\r\n33 77\r\na\tb");
}

static void guard__runs_the_command__where_it_can_write_no_file(void **state)
{
    struct cli r;
    const char *before = getenv("TMPDIR"), *kept = before ? textf("%s", before) : NULL;
    setenv("TMPDIR", folder_path(state, "missing"), 1);
    SHELL(&r, "echo out; exit 3");
    assert_int_equal(r.status, 3);
    assert_string_equal(r.out, "out\n");
    assert_non_null(strstr(r.err, "unwatched"));
    cli_free(&r);
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    cli(&r, "guard", "--report", folder_path(state, "missing/report"), "--", "true");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, "missing/report"));
    cli_free(&r);
}

/* What nobody can watch must not come out green: an installation without the scripts is refused. */
static void guard__refuses__where_its_scripts_are_missing(void **state)
{
    int status;
    const char *program = folder_path(state, "bin/assay"), *made = folder_path(state, "made");
    const char *log = folder_path(state, "log");
    assert_int_equal(mkdir(folder_path(state, "bin"), 0700), 0);
    free(outside((const char *[]){"cp", ASSAY_PROGRAM, program, NULL}, log, &status));
    assert_int_equal(status, 0);
    char *said =
        outside((const char *[]){program, "guard", "--", "touch", made, NULL}, log, &status);
    assert_int_equal(status, 3);
    assert_non_null(strstr(said, "assay: error: guard: "));
    assert_non_null(strstr(said, "assay_guard/inject: found no such folder"));
    assert_int_equal(access(made, F_OK), -1);
    free(said);
}

static void guard__leaves_the_command_alone__when_its_watcher_is_killed(void **state)
{
    struct cli r;
    (void)state;
    /* The watcher is the guard's other child. */
    SHELL(&r, "sleep 0.1; for p in /proc/[0-9]*; do read -r _ < $p/stat || continue; "
              "set -- $(sed 's/.*) //' $p/stat 2>/dev/null); "
              "[ \"$2\" = $PPID ] && [ ${p#/proc/} != $$ ] && kill -9 ${p#/proc/}; done; "
              "sleep 0.1; echo ERROR: x; exit 0");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "ERROR: x\n");
    assert_non_null(strstr(r.err, "unwatched"));
    cli_free(&r);
}

static void guard__writes_one_report__and_nothing_on_the_streams(void **state)
{
    struct cli r;
    const char *report = folder_path(state, "report");
    cli(&r, "guard", "--report", report, "--", "sh", "-c", "echo 'ERROR in batch 0-3: '");
    assert_int_equal(r.status, 1);
    assert_string_equal(r.out, "ERROR in batch 0-3: \n");
    assert_string_equal(r.err, "");
    json_t *o = json_load_file(report, 0, NULL);
    assert_string_equal(field_text(o, "verb"), "guard");
    assert_string_equal(field_text(o, "verdict"), "fail");
    assert_int_equal(field_int(o, "command_exit"), 0);
    assert_int_equal(field_int(o, "exit"), 1);
    json_decref(o);
    cli_free(&r);
}

static void guard__cleans_up__after_itself(void **state)
{
    struct cli r;
    const char *before = getenv("TMPDIR"), *kept = before ? textf("%s", before) : NULL;
    setenv("TMPDIR", (const char *)*state, 1);
    SHELL(&r, "echo ERROR: x");
    cli_free(&r);
    assert_int_equal(folder_count((const char *)*state), 0);
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(guard__passes_every_byte__of_both_streams),
        cmocka_unit_test(guard__keeps_the_order__where_both_streams_are_one_file),
        FOLDER(guard__passes_output_on__before_a_line_or_the_command_ends),
        cmocka_unit_test(guard__names_an_error__that_a_pipeline_or_a_program_ends_well_after),
        cmocka_unit_test(guard__gives_the_commands_own_exit_status),
        FOLDER(guard__is_127__when_there_is_no_such_command),
        cmocka_unit_test(guard__leaves_standard_signals__as_they_were),
        FOLDER(guard__forwards_signals),
        FOLDER(guard__comes_back_with_the_command__whoever_holds_its_streams),
        cmocka_unit_test(guard__leaves_a_terminal_a_terminal__with_its_size),
        FOLDER(guard__runs_the_command__where_it_can_write_no_file),
        FOLDER(guard__refuses__where_its_scripts_are_missing),
        cmocka_unit_test(guard__leaves_the_command_alone__when_its_watcher_is_killed),
        FOLDER(guard__writes_one_report__and_nothing_on_the_streams),
        FOLDER(guard__cleans_up__after_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
