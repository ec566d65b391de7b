/* campaign_sum.c: the records of a campaign added up, and the verdict; see campaign_parts.h. */
#include "harness/campaign_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What must be named, of the caught ones, where enough were caught to speak of a share. */
#define NAMED_LEAST 0.95
enum { NAMED_FROM = 40 };

static const char *const kinds[] = {[JOB_OP] = "op",
                                    [JOB_ALONE] = "op alone",
                                    [JOB_WITHOUT] = "left out",
                                    [JOB_OFF_GRID] = "off the grid",
                                    [JOB_PAIR] = "two at once",
                                    [JOB_FILE] = "file",
                                    [JOB_CALL] = "call",
                                    [JOB_PROCESS] = "process",
                                    [JOB_RANKS] = "ranks",
                                    [JOB_VERIFY] = "verification",
                                    [JOB_CLEAN] = "clean"};

json_t *campaign_record(const struct job *j, const struct campaign *c, const char *outcome,
                        const char *format, ...)
{
    static const char *const orders[] = {"f64", "chunks", "blas"};
    char why[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    json_t *r = json_pack("{s:s, s:s}", "kind", kinds[j->kind], "outcome", outcome);
    if (!r) return NULL;
    json_object_set_new(r, "why", json_string(why[0] ? why : ""));
    if (j->fault[0][0]) json_object_set_new(r, "fault", json_string(j->fault[0]));
    if (j->fault[1][0]) json_object_set_new(r, "with", json_string(j->fault[1]));
    if (j->profile) {
        json_object_set_new(r, "case", json_string(c->cases[j->on].name));
        json_object_set_new(r, "profile", json_string(j->profile));
        json_object_set_new(r, "order", json_string(orders[j->order]));
    }
    if (!j->row) json_object_set_new(r, "draw", json_sprintf("%llu", (unsigned long long)j->seed));
    return r;
}

/* ---- adding up ---- */

struct sum {
    const struct campaign *c;
    json_t *result;
    int64_t injected, caught, ops_caught, named, clean, alarms, proofs, errors, misnamed;
    /* On real ranks, of the injected ones: and with the rank named, of those that have one. */
    int64_t ranks, ranks_caught, ranks_named, by_ranks, ranked, rank_named;
};

static bool is(const json_t *record, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(record, key));
    return value && strcmp(value, text) == 0;
}

static void list(const struct sum *s, const char *name, const json_t *record)
{
    json_t *to = json_object_get(s->result, name);
    json_array_append(to, (json_t *)(uintptr_t)record);
}

/* Of an error that a process left nothing but a word of: whose it was. */
static void complete(const struct sum *s, int64_t i, json_t *record)
{
    const struct job *j = &s->c->jobs[i];
    if (json_object_get(record, "kind")) return;
    json_t *full =
        campaign_record(j, s->c, "error", "%s", json_string_value(json_object_get(record, "why")));
    json_object_update(record, full);
    json_decref(full);
}

static void add_ranks(struct sum *s, const json_t *record)
{
    const json_t *rank = json_object_get(record, "rank_named");
    bool caught = is(record, "outcome", "caught");
    s->ranks++;
    s->ranks_caught += caught;
    /* The ranks' own error says what they no longer agree in, and who: there is no dump to name a
     * fault from. */
    bool own = json_is_true(json_object_get(record, "by_ranks"));
    bool named = json_is_true(json_object_get(record, "named"));
    s->ranks_named += named;
    s->by_ranks += own;
    s->ranked += caught && rank;
    s->rank_named += json_is_true(rank);
    if (caught && !named && !own) list(s, "unnamed", record);
    if (caught && json_is_false(rank)) list(s, "rank_unnamed", record);
}

