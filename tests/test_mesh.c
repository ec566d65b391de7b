/* test_mesh.c: every rank gets a connection to every other, ranks as threads; and where one cannot,
 * every rank hears of it. */
#include "harness/mesh.h"

#include "harness/net.h"
#include "harness/session.h"
#include "tests/net.h"
#include "tests/support.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 6 };

struct rank {
    struct launch l;
    double wait_s;
    bool leaves; /* after the meeting */
    bool lies;   /* of where it listens, and leaves then */
    struct err err;
    struct mesh mesh;
};

static struct rank ranks[MOST];

static void *open_one(void *ctx)
{
    static _Thread_local struct rendezvous r;
    struct rank *me = ctx;
    mesh_none(&me->mesh);
    int64_t nowhere = me->lies ? net_free_port() : 0;
    bool met = rendezvous_meet(&r, &me->l, 30, &me->err) == ERR_OK;
    if (met && me->lies)
        (void)!rendezvous_gather(&r, NULL, &nowhere, sizeof nowhere, NULL, 30, &me->err);
    else if (met && !me->leaves)
        (void)!mesh_open(&me->mesh, &r, me->wait_s, &me->err);
    rendezvous_close(&r);
    return NULL;
}

static void open_all(int world, double wait_s, int leaves, int lies)
{
    pthread_t thread[MOST];
    int port = net_free_port();
    for (int i = 0; i < world; i++) {
        ranks[i] = (struct rank){.l = {.by = "test", .rank = i, .world = world, .port = port},
                                 .wait_s = wait_s,
                                 .leaves = i == leaves,
                                 .lies = i == lies,
                                 .err = ERR_INIT};
        snprintf(ranks[i].l.host, LAUNCH_HOST, "localhost");
        assert_int_equal(pthread_create(&thread[i], NULL, open_one, &ranks[i]), 0);
    }
    for (int i = 0; i < world; i++) pthread_join(thread[i], NULL);
}

/* A byte goes from one end to the other, and to no other. */
static void check_joined(int from, int to)
{
    char sent = (char)(1 + from), got = 0;
    struct pollfd p = {to, POLLIN, 0};
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(write(from, &sent, 1), 1);
    assert_int_equal(poll(&p, 1, 30000), 1);
    assert_int_equal(read(to, &got, 1), 1);
    assert_int_equal(got, sent);
}

static void open__connects_every_two_ranks(void **state)
{
    (void)state;
    for (int world = 2; world <= MOST; world += 2) {
        open_all(world, 30, -1, -1);
        for (int i = 0; i < world; i++) {
            assert_ok(&ranks[i].err);
            assert_int_equal(ranks[i].mesh.peer[i], -1);
            assert_string_equal(ranks[i].mesh.host[world - 1], ranks[0].mesh.host[0]);
            for (int j = 0; j < world; j++) {
                if (j != i) check_joined(ranks[i].mesh.peer[j], ranks[j].mesh.peer[i]);
            }
        }
        for (int i = 1; i < world; i++) {
            check_joined(ranks[i].mesh.wire[0], ranks[0].mesh.wire[i]);
            check_joined(ranks[0].mesh.wire[i], ranks[i].mesh.wire[0]);
        }
        for (int i = 0; i < world; i++) mesh_close(&ranks[i].mesh);
    }
}

/* One that has met the others and then is gone: named by rank 0, and told to all. */
static void open__names_a_rank_that_is_gone(void **state)
{
    (void)state;
    open_all(4, 1, 2, -1);
    for (int i = 0; i < 4; i++) {
        if (i == 2) continue;
        assert_int_equal(ranks[i].err.code, ERR_PROCESS);
        for (int j = 0; j < 4; j++) assert_int_equal(ranks[i].mesh.peer[j], -1);
        assert_non_null(strstr(i ? ranks[i].err.found : ranks[i].err.where, "rank 2 on "));
    }
    assert_int_equal(ranks[0].err.rank, 2);
}

/* One that is not where it says: all others hear it from rank 0, and none goes on. */
static void open__tells_all_that_one_cannot_be_reached(void **state)
{
    (void)state;
    open_all(4, 0.5, -1, 2);
    for (int i = 0; i < 4; i++) {
        if (i == 2) continue;
        assert_int_equal(ranks[i].err.code, ERR_PROCESS);
        if (i > 0) assert_non_null(strstr(ranks[i].err.where, "told by rank 0"));
        assert_non_null(strstr(ranks[i].err.found, "from 2 on "));
        assert_int_equal(ranks[i].mesh.peer[1], -1);
    }
    assert_err(&ranks[0].err, ERR_PROCESS, "connect the ranks", "rank 0 on ",
               "no connection in 0.5 s from 2 on ", "all");
}

static void close__is_safe_on_none(void **state)
{
    (void)state;
    struct mesh m;
    mesh_none(&m);
    mesh_close(&m);
    assert_int_equal(m.peer[0], -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__connects_every_two_ranks),
        cmocka_unit_test(open__names_a_rank_that_is_gone),
        cmocka_unit_test(open__tells_all_that_one_cannot_be_reached),
        cmocka_unit_test(close__is_safe_on_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
