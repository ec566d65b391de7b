/* diagnose.c: see diagnose.h. */
#include "harness/diagnose.h"

#include "core/text.h"
#include "harness/diagnose_court.h"
#include "harness/diagnose_part.h"
#include "harness/diagnose_say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of equals the one that stands first in the registry. */
static int by_explains(const void *a, const void *b)
{
    const struct hypothesis *x = a, *y = b;
    if (x->explains != y->explains) return x->explains < y->explains ? 1 : -1;
    return x->place - y->place;
}

static bool left_out(const struct diff_request *r, const char *id)
{
    for (int i = 0; r->without && r->without[i]; i++) {
        if (text_glob(r->without[i], id)) return true;
    }
    return false;
}

static enum err_code fit_all(struct court *c, const struct diff_request *r, struct err *err)
{
    int64_t n = 0, total = 0;
    while (fault_at((int)total)) total++;
    c->out->list = calloc((size_t)total + 1, sizeof *c->out->list);
    struct span_op *host = malloc((size_t)(c->diff->guilty.span.ops + 1) * sizeof *host);
    if (!c->out->list || !host) {
        free(host);
        return err_set(err, ERR_MEMORY, "diagnose|hypotheses|no memory");
    }
    for (int i = 0; i < total && err->code == ERR_OK; i++) {
        const struct fault_row *row = fault_at(i);
        progress_show(NULL, "diagnosis: faults", i, total);
        if (row->stage != FAULT_OP || fit_hosts(c->diff, row, host) == 0 || left_out(r, row->id))
            continue;
        struct hypothesis *h = &c->out->list[n++];
        (void)!fit_fault(&c->fitter, row, NULL, h, err);
        h->place = i;
    }
    free(host);
    if (err->code != ERR_OK) return err->code;
    qsort(c->out->list, (size_t)n, sizeof *c->out->list, by_explains);
    c->out->count = n;
    return ERR_OK;
}

/* One fault at a time, in the profile that the comparison has now. */
static enum err_code convene(struct court *c, struct diff *d, const struct diff_request *r,
                             struct diagnosis *out, struct err *err)
{
    *c = (struct court){.diff = d, .out = out, .part = {.left = INFINITY}};
    out->made = true;
    snprintf(out->profile, sizeof out->profile, "%s", d->profile_name);
    out->claims = calloc(COURT_TRIALS + 2, sizeof *out->claims);
    c->trials = calloc(COURT_TRIALS + 2, sizeof *c->trials);
    if (!c->trials || !out->claims) return err_set(err, ERR_MEMORY, "diagnose|claims|no memory");
    if (fitter_open(&c->fitter, d, r->threads, err) != ERR_OK ||
        rerun_taps_make(&c->math, &c->fitter.rerun, err) != ERR_OK ||
        rerun_taps_make(&c->wide, &c->fitter.rerun, err) != ERR_OK)
        return err->code;
    if (!c->fitter.usable) return ERR_OK;
    court_learn(c);
    return fit_all(c, r, err) == ERR_OK ? court_singles(c, err) : err->code;
}

static void adjourn(struct court *c)
{
    if (c->out) c->out->runs = c->fitter.rerun.runs;
    for (int64_t i = 0; i < c->count; i++) free(c->trials[i].left);
    free(c->trials);
    rerun_taps_free(&c->math);
    rerun_taps_free(&c->wide);
    fitter_close(&c->fitter);
    *c = (struct court){0};
}

static void swap_profiles(struct diff *d)
{
    struct dump run = d->profile_run;
    char name[sizeof d->profile_name];
    memcpy(name, d->profile_name, sizeof name);
    d->profile_run = d->rival_run;
    d->rival_run = run;
    memcpy(d->profile_name, d->rival_name, sizeof name);
    memcpy(d->rival_name, name, sizeof name);
}

/* A bug can hide which of two profiles the subject rounds in. Then the true fault, run in the wrong
 * one, leaves more than the subject's other taps do, but no more than rounding. */
static bool profile_is_doubtful(const struct court *c)
{
    return c->count == 0 && c->nearly && c->diff->rival_run.file.tensors;
}

enum err_code diagnose(struct diff *d, const struct diff_request *r, struct err *err)
{
    struct court first, second = {0}, *best = &first;
    struct diagnosis other = {0};
    if (convene(&first, d, r, &d->diagnosis, err) == ERR_OK && profile_is_doubtful(&first)) {
        swap_profiles(d);
        (void)!convene(&second, d, r, &other, err);
        /* A profile that the right taps are further from explains more than it should. */
        if (second.count > 0 && second.like <= first.like)
            best = &second;
        else
            swap_profiles(d);
    }
    if (err->code == ERR_OK && best->count == 0 && best->fitter.usable && !best->fitter.ids &&
        part_fit(&best->fitter, &best->part, err) == ERR_OK)
        (void)!court_pairs(best, err);
    if (err->code == ERR_OK && best->fitter.usable) {
        court_claim(best);
        (void)!diagnose_describe(d, &best->fitter, &best->part, best->out, err);
    }
    adjourn(&first);
    adjourn(&second);
    if (best == &second) {
        swap_profiles(d);
        diagnosis_free(&d->diagnosis);
        d->diagnosis = other;
    } else {
        diagnosis_free(&other);
    }
    return err->code;
}

void diagnosis_free(struct diagnosis *g)
{
    free(g->list);
    free(g->claims);
    *g = (struct diagnosis){0};
}
