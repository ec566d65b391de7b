/* test_guard_stall.c: hangs, processes that die, and what is left when everything is killed. */
#include "harness/guard_stall.h"
#include "tests/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct guard_tree tree;

static void check__says_a_hang_once__and_again_after_a_sign_of_life(void **state)
{
    struct guard_stall s = {.seconds = 10};
    (void)state;
    tree = (struct guard_tree){.count = 1};
    assert_false(guard_stall_check(&s, &tree, 9.9));
    assert_true(guard_stall_check(&s, &tree, 10));
    assert_false(guard_stall_check(&s, &tree, 30));
    guard_stall_alive(&s, 30);
    assert_false(guard_stall_check(&s, &tree, 39));
    assert_true(guard_stall_check(&s, &tree, 41));
    tree.at[0].ticks = 1000; /* CPU */
    assert_false(guard_stall_check(&s, &tree, 50));
    assert_false(guard_stall_check(&s, &tree, 59));
    assert_true(guard_stall_check(&s, &tree, 60));
    s = (struct guard_stall){.seconds = 0};
    assert_false(guard_stall_check(&s, &tree, 1e9));
}

/* A program that gets no CPU uses none, and is no hang. */
static void check__takes_for_life__what_would_run(void **state)
{
    static const struct guard_tree waits = {.count = 1, .at = {{.pid = 7, .state = 'S'}}};
    static const struct guard_tree runs = {.count = 1, .at = {{.pid = 7, .state = 'R'}}};
    struct guard_stall s = {.seconds = 10};
    (void)state;
    assert_false(guard_stall_check(&s, &waits, 1));
    assert_false(guard_stall_check(&s, &runs, 10.5));
    assert_false(guard_stall_check(&s, &waits, 20));
    assert_true(guard_stall_check(&s, &waits, 20.5));
}

/* A heartbeat beside a program that hangs. */
static void check__takes_for_no_life__a_process_that_comes_and_goes(void **state)
{
    static const struct guard_tree trees[] = {
        {.count = 1, .at = {{.pid = 7, .state = 'S'}}},
        {.count = 2, .at = {{.pid = 7, .state = 'S'}, {.pid = 8, .state = 'S'}}},
        {.count = 2, .at = {{.pid = 7, .state = 'S'}, {.pid = 9, .state = 'S'}}}};
    struct guard_stall s = {.seconds = 10};
    (void)state;
    for (int i = 0; i < 10; i++) assert_false(guard_stall_check(&s, &trees[i % 3], i));
    assert_true(guard_stall_check(&s, &trees[1], 10));
}

/* A look that comes late does not know what was in between. */
static void look__leaves_out_the_time__in_which_nobody_looked(void **state)
{
    struct guard_stall s = {.seconds = 1, .since = 100};
    (void)state;
    tree = (struct guard_tree){.count = 1};
    guard_stall_look(&s, 100.1, 0.2); /* the first one */
    assert_false(guard_stall_check(&s, &tree, 100.1));
    guard_stall_look(&s, 100.4, 0.2); /* late by half a turn: that is every look's */
    assert_true(s.since == 100);
    guard_stall_look(&s, 105.4, 0.2); /* 4.8 s too late */
    assert_false(guard_stall_check(&s, &tree, 105.4));
    guard_stall_look(&s, 105.6, 0.2);
    assert_false(guard_stall_check(&s, &tree, 105.6));
    guard_stall_look(&s, 105.9, 0.2); /* 0.4 before and 0.7 after, as far as anybody looked */
    assert_true(guard_stall_check(&s, &tree, 105.9));
    guard_stall_alive(&s, 106);
    guard_stall_look(&s, 200, 0.2);
    assert_true(s.since <= 200);
    assert_false(guard_stall_check(&s, &tree, 200.8));
}

