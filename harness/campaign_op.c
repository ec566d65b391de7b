/* campaign_op.c: one op fault injected, compared, judged; and the proofs of the diagnosis; see
 * campaign_parts.h. */
#include "core/cover.h"
#include "harness/campaign_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An effect below this share of the bound is not asked for. */
#define THRESHOLD 2.0
enum { CLAIMS = 1024, LEFT_OUT = 32 };

struct attempt {
    struct campaign *c;
    const struct job *job;
    struct base *base;
    struct subject subject;
    int64_t first; /* the first tap whose bits differ from the clean subject's; -1: none */
    double ratio;
    struct err err;
};

static const struct tap *first_tap(const struct attempt *a)
{
    return &a->subject.taps[a->first];
}

static const char *first_op(const struct attempt *a)
{
    int64_t layer = first_tap(a)->layer;
    const struct config *c = a->c->loaded[a->job->on].model.config;
    bool draft = tap_is_draft(first_tap(a)->kind);
    return tap_op(first_tap(a)->kind, !draft && layer >= 0 && config_is_moe(c, layer));
}

static bool same_output(const struct fault_row *a, const struct fault_row *b)
{
    return a == b || (a->same_as && b->same_as && strcmp(a->same_as, b->same_as) == 0);
}

/* ---- the subject ---- */

static enum err_code run_faulted(struct attempt *a)
{
    struct faults faults = {0};
    const struct job *j = a->job;
    const struct subject_how how = campaign_how(a->c, j);
    for (int i = 0; i < 2 && j->fault[i][0]; i++) {
        if (faults_add(&faults, j->fault[i], &a->err) != ERR_OK) return a->err.code;
    }
    (void)!subject_run(&a->subject, &a->c->loaded[j->on], &a->c->cases[j->on].tokens, how, &faults,
                       &a->err);
    faults_clear(&faults);
    return a->err.code;
}

/* ---- what the diagnosis said ---- */

/* "mla.no_mscale@layer=2; tp.double_reduce@layer=1 + any.nan"; "" where nothing is claimed. */
static const char *claims_text(const struct diagnosis *g, char buf[CLAIMS])
{
    char one[FAULT_TEXT];
    size_t n = 0;
    buf[0] = '\0';
    for (int64_t i = 0; i < g->claimed && n < CLAIMS; i++) {
        const struct claim *c = &g->claims[i];
        n += (size_t)snprintf(buf + n, CLAIMS - n, "%s%s", i ? "; " : "",
                              fault_print(&c->use[0], one));
        if (c->second >= 0 && n < CLAIMS)
            n += (size_t)snprintf(buf + n, CLAIMS - n, " + %s", fault_print(&c->use[1], one));
    }
    return buf;
}

/* Some claim is this fault, or one of the same output; alone, or also with another. */
static bool claims_row(const struct diagnosis *g, const struct fault_row *row, bool alone)
{
    for (int64_t i = 0; i < g->claimed; i++) {
        const struct claim *c = &g->claims[i];
        if (alone && c->second >= 0) continue;
        if (same_output(c->use[0].row, row)) return true;
        if (c->second >= 0 && same_output(c->use[1].row, row)) return true;
    }
    return false;
}

/* Index of the guilty tap among those of the subject; the last one where there is none. */
static int64_t guilty_tap(const struct attempt *a, const struct diff *d)
{
    int64_t i = a->subject.count - 1;
    while (d->guilty.pair && i > 0 &&
           strcmp(a->subject.taps[i].name, d->guilty.pair->subject->name))
        i--;
    return i;
}

/* Over ranks sums have another order, and no claim gives their bits: the same values at the first
 * tap, within the bound that it was judged by. */
static bool gives_values(const struct attempt *a, const struct subject *s, double bound)
{
    struct measure m;
    int64_t i = a->first, rows = subject_tap_rows(s, i), cols = s->taps[i].cols;
    if (s->taps[i].ints)
        return memcmp(a->subject.data[i], s->data[i], (size_t)subject_tap_bytes(s, i)) == 0;
    measure_views((struct view){DT_BF16, a->subject.data[i], rows, cols},
                  (struct view){DT_BF16, s->data[i], rows, cols}, NULL, &m, NULL, NULL, NULL);
    return m.special_mismatch == 0 && m.rel_rms <= bound;
}

/* Injected, the claim gives the subject's bits up to and with tap `last`; over ranks, its values.
 */
static bool gives_bits(const struct attempt *a, const struct claim *c, int64_t last, double bound)
{
    const struct job *j = a->job;
    const struct subject_how how = campaign_how(a->c, j);
    struct faults faults = {.use = {c->use[0], c->use[1]}, .count = c->second >= 0 ? 2 : 1};
    const struct shard_plan plan = campaign_ranks_plan(a->c, j);
    if (j->kind == JOB_RANKS) faults.plan = &plan;
    struct subject s = {0};
    struct err e = ERR_INIT;
    bool same = false;
    if (subject_run(&s, &a->c->loaded[j->on], &a->c->cases[j->on].tokens, how, &faults, &e) ==
        ERR_OK) {
        int64_t first = subject_differ(&a->subject, &s, 0);
        same = j->kind == JOB_RANKS ? gives_values(a, &s, bound) : first < 0 || first > last;
    }
    faults_clear(&faults);
    subject_free(&s);
    return same;
}

