/* op_run.c: see op_run.h. */
#include "harness/op_run.h"

#include "core/cover.h"
#include "core/check.h"
#include "core/fault.h"
#include "core/router.h"
#include "harness/case_make.h"
#include "harness/op_measured.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOSE 0.25 /* of an output's root mean square: a derived bound above it tells nothing */

/* One side's copy of the case. */
struct lane {
    struct arena arena;
    struct case_data data;
    struct run run;
    struct bound_model model;
    struct bound bound[CASE_OUTPUTS];
};

static double value_at(const struct case_output *o, int64_t i)
{
    return o->dtype == DT_F64 ? ((const double *)o->data)[i]
                              : (double)dtype_int_at(o->dtype, o->data, i);
}

/* How far past its bound: above 1 is a failure. NaN and infinities are infinitely far. */
static double ratio_of(double subject, double truth, double bound)
{
    double diff = fabs(subject - truth);
    if (!isfinite(subject) || !isfinite(truth)) return INFINITY;
    if (diff == 0) return 0;
    return bound > 0 ? diff / bound : INFINITY;
}

/* Ascending ids in [0, E). */
static bool ids_valid(const int32_t *ids, int64_t k, int64_t E)
{
    for (int64_t j = 0; j < k; j++) {
        if (ids[j] < 0 || ids[j] >= E || (j > 0 && ids[j] <= ids[j - 1])) return false;
    }
    return true;
}

static bool chosen(const int32_t *ids, int64_t k, int64_t e)
{
    for (int64_t j = 0; j < k; j++) {
        if (ids[j] == e) return true;
    }
    return false;
}

/* Equal experts tie exactly, and ties go to the lower id: nothing explains the higher one without
 * the lower. The slot of such a higher one, or -1. */
static int64_t tie_broken_upwards(const struct op_case *c, const struct router *op,
                                  const int32_t *ids)
{
    int64_t per_group = op->E / op->groups, ties = case_get_int(c, "ties");
    if (case_word_is(c, "linear", "blas"))
        return -1; /* equal rows need not give equal bits there */
    for (int64_t j = 0; j < op->top_k; j++) {
        int64_t twin = case_router_twin(c, ids[j]);
        bool comparable = ties == 2 || twin / per_group == ids[j] / per_group;
        if (ties != 3 && twin != ids[j] && comparable && !chosen(ids, op->top_k, twin)) return j;
        if (ties == 3 && ids[j] >= op->top_k && op->groups == 1) return j;
    }
    return -1;
}

static const char twin_text[] = "of two equal experts the higher id was chosen";
static const char ids_from[] = "equal, or a gap of the keys within their errors";

/* Whether the subject's choice in row t is one that errors of `allowed` / 2 a key explain. */
static bool choice_explained(const struct op_case *c, const struct router *op, const double *keys,
                             int64_t t, const int32_t *ids, double allowed, char *why)
{
    bool by_group;
    bool forced = op->forced && op->forced[t * op->top_k] != -1;
    if (forced) {
        snprintf(why, OP_WHY, "row %lld: the choice was forced and not taken", (long long)t);
        return false;
    }
    if (tie_broken_upwards(c, op, ids) >= 0) {
        snprintf(why, OP_WHY, "row %lld: %s", (long long)t, twin_text);
        return false;
    }
    double gap = router_gap(op, keys, ids, &by_group);
    if (gap <= allowed) return true;
    snprintf(why, OP_WHY, "row %lld: %s gap %.3g, errors of the keys explain %.3g", (long long)t,
             by_group ? "group" : "expert", gap, allowed);
    return false;
}

/* Marks rows whose choices differ but are near ties; judges the others. */
static enum err_code judge_ids(const struct op_case *c, const struct lane *truth,
                               const struct lane *subject, bool *flipped, struct op_output *out,
                               struct arena *a, struct err *err)
{
    const struct router *op = truth->data.op;
    double *keys = arena_alloc(a, 2 * op->E, sizeof *keys, "keys", err);
    if (!keys) return err->code;
    for (int64_t t = 0; t < op->T; t++) {
        const int32_t *mine = (const int32_t *)subject->data.output[1].data + t * op->top_k;
        const int32_t *theirs = (const int32_t *)truth->data.output[1].data + t * op->top_k;
        double allowed = 2 * (truth->bound[1].key[t] + subject->bound[1].key[t]);
        int64_t j = 0;
        while (j < op->top_k && mine[j] == theirs[j]) j++;
        if (j == op->top_k) continue;
        bool fits = ids_valid(mine, op->top_k, op->E);
        if (!fits)
            snprintf(out->why, sizeof out->why, "row %lld: not ascending ids of 0 to %lld",
                     (long long)t, (long long)op->E - 1);
        router_keys(op, op->logits + t * op->E, keys + op->E, keys);
        if (fits) fits = choice_explained(c, op, keys, t, mine, allowed, out->why);
        if (fits) {
            flipped[t] = true;
            out->near_ties++;
            continue;
        }
        out->failed = true;
        out->worst = (struct cell){t, j, mine[j], theirs[j]};
        return ERR_OK;
    }
    return ERR_OK;
}

