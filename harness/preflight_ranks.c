/* preflight_ranks.c: whether the model can be cut as the plan says: heads, widths, vocabulary,
 * experts, and the packed words, groups and blocks of the stored formats. */
#include "harness/preflight.h"

void preflight_ranks(struct preflight *p)
{
    const struct plan_preflight *k = p->keys;
    struct err e = ERR_INIT;
    if (!k->sharded) {
        preflight_not_asked(p, "the plan says neither tp nor ep");
        return;
    }
    if (!p->configured) {
        preflight_not_checked(p, "what is cut is not known without the model's config",
                              "model: DIR");
        return;
    }
    preflight_about(p, "tp %d, ep %d: %d ranks", k->shard.tp, k->shard.ep, shard_world(&k->shard));
    if (shard_world(&k->shard) > COLLECTIVE_RANKS)
        (void)!err_set(&e, ERR_INPUT, "shard plan|tp %d, ep %d|%d ranks|at most %d", k->shard.tp,
                       k->shard.ep, shard_world(&k->shard), COLLECTIVE_RANKS);
    else
        (void)!shard_plan_check(&k->shard, &p->config, &e);
    preflight_refused(p,
                      (struct preflight_finding){.rule = "divide",
                                                 .file = preflight_plan(p),
                                                 .line = k->line,
                                                 .remedy = "another tp or ep",
                                                 .strikes = PREFLIGHT_AT_START},
                      &e);
}
