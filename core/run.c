/* run.c: see run.h. Threads are made a call at a time: a call is long against the start of a
 * thread, there is no state to inherit over a fork, and nothing spins between calls. */
#include "core/run.h"

#include "core/check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS_MAX = 256 };

void run_round(const struct run *run, enum round_point p, double *x, int64_t n)
{
    CHECK((unsigned)p <= RP_COUNT);
    if (p == RP_NONE) return;
    if (run->precision == PRECISION_F32) {
        for (int64_t i = 0; i < n; i++) x[i] = (double)(float)x[i];
    }
    if (!run->profile.rounds[p] || run->act == DT_F32) return;
    if (run->act == DT_BF16) {
        for (int64_t i = 0; i < n; i++) x[i] = (double)bf16_to_f32(bf16_from_f32((float)x[i]));
    } else {
        for (int64_t i = 0; i < n; i++) x[i] = dtype_round(run->act, x[i]);
    }
}

double run_round_one(const struct run *run, enum round_point p, double x)
{
    run_round(run, p, &x, 1);
    return x;
}

struct team {
    void (*body)(void *ctx, int64_t i, int worker);
    void *ctx;
    int64_t n;
    _Atomic int64_t next;
};

struct member {
    struct team *team;
    int worker;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct member *m = arg;
    for (;;) {
        int64_t i = atomic_fetch_add(&m->team->next, 1);
        if (i >= m->team->n) return NULL;
        m->team->body(m->team->ctx, i, m->worker);
    }
}

void run_parallel(const struct run *run, int64_t n, void (*body)(void *ctx, int64_t i, int worker),
                  void *ctx)
{
    CHECK(run->threads >= 1);
    struct team team = {.body = body, .ctx = ctx, .n = n, .next = 0};
    struct member members[THREADS_MAX];
    int64_t want = run->threads < n ? run->threads : n;
    int started = 0;
    for (int w = 1; w < want && w < THREADS_MAX; w++) {
        members[w] = (struct member){.team = &team, .worker = w};
        /* A thread that cannot be had costs speed and nothing else: the others take its share. */
        if (pthread_create(&members[w].thread, NULL, work, &members[w]) != 0) break;
        started = w;
    }
    members[0] = (struct member){.team = &team, .worker = 0};
    work(&members[0]);
    for (int w = 1; w <= started; w++) CHECK(pthread_join(members[w].thread, NULL) == 0);
}
