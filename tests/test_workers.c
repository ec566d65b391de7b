/* test_workers.c: calls to ranks that are real processes, of one host and of several: replies,
 * errors on their way, and every way in which a rank can end that no injected fault is needed for
 * (those: test_process_fault.c). */
#include "tests/ranks.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct worker_replies replies;

static struct workers *opened(int world)
{
    struct workers_options o = ranks_options(world);
    return ranks_open(&o);
}

/* ---- replies ---- */

static void call_all__gives_a_reply_a_rank__call_one_gives_that_one(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(3);
    struct worker_request q = ranks_request("tensor", "0 4");
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    assert_int_equal(replies.count, 3);
    for (int r = 0; r < 3; r++) {
        const struct worker_reply *p = &replies.of[r];
        assert_int_equal(p->rank, r);
        assert_int_equal(p->segments, 1);
        assert_int_equal(p->segment[0].bytes, 32);
        assert_true(((const double *)(const void *)p->segment[0].data)[3] == r + 3);
    }
    struct worker_reply one;
    q = ranks_request("echo", "only you");
    (void)!workers_call_one(w, 1, &q, &one, &err);
    assert_ok(&err);
    assert_int_equal(one.rank, 1);
    assert_int_equal(one.bytes, 8);
    assert_memory_equal(one.data, "only you", 8);
    ranks_finish(w);
}

static void call__keeps_state_between_calls(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    struct worker_request q = ranks_request("count", "");
    struct worker_reply one;
    int n = 0;
    for (int i = 0; i < 3; i++) (void)!workers_call_one(w, 1, &q, &one, &err);
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    memcpy(&n, replies.of[0].data, sizeof n);
    assert_int_equal(n, 1);
    memcpy(&n, replies.of[1].data, sizeof n);
    assert_int_equal(n, 4);
    ranks_finish(w);
}

static void call__carries_nothing_and_a_lot(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    struct worker_request q = ranks_request("nothing", "");
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    assert_int_equal(replies.of[1].bytes, 0);
    size_t n = 3 << 20; /* many times a socket's buffer, both ways */
    char *text = malloc(n);
    memset(text, 'x', n);
    text[n - 1] = 'y';
    q = (struct worker_request){.task = "echo", .batch = -1, .data = text, .bytes = (int64_t)n};
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(replies.of[r].bytes, n);
        assert_memory_equal(replies.of[r].data, text, n);
    }
    free(text);
    ranks_finish(w);
}

static void call__shares_a_segment_of_the_parent(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    struct segment s = SEGMENT_INIT;
    (void)!segment_reserve(&s, "assay-test", 800, &err);
    struct worker_request q = ranks_request("add one", "1");
    q.segment = &s;
    q.segments = 1;
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    for (int i = 0; i < 100; i++) assert_true(((double *)(void *)s.data)[i] == 1);
    segment_free(&s);
    ranks_finish(w);
}

static void stderr__of_a_rank_never_blocks_it(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    struct worker_request q = ranks_request("flood", "");
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    ranks_finish(w);
}

/* Hosts share no memory: the rank says so itself, and lives on. */
static void segment__of_another_host_is_an_error_of_the_rank(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(3);
    ranks_fail(w, "tensor", "0 4", &err);
    assert_err(&err, ERR_INPUT, "reply", "rank ", "memory for a parent on another host", "bytes");
    assert_true(err.rank == 1 || err.rank == 2); /* rank 0 is this host's */
    struct worker_request q = ranks_request("echo", "still here");
    err_clear(&err);
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    ranks_finish(w);
}

/* ---- errors ---- */

static void error__travels_whole_and_the_workers_go_on(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(4);
    ranks_fail(w, "fail one", "2", &err);
    assert_err(&err, ERR_INPUT, "read tensor", "experts.17.up", "3 bytes", "8");
    assert_int_equal(err.rank, 2);
    assert_string_equal(err.note[0], "expert 17");
    assert_non_null(strstr(err.note[1], "rank 2 of 4, pid "));
    assert_non_null(strstr(err.note[1], "in moe, layer 1, batch 0, sample 2, samples 0-3"));
    assert_non_null(strstr(err.note[1], "ranks.c:"));
    assert_non_null(strstr(err.note[3], "after it: ranks "));
    const struct worker_failures *f = workers_failures(w);
    assert_int_equal(f->count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f->of[i].outcome, WORKER_ERROR);
        assert_int_equal(f->of[i].consequence, i > 0);
        assert_int_equal(f->of[i].envelope.cause, i > 0 ? 2 : -1);
    }
    assert_non_null(strstr(f->of[1].envelope.op, "all_reduce_sum layers.1.moe"));
    assert_non_null(strstr(f->of[1].envelope.err.found, "rank 2 has failed"));
    assert_true(workers_usable(w));
    struct worker_request q = ranks_request("storm", "0 5");
    err_clear(&err);
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    ranks_finish(w);
}

