/* test_collective.c: the collectives over shared memory and over TCP, ranks as threads of this
 * process (each with its own mapping or connections): sums in rank order with stated rounding,
 * groups, sizes around the window, and every way in which ranks can disagree. Every test runs over
 * both: what is written here is what a transport must do. */
#include "core/collective.h"
#include "harness/collective_shm.h"
#include "harness/collective_tcp.h"
#include "tests/net.h"
#include "tests/support.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, WINDOW = 4096 };

struct member {
    struct collective c;
    struct collective_shm shm;
    struct collective_tcp tcp;
    struct err err;
    void (*body)(struct member *m);
    void *ctx;
};

static struct collective_shm starter;
static struct member members[MOST];
static bool over_tcp;

static const char hosts[COLLECTIVE_RANKS][COLLECTIVE_HOST] = {"h0", "h1", "h2", "h3",
                                                              "h4", "h5", "h6", "h7"};

static void *run(void *m)
{
    struct member *member = m;
    member->body(member);
    return NULL;
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* Runs body on `world` ranks at once. */
static void together_within(int world, double deadline_s, void (*body)(struct member *m), void *ctx)
{
    pthread_t thread[MOST];
    struct err err = ERR_INIT;
    int fd[MOST][MOST];
    (void)!collective_shm_make(&starter, world, WINDOW, &err);
    assert_ok(&err);
    if (over_tcp) net_mesh(world, &fd[0][0], MOST);
    for (int r = 0; r < world; r++) {
        struct member *m = &members[r];
        *m = (struct member){.err = ERR_INIT, .body = body, .ctx = ctx};
        (void)!collective_shm_attach(&m->shm, dup(starter.segment.fd), r, world, WINDOW, &m->err);
        assert_ok(&m->err);
        collective_shm_open(&m->c, &m->shm, deadline_s);
        if (!over_tcp) continue;
        (void)!collective_tcp_make(&m->tcp, &m->shm, fd[r], hosts, WINDOW, &m->err);
        assert_ok(&m->err);
        collective_tcp_open(&m->c, &m->tcp, deadline_s);
    }
    for (int r = 0; r < world; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, run, &members[r]), 0);
    for (int r = 0; r < world; r++) pthread_join(thread[r], NULL);
    for (int r = 0; r < world; r++) collective_tcp_free(&members[r].tcp);
    for (int r = 0; r < world; r++) collective_shm_free(&members[r].shm);
    collective_shm_free(&starter);
}

static void together(int world, void (*body)(struct member *m), void *ctx)
{
    together_within(world, 60, body, ctx);
    for (int r = 0; r < world; r++) assert_ok(&members[r].err);
}

/* ---- sums ---- */

struct sum {
    int64_t n;
    enum dtype dtype;
    double *x[MOST];
};

/* Values whose sum depends on the order. */
static double value(int rank, int64_t i)
{
    return ldexp(1 + (double)((i * 37 + rank * 101) % 211) / 211, (int)((i + rank * 5) % 23) - 11) *
           ((i + rank) % 3 == 0 ? -1 : 1);
}

static void sum_body(struct member *m)
{
    struct sum *s = m->ctx;
    (void)!collective_all_reduce_sum(&m->c, "x", s->x[m->c.rank], s->n, s->dtype, &m->err);
}

static void check_sum(int world, int64_t n, enum dtype dtype)
{
    struct sum s = {.n = n, .dtype = dtype};
    for (int r = 0; r < world; r++) {
        s.x[r] = calloc((size_t)n + 1, sizeof(double));
        for (int64_t i = 0; i < n; i++) s.x[r][i] = value(r, i);
    }
    together(world, sum_body, &s);
    for (int64_t i = 0; i < n; i++) {
        double wanted = dtype_round(dtype, value(0, i));
        for (int r = 1; r < world; r++)
            wanted = dtype_round(dtype, wanted + dtype_round(dtype, value(r, i)));
        for (int r = 0; r < world; r++) assert_memory_equal(&s.x[r][i], &wanted, sizeof wanted);
    }
    for (int r = 0; r < world; r++) free(s.x[r]);
}

