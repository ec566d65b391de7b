/* diagnose_fit.c: see diagnose_fit.h. */
#include "harness/diagnose_fit.h"

#include "core/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BEYOND 2.0 /* times the profile's own error: a row that differs by more than rounding */
enum { LEAVES = 300, INERT = 3 };

/* ---- squared errors ---- */

static struct view view_of(const struct dump_tap *t)
{
    return (struct view){t->tensor->dtype, t->tensor->data, t->rows, t->cols};
}

static const struct dump_tap *subject_tap(const struct fitter *f, const char *name)
{
    return dump_find(&f->diff->subject, name);
}

int64_t fit_ids_missing(const struct dump_tap *s, int64_t r, const struct dump_tap *t, int64_t at)
{
    const int32_t *own = (const int32_t *)t->tensor->data + at * t->cols;
    int64_t missing = 0;
    for (int64_t j = 0; j < s->cols; j++) {
        int64_t id = dtype_int_at(s->tensor->dtype, s->tensor->data, r * s->cols + j);
        bool has = false;
        for (int64_t k = 0; k < t->cols; k++) has |= own[k] == id;
        missing += !has;
    }
    return missing;
}

static double ids_left(const struct fitter *f, const struct dump_tap *s, const struct dump_tap *t)
{
    double differ = 0;
    for (int64_t r = 0; r < s->rows; r++)
        differ += f->row_of[r] >= 0 && fit_ids_missing(s, r, t, f->row_of[r]) > 0;
    return differ;
}

double fit_left(const struct fitter *f, const struct rerun_taps *taps, int64_t i)
{
    const struct dump_tap *t = &taps->dump.taps[i], *s = subject_tap(f, t->name);
    struct measure m;
    if (f->rerun.taps[i].ints) return ids_left(f, s, t);
    measure_views(view_of(s), view_of(t), f->row_of, &m, NULL, NULL, NULL);
    return m.special_mismatch ? INFINITY : m.rms_diff * m.rms_diff * (double)m.elements;
}

double fit_between(const struct fitter *f, const struct rerun_taps *a, const struct rerun_taps *b,
                   int64_t i)
{
    const struct dump_tap *x = &a->dump.taps[i], *y = &b->dump.taps[i];
    struct measure m;
    double differ = 0;
    if (f->rerun.taps[i].ints) {
        const int32_t *p = x->tensor->data, *q = y->tensor->data;
        for (int64_t r = 0; r < x->rows; r++)
            differ += memcmp(p + r * x->cols, q + r * x->cols, (size_t)x->cols * sizeof *p) != 0;
        return differ;
    }
    measure_views(view_of(x), view_of(y), NULL, &m, NULL, NULL, NULL);
    return m.special_mismatch ? INFINITY : m.rms_diff * m.rms_diff * (double)m.elements;
}

/* ---- running ---- */

enum err_code fit_run(struct fitter *f, enum rerun_side side, struct faults *faults, int64_t count,
                      struct rerun_taps *out, bool *ran, struct err *err)
{
    struct rerun_how how = {.side = side, .faults = faults, .taps = count};
    struct err e = ERR_INIT;
    *ran = false;
    if (faults && f->diff->cut) faults->plan = &f->diff->plan;
    for (int i = 0; faults && i < faults->count; i++) {
        if (faults->use[i].row->watch) how.entry = RERUN_LEAD;
    }
    bool ids = false;
    for (int64_t i = 0; i < count; i++) ids |= f->rerun.taps[i].ints;
    /* First the router's own choice; then, under the subject's, everything else. */
    how.free_routing = true;
    if (ids && rerun_go(&f->rerun, how, out, &e) != ERR_OK) goto done;
    int64_t bytes = 0;
    int32_t *own = NULL;
    for (int64_t i = 0; ids && i < count; i++) {
        if (f->rerun.taps[i].ints) bytes = out->tensors[i].count * (int64_t)sizeof *own;
    }
    if (ids) {
        own = malloc((size_t)bytes + 1);
        if (!own) return err_set(err, ERR_MEMORY, "run again|expert ids|no memory");
        memcpy(own, out->ids, (size_t)bytes);
    }
    how.free_routing = false;
    if (!f->ids || count > 1) (void)!rerun_go(&f->rerun, how, out, &e);
    if (ids) memcpy(out->ids, own, (size_t)bytes);
    free(own);
done:
    if (e.code == ERR_MEMORY) {
        *err = e;
        return err->code;
    }
    *ran = e.code == ERR_OK;
    return ERR_OK;
}

/* ---- where the error lies ---- */

/* Rows of the subject whose difference is more than rounding, as rows of the batch: the first of
 * them, and the worst. */
