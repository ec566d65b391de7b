/* diagnose_evidence.c: see diagnose_evidence.h. */
#include "harness/diagnose_evidence.h"

#include "core/check.h"

#include <math.h>
#include <string.h>

#define CELL 16.0   /* bits of a value of bf16 */
#define ENOUGH 64.0 /* more than any claim is charged */
#define AGREE 0.25  /* of the error, and of the value: what a prediction may be off by */
enum { CODES = 1 << 16 };

/* Bits that the prediction t says of a cell where the subject has s and the reference c. One that
 * is far off in proportion, a tiny value for a zero, is no prediction of that cell. */
static double cell_bits(double s, double t, double c, double unit)
{
    double off = fabs(s - t), wrong = isfinite(c) ? fabs(s - c) : INFINITY,
           most = fmax(fabs(s), fabs(t));
    if (!isfinite(s)) {
        bool as_predicted = isnan(s) ? isnan(t) : s == t, as_clean = isnan(s) ? isnan(c) : s == c;
        return as_predicted && !as_clean ? CELL : 0;
    }
    if (!(wrong > 2 * unit * fmax(fabs(s), fabs(c)))) return 0;
    if (off == 0) return CELL;
    return off <= AGREE * fmin(wrong, most) ? fmin(log2(most / off), CELL) : 0;
}

/* log2 of the ways to take k of n. */
static double ways(int64_t n, int64_t k)
{
    double bits = 0;
    for (int64_t i = 0; i < k && k <= n; i++) bits += log2((double)(n - i) / (double)(i + 1));
    return bits;
}

/* Which ids go and which come in the rows that choose otherwise, and which rows those are. What is
 * no id at all is a value like any other. */
static double choice_bits(const struct fitter *f)
{
    const struct dump_tap *s = f->subject, *t = &f->taps.dump.taps[0], *c = &f->clean.dump.taps[0];
    int64_t rows = 0, otherwise = 0;
    double bits = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        if (f->row_of[r] < 0) continue;
        rows++;
        int64_t come = fit_ids_missing(s, r, c, f->row_of[r]), none = 0;
        if (come == 0 || fit_ids_missing(s, r, t, f->row_of[r]) > 0) continue;
        for (int64_t j = 0; j < s->cols; j++) {
            int64_t id = dtype_int_at(s->tensor->dtype, s->tensor->data, r * s->cols + j);
            none += id < 0 || id >= f->choices;
        }
        otherwise++;
        bits += ways(s->cols, come) + ways(f->choices - s->cols, come - none) + CELL * (double)none;
    }
    return bits + ways(rows, otherwise);
}

double evidence_bits(const struct fitter *f, double unit)
{
    const struct dump_tap *s = f->subject, *t = &f->taps.dump.taps[0], *c = &f->clean.dump.taps[0];
    unsigned char seen[CODES / 8];
    double bits = 0;
    if (f->ids) return choice_bits(f);
    CHECK(s->cols == t->cols && s->cols == c->cols);
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < s->rows * s->cols && bits < ENOUGH; i++) {
        int64_t row = f->row_of[i / s->cols], at = row * s->cols + i % s->cols;
        double own;
        if (row < 0) continue;
        dtype_to_f64(s->tensor->dtype,
                     (const char *)s->tensor->data + i * dtype_size(s->tensor->dtype), 1, &own);
        double says = cell_bits(own, ((const double *)t->tensor->data)[at],
                                ((const double *)c->tensor->data)[at], unit);
        uint16_t code = bf16_from_f32((float)own);
        if (says > 0 && !(seen[code / 8] >> code % 8 & 1)) bits += says;
        if (says > 0) seen[code / 8] |= (unsigned char)(1 << code % 8);
    }
    return bits < ENOUGH ? bits : INFINITY;
}

static double charge_of(const struct fault_use *u, bool beside, bool ids)
{
    double bits = 0;
    for (int k = 0; k < FAULT_KEYS && u->row->keys[k].name; k++) {
        const struct fault_key *key = &u->row->keys[k];
        int tries = 0;
        while (key->fit == FIT_TRY && key->tries && !isnan(key->tries[tries])) tries++;
        while (key->fit == FIT_WORD && key->words[tries]) tries++;
        if (tries > 0) bits += log2(1 + tries);
        if (key->fit == FIT_LINEAR && u->value[k] != key->dflt) bits += CELL;
        bool chosen = beside || (ids && strcmp(key->name, "row") == 0);
        if (key->fit == FIT_SITE && chosen && u->value[k] != key->dflt) bits += log2(FIT_PLACES);
    }
    return bits;
}

double evidence_charge(const struct claim *claim, int64_t hypotheses, bool ids)
{
    double one = log2((double)(hypotheses > 0 ? hypotheses : 1));
    bool two = claim->second >= 0;
    return one + charge_of(&claim->use[0], two, ids) +
           (two ? one + charge_of(&claim->use[1], true, ids) : 0);
}
