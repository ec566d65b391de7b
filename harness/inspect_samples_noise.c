/* inspect_samples_noise.c: whether what is left between the stored states and the reference is an
 * engine's rounding; see inspect_samples.h. States that storage alone explains need no look. */
#include "harness/inspect_samples.h"

#include <math.h>
#include <stdlib.h>

/* Fewer rows than these may all have flipped their experts. */
enum { ROWS_LEAST = 16 };

/* Rows whose experts flipped are far off in a right engine too, and no two engines flip the same
 * ones: the nearest quarter of the stored rows is held against the middle of the reference's. */
#define NEAREST 0.25
/* One engine rounds all samples alike: times the error of the samples that are nearest. */
#define UNLIKE 4.0

static bool is_noisy(const struct looked *k, int state)
{
    return k->rows > 0 && state < k->file.sample.states && k->match[state].kind == MATCH_CLEAR &&
           !k->match[state].exact;
}

/* The middle over all rows of |a - b| / |b|; the largest of them into *most. */
static double rounding(const struct truth *a, const struct truth *b, int64_t candidate,
                       double *room, double *most)
{
    *most = 0;
    for (int64_t r = 0; r < b->rows; r++) {
        const float *x = truth_row(a, candidate, r), *y = truth_row(b, candidate, r);
        double off = 0, all = 1e-300;
        for (int64_t j = 0; j < b->hidden; j++) {
            off += ((double)x[j] - y[j]) * ((double)x[j] - y[j]);
            all += (double)y[j] * y[j];
        }
        room[r] = sqrt(off / all);
        *most = fmax(*most, room[r]);
    }
    return match_median(room, b->rows);
}

/* The errors of the rows of one sample that are in their place, where its state is `candidate`. */
static int64_t own_errors(const struct looked *k, int state, int64_t candidate, double *out)
{
    int64_t n = 0;
    if (k->rows == 0 || state >= k->file.sample.states) return 0;
    const struct match *m = &k->match[state];
    for (int64_t p = 0; p < k->rows && m->candidate == candidate && m->kind == MATCH_CLEAR; p++) {
        if (m->source[p] == k->first + p) out[n++] = m->row_error[p];
    }
    return n;
}

/* One state of one candidate, held against rounding. */
struct verdict {
    int state;
    int64_t candidate;
    double noise, bound, storage;
    double *room;  /* [rows of the truth] */
    double *error; /* [samples] */
};

/* The nearest quarter's error of n rows in v->room; too few: NaN, which is beyond nothing. */
static double error_of(const struct verdict *v, int64_t n)
{
    return n < ROWS_LEAST ? NAN : match_quantile(v->room, n, NEAREST);
}

static void say(struct samples *w, const struct verdict *v, const char *what, const char *where,
                double error, const char *instead, const char *remedy)
{
    samples_problem(
        w, what, where,
        ins_text(w->s,
                 "state %d is nearest to entry %lld, but three quarters of the rows are "
                 "%.2g away from it or more, %s",
                 v->state, (long long)truth_entry(&w->truth, v->candidate), error, instead),
        remedy);
}

static bool say_all(struct samples *w, const struct verdict *v)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++)
        n += own_errors(&w->looked[i], v->state, v->candidate, v->room + n);
    double error = error_of(v, n);
    if (!(error > v->bound)) return false;
    say(w, v, "states of another model", w->set.folder, error,
        ins_text(w->s, "where rounding like %s explains %.2g", w->engine, v->noise),
        "name the checkpoint and quantisation that the states were extracted from");
    return true;
}

/* Samples that are off where others are exact: one engine made them all. Where none is exact, a
 * sample whose first rows flipped their experts is as far off as a noisy one. */
static void say_each(struct samples *w, const struct verdict *v)
{
    int64_t known = 0;
    for (int64_t i = 0; i < w->count; i++) {
        int64_t n = own_errors(&w->looked[i], v->state, v->candidate, v->room);
        v->error[i] = error_of(v, n);
    }
    for (int64_t i = 0; i < w->count; i++) {
        if (!isnan(v->error[i])) v->room[known++] = v->error[i];
    }
    double nearest = known > 0 ? match_quantile(v->room, known, NEAREST) : INFINITY;
    double bound = nearest <= v->storage ? UNLIKE * nearest + v->storage : INFINITY;
    for (int64_t i = 0; i < w->count; i++) {
        if (v->error[i] > bound)
            say(w, v, "noisy states", w->looked[i].name, v->error[i],
                ins_text(w->s, "where other samples are %.2g", nearest),
                "extract the sample again, without a trainer's noise");
    }
}

/* The bound of all comparisons without a derivation: twice the reference's own error in an engine's
 * profile, for all samples together; where they hold, each beside the others. `room`: [rows +
 * samples]. */
static void judge(struct samples *w, const struct looked *k, int state, const struct truth *rounded,
                  double *room)
{
    struct verdict v = {.state = state,
                        .candidate = k->match[state].candidate,
                        .storage = dtype_unit(k->file.sample.dtype) + MATCH_REFERENCE,
                        .room = room,
                        .error = room + w->truth.rows};
    double most;
    v.noise = rounding(rounded, &w->truth, v.candidate, room, &most);
    for (int64_t i = 0; i < w->count; i++) {
        struct match *m = &w->looked[i].match[state];
        if (is_noisy(&w->looked[i], state) && m->candidate == v.candidate) m->flips = most;
    }
    v.bound = 2 * v.noise + v.storage;
    if (!say_all(w, &v)) say_each(w, &v);
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
    double *room = malloc((size_t)(w->truth.rows + w->count + 1) * sizeof *room);
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
