/* test_ranks_launch.c: ranks that somebody else has started, by the variables that torchrun and
 * srun set: they find each other, give what one process gives, and end with each other. Those of
 * several hosts: test_ranks_hosts.c */
#include "tests/cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define K25 FIXTURE("tiny-k25")
#define TOKENS "@" FIXTURE("tiny-k25/golden.json")

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

/* From now on this process, and what it starts, is rank `rank` of `world`. */
static void be(int rank, int world)
{
    static int meetings;
    if (rank == world - 1) meetings++; /* the last one is started first: a port a meeting */
    setenv("RANK", textf("%d", rank), 1);
    setenv("WORLD_SIZE", textf("%d", world), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", textf("%d", 40000 + (int)(getpid() % 2000) * 8 + meetings), 1);
}

/* The same as srun says it, of a step on one host; it tells no address. */
static void be_task(int rank, int world)
{
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_PROCID", textf("%d", rank), 1);
    setenv("SLURM_LOCALID", textf("%d", rank), 1);
    setenv("SLURM_NTASKS", textf("%d", world), 1);
    setenv("SLURM_STEP_NUM_NODES", "1", 1);
    setenv("SLURM_STEP_NODELIST", "node1", 1);
    setenv("SLURM_LAUNCH_NODE_IPADDR", "192.0.2.1", 1); /* of no host */
}

static void be_nobody(void)
{
    static const char *const names[] = {"RANK",
                                        "WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "LOCAL_WORLD_SIZE",
                                        "ASSAY_TRANSPORT",
                                        "SLURM_STEP_ID",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_NODES",
                                        "SLURM_STEP_NODELIST",
                                        "SLURM_LAUNCH_NODE_IPADDR"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

static int launch_teardown(void **state)
{
    be_nobody();
    return folder_teardown(state);
}

static void forward__over_a_launchers_ranks__gives_the_taps_of_one_process(void **state)
{
    const char *one = file_in(state, "one"), *many = file_in(state, "many");
    const char *const words[] = {"forward",      K25,   "--tokens", TOKENS, "--precision", "f64",
                                 "--dump-dtype", "f64", "--tp",     "2",    "--ep",        "2",
                                 "--out",        many,  NULL};
    pid_t others[3];
    json_decref(cli_passes("forward", K25, "--tokens", TOKENS, "--precision", "f64", "--dump-dtype",
                           "f64", "--out", one));
    for (int r = 3; r > 0; r--) {
        be(r, 4);
        others[r - 1] = cli_start(words);
    }
    be(0, 4);
    json_t *j = cli_passed(words, __FILE__, __LINE__);
    assert_int_equal(field_int(j, "tp"), 2);
    assert_int_equal(json_array_size(field(j, "ranks")), 0);
    json_decref(j);
    for (int i = 0; i < 3; i++) assert_int_equal(cli_wait(others[i]), 0);
    assert_true(largest_relative(many, one) <= 1e-12);
}

static void forward__over_the_tasks_of_a_slurm_step__gives_the_taps_of_one_process(void **state)
{
    const char *one = file_in(state, "one"), *many = file_in(state, "many");
    const char *const words[] = {
        "forward", K25,    "--tokens", TOKENS,  "--precision", "f64", "--dump-dtype",
        "f64",     "--tp", "2",        "--out", many,          NULL};
    json_decref(cli_passes("forward", K25, "--tokens", TOKENS, "--precision", "f64", "--dump-dtype",
                           "f64", "--out", one));
    be_task(1, 2);
    pid_t other = cli_start(words);
    be_task(0, 2);
    json_t *j = cli_passed(words, __FILE__, __LINE__);
    assert_int_equal(field_int(j, "tp"), 2);
    json_decref(j);
    assert_int_equal(cli_wait(other), 0);
    assert_true(largest_relative(many, one) <= 1e-12);
}

/* Where nothing says where they meet, or they are to share memory. Each rank says so itself, at
 * once: none waits for one of another host. */
static void ranks__on_two_hosts_are_refused(void **state)
{
    const char *out = file_in(state, "out");
    be_task(1, 2);
    setenv("SLURM_STEP_NUM_NODES", "2", 1);
    setenv("SLURM_STEP_NODELIST", "node[1-2]", 1);
    cli_refuses(state,
                ((struct refusal){2, "launcher", "srun: rank 1", "node[1-2], and nothing says",
                                  "ASSAY_RENDEZVOUS=HOST:PORT"}),
                "forward", K25, "--tokens", "1,2", "--tp", "2", "--out", out);
    be_nobody();
    be(0, 2);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("ASSAY_TRANSPORT", "shm", 1);
    cli_refuses(state,
                ((struct refusal){2, "launcher", "torchrun: rank 0", "1 of the 2 ranks",
                                  "ASSAY_TRANSPORT=shm"}),
                "forward", K25, "--tokens", "1,2", "--tp", "2", "--out", out);
}

static void rank_that_never_comes__is_named(void **state)
{
    struct cli r;
    const char *out = file_in(state, "out");
    be(1, 2); /* a meeting of its own, to which only rank 0 comes */
    be(0, 2);
    cli(&r, "forward", K25, "--tokens", TOKENS, "--tp", "2", "--rank-timeout", "1", "--out", out,
        "--json");
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.err, "not come in 1 s: 1, wanted all ranks (rank 1)"));
    assert_false(file_exists(out));
    cli_free(&r);
    /* And where rank 0 does not come. */
    be(1, 2);
    cli(&r, "forward", K25, "--tokens", TOKENS, "--tp", "2", "--rank-timeout", "1", "--out", out);
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.err, " to rank 0 at 127.0.0.1"));
    cli_free(&r);
}

