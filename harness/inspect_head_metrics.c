/* inspect_head_metrics.c: how well a head explains samples under one setting; see inspect_head.h.
 * Row p of step s is judged by the target's logits of position p + 1 + s. */
#include "harness/inspect_head.h"

#include "core/logits.h"
#include "harness/drafting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Temperatures that are tried: from 1/2 on, half an octave each, so that exp(x / t) of one is the
 * square of that of the one an octave above. */
enum { HEATS = 16 };

/* The trainer's guard against a division by zero. */
#define TRAINER_EPS 1e-5

static double heat(int i)
{
    return 0.5 * exp2(0.5 * i);
}

/* One row of one step, judged. */
struct judged {
    bool counts, right;
    double loss, bits[HEATS];
};

struct judging {
    const struct samples *w;
    const struct looked *k;
    const struct drafting_out *out;
    int64_t vocab;
    bool masked;
    int threads;
    int64_t base;          /* of this sample's rows among all */
    struct judged *judged; /* [HEAD_STEPS][rows] */
    int64_t rows;
};

/* sum[i] of exp((x - most) / heat(i)) over x [n]. */
static void heat_sums(const double *x, int64_t n, double most, double sum[HEATS])
{
    const double last = 1 / heat(HEATS - 1), other = 1 / heat(HEATS - 2);
    for (int i = 0; i < HEATS; i++) sum[i] = 0;
    for (int64_t k = 0; k < n; k++) {
        double odd = exp((x[k] - most) * last), even = exp((x[k] - most) * other);
        for (int i = HEATS - 1; i > 0; i -= 2) {
            sum[i] += odd;
            sum[i - 1] += even;
            odd *= odd;
            even *= even;
        }
    }
}

/* KL(P || Q) in nats: P of the target's logits, Q of the draft's. */
static double divergence(const float *z, const double *y, int64_t n, double y_log)
{
    double most = -INFINITY, sum = 0, kl = 0, z_log;
    for (int64_t i = 0; i < n; i++) most = z[i] > most ? z[i] : most;
    for (int64_t i = 0; i < n; i++) {
        double p = exp(z[i] - most);
        sum += p;
        kl += p * (z[i] - y[i]);
    }
    z_log = most + log(sum);
    return kl / sum - z_log + y_log;
}

static void judge_row(void *ctx, int64_t p, int worker)
{
    const struct judging *c = ctx;
    const struct drafting_out *o = c->out;
    int64_t at = p + 1 + o->step, n = c->vocab, choice = 0;
    struct judged *j = &c->judged[o->step * c->rows + c->base + p];
    (void)worker;
    if (at >= c->k->rows) return;
    const float *z = c->w->truth.logits + (c->k->first + at) * n;
    const double *y = o->logits + p * n;
    const int64_t *mask = c->k->file.sample.mask;
    double most = -INFINITY, margin, sum[HEATS];
    for (int64_t i = 0; i < n; i++) {
        choice = z[i] > z[choice] ? i : choice;
        most = y[i] > most ? y[i] : most;
    }
    j->counts = !c->masked || !mask || mask[at] == 1;
    j->right = logits_argmax(y, n, &margin) == choice;
    heat_sums(y, n, most, sum);
    /* heat(2) is 1. */
    j->loss = divergence(z, y, n, most + log(sum[2]));
    for (int i = 0; i < HEATS; i++)
        j->bits[i] = (log(sum[i]) + (most - y[choice]) / heat(i)) / log(2);
}

static enum err_code judge(void *ctx, const struct drafting_out *out, struct err *err)
{
    struct judging *c = ctx;
    const struct run run = {.threads = c->threads};
    (void)err;
    c->out = out;
    run_parallel(&run, out->rows, judge_row, c);
    return ERR_OK;
}

/* ---- sums ---- */

/* The trainer's metrics of one step: rows that count, right now and before. */
static void add_step(const struct judging *c, int64_t step, struct score *out)
{
    double rows = 0, loss = 0, before = 0, right = 0;
    for (int64_t r = 0; r < c->rows; r++) {
        const struct judged *j = &c->judged[step * c->rows + r];
        bool earlier = true;
        if (!j->counts) continue;
        for (int64_t s = 0; s < step; s++) earlier = earlier && c->judged[s * c->rows + r].right;
        rows++;
        loss += j->loss;
        before += earlier;
        right += earlier && j->right;
    }
    out->loss[step] = loss / (rows + TRAINER_EPS);
    out->full_acc[step] = right / (rows + TRAINER_EPS);
    out->cond_acc[step] = right / (before + TRAINER_EPS);
}