static enum err_code find_rows(struct fitter *f, struct err *err)
{
    const struct dump_tap *s = f->subject, *c = &f->clean.dump.taps[0],
                          *m = &f->clean_math.dump.taps[0];
    const int64_t *row = f->row_of;
    int64_t T = c->rows, worst = -1;
    double *all = calloc((size_t)(s->rows + T) + 1, sizeof *all), *noise = all + s->rows, most = 0;
    struct measure m_all;
    if (!all) return err_set(err, ERR_MEMORY, "diagnose|rows|no memory");
    if (f->ids) {
        for (int64_t r = 0; r < s->rows; r++)
            all[r] = row[r] >= 0 && fit_ids_missing(s, r, c, row[r]) > 0;
    } else {
        measure_views(view_of(s), view_of(c), row, &m_all, NULL, all, NULL);
        f->col = m_all.special_mismatch ? m_all.first_mismatch.col : m_all.worst.col;
        measure_views(view_of(c), view_of(m), NULL, &m_all, NULL, noise, NULL);
    }
    for (int64_t r = 0; r < s->rows; r++) {
        if (row[r] < 0 || all[r] <= BEYOND * noise[row[r]]) continue;
        int64_t at = f->rerun.batch_row ? f->rerun.batch_row[row[r]] : row[r];
        if (f->bad_rows < FIT_PLACES - 2) f->row[f->bad_rows] = at;
        f->bad_rows++;
        if (worst >= 0 && !(all[r] > most)) continue;
        worst = at;
        most = all[r];
    }
    free(all);
    int64_t kept = f->bad_rows < FIT_PLACES - 2 ? f->bad_rows : FIT_PLACES - 2;
    /* Where most rows are wrong, no single one explains it but the first, which the others see. */
    f->many = 2 * f->bad_rows > f->rerun.rows.count;
    for (int64_t i = kept; i < FIT_PLACES; i++) f->row[i] = -1;
    f->row[FIT_PLACES - 2] = worst;
    if (kept > 0 && f->row[0] > 0) f->row[FIT_PLACES - 1] = f->row[0] - 1;
    return ERR_OK;
}

/* Experts that every bad row chose. */
static void find_experts(struct fitter *f)
{
    const struct config *c = f->diff->loaded.model.config;
    const struct forced *forced = &f->diff->forced;
    int64_t layer = f->diff->guilty.layer;
    if (f->draft || layer < 0 || !config_is_moe(c, layer) || forced->count == 0) return;
    const int32_t *ids = forced->ids + layer * forced->rows * forced->top_k;
    for (int64_t e = 0; e < c->experts && f->experts < FIT_PLACES; e++) {
        bool all = f->bad_rows > 0;
        for (int64_t i = 0; all && i < FIT_PLACES - 1; i++) {
            bool has = f->row[i] < 0;
            for (int64_t k = 0; k < forced->top_k && !has; k++)
                has = ids[f->row[i] * forced->top_k + k] == e;
            all = has;
        }
        if (all) f->expert[f->experts++] = e;
    }
}

/* ---- one fault ---- */

struct search {
    struct fitter *f;
    const struct fault_use *with;
    struct fault_use use;
    const char *op;
    struct hypothesis *best;
    bool same;  /* the last run gave the bits of the clean one */
    int leaves; /* combinations tried */
    bool acts;  /* some run of them did not */
};

/* Runs under the fault as it stands in s->use. */
static enum err_code try_values(struct search *s, struct rerun_taps *out, double *left,
                                struct err *err)
{
    struct faults faults = {0};
    bool ran;
    if (s->with) faults.use[faults.count++] = *s->with;
    faults.use[faults.count++] = s->use;
    enum err_code rc = fit_run(s->f, RERUN_PROFILE, &faults, 1, out, &ran, err);
    faults_clear(&faults);
    *left = rc == ERR_OK && ran ? fit_left(s->f, out, 0) : INFINITY;
    s->same = rc == ERR_OK && ran && fit_between(s->f, out, &s->f->clean, 0) == 0;
    return rc;
}

static void keep(struct search *s, double left)
{
    struct hypothesis *b = s->best;
    s->acts |= !s->same;
    if (left == b->left && b->alsos < DIAGNOSE_ALSO) b->also[b->alsos++] = s->use;
    if (left >= b->left) return; /* what was tried first is simpler */
    b->left = left;
    b->use = s->use;
    b->alsos = 0;
}

/* A fitted value is uncertain in its last places; fewer are kept where they leave no more. */
static enum err_code round_value(struct search *s, int k, struct err *err)
{
    double fitted = s->best->use.value[k], left;
    for (double unit = 1; unit <= 1e4; unit *= 10) {
        s->use.value[k] = round(fitted * unit) / unit;
        if (s->use.value[k] == fitted) return ERR_OK;
        if (try_values(s, &s->f->other, &left, err) != ERR_OK) return err->code;
        if (left > s->best->left) continue;
        s->best->left = left;
        s->best->use = s->use;
        return ERR_OK;
    }
    return ERR_OK;
}