/* Element by element. Rows marked in `skip` are left out. */
static void judge_values(const struct case_output *s, const struct case_output *t, const double *bs,
                         const double *bt, const bool *skip, struct op_output *out)
{
    double worst = -1;
    for (int64_t i = 0; i < s->rows * s->cols; i++) {
        if (skip && skip[i / s->cols]) continue;
        double sv = value_at(s, i), tv = value_at(t, i),
               bound = (bs ? bs[i] : 0) + (bt ? bt[i] : 0);
        double ratio = ratio_of(sv, tv, bound);
        if (!(ratio <= 1)) out->failed = true;
        if (ratio > worst || !(ratio == ratio)) {
            worst = out->ratio = ratio;
            out->bound = bound;
            out->worst = (struct cell){i / s->cols, i % s->cols, sv, tv};
        }
    }
}

/* One more compared output of the result: its figures, not yet judged. */
static struct op_output *add_output(struct op_result *r, const struct case_output *s,
                                    const struct case_output *t, const char *side)
{
    struct op_output *o = &r->output[r->outputs++];
    struct measure m;
    measure_views((struct view){s->dtype, s->data, s->rows, s->cols},
                  (struct view){t->dtype, t->data, t->rows, t->cols}, NULL, &m, NULL, NULL, NULL);
    *o = (struct op_output){.name = s->name,
                            .side = side,
                            .elements = s->rows * s->cols,
                            .rel_rms = m.rel_rms,
                            .max_abs = m.max_abs,
                            .worst = {-1, -1, 0, 0}};
    r->compared += o->elements;
    return o;
}

static enum err_code compare(const struct op_case *c, const struct lane *truth,
                             const struct lane *subject, const char *side, const char *truth_side,
                             struct op_result *r, struct arena *a, struct err *err)
{
    bool router = strcmp(c->op->name, "router") == 0;
    bool *flipped = arena_alloc(a, truth->data.output[0].rows, sizeof *flipped, "flips", err);
    if (!flipped) return err->code;
    memset(flipped, 0, (size_t)truth->data.output[0].rows * sizeof *flipped);
    struct op_output *first = &r->output[r->outputs];
    for (int i = 0; i < truth->data.outputs; i++) {
        const struct case_output *s = &subject->data.output[i], *t = &truth->data.output[i];
        struct op_output *o = add_output(r, s, t, side);
        snprintf(o->from, sizeof o->from, "%s: %s; %s: %s", truth_side, truth->bound[i].from, side,
                 subject->bound[i].from);
        if (router && i == 1) {
            snprintf(o->from, sizeof o->from, "%s", ids_from);
            if (judge_ids(c, truth, subject, flipped, o, a, err) != ERR_OK) return err->code;
        } else {
            judge_values(s, t, subject->bound[i].abs, truth->bound[i].abs,
                         router && i == 2 ? flipped : NULL, o);
        }
    }
    for (struct op_output *o = first; o < &r->output[r->outputs]; o++) {
        if (o->failed) r->verdict = OP_FAIL;
    }
    return ERR_OK;
}

/* Runs the op with the case's fault. */
static enum err_code run_faulted(const struct op_case *c, const struct op_side *side,
                                 struct lane *lane, struct op_result *r)
{
    struct faults faults = {.count_changes = true};
    const struct fault_place place = {.op = c->op->name, .layer = -1, .side = side};
    if (faults_add(&faults, case_fault(c), &r->err) != ERR_OK) return r->err.code;
    lane->run.faults = &faults;
    enum err_code rc = fault_call(&place, lane->data.op, &lane->run, &r->err);
    r->fault_calls += faults.use[0].calls;
    r->fault_changed += faults.use[0].changed;
    if (rc == ERR_OK && faults.use[0].calls == 0)
        rc = err_set(&r->err, ERR_USAGE,
                     "fault|%s|a site that is not here|no layer, no other op: "
                     "the op runs alone, once",
                     case_fault(c));
    faults_clear(&faults);
    return rc;
}