static void error__that_came_first_is_the_cause(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(3);
    ranks_fail(w, "fail all", "1", &err);
    assert_err(&err, ERR_INPUT, "read shard", "rank 1's", NULL, NULL);
    assert_int_equal(workers_failures(w)->of[0].envelope.rank, 1);
    assert_int_equal(workers_failures(w)->count, 3);
    ranks_finish(w);
}

static void error__leaves_no_time_to_ranks_that_do_not_come_out(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(3);
    o.grace_s = 0.3;
    struct workers *w = ranks_open(&o);
    ranks_fail(w, "fail alone", "2 30000", &err);
    assert_err(&err, ERR_INPUT, "read shard", "rank 2's", NULL, NULL);
    const struct worker_failures *f = workers_failures(w);
    assert_int_equal(f->count, 3);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(f->of[i].outcome, WORKER_HUNG);
        assert_true(f->of[i].consequence);
        assert_non_null(strstr(f->of[i].envelope.err.found, "within 0.3 s of the first failure"));
        assert_string_equal(f->of[i].envelope.op, "load");
    }
    assert_false(workers_usable(w));
    ranks_close(w);
}

static void error__of_an_unknown_task_names_it(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    ranks_fail(w, "no such task", "", &err);
    assert_err(&err, ERR_USAGE, "request", "task", "no such task", NULL);
    ranks_finish(w);
}

static void collective__that_a_rank_goes_past_names_that_rank(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(3);
    o.collective_s = 0.2;
    struct workers *w = ranks_open(&o);
    ranks_fail(w, "skip", "1", &err);
    assert_err(&err, ERR_PROCESS, "collective", "waits for rank 1", "not come in 0.2 s: 1", "all");
    /* What another host's rank does, rank 0 alone knows. */
    if (!ranks_are_apart()) assert_non_null(strstr(err.where, "(in waiting for a request)"));
    assert_int_equal(err.rank, 1);
    ranks_finish(w);
}

/* ---- ends ---- */

static void signal__comes_with_a_backtrace_and_the_end_of_its_stderr(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    ranks_fail(w, "complain", "1", &err);
    assert_err(&err, ERR_PROCESS, "worker", ranks_who(1), "signal 11", "a reply");
    assert_non_null(strstr(err.where, "was ended by a signal"));
    const struct worker_failures *f = workers_failures(w);
    assert_int_equal(f->of[0].outcome, WORKER_SIGNALED);
    assert_non_null(strstr(f->of[0].tail, "cannot find the cache"));
    assert_null(strstr(f->of[0].tail, "NUM_THREADS"));
    assert_non_null(strstr(f->of[0].tail, "ended by SIGSEGV; backtrace"));
    assert_false(workers_usable(w));
    struct worker_request q = ranks_request("echo", "");
    err_clear(&err);
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_err(&err, ERR_PROCESS, "worker", ranks_who(1), "ended by signal 11", NULL);
    assert_non_null(strstr(err.note[err.notes - 1], "in an earlier call than echo"));
    ranks_close(w);
}

static void kill__between_two_calls_is_seen_by_the_next(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    assert_int_equal(kill(workers_pid(w, 0), SIGKILL), 0);
    ranks_fail(w, "echo", "", &err);
    assert_err(&err, ERR_PROCESS, "worker", ranks_who(0), "signal 9", NULL);
    assert_non_null(strstr(err.note[0], "rank 0 of 2, pid "));
    ranks_close(w);
}

static void stall__is_named_though_the_deadline_is_far(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(2);
    o.stall_s = 0.3;
    struct workers *w = ranks_open(&o);
    ranks_fail(w, "sleep", "1 20000", &err);
    assert_err(&err, ERR_PROCESS, "worker", ranks_who(1), "no sign of life for 0.", "a reply");
    assert_non_null(strstr(err.where, " hangs"));
    ranks_close(w);
}

static void finish__tells_of_a_rank_that_ends_badly(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    struct worker_request q = ranks_request("end dirty", "1");
    (void)!workers_call_all(w, &q, &replies, &err);
    assert_ok(&err);
    assert_int_not_equal(workers_finish(w, &err), ERR_OK);
    assert_err(&err, ERR_PROCESS, "worker", "rank 1", "exited with status 5", "status 0");
    ranks_close(w);
}