double fit_step(const struct fitter *f, const struct rerun_taps *a, const struct rerun_taps *b,
                double apart)
{
    const struct dump_tap *s = f->subject;
    const double *at = a->data, *next = b->data;
    double dd = 0, sd = 0;
    for (int64_t i = 0; i < s->rows * s->cols; i++) {
        int64_t row = f->row_of[i / s->cols], k = row * s->cols + i % s->cols;
        double subject;
        if (row < 0) continue;
        double d = (next[k] - at[k]) / apart;
        const char *cell = (const char *)s->tensor->data + i * dtype_size(s->tensor->dtype);
        dtype_to_f64(s->tensor->dtype, cell, 1, &subject);
        dd += d * d;
        sd += (subject - at[k]) * d;
    }
    return dd > 0 ? sd / dd : INFINITY;
}

/* The value that least squares gives where the output is affine in key k: from runs at two values.
 * Repeated once from the value found, for outputs that are nearly so. */
static enum err_code fit_linear(struct search *s, int k, struct err *err)
{
    struct fitter *f = s->f;
    double at = s->use.row->keys[k].dflt, next, left;
    if (at < 0) { /* stands for a value that is not given */
        if (try_values(s, &f->taps, &left, err) != ERR_OK) return err->code;
        keep(s, left);
        at = 1;
    }
    s->use.value[k] = at;
    next = at == 0 ? 1 : 2 * at;
    if (try_values(s, &f->taps, &left, err) != ERR_OK) return err->code;
    keep(s, left);
    for (int turn = 0; turn < 2; turn++) {
        s->use.value[k] = next;
        if (try_values(s, &f->other, &left, err) != ERR_OK) return err->code;
        keep(s, left);
        double step = fit_step(f, &f->taps, &f->other, next - at);
        if (!isfinite(step)) return ERR_OK;
        double value = at + step;
        if (s->use.row->keys[k].whole) value = round(value);
        if (value == at || value == next) return ERR_OK;
        next = value;
    }
    s->use.value[k] = next;
    if (try_values(s, &f->other, &left, err) != ERR_OK) return err->code;
    keep(s, left);
    return round_value(s, k, err);
}

/* Every combination of the values of the keys that stand in `order` from `at` on. */
static enum err_code descend(struct search *s, const int *order, int keys, int at, struct err *err)
{
    double list[FIT_VALUES], left;
    if (at == keys) {
        /* A fault that changes nothing three times has nothing to edit here; of ranks, at three
         * places of each: a row's experts may lie on the last of them. */
        int inert = INERT * (s->f->diff->cut ? shard_world(&s->f->diff->plan) : 1);
        if (s->leaves >= LEAVES || (s->leaves == inert && !s->acts)) return ERR_OK;
        s->leaves++;
        for (int k = 0; k < FAULT_KEYS && s->use.row->keys[k].name; k++) {
            if (s->use.row->keys[k].fit != FIT_LINEAR || s->f->ids) continue;
            double held = s->use.value[k];
            (void)!fit_linear(s, k, err);
            s->use.value[k] = held;
            return err->code;
        }
        if (try_values(s, &s->f->taps, &left, err) == ERR_OK) keep(s, left);
        return err->code;
    }
    double held = s->use.value[order[at]];
    int n = fit_values(s->f, &s->use, s->op, order[at], list);
    for (int i = 0; i < n && err->code == ERR_OK; i++) {
        s->use.value[order[at]] = list[i];
        (void)!descend(s, order, keys, at + 1, err);
        /* A part has nothing to edit where the whole has not. */
        if (i == 0 && s->same && s->use.row->keys[order[at]].fit == FIT_WORD) break;
    }
    s->use.value[order[at]] = held;
    return err->code;
}

/* All fits at one op of the span. */
static enum err_code fit_at(struct search *s, const struct span_op *op, struct err *err)
{
    int order[FAULT_KEYS], keys = 0, last = -1;
    const struct fault_row *row = s->use.row;
    double before = s->best->left;
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name; k++) {
        s->use.value[k] = row->keys[k].dflt;
        bool step = strcmp(row->keys[k].name, "draft_step") == 0;
        if (step || strcmp(row->keys[k].name, "layer") == 0)
            s->use.value[k] = step == s->f->draft ? (double)op->layer : -1;
        else if (row->keys[k].fit == FIT_OP)
            s->use.value[k] = (double)(op_find(op->op) - op_rows);
        else if (strcmp(row->keys[k].name, "rank") == 0)
            last = k; /* how many there are is a key too */
        else if (row->keys[k].fit != FIT_LINEAR)
            order[keys++] = k;
    }
    if (last >= 0) order[keys++] = last;
    s->leaves = 0;
    s->acts = false;
    s->op = op->op;
    if (descend(s, order, keys, 0, err) == ERR_OK && s->best->left < before) {
        s->best->op = op->op;
        s->best->layer = op->layer;
    }
    return err->code;
}

