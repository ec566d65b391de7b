/* test_worker_tasks.c: the program as its own ranks: the hidden verb, its tasks, and its refusal of
 * words that no parent gave. */
#include "harness/worker_parts.h"
#include "harness/workers.h"
#include "tests/cli.h"

#include <string.h>

static struct worker_replies replies;

static struct workers *opened(int world)
{
    struct err err = ERR_INIT;
    struct workers *w;
    const struct workers_options o = {.world = world, .program = ASSAY_PROGRAM, .start_s = 60};
    (void)!workers_open(&w, &o, &err);
    assert_ok(&err);
    return w;
}

static void program__is_its_own_ranks(void **state)
{
    (void)state;
    for (int world = 1; world <= 8; world += world < 3 ? 1 : 5) {
        struct err err = ERR_INIT;
        struct workers *w = opened(world);
        const struct worker_request ping = {.task = "ping", .batch = -1};
        const struct worker_request check = {.task = "collectives", .batch = -1};
        assert_int_equal(workers_world(w), world);
        (void)!workers_call_all(w, &ping, &replies, &err);
        assert_ok(&err);
        for (int r = 0; r < world; r++) {
            const char *wanted = textf("rank %d of %d, pid %d", r, world, workers_pid(w, r));
            assert_int_equal(replies.of[r].bytes, strlen(wanted));
            assert_memory_equal(replies.of[r].data, wanted, strlen(wanted));
        }
        (void)!workers_call_all(w, &check, &replies, &err);
        (void)!workers_finish(w, &err);
        assert_ok(&err);
        workers_close(w);
    }
}

static void worker__refuses_words_that_no_parent_gave(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "worker");
    assert_int_equal(r.status, 2);
    assert_string_equal(r.err, "assay: error: worker: --rank: found not given, wanted what `assay` "
                               "gives its ranks\n");
    cli_free(&r);
    cli(&r, "worker", "--rank", "4", "--world", "4", "--socket", "3", "--board", "4", "--shm", "5",
        "--window", "1", "--collective-ms", "1", "--parent", "1");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "--rank: found 4 of 4"));
    cli_free(&r);
    /* Descriptors that are not there. */
    cli(&r, "worker", "--rank", "0", "--world", "4", "--socket", "900", "--board", "901", "--shm",
        "902", "--window", "1", "--collective-ms", "1", "--parent", "1");
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.err, "take shared memory"));
    cli_free(&r);
}

static void place__is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct worker_place p = {.rank = 3,
                                   .world = 8,
                                   .socket = 5,
                                   .board = 6,
                                   .shm = 7,
                                   .window = 1LL << 40,
                                   .collective_s = 1.5,
                                   .parent = 4242,
                                   .fault = "proc.hang@rank=3",
                                   .oom = "counter"};
    struct worker_place back;
    struct place_words words;
    struct err err = ERR_INIT;
    worker_place_write(&p, &words);
    char *argv[PLACE_WORDS + 1];
    memcpy(argv, words.word, sizeof argv);
    (void)!worker_place_read(&back, words.count, argv, &err);
    assert_ok(&err);
    assert_int_equal(back.rank, 3);
    assert_int_equal(back.world, 8);
    assert_int_equal(back.socket, 5);
    assert_int_equal(back.board, 6);
    assert_int_equal(back.shm, 7);
    assert_true(back.window == 1LL << 40);
    assert_true(back.collective_s == 1.5);
    assert_int_equal(back.parent, 4242);
    assert_string_equal(back.fault, "proc.hang@rank=3");
    assert_string_equal(back.oom, "counter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program__is_its_own_ranks),
        cmocka_unit_test(worker__refuses_words_that_no_parent_gave),
        cmocka_unit_test(place__is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