static void all_reduce_sum__adds_in_rank_order_and_rounds_as_said(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 511, 512, 513, 1024, 1536, 5000};
    static const enum dtype dtypes[] = {DT_F64, DT_F32, DT_BF16};
    for (int world = 1; world <= MOST; world++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            check_sum(world, sizes[i], dtypes[(i + (size_t)world) % 3]);
    }
}

static void nan_body(struct member *m)
{
    double x[3] = {m->c.rank == 1 ? NAN : 1, m->c.rank == 1 ? INFINITY : 1, 0};
    (void)!collective_all_reduce_sum(&m->c, "x", x, 3, DT_BF16, &m->err);
    if (!isnan(x[0]) || !isinf(x[1]) || x[2] != 0)
        err_set(&m->err, ERR_DIFF, "nan|x|%g %g %g|NaN, inf, 0", x[0], x[1], x[2]);
}

static void all_reduce_sum__keeps_nan_and_infinity(void **state)
{
    (void)state;
    together(3, nan_body, NULL);
}

/* ---- the others ---- */

static void gather_body(struct member *m)
{
    int64_t bytes[MOST], total = 0, at = 0;
    for (int r = 0; r < m->c.world; r++) total += bytes[r] = (int64_t)r * 3000;
    unsigned char *all = malloc((size_t)total + 1), *part = malloc((size_t)bytes[m->c.rank] + 1);
    for (int64_t i = 0; i < bytes[m->c.rank]; i++)
        part[i] = (unsigned char)(m->c.rank * 50 + i % 47);
    (void)!collective_all_gather_parts(&m->c, "parts", part, bytes, all, &m->err);
    for (int r = 0; r < m->c.world; r++) {
        for (int64_t i = 0; i < bytes[r]; i++, at++) {
            if (all[at] != (unsigned char)(r * 50 + i % 47))
                err_set(&m->err, ERR_DIFF, "gather|rank %d, byte %lld|%d|other", r, (long long)i,
                        all[at]);
        }
    }
    free(all);
    free(part);
}

static void all_gather__puts_parts_of_any_size_in_order(void **state)
{
    (void)state;
    for (int world = 1; world <= 5; world++) together(world, gather_body, NULL);
}

static void in_place_body(struct member *m)
{
    int all[MOST] = {0};
    all[m->c.rank] = m->c.rank + 10;
    (void)!collective_all_gather(&m->c, "in place", &all[m->c.rank], sizeof(int), all, &m->err);
    for (int r = 0; r < m->c.world; r++) {
        if (all[r] != r + 10) err_set(&m->err, ERR_DIFF, "gather|%d|%d|%d", r, all[r], r + 10);
    }
}

static void all_gather__works_in_place(void **state)
{
    (void)state;
    together(4, in_place_body, NULL);
}

static void broadcast_body(struct member *m)
{
    static const int64_t sizes[] = {0, 1, 4096, 10000};
    for (int root = 0; root < m->c.world; root++) {
        for (int s = 0; s < 4; s++) {
            unsigned char data[10000];
            memset(data, m->c.rank == root ? root + 1 : 99, sizeof data);
            (void)!collective_broadcast(&m->c, "b", data, sizes[s], root, &m->err);
            for (int64_t i = 0; i < sizes[s]; i++) {
                if (data[i] != root + 1)
                    err_set(&m->err, ERR_DIFF, "broadcast|%d|%d|", root, data[i]);
            }
        }
    }
    (void)!collective_barrier(&m->c, "end", &m->err);
}

static void broadcast__gives_the_roots_bytes_to_all(void **state)
{
    (void)state;
    together(4, broadcast_body, NULL);
}

static void agree_body(struct member *m)
{
    int mine = m->ctx && m->c.rank == 2 ? 8 : 7;
    (void)!collective_agree(&m->c, "share the embedding", &mine, sizeof mine, &m->err);
}

