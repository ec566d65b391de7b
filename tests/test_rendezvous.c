/* test_rendezvous.c: ranks that others have started meet on this host, as threads: all come, one
 * does not, one comes twice, one is of another run, and somebody who is no rank knocks. */
#include "harness/rendezvous.h"

#include "harness/build_facts.h"
#include "harness/net.h"
#include "harness/rendezvous_door.h"
#include "harness/session.h"
#include "tests/net.h"
#include "tests/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 5 };

struct rank {
    struct launch l;
    double wait_s;
    struct err err;
    uint64_t id;       /* what rank 0 shares */
    struct err failed; /* before it hands anything over */
    int64_t all[MOST]; /* rank 0: what all have handed over */
};

static struct rank ranks[MOST];

static void *meet(void *ctx)
{
    static _Thread_local struct rendezvous r;
    struct rank *me = ctx;
    if (me->l.rank == 0) me->id = 0x123456789abcdefULL;
    if (rendezvous_meet(&r, &me->l, me->wait_s, &me->err) == ERR_OK)
        (void)!rendezvous_share(&r, &me->id, sizeof me->id, 20, &me->err);
    if (me->err.code == ERR_OK) {
        int64_t own = 10 * me->l.rank;
        (void)!rendezvous_gather(&r, &me->failed, &own, sizeof own, me->all, 20, &me->err);
        if (me->err.code != ERR_OK && me->l.rank == 0) rendezvous_refuse(&r, &me->err);
        if (me->err.code == ERR_OK) (void)!rendezvous_share(&r, &own, sizeof own, 20, &me->err);
    }
    rendezvous_close(&r);
    return NULL;
}

static void prepare(int n, int world, double wait_s)
{
    int port = net_free_port();
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){.l = {.by = "test", .rank = i, .world = world, .port = port},
                                 .wait_s = wait_s,
                                 .err = ERR_INIT,
                                 .failed = ERR_INIT};
        snprintf(ranks[i].l.host, LAUNCH_HOST, "127.0.0.1");
    }
}

