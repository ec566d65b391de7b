/* test_cli_signal.c: a run that is interrupted or killed in the middle leaves nothing under the
 * name that it was asked for, and keeps what stood there. */
#include "tests/cli.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OLD "an older dump"

/* Waits until a temporary file stands beside `out`, so that the run is in its middle. */
static void wait_for_temporary(const char *folder, pid_t child)
{
    for (int tries = 0; tries < 3000; tries++) {
        bool there = false;
        DIR *d = opendir(folder);
        assert_non_null(d);
        for (struct dirent *e = readdir(d); e; e = readdir(d))
            there |= strstr(e->d_name, ".tmp-") != NULL;
        closedir(d);
        if (there) return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    kill(child, SIGKILL);
    fail_msg("no temporary file within 6 s");
}

/* A forward of 4608 tokens takes seconds; it is hit `after_ms` after its file was begun. */
static void hit(void **state, int number, long after_ms, bool leftover)
{
    const char *folder = *state, *out = textf("%s/out", folder);
    const char *argv[] = {"forward",  fixture_synth("tiny-long"),
                          "--tokens", "@" FIXTURE("tiny-long/golden.json"),
                          "--out",    out,
                          NULL};
    write_text(out, OLD);
    pid_t child = cli_start(argv);
    wait_for_temporary(folder, child);
    nanosleep(&(struct timespec){.tv_nsec = after_ms * 1000000}, NULL);
    assert_int_equal(kill(child, number), 0);
    assert_int_equal(cli_wait(child), number);
    char *text = read_whole(out, NULL);
    assert_string_equal(text, OLD);
    free(text);
    assert_int_equal(folder_count(folder), leftover ? 2 : 1);
}

static void forward__leaves_no_file__when_interrupted_at_once(void **state)
{
    hit(state, SIGINT, 0, false);
}

static void forward__leaves_no_file__when_interrupted_in_the_middle(void **state)
{
    hit(state, SIGINT, 300, false);
}

static void forward__leaves_no_file__when_terminated(void **state)
{
    hit(state, SIGTERM, 20, false);
}

static void forward__leaves_no_file__when_its_terminal_goes(void **state)
{
    hit(state, SIGHUP, 20, false);
}

/* Nobody can tidy up after kill -9; but the name asked for holds no half of a dump. */
static void forward__leaves_only_a_temporary__when_killed(void **state)
{
    hit(state, SIGKILL, 100, true);
}

static void synth__leaves_no_file__when_interrupted(void **state)
{
    const char *folder = *state, *out = textf("%s/m", folder);
    const char *argv[] = {"synth", FIXTURE("mid-k25/config.json"), "--seed", "1", "--out", out,
                          NULL};
    pid_t child = cli_start(argv);
    for (int tries = 0; tries < 3000 && access(out, F_OK) != 0; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    wait_for_temporary(out, child);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(cli_wait(child), SIGINT);
    assert_int_equal(folder_count(out), 0);
}

/* nohup: what the parent ignores stays ignored. */
static void forward__goes_on__when_hang_up_is_ignored(void **state)
{
    const char *out = textf("%s/out", (const char *)*state);
    const char *argv[] = {"forward",  fixture_synth("tiny-long"),
                          "--tokens", "@" FIXTURE("tiny-long/golden.json"),
                          "--out",    out,
                          "--layers", ":1",
                          NULL};
    signal(SIGHUP, SIG_IGN);
    pid_t child = cli_start(argv);
    signal(SIGHUP, SIG_DFL);
    wait_for_temporary(*state, child);
    assert_int_equal(kill(child, SIGHUP), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(cli_wait(child), SIGINT);
}

/* The next file opened would get the number of a closed stream, and a message would land in it. */
static void dump__is_not_number_one__when_stdout_is_closed(void **state)
{
    char target[FILE_PATH] = "";
    const char *out = textf("%s/out", (const char *)*state);
    const char *argv[] = {"forward",  fixture_synth("tiny-long"),
                          "--tokens", "@" FIXTURE("tiny-long/golden.json"),
                          "--out",    out,
                          NULL};
    pid_t child = cli_start_mute(argv);
    wait_for_temporary(*state, child);
    ssize_t n = readlink(textf("/proc/%ld/fd/1", (long)child), target, sizeof target - 1);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(cli_wait(child), SIGINT);
    assert_true(n > 0);
    assert_string_equal(target, "/dev/null");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(forward__leaves_no_file__when_interrupted_at_once),
        TEST(forward__leaves_no_file__when_interrupted_in_the_middle),
        TEST(forward__leaves_no_file__when_terminated),
        TEST(forward__leaves_no_file__when_its_terminal_goes),
        TEST(forward__leaves_only_a_temporary__when_killed),
        TEST(synth__leaves_no_file__when_interrupted),
        TEST(forward__goes_on__when_hang_up_is_ignored),
        TEST(dump__is_not_number_one__when_stdout_is_closed),
    };
    return cmocka_run_group_tests_name("cli_signal", tests, NULL, NULL);
}
