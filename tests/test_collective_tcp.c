/* test_collective_tcp.c: what only a network can do to a collective: a peer that is gone or talks
 * nonsense, what a stopped call left on its way, many windows at once; and that the bits are those
 * of shared memory. The rest, which both transports have in common: test_collective.c */
#include "harness/collective_tcp.h"

#include "harness/session.h"
#include "tests/net.h"
#include "tests/support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 5, WINDOW = 4096, LARGE = 1 << 22 };

static const char hosts[COLLECTIVE_RANKS][COLLECTIVE_HOST] = {"h0", "h1", "h2", "h3", "h4"};

struct member {
    struct collective_shm lobby;
    struct collective_tcp tcp;
    struct collective c;
    struct err err;
    double *x;
    int64_t n;
};

static struct member members[MOST];
static int fds[MOST][MOST];

static void open_one(int r, int world, int64_t window, double deadline_s)
{
    struct member *m = &members[r];
    *m = (struct member){.err = ERR_INIT};
    (void)!collective_shm_make(&m->lobby, world, WINDOW, &m->err);
    m->lobby.rank = r;
    collective_shm_join(&m->lobby, 0);
    (void)!collective_tcp_make(&m->tcp, &m->lobby, fds[r], hosts, window, &m->err);
    assert_ok(&m->err);
    collective_tcp_join(&m->tcp);
    collective_tcp_open(&m->c, &m->tcp, deadline_s);
}

/* Each has a lobby of its own, as on another host. */
static void open_all(int world, int64_t window, double deadline_s)
{
    net_mesh(world, &fds[0][0], MOST);
    for (int r = 0; r < world; r++) open_one(r, world, window, deadline_s);
}

static void close_one(int r)
{
    collective_tcp_free(&members[r].tcp);
    collective_shm_free(&members[r].lobby);
}

static void *sum(void *ctx)
{
    struct member *m = ctx;
    (void)!collective_all_reduce_sum(&m->c, "x", m->x, m->n, DT_F64, &m->err);
    return NULL;
}

/* Ranks [from, to) sum at once. */
static void sum_of(int from, int to)
{
    pthread_t thread[MOST];
    for (int r = from; r < to; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, sum, &members[r]), 0);
    for (int r = from; r < to; r++) pthread_join(thread[r], NULL);
}

/* Values whose sum depends on the order. */
static void fill(int r, int64_t n)
{
    members[r].n = n;
    members[r].x = malloc((size_t)n * sizeof(double));
    assert_non_null(members[r].x);
    for (int64_t i = 0; i < n; i++)
        members[r].x[i] =
            ldexp(1 + (double)((i * 37 + r * 101) % 211) / 211, (int)((i + r * 5) % 23) - 11) *
            ((i + r) % 3 == 0 ? -1 : 1);
}

static void *sum_in_memory(void *ctx)
{
    struct member *m = ctx;
    collective_shm_open(&m->c, &m->lobby, 60);
    return sum(m);
}

/* The same sum over shared memory: the bits are the same, whatever the windows. */
static void sum__has_the_bits_of_shared_memory(void **state)
{
    (void)state;
    enum { N = 3001 };
    double *over_tcp = malloc(N * sizeof *over_tcp);
    struct collective_shm starter;
    pthread_t thread[MOST];
    struct err err = ERR_INIT;
    open_all(MOST, 8192, 60);
    for (int r = 0; r < MOST; r++) fill(r, N);
    sum_of(0, MOST);
    memcpy(over_tcp, members[0].x, N * sizeof *over_tcp);
    for (int r = 0; r < MOST; r++) {
        assert_ok(&members[r].err);
        assert_memory_equal(members[r].x, over_tcp, N * sizeof *over_tcp);
        free(members[r].x);
        close_one(r);
    }
    (void)!collective_shm_make(&starter, MOST, WINDOW, &err);
    for (int r = 0; r < MOST; r++) {
        fill(r, N);
        (void)!collective_shm_attach(&members[r].lobby, dup(starter.segment.fd), r, MOST, WINDOW,
                                     &err);
        assert_int_equal(pthread_create(&thread[r], NULL, sum_in_memory, &members[r]), 0);
    }
    for (int r = 0; r < MOST; r++) pthread_join(thread[r], NULL);
    assert_ok(&err);
    for (int r = 0; r < MOST; r++) {
        assert_ok(&members[r].err);
        assert_memory_equal(members[r].x, over_tcp, N * sizeof *over_tcp);
        free(members[r].x);
        collective_shm_free(&members[r].lobby);
    }
    collective_shm_free(&starter);
    free(over_tcp);
}

/* Windows larger than all that the kernel takes at once, from all to all. */
static void sum__of_large_windows_does_not_stick(void **state)
{
    (void)state;
    enum { N = LARGE / sizeof(double) * 3 / 2 };
    open_all(3, LARGE, 60);
    for (int r = 0; r < 3; r++) fill(r, N);
    sum_of(0, 3);
    for (int r = 0; r < 3; r++) {
        assert_ok(&members[r].err);
        assert_memory_equal(members[r].x, members[0].x, N * sizeof(double));
    }
    for (int r = 0; r < 3; r++) {
        free(members[r].x);
        close_one(r);
    }
}