static void open__refuses_what_cannot_start(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(0);
    struct workers *w;
    (void)!workers_open(&w, &o, &err);
    assert_err(&err, ERR_USAGE, "ranks", NULL, "0", "1 .. 64");
    assert_null(w);
    err_clear(&err);
    o = ranks_options(2);
    o.program = "/nonexistent/program";
    (void)!workers_open(&w, &o, &err);
    assert_err(&err, ERR_PROCESS, "worker", "did not start", "status 127", NULL);
    assert_null(w);
    err_clear(&err);
    o.program = "/bin/true"; /* ends with 0, and never says hello */
    (void)!workers_open(&w, &o, &err);
    assert_err(&err, ERR_PROCESS, "worker", "did not start", "exited with status 0", NULL);
    err_clear(&err);
    o.program = "/bin/cat"; /* "worker" is no file of its */
    (void)!workers_open(&w, &o, &err);
    assert_err(&err, ERR_PROCESS, "worker", "did not start", "exited with status 1", NULL);
    workers_close(NULL);
    ranks_assert_no_traces();
}

/* The parent is a child of the test; its ranks' pids come through a pipe. */
static void parent__that_is_killed_leaves_no_rank(void **state)
{
    (void)state;
    int ends[2];
    pid_t pids[3];
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct workers *w = opened(3);
        struct worker_request q = ranks_request("sleep", "0 60000");
        struct err err = ERR_INIT;
        for (int r = 0; r < 3; r++) pids[r] = workers_pid(w, r);
        if (write(ends[1], pids, sizeof pids) != sizeof pids) _exit(1);
        (void)!workers_call_all(w, &q, &replies, &err);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    close(ends[0]);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    int left = 3;
    for (int tries = 0; left > 0 && tries < 500; tries++) {
        left = 0;
        for (int r = 0; r < 3; r++) left += kill(pids[r], 0) == 0;
        usleep(10000);
    }
    assert_int_equal(left, 0);
    ranks_assert_no_traces();
}

static void failures_json__has_every_field(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers *w = opened(2);
    ranks_fail(w, "fail one", "0", &err);
    json_t *j = workers_failures_json(w), *first = json_array_get(j, 0);
    static const char *const keys[] = {"rank",  "outcome", "consequence", "what",   "where",
                                       "found", "wanted",  "chain",       "host",   "pid",
                                       "op",    "layer",   "batch",       "sample", "samples",
                                       "site",  "time",    "stderr"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(json_object_get(first, keys[i]));
    assert_int_equal(json_array_size(j), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "layer")), 1);
    assert_string_equal(json_string_value(json_object_get(first, "samples")), "0-3");
    json_decref(j);
    FILE *f = tmpfile();
    workers_failures_print(w, f);
    rewind(f);
    char text[512] = "";
    assert_non_null(fgets(text, sizeof text, f));
    assert_non_null(strstr(text, "assay: rank 0: cause: read tensor"));
    assert_non_null(fgets(text, sizeof text, f));
    assert_non_null(strstr(text, "assay: rank 1: consequence: collective"));
    fclose(f);
    ranks_finish(w);
}

static void outcomes__have_a_name_each(void **state)
{
    (void)state;
    for (int i = 0; i <= WORKER_OUTCOMES; i++)
        assert_true(strlen(worker_outcome_name((enum worker_outcome)i)) > 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ranks_near, ranks_teardown)
#define APART(f) cmocka_unit_test_setup_teardown(f, ranks_apart, ranks_teardown)
#define BOTH(f)                                                                                    \
    TEST(f),                                                                                       \
    {                                                                                              \
#f " (apart)", f, ranks_apart, ranks_teardown, NULL                                        \
    }

int main(int argc, char **argv)
{
    int status;
    if (ranks_main(argc, argv, &status)) return status;
    const struct CMUnitTest tests[] = {
        TEST(call_all__gives_a_reply_a_rank__call_one_gives_that_one),
        BOTH(call__keeps_state_between_calls),
        BOTH(call__carries_nothing_and_a_lot),
        TEST(call__shares_a_segment_of_the_parent),
        BOTH(stderr__of_a_rank_never_blocks_it),
        APART(segment__of_another_host_is_an_error_of_the_rank),
        BOTH(error__travels_whole_and_the_workers_go_on),
        BOTH(error__that_came_first_is_the_cause),
        BOTH(error__leaves_no_time_to_ranks_that_do_not_come_out),
        BOTH(error__of_an_unknown_task_names_it),
        BOTH(collective__that_a_rank_goes_past_names_that_rank),
        BOTH(signal__comes_with_a_backtrace_and_the_end_of_its_stderr),
        BOTH(kill__between_two_calls_is_seen_by_the_next),
        BOTH(stall__is_named_though_the_deadline_is_far),
        BOTH(finish__tells_of_a_rank_that_ends_badly),
        TEST(open__refuses_what_cannot_start),
        TEST(parent__that_is_killed_leaves_no_rank),
        BOTH(failures_json__has_every_field),
        TEST(outcomes__have_a_name_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
