/* test_launch.c: the environments of the launchers, and what is wrong with one that is half set. */
#include "harness/launch.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const *set; /* "NAME=VALUE", NULL at the end */

static const char *get(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; set[i]; i++) {
        if (strncmp(set[i], name, n) == 0 && set[i][n] == '=') return set[i] + n + 1;
    }
    return NULL;
}

static struct launch launched(const char *const *variables)
{
    struct launch l;
    struct err err = ERR_INIT;
    set = variables;
    (void)!launch_read_from(&l, get, &err);
    assert_ok(&err);
    return l;
}
#define LAUNCHED(...) launched((const char *const[]){__VA_ARGS__, NULL})

static void assert_launch(struct launch l, const char *by, int rank, int world, int local)
{
    assert_string_equal(l.by ? l.by : "", by);
    assert_int_equal(l.rank, rank);
    assert_int_equal(l.world, world);
    assert_int_equal(l.local_rank, local);
}

static void read__knows_every_launcher(void **state)
{
    (void)state;
    assert_launch(LAUNCHED("HOME=x"), "", 0, 1, -1);
    struct launch l = LAUNCHED("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                               "MASTER_ADDR=node0", "MASTER_PORT=29500");
    assert_launch(l, "torchrun", 5, 8, 1);
    assert_int_equal(l.local_world, 4);
    assert_string_equal(l.host, "node0");
    assert_int_equal(l.port, 29500);
    assert_launch(LAUNCHED("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4",
                           "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2"),
                  "mpirun (Open MPI)", 2, 4, 0);
    assert_launch(LAUNCHED("PMI_RANK=0", "PMI_SIZE=1"), "mpirun (PMI)", 0, 1, -1);
    assert_int_equal(l.hosts, -1);
    l = LAUNCHED("SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=1", "SLURM_STEP_ID=0",
                 "SLURM_LAUNCH_NODE_IPADDR=10.0.0.1", "SLURM_NNODES=3", "SLURM_STEP_NUM_NODES=1",
                 "SLURM_NODELIST=node[1-3]", "SLURM_STEP_NODELIST=node2");
    assert_launch(l, "srun", 3, 4, 1);
    assert_string_equal(l.host, ""); /* where srun was called, not where rank 0 is */
    assert_int_equal(l.hosts, 1);
    assert_string_equal(l.nodes, "node2");
    l = LAUNCHED("SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_NNODES=2",
                 "SLURM_NODELIST=node[1-2]", "MASTER_ADDR=node1", "MASTER_PORT=29500");
    assert_int_equal(l.hosts, 2);
    assert_string_equal(l.nodes, "node[1-2]");
    assert_string_equal(l.host, "node1");
    assert_launch(LAUNCHED("ASSAY_RANK=1", "ASSAY_WORLD=2", "ASSAY_LOCAL_RANK=1"), "assay", 1, 2,
                  1);
}

static void read__takes_an_allocation_without_a_step_for_no_launcher(void **state)
{
    (void)state;
    assert_launch(LAUNCHED("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=7"), "", 0, 1, -1);
}

static void read__takes_two_launchers_that_agree(void **state)
{
    (void)state;
    assert_launch(LAUNCHED("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "SLURM_PROCID=2",
                           "SLURM_NTASKS=4", "SLURM_STEP_ID=0"),
                  "mpirun (Open MPI)", 2, 4, -1);
}

static void read__refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *set[5], *where, *found;
    } rows[] = {
        {{"RANK=1"}, "torchrun: WORLD_SIZE", "not set, though RANK is"},
        {{"WORLD_SIZE=2"}, "torchrun: RANK", "not set, though WORLD_SIZE is"},
        {{"RANK=2", "WORLD_SIZE=2"}, "torchrun: RANK", "\"2\""},
        {{"RANK=-1", "WORLD_SIZE=2"}, "torchrun: RANK", "\"-1\""},
        {{"RANK=1x", "WORLD_SIZE=2"}, "torchrun: RANK", "\"1x\""},
        {{"RANK=", "WORLD_SIZE=2"}, "torchrun: RANK", "\"\""},
        {{"RANK=0", "WORLD_SIZE=0"}, "torchrun: WORLD_SIZE", "\"0\""},
        {{"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=2"}, "torchrun: LOCAL_RANK", "\"2\""},
        {{"RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=3"}, "torchrun: LOCAL_WORLD_SIZE", "\"3\""},
        {{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=65536"}, "torchrun: MASTER_PORT", "\"65536\""},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=3"},
         "srun: SLURM_STEP_NUM_NODES",
         "\"3\""},
        {{"RANK=0", "WORLD_SIZE=2", "PMI_RANK=1", "PMI_SIZE=2"},
         "two at once",
         "rank 1 of 2 by mpirun (PMI)"},
        {{"RANK=0", "WORLD_SIZE=2", "PMI_RANK=0", "PMI_SIZE=4"},
         "two at once",
         "rank 0 of 4 by mpirun (PMI)"},
        {{"RANK=0", "WORLD_SIZE=2", "ASSAY_RENDEZVOUS=node0"}, "ASSAY_RENDEZVOUS", "\"node0\""},
        {{"RANK=0", "WORLD_SIZE=2", "ASSAY_RENDEZVOUS=:29500"}, "ASSAY_RENDEZVOUS", "\":29500\""},
        {{"RANK=0", "WORLD_SIZE=2", "ASSAY_RENDEZVOUS=a:0"}, "ASSAY_RENDEZVOUS", "\"a:0\""},
        {{"RANK=0", "WORLD_SIZE=2", "ASSAY_RENDEZVOUS=a:65536"}, "ASSAY_RENDEZVOUS", "a:65536"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct launch l;
        struct err err = ERR_INIT;
        set = rows[i].set;
        (void)!launch_read_from(&l, get, &err);
        assert_err(&err, ERR_INPUT, "launcher", rows[i].where, rows[i].found, NULL);
        assert_true(err.wanted[0]);
    }
}

