/* campaign_base.c: what a case gives without a fault, and how large an effect is beside it; see
 * campaign_parts.h. */
#include "core/check.h"
#include "harness/campaign_parts.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *campaign_path(const struct campaign *c, const char *name, char *buf)
{
    snprintf(buf, FILE_PATH, "%.900s/%ld-%s", c->folder, (long)getpid(), name);
    return buf;
}

enum err_code campaign_diff(const struct campaign *c, const struct job *j, const char *subject,
                            bool diagnose, const char *const *without, struct diff *d,
                            struct err *err)
{
    const struct diff_request r = {.subject = subject,
                                   .model = c->cases[j->on].model,
                                   .draft = j->draft ? c->cases[j->on].head : NULL,
                                   .bound = c->options->bound,
                                   .threads = 1,
                                   .anchor = true,
                                   .diagnose = diagnose,
                                   .without = without};
    return diff_run(d, &r, err);
}

struct subject_how campaign_how(const struct campaign *c, const struct job *j)
{
    return (struct subject_how){.profile = j->profile,
                                .order = j->order,
                                .threads = 1,
                                .head = j->draft ? c->cases[j->on].head : NULL,
                                .engine = c->options->engine};
}

static void base_free(struct base *b)
{
    subject_free(&b->subject);
    if (b->made) diff_close(&b->diff);
    *b = (struct base){0};
}

void campaign_bases_free(struct campaign *c)
{
    for (int i = 0; i < BASES; i++) base_free(&c->bases[i]);
}

static enum err_code make(const struct campaign *c, const struct job *j, struct base *b,
                          struct err *err)
{
    char path[FILE_PATH];
    *b = (struct base){.on = j->on, .profile = j->profile, .order = j->order, .draft = j->draft};
    if (subject_run(&b->subject, &c->loaded[j->on], &c->cases[j->on].tokens, campaign_how(c, j),
                    NULL, err) != ERR_OK ||
        subject_write(&b->subject, &c->cases[j->on].tokens, j->profile,
                      campaign_path(c, "clean.safetensors", path), err) != ERR_OK)
        return err->code;
    b->made = true;
    b->verdict = campaign_diff(c, j, path, false, NULL, &b->diff, err);
    unlink(path);
    return b->verdict == ERR_DIFF ? ERR_OK : err->code;
}

struct base *campaign_base(struct campaign *c, const struct job *j, struct err *err)
{
    for (int i = 0; i < BASES; i++) {
        struct base *b = &c->bases[i];
        if (b->made && b->on == j->on && b->order == j->order && b->draft == j->draft &&
            !strcmp(b->profile, j->profile))
            return b;
    }
    struct base *b = &c->bases[c->next_base];
    c->next_base = (c->next_base + 1) % BASES;
    base_free(b);
    if (make(c, j, b, err) == ERR_OK) return b;
    base_free(b);
    return NULL;
}

/* ---- effects ---- */

/* Rows that the effect and the profile's own error are looked at in. */
struct rows_of {
    double *effect, *noise, *truth; /* RMS of each row */
    struct measure effect_all, noise_all;
};

static struct view view_of(const struct dump_tap *t)
{
    return (struct view){t->tensor->dtype, t->tensor->data, t->rows, t->cols};
}

static double over(double effect, double noise, double truth)
{
    double least = dtype_unit(DT_BF16) * truth, bound = fmax(2 * noise, 2 * least);
    return effect > 0 ? effect / fmax(bound, DBL_MIN) : 0;
}

/* Of a tap of reals. Rows of 64 columns or more each on their own; narrower ones against the
 * pooled error, widened for their number. */
static double real_effect(const struct base *b, const struct subject *faulted, int64_t i)
{
    const char *name = faulted->taps[i].name;
    const struct dump_tap *profile = dump_find(&b->diff.profile_run, name),
                          *math = dump_find(&b->diff.math, name);
    int64_t n = subject_tap_rows(faulted, i), cols = faulted->taps[i].cols;
    struct rows_of r;
    double most = 0;
    if (!profile || !math || !faulted->given[i]) return 0;
    const struct view f = {DT_BF16, faulted->data[i], n, cols},
                      c = {DT_BF16, b->subject.data[i], n, cols};
    double *all = calloc((size_t)n * 3, sizeof *all);
    CHECK(all);
    r.effect = all;
    r.noise = all + n;
    r.truth = all + 2 * n;
    measure_views(f, c, NULL, &r.effect_all, NULL, r.effect, r.truth);
    measure_views(view_of(profile), view_of(math), NULL, &r.noise_all, NULL, r.noise, NULL);
    most = over(r.effect_all.rms_diff, r.noise_all.rms_diff, r.effect_all.rms_truth);
    double wide = cols >= 64 ? 1 : judge_chi(cols, 1e-9);
    for (int64_t k = 0; k < n; k++) {
        double own = cols >= 64 ? fmax(r.noise[k], r.noise_all.rel_rms * r.truth[k])
                                : r.noise_all.rms_diff * wide;
        most = fmax(most, over(r.effect[k], own, r.truth[k]));
    }
    free(all);
    return r.effect_all.special_mismatch > 0 ? INFINITY : most;
}

/* Rows that chose other experts: their gap over the errors of the scores, which are at most a
 * quarter of the logits'. */
static double id_effect(const struct base *b, int64_t layer, const struct flips *flips)
{
    char name[TAP_NAME];
    struct measure m;
    double most = 0;
    tap_format(TAP_ROUTER_LOGITS, layer, name);
    const struct dump_tap *profile = dump_find(&b->diff.profile_run, name),
                          *math = dump_find(&b->diff.math, name);
    if (!flips || !profile || !math) return 0;
    measure_views(view_of(profile), view_of(math), NULL, &m, NULL, NULL, NULL);
    for (int64_t i = 0; i < flips->count; i++) {
        const struct flip *f = &flips->list[i];
        if (f->layer != layer) continue;
        most = fmax(most, isnan(f->gap) ? INFINITY : f->gap / (3 * 0.25 * m.max_abs + 1e-12));
    }
    return most;
}

double campaign_effect(const struct base *b, const struct loaded *l, const struct subject *faulted,
                       int64_t first, const struct flips *flips)
{
    const struct tap *at = &faulted->taps[first];
    bool moe = at->layer >= 0 && config_is_moe(l->model.config, at->layer), same_ids = true;
    const char *op = tap_op(at->kind, moe);
    double most = 0;
    for (int64_t i = first; i < faulted->count; i++) {
        const struct tap *t = &faulted->taps[i];
        if (t->layer != at->layer || strcmp(tap_op(t->kind, moe), op) != 0) continue;
        bool same = memcmp(faulted->data[i], b->subject.data[i],
                           (size_t)subject_tap_bytes(faulted, i)) == 0;
        /* Draft tokens of equal logits: no error of a number explains them. */
        bool chosen = tap_is_draft(t->kind);
        if (t->ints && chosen && i == first) most = INFINITY;
        if (t->ints && !chosen && !same) most = fmax(most, id_effect(b, t->layer, flips));
        /* Weights of other experts are no error of the weights. */
        if (!t->ints && !same && same_ids) most = fmax(most, real_effect(b, faulted, i));
        if (t->ints) same_ids = same;
    }
    return most;
}