/* Some claim is the equal of what was injected: it gives the same bits, so that nothing dumped
 * tells them apart, and is as right a name. Of two faults one alone is met at the guilty tap. Where
 * the true one was left out, two that come out as it by chance are no name for it. */
static bool claims_equal(const struct attempt *a, const struct diff *d)
{
    int64_t all = a->subject.count - 1;
    double bound = d->first >= 0 ? d->taps[d->first].bound : 0;
    for (int64_t i = 0; i < d->diagnosis.claimed; i++) {
        const struct claim *c = &d->diagnosis.claims[i];
        bool two = c->second >= 0;
        if (two && a->job->kind == JOB_WITHOUT) continue;
        if (gives_bits(a, c, a->job->kind == JOB_PAIR && !two ? guilty_tap(a, d) : all, bound))
            return true;
    }
    return false;
}

/* What was claimed is neither what was injected nor its equal; says so in the record. */
static bool is_wrong(const struct attempt *a, const struct diff *d, bool right, json_t *record)
{
    bool other = d->diagnosis.claimed > 0 && !right, equal = other && claims_equal(a, d);
    if (equal) json_object_set_new(record, "equal", json_true());
    return other && !equal;
}

/* ---- judging ---- */

static void add_diagnosis(json_t *record, const struct diff *d)
{
    char text[CLAIMS];
    json_t *ranks = json_array();
    for (int64_t i = 0; i < d->diagnosis.claimed; i++) {
        const struct claim *c = &d->diagnosis.claims[i];
        json_t *one = json_array();
        for (int k = 0; k < c->ranks; k++) json_array_append_new(one, json_integer(c->rank[k]));
        json_array_append_new(ranks, one);
    }
    json_object_set_new(record, "claims", json_string(claims_text(&d->diagnosis, text)));
    json_object_set_new(record, "claim_ranks", ranks);
}

/* Where the comparison says that it begins, against where the fault does. */
static json_t *judge_place(const struct attempt *a, const struct diff *d)
{
    const struct tap *t = first_tap(a);
    const struct guilty *g = &d->guilty;
    if (!g->pair)
        return campaign_record(a->job, a->c, "missed", "green, or no op was found guilty");
    if (strcmp(g->op, first_op(a)) != 0 || g->layer != t->layer)
        return campaign_record(a->job, a->c, "missed", "the place is op %s, layer %lld, not %s",
                               g->op, (long long)g->layer, t->name);
    if (!d->taps[d->first].why[0])
        return campaign_record(a->job, a->c, "missed", "red at %s without a message", t->name);
    for (int i = 0; i < FAULT_HOSTS && a->job->row->hosts[i]; i++) {
        if (strcmp(a->job->row->hosts[i], g->op) == 0) cover_note(g->op, COVER_FAULT);
    }
    if (strcmp(a->job->row->hosts[0], "any") == 0) cover_note(g->op, COVER_FAULT);
    return campaign_record(a->job, a->c, "caught", "%s", d->taps[d->first].why);
}

static json_t *judge_caught(const struct attempt *a, enum err_code rc, const struct diff *d,
                            const struct err *e)
{
    char line[ERR_LINE];
    if (rc == ERR_OK) return campaign_record(a->job, a->c, "missed", "the comparison is green");
    if (rc != ERR_DIFF) { /* a dump that cannot be compared at all */
        bool named = strstr(err_line(e, line, sizeof line), first_tap(a)->name) != NULL;
        return campaign_record(a->job, a->c, named ? "caught" : "missed", "%s", line);
    }
    json_t *record = judge_place(a, d);
    bool named = claims_row(&d->diagnosis, a->job->row, true);
    add_diagnosis(record, d);
    json_object_set_new(record, "named", json_boolean(named));
    json_object_set_new(record, "misnamed", json_boolean(is_wrong(a, d, named, record)));
    return record;
}

/* The record of a proof. d NULL: nothing was diagnosed. */
static json_t *judge_name(const struct attempt *a, const struct diff *d, bool right,
                          const char *wrong)
{
    json_t *record = campaign_record(a->job, a->c, "kept", "%s", "");
    if (!record || !d) return record;
    if (is_wrong(a, d, right, record)) {
        json_object_set_new(record, "outcome", json_string("misnamed"));
        json_object_set_new(record, "why", json_string(wrong));
    }
    add_diagnosis(record, d);
    return record;
}

/* All that the diagnosis of the whole registry claims is left out, and the true fault: what it
 * claims now is wrong. */
