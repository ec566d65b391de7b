/* test_facts_child.c: a python that is missing, too old, silent, endless, talkative or mad; and
 * nothing is left behind. */
#include "harness/facts.h"
#include "tests/cli.h"
#include "tests/pythons.h"
#include "tests/support.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Makes ASSAY_PYTHON a shell script of these lines. */
static void become(void **state, const char *lines)
{
    const char *path = folder_path(state, "python");
    write_text(path, textf("#!/bin/sh\n%s\n", lines));
    assert_int_equal(chmod(path, 0700), 0);
    setenv("ASSAY_PYTHON", path, 1);
}

static const struct facts_limits usual = FACTS_LIMITS;

/* An error of a run within limits. */
static struct err failing(const struct facts_limits *limits, const char *path)
{
    struct err err = ERR_INIT;
    json_t *out = NULL;
    assert_int_not_equal(facts_read_within(limits, "surface", path, &out, &err), ERR_OK);
    assert_null(out);
    return err;
}

struct played {
    const char *lines;
    enum err_code code;
    const char *what, *where, *found, *wanted;
};

static const struct played plays[] = {
    {"exit 7", ERR_DEVICE, "run the extractor", "python", "exit 7: not a word", "3.9 or newer"},
    {"echo one >&2; echo 'Unknown option: -I' >&2; exit 2", ERR_DEVICE, "run the extractor",
     "python", "exit 2: Unknown option: -I", "3.9 or newer"},
    {"echo 'assay_facts: open: a: b.whl: found c: found d, wanted e' >&2; exit 2", ERR_INPUT,
     "open", "a: b.whl", "c: found d", "e"},
    {"echo 'assay_facts: start' >&2; exit 3", ERR_DEVICE, "start", NULL, NULL, NULL},
    {"kill -11 $$", ERR_PROCESS, "run the extractor", "python", "ended by signal 11", "its own"},
    {"echo hello", ERR_PROCESS, "read facts", "x.py", "parse JSON", "facts of version 1"},
    {"echo '{\"facts\": 2, \"kind\": \"surface\"}'", ERR_PROCESS, "read facts", "x.py", "facts",
     "facts of version 1"},
    {"echo '{\"facts\": 1, \"kind\": \"uses\"}'", ERR_PROCESS, "read facts", "x.py", "another kind",
     "\"surface\""},
    {":", ERR_PROCESS, "read facts", "x.py", "parse JSON", "facts of version 1"},
};

static void read__names_what_a_python_did_wrong(void **state)
{
    for (size_t i = 0; i < sizeof plays / sizeof plays[0]; i++) {
        const struct played *p = &plays[i];
        become(state, p->lines);
        struct err err = failing(&usual, "x.py");
        assert_err(&err, p->code, p->what, p->where, p->found, p->wanted);
    }
}

static void read__says_which_python_is_missing(void **state)
{
    setenv("ASSAY_PYTHON", folder_path(state, "no-python"), 1);
    struct err err = failing(&usual, "x.py");
    assert_err(&err, ERR_DEVICE, "run the extractor", "no-python", "No such file", "ASSAY_PYTHON");
    write_text(folder_path(state, "plain"), "x");
    setenv("ASSAY_PYTHON", folder_path(state, "plain"), 1);
    err = failing(&usual, "x.py");
    assert_err(&err, ERR_DEVICE, "run the extractor", "plain", "Permission", "ASSAY_PYTHON");
}

/* The process that wrote its number to `pid` is gone. */
static void assert_gone(void **state)
{
    size_t size;
    char *text = read_whole(folder_path(state, "pid"), &size);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    const struct timespec pause = {.tv_nsec = 10000000};
    free(text);
    assert_in_range(pid, 2, 1 << 30);
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++) nanosleep(&pause, NULL);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* Ends of runs that would have none: asleep with a child of its own, past its own streams, and
 * talking on. */