static void launcher__is_asked_for_as_many_ranks_as_the_cut_has(void **state)
{
    const char *out = file_in(state, "out");
    cli_refuses(state, ((struct refusal){2, "option", "--ranks launcher", "no launcher", NULL}),
                "forward", K25, "--tokens", "1,2", "--tp", "2", "--ranks", "launcher", "--out",
                out);
    be(0, 2);
    cli_refuses(state, ((struct refusal){2, "launcher", "torchrun", "2 ranks", "4 for --tp 2"}),
                "forward", K25, "--tokens", "1,2", "--tp", "2", "--ep", "2", "--out", out);
    cli_refuses(state, ((struct refusal){2, "option", "--ranks launcher", "no --tp", NULL}),
                "forward", K25, "--tokens", "1,2", "--ranks", "launcher", "--out", out);
    /* Not asked, it is not there. */
    json_decref(
        cli_passes("forward", K25, "--tokens", "1,2", "--ep", "2", "--ranks", "own", "--out", out));
}

/* The kernel ends nobody's child with rank 0: it does so itself. */
static void ranks__end_with_rank_0(void **state)
{
    (void)state;
    static const char *const words[] = {"generate", K25,    "--tokens", "1,2,3", "-n",
                                        "100000",   "--tp", "2",        NULL};
    be(1, 2);
    pid_t other = cli_start(words);
    be(0, 2);
    pid_t lead = cli_start(words);
    nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
    kill(lead, SIGKILL);
    assert_int_equal(cli_wait(lead), SIGKILL);
    assert_int_equal(cli_wait(other), 0); /* by itself, however it was just then */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, launch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forward__over_a_launchers_ranks__gives_the_taps_of_one_process),
        TEST(forward__over_the_tasks_of_a_slurm_step__gives_the_taps_of_one_process),
        TEST(ranks__on_two_hosts_are_refused),
        TEST(rank_that_never_comes__is_named),
        TEST(launcher__is_asked_for_as_many_ranks_as_the_cut_has),
        TEST(ranks__end_with_rank_0),
    };
    setenv("ASSAY_LOAD_LINE_S", "3600", 1); /* how far a slow build has come is no complaint */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
