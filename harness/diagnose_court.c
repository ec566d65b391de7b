/* diagnose_court.c: which explanations hold, and which cannot be told apart; see diagnose_court.h.
 */
#include "harness/diagnose_court.h"

#include "core/compare.h"
#include "core/fault_shard.h"
#include "harness/diagnose_evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEARLY_ALL 0.9 /* share of the squared error that a claim explains */
#define CLEARLY 4.0    /* squared error that another explanation leaves, to be the worse one */
#define LIKE_GREEN 2.0 /* residual over rounding error, against that of the taps that are right */
#define MOST_LIKE 2.0  /* two independent roundings of one value differ by this much */
#define SUMS 4.0       /* times the difference between sums in float32 and float64 */
#define FLIPS 4.0      /* values that round the other way by chance */
#define NOTHING 1e-3   /* of the rounding error: no difference */
#define FINE 1e-4      /* relative error below which a tap is not rounded to 16 bits */
#define FITTED 0.1     /* of the rounding error: what fitting a value to rounded ones leaves */
#define JUMP 0.5       /* of the larger of two values: no rounding moves one by as much */

/* Relative rounding error of the profile at the guilty tap. */
static double noise_of(const struct court *c)
{
    const struct dump_tap *p = &c->fitter.clean.dump.taps[0],
                          *m = &c->fitter.clean_math.dump.taps[0];
    struct measure noise;
    if (c->fitter.ids) return 0;
    const struct view pv = {DT_F64, p->tensor->data, p->rows, p->cols},
                      mv = {DT_F64, m->tensor->data, m->rows, m->cols};
    measure_views(pv, mv, NULL, &noise, NULL, NULL, NULL);
    return noise.rel_rms;
}

/* How near a subject without a fault comes to its profile: the largest residual over rounding error
 * among its taps that are right and as coarsely rounded. A subject that has the profile's bits
 * everywhere else must have them here too. */
void court_learn(struct court *c)
{
    const struct diff *d = c->diff;
    double most = -1;
    bool coarse = noise_of(c) > FINE;
    for (int64_t i = 0; i < d->rows.count; i++) {
        const struct pair *p = &d->rows.pairs[i];
        const struct dump_tap *q = dump_find(&d->profile_run, p->subject->name);
        struct measure s, noise;
        if (d->taps[i].verdict != TAP_PASS || !p->subject->known || !q ||
            !dtype_is_float(p->subject->tensor->dtype) || p->subject->kind == TAP_EMBED)
            continue;
        const struct view sv = {p->subject->tensor->dtype, p->subject->tensor->data,
                                p->subject->rows, p->subject->cols},
                          pv = {q->tensor->dtype, q->tensor->data, q->rows, q->cols},
                          mv = {p->truth->tensor->dtype, p->truth->tensor->data, p->truth->rows,
                                p->truth->cols};
        measure_views(sv, pv, align_map(&d->rows, p), &s, NULL, NULL, NULL);
        measure_views(pv, mv, NULL, &noise, NULL, NULL, NULL);
        if ((noise.rel_rms > FINE) != coarse || !(noise.rms_diff > 0)) continue;
        double like = s.rms_diff * s.rms_diff / (noise.rms_diff * noise.rms_diff);
        if (like > most) most = like;
    }
    c->like = most < 0 ? MOST_LIKE : fmin(LIKE_GREEN * most, MOST_LIKE);
    /* A draft layer rounds many times in a row: two orders of sums come out as two roundings. */
    if (d->guilty.pair->truth->kind == TAP_DRAFT_HIDDEN) c->like = MOST_LIKE;
    c->coarse = coarse;
}

static bool within_bound(struct court *c, struct err *err)
{
    const struct diff *d = c->diff;
    struct judge judge = d->judge;
    struct tap_judgement j;
    const struct pair p = {.subject = c->fitter.subject,
                           .truth = &c->math.dump.taps[0],
                           .moe = d->guilty.pair->moe,
                           .ops = d->guilty.pair->ops};
    judge.profile = &c->fitter.taps.dump;
    if (judge_pair(&judge, &p, &j, err) != ERR_OK) return false;
    if (j.measure.special_mismatch > 0) return false;
    return !judge_fails(j.measure.rel_rms, j.bound) && j.rows_failed == 0;
}

/* Squared error of a subject that is off by one ulp of float32 everywhere: what no engine's order
 * of sums holds. */
static double one_ulp(const struct dump_tap *t)
{
    struct measure m;
    const struct view v = {t->tensor->dtype, t->tensor->data, t->rows, t->cols};
    measure_views(v, v, NULL, &m, NULL, NULL, NULL);
    double ulp = 2 * dtype_unit(DT_F32);
    return ulp * ulp * m.rms_truth * m.rms_truth * (double)m.elements;
}

static bool has_fitted_value(const struct fault_use *u)
{
    for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name; k++) {
        if (u->row->keys[k].fit == FIT_LINEAR) return true;
    }
    return false;
}

