/* test_rendezvous.c: ranks that others have started meet on this host, as threads: all come, one
 * does not, one comes twice, one is of another run, and somebody who is no rank knocks. */
#include "harness/rendezvous.h"

#include "tests/support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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
    uint64_t id; /* what rank 0 shares */
};

static struct rank ranks[MOST];

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void *meet(void *ctx)
{
    static _Thread_local struct rendezvous r;
    struct rank *me = ctx;
    if (me->l.rank == 0) me->id = 0x123456789abcdefULL;
    if (rendezvous_meet(&r, &me->l, me->wait_s, &me->err) == ERR_OK)
        (void)!rendezvous_share(&r, &me->id, sizeof me->id, 20, &me->err);
    rendezvous_close(&r);
    return NULL;
}

static void prepare(int n, int world, double wait_s)
{
    int port = free_port();
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){.l = {.by = "test", .rank = i, .world = world, .port = port},
                                 .wait_s = wait_s,
                                 .err = ERR_INIT};
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
    assert_err(&ranks[0].err, ERR_PROCESS, "meet the other ranks", "rank 0 of 4",
               "not come in 0.5 s: 2, 3", "all ranks");
    assert_int_equal(ranks[0].err.rank, 2);
    assert_non_null(strstr(ranks[0].err.note[0], "came: rank 1 from "));
    assert_non_null(strstr(ranks[0].err.note[0], host));
    assert_err(&ranks[1].err, ERR_PROCESS, NULL, "rank 1, told by rank 0",
               "not come in 0.5 s: 2, 3", NULL);
}

static void meet__says_that_rank_0_is_not_there(void **state)
{
    (void)state;
    prepare(2, 2, 0.2);
    meet(&ranks[1]);
    assert_err(&ranks[1].err, ERR_PROCESS, "meet the other ranks",
               "rank 1 to rank 0 at 127.0.0.1:", "refused", "within 0.2 s");
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

/* Connects and talks nonsense. */
static void *knock(void *ctx)
{
    const struct rank *r = ctx;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)r->l.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 1000 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0; i++)
        usleep(10000);
    if (send(fd, "GET / HTTP/1.1\r\nHost: nobody knows which\r\n\r\n", 45, MSG_NOSIGNAL) > 0)
        meet(&ranks[1]);
    close(fd);
    return NULL;
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
        cmocka_unit_test(meet__refuses_an_address_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