static void agree__names_the_rank_that_differs(void **state)
{
    (void)state;
    together(4, agree_body, NULL);
    together_within(4, 60, agree_body, &members);
    for (int r = 0; r < 4; r++) {
        assert_err(&members[r].err, ERR_DIFF, "agree", "share the embedding: rank 2 against rank 0",
                   "4 bytes of hash", "as rank 0");
        assert_int_equal(members[r].err.rank, 2);
    }
}

/* ---- groups ---- */

/* Pairs on channel 1, odd and even on channel 2, in another order. */
static void groups_body(struct member *m)
{
    int r = m->c.rank;
    struct collective pair, others;
    const int two[2] = {r / 2 * 2, r / 2 * 2 + 1}, every[2] = {r % 2 + 2, r % 2};
    double x = r + 1, y = r + 1, z = r + 1;
    if (collective_group(&pair, &m->c, 1, two, 2, &m->err) != ERR_OK ||
        collective_group(&others, &m->c, 2, every, 2, &m->err) != ERR_OK)
        return;
    for (int i = 0; i < 50 && m->err.code == ERR_OK; i++) {
        x = y = z = r + 1;
        (void)!collective_all_reduce_sum(&pair, "pair", &x, 1, DT_F64, &m->err);
        if (i % 2 == 0) (void)!collective_all_reduce_sum(&m->c, "all", &z, 1, DT_F64, &m->err);
        (void)!collective_all_reduce_sum(&others, "others", &y, 1, DT_F64, &m->err);
    }
    if (x != (r / 2 == 0 ? 3 : 7) || y != (r % 2 == 0 ? 4 : 6) || others.rank != (r < 2))
        err_set(&m->err, ERR_DIFF, "groups|rank %d|%g and %g, place %d|sums", r, x, y, others.rank);
}

static void group__sums_over_its_members_alone(void **state)
{
    (void)state;
    together(4, groups_body, NULL);
}

static void group__refuses_what_is_none(void **state)
{
    (void)state;
    static const struct {
        int channel, member[3], members;
        const char *where, *found;
    } rows[] = {
        {0, {0, 1}, 2, "channel", "0"},
        {3, {0, 1}, 2, "channel", "3"},
        {1, {0, 0, 1}, 3, "member 1", "again"},
        {1, {0, 4}, 2, "member 1", "rank 4"},
        {1, {-1, 0}, 2, "member 0", "rank -1"},
        {1, {1, 2}, 2, "2 of 4", "rank 0 is not in it"},
        {1, {0}, 0, "0 of 4", "rank 0 is not in it"},
    };
    struct collective whole = {.world = 4}, out;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        (void)!collective_group(&out, &whole, rows[i].channel, rows[i].member, rows[i].members,
                                &err);
        assert_err(&err, ERR_INPUT, "group of ranks", rows[i].where, rows[i].found, NULL);
    }
    struct err err = ERR_INIT;
    double x = 1.0 + 1e-9;
    (void)!collective_group(&out, &whole, 1, (const int[]){0}, 1, &err);
    (void)!collective_all_reduce_sum(&out, "alone", &x, 1, DT_F32, &err);
    assert_ok(&err);
    assert_true(x == 1);
    collective_self(&out);
    (void)!collective_broadcast(&out, "alone", &x, sizeof x, 0, &err);
    assert_ok(&err);
}

/* ---- disagreement ---- */

static void other_call_body(struct member *m)
{
    double x[4] = {0}, all[16];
    int way = *(int *)m->ctx;
    bool odd = m->c.rank == 2;
    (void)!collective_barrier(&m->c, "start", &m->err);
    if (way == 0 && odd)
        (void)!collective_all_gather(&m->c, "x", x, 8, all, &m->err);
    else if (way == 0)
        (void)!collective_all_reduce_sum(&m->c, "x", x, 4, DT_F64, &m->err);
    if (way == 1) (void)!collective_all_reduce_sum(&m->c, "x", x, odd ? 3 : 4, DT_F64, &m->err);
    if (way == 2)
        (void)!collective_all_reduce_sum(&m->c, "x", x, 4, odd ? DT_BF16 : DT_F64, &m->err);
    if (way == 3) (void)!collective_broadcast(&m->c, "x", x, 8, odd, &m->err);
    if (way == 4) (void)!collective_barrier(&m->c, odd ? "layers.1" : "layers.0", &m->err);
    if (way == 5) (void)!collective_all_gather(&m->c, "x", x, odd ? 8 : 16, all, &m->err);
}