static void tree__holds_the_processes_below__and_their_signals(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGUSR2, SIG_DFL);
        if (fork() == 0) pause();
        pause();
        _exit(0);
    }
    const struct timespec pause_10ms = {.tv_nsec = 10000000};
    for (tree.count = 0; tree.count < 2; nanosleep(&pause_10ms, NULL))
        guard_tree_read(&tree, getpid(), 0);
    assert_int_equal(tree.at[0].pid, child);
    assert_int_equal(tree.at[1].parent, child);
    json_t *shown = guard_tree_show(&tree.at[0]);
    assert_non_null(strstr(field_text(shown, "command"), "test_guard_stall"));
    json_decref(shown);
    assert_false(guard_tree_catches(child, SIGUSR2));
    kill(tree.at[1].pid, SIGKILL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    guard_tree_read(&tree, getpid(), 0);
    assert_int_equal(tree.count, 0);
}

static void *spin(void *arg)
{
    volatile unsigned long *turns = arg;
    for (;;) ++*turns;
    return NULL;
}

/* A process of its own: its first thread waits, and with `spins` a second one runs. */
static pid_t waiting(bool spins)
{
    pid_t child = fork();
    if (child != 0) return child;
    static unsigned long turns;
    pthread_t thread;
    if (spins && pthread_create(&thread, NULL, spin, &turns) != 0) _exit(1);
    for (;;) pause();
}

/* A thread that would run is a sign of life whether or not it was given a CPU. */
static void tree__runs__while_one_thread_of_one_process_would(void **state)
{
    (void)state;
    const struct timespec pause_10ms = {.tv_nsec = 10000000};
    pid_t still = waiting(false), busy = waiting(true);
    for (tree.count = 0; tree.count < 2 || !guard_tree_runs(&tree); nanosleep(&pause_10ms, NULL))
        guard_tree_read(&tree, getpid(), 0);
    for (int i = 0; i < 20; i++) assert_true(guard_tree_runs(&tree)); /* it never waits */
    kill(busy, SIGKILL);
    assert_int_equal(waitpid(busy, NULL, 0), busy);
    while (guard_tree_runs(&tree)) nanosleep(&pause_10ms, NULL); /* until the other one waits */
    guard_tree_read(&tree, getpid(), 0);
    assert_int_equal(tree.count, 1);
    kill(still, SIGKILL);
    assert_int_equal(waitpid(still, NULL, 0), still);
}

static const char *python(void)
{
    const char *given = getenv("ASSAY_PYTHON");
    return given ? given : "python3";
}

static void guard__shows_all_stacks_of_a_hang__and_ends_it_when_asked(void **state)
{
    struct cli r;
    const char *script = folder_path(state, "hang.py");
    char *text;
    write_text(script, "import multiprocessing as m, subprocess, time\n"
                       "def wait_for_reply(q): q.get()\n"
                       "if __name__ == '__main__':\n"
                       "    q = m.get_context('fork').Queue()\n"
                       "    m.get_context('fork').Process(target=wait_for_reply, args=(q,), "
                       "daemon=True).start()\n"
                       "    subprocess.Popen(['sleep', '1000'])\n"
                       "    def collective(): time.sleep(1000)\n"
                       "    collective()\n");
    cli(&r, "guard", "--json", "--stall", "3", "--on-stall", "kill", "--", python(), script);
    assert_int_equal(r.status, 128 + SIGTERM);
    const json_t *one = json_array_get(field(r.json, "findings"), 0);
    assert_string_equal(field_text(one, "rule"), "hang");
    text = json_dumps(field(one, "processes"), 0);
    static const char *const shown[] = {"in wait_for_reply", "in collective", "sleep 1000"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        if (!strstr(text, shown[i])) fail_msg("no \"%s\" in %s", shown[i], text);
    }
    if (json_array_size(field(one, "processes")) != 3) fail_msg("not three: %s", text);
    free(text);
    cli_free(&r);
}

static void guard__takes_no_busy_or_talking_program_for_a_hang(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "guard", "--json", "--stall", "2", "--", "sh", "-c",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.2; echo $i; done");
    assert_int_equal(r.status, 0);
    assert_int_equal(json_array_size(field(r.json, "findings")), 0);
    cli_free(&r);
}