/* How often each fault of ranks was caught, where one of them is to blame, and that one named. */
static void count_rank(const struct sum *s, const char *fault, const json_t *record)
{
    const json_t *rank = json_object_get(record, "rank_named");
    json_t *one = json_object_get(json_object_get(s->result, "by_fault"), fault);
    if (!rank || !is(record, "outcome", "caught")) return;
    const json_int_t of = json_integer_value(json_object_get(one, "with_rank")),
                     named = json_integer_value(json_object_get(one, "rank_named"));
    json_object_set_new(one, "with_rank", json_integer(of + 1));
    json_object_set_new(one, "rank_named", json_integer(named + json_is_true(rank)));
    /* "2": [of so many with rank 2 at fault, so many with it named] */
    const char *at = strstr(json_string_value(json_object_get(record, "fault")), "rank=");
    if (!json_object_get(one, "by_rank")) json_object_set_new(one, "by_rank", json_object());
    json_t *all = json_object_get(one, "by_rank");
    char key[16] = "last";
    if (at) snprintf(key, sizeof key, "%.*s", (int)strspn(at + 5, "0123456789"), at + 5);
    const json_t *before = json_object_get(all, key);
    const json_int_t seen = json_integer_value(json_array_get(before, 0)),
                     right = json_integer_value(json_array_get(before, 1));
    json_object_set_new(all, key,
                        json_pack("[I, I]", seen + 1, right + (json_int_t)json_is_true(rank)));
}

/* How often each fault was injected, and how often that was caught. */
static void count_one(const struct sum *s, const char *fault, bool caught)
{
    json_t *all = json_object_get(s->result, "by_fault"), *one = json_object_get(all, fault);
    const json_int_t injected = json_integer_value(json_object_get(one, "injected")),
                     before = json_integer_value(json_object_get(one, "caught"));
    if (!one) json_object_set_new(all, fault, json_object());
    one = json_object_get(all, fault);
    json_object_set_new(one, "injected", json_integer(injected + 1));
    json_object_set_new(one, "caught", json_integer(before + caught));
}

static void add_injected(struct sum *s, const struct job *j, const json_t *record)
{
    bool caught = is(record, "outcome", "caught");
    s->injected++;
    s->caught += caught;
    if (!caught) list(s, "missed", record);
    if (j->row) count_one(s, j->row->id, caught);
    if (j->kind == JOB_RANKS) add_ranks(s, record);
    if (j->kind == JOB_RANKS && j->row) count_rank(s, j->row->id, record);
    bool names = j->kind == JOB_OP || j->kind == JOB_VERIFY;
    if (!caught || !names || !json_object_get(record, "named")) return;
    s->ops_caught++;
    if (json_is_true(json_object_get(record, "named")))
        s->named++;
    else
        list(s, "unnamed", record);
}

static void add(struct sum *s, int64_t i, json_t *record)
{
    const struct job *j = &s->c->jobs[i];
    complete(s, i, record);
    if (is(record, "outcome", "caught") || is(record, "outcome", "missed")) {
        add_injected(s, j, record);
    } else if (is(record, "outcome", "green") || is(record, "outcome", "alarm")) {
        s->clean++;
        s->alarms += is(record, "outcome", "alarm");
        if (is(record, "outcome", "alarm")) list(s, "alarms", record);
    } else if (is(record, "outcome", "kept") || is(record, "outcome", "misnamed")) {
        s->proofs++;
    } else if (is(record, "outcome", "error")) {
        s->errors++;
        list(s, "errors", record);
    } else if (is(record, "outcome", "same bits")) {
        list(s, "same_bits", record);
    } else {
        list(s,
             is(record, "outcome", "inert")     ? "inert"
             : is(record, "outcome", "stopped") ? "stopped"
                                                : "sub_threshold",
             record);
    }
    bool wrong =
        is(record, "outcome", "misnamed") || json_is_true(json_object_get(record, "misnamed"));
    s->misnamed += wrong;
    if (json_is_true(json_object_get(record, "equal"))) list(s, "equal", record);
    if (wrong) list(s, "misnamed", record);
}

static int by_address(const void *a, const void *b)
{
    const struct fault_row *x = *(const struct fault_row *const *)a,
                           *y = *(const struct fault_row *const *)b;
    return (x > y) - (x < y);
}

