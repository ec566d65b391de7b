/* campaign_ranks.c: what ranks do wrong together, injected into real ranks that share a case's
 * model; see campaign_parts.h. The subject is the dump that all ranks made; it is held against one
 * process, as any dump is. */
#include "core/fault_shard.h"
#include "harness/campaign_parts.h"
#include "harness/ranks.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_S 60.0 /* a rank of a small model that is silent for so long hangs */

/* Eight ranks need a model whose heads and widths divide. Some experts have a second copy. */
static const struct ranks_cut cuts[] = {
    {2, 1, EXPERT_MAP_CONTIGUOUS, 0},  {1, 2, EXPERT_MAP_CONTIGUOUS, 0},
    {2, 2, EXPERT_MAP_CONTIGUOUS, 0},  {4, 1, EXPERT_MAP_CONTIGUOUS, 0},
    {1, 4, EXPERT_MAP_CONTIGUOUS, 0},  {2, 2, EXPERT_MAP_CONTIGUOUS, 3},
    {8, 1, EXPERT_MAP_CONTIGUOUS, 0},  {4, 2, EXPERT_MAP_CONTIGUOUS, 0},
    {2, 4, EXPERT_MAP_CONTIGUOUS, 0},  {1, 2, EXPERT_MAP_ROUND_ROBIN, 0},
    {2, 2, EXPERT_MAP_ROUND_ROBIN, 0}, {1, 4, EXPERT_MAP_ROUND_ROBIN, 0},
    {2, 4, EXPERT_MAP_ROUND_ROBIN, 0},
};

const struct ranks_cut *campaign_ranks_cut(int ranks, enum expert_map map, int i)
{
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        int world = cuts[k].tp * cuts[k].ep;
        bool fits = ranks == 0 ? world <= 4 : world == ranks;
        if (fits && cuts[k].map == map && i-- == 0) return &cuts[k];
    }
    return NULL;
}

static struct shard_plan plan_of(const struct ranks_cut *cut, enum dtype reduce)
{
    return (struct shard_plan){.tp = cut->tp,
                               .ep = cut->ep,
                               .map = cut->map,
                               .redundant = cut->redundant,
                               .reduce = reduce};
}

struct shard_plan campaign_ranks_plan(const struct campaign *c, const struct job *j)
{
    const struct engine_kind *engine = c->options->engine;
    bool in_f32 = j->order == ORDER_BLAS || (engine && !engine->imitates);
    return plan_of(&j->cut, in_f32 ? DT_F32 : DT_F64);
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

static enum err_code run(const struct campaign *c, const struct job *j, const char *fault,
                         struct subject *s, int64_t *edits, struct err *err)
{
    struct subject_how how = campaign_how(c, j);
    const struct ranks_options ranks = {.on = true,
                                        .plan = campaign_ranks_plan(c, j),
                                        .timeout_s = TIMEOUT_S,
                                        .shard_fault = fault,
                                        .quiet = true};
    how.ranks = &ranks;
    how.edits = edits;
    return subject_run(s, &c->loaded[j->on], &c->cases[j->on].tokens, how, NULL, err);
}

/* ---- which rank ---- */

/* The ranks that err under what was injected; 0: the fault has no key for it. */
static int guilty_ranks(const struct campaign *c, const struct job *j, int rank[2])
{
    const struct shard_plan plan = campaign_ranks_plan(c, j);
    struct shard_fault f;
    struct err no = ERR_INIT;
    if (shard_fault_parse(&f, j->fault[0], &plan, &no) != ERR_OK) return 0;
    return shard_fault_ranks(&f.use, &plan, rank);
}

static bool same_ranks(const json_t *list, const int *rank, int n)
{
    bool same = (int)json_array_size(list) == n;
    for (int i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(list, (size_t)i)) == rank[i];
    return same;
}

/* What the claims say of ranks: the right ones and no others, or a wrong name. */
static void judge_claims(const int *rank, int n, json_t *record)
{
    const json_t *list = json_object_get(record, "claim_ranks"), *one;
    bool right = false, wrong = false;
    size_t i;
    json_array_foreach(list, i, one)
    {
        right |= same_ranks(one, rank, n);
        wrong |= json_array_size(one) > 0 && !same_ranks(one, rank, n);
    }
    json_object_set_new(record, "rank_named", json_boolean(right && !wrong));
    if (wrong) json_object_set_new(record, "misnamed", json_true());
}

/* The ranks found out themselves, and their error ends its place in "rank 3" or "ranks 2 and 3". */
static bool says_ranks(const struct err *err, const int *rank, int n)
{
    char text[64];
    size_t at = strlen(err->where), length;
    snprintf(text, sizeof text, n > 1 ? ": ranks %d and %d" : ": rank %d", rank[0], rank[n - 1]);
    length = strlen(text);
    return at > length && strcmp(err->where + at - length, text) == 0;
}

/* They no longer agree, or their numbers are none. */
static json_t *judge_stopped(const struct campaign *c, const struct job *j, const struct err *err)
{
    char line[ERR_LINE];
    int rank[2], n = guilty_ranks(c, j, rank);
    bool found = err->code == ERR_DIFF || err->code == ERR_INPUT;
    json_t *record = campaign_record(j, c, found && err->rank >= 0 ? "caught" : "missed", "%.900s",
                                     err_line(err, line, sizeof line));
    if (!record) return NULL;
    json_object_set_new(record, "by_ranks", json_true());
    if (n > 0) json_object_set_new(record, "rank_named", json_boolean(says_ranks(err, rank, n)));
    return record;
}

/* ---- one job ---- */

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
    int rank[2], n = guilty_ranks(c, j, rank);
    if (n > 0 && json_object_get(record, "claim_ranks")) judge_claims(rank, n, record);
    return record;
}

