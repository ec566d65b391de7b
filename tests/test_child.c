/* test_child.c: a wait for a child ends, whatever the child does, and says how. */
#include "harness/child.h"

#include "harness/session.h"
#include "tests/support.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum doing { LEAVE, SLEEP, IGNORE, LEAD };

/* LEAD: a group of its own with another one in it, which holds the write end of `pipe`. */
static pid_t start(enum doing doing, const int *ends)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    if (doing == LEAVE) _exit(7);
    if (doing == IGNORE) signal(SIGTERM, SIG_IGN);
    if (doing == LEAD) {
        setpgid(0, 0);
        close(ends[0]);
        (void)!fork();
    }
    for (;;) pause();
}

static void child__that_ends__is_told_with_its_status(void **state)
{
    int status = -1;
    (void)state;
    pid_t pid = start(LEAVE, NULL);
    assert_int_equal(child_wait(pid, false, clock_seconds() + 600, &status), CHILD_ENDED);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    /* It is nobody's child any more: no second wait hangs. */
    assert_int_equal(child_wait(pid, false, clock_seconds() + 600, NULL), CHILD_ENDED);
}

static void child__that_lives_on__is_killed(void **state)
{
    (void)state;
    for (enum doing doing = SLEEP; doing <= IGNORE; doing++) {
        int status = -1;
        double began = clock_seconds();
        pid_t pid = start(doing, NULL);
        assert_int_equal(child_wait(pid, false, began + 0.05, &status), CHILD_KILLED);
        assert_true(clock_seconds() >= began + 0.05);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(kill(pid, 0), -1);
    }
}

/* The pipe's end closes only when the last of the group is gone. */
static void child__that_leads_a_group__takes_it_along(void **state)
{
    int ends[2];
    char byte;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = start(LEAD, ends);
    close(ends[1]);
    while (kill(-pid, 0) != 0) usleep(1000); /* it leads its group */
    assert_int_equal(child_wait(pid, true, 0, NULL), CHILD_KILLED);
    struct pollfd closed = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&closed, 1, 20000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void child__that_is_late__is_one_clear_line(void **state)
{
    struct err err = ERR_INIT;
    char line[ERR_LINE];
    (void)state;
    assert_int_equal(child_late(&err, "the extractor", 123, 60, CHILD_KILLED), ERR_PROCESS);
    (void)err_line(&err, line, sizeof line);
    assert_non_null(
        strstr(line, "wait for the extractor: pid 123: found no end after 60 s: killed"));
    err_clear(&err);
    assert_int_equal(child_late(&err, "a job", 9, 0.25, CHILD_STUCK), ERR_PROCESS);
    assert_non_null(strstr(err.found, "the kernel does not let go of it"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child__that_ends__is_told_with_its_status),
        cmocka_unit_test(child__that_lives_on__is_killed),
        cmocka_unit_test(child__that_leads_a_group__takes_it_along),
        cmocka_unit_test(child__that_is_late__is_one_clear_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
