/* campaign_plan.h: what draws the jobs of a campaign; private to campaign_plan*.c. */
#ifndef ASSAY_HARNESS_CAMPAIGN_PLAN_H
#define ASSAY_HARNESS_CAMPAIGN_PLAN_H

#include "harness/campaign_parts.h"

struct site {
    const char *op; /* NULL: whichever the fault is hosted by there */
    int64_t layer;
    int64_t step; /* of the draft head; -1: a site of the target */
};

struct planner {
    struct campaign *c;
    uint64_t seed;
    int64_t draws;
    struct err *err;
};

/* 0 .. n - 1; 0 where n < 1. */
int64_t plan_below(struct planner *p, int64_t n);
/* NULL: no memory. */
struct job *plan_add(struct planner *p, struct job j);
/* One of the profiles that subjects round in; an engine's own. */
const char *plan_profile(struct planner *p);
/* All sites of a fault in a case; sites[] has room for every op of every layer and step. */
int64_t plan_sites(const struct planner *p, int on, const struct fault_row *row,
                   struct site *sites);

/* campaign_plan_ranks.c: the jobs of faults of ranks. */
enum err_code plan_ranks(struct campaign *c, struct err *err) ERR_USED;

#endif