/* A token that the rank has no part of cannot be lost there: the next one. Returns the row, -1: the
 * fault has no such key, or there is no other row. */
static int64_t next_row(const struct campaign *c, const struct job *j, char fault[FAULT_TEXT])
{
    struct fault_use u;
    struct err no = ERR_INIT;
    if (fault_use_parse(&u, fault, FAULT_OP, &no) != ERR_OK) return -1;
    for (int k = 0; k < FAULT_KEYS && u.row->keys[k].name; k++) {
        if (strcmp(u.row->keys[k].name, "row") != 0) continue;
        u.value[k]++; /* -1: one by hash */
        if (u.value[k] >= (double)c->cases[j->on].tokens.count) return -1;
        fault_print(&u, fault);
        return (int64_t)u.value[k];
    }
    return -1;
}

static enum err_code run_faulted(const struct campaign *c, struct job *j, struct subject *s,
                                 int64_t *edits, struct err *err)
{
    do {
        subject_free(s);
        if (run(c, j, j->fault[0], s, edits, err) != ERR_OK) return err->code;
    } while (*edits == 0 && next_row(c, j, j->fault[0]) >= 0);
    return ERR_OK;
}

json_t *campaign_ranks(struct campaign *c, const struct job *asked)
{
    struct job job = *asked, *j = &job;
    struct subject clean = {0}, faulted = {0};
    struct err err = ERR_INIT, found = ERR_INIT;
    char line[ERR_LINE];
    int64_t edits = 0;
    json_t *record = NULL;
    struct base *b = campaign_base(c, j, &err);
    if (b && b->verdict != ERR_OK)
        err_set(&err, ERR_FAULT, "fault campaign||red without a fault|green");
    if (err.code != ERR_OK || run(c, j, NULL, &clean, NULL, &err) != ERR_OK)
        record = campaign_record(j, c, "error", "without a fault: %.900s",
                                 err_line(&err, line, sizeof line));
    else if (run_faulted(c, j, &faulted, &edits, &found) != ERR_OK)
        record = judge_stopped(c, j, &found);
    else
        record = compare(c, j, b, &clean, &faulted, edits);
    if (record) {
        json_object_set_new(record, "tp", json_integer(j->cut.tp));
        json_object_set_new(record, "ep", json_integer(j->cut.ep));
        json_object_set_new(record, "expert_map", json_string(expert_map_name((int)j->cut.map)));
        json_object_set_new(record, "redundant", json_integer(j->cut.redundant));
    }
    subject_free(&clean);
    subject_free(&faulted);
    return record;
}