static void meet_all(int n)
{
    pthread_t thread[MOST];
    for (int i = 0; i < n; i++) /* rank 0 last: the others try again */
        assert_int_equal(pthread_create(&thread[i], NULL, meet, &ranks[n - 1 - i]), 0);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

static void meet__brings_all_ranks_together(void **state)
{
    (void)state;
    for (int world = 1; world <= MOST; world++) {
        prepare(world, world, 30);
        meet_all(world);
        for (int i = 0; i < world; i++) {
            assert_ok(&ranks[i].err);
            assert_true(world == 1 || ranks[i].id == 0x123456789abcdefULL);
            assert_int_equal(ranks[0].all[i], 10 * i);
        }
    }
}

static void meet__names_who_did_not_come_on_every_rank(void **state)
{
    (void)state;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    prepare(2, 4, 0.5);
    meet_all(2);
    assert_err(&ranks[0].err, ERR_PROCESS, "meet the other ranks", "rank 0 of 4, on ",
               "not come in 0.5 s: 2, 3", "all ranks");
    assert_int_equal(ranks[0].err.rank, 2);
    assert_non_null(strstr(ranks[0].err.note[0], "came: rank 1 from "));
    assert_non_null(strstr(ranks[0].err.note[0], host));
    assert_err(&ranks[1].err, ERR_PROCESS, NULL, ", told by rank 0", "not come in 0.5 s: 2, 3",
               NULL);
    assert_non_null(strstr(ranks[1].err.where, host));
}

static void meet__says_that_rank_0_is_not_there(void **state)
{
    (void)state;
    prepare(2, 2, 0.2);
    meet(&ranks[1]);
    assert_err(&ranks[1].err, ERR_PROCESS, "meet the other ranks",
               " to rank 0 at 127.0.0.1:", "refused", "within 0.2 s");
    assert_non_null(strstr(ranks[1].err.where, "rank 1 on "));
}

static void meet__sends_away_who_does_not_belong(void **state)
{
    (void)state;
    prepare(3, 3, 30); /* two of them say that they are rank 1 */
    ranks[2].l.rank = 1;
    meet_all(3);
    assert_err(&ranks[0].err, ERR_PROCESS, NULL, "rank 1, from ", "rank 1 is here already", NULL);
    prepare(2, 2, 30);
    ranks[1].l.world = 8;
    meet_all(2);
    assert_err(&ranks[0].err, ERR_PROCESS, NULL, "rank 1", "of a run of 8 ranks, this one has 2",
               NULL);
    assert_err(&ranks[1].err, ERR_PROCESS, NULL, "told by rank 0", "a run of 8 ranks", NULL);
}

static int connect_to(const struct rank *r)
{
    struct err err = ERR_INIT;
    int fd = net_connect("127.0.0.1", r->l.port, clock_seconds() + 30, &err);
    assert_true(fd >= 0);
    return fd;
}

/* Connects and talks nonsense; others connect and say nothing, all at once, as long as it takes. */
static void *knock(void *ctx)
{
    enum { SILENT = 20 };
    int silent[SILENT], fd = connect_to(ctx);
    for (int i = 0; i < SILENT; i++) silent[i] = connect_to(ctx);
    if (send(fd, "GET / HTTP/1.1\r\nHost: nobody knows which\r\n\r\n", 45, MSG_NOSIGNAL) > 0)
        meet(&ranks[1]);
    for (int i = 0; i < SILENT; i++) close(silent[i]);
    close(fd);
    return NULL;
}

/* A greeting as `how` spoils it. */
static void greet(const struct greeting *g, struct err *err)
{
    char text[GREETING_TEXT];
    struct wire wire;
    struct wire_message m = {.kind = WIRE_HELLO, .rank = 1};
    m.bytes = greeting_write(g, text);
    m.data = (const unsigned char *)text;
    wire_init(&wire, connect_to(&ranks[0]), "rank 0");
    if (wire_send(&wire, &m, clock_seconds() + 30, err) == ERR_OK &&
        wire_receive(&wire, &m, clock_seconds() + 30, err) == ERR_OK && m.kind == WIRE_ERROR)
        err_set(err, ERR_PROCESS, "told|rank 0|%.*s|a welcome", (int)m.bytes, m.data);
    wire_free(&wire);
}

static void *meet_alone(void *ctx)
{
    static struct rendezvous r;
    struct rank *me = ctx;
    (void)!rendezvous_meet(&r, &me->l, me->wait_s, &me->err);
    rendezvous_close(&r);
    return NULL;
}

/* What one says that is not of this run, and how long the others are then waited for. */
static void meet__names_what_differs(void **state)
{
    (void)state;
    static const struct greeting like = {.world = 2,
                                         .about = {.host = "elsewhere", .boot = "b", .pid = 4711}};
    struct greeting g[3] = {like, like, like};
    const char *const said[3] = {"it is assay 0.0.1, rank 0 is assay ",
                                 "it is built from other, "
                                 "rank 0 from ",
                                 "it is of a run of 3 ranks, this one has 2"};
    pthread_t zero;
    for (int i = 0; i < 3; i++) {
        struct err err = ERR_INIT;
        snprintf(g[i].version, GREETING_WORD, "%s", i == 0 ? "0.0.1" : ASSAY_VERSION);
        snprintf(g[i].commit, GREETING_WORD, "%s", i == 1 ? "other" : build_commit);
        snprintf(g[i].run, GREETING_WORD, "-");
        if (i == 2) g[i].world = 3;
        prepare(1, 2, 30);
        assert_int_equal(pthread_create(&zero, NULL, meet_alone, &ranks[0]), 0);
        greet(&g[i], &err);
        pthread_join(zero, NULL);
        assert_err(&ranks[0].err, ERR_PROCESS, "meet the other ranks",
                   "rank 1, from elsewhere, pid 4711", said[i], "the ranks of this run");
        assert_int_equal(ranks[0].err.rank, 1);
        assert_err(&err, ERR_PROCESS, "told", NULL, said[i], NULL);
    }
}

/* Another run's rank is told so and does no harm; where somebody is missing, it is mentioned. */
static void meet__sends_another_runs_rank_away(void **state)
{
    (void)state;
    pthread_t zero;
    struct err err = ERR_INIT;
    struct greeting g = {.world = 2, .about = {.host = "elsewhere", .boot = "b"}, .run = "job8"};
    snprintf(g.version, sizeof g.version, ASSAY_VERSION);
    snprintf(g.commit, sizeof g.commit, "%s", build_commit);
    prepare(1, 2, 1);
    snprintf(ranks[0].l.run, LAUNCH_RUN, "job7");
    assert_int_equal(pthread_create(&zero, NULL, meet_alone, &ranks[0]), 0);
    greet(&g, &err);
    pthread_join(zero, NULL);
    assert_err(&err, ERR_PROCESS, "told", NULL, "of run job8, not of job7", NULL);
    assert_err(&ranks[0].err, ERR_PROCESS, NULL, NULL, "not come in 1 s: 1", NULL);
    assert_non_null(strstr(ranks[0].err.note[0], "(elsewhere): of run job8, not of job7"));
}

/* What one cannot do all hear of, where they would go on. */
static void gather__tells_all_what_one_has_failed_in(void **state)
{
    (void)state;
    for (int bad = 0; bad < 3; bad++) {
        prepare(3, 3, 30);
        err_set(&ranks[bad].failed, ERR_PROCESS, "listen|*|no port|one");
        meet_all(3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ranks[i].err.code, ERR_PROCESS);
            assert_non_null(strstr(ranks[i].err.found, "no port"));
        }
        assert_int_equal(ranks[0].err.rank, bad ? bad : -1);
    }
}

static void meet__is_not_disturbed_by_strangers(void **state)
{
    (void)state;
    pthread_t stranger;
    prepare(2, 2, 30);
    assert_int_equal(pthread_create(&stranger, NULL, knock, &ranks[0]), 0);
    meet(&ranks[0]);
    pthread_join(stranger, NULL);
    assert_ok(&ranks[0].err);
    assert_ok(&ranks[1].err);
}

static void meet__refuses_an_address_that_is_none(void **state)
{
    (void)state;
    prepare(1, 2, 1);
    ranks[0].l.port = 0;
    meet(&ranks[0]);
    assert_err(&ranks[0].err, ERR_INPUT, "meet the other ranks", "test", "no address of rank 0",
               "MASTER_ADDR");
    prepare(1, 65, 1);
    meet(&ranks[0]);
    assert_err(&ranks[0].err, ERR_INPUT, NULL, NULL, "65 ranks", "64 at most");
    prepare(1, 2, 1);
    snprintf(ranks[0].l.host, LAUNCH_HOST, "no such host.invalid");
    meet(&ranks[0]);
    assert_err(&ranks[0].err, ERR_PROCESS, NULL, "no such host.invalid:", NULL, "an address");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meet__brings_all_ranks_together),
        cmocka_unit_test(meet__names_who_did_not_come_on_every_rank),
        cmocka_unit_test(meet__says_that_rank_0_is_not_there),
        cmocka_unit_test(meet__sends_away_who_does_not_belong),
        cmocka_unit_test(meet__is_not_disturbed_by_strangers),
        cmocka_unit_test(meet__names_what_differs),
        cmocka_unit_test(meet__sends_another_runs_rank_away),
        cmocka_unit_test(gather__tells_all_what_one_has_failed_in),
        cmocka_unit_test(meet__refuses_an_address_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
