/* diagnose_court.c: which explanations hold, and which cannot be told apart; see diagnose_court.h.
 */
#include "harness/diagnose_court.h"

#include "core/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEARLY_ALL 0.9  /* share of the squared error that a claim explains */
#define CLEARLY 4.0     /* squared error that another explanation leaves, to be the worse one */
#define LIKE_GREEN 2.0  /* residual over rounding error, against that of the taps that are right */
#define MOST_LIKE 2.0   /* two independent roundings of one value differ by this much */
#define SUMS 4.0        /* times the difference between sums in float32 and float64 */
#define FLIPS 4.0       /* values that round the other way by chance */
#define NOTHING 1e-3    /* of the rounding error: no difference */
#define FINE 1e-4       /* relative error below which a tap is not rounded to 16 bits */
#define FITTED 0.1      /* of the rounding error: what fitting a value to rounded ones leaves */
#define PAIR_LEAST 0.02 /* share that the first of two must explain alone */
#define PAIR_HELPS 0.95 /* of what the first leaves alone: what the second may leave */
#define PAIR_NEAR 0.95  /* share that one fault may explain alone where two are looked for */
#define PAIR_EVIDENCE 25.0 /* squared error over that of rounding */
enum { PAIR_FIRST = 4, PAIR_SECOND = 4 };

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
        measure_views(sv, pv, d->rows.row, &s, NULL, NULL, NULL);
        measure_views(pv, mv, NULL, &noise, NULL, NULL, NULL);
        if ((noise.rel_rms > FINE) != coarse || !(noise.rms_diff > 0)) continue;
        double like = s.rms_diff * s.rms_diff / (noise.rms_diff * noise.rms_diff);
        if (like > most) most = like;
    }
    c->like = most < 0 ? MOST_LIKE : fmin(LIKE_GREEN * most, MOST_LIKE);
    c->coarse = coarse;
}

static bool within_bound(struct court *c, struct err *err)
{
    const struct diff *d = c->diff;
    struct judge judge = d->judge;
    struct tap_judgement j;
    const struct pair p = {c->fitter.subject, &c->math.dump.taps[0], d->guilty.pair->moe,
                           d->guilty.pair->ops};
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
    double unit = dtype_unit(c->coarse ? f->rerun.session[RERUN_PROFILE].run.act : DT_F32);
    double flip = 4 * unit * m.rms_truth; /* an ulp of a value twice the mean */
    double sums = SUMS * fit_between(f, &f->taps, &c->wide, i), share = fmax(c->like, NOTHING);
    bool fitted = has_fitted_value(&t->use) ||
                  (t->claim.second >= 0 && has_fitted_value(&c->out->list[t->claim.second].use));
    if (fitted) share = fmax(share, FITTED);
    return fmax(fmax(sums, FLIPS * flip * flip), fmax(share * t->noise[i], one_ulp(tap)));
}

/* Runs an explanation on all sides with all kept taps. */
static enum err_code run_sides(struct court *c, const struct trial *t, bool *ran, struct err *err)
{
    struct rerun_taps *const out[RERUN_SIDES] = {
        [RERUN_PROFILE] = &c->fitter.taps, [RERUN_MATH] = &c->math, [RERUN_WIDE] = &c->wide};
    for (int side = 0; side < RERUN_SIDES; side++) {
        struct faults faults = {0};
        faults.use[faults.count++] = t->use;
        if (t->claim.second >= 0) faults.use[faults.count++] = c->out->list[t->claim.second].use;
        enum err_code rc = fit_run(&c->fitter, (enum rerun_side)side, &faults,
                                   c->fitter.rerun.count, out[side], ran, err);
        faults_clear(&faults);
        if (rc != ERR_OK || !*ran) return rc;
    }
    return ERR_OK;
}

/* A tap after the guilty one that is wrong too, and that the explanation changes, must come out as
 * the subject's. Where it does not, the explanation is wrong, or something else is wrong there as
 * well. A tap that is right only says that the bug is narrower than the fault's site. */
static bool fits_later_taps(const struct court *c, const struct trial *t)
{
    const struct fitter *f = &c->fitter;
    for (int64_t i = 1; i < f->rerun.count; i++) {
        bool changes = fit_between(f, &f->taps, &f->clean, i) > t->slack[i],
             wrong = fit_left(f, &f->clean, i) > t->slack[i];
        if (changes && wrong && !(t->left[i] <= t->slack[i])) return false;
    }
    return true;
}

static enum err_code hear(struct court *c, struct claim claim, const struct fault_use *use,
                          struct trial *t, struct err *err)
{
    struct fitter *f = &c->fitter;
    int64_t n = f->rerun.count;
    bool ran;
    *t =
        (struct trial){.claim = claim, .use = *use, .left = calloc((size_t)n * 3, sizeof *t->left)};
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
        double allowed = fmax(CLEARLY * best, best + slack);
        if (c->fitter.rerun.taps[i].ints) allowed = best;
        for (int64_t k = 0; k < c->count; k++) {
            if (!(c->trials[k].left[i] <= allowed)) c->trials[k].holds = false;
        }
    }
}