/* Roundoff of what the guilty tap is rounded to. */
static double unit_of(const struct court *c)
{
    return dtype_unit(c->coarse ? c->fitter.rerun.session[RERUN_PROFILE].run.act : DT_F32);
}

/* What a subject may differ from a true explanation by at tap i: as much as its right taps do from
 * their profile, what float64 sums make of it, a few values that round the other way, and what is
 * uncertain of a parameter that was fitted to rounded values. */
static double slack_of(const struct court *c, const struct trial *t, int64_t i)
{
    const struct fitter *f = &c->fitter;
    const struct dump_tap *tap = &f->taps.dump.taps[i];
    struct measure m;
    if (f->rerun.taps[i].ints) return 0;
    const struct view v = {DT_F64, tap->tensor->data, tap->rows, tap->cols};
    measure_views(v, v, NULL, &m, NULL, NULL, NULL);
    double unit = unit_of(c);
    double flip = 4 * unit * m.rms_truth; /* an ulp of a value twice the mean */
    double sums = SUMS * fit_between(f, &f->taps, &c->wide, i), share = fmax(c->like, NOTHING);
    bool fitted = has_fitted_value(&t->claim.use[0]) ||
                  (t->claim.second >= 0 && has_fitted_value(&t->claim.use[1]));
    if (fitted) share = fmax(share, FITTED);
    return fmax(fmax(sums, FLIPS * flip * flip), fmax(share * t->noise[i], one_ulp(tap)));
}

/* An edit of bits, or a choice, that comes out otherwise on one side than on another says how far
 * apart the two are, not how far rounding moves a value. There the explanation is what the profile
 * gives, and nothing else. */
static void settle_jumps(const struct court *c, struct rerun_taps *side)
{
    int64_t cells = 0;
    for (int64_t i = 0; i < c->fitter.rerun.count; i++) {
        if (!c->fitter.rerun.taps[i].ints) cells += side->tensors[i].count;
    }
    for (int64_t k = 0; k < cells; k++) {
        double own = c->fitter.taps.data[k], other = side->data[k];
        if (!(fabs(own - other) <= JUMP * fmax(fabs(own), fabs(other)))) side->data[k] = own;
    }
}

/* Runs an explanation on all sides with all kept taps. */
static enum err_code run_sides(struct court *c, const struct trial *t, bool *ran, struct err *err)
{
    struct rerun_taps *const out[RERUN_SIDES] = {
        [RERUN_PROFILE] = &c->fitter.taps, [RERUN_MATH] = &c->math, [RERUN_WIDE] = &c->wide};
    for (int side = 0; side < RERUN_SIDES; side++) {
        struct faults faults = {0};
        faults.use[faults.count++] = t->claim.use[0];
        if (t->claim.second >= 0) faults.use[faults.count++] = t->claim.use[1];
        enum err_code rc = fit_run(&c->fitter, (enum rerun_side)side, &faults,
                                   c->fitter.rerun.count, out[side], ran, err);
        faults_clear(&faults);
        if (rc != ERR_OK || !*ran) return rc;
    }
    settle_jumps(c, &c->math);
    settle_jumps(c, &c->wide);
    return ERR_OK;
}

/* A tap after the guilty one that is wrong too, and that the explanation changes, must come out as
 * the subject's. Where it does not, the explanation is wrong, or something else is wrong there as
 * well. So must one that the guilty op makes in the same call, wrong or not: a router that scores
 * otherwise weighs otherwise too. Any other tap that is right only says that the bug is narrower
 * than the fault's site. */
static bool fits_later_taps(const struct court *c, const struct trial *t)
{
    const struct fitter *f = &c->fitter;
    bool same_call = !f->draft;
    for (int64_t i = 1; i < f->rerun.count; i++) {
        bool changes = fit_between(f, &f->taps, &f->clean, i) > t->slack[i],
             wrong = fit_left(f, &f->clean, i) > t->slack[i];
        same_call &= strcmp(tap_op(f->rerun.taps[i].kind, c->diff->guilty.pair->moe),
                            c->diff->guilty.op) == 0;
        if (changes && (wrong || same_call) && !(t->left[i] <= t->slack[i])) return false;
    }
    return true;
}

static enum err_code hear(struct court *c, struct claim claim, struct trial *t, struct err *err)
{
    struct fitter *f = &c->fitter;
    int64_t n = f->rerun.count;
    bool ran;
    *t = (struct trial){.claim = claim, .left = calloc((size_t)n * 3, sizeof *t->left)};
    if (!t->left) return err_set(err, ERR_MEMORY, "diagnose|trial|no memory");
    t->noise = t->left + n;
    t->slack = t->noise + n;
    if (run_sides(c, t, &ran, err) != ERR_OK || !ran) return err->code;
    for (int64_t i = 0; i < n; i++) {
        t->left[i] = fit_left(f, &f->taps, i);
        t->noise[i] = fit_between(f, &f->taps, &c->math, i);
        t->slack[i] = slack_of(c, t, i);
    }
    if (f->ids) t->slack[0] = fmax(t->noise[0], f->clean_noise);
    double explains = isinf(f->clean_energy) ? 1 : 1 - t->left[0] / f->clean_energy;
    t->claim.explains = isfinite(t->left[0]) ? explains : 0;
    c->nearly |= explains >= NEARLY_ALL && t->left[0] <= MOST_LIKE * t->noise[0];
    t->holds = isfinite(t->left[0]) && isfinite(t->noise[0]) && explains >= NEARLY_ALL &&
               t->left[0] <= t->slack[0] && (f->ids || within_bound(c, err)) &&
               fits_later_taps(c, t);
    t->pays = evidence_bits(f, unit_of(c)) > evidence_charge(&t->claim, c->out->count, f->ids);
    return err->code;
}

