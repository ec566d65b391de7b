/* test_board.c: what a rank writes is what others read, whole, also while it writes. */
#include "harness/board.h"
#include "tests/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read__gives_the_last_place_that_was_written(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct board a, b;
    struct board_place p = {.call = 1, .batch = 2, .layer = -1, .sample = 5, .line = 7}, got;
    (void)!board_make(&a, 3, &err);
    (void)!board_attach(&b, dup(a.segment.fd), 3, &err);
    assert_ok(&err);
    snprintf(p.op, sizeof p.op, "mla.core");
    snprintf(p.file, sizeof p.file, "x.c");
    assert_false(board_read(&a, 1, &got));
    assert_true(board_alive_ns(&a, 1) == 0);
    board_write(&b, 1, &p);
    assert_true(board_read(&a, 1, &got));
    assert_memory_equal(&got, &p, sizeof p);
    assert_false(board_read(&a, 0, &got));
    int64_t alive = board_alive_ns(&a, 1);
    assert_true(alive > 0);
    /* The clock may stand between two calls, a beat that writes nothing stands for good. */
    for (int i = 0; i < 1000000 && board_alive_ns(&a, 1) == alive; i++) board_beat(&b, 1);
    assert_true(board_alive_ns(&a, 1) > alive);
    assert_true(board_ending_ns(&a, 1) == 0);
    board_ending(&b, 1);
    int64_t ending = board_ending_ns(&a, 1);
    assert_true(ending > 0);
    board_ending(&b, 1); /* the first one counts */
    assert_true(board_ending_ns(&a, 1) == ending);
    p.line = 8; /* of another host, whose times are told */
    board_put(&a, 2, &p, 5000, 7000);
    assert_true(board_read(&b, 2, &got) && got.line == 8);
    assert_true(board_alive_ns(&b, 2) == 5000 && board_ending_ns(&b, 2) == 7000);
    board_free(&a);
    board_free(&b);
}

static struct board shared;
static atomic_bool done;

/* Places whose parts all say the same number. */
static void *write_many(void *ctx)
{
    (void)ctx;
    for (int64_t i = 0; i < 200000; i++) {
        struct board_place p = {.call = i, .batch = i, .layer = i, .sample = i, .line = i};
        snprintf(p.op, sizeof p.op, "%lld", (long long)i);
        snprintf(p.file, sizeof p.file, "%lld", (long long)i);
        board_write(&shared, 0, &p);
    }
    atomic_store(&done, true);
    return NULL;
}

static void read__is_whole_while_the_rank_writes(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    pthread_t thread;
    int64_t read = 0, mixed = 0;
    (void)!board_make(&shared, 1, &err);
    assert_ok(&err);
    assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
    while (!atomic_load(&done) || read == 0) {
        struct board_place p;
        char text[32];
        if (!board_read(&shared, 0, &p)) continue;
        snprintf(text, sizeof text, "%lld", (long long)p.call);
        mixed +=
            p.batch != p.call || p.line != p.call || strcmp(p.op, text) || strcmp(p.file, text);
        read++;
    }
    pthread_join(thread, NULL);
    board_free(&shared);
    assert_int_equal(mixed, 0);
    print_message("%lld places read\n", (long long)read);
}

static void attach__refuses_memory_that_is_too_small(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct board a, b;
    (void)!board_make(&a, 2, &err);
    assert_ok(&err);
    assert_int_not_equal(board_attach(&b, dup(a.segment.fd), 3, &err), ERR_OK);
    assert_err(&err, ERR_PROCESS, "take shared memory", NULL, NULL, NULL);
    board_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__gives_the_last_place_that_was_written),
        cmocka_unit_test(read__is_whole_while_the_rank_writes),
        cmocka_unit_test(attach__refuses_memory_that_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
