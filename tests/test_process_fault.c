/* test_process_fault.c: every fault proc.* in a real rank, of ranks of one host and of several:
 * caught, with the rank's name and its host, the first cause first, and nothing left behind. */
#include "core/fault.h"
#include "harness/session.h"
#include "tests/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { RANKS = 3, GUILTY = 1 };

struct row {
    const char *fault; /* of rank 1 */
    enum worker_outcome outcome;
    const char *where, *found; /* of the message */
    double call_s;             /* 0: long */
};

static const struct row rows[] = {
    {"proc.worker_exit_0@rank=1", WORKER_EXITED, "rank 1 ended by itself", "status 0", 0},
    {"proc.worker_exit_0@rank=1,step=7", WORKER_EXITED, "rank 1 ended by itself", "status 0", 0},
    {"proc.worker_exit_n@rank=1", WORKER_EXITED, "rank 1 ended by itself", "status 3", 0},
    {"proc.worker_exit_n@rank=1,status=77,step=2", WORKER_EXITED, "rank 1", "status 77", 0},
    {"proc.worker_signal@rank=1", WORKER_SIGNALED, "rank 1 was ended", "signal 11 (Segm", 0},
    {"proc.worker_signal@rank=1,signal=6,step=3", WORKER_SIGNALED, "rank 1", "signal 6 (Ab", 0},
    {"proc.worker_signal@rank=1,signal=7", WORKER_SIGNALED, "rank 1", "signal 7 (Bus", 0},
    {"proc.worker_signal@rank=1,signal=8", WORKER_SIGNALED, "rank 1", "signal 8 (", 0},
    {"proc.worker_signal@rank=1,signal=9", WORKER_SIGNALED, "rank 1", "signal 9 (Killed)", 0},
    {"proc.worker_signal@rank=1,signal=15", WORKER_SIGNALED, "rank 1", "signal 15 (", 0},
    {"proc.worker_signal@rank=1,signal=19", WORKER_HUNG, "rank 1 hangs", "no reply in 1 s", 1},
    {"proc.oom@rank=1,step=2", WORKER_OOM, "rank 1 was killed because memory ran out",
     "signal 9 (Killed): the kernel", 0},
    {"proc.hang@rank=1", WORKER_HUNG, "rank 1 hangs", "no reply in 1 s", 1},
    {"proc.hang@rank=1,step=5", WORKER_HUNG, "rank 1 hangs", "no reply in 1 s", 1},
    {"proc.late_reply@rank=1,ms=300", WORKER_LATE, "rank 1 replied after the deadline",
     "after its deadline of 1 s", 1},
    {"proc.not_reading@rank=1", WORKER_NOT_TAKEN, "rank 1 does not take its request",
     "s: a full pipe", 1},
    {"proc.empty_reply@rank=1", WORKER_EMPTY, "rank 1 sent an empty message", "no bytes", 0},
    {"proc.wrong_rank_reply@rank=1", WORKER_WRONG_RANK, "rank 1 replied in another rank's name",
     "in the name of rank 2", 0},
    {"proc.wrong_call_reply@rank=1", WORKER_WRONG_CALL, "rank 1 replied to another request",
     "a reply to request -1", 0},
    {"proc.reply_unwrapped@rank=1", WORKER_BROKEN, "rank 1 sent what cannot be read",
     "5b 5b 30 2e, no frame", 0},
    {"proc.truncated_reply@rank=1", WORKER_BROKEN, "rank 1 sent what cannot be read",
     "exited with status 0; a message cut after", 0},
    {"proc.garbled_reply@rank=1", WORKER_BROKEN, "rank 1 sent what cannot be read", "checksum", 0},
    {"proc.empty_message@rank=1", WORKER_EMPTY, "rank 1 sent an empty message",
     "an error with an empty text", 0},
    {"proc.cause_lost@rank=1", WORKER_EMPTY, "rank 1 sent an empty message", "its cause was lost",
     0},
    {"proc.garbled_error@rank=1", WORKER_BROKEN, "rank 1 sent what cannot be read", "checksum", 0},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static double began; /* the call */

/* "rank 1 hangs", or "rank 1 on node1 hangs". */
static void check_where(const char *wanted, const char *where)
{
    char text[ERR_PART];
    const char *rest = wanted + strlen("rank 1");
    snprintf(text, sizeof text, "%s%s", ranks_who(1), rest);
    if (!strstr(where, text)) fail_msg("\"%s\" is not in \"%s\"", text, where);
}

static void check(const struct row *row, struct workers *w, const struct err *err)
{
    const struct worker_failures *f = workers_failures(w);
    const struct worker_failure *first = &f->of[0];
    print_message("%s\n", row->fault);
    assert_err(err, ERR_PROCESS, "worker", NULL, row->found, NULL);
    check_where(row->where, err->where);
    if (ranks_are_apart()) assert_string_equal(first->envelope.host, ranks_host(1));
    assert_int_equal(err->rank, GUILTY);
    assert_int_equal(first->envelope.rank, GUILTY);
    assert_int_equal(first->outcome, row->outcome);
    assert_false(first->consequence);
    /* By this host's clock, whichever that host's is: hosts are SHIFT_S apart, tests are shorter.
     */
    double at = 1e-9 * (double)first->envelope.clock_ns;
    assert_true(at > began - 100 && at < clock_seconds() + 100);
    assert_int_equal(first->envelope.batch, 0);
    assert_string_equal(first->envelope.samples, "0-3");
    assert_true(first->envelope.op[0] && first->envelope.pid > 0);
    for (int i = 1; i < f->count; i++) assert_true(f->of[i].consequence);
}

static void run_row(const struct row *row, const char *oom)
{
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(RANKS);
    bool big = strstr(row->fault, "not_reading") != NULL;
    size_t room = ranks_are_apart() ? 1 << 24 : 1 << 21; /* more than a pipe takes */
    char *words = calloc(1, room);
    assert_non_null(words);
    memset(words, 'x', room - 1);
    o.fault = row->fault;
    o.oom = oom;
    if (row->call_s > 0) o.call_s = row->call_s * (big && ranks_are_apart() ? 5 : 1);
    struct workers *w = ranks_open(&o);
    began = clock_seconds();
    ranks_fail(w, big ? "echo" : "storm", big ? words : "0 12", &err);
    check(row, w, &err);
    assert_false(workers_usable(w));
    ranks_close(w);
    for (int i = 1; i < RANKS && ranks_are_apart(); i++)
        assert_int_equal(WEXITSTATUS(ranks_keeper_status(i)), 3);
    free(words);
}

static void fault__is_caught_and_named(void **state)
{
    char oom[FILE_PATH];
    snprintf(oom, sizeof oom, "%s", folder_path(state, "counter"));
    ranks_setup(NULL);
    for (int i = 0; i < ROWS; i++) {
        write_text(oom, "pgfault 5\noom_kill 0\n");
        run_row(&rows[i], oom);
    }
}

/* A rank says that itself, and the others what followed. */
static void fault__of_a_collective__is_an_error_of_the_rank_that_drops_out(void **state)
{
    (void)state;
    static const char *const texts[] = {"proc.nccl_abort@rank=1", "proc.nccl_abort@rank=1,step=7"};
    ranks_setup(NULL);
    for (int i = 0; i < 2; i++) {
        struct err err = ERR_INIT;
        struct workers_options o = ranks_options(RANKS);
        o.fault = texts[i];
        struct workers *w = ranks_open(&o);
        ranks_fail(w, "storm", "0 12", &err);
        const struct worker_failures *f = workers_failures(w);
        assert_err(&err, ERR_PROCESS, "collective", "rank 1", "it is aborted", NULL);
        assert_int_equal(err.rank, GUILTY);
        assert_int_equal(f->of[0].outcome, WORKER_ERROR);
        assert_false(f->of[0].consequence);
        for (int k = 1; k < f->count; k++) assert_true(f->of[k].consequence);
        ranks_close(w);
    }
}

static void fault__in_a_later_call_leaves_the_earlier_ones_alone(void **state)
{
    (void)state;
    static struct worker_replies replies;
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(RANKS);
    o.fault = "proc.worker_exit_n@call=2,step=1"; /* of the last rank */
    ranks_setup(NULL);
    struct workers *w = ranks_open(&o);
    struct worker_request q = ranks_request("storm", "0 3");
    for (int i = 0; i < 2; i++) (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    ranks_fail(w, "storm", "0 3", &err);
    assert_err(&err, ERR_PROCESS, "worker", "rank 2", "status 3", NULL);
    ranks_close(w);
}

static void fault__that_no_rank_can_read_stops_the_start(void **state)
{
    (void)state;
    static const char *const bad[] = {"proc.nothing", "mla.no_mscale", "proc.hang@row=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        struct workers_options o = ranks_options(2);
        struct workers *w;
        o.fault = bad[i];
        (void)!workers_open(&w, &o, &err);
        assert_err(&err, ERR_PROCESS, "worker", "did not start", "status 2", NULL);
    }
}

static void table__has_every_fault_of_a_process(void **state)
{
    (void)state;
    int faults = 0;
    for (int i = 0; fault_at(i); i++) {
        const struct fault_row *f = fault_at(i);
        if (f->stage != FAULT_PROCESS) continue;
        bool there = strcmp(f->id, "proc.nccl_abort") == 0; /* above: it ends no rank */
        for (int k = 0; k < ROWS; k++)
            there |= strncmp(rows[k].fault, f->id, strlen(f->id)) == 0 &&
                     rows[k].fault[strlen(f->id)] == '@';
        if (!there) fail_msg("%s is not tested", f->id);
        assert_true(f->edit && f->source && f->detector);
        faults++;
    }
    assert_in_range(faults, 10, 100);
}

static int setup_near(void **state)
{
    return ranks_near(state) | folder_setup(state);
}

static int setup_apart(void **state)
{
    return ranks_apart(state) | folder_setup(state);
}

static int teardown(void **state)
{
    return ranks_teardown(state) | folder_teardown(state);
}

/* Ranks of one host, and ranks of several. */
#define BOTH(f)                                                                                    \
    {#f, f, setup_near, teardown, NULL},                                                           \
    {                                                                                              \
#f " (apart)", f, setup_apart, teardown, NULL                                              \
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_near, teardown)

int main(int argc, char **argv)
{
    int status;
    if (ranks_main(argc, argv, &status)) return status;
    const struct CMUnitTest tests[] = {
        BOTH(fault__is_caught_and_named),
        BOTH(fault__of_a_collective__is_an_error_of_the_rank_that_drops_out),
        BOTH(fault__in_a_later_call_leaves_the_earlier_ones_alone),
        TEST(fault__that_no_rank_can_read_stops_the_start),
        TEST(table__has_every_fault_of_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