static enum err_code add_trial(struct court *c, struct claim claim, const struct fault_use *use,
                               struct err *err)
{
    struct trial *t = &c->trials[c->count];
    if (hear(c, claim, use, t, err) != ERR_OK || !t->holds) {
        free(t->left);
        return err->code;
    }
    c->count++;
    return ERR_OK;
}

enum err_code court_singles(struct court *c, struct err *err)
{
    for (int64_t i = 0; i < c->out->count && i < COURT_TRIALS; i++) {
        struct hypothesis *h = &c->out->list[i];
        if (!(h->explains > NEARLY_ALL / 2)) break;
        for (int a = -1; a < h->alsos && !h->holds; a++) {
            int64_t before = c->count;
            const struct fault_use use = a < 0 ? h->use : h->also[a];
            if (add_trial(c, (struct claim){i, -1, 0}, &use, err) != ERR_OK) return err->code;
            h->holds = c->count > before;
            if (h->holds) h->use = use;
        }
    }
    return ERR_OK;
}

/* Fault k beside fault i, which keeps its keys; where the two hold they are the claim, unless a
 * pair before them left less. */
static enum err_code try_pair(struct court *c, int64_t i, int64_t k, struct err *err)
{
    struct hypothesis *list = c->out->list, pair, alone = list[k];
    if (fit_fault(&c->fitter, alone.use.row, &list[i].use, &pair, err) != ERR_OK) return err->code;
    bool best = c->count == 0 || pair.left < c->trials[0].left[0];
    if (!best || !(pair.explains >= NEARLY_ALL)) return ERR_OK;
    list[k].use = pair.use;
    int64_t before = c->count;
    if (add_trial(c, (struct claim){i, k, 0}, &list[i].use, err) != ERR_OK || c->count == before) {
        list[k].use = alone.use;
        return err->code;
    }
    if (c->count == 2) {
        free(c->trials[0].left);
        c->trials[0] = c->trials[1];
        c->count = 1;
    }
    return ERR_OK;
}

/* Squared error that fault i and fault k leave together, both as they were fitted alone. */
static enum err_code left_together(struct court *c, int64_t i, int64_t k, double *left,
                                   struct err *err)
{
    struct faults faults = {.use = {c->out->list[i].use, c->out->list[k].use}, .count = 2};
    bool ran;
    enum err_code rc = fit_run(&c->fitter, RERUN_PROFILE, &faults, 1, &c->fitter.taps, &ran, err);
    faults_clear(&faults);
    *left = rc == ERR_OK && ran ? fit_left(&c->fitter, &c->fitter.taps, 0) : INFINITY;
    return rc;
}

struct beside {
    int64_t k;
    double left;
};

static int by_left(const void *a, const void *b)
{
    double x = ((const struct beside *)a)->left, y = ((const struct beside *)b)->left;
    return (x > y) - (x < y);
}

/* Two at once: each of the best few beside those others that leave least with it, which are then
 * fitted anew. Two explain more by chance than one does: not looked for where one comes near, or
 * where the error is not far above rounding. */
enum err_code court_pairs(struct court *c, struct err *err)
{
    int64_t n = c->out->count;
    bool near = n > 0 && c->out->list[0].explains >= PAIR_NEAR;
    if (near || !(c->fitter.clean_energy > PAIR_EVIDENCE * c->fitter.clean_noise)) return ERR_OK;
    struct beside *others = calloc((size_t)n + 1, sizeof *others);
    if (!others) return err_set(err, ERR_MEMORY, "diagnose|pairs|no memory");
    for (int64_t i = 0; i < n && i < PAIR_FIRST && err->code == ERR_OK; i++) {
        int64_t count = 0;
        if (!(c->out->list[i].explains > PAIR_LEAST)) break;
        progress_show(NULL, "diagnosis: pairs", i, PAIR_FIRST);
        for (int64_t k = i + 1; k < n && err->code == ERR_OK; k++) {
            others[count].k = k;
            (void)!left_together(c, i, k, &others[count++].left, err);
        }
        qsort(others, (size_t)count, sizeof *others, by_left);
        for (int64_t k = 0; k < count && k < PAIR_SECOND && err->code == ERR_OK; k++) {
            if (others[k].left < PAIR_HELPS * c->out->list[i].left)
                (void)!try_pair(c, i, others[k].k, err);
        }
    }
    free(others);
    return err->code;
}

void court_claim(struct court *c)
{
    struct diagnosis *g = c->out;
    double rank = -1;
    separate(c);
    for (int64_t i = 0; i < c->count; i++) {
        const struct trial *t = &c->trials[i];
        if (!t->holds) continue;
        const struct fault_use *use = &g->list[t->claim.first].use;
        g->claims[g->claimed++] = t->claim;
        for (int k = 0; k < FAULT_KEYS && use->row->keys[k].name; k++) {
            if (strcmp(use->row->keys[k].name, "rank") == 0) rank = use->value[k];
        }
    }
    if (g->claimed == 1 && rank >= 0) c->diff->guilty.rank = (int64_t)rank;
}