/* Bits of a row at a temperature: the mean over its steps; false: none counts. */
static bool row_bits(const struct judging *c, int64_t r, int i, double *bits)
{
    int n = 0;
    double sum = 0;
    for (int64_t s = 0; s < HEAD_STEPS; s++) {
        const struct judged *j = &c->judged[s * c->rows + r];
        if (!j->counts) continue;
        sum += j->bits[i];
        n++;
    }
    *bits = n ? sum / n : 0;
    return n > 0;
}

/* NaN is the worst of all. */
static void add_choices(const struct judging *c, struct score *out)
{
    out->choice_bits = INFINITY;
    for (int i = 0; i < HEATS; i++) {
        double sum = 0, bits;
        int64_t n = 0;
        for (int64_t r = 0; r < c->rows; r++) {
            if (!row_bits(c, r, i, &bits)) continue;
            sum += bits;
            n++;
        }
        if (n == 0 || !(sum / (double)n < out->choice_bits)) continue;
        out->choice_bits = sum / (double)n;
        out->temperature = heat(i);
        out->rows = 0;
        for (int64_t r = 0; r < c->rows; r++) {
            if (row_bits(c, r, i, &bits)) out->row_bits[out->rows++] = bits;
        }
    }
}

/* ---- all samples ---- */

static enum err_code draft_sample(struct judging *c, const struct head *h,
                                  const struct setting *set, struct run *run, struct err *err)
{
    const struct truth *t = &c->w->truth;
    int64_t rows = c->k->rows - 1, width = set->aux_count * t->hidden;
    double *aux = malloc((size_t)(rows * width + 1) * sizeof *aux);
    if (!aux) return err_set(err, ERR_MEMORY, "draft samples|%s|no memory", c->k->name);
    for (int64_t p = 0; p < rows; p++) {
        for (int a = 0; a < set->aux_count; a++) {
            const float *from = truth_row(t, set->aux[a], c->k->first + p);
            for (int64_t j = 0; j < t->hidden; j++) aux[p * width + a * t->hidden + j] = from[j];
        }
    }
    const struct drafting d = {
        .head = h, .run = *run, .steps = HEAD_STEPS, .give = judge, .ctx = c};
    (void)!drafting_run(&d, 0, rows, aux, c->k->file.sample.token, err);
    free(aux);
    return err->code;
}

static enum err_code draft_all(struct judging *c, const struct head *h, const struct setting *set,
                               struct err *err)
{
    struct arena arena = ARENA_INIT;
    const struct session_options o = session_defaults();
    struct run run = {.arena = &arena,
                      .profile = o.profile,
                      .precision = o.precision,
                      .act = h->config.base.dtype,
                      .threads = c->threads};
    for (int64_t i = 0; i < c->w->count && err->code == ERR_OK; i++) {
        c->k = &c->w->looked[i];
        if (c->k->rows < 2) continue;
        (void)!draft_sample(c, h, set, &run, err);
        c->base += c->k->rows - 1;
    }
    arena_release(&arena, NULL);
    return err->code;
}

enum err_code head_score(const struct head *h, const struct samples *w, const struct setting *set,
                         bool masked, int threads, struct score *out, struct err *err)
{
    struct head_variant v;
    struct judging c = {
        .w = w, .vocab = h->config.draft_vocab, .masked = masked, .threads = threads};
    *out = (struct score){0};
    for (int64_t i = 0; i < w->count; i++)
        c.rows += w->looked[i].rows > 1 ? w->looked[i].rows - 1 : 0;
    c.judged = calloc((size_t)(HEAD_STEPS * c.rows + 1), sizeof *c.judged);
    out->row_bits = malloc((size_t)(c.rows + 1) * sizeof *out->row_bits);
    if (!c.judged || !out->row_bits) {
        err_set(err, ERR_MEMORY, "draft samples|%lld rows|no memory", (long long)c.rows);
    } else {
        if (head_variant_make(&v, h, set, err) == ERR_OK &&
            draft_all(&c, &v.head, set, err) == ERR_OK) {
            for (int64_t s = 0; s < HEAD_STEPS; s++) add_step(&c, s, out);
            add_choices(&c, out);
        }
        head_variant_free(&v);
    }
    free(c.judged);
    return err->code;
}
