/* attend.c: see attend.h. */
#include "ref/attend.h"

#include "ref/kernel.h"

#include <math.h>
#include <string.h>

int64_t attend_pad(int64_t n)
{
    return (n + 31) / 32 * 32;
}

struct row_span *attend_spans(const struct rows *rows, struct arena *arena, int64_t *count,
                              struct err *err)
{
    struct row_span *spans =
        arena_alloc(arena, rows->count, sizeof *spans, "attention contexts", err);
    *count = 0;
    for (int64_t i = 0; spans && i < rows->count; i++) {
        struct row_span *s = *count ? &spans[*count - 1] : NULL;
        if (!s || s->sequence != rows->sequence[i]) {
            s = &spans[(*count)++];
            *s = (struct row_span){.sequence = rows->sequence[i], .first = i};
        }
        s->count++;
        if (rows_context(rows, i) > s->tokens) s->tokens = rows_context(rows, i);
    }
    return spans;
}

void attend_store(struct cache *cache, int64_t layer, const struct rows *rows, const double *a,
                  int64_t a_width, const double *b, int64_t b_width)
{
    for (int64_t i = 0; i < rows->count; i++) {
        double *entry = cache_write(cache, layer, rows->sequence[i], rows_slot(rows, i));
        memcpy(entry, a + i * a_width, (size_t)a_width * sizeof *entry);
        memcpy(entry + a_width, b + i * b_width, (size_t)b_width * sizeof *entry);
    }
}

/* score -> weights over n tokens; returns what the mixed value must be divided by. */
static double softmax(const struct run *run, double scale, int64_t n, double *score)
{
    double max = -INFINITY, sum = 0;
    if (run->profile.rounds[RP_SCORE]) run_round(run, RP_SCORE, score, n);
    for (int64_t s = 0; s < n; s++) score[s] *= scale;
    if (run->profile.rounds[RP_SCORE_SCALED]) run_round(run, RP_SCORE_SCALED, score, n);
    for (int64_t s = 0; s < n; s++) {
        if (!(score[s] <= max)) max = score[s]; /* a NaN score becomes the maximum and shows */
    }
    for (int64_t s = 0; s < n; s++) {
        score[s] = exp(score[s] - max);
        sum += score[s];
    }
    if (!run->profile.rounds[RP_PROB]) return sum;
    if (!run->profile.prob_before_sum) {
        for (int64_t s = 0; s < n; s++) score[s] /= sum;
        sum = 1;
    }
    run_round(run, RP_PROB, score, n);
    return sum;
}

/* The next step of the sum that kernel.h's mix() leaves in y. */
static void add_scaled(int64_t n, double weight, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = fma(weight, x[i], y[i]);
}

void attend_row(const struct run *run, const struct attend *a, const struct rows *rows, int64_t i,
                const double *query, double *mixed)
{
    const struct kernel *k = kernel_best();
    const int64_t *extra;
    int64_t span = rows_span(rows, i), extras = rows_extras(rows, i, &extra),
            ldv = attend_pad(a->W);
    k->mix(a->K, attend_pad(rows_context(rows, i)), query, a->keys, a->ld, a->score);
    for (int64_t e = 0; e < extras; e++) a->score[span + e] = a->score[extra[e]];
    double sum = softmax(run, a->scale, span + extras, a->score);
    k->mix(span, ldv, a->score, a->values, ldv, mixed);
    for (int64_t e = 0; e < extras; e++)
        add_scaled(a->W, a->score[span + e], a->values + extra[e] * ldv, mixed);
    for (int64_t v = 0; v < a->W; v++) mixed[v] /= sum;
}