/* Makes the case and runs it on one side; what the side says is in r. `exact`: at float64 and
 * without rounding, whatever the case says. */
static enum err_code run_lane(const struct op_case *c, const struct op_subject *s, bool faulted,
                              bool exact, struct lane *lane, struct op_result *r, struct err *err)
{
    op_function *function = op_side_find(s->side, c->op->name);
    r->side = s->side->name;
    if (!function) {
        r->verdict = OP_NOT_IMPLEMENTED;
        return ERR_OK;
    }
    if (case_make(c, &lane->arena, &lane->data, err) != ERR_OK) return err->code;
    if (case_run(c, &lane->arena, &lane->run, err) != ERR_OK) return err->code;
    if (s->own_precision) lane->run.precision = s->precision;
    if (exact) {
        lane->run.precision = PRECISION_F64;
        memset(lane->run.profile.rounds, 0, sizeof lane->run.profile.rounds);
    }
    lane->run.kernels = &r->kernels;
    lane->model = bound_model_of(s->side->name, &lane->run);
    enum err_code rc =
        faulted ? run_faulted(c, s->side, lane, r) : function(lane->data.op, &lane->run, &r->err);
    if (rc == ERR_OK) return ERR_OK;
    r->verdict = OP_ERROR;
    (void)err_note(&r->err, "side %s", s->side->name);
    return ERR_OK;
}

/* A truth whose ids are no choice at all cannot bound anything, and one that breaks ties the wrong
 * way would pass as a near tie against a right subject. */
static bool truth_usable(const struct op_case *c, const struct lane *truth, struct op_result *r)
{
    if (strcmp(c->op->name, "router") != 0) return true;
    const struct router *op = truth->data.op;
    for (int64_t t = 0; t < op->T; t++) {
        const int32_t *ids = op->ids + t * op->top_k;
        bool forced = op->forced && op->forced[t * op->top_k] != -1;
        bool valid = ids_valid(ids, op->top_k, op->E);
        int64_t slot = valid && !forced ? tie_broken_upwards(c, op, ids) : -1;
        if (valid && slot < 0) continue;
        struct op_output *o = &r->output[r->outputs++];
        r->verdict = OP_FAIL;
        *o = (struct op_output){.name = "ids", .side = r->side, .failed = true};
        o->worst = valid ? (struct cell){t, slot, ids[slot], (double)case_router_twin(c, ids[slot])}
                         : (struct cell){t, 0, ids[0], -1};
        if (valid)
            snprintf(o->why, OP_WHY, "row %lld: %s", (long long)t, twin_text);
        else
            snprintf(o->why, OP_WHY, "row %lld: not ascending ids of 0 to %lld", (long long)t,
                     (long long)op->E - 1);
        snprintf(o->from, sizeof o->from, "%s", ids_from);
        return false;
    }
    return true;
}

/* A bound that is no number, or near the size of what it bounds, proves nothing: rounding to a
 * short type and a softmax can make it so. Where it rounds, and all outputs are reals, there is the
 * measured one. */
static bool proves_nothing(const struct lane *lane, int n)
{
    bool rounds = false, loose = false;
    for (int p = 0; p < RP_COUNT; p++) rounds |= lane[0].run.profile.rounds[p];
    for (int k = 0; k < lane[0].data.outputs; k++) {
        const struct case_output *t = &lane[0].data.output[k];
        double bound = 0, size = 0;
        if (t->dtype != DT_F64) return false;
        for (int64_t i = 0; i < t->rows * t->cols; i++) {
            double b = 0, v = value_at(t, i);
            for (int s = 0; s < n; s++) b += lane[s].bound[k].abs ? lane[s].bound[k].abs[i] : 0;
            bound += b * b;
            size += v * v;
        }
        loose |= !(bound <= LOOSE * LOOSE * size);
    }
    return rounds && loose;
}

static enum err_code judge_derived(const struct op_case *c, const struct op_subject *subject, int n,
                                   struct lane *lane, struct op_result *out, struct arena *a,
                                   bool *loose, struct err *err)
{
    struct case_data fresh;
    if (case_make(c, a, &fresh, err) != ERR_OK) return err->code;
    if (!truth_usable(c, &lane[0], out)) return ERR_OK;
    for (int i = 0; i < n; i++) {
        if (bound_make(c, &fresh, &lane[0].data, &lane[i].model, a, lane[i].bound, err) != ERR_OK)
            return err->code;
    }
    for (int i = 1; i < n; i++) {
        const char *side = subject[i].side->name;
        if (compare(c, &lane[0], &lane[i], side, subject[0].side->name, out, a, err) != ERR_OK)
            return err->code;
    }
    *loose = proves_nothing(lane, n);
    return ERR_OK;
}

