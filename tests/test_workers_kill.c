/* test_workers_kill.c: random ranks killed at random times by a thread of the parent, ranks of one
 * host and of several (there also the processes that a launcher started): each run ends soon, says
 * who died and in what, and leaves nothing. WORKER_KILLS: how many (24; apart: WORKER_KILLS_APART,
 * 100), WORKER_SEED: of the draws (1); a failure names both. */
#include "core/synth.h"
#include "core/text.h"
#include "harness/session.h"
#include "tests/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, KILLS = 24, KILLS_APART = 100, STEPS = 100000, DRAWS = 5 };

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
    bool keeper; /* of the rank: the rank goes with it */
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
static void check(const struct err *err, const struct worker_failures *f, int rank,
                  const struct shot *s)
{
    char who[96], how[64];
    snprintf(who, sizeof who, "%s %s", ranks_who(rank),
             s->keeper ? "ended by itself" : "was ended by a signal");
    snprintf(how, sizeof how, "signal %d (", s->signal);
    assert_err(err, ERR_PROCESS, "worker", who, s->keeper ? "its connection has ended" : how,
               "a reply");
    if (ranks_are_apart()) assert_string_equal(f->of[0].envelope.host, ranks_host(rank));
    assert_int_equal(f->of[0].envelope.rank, rank);
    assert_true(f->of[0].envelope.op[0] != '\0');
    assert_non_null(strstr(err->note[0], ", in "));
    for (int i = 1; i < f->count; i++) assert_true(f->of[i].consequence);
}

/* Those of other hosts come with a word of their keepers', which the first call waits for. */
static void learn_pids(struct workers *w)
{
    static struct worker_replies replies;
    struct err err = ERR_INIT;
    struct worker_request q = ranks_request("echo", "here");
    for (bool all = false; !all;) {
        (void)!workers_call_all(w, &q, &replies, &err);
        assert_ok(&err);
        all = true;
        for (int i = 1; i < RANKS && ranks_are_apart(); i++)
            all = all && workers_pid(w, i) != ranks_keeper(i);
    }
}

static double run(uint64_t seed, int64_t i)
{
    static const int signals[] = {SIGKILL, SIGKILL, SIGKILL, SIGSEGV, SIGABRT, SIGTERM, SIGBUS};
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(RANKS);
    struct workers *w = ranks_open(&o);
    int rank = (int)draw(seed, i, 0, RANKS);
    bool keeper = ranks_are_apart() && rank > 0 && draw(seed, i, 3, 4) == 0;
    learn_pids(w);
    struct shot s = {.pid = keeper ? ranks_keeper(rank) : workers_pid(w, rank),
                     .keeper = keeper,
                     .signal = signals[draw(seed, i, 1, sizeof signals / sizeof signals[0])],
                     .after_us = (int64_t)draw(seed, i, 2, 60000)};
    pthread_t thread;
    double asked = clock_seconds();
    print_message("run %lld of seed %llu: signal %d to rank %d%s after %lld us\n", (long long)i,
                  (unsigned long long)seed, s.signal, rank, keeper ? "'s keeper" : "",
                  (long long)s.after_us);
    assert_int_equal(pthread_create(&thread, NULL, shoot, &s), 0);
    char words[32];
    snprintf(words, sizeof words, "0 %d", STEPS);
    ranks_fail(w, "storm", words, &err);
    double took = clock_seconds() - asked - 1e-6 * (double)s.after_us;
    pthread_join(thread, NULL);
    check(&err, workers_failures(w), rank, &s);
    ranks_close(w);
    return took;
}

static void kills__are_named_and_leave_nothing(void **state)
{
    int64_t n = ranks_are_apart() ? setting("WORKER_KILLS_APART", KILLS_APART)
                                  : setting("WORKER_KILLS", KILLS);
    uint64_t seed = (uint64_t)setting("WORKER_SEED", 1);
    double longest = 0;
    int files = folder_count(*state);
    for (int64_t i = 0; i < n; i++) {
        double took = run(seed, i);
        if (took > longest) longest = took;
    }
    assert_int_equal(folder_count(*state), files);
    print_message("%lld kills; the longest run ended %.3f s after\n", (long long)n, longest);
    assert_true(n > 0);
}

/* The kernel ends nobody's child on another host with rank 0: each ends by itself, with 3, and its
 * rank with it. */
static void rank_0__that_is_killed_leaves_no_rank_anywhere(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct workers_options o = ranks_options(RANKS);
        ranks_start_keepers(&o);
        pid_t lead = fork();
        if (lead == 0) {
            struct workers *w = NULL;
            struct err err = ERR_INIT;
            static struct worker_replies replies;
            struct worker_request q = ranks_request("storm", "0 100000");
            if (workers_open(&w, &o, &err) == ERR_OK)
                (void)!workers_call_all(w, &q, &replies, &err);
            _exit(0);
        }
        nanosleep(&(struct timespec){.tv_nsec = (i + 1) * 60000000L}, NULL);
        kill(lead, SIGKILL);
        waitpid(lead, NULL, 0);
        ranks_wait_for_keepers();
        for (int r = 1; r < RANKS; r++) assert_int_equal(WEXITSTATUS(ranks_keeper_status(r)), 3);
        ranks_assert_no_traces();
    }
}

static int setup_near(void **state)
{
    return folder_setup(state) | ranks_near(state);
}

static int setup_apart(void **state)
{
    return folder_setup(state) | ranks_apart(state);
}

static int teardown(void **state)
{
    return ranks_teardown(state) | folder_teardown(state);
}

int main(int argc, char **argv)
{
    int status;
    if (ranks_main(argc, argv, &status)) return status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kills__are_named_and_leave_nothing, setup_near, teardown),
        {"kills__are_named_and_leave_nothing (apart)", kills__are_named_and_leave_nothing,
         setup_apart, teardown, NULL},
        cmocka_unit_test_setup_teardown(rank_0__that_is_killed_leaves_no_rank_anywhere, setup_apart,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