static void read__kills_what_has_no_end(void **state)
{
    struct facts_limits limits = usual;
    limits.seconds = 0.3;
    become(state, textf("sleep 600 & echo $! > %s; wait", folder_path(state, "pid")));
    struct err err = failing(&limits, "x.py");
    assert_err(&err, ERR_PROCESS, "run the extractor", "in 0.3 s", "no end", "one");
    assert_gone(state);
    become(state, textf("echo $$ > %s; exec >&- 2>&-; exec sleep 600", folder_path(state, "pid")));
    err = failing(&limits, "x.py");
    assert_err(&err, ERR_PROCESS, "run the extractor", NULL, "ended by signal 9", NULL);
    assert_gone(state);
    limits = usual;
    limits.output_bytes = 100000;
    become(state, textf("echo $$ > %s; exec yes", folder_path(state, "pid")));
    err = failing(&limits, "x.py");
    assert_err(&err, ERR_PROCESS, "run the extractor", "its output", "more than 100000", "less");
    assert_gone(state);
}

/* A child that dies with its parent. */
static void start_and_die(void *folder)
{
    struct err err = ERR_INIT;
    json_t *out = NULL;
    alarm(1); /* ends this process in the middle of the wait */
    (void)folder;
    (void)!facts_read("surface", "x.py", &out, &err);
}

static void read__takes_the_child_along__when_it_is_killed(void **state)
{
    become(state, textf("echo $$ > %s; exec sleep 600", folder_path(state, "pid")));
    assert_int_equal(signal_of(start_and_die, NULL, NULL), SIGALRM);
    assert_gone(state);
}

static void read__keeps_the_end_of_a_long_complaint(void **state)
{
    become(state, "i=0; while [ $i -lt 900 ]; do echo 'a line of some length' >&2; i=$((i+1)); "
                  "done; echo 'assay_facts: a: b: found c, wanted d' >&2; exit 2");
    struct err err = failing(&usual, "x.py");
    assert_err(&err, ERR_INPUT, "a", "b", "c", "d");
}

static void read__ends_with_a_word__when_memory_is_short(void **state)
{
    struct facts_limits limits = usual;
    size_t n = 1 << 20;
    char *text = malloc(2 * n + 16);
    assert_non_null(text);
    unsetenv("ASSAY_PYTHON");
    memcpy(text, "x = [", 5);
    for (size_t i = 0; i < n - 8; i++) memcpy(text + 5 + 2 * i, "1,", 2);
    memcpy(text + 5 + 2 * (n - 8), "]\n", 3);
    write_text(folder_path(state, "wide.py"), text);
    free(text);
    limits.memory_bytes = (int64_t)800 << 20;
    json_t *out = NULL;
    struct err err = ERR_INIT;
    enum err_code rc =
        facts_read_within(&limits, "uses", folder_path(state, "wide.py"), &out, &err);
    /* Where it is caught depends on the python: in one file, which is then a problem, or outside.
     */
    if (rc == ERR_OK) assert_int_equal(json_array_size(field(out, "problems")), 1);
    if (rc != ERR_OK) assert_int_equal(err_exit(rc), 3);
    json_decref(out);
}

static void read__says_that_a_python_is_too_old(void **state)
{
    struct pythons old;
    (void)state;
    pythons_find_old(&old);
    for (int i = 0; i < old.count; i++) {
        setenv("ASSAY_PYTHON", old.path[i], 1);
        struct err err = failing(&usual, "x.py");
        assert_int_equal(err.code, ERR_DEVICE);
        assert_non_null(strstr(err.wanted, "3.9 or newer"));
    }
}

int main(void)
{
#define t(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        t(read__names_what_a_python_did_wrong),
        t(read__says_which_python_is_missing),
        t(read__kills_what_has_no_end),
        t(read__takes_the_child_along__when_it_is_killed),
        t(read__keeps_the_end_of_a_long_complaint),
        t(read__ends_with_a_word__when_memory_is_short),
        t(read__says_that_a_python_is_too_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
