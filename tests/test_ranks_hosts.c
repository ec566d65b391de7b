/* test_ranks_hosts.c: ranks on several hosts, by the program itself: processes that are hosts of
 * their own by their launcher's word, by their names (where this process may give names), or
 * because they are to talk by TCP; started as torchrun starts them, and by a real mpirun where
 * there is one. They give the bits of ranks that share memory, and end with the right word and
 * status. */
#include "tests/cli.h"
#include "tests/net.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define K25 FIXTURE("tiny-k25")
#define TOKENS "@" FIXTURE("tiny-k25/golden.json")

enum { MOST = 4 };

static const char *file_in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

/* ---- a launcher ---- */

static struct {
    int port;
    pid_t other[MOST]; /* [world]; 0: not started */
    const char *log[MOST];
} job;

static const char *const variables[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_USE_AGENT_STORE",
                                        "ASSAY_RENDEZVOUS",
                                        "ASSAY_TRANSPORT",
                                        "ASSAY_RANK_FAULT"};

static void be_nobody(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
}

static int teardown(void **state)
{
    for (int i = 0; i < MOST; i++) {
        if (job.other[i] > 0) kill(job.other[i], SIGKILL);
        if (job.other[i] > 0) waitpid(job.other[i], NULL, 0);
        job.other[i] = 0;
    }
    be_nobody();
    return folder_teardown(state);
}

