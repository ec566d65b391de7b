/* test_guard_stall.c: hangs, processes that die, and what is left when everything is killed. */
#include "harness/guard_stall.h"
#include "tests/cli.h"

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
    cli(&r, "guard", "--json", "--stall", "0.7", "--on-stall", "kill", "--", python(), script);
    assert_int_equal(r.status, 128 + SIGTERM);
    const json_t *one = json_array_get(field(r.json, "findings"), 0);
    assert_string_equal(field_text(one, "rule"), "hang");
    assert_int_equal(json_array_size(field(one, "processes")), 3);
    text = json_dumps(field(one, "processes"), 0);
    assert_non_null(strstr(text, "in wait_for_reply"));
    assert_non_null(strstr(text, "in collective"));
    assert_non_null(strstr(text, "sleep 1000"));
    free(text);
    cli_free(&r);
}

static void guard__takes_no_busy_or_talking_program_for_a_hang(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "guard", "--json", "--stall", "0.5", "--", "sh", "-c",
        "for i in 1 2 3 4 5 6 7 8; do sleep 0.2; echo $i; done");
    assert_int_equal(r.status, 0);
    assert_int_equal(json_array_size(field(r.json, "findings")), 0);
    cli_free(&r);
}

static void guard__reports_processes_that_nobody_waits_for(void **state)
{
    static const struct {
        const char *inner, *rule;
    } rows[] = {{"kill -9 $$", "worker_died"},
                {"exit 3", "child_status"},
                {"exit 0", NULL},
                {"kill -TERM $$", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cli r;
        cli(&r, "guard", "--json", "--", "sh", "-c",
            textf("sh -c '(sleep 0.1; %s) & exit 0'; sleep 0.4",
                  i == 0 || i == 3
                      ? textf("exec sh -c \"%s\"", i ? "kill -TERM \\$\\$" : "kill -9 \\$\\$")
                      : rows[i].inner));
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
    for (int i = 0; i < 500; i++) {
        text = read_whole(log, &size);
        if (strstr(text, "AssertionError")) break;
        free(text);
        nanosleep(&pause_10ms, NULL);
        assert_true(i < 499);
    }
    assert_non_null(strstr(text, "\"rule\": \"swallowed\""));
    free(text);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__says_a_hang_once__and_again_after_a_sign_of_life),
        cmocka_unit_test(tree__holds_the_processes_below__and_their_signals),
        FOLDER(guard__shows_all_stacks_of_a_hang__and_ends_it_when_asked),
        cmocka_unit_test(guard__takes_no_busy_or_talking_program_for_a_hang),
        cmocka_unit_test(guard__reports_processes_that_nobody_waits_for),
        FOLDER(guard__reads_the_logs_that_are_named__from_where_they_were),
        FOLDER(guard__keeps_its_log__when_everything_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