static void call__that_differs_is_named_on_every_rank(void **state)
{
    (void)state;
    static const char *const found[] = {"all_gather \"x\"",
                                        "all_reduce_sum \"x\" of 3 F64",
                                        "of 4 BF16",
                                        "broadcast \"x\" from 1",
                                        "barrier \"layers.1\"",
                                        "all_gather \"x\" of other sizes"};
    for (int way = 0; way < 6; way++) {
        together_within(3, 60, other_call_body, &way);
        for (int r = 0; r < 3; r++) {
            assert_err(&members[r].err, ERR_PROCESS, "collective", "rank 2 against rank 0",
                       found[way], "as rank 0");
            assert_int_equal(members[r].err.rank, 2);
            assert_int_equal(members[r].err.notes, 1);
        }
    }
}

static void absent_body(struct member *m)
{
    (void)!collective_barrier(&m->c, "first", &m->err);
    if (m->c.rank != 1) (void)!collective_barrier(&m->c, "second", &m->err);
}

static void member__that_does_not_come_is_named_at_the_deadline(void **state)
{
    (void)state;
    together_within(3, 0.2, absent_body, NULL);
    assert_ok(&members[1].err);
    for (int r = 0; r < 3; r += 2) {
        assert_err(&members[r].err, ERR_PROCESS, "collective", "waits for rank 1",
                   over_tcp ? "not come in 0.2 s: 1 on h1" : "not come in 0.2 s: 1", "all");
        assert_int_equal(members[r].err.rank, 1);
    }
}

static void stopped_body(struct member *m)
{
    if (m->c.rank == 1) {
        nap(20);
        collective_shm_stop(&starter, -1, 1);
        collective_shm_stop(&starter, -1, 0); /* the first one counts */
    } else {
        (void)!collective_barrier(&m->c, "waits", &m->err);
    }
}

static void stop__calls_the_others_out(void **state)
{
    (void)state;
    together_within(3, 60, stopped_body, NULL);
    for (int r = 0; r < 3; r += 2) {
        assert_err(&members[r].err, ERR_PROCESS, "collective", NULL, "rank 1 has failed", NULL);
        assert_int_equal(members[r].err.rank, 1);
    }
}

/* Rank 0 waits for rank 1, and somebody has given up on rank 0. */
static void blamed_body(struct member *m)
{
    if (m->c.rank == 1) return;
    if (m->c.rank == 0) collective_shm_stop(&starter, -1, 0);
    (void)!collective_barrier(&m->c, "never", &m->err);
}

static void stop__leaves_the_blamed_rank_to_say_whom_it_waits_for(void **state)
{
    (void)state;
    together_within(3, 0.2, blamed_body, NULL);
    assert_err(&members[0].err, ERR_PROCESS, "collective", "rank 0 waits for rank 1", NULL, "all");
    assert_int_equal(members[0].err.rank, 1);
    assert_err(&members[2].err, ERR_PROCESS, "collective", NULL, "rank 0 has failed", NULL);
    assert_int_equal(members[2].err.rank, 0);
}

/* What a rank says while it waits elsewhere; NULL: it is over. */
static void hear(void *ctx, const char *what)
{
    snprintf(ctx, COLLECTIVE_NAME, "%s", what ? what : "over");
}

