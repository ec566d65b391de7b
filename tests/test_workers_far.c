/* test_workers_far.c: the parts of ranks on other hosts that no run can be made to show at will:
 * the clocks of two hosts, what came first by two connections, and the words that a rank is started
 * with. The rest: test_workers.c, test_process_fault.c, test_workers_kill.c */
#include "harness/session.h"
#include "harness/workers_parts.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

static const int64_t second = 1000000000;

static int64_t now_ns(void)
{
    return (int64_t)(1e9 * clock_seconds());
}

/* The shortest way counts; a late word moves the clock by no more than two clocks drift apart. */
static void clock__is_learnt_from_the_word_that_was_shortest_on_its_way(void **state)
{
    (void)state;
    struct rank r = {.far = true};
    workers_far_clock(&r, now_ns() - 1000 * second); /* it is behind, or was so long on its way */
    assert_true(r.there.skew_ns >= 1000 * second && r.there.skew_ns < 1060 * second);
    int64_t first = r.there.skew_ns;
    workers_far_clock(&r, now_ns() - 3000 * second); /* 2000 s late */
    assert_true(r.there.skew_ns >= first && r.there.skew_ns < first + second);
    workers_far_clock(&r, now_ns() - 100 * second); /* quicker */
    assert_true(r.there.skew_ns >= 100 * second && r.there.skew_ns < 160 * second);
    workers_far_clock(&r, now_ns() + 500 * second); /* ahead */
    assert_true(r.there.skew_ns < 0);
}

/* Its keeper's word may be here before what the rank itself had sent. */
static void end__waits_for_what_the_rank_sent_itself(void **state)
{
    (void)state;
    struct rank r = {.far = true, .state = RANK_ASKED, .wire = {.fd = 0}};
    assert_false(workers_far_over(&r));
    r.there.ended = true;
    r.there.ended_at = clock_seconds() + 60;
    assert_false(workers_far_over(&r));
    r.wire.fd = -1; /* all is read */
    assert_true(workers_far_over(&r));
    r.wire.fd = 0;
    r.state = RANK_DONE; /* its reply is here */
    assert_true(workers_far_over(&r));
    r.state = RANK_ASKED;
    r.there.ended_at = clock_seconds() - 60; /* it has had its time */
    assert_true(workers_far_over(&r));
}

static void place__carries_connections_and_hosts(void **state)
{
    (void)state;
    static struct worker_place p = {.rank = 3, .world = COLLECTIVE_RANKS, .far = true}, got;
    static struct place_words words;
    struct err err = ERR_INIT;
    for (int i = 0; i < COLLECTIVE_RANKS; i++) {
        p.mesh[i] = i == 3 ? -1 : 1000000 + i;
        snprintf(p.host[i], sizeof p.host[i], "node%d.%045d", i, 0);
    }
    worker_place_write(&p, &words);
    assert_null(words.word[words.count]);
    assert_in_range(words.count, 1, PLACE_WORDS);
    (void)!worker_place_read(&got, words.count, (char **)words.word, &err);
    assert_ok(&err);
    assert_true(got.far);
    assert_memory_equal(got.mesh, p.mesh, sizeof p.mesh);
    for (int i = 0; i < COLLECTIVE_RANKS; i++) assert_string_equal(got.host[i], p.host[i]);
    p.far = false;
    worker_place_write(&p, &words);
    (void)!worker_place_read(&got, words.count, (char **)words.word, &err);
    assert_false(got.far);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock__is_learnt_from_the_word_that_was_shortest_on_its_way),
        cmocka_unit_test(end__waits_for_what_the_rank_sent_itself),
        cmocka_unit_test(place__carries_connections_and_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
