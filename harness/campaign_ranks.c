/* campaign_ranks.c: what ranks do wrong together, injected into real ranks that share a case's
 * model; see campaign_parts.h. The subject is the dump that all ranks made; it is held against one
 * process, as any dump is. */
#include "core/fault_shard.h"
#include "harness/campaign_parts.h"
#include "harness/ranks.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_S 60.0 /* a rank of a small model that is silent for so long hangs */

/* Contiguous experts first: that is the map that a diagnosis can imitate in one process. The other
 * one is for faults that it alone can show. */
static const struct ranks_cut cuts[] = {
    {2, 1, EXPERT_MAP_CONTIGUOUS},  {1, 2, EXPERT_MAP_CONTIGUOUS},  {2, 2, EXPERT_MAP_CONTIGUOUS},
    {4, 1, EXPERT_MAP_CONTIGUOUS},  {1, 4, EXPERT_MAP_CONTIGUOUS},  {1, 2, EXPERT_MAP_ROUND_ROBIN},
    {2, 2, EXPERT_MAP_ROUND_ROBIN}, {1, 4, EXPERT_MAP_ROUND_ROBIN},
};

const struct ranks_cut *campaign_ranks_cut(int ranks, enum expert_map map, int i)
{
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        bool fits = ranks == 0 || cuts[k].tp * cuts[k].ep == ranks;
        if (fits && cuts[k].map == map && i-- == 0) return &cuts[k];
    }
    return NULL;
}

static struct shard_plan plan_of(const struct ranks_cut *cut, enum dtype reduce)
{
    return (struct shard_plan){.tp = cut->tp, .ep = cut->ep, .map = cut->map, .reduce = reduce};
}

bool campaign_ranks_can(const struct loaded *l, const struct ranks_cut *cut, const char *fault)
{
    const struct shard_plan plan = plan_of(cut, DT_F64);
    struct shard_fault f;
    struct err no = ERR_INIT;
    if (shard_fault_parse(&f, fault, &plan, &no) != ERR_OK ||
        shard_plan_check(&plan, l->model.config, &no) != ERR_OK)
        return false;
    for (int r = 0; r < shard_world(&plan) && no.code == ERR_OK; r++) {
        struct shard shard;
        struct shard_model part;
        shard_of(&plan, l->model.config, r, &shard);
        if (shard_model_open(&part, &l->model, &shard, &no) == ERR_OK) shard_model_close(&part);
    }
    return no.code == ERR_OK;
}

static enum err_code run(const struct campaign *c, const struct job *j, bool faulted,
                         struct subject *s, int64_t *edits, struct err *err)
{
    struct subject_how how = campaign_how(c, j);
    bool in_f32 = j->order == ORDER_BLAS || (how.engine && !how.engine->imitates);
    const struct ranks_options ranks = {.on = true,
                                        .plan = plan_of(&j->cut, in_f32 ? DT_F32 : DT_F64),
                                        .timeout_s = TIMEOUT_S,
                                        .shard_fault = faulted ? j->fault[0] : NULL,
                                        .quiet = true};
    how.ranks = &ranks;
    how.edits = edits;
    return subject_run(s, &c->loaded[j->on], &c->cases[j->on].tokens, how, NULL, err);
}

/* The ranks found out themselves: they no longer agree, or their numbers are none. */
static json_t *judge_stopped(const struct campaign *c, const struct job *j, const struct err *err)
{
    char line[ERR_LINE];
    bool found = err->code == ERR_DIFF || err->code == ERR_INPUT;
    return campaign_record(j, c, found && err->rank >= 0 ? "caught" : "missed", "%.900s",
                           err_line(err, line, sizeof line));
}

/* Whether the claims say the rank; nothing where the fault has no key for it. */
static void add_rank(const struct job *j, json_t *record)
{
    char key[32];
    const char *at = strstr(j->fault[0], "rank="), *claims;
    if (!at || !json_object_get(record, "named")) return;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(at, ","), at);
    claims = json_string_value(json_object_get(record, "claims"));
    json_object_set_new(record, "rank_named", json_boolean(claims && strstr(claims, key)));
}

static json_t *compare(struct campaign *c, const struct job *j, const struct base *b,
                       const struct subject *clean, const struct subject *faulted, int64_t edits)
{
    int64_t first = subject_differ(clean, faulted, 0);
    if (first < 0)
        return campaign_record(j, c, "inert", "%s",
                               edits ? "no bit changes" : "it never came up on any rank");
    /* What the fault does is measured against ranks without it: next to one process, routing that
     * flipped at a near tie would count as its effect. */
    struct base over = *b;
    over.subject = *clean;
    json_t *record = campaign_compare(c, j, &over, faulted, first);
    if (record) add_rank(j, record);
    return record;
}

json_t *campaign_ranks(struct campaign *c, const struct job *j)
{
    struct subject clean = {0}, faulted = {0};
    struct err err = ERR_INIT, found = ERR_INIT;
    char line[ERR_LINE];
    int64_t edits = 0;
    json_t *record = NULL;
    struct base *b = campaign_base(c, j, &err);
    if (b && b->verdict != ERR_OK)
        err_set(&err, ERR_FAULT, "fault campaign||red without a fault|green");
    if (err.code != ERR_OK || run(c, j, false, &clean, NULL, &err) != ERR_OK)
        record = campaign_record(j, c, "error", "without a fault: %.900s",
                                 err_line(&err, line, sizeof line));
    else if (run(c, j, true, &faulted, &edits, &found) != ERR_OK)
        record = judge_stopped(c, j, &found);
    else
        record = compare(c, j, b, &clean, &faulted, edits);
    if (record) {
        json_object_set_new(record, "tp", json_integer(j->cut.tp));
        json_object_set_new(record, "ep", json_integer(j->cut.ep));
        json_object_set_new(record, "expert_map", json_string(expert_map_name(j->cut.map)));
    }
    subject_free(&clean);
    subject_free(&faulted);
    return record;
}