int64_t fit_hosts(const struct diff *d, const struct fault_row *row, struct span_op *op)
{
    const struct span *span = &d->guilty.span;
    int64_t n = 0;
    bool sum = row->added && d->guilty.pair->truth->kind == TAP_MLP && d->guilty.pair->moe;
    for (int64_t i = 0; i < span->ops; i++) {
        if (fault_hosted_by(row, span->op[i].op)) op[n++] = span->op[i];
    }
    if (n == 0 && sum && fault_hosted_by(row, "moe.shared"))
        op[n++] = (struct span_op){"moe.shared", d->guilty.layer};
    return n;
}

enum err_code fit_fault(struct fitter *f, const struct fault_row *row, const struct fault_use *with,
                        struct hypothesis *out, struct err *err)
{
    struct span_op *host = malloc((size_t)(f->diff->guilty.span.ops + 1) * sizeof *host);
    if (!host) return err_set(err, ERR_MEMORY, "diagnose|hosts|no memory");
    int64_t hosts = fit_hosts(f->diff, row, host);
    struct search s = {.f = f, .with = with, .use = {.row = row}, .best = out};
    bool names_op = false, first = true;
    for (int k = 0; k < FAULT_KEYS && row->keys[k].name; k++)
        names_op |= row->keys[k].fit == FIT_OP;
    *out = (struct hypothesis){.use = {.row = row}, .layer = -1, .left = INFINITY};
    for (int k = 0; k < FAULT_KEYS; k++) out->use.value[k] = row->keys[k].dflt;
    for (int64_t i = 0; i < hosts && err->code == ERR_OK; i++) {
        const struct span_op *op = &host[i];
        bool again = false; /* its keys do not tell this op from an earlier one of its layer */
        for (int64_t j = 0; j < i; j++) {
            const struct span_op *o = &host[j];
            again |= o->layer == op->layer && (!names_op || strcmp(o->op, op->op) == 0);
        }
        if (again) continue;
        if (first) {
            out->op = op->op;
            out->layer = op->layer;
        }
        first = false;
        (void)!fit_at(&s, op, err);
    }
    free(host);
    if (!(f->clean_energy > 0) || isinf(out->left))
        out->explains = isinf(f->clean_energy) || !(f->clean_energy > 0) ? 0 : -1;
    else
        out->explains = isinf(f->clean_energy) ? 1 : 1 - out->left / f->clean_energy;
    return err->code;
}

/* ---- opening ---- */

enum err_code fitter_open(struct fitter *f, const struct diff *d, int threads, struct err *err)
{
    bool ran[2] = {false, false};
    const struct pair *p = d->guilty.pair;
    *f = (struct fitter){.diff = d, .subject = p->subject, .row_of = align_map(&d->rows, p)};
    f->draft = tap_is_draft(p->truth->kind);
    f->ids = p->truth->kind == TAP_EXPERTS || p->truth->kind == TAP_DRAFT_TOKENS;
    f->choices = f->draft ? d->loaded.model.config->vocab : d->loaded.model.config->experts;
    if (rerun_open(&f->rerun, d, threads, err) != ERR_OK) return err->code;
    struct rerun_taps *const all[] = {&f->clean, &f->clean_math, &f->taps, &f->other};
    for (int i = 0; i < 4; i++) {
        if (rerun_taps_make(all[i], &f->rerun, err) != ERR_OK) return err->code;
    }
    int64_t n = f->rerun.count;
    if (fit_run(f, RERUN_PROFILE, NULL, n, &f->clean, &ran[0], err) != ERR_OK ||
        fit_run(f, RERUN_MATH, NULL, n, &f->clean_math, &ran[1], err) != ERR_OK)
        return err->code;
    f->usable = ran[0] && ran[1];
    if (!f->usable) return ERR_OK; /* the router's own choice can fail on what the subject holds */
    f->clean_energy = fit_left(f, &f->clean, 0);
    f->clean_noise = fit_between(f, &f->clean, &f->clean_math, 0);
    if (find_rows(f, err) != ERR_OK) return err->code;
    find_experts(f);
    return ERR_OK;
}

void fitter_close(struct fitter *f)
{
    rerun_taps_free(&f->clean);
    rerun_taps_free(&f->clean_math);
    rerun_taps_free(&f->taps);
    rerun_taps_free(&f->other);
    rerun_close(&f->rerun);
}