static void read__finds_where_to_meet_and_which_run_it_is(void **state)
{
    (void)state;
    struct launch l = LAUNCHED("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=node0", "MASTER_PORT=29500",
                               "ASSAY_RENDEZVOUS=node7:1234", "TORCHELASTIC_USE_AGENT_STORE=True");
    assert_string_equal(l.host, "node7");
    assert_int_equal(l.port, 1234);
    assert_string_equal(l.run, "");
    assert_int_equal(l.transport, LAUNCH_ANY);
    l = LAUNCHED("PMI_RANK=0", "PMI_SIZE=2", "ASSAY_RENDEZVOUS=[fd00::1]:1234",
                 "ASSAY_TRANSPORT=tcp");
    assert_string_equal(l.host, "fd00::1");
    assert_int_equal(l.transport, LAUNCH_TCP);
    /* torchrun's agent listens at the port that it tells. */
    l = LAUNCHED("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=node0", "MASTER_PORT=29500",
                 "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RUN_ID=my run",
                 "TORCHELASTIC_RESTART_COUNT=2", "ASSAY_TRANSPORT=shm");
    assert_int_equal(l.port, 29501);
    assert_string_equal(l.run, "my_run.2");
    assert_int_equal(l.transport, LAUNCH_SHM);
    l = LAUNCHED("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=node0", "MASTER_PORT=65535",
                 "TORCHELASTIC_USE_AGENT_STORE=True");
    assert_int_equal(l.port, 65534);
    l = LAUNCHED("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=node0", "MASTER_PORT=29500",
                 "TORCHELASTIC_USE_AGENT_STORE=False", "ASSAY_RUN=x");
    assert_int_equal(l.port, 29500);
    assert_string_equal(l.run, "x");
    l = LAUNCHED("SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_STEP_ID=1", "SLURM_JOB_ID=4711");
    assert_string_equal(l.run, "4711.1");
    l = LAUNCHED("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "PMIX_NAMESPACE=18738");
    assert_string_equal(l.run, "18738");
}

static void transport__is_one_of_two(void **state)
{
    (void)state;
    struct launch l;
    struct err err = ERR_INIT;
    set = (const char *const[]){"RANK=0", "WORLD_SIZE=2", "ASSAY_TRANSPORT=pigeon", NULL};
    (void)!launch_read_from(&l, get, &err);
    assert_err(&err, ERR_USAGE, "ASSAY_TRANSPORT", NULL, "pigeon", "shm or tcp");
}

#define MEETING "ASSAY_RENDEZVOUS=node1:29500"

/* Several hosts need an address, and share no memory: else every rank refuses them, by name, before
 * anything waits. */
static void hosts__are_one_or_can_meet_or_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *set[8], *where, *found, *wanted;
    } rows[] = {
        {{"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=2",
          "SLURM_STEP_NODELIST=node[1-2]"},
         "srun: rank 3, on host",
         "2 hosts: node[1-2], and nothing says where rank 0 can be reached",
         "MASTER_PORT"},
        {{"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=2",
          "SLURM_STEP_NODELIST=node[1-2]", MEETING, "ASSAY_TRANSPORT=shm"},
         "srun: rank 3, on host",
         "2 hosts: node[1-2]",
         "share"},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_NNODES=4"},
         "srun: rank 0, on host",
         "4 hosts",
         "ASSAY_RENDEZVOUS=HOST:PORT"},
        {{"RANK=5", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "LOCAL_RANK=1"},
         "torchrun: rank 5, on host",
         "4 of the 8 ranks on this host",
         "ASSAY_RENDEZVOUS"},
        {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
         "mpirun (Open MPI): rank 2, on host",
         "2 of the 4 ranks on this host",
         "ASSAY_RENDEZVOUS"},
        {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
          MEETING},
         NULL,
         NULL,
         NULL},
        {{"RANK=5", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8", "ASSAY_TRANSPORT=shm"}, NULL, NULL, NULL},
        {{"RANK=5", "WORLD_SIZE=8"},
         NULL,
         NULL,
         NULL}, /* not said: they tell each other their hosts */
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1"},
         NULL,
         NULL,
         NULL},
    };
    char own[64] = "";
    (void)gethostname(own, sizeof own - 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct launch l = launched(rows[i].set);
        struct err err = ERR_INIT;
        (void)!launch_check_hosts(&l, &err);
        if (!rows[i].where) {
            assert_ok(&err);
            continue;
        }
        assert_err(&err, ERR_USAGE, "launcher", rows[i].where, rows[i].found, rows[i].wanted);
        assert_non_null(strstr(err.where, own));
    }
}

static void read__looks_at_the_environment(void **state)
{
    (void)state;
    struct launch l;
    struct err err = ERR_INIT;
    assert_int_equal(setenv("ASSAY_RANK", "1", 1) | setenv("ASSAY_WORLD", "3", 1), 0);
    (void)!launch_read(&l, &err);
    assert_ok(&err);
    assert_launch(l, "assay", 1, 3, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__knows_every_launcher),
        cmocka_unit_test(read__takes_an_allocation_without_a_step_for_no_launcher),
        cmocka_unit_test(read__takes_two_launchers_that_agree),
        cmocka_unit_test(read__refuses_what_cannot_be),
        cmocka_unit_test(read__finds_where_to_meet_and_which_run_it_is),
        cmocka_unit_test(transport__is_one_of_two),
        cmocka_unit_test(hosts__are_one_or_can_meet_or_are_refused),
        cmocka_unit_test(read__looks_at_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
