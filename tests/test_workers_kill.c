/* test_workers_kill.c: random ranks killed at random times by a thread of the parent: each run ends
 * soon, says who died and in what, and leaves nothing. WORKER_KILLS: how many (24), WORKER_SEED: of
 * the draws (1); a failure names both. */
#include "core/synth.h"
#include "core/text.h"
#include "harness/session.h"
#include "tests/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 4, KILLS = 24, STEPS = 100000, DRAWS = 4 };

static uint64_t draw(uint64_t seed, int64_t run, int i, uint64_t below)
{
    return synth_x(synth_base(seed, "kills"), (uint64_t)(run * DRAWS + i)) % below;
}

static int64_t setting(const char *name, int64_t dflt)
{
    int64_t v;
    const char *text = getenv(name);
    return text && text_int(text, &v) ? v : dflt;
}

struct shot {
    pid_t pid;
    int signal;
    int64_t after_us;
};

static void *shoot(void *ctx)
{
    const struct shot *s = ctx;
    nanosleep(&(struct timespec){.tv_sec = s->after_us / 1000000,
                                 .tv_nsec = s->after_us % 1000000 * 1000},
              NULL);
    kill(s->pid, s->signal);
    return NULL;
}

/* Who, how and in what: from the message alone. */
static void check(const struct err *err, const struct worker_failures *f, int rank, int number)
{
    char who[32], how[32];
    snprintf(who, sizeof who, "rank %d was ended by a signal", rank);
    snprintf(how, sizeof how, "signal %d (", number);
    assert_err(err, ERR_PROCESS, "worker", who, how, "a reply");
    assert_int_equal(f->of[0].envelope.rank, rank);
    assert_true(f->of[0].envelope.op[0] != '\0');
    assert_non_null(strstr(err->note[0], ", in "));
    for (int i = 1; i < f->count; i++) assert_true(f->of[i].consequence);
}

static double run(uint64_t seed, int64_t i)
{
    static const int signals[] = {SIGKILL, SIGKILL, SIGKILL, SIGSEGV, SIGABRT, SIGTERM, SIGBUS};
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(RANKS);
    struct workers *w = ranks_open(&o);
    int rank = (int)draw(seed, i, 0, RANKS);
    struct shot s = {.pid = workers_pid(w, rank),
                     .signal = signals[draw(seed, i, 1, sizeof signals / sizeof signals[0])],
                     .after_us = (int64_t)draw(seed, i, 2, 60000)};
    pthread_t thread;
    double asked = clock_seconds();
    print_message("run %lld of seed %llu: signal %d to rank %d after %lld us\n", (long long)i,
                  (unsigned long long)seed, s.signal, rank, (long long)s.after_us);
    assert_int_equal(pthread_create(&thread, NULL, shoot, &s), 0);
    char words[32];
    snprintf(words, sizeof words, "0 %d", STEPS);
    ranks_fail(w, "storm", words, &err);
    double took = clock_seconds() - asked - 1e-6 * (double)s.after_us;
    pthread_join(thread, NULL);
    check(&err, workers_failures(w), rank, s.signal);
    ranks_close(w);
    return took;
}

static void kills__are_named_and_leave_nothing(void **state)
{
    int64_t n = setting("WORKER_KILLS", KILLS);
    uint64_t seed = (uint64_t)setting("WORKER_SEED", 1);
    double longest = 0;
    int files = folder_count(*state);
    ranks_setup(NULL);
    for (int64_t i = 0; i < n; i++) {
        double took = run(seed, i);
        if (took > longest) longest = took;
    }
    assert_int_equal(folder_count(*state), files);
    print_message("%lld kills; the longest run ended %.3f s after\n", (long long)n, longest);
    assert_true(n > 0);
}

int main(int argc, char **argv)
{
    int status;
    if (ranks_main(argc, argv, &status)) return status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kills__are_named_and_leave_nothing, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