/* The command goes on until the process that it left behind has been waited for: how long that
 * takes is the machine's affair. */
static void guard__reports_processes_that_nobody_waits_for(void **state)
{
    static const struct {
        const char *inner, *rule;
    } rows[] = {{"kill -9 $$", "worker_died"},
                {"exit 3", "child_status"},
                {"exit 0", NULL},
                {"kill -TERM $$", NULL}};
    const char *left = folder_path(state, "left");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cli r;
        cli(&r, "guard", "--json", "--", "sh", "-c",
            textf("sh -c '(sleep 0.1; %s) & echo $! > %s'; "
                  "while kill -0 $(cat %s) 2> %s.err; do sleep 0.02; done",
                  i == 0 || i == 3
                      ? textf("exec sh -c \"%s\"", i ? "kill -TERM \\$\\$" : "kill -9 \\$\\$")
                      : rows[i].inner,
                  left, left, left));
        assert_int_equal(r.status, rows[i].rule ? 1 : 0);
        assert_int_equal(json_array_size(field(r.json, "findings")), rows[i].rule ? 1 : 0);
        if (rows[i].rule)
            assert_string_equal(field_text(json_array_get(field(r.json, "findings"), 0), "rule"),
                                rows[i].rule);
        cli_free(&r);
    }
}

static void guard__reads_the_logs_that_are_named__from_where_they_were(void **state)
{
    struct cli r;
    const char *log = folder_path(state, "app.log");
    write_text(log, "ERROR in batch 0-0: \n");
    cli(&r, "guard", "--json", "--logs", log, "--", "sh", "-c",
        textf("echo 'ERROR in batch 4-7: ' >> %s", log));
    assert_int_equal(r.status, 1);
    assert_int_equal(json_array_size(field(r.json, "findings")), 1);
    const json_t *one = json_array_get(field(r.json, "findings"), 0);
    assert_string_equal(field_text(one, "file"), log);
    assert_string_equal(field_text(one, "message"), "ERROR in batch 4-7: ");
    cli_free(&r);
}

static void guard__keeps_its_log__when_everything_is_killed(void **state)
{
    const char *log = folder_path(state, "guard.jsonl"), *script = folder_path(state, "killed.py");
    char *text;
    size_t size;
    write_text(script, "import os, time\ntry: assert 0\nexcept Exception: pass\n"
                       "os.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)\n");
    pid_t child =
        cli_start((const char *const[]){"guard", "--log", log, "--", python(), script, NULL});
    assert_int_equal(cli_wait(child), SIGKILL);
    const struct timespec pause_10ms = {.tv_nsec = 10000000};
    enum { TURNS = 6000 }; /* a minute, on a machine that does something else */
    for (int i = 0; i < TURNS; i++) {
        text = read_whole(log, &size);
        if (strstr(text, "AssertionError")) break;
        free(text);
        nanosleep(&pause_10ms, NULL);
        assert_true(i + 1 < TURNS);
    }
    assert_non_null(strstr(text, "\"rule\": \"swallowed\""));
    free(text);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__says_a_hang_once__and_again_after_a_sign_of_life),
        cmocka_unit_test(check__takes_for_life__what_would_run),
        cmocka_unit_test(check__takes_for_no_life__a_process_that_comes_and_goes),
        cmocka_unit_test(look__leaves_out_the_time__in_which_nobody_looked),
        cmocka_unit_test(tree__holds_the_processes_below__and_their_signals),
        cmocka_unit_test(tree__runs__while_one_thread_of_one_process_would),
        FOLDER(guard__shows_all_stacks_of_a_hang__and_ends_it_when_asked),
        cmocka_unit_test(guard__takes_no_busy_or_talking_program_for_a_hang),
        FOLDER(guard__reports_processes_that_nobody_waits_for),
        FOLDER(guard__reads_the_logs_that_are_named__from_where_they_were),
        FOLDER(guard__keeps_its_log__when_everything_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
