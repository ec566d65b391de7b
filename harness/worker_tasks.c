/* worker_tasks.c: the one list of what a rank of this program can be asked for; see worker.h.
 * Test: tests/test_worker_tasks.c */
#include "harness/bench_ranks.h"
#include "harness/ranks_parts.h"
#include "harness/worker.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Who and where: "rank 2 of 4, pid 17". For the start, and for measuring a round trip. */
static enum err_code ping(struct worker *w, struct err *err)
{
    char text[64];
    int n = snprintf(text, sizeof text, "rank %d of %d, pid %lld", w->rank, w->world,
                     (long long)getpid());
    return worker_reply(w, text, n, err);
}

enum { ROUNDS = 4, NUMBERS = 1000 };

/* Value i of a rank: whole numbers, so that every order and type of sum gives the same. */
static double number_of(int rank, int i)
{
    return (double)(rank + 1) * (double)(i % 7);
}

static enum err_code check_sum(const struct worker *w, const double *x, struct err *err)
{
    double ranks = 0.5 * w->world * (w->world + 1);
    for (int i = 0; i < NUMBERS; i++) {
        double wanted = ranks * (double)(i % 7);
        if (!(x[i] == wanted))
            return err_set(err, ERR_DIFF, "check collectives|all_reduce_sum, value %d|%g|%g", i,
                           x[i], wanted);
    }
    return ERR_OK;
}

/* A few rounds of every collective with sums that are known: do the ranks work together here? */
static enum err_code collectives(struct worker *w, struct err *err)
{
    double x[NUMBERS];
    int ranks[COLLECTIVE_RANKS], root;
    char name[COLLECTIVE_NAME];
    for (int round = 0; round < ROUNDS; round++) {
        worker_doing(w, "check collectives", round, -1);
        snprintf(name, sizeof name, "round %d", round);
        for (int i = 0; i < NUMBERS; i++) x[i] = number_of(w->rank, i);
        root = round % w->world == w->rank ? round : -1;
        if (collective_all_reduce_sum(w->collective, name, x, NUMBERS, DT_F64, err) != ERR_OK ||
            check_sum(w, x, err) != ERR_OK ||
            collective_all_gather(w->collective, name, &w->rank, sizeof w->rank, ranks, err) !=
                ERR_OK ||
            collective_broadcast(w->collective, name, &root, sizeof root, round % w->world, err) !=
                ERR_OK ||
            collective_agree(w->collective, name, x, sizeof x, err) != ERR_OK)
            return err->code;
        for (int r = 0; r < w->world; r++) {
            if (ranks[r] != r || root != round)
                return err_set(err, ERR_DIFF,
                               "check collectives|%s|rank %d at place %d, root %d|%s", name,
                               ranks[r], r, root, "each at its own");
        }
    }
    return worker_reply(w, "hold", 4, err);
}

const struct worker_task worker_tasks[] = {
    {"ping", ping},
    {"collectives", collectives},
    {"shard.open", rank_open_task},
    {"shard.step", rank_step_task},
    {"shard.draft", rank_draft_task},
    {"bench.collectives", bench_ranks_task},
    {NULL, NULL},
};