static json_t *judge_without(const struct attempt *a, const char *path, const struct diff *all)
{
    const char *without[LEFT_OUT + 1] = {a->job->row->id};
    int n = 1;
    struct diff d = {0};
    struct err e = ERR_INIT;
    for (int i = 0; fault_at(i) && n < LEFT_OUT; i++) {
        if (fault_at(i) != a->job->row && (same_output(fault_at(i), a->job->row) ||
                                           claims_row(&all->diagnosis, fault_at(i), false)))
            without[n++] = fault_at(i)->id;
    }
    enum err_code rc = campaign_diff(a->c, a->job, path, true, without, &d, &e);
    json_t *record =
        judge_name(a, rc == ERR_DIFF ? &d : NULL, false, "a name without the true one");
    diff_close(&d);
    return record;
}

/* A claim must be the true fault; of two, either (the one that is met first hides the other), or
 * both. */
static json_t *judge_proof(const struct attempt *a, const struct diff *d)
{
    const struct fault_row *other = NULL;
    char id[FAULT_TEXT];
    snprintf(id, sizeof id, "%s", a->job->fault[1]);
    id[strcspn(id, "@")] = '\0';
    if (id[0]) other = fault_find(id);
    bool right = claims_row(&d->diagnosis, a->job->row, false) ||
                 (other && claims_row(&d->diagnosis, other, false));
    return judge_name(a, d, right, "a wrong name");
}

/* ---- one job ---- */

static json_t *compare(struct attempt *a)
{
    const bool asked = a->job->kind == JOB_OP || a->job->kind == JOB_RANKS;
    char path[FILE_PATH];
    struct diff d = {0};
    struct err e = ERR_INIT;
    json_t *record = NULL;
    const struct job *j = a->job;
    if (subject_write(&a->subject, &a->c->cases[j->on].tokens, j->profile,
                      campaign_path(a->c, "faulted.safetensors", path), &a->err) != ERR_OK)
        return campaign_record(j, a->c, "error", "%s: %s", a->err.what, a->err.found);
    enum err_code rc = campaign_diff(a->c, j, path, true, NULL, &d, &e);
    a->ratio = campaign_effect(a->base, &a->c->loaded[j->on], &a->subject, a->first,
                               rc == ERR_OK || rc == ERR_DIFF ? &d.flips : NULL);
    if (asked && a->ratio < THRESHOLD && (rc == ERR_OK || rc == ERR_DIFF)) {
        record = campaign_record(j, a->c, "sub-threshold", "at %s", first_tap(a)->name);
        add_diagnosis(record, &d);
        bool named = claims_row(&d.diagnosis, j->row, false);
        json_object_set_new(record, "misnamed", json_boolean(is_wrong(a, &d, named, record)));
    } else if (asked) {
        record = judge_caught(a, rc, &d, &e);
    } else if (j->kind == JOB_WITHOUT && rc == ERR_DIFF) {
        record = judge_without(a, path, &d);
    } else {
        record = judge_proof(a, &d);
    }
    diff_close(&d);
    unlink(path);
    return record;
}

static json_t *compare_and_measure(struct attempt *a)
{
    json_t *record = compare(a);
    if (record)
        json_object_set_new(record, "ratio",
                            isfinite(a->ratio) ? json_real(a->ratio) : json_string("inf"));
    return record;
}

json_t *campaign_compare(struct campaign *c, const struct job *j, struct base *b,
                         const struct subject *s, int64_t first)
{
    struct attempt a = {
        .c = c, .job = j, .base = b, .subject = *s, .first = first, .err = ERR_INIT};
    return compare_and_measure(&a);
}

/* A run that the fault stops: its own message must be there. */
static json_t *stopped(const struct attempt *a)
{
    char line[ERR_LINE];
    err_line(&a->err, line, sizeof line);
    bool expected = strcmp(a->job->row->detector, "exit status") == 0 && line[0];
    return campaign_record(a->job, a->c, expected && a->job->kind == JOB_OP ? "caught" : "stopped",
                           "%s", line);
}

json_t *campaign_op(struct campaign *c, const struct job *j)
{
    struct attempt a = {.c = c, .job = j, .first = -1, .err = ERR_INIT};
    json_t *record = NULL;
    a.base = campaign_base(c, j, &a.err);
    if (!a.base) {
        record = campaign_record(j, c, "error", "without a fault: %s: %s", a.err.what, a.err.found);
    } else if (a.base->verdict != ERR_OK) {
        record = campaign_record(j, c, "error", "red without a fault at %s",
                                 a.base->diff.first >= 0
                                     ? a.base->diff.rows.pairs[a.base->diff.first].subject->name
                                     : "no tap");
    } else if (run_faulted(&a) != ERR_OK) {
        record = stopped(&a);
    } else {
        a.first = subject_differ(&a.base->subject, &a.subject, 0);
        record = a.first < 0 ? campaign_record(j, c, "inert", "no bit changes")
                             : compare_and_measure(&a);
    }
    subject_free(&a.subject);
    return record;
}
