/* campaign_plan_ranks.c: faults of ranks: in which cut, at which rank; see campaign_plan.h.
 *
 * At every layer of a case, in every cut of the ranks that are asked for, each rank errs once. A
 * quick campaign takes one layer of a case; where it is not told how many ranks, also one cut and
 * one rank. */
#include "core/fault_shard.h"
#include "harness/campaign_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_rank(const struct fault_row *row)
{
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name; k++) {
        if (strcmp(row->keys[k].name, "rank") == 0) return true;
    }
    return false;
}

static void put_fault(struct job *j, struct site at, int rank)
{
    struct fault_use u = {.row = j->row};
    for (int k = 0; k < FAULT_KEYS && u.row->keys[k].name; k++) {
        const char *name = u.row->keys[k].name;
        u.value[k] = strcmp(name, "layer") == 0   ? (double)at.layer
                     : strcmp(name, "rank") == 0  ? rank
                     : strcmp(name, "ranks") == 0 ? j->cut.tp * j->cut.ep
                                                  : u.row->keys[k].dflt;
    }
    fault_print(&u, j->fault[0]);
}

/* The fault in this cut, at one rank or at each. False: the case or the fault does not allow it. */
static bool add_cut(struct planner *p, struct job j, struct site at, const struct ranks_cut *cut,
                    bool one)
{
    int world = cut->tp * cut->ep, ranks = has_rank(j.row) && !one ? world : 1;
    j.cut = *cut;
    put_fault(&j, at, 0);
    if (!campaign_ranks_can(&p->c->loaded[j.on], cut, j.fault[0])) return false;
    for (int r = 0; r < ranks; r++) {
        put_fault(&j, at, one ? (int)plan_below(p, world) : r);
        j.profile = plan_profile(p);
        j.order = plan_below(p, 2) ? ORDER_F64 : ORDER_BLAS;
        if (!plan_add(p, j)) break;
    }
    return true;
}

/* Contiguous experts are what most plans have; the other map is for faults that it alone shows. */
static void add_site(struct planner *p, struct job j, struct site at)
{
    int ranks = p->c->options->ranks;
    bool one = p->c->options->quick && !ranks, added = false;
    for (int map = 0; map < EXPERT_MAPS && !(one && added); map++) {
        int n = 0;
        while (campaign_ranks_cut(ranks, map, n)) n++;
        int first = (int)plan_below(p, n);
        for (int k = 0; k < n && !(one && added); k++)
            added |= add_cut(p, j, at, campaign_ranks_cut(ranks, map, (first + k) % n), one);
    }
}

static void plan_fault(struct planner *p, int on, const struct fault_row *row, struct site *sites)
{
    bool quick = p->c->options->quick;
    int64_t n = plan_sites(p, on, row, sites), from = quick ? plan_below(p, n) : 0;
    for (int64_t s = from; s < (quick && n > 0 ? from + 1 : n); s++) {
        const struct job j = {.kind = JOB_RANKS, .on = on, .row = row};
        if (sites[s].step < 0) add_site(p, j, sites[s]);
    }
}

/* With numbers of their own: the draws of everything else stay what they were. */
enum err_code plan_ranks(struct campaign *c, struct err *err)
{
    struct planner p = {.c = c, .seed = ~c->options->seed, .err = err};
    for (int on = 0; on < c->cases_count && err->code == ERR_OK; on++) {
        int64_t layers = c->loaded[on].model.config->layers;
        struct site *sites =
            calloc((size_t)((layers + 1) * op_count + 2 * SUBJECT_STEPS), sizeof *sites);
        if (!sites) return err_set(err, ERR_MEMORY, "plan faults||no memory");
        for (int i = 0; fault_at(i) && err->code == ERR_OK; i++) {
            const struct fault_row *row = fault_at(i);
            if (row->stage == FAULT_OP && fault_is_of_ranks(row->id) &&
                campaign_includes(c->options, row->id))
                plan_fault(&p, on, row, sites);
        }
        free(sites);
    }
    return err->code;
}