/* Least error that an output of this op may have: half a step of what it is stored in, or, where a
 * sum goes out as it is, what the sum loses. */
static double unit_of(const struct op_case *c, const struct lane *subject)
{
    const struct profile *p = &subject->run.profile;
    bool logits = strcmp(c->op->name, "logits") == 0;
    if (strcmp(c->op->name, "int4") == 0) return dtype_unit(DT_F32);
    if (!logits || p->rounds[RP_LOGITS]) return dtype_unit(subject->run.act);
    return p->cut_sums ? profile_cut_sum(case_get_int(c, "H")) / 2 : dtype_unit(DT_F32);
}

/* One output of one subject against the truth's side at float64. */
static void measured_output(const struct op_case *c, const struct lane *exact,
                            const struct lane *truth, const struct lane *subject, const char *side,
                            int i, struct op_result *r)
{
    const struct case_output *s = &subject->data.output[i], *x = &exact->data.output[i];
    struct op_output *o = add_output(r, s, x, side);
    const struct op_measured held = {
        .exact = x,
        .profile = &truth->data.output[i],
        .subject = s,
        .unit = unit_of(c, subject),
    };
    op_measured_judge(&held, o);
    if (o->failed) r->verdict = OP_FAIL;
}

static enum err_code judge_measured(const struct op_case *c, const struct op_subject *subject,
                                    int n, struct lane *lane, struct op_result *out,
                                    struct err *err)
{
    struct lane exact = {0};
    for (int i = 0; i < lane[0].data.outputs; i++) {
        if (lane[0].data.output[i].dtype != DT_F64)
            return err_set(
                err, ERR_USAGE,
                "case|bound|measured, for op %s whose output %s is whole numbers|derived",
                c->op->name, lane[0].data.output[i].name);
    }
    enum err_code rc = run_lane(c, &subject[0], false, true, &exact, out, err);
    for (int i = 1; rc == ERR_OK && out->verdict != OP_ERROR && i < n; i++) {
        for (int k = 0; k < exact.data.outputs; k++)
            measured_output(c, &exact, &lane[0], &lane[i], subject[i].side->name, k, out);
    }
    arena_release(&exact.arena, NULL);
    return rc;
}

static enum err_code judge(const struct op_case *c, const struct op_subject *subject, int n,
                           struct lane *lane, struct op_result *out, struct arena *a,
                           struct err *err)
{
    bool measured = case_word_is(c, "bound", "measured");
    enum err_code rc = ERR_OK;
    out->side = subject[0].side->name;
    if (!measured) rc = judge_derived(c, subject, n, lane, out, a, &measured, err);
    if (measured && rc == ERR_OK) {
        out->outputs = 0;
        out->compared = 0;
        out->verdict = OP_OK;
        rc = judge_measured(c, subject, n, lane, out, err);
    }
    if (rc == ERR_OK && out->compared == 0 && out->verdict == OP_OK) out->verdict = OP_FAIL;
    return rc;
}

/* A case that held is evidence, for `assay cover`. */
static void note_cover(const struct op_case *c, const struct op_subject *subject, int n)
{
    const struct {
        const struct op_side *side;
        enum cover_kind kind;
    } sides[] = {{ref_side(), COVER_REF}, {gpu_side(), COVER_GPU}};
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            if (subject[i].side == sides[k].side) cover_note(c->op->name, sides[k].kind);
        }
        if (subject[i].side != subject[0].side) cover_note(c->op->name, COVER_DIFF);
    }
}

enum err_code op_run_case(const struct op_case *c, const struct op_subject *subject, int n,
                          struct op_result *out, struct err *err)
{
    CHECK(n >= 2 && n <= OP_SUBJECTS);
    struct lane lane[OP_SUBJECTS] = {0};
    struct arena arena = ARENA_INIT;
    enum err_code rc = ERR_OK;
    *out = (struct op_result){.verdict = OP_OK, .err = ERR_INIT};
    for (int i = 0; rc == ERR_OK && i < n && out->verdict == OP_OK; i++)
        rc = run_lane(c, &subject[i], i > 0 && case_fault(c), false, &lane[i], out, err);
    if (rc == ERR_OK && out->verdict == OP_OK) rc = judge(c, subject, n, lane, out, &arena, err);
    for (int i = 0; i < n; i++) arena_release(&lane[i].arena, NULL);
    arena_release(&arena, NULL);
    if (rc == ERR_OK && out->verdict == OP_OK && !case_fault(c)) note_cover(c, subject, n);
    return rc;
}