/* From now on this process, and what it starts, is rank `rank` of `world`. */
static void be(int rank, int world)
{
    setenv("RANK", textf("%d", rank), 1);
    setenv("WORLD_SIZE", textf("%d", world), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", textf("%d", job.port), 1);
}

/* Starts the program as this rank, its stderr in a file; on a host of that name (NULL: this one).
 */
static void start_other(void **state, int rank, int world, const char *host,
                        const char *const *words)
{
    const char *argv[CLI_ARGS] = {"assay"};
    for (int i = 0; words[i]; i++) argv[i + 1] = words[i];
    job.log[rank] = file_in(state, textf("log%d", rank));
    be(rank, world);
    pid_t pid = fork();
    if (pid == 0) {
        if (host && (unshare(CLONE_NEWUTS) != 0 || sethostname(host, strlen(host)) != 0)) _exit(9);
        int fd = open(job.log[rank], O_CREAT | O_WRONLY | O_CLOEXEC | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(9);
        execv(ASSAY_PROGRAM, (char *const *)argv);
        _exit(9);
    }
    assert_true(pid > 0);
    job.other[rank] = pid;
}

/* `hosts`: [world] names, NULL for this host's; or NULL for none. Then this process is rank 0. */
static void start_job(void **state, int world, const char *const *hosts, const char *const *words)
{
    job.port = net_free_port();
    for (int r = world - 1; r > 0; r--)
        start_other(state, r, world, hosts ? hosts[r] : NULL, words);
    be(0, world);
}

static int status_of(int rank)
{
    int status;
    assert_int_equal(waitpid(job.other[rank], &status, 0), job.other[rank]);
    job.other[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void assert_statuses(int world, int wanted)
{
    for (int r = 1; r < world; r++) assert_int_equal(status_of(r), wanted);
}

static bool may_name_hosts(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWUTS) != 0 || sethostname("node1", 5) != 0);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- the same bits ---- */

static const char *const four[] = {"forward",      K25,   "--tokens", TOKENS, "--precision", "f64",
                                   "--dump-dtype", "f64", "--tp",     "2",    "--ep",        "2"};
enum { FOUR = sizeof four / sizeof four[0] };

/* `four` and where the dump goes. */
static const char *const *to(const char *out)
{
    static const char *words[FOUR + 3];
    memcpy(words, four, sizeof four);
    words[FOUR] = "--out";
    words[FOUR + 1] = out;
    return words;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n = 0, m = 0;
    char *x = read_whole(a, &n), *y = read_whole(b, &m);
    assert_int_equal(n, m);
    assert_true(n > 100000);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* The dump of four ranks that share memory. */
static const char *near_dump(void **state)
{
    const char *out = file_in(state, "near");
    be_nobody();
    json_decref(cli_passed(to(out), __FILE__, __LINE__));
    return out;
}

static void check_forward(void **state, const char *const *hosts)
{
    const char *many = file_in(state, "many");
    start_job(state, 4, hosts, to(many));
    json_t *j = cli_passed(to(many), __FILE__, __LINE__);
    assert_int_equal(json_array_size(field(j, "ranks")), 0);
    json_decref(j);
    assert_statuses(4, 0);
    assert_same_file(many, near_dump(state));
}

static void forward__over_tcp__gives_the_bits_of_shared_memory(void **state)
{
    setenv("ASSAY_TRANSPORT", "tcp", 1);
    check_forward(state, NULL);
}

static void forward__on_hosts_by_the_launchers_word__gives_them_too(void **state)
{
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    check_forward(state, NULL);
}

static void forward__on_hosts_by_their_names__gives_them_too(void **state)
{
    if (!may_name_hosts()) skip();
    check_forward(state, (const char *const[]){NULL, NULL, "node1", "node1"});
}

/* torchrun's agent has the port that it tells; the ranks meet at the next one. IPv6. */
static void ranks__meet_where_they_are_told(void **state)
{
    const char *const words[] = {"generate", K25,    "--tokens", "1,489,120", "-n",
                                 "3",        "--tp", "2",        NULL};
    setenv("ASSAY_TRANSPORT", "tcp", 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    start_job(state, 2, NULL, words);
    json_t *first = cli_passed(words, __FILE__, __LINE__);
    assert_statuses(2, 0);
    setenv("ASSAY_RENDEZVOUS", textf("[::1]:%d", net_free_port()), 1);
    if (access("/proc/net/if_inet6", R_OK) == 0) {
        start_job(state, 2, NULL, words);
        json_t *again = cli_passed(words, __FILE__, __LINE__);
        assert_statuses(2, 0);
        assert_true(json_equal(field(first, "tokens"), field(again, "tokens")));
        json_decref(again);
    }
    json_decref(first);
}

/* ---- what goes wrong ---- */

static char *log_of(int rank)
{
    size_t n;
    return read_whole(job.log[rank], &n);
}

static void assert_says(int rank, const char *words)
{
    char *text = log_of(rank);
    if (!strstr(text, words)) fail_msg("rank %d: \"%s\" is not in \"%s\"", rank, words, text);
    free(text);
}

/* Who, on which host, in what: on rank 0; the others end with 3 and say who was the first. */
static void rank__that_dies_ends_all_by_name(void **state)
{
    struct cli r;
    bool named = may_name_hosts();
    const char *out = file_in(state, "out");
    static const char *const hosts[] = {NULL, NULL, "node1", "node1"};
    setenv("ASSAY_TRANSPORT", "tcp", 1);
    setenv("ASSAY_RANK_FAULT", "proc.worker_signal@rank=3,call=1,step=15,signal=9", 1);
    start_job(state, 4, named ? hosts : NULL, to(out));
    cli_run(&r, to(out));
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.err, named ? "error: worker: rank 3 on node1 was ended by a signal"
                                        : "was ended by a signal"));
    assert_non_null(strstr(r.err, "ended by signal 9 (Killed)"));
    assert_false(file_exists(out));
    cli_free(&r);
    assert_statuses(4, 3);
    for (int i = 1; i < 4; i++) assert_says(i, "the run was ended: rank 3 failed first");
}

static void rank__that_never_comes_is_named_on_all(void **state)
{
    struct cli r;
    const char *const words[] = {"forward",        K25, "--tokens", TOKENS,
                                 "--tp",           "4", "--out",    file_in(state, "out"),
                                 "--rank-timeout", "1", NULL};
    setenv("ASSAY_TRANSPORT", "tcp", 1);
    job.port = net_free_port();
    start_other(state, 2, 4, NULL, words);
    be(0, 4);
    cli_run(&r, words);
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.err, "not come in 1 s: 1, 3, wanted all ranks (rank 1)"));
    assert_non_null(strstr(r.err, "came: rank 2 from "));
    cli_free(&r);
    assert_int_equal(status_of(2), 3);
    assert_says(2, "not come in 1 s: 1, 3");
}

/* ---- mpirun ---- */

static bool has_mpirun(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        execlp("mpirun", "mpirun", "--version", (char *)NULL);
        _exit(1);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* mpirun -n 4 assay WORDS..., what it writes in the file "log"; its status. */
static int run_mpirun(void **state, const char *const *words)
{
    const char *argv[CLI_ARGS] = {"mpirun", "--oversubscribe", "-n", "4", ASSAY_PROGRAM};
    int n = 5, status;
    while (*words) argv[n++] = *words++;
    job.log[0] = file_in(state, "log");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(job.log[0], O_CREAT | O_WRONLY | O_CLOEXEC | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(9);
        execvp("mpirun", (char *const *)argv);
        _exit(9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void mpirun__over_tcp__gives_the_bits_of_shared_memory(void **state)
{
    if (!has_mpirun()) skip();
    const char *many = file_in(state, "many");
    setenv("ASSAY_TRANSPORT", "tcp", 1);
    assert_int_equal(run_mpirun(state, to(many)), 0);
    assert_same_file(many, near_dump(state));
}

/* It ends all processes as soon as one has ended badly: the word of the run comes first. */
static void mpirun__lets_rank_0_say_who_died(void **state)
{
    if (!has_mpirun()) skip();
    setenv("ASSAY_TRANSPORT", "tcp", 1);
    setenv("ASSAY_RANK_FAULT", "proc.worker_exit_0@rank=2,call=1,step=15", 1);
    assert_int_equal(run_mpirun(state, to(file_in(state, "out"))), 3);
    assert_says(0, "assay: error: worker: rank 2 on ");
    assert_says(0, "ended by itself: found exited with status 0, wanted a reply");
    assert_false(file_exists(file_in(state, "out")));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forward__over_tcp__gives_the_bits_of_shared_memory),
        TEST(forward__on_hosts_by_the_launchers_word__gives_them_too),
        TEST(forward__on_hosts_by_their_names__gives_them_too),
        TEST(ranks__meet_where_they_are_told),
        TEST(rank__that_dies_ends_all_by_name),
        TEST(rank__that_never_comes_is_named_on_all),
        TEST(mpirun__over_tcp__gives_the_bits_of_shared_memory),
        TEST(mpirun__lets_rank_0_say_who_died),
    };
    setenv("ASSAY_LOAD_LINE_S", "3600", 1); /* how far a slow build has come is no complaint */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