/* Drops from the set what leaves clearly more than the best of it, tap by tap. What none of them
 * explains separates nobody. */
static void separate(struct court *c)
{
    int64_t taps = c->fitter.rerun.count;
    for (int64_t i = 0; i < taps; i++) {
        double best = INFINITY, slack = 0;
        for (int64_t k = 0; k < c->count; k++) {
            if (!c->trials[k].holds) continue;
            if (c->trials[k].left[i] < best) {
                best = c->trials[k].left[i];
                slack = c->trials[k].slack[i];
            }
        }
        if (!(best <= slack)) continue;
        double allowed = fmax(CLEARLY * best, best + slack);
        if (c->fitter.rerun.taps[i].ints) allowed = best;
        for (int64_t k = 0; k < c->count; k++) {
            if (!(c->trials[k].left[i] <= allowed)) c->trials[k].holds = false;
        }
    }
}

enum err_code court_hear(struct court *c, struct claim claim, struct err *err)
{
    struct trial *t = &c->trials[c->count];
    if (c->count > COURT_TRIALS) return ERR_OK;
    if (hear(c, claim, t, err) != ERR_OK || !t->holds) {
        free(t->left);
        return err->code;
    }
    c->count++;
    return ERR_OK;
}

/* Taps after the guilty one that do not come out as the subject's. */
static int64_t missed_taps(const struct court *c, const struct trial *t)
{
    int64_t missed = 0;
    for (int64_t i = 1; i < c->fitter.rerun.count; i++) missed += !(t->left[i] <= t->slack[i]);
    return missed;
}

/* Of the keys that leave as little at the guilty tap, those that fit the taps after it best. */
static enum err_code hear_fault(struct court *c, int64_t i, struct err *err)
{
    struct hypothesis *h = &c->out->list[i];
    const int64_t at = c->count;
    for (int a = -1; a < h->alsos && at < COURT_TRIALS; a++) {
        const struct claim claim = {.first = i, .second = -1, .use = {a < 0 ? h->use : h->also[a]}};
        c->count = at + h->holds;
        if (court_hear(c, claim, err) != ERR_OK) return err->code;
        if (c->count == at + h->holds) continue;
        struct trial *kept = &c->trials[at], *other = &c->trials[at + h->holds];
        if (h->holds && missed_taps(c, other) < missed_taps(c, kept)) {
            const struct trial worse = *kept;
            *kept = *other;
            *other = worse;
        }
        if (h->holds) free(other->left);
        h->holds = true;
        c->count = at + 1;
        if (missed_taps(c, kept) == 0) break;
    }
    if (h->holds) h->use = c->trials[at].claim.use[0];
    return ERR_OK;
}

enum err_code court_singles(struct court *c, struct err *err)
{
    for (int64_t i = 0; i < c->out->count && i < COURT_TRIALS; i++) {
        if (!(c->out->list[i].explains > NEARLY_ALL / 2)) break;
        if (hear_fault(c, i, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

/* The rank that all claims name; -1: none, several, or a claim that names none. */
static int64_t blamed(const struct diagnosis *g)
{
    int64_t rank = -1;
    for (int64_t i = 0; i < g->claimed; i++) {
        const struct claim *c = &g->claims[i];
        if (c->ranks != 1 || (i > 0 && rank != c->rank[0])) return -1;
        rank = c->rank[0];
    }
    return rank;
}

/* Where nobody knows how many ranks there were, the fault says a rank of as many as it has. */
static void find_ranks(const struct diff *d, struct claim *claim)
{
    const struct fault_use *u = &claim->use[0];
    if (d->cut) {
        claim->ranks = shard_fault_ranks(u, &d->plan, claim->rank);
        return;
    }
    for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name; k++) {
        if (strcmp(u->row->keys[k].name, "rank") != 0 || u->value[k] < 0) continue;
        claim->rank[0] = (int)u->value[k];
        claim->ranks = 1;
    }
}

void court_claim(struct court *c)
{
    struct diagnosis *g = c->out;
    bool paid = false;
    separate(c);
    for (int64_t i = 0; i < c->count; i++) paid |= c->trials[i].holds && c->trials[i].pays;
    for (int64_t i = 0; i < c->count; i++) {
        const struct trial *t = &c->trials[i];
        if (!t->holds || !paid) continue;
        struct claim *claim = &g->claims[g->claimed++];
        *claim = t->claim;
        find_ranks(c->diff, claim);
    }
    c->diff->guilty.rank = blamed(g);
}