static void send_raw(int fd, const void *bytes, size_t n)
{
    assert_int_equal(write(fd, bytes, n), n);
}

/* Rank 1 does as `how` says instead of taking part; rank 0 says what that was. */
static void misbehave(int how, const char *found)
{
    struct wire_message m = {.kind = WIRE_WINDOW, .rank = 1, .call = 0, .data = NULL};
    struct err err = ERR_INIT;
    open_all(2, WINDOW, 0.5);
    fill(0, 10);
    struct wire *w = &members[1].tcp.peer[0];
    unsigned char zero[256] = {0};
    m.data = zero;
    m.bytes = sizeof zero;
    if (how == 0) close_one(1);
    if (how == 1) send_raw(w->fd, "GET / HTTP/1.1\r\nHost: nobody knows which\r\n\r\n", 45);
    if (how == 2) m.kind = WIRE_REQUEST;
    if (how == 3) m.rank = 0;
    if (how == 4) m.bytes = 8;
    if (how == 5) m.call = 1;
    if (how == 6) m.bytes = 160; /* a head of another turn */
    if (how >= 2) (void)!wire_send(w, &m, clock_seconds() + 10, &err);
    sum_of(0, 1);
    assert_err(&members[0].err, ERR_PROCESS, "collective", "rank 1", found, NULL);
    assert_int_equal(members[0].err.rank, 1);
    assert_non_null(strstr(members[0].err.where, "rank 1 on h1"));
    free(members[0].x);
    close_one(0);
    if (how != 0) close_one(1);
}

static void peer__that_goes_or_talks_nonsense_is_named_with_its_host(void **state)
{
    (void)state;
    misbehave(0, "its connection has ended");
    misbehave(1, "47 45 54 20, no frame");
    misbehave(2, "a message of kind 2 in the name of rank 1");
    misbehave(3, "a message of kind 8 in the name of rank 0");
    misbehave(4, "a message of kind 8 in the name of rank 1");
    misbehave(5, "of call 1, group 0, turn 0");
    misbehave(6, "of call 0, group 0, turn 0");
}

static atomic_bool waits; /* a rank has sent what its peers take */

static void note_wait(void *ctx, const char *what)
{
    (void)ctx;
    if (what) atomic_store(&waits, true);
}

/* Rank 0 sends large windows to ranks that do not read; it is stopped in the middle of a frame. In
 * the next call all are as new: the frame is ended first, and thrown away. */
static void call__that_was_stopped_leaves_nothing_behind(void **state)
{
    (void)state;
    enum { N = 4 * LARGE / sizeof(double) };
    pthread_t thread;
    open_all(3, 4 * (int64_t)LARGE, 60);
    fill(0, N);
    members[0].lobby.waiting = note_wait;
    assert_int_equal(pthread_create(&thread, NULL, sum, &members[0]), 0);
    for (int i = 0; i < 30000 && !atomic_load(&waits); i++) usleep(1000);
    collective_shm_stop(&members[0].lobby, 0, 2);
    pthread_join(thread, NULL);
    assert_err(&members[0].err, ERR_PROCESS, "collective", NULL, "rank 2 has failed", NULL);
    assert_int_equal(members[0].err.rank, 2);
    const struct wire *w = &members[0].tcp.peer[1];
    assert_true(w->out_sent < w->out_bytes); /* else this test tests nothing */
    free(members[0].x);
    for (int r = 0; r < 3; r++) {
        members[r].err = (struct err)ERR_INIT;
        collective_shm_join(&members[r].lobby, 1);
        collective_tcp_join(&members[r].tcp);
        fill(r, 1000);
    }
    sum_of(0, 3);
    for (int r = 0; r < 3; r++) {
        assert_ok(&members[r].err);
        assert_memory_equal(members[r].x, members[0].x, 1000 * sizeof(double));
    }
    for (int r = 0; r < 3; r++) {
        free(members[r].x);
        close_one(r);
    }
}

/* A member that takes nothing and says nothing. */
static void peer__that_is_silent_is_named_at_the_deadline(void **state)
{
    (void)state;
    open_all(3, WINDOW, 0.2);
    fill(0, 10);
    fill(2, 10);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sum, &members[2]), 0);
    sum_of(0, 1);
    pthread_join(thread, NULL);
    assert_err(&members[0].err, ERR_PROCESS, "collective", "rank 0 waits for rank 1",
               "not come in 0.2 s: 1 on h1", "all");
    assert_err(&members[2].err, ERR_PROCESS, "collective", "rank 2 waits for rank 1",
               "not come in 0.2 s: 1 on h1", "all");
    free(members[0].x);
    free(members[2].x);
    for (int r = 0; r < 3; r++) close_one(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum__has_the_bits_of_shared_memory),
        cmocka_unit_test(sum__of_large_windows_does_not_stick),
        cmocka_unit_test(peer__that_goes_or_talks_nonsense_is_named_with_its_host),
        cmocka_unit_test(call__that_was_stopped_leaves_nothing_behind),
        cmocka_unit_test(peer__that_is_silent_is_named_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
