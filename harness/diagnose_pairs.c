/* diagnose_pairs.c: two faults at once, where none alone explains the guilty tap; see
 * diagnose_court.h. */
#include "harness/diagnose_court.h"

#include <math.h>
#include <stdlib.h>

#define LEAST 0.02     /* share that the first of two must explain alone */
#define HELPS 0.95     /* of what the first leaves alone: what the second may leave */
#define NEAR 0.95      /* share that one fault may explain alone where two are looked for */
#define EVIDENCE 25.0  /* squared error over that of rounding */
#define ROUNDING 2.0   /* times that error: two roundings of one value differ by no more */
#define FREE_STEP 0.01 /* of a value, to see what moving it does */
enum { FIRST = 4, SECOND = 4, FREE_TURNS = 10 };

/* Fault k beside fault i, which keeps its keys. */
static enum err_code try_pair(struct court *c, int64_t i, int64_t k, struct err *err)
{
    const struct hypothesis *list = c->out->list;
    struct hypothesis pair;
    if (fit_fault(&c->fitter, list[k].use.row, &list[i].use, &pair, err) != ERR_OK)
        return err->code;
    /* More than a pair that holds leaves is not worth to be heard: it would not be claimed. */
    double best = c->count > 0 ? c->trials[0].left[0] + c->trials[0].slack[0] : INFINITY;
    if (!(pair.left <= best)) return ERR_OK;
    const struct claim claim = {.first = i, .second = k, .use = {list[i].use, pair.use}};
    return court_hear(c, claim, err);
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

static enum err_code run_alone(struct court *c, const struct fault_use *use, struct rerun_taps *out,
                               double *left, struct err *err)
{
    struct faults faults = {.use = {*use}, .count = 1};
    bool ran;
    enum err_code rc = fit_run(&c->fitter, RERUN_PROFILE, &faults, 1, out, &ran, err);
    faults_clear(&faults);
    *left = rc == ERR_OK && ran ? fit_left(&c->fitter, out, 0) : INFINITY;
    return rc;
}

/* The least that a fault alone leaves at the guilty tap where its real key may have any value, not
 * only those that are tried: by secants, from the one that it has. */
static enum err_code free_value(struct court *c, struct fault_use use, int key, double *left,
                                struct err *err)
{
    struct rerun_taps *at = &c->fitter.taps, *next = &c->fitter.other;
    double value = use.value[key] >= 0 ? use.value[key] : 1, apart = FREE_STEP * value, here;
    use.value[key] = value;
    if (run_alone(c, &use, at, left, err) != ERR_OK) return err->code;
    for (int turn = 0; turn < FREE_TURNS && isfinite(apart) && apart != 0; turn++) {
        use.value[key] = value + apart;
        if (run_alone(c, &use, next, &here, err) != ERR_OK) return err->code;
        *left = fmin(*left, here);
        if (isinf(here)) break;
        value += apart;
        apart = fit_step(&c->fitter, next, at, -apart);
        struct rerun_taps *swap = at;
        at = next;
        next = swap;
    }
    return ERR_OK;
}

/* One number does as well: the factor of one part, or a real parameter of a fault that may have a
 * value that is not tried. Then two that come out as that value are no better a name for it. */
static enum err_code one_would_do(struct court *c, bool *does, struct err *err)
{
    double rounding = ROUNDING * c->trials[0].noise[0];
    *does = c->part.left <= rounding;
    for (int64_t i = 0; i < c->out->count && !*does; i++) {
        const struct hypothesis *h = &c->out->list[i];
        if (!(h->explains > LEAST)) break;
        for (int k = 0; k < FAULT_KEYS && h->use.row->keys[k].name && !*does; k++) {
            const struct fault_key *key = &h->use.row->keys[k];
            double left;
            if (key->fit != FIT_TRY || key->whole) continue;
            if (free_value(c, h->use, k, &left, err) != ERR_OK) return err->code;
            *does = left <= rounding;
        }
    }
    return ERR_OK;
}

/* Each of the best few beside those others that leave least with it, which are then fitted anew.
 * Two explain more by chance than one does: not looked for where one comes near, or where the error
 * is not far above rounding. */
enum err_code court_pairs(struct court *c, struct err *err)
{
    int64_t n = c->out->count;
    bool near = n > 0 && c->out->list[0].explains >= NEAR, one = false;
    if (near || !(c->fitter.clean_energy > EVIDENCE * c->fitter.clean_noise)) return ERR_OK;
    struct beside *others = calloc((size_t)n + 1, sizeof *others);
    if (!others) return err_set(err, ERR_MEMORY, "diagnose|pairs|no memory");
    for (int64_t i = 0; i < n && i < FIRST && err->code == ERR_OK; i++) {
        int64_t count = 0;
        if (!(c->out->list[i].explains > LEAST)) break;
        progress_show(NULL, "diagnosis: pairs", i, FIRST);
        for (int64_t k = i + 1; k < n && err->code == ERR_OK; k++) {
            others[count].k = k;
            (void)!left_together(c, i, k, &others[count++].left, err);
        }
        qsort(others, (size_t)count, sizeof *others, by_left);
        for (int64_t k = 0; k < count && k < SECOND && err->code == ERR_OK; k++) {
            if (others[k].left < HELPS * c->out->list[i].left)
                (void)!try_pair(c, i, others[k].k, err);
        }
    }
    free(others);
    if (err->code == ERR_OK && c->count > 0) (void)!one_would_do(c, &one, err);
    for (int64_t i = 0; one && i < c->count; i++) c->trials[i].holds = false;
    return err->code;
}