/* Faults that were to be injected, and those that changed something nowhere. */
static int64_t count_faults(struct sum *s, json_t *const *records)
{
    int64_t n = 0, faults = 0;
    const struct fault_row **seen = calloc((size_t)s->c->count + 1, sizeof *seen);
    json_t *never = json_object_get(s->result, "never");
    for (int64_t i = 0; seen && i < s->c->count; i++) {
        bool counts = is(records[i], "outcome", "caught") || is(records[i], "outcome", "missed");
        if (counts && s->c->jobs[i].row) seen[n++] = s->c->jobs[i].row;
    }
    if (seen) qsort(seen, (size_t)n, sizeof *seen, by_address);
    for (int i = 0; seen && fault_at(i); i++) {
        const struct fault_row *row = fault_at(i);
        if (!campaign_includes(s->c->options, row->id)) continue;
        faults++;
        if (!bsearch(&row, seen, (size_t)n, sizeof *seen, by_address))
            json_array_append_new(never, json_string(row->id));
    }
    free(seen);
    return faults;
}

static enum err_code verdict(const struct sum *s, struct err *err)
{
    double share = s->ops_caught ? (double)s->named / (double)s->ops_caught : 1;
    if (s->errors)
        return err_set(err, ERR_FAULT, "fault campaign||%lld jobs without an outcome|none",
                       (long long)s->errors);
    if (s->injected + s->clean + s->proofs == 0)
        return err_set(err, ERR_FAULT, "fault campaign||nothing injected that changed a bit|%s",
                       "at least one fault, or a clean run");
    if (s->caught < s->injected)
        return err_set(err, ERR_FAULT, "fault campaign||%lld of %lld faults missed|all caught",
                       (long long)(s->injected - s->caught), (long long)s->injected);
    if (s->alarms)
        return err_set(err, ERR_FAULT, "fault campaign||%lld of %lld clean runs red|none",
                       (long long)s->alarms, (long long)s->clean);
    if (s->misnamed)
        return err_set(err, ERR_FAULT, "fault campaign||%lld wrong names claimed|none",
                       (long long)s->misnamed);
    if (s->ops_caught >= NAMED_FROM && !(share >= NAMED_LEAST))
        return err_set(err, ERR_FAULT,
                       "fault campaign||%.1f %% of the caught named|%.0f %% or more", 100 * share,
                       100 * NAMED_LEAST);
    return ERR_OK;
}

enum err_code campaign_sum(const struct campaign *c, json_t *const *records, json_t *result,
                           struct err *err)
{
    static const char *const lists[] = {"missed",    "unnamed",       "rank_unnamed", "misnamed",
                                        "equal",     "sub_threshold", "inert",        "stopped",
                                        "same_bits", "alarms",        "errors",       "never"};
    struct sum s = {.c = c, .result = result};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        json_object_set_new(result, lists[i], json_array());
    json_object_set_new(result, "by_fault", json_object());
    for (int64_t i = 0; i < c->count; i++) add(&s, i, records[i]);
    json_object_set_new(result, "jobs", json_integer(c->count));
    json_object_set_new(result, "faults", json_integer(count_faults(&s, records)));
    json_object_set_new(result, "injected", json_integer(s.injected));
    json_object_set_new(result, "caught", json_integer(s.caught));
    json_object_set_new(result, "diagnosed", json_integer(s.ops_caught));
    json_object_set_new(result, "named", json_integer(s.named));
    json_object_set_new(result, "clean_runs", json_integer(s.clean));
    json_object_set_new(result, "false_alarms", json_integer(s.alarms));
    json_object_set_new(result, "proofs", json_integer(s.proofs));
    json_object_set_new(result, "wrong_names", json_integer(s.misnamed));
    json_object_set_new(result, "ranks",
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "injected", (json_int_t)s.ranks,
                                  "caught", (json_int_t)s.ranks_caught, "named",
                                  (json_int_t)s.ranks_named, "stopped_by_ranks",
                                  (json_int_t)s.by_ranks, "with_rank", (json_int_t)s.ranked,
                                  "rank_named", (json_int_t)s.rank_named));
    json_object_set_new(result, "score",
                        s.injected ? json_real((double)s.caught / (double)s.injected)
                                   : json_null());
    return verdict(&s, err);
}
