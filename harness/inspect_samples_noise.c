/* inspect_samples_noise.c: whether what is left between the stored states and the reference is an
 * engine's rounding; see inspect_samples.h. States that storage alone explains need no look. */
#include "harness/inspect_samples.h"

#include <math.h>
#include <stdlib.h>

/* Fewer rows than these may all have flipped their experts. */
enum { ROWS_LEAST = 16 };

static bool is_noisy(const struct looked *k, int state)
{
    return k->rows > 0 && state < k->file.sample.states && k->match[state].kind == MATCH_CLEAR &&
           !k->match[state].exact;
}

/* The root mean square over all rows of |a - b| / |b|: flipped experts count. */
static double rounding(const struct truth *a, const struct truth *b, int64_t candidate)
{
    double sum = 0;
    for (int64_t r = 0; r < b->rows; r++) {
        const float *x = truth_row(a, candidate, r), *y = truth_row(b, candidate, r);
        double off = 0, all = 1e-300;
        for (int64_t j = 0; j < b->hidden; j++) {
            off += ((double)x[j] - y[j]) * ((double)x[j] - y[j]);
            all += (double)y[j] * y[j];
        }
        sum += off / all;
    }
    return sqrt(sum / (double)b->rows);
}

/* The errors of all rows that are in their place, of one state that is `candidate`. */
static int64_t own_errors(const struct samples *w, int state, int64_t candidate, double *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        if (k->rows == 0 || state >= k->file.sample.states) continue;
        const struct match *m = &k->match[state];
        for (int64_t p = 0; p < k->rows && m->candidate == candidate; p++) {
            if (m->kind == MATCH_CLEAR && m->source[p] == k->first + p) out[n++] = m->row_error[p];
        }
    }
    return n;
}

/* The bound of all comparisons without a derivation: twice the reference's own error in an engine's
 * profile. All samples together: a short one may be nothing but flipped experts. */
static void judge(struct samples *w, const struct looked *k, int state, const struct truth *rounded,
                  double *room)
{
    int64_t candidate = k->match[state].candidate, n = own_errors(w, state, candidate, room);
    double noise = rounding(rounded, &w->truth, candidate), error = match_median(room, n);
    double bound = 2 * noise + dtype_unit(k->file.sample.dtype) + MATCH_REFERENCE;
    if (n < ROWS_LEAST || error <= bound) return;
    samples_problem(
        w, "states of another model", w->set.folder,
        ins_text(w->s,
                 "state %d is nearest to entry %lld, but %.2g away from it in the middle, where "
                 "rounding like %s explains %.2g",
                 state, (long long)truth_entry(&w->truth, candidate), error, w->engine, noise),
        "name the checkpoint and quantisation that the states were extracted from");
}

static const struct looked *first_noisy(const struct samples *w, int state)
{
    for (int64_t i = 0; i < w->count; i++) {
        if (is_noisy(&w->looked[i], state)) return &w->looked[i];
    }
    return NULL;
}

enum err_code samples_check_noise(struct samples *w, const struct tokens *t, struct err *err)
{
    struct session_options o = session_defaults();
    struct truth rounded = {0};
    bool any = false;
    for (int s = 0; s < SAMPLE_STATES; s++) any = any || first_noisy(w, s);
    if (!any) return ERR_OK;
    double *room = malloc((size_t)(w->truth.rows + 1) * sizeof *room);
    if (!room) return err_set(err, ERR_MEMORY, "samples|%s|no memory", w->path);
    o.threads = w->options.threads;
    if (profile_find(w->engine, &o.profile, err) == ERR_OK &&
        truth_make(&rounded, w->loaded, t, &o, err) == ERR_OK) {
        for (int s = 0; s < SAMPLE_STATES; s++) {
            const struct looked *k = first_noisy(w, s);
            if (k) judge(w, k, s, &rounded, room);
        }
    }
    truth_free(&rounded);
    free(room);
    return err->code;
}