static void watch_body(struct member *m)
{
    char heard[COLLECTIVE_NAME] = "";
    struct err lost = ERR_INIT;
    m->shm.waiting = hear;
    m->shm.ctx = heard;
    (void)!collective_watch(&m->c, "sum of moe, layer 3", &m->err);
    if (strcmp(heard, "sum of moe, layer 3") != 0) err_set(&m->err, ERR_DIFF, "watch|%s", heard);
    (void)!collective_watch(&m->c, NULL, &m->err);
    if (strcmp(heard, "over") != 0) err_set(&m->err, ERR_DIFF, "watch|%s", heard);
    m->shm.waiting = NULL;
    (void)!collective_barrier(&m->c, "all have looked", &m->err);
    if (m->c.rank == 1) collective_shm_stop(&starter, -1, 1);
    for (int i = 0; i < 20000 && m->c.rank != 1; i++) {
        if (collective_watch(&m->c, "the device", &lost) != ERR_OK) break;
        nap(1);
    }
    if (collective_watch(&m->c, NULL, &m->err) != ERR_OK) return;
    if (m->c.rank != 1 && (lost.code != ERR_PROCESS || lost.rank != 1))
        err_set(&m->err, ERR_DIFF, "watch|rank 1 not blamed|%d|1", lost.rank);
}

static void watch__tells_of_a_wait_elsewhere__and_hears_of_a_rank_that_failed(void **state)
{
    (void)state;
    together(3, watch_body, NULL);
    struct collective alone;
    struct err err = ERR_INIT;
    collective_self(&alone);
    assert_int_equal(collective_watch(&alone, "the device", &err), ERR_OK);
}

static pthread_barrier_t gate; /* of the threads, not ours to test */

static void calls_body(struct member *m)
{
    double x = 1;
    struct err lost = ERR_INIT;
    if (m->c.rank == 0) {
        collective_shm_stop(&starter, -1, 0);
    } else {
        (void)!collective_barrier(&m->c, "stopped", &lost);
        if (lost.code != ERR_PROCESS) err_set(&m->err, ERR_DIFF, "stop|not seen");
    }
    pthread_barrier_wait(&gate); /* everybody is out of it */
    collective_shm_join(&m->shm, 0);
    if (over_tcp) collective_tcp_join(&m->tcp);
    (void)!collective_all_reduce_sum(&m->c, "again", &x, 1, DT_F64, &m->err);
    if (m->err.code == ERR_OK && x != 3) err_set(&m->err, ERR_DIFF, "sum|x|%g|3", x);
}

static void next_call__makes_a_stopped_group_whole_again(void **state)
{
    (void)state;
    pthread_barrier_init(&gate, NULL, 3);
    together(3, calls_body, NULL);
    pthread_barrier_destroy(&gate);
}

static int choose_shm(void **state)
{
    (void)state;
    over_tcp = false;
    return 0;
}

static int choose_tcp(void **state)
{
    (void)state;
    over_tcp = true;
    return 0;
}

#define BOTH(test)                                                                                 \
    {#test " (shm)", test, choose_shm, NULL, NULL},                                                \
    {                                                                                              \
#test " (tcp)", test, choose_tcp, NULL, NULL                                               \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(all_reduce_sum__adds_in_rank_order_and_rounds_as_said),
        BOTH(all_reduce_sum__keeps_nan_and_infinity),
        BOTH(all_gather__puts_parts_of_any_size_in_order),
        BOTH(all_gather__works_in_place),
        BOTH(broadcast__gives_the_roots_bytes_to_all),
        BOTH(agree__names_the_rank_that_differs),
        BOTH(group__sums_over_its_members_alone),
        BOTH(group__refuses_what_is_none),
        BOTH(call__that_differs_is_named_on_every_rank),
        BOTH(member__that_does_not_come_is_named_at_the_deadline),
        BOTH(stop__calls_the_others_out),
        BOTH(stop__leaves_the_blamed_rank_to_say_whom_it_waits_for),
        BOTH(watch__tells_of_a_wait_elsewhere__and_hears_of_a_rank_that_failed),
        BOTH(next_call__makes_a_stopped_group_whole_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
