/* diff_model.c: see diff_model.h. */
#include "harness/diff_model.h"

#include "core/check.h"
#include "harness/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err_code read_tokens(struct diff *d, const struct diff_request *r, struct err *err)
{
    const struct dump *s = &d->subject;
    if (r->tokens) return tokens_read(r->tokens, &d->tokens, err);
    if (s->tokens)
        return tokens_copy(s->tokens, s->token_count, s->lengths, s->sequences, &d->tokens, err);
    if (d->truth.tokens)
        return tokens_copy(d->truth.tokens, d->truth.token_count, d->truth.lengths,
                           d->truth.sequences, &d->tokens, err);
    return err_set(err, ERR_USAGE, "diff --model|%s|no tokens in the dump's metadata|--tokens T",
                   s->file.path);
}

/* Rows of the batch that the subject's rows are: its own word, else its rows in order. */
static enum err_code force_experts(struct diff *d, struct err *err)
{
    const struct dump *s = &d->subject;
    bool draft_alone = s->rows == 0 && s->draft_rows > 0;
    if (!s->batch_row && s->rows != d->tokens.count && !draft_alone)
        return err_set(err, ERR_INPUT,
                       "diff --model|%s|%lld rows whose place is unknown|%lld, as the tokens have, "
                       "or assay.rows",
                       s->file.path, (long long)s->rows, (long long)d->tokens.count);
    if (forced_read(&d->forced, d->loaded.model.config, s, s->batch_row, d->tokens.count, err) !=
        ERR_OK)
        return err->code;
    if (d->forced.count == 0)
        snprintf(d->note, sizeof d->note,
                 "the subject does not dump its experts: routing could not be made equal");
    return ERR_OK;
}

static enum err_code hold_at_subject(struct diff *d, const struct diff_request *r, struct err *err)
{
    d->anchored = r->anchor || r->diagnose;
    return d->anchored ? anchor_make(&d->anchor, &d->subject, d->tokens.count, err) : ERR_OK;
}

/* Tokens are held as experts are; states where every op runs from the subject's own inputs. */
static enum err_code open_head(struct diff *d, const struct diff_request *r, struct err *err)
{
    const struct config *c = d->loaded.model.config;
    int64_t steps = draft_hold_steps(&d->subject);
    if (!r->draft) return ERR_OK;
    if (steps == 0)
        return err_set(err, ERR_INPUT, "diff --draft|%s|no draft tap|draft.0.hidden and the like",
                       d->subject.file.path);
    if (forward_draft_open(&d->draft, r->draft, steps, &d->loaded.model, &d->tokens, err) !=
            ERR_OK ||
        draft_hold_make(&d->hold, &d->subject, &d->tokens, d->anchored, err) != ERR_OK)
        return err->code;
    const char *said = st_meta(&d->subject.file, "assay.draft_config_sha256"),
               *sha = d->draft.head.config.base.sha256;
    if (said && strcmp(said, sha) != 0)
        return err_set(err, ERR_INPUT, "diff --draft|%s|a head of config %s|%s, as the subject's",
                       r->draft, sha, said);
    d->has_head = true;
    d->draft.hold = &d->hold.hold;
    return r->diagnose ? forward_draft_around(&d->draft, c->layers, err) : ERR_OK;
}

struct session_options diff_options(const struct profile *profile, enum precision precision,
                                    int threads)
{
    struct session_options o = session_defaults();
    o.profile = *profile;
    o.precision = precision;
    if (threads > 0) o.threads = threads;
    return o;
}

static enum err_code run_reference(struct diff *d, const struct diff_request *r,
                                   const struct profile *profile, enum precision precision,
                                   struct dump *out, struct err *err)
{
    const struct session_options o = diff_options(profile, precision, r->threads);
    return replay_run(&d->loaded, &d->tokens, &o, d->forced.count ? &d->forced : NULL,
                      d->anchored ? &d->anchor : NULL, d->has_head ? &d->draft : NULL, DT_F64, out,
                      err);
}

/* How far the subject lies from a run: mean over common taps of the relative difference, each at
 * most 1. */
static enum err_code distance(const struct diff *d, const struct dump *run, double *out,
                              struct err *err)
{
    struct alignment a;
    double sum = 0;
    int64_t n = 0;
    if (align_dumps(&d->subject, run, &a, err) == ERR_OK && a.rows >= 0) {
        for (int64_t i = 0; i < a.count; i++) {
            const struct dump_tap *s = a.pairs[i].subject, *t = a.pairs[i].truth;
            if (!dtype_is_float(s->tensor->dtype) || s->cols != t->cols || s->rows != a.rows)
                continue;
            struct measure m;
            const struct view sv = {s->tensor->dtype, s->tensor->data, s->rows, s->cols};
            const struct view tv = {t->tensor->dtype, t->tensor->data, t->rows, t->cols};
            measure_views(sv, tv, a.row, &m, NULL, NULL, NULL);
            sum += m.rel_rms <= 1 ? m.rel_rms : 1;
            n++;
        }
    }
    align_free(&a);
    *out = n ? sum / (double)n : 1;
    return err->code;
}

static bool all_float32(const struct dump *d)
{
    for (int64_t i = 0; i < d->count; i++) {
        enum dtype t = d->taps[i].tensor->dtype;
        if (dtype_is_float(t) && t != DT_F32 && t != DT_F64) return false;
    }
    return true;
}

/* The nearest run becomes the profile's, the one after it its rival; others are closed. */
static void keep_nearest(struct diff *d, struct dump *run, const char *name, double far,
                         double *best, double *second)
{
    if (far < *best) {
        dump_close(&d->rival_run);
        d->rival_run = d->profile_run;
        snprintf(d->rival_name, sizeof d->rival_name, "%s", d->profile_name);
        *second = *best;
        d->profile_run = *run;
        snprintf(d->profile_name, sizeof d->profile_name, "%s", name);
        *best = far;
    } else if (far < *second) {
        dump_close(&d->rival_run);
        d->rival_run = *run;
        snprintf(d->rival_name, sizeof d->rival_name, "%s", name);
        *second = far;
    } else {
        dump_close(run);
    }
}

/* Runs every candidate and keeps the nearest. `family`: only releases of that engine; NULL: all
 * engines. */
static enum err_code choose_by_fit(struct diff *d, const struct diff_request *r, const char *family,
                                   struct err *err)
{
    double best = INFINITY, second = INFINITY;
    int tried = 0;
    for (int i = 0; profile_name(i); i++) {
        struct profile p;
        struct dump run;
        double far = INFINITY;
        if (profile_find(profile_name(i), &p, err) != ERR_OK) return err->code;
        if (family && strcmp(p.name, family) != 0 && (!p.family || strcmp(p.family, family) != 0))
            continue;
        if (run_reference(d, r, &p, PRECISION_F32, &run, err) == ERR_OK)
            (void)!distance(d, &run, &far, err);
        if (err->code != ERR_OK) {
            dump_close(&run);
            return err->code;
        }
        keep_nearest(d, &run, p.name, far, &best, &second);
        tried++;
    }
    CHECK(tried > 0);
    if (tried > 1)
        snprintf(d->profile_how, sizeof d->profile_how, "the nearest of %d, mean distance %.2g",
                 tried, best);
    return ERR_OK;
}

/* How its sums are made decides how exact a float32 tap can be; whether anybody has seen that
 * engine round so, how much a green tap says. */
static enum err_code note_profile(struct diff *d, struct err *err)
{
    struct profile p;
    if (profile_find(d->profile_name, &p, err) != ERR_OK) return err->code;
    d->judge.cut_sums = p.cut_sums;
    d->unverified = !p.verified;
    const size_t n = strlen(d->profile_how);
    if (d->unverified)
        snprintf(d->profile_how + n, sizeof d->profile_how - n, "%s%s", n ? "; " : "",
                 PROFILE_UNVERIFIED);
    return ERR_OK;
}

static enum err_code make_profile_run(struct diff *d, const struct diff_request *r, struct err *err)
{
    const char *name = r->profile ? r->profile : d->subject.profile[0] ? d->subject.profile : NULL;
    struct profile p;
    if (r->profile_run) return ERR_OK;
    snprintf(d->profile_how, sizeof d->profile_how, "%s",
             r->profile ? "as asked" : "as the subject says");
    if (!name && all_float32(&d->subject)) {
        name = "math";
        snprintf(d->profile_how, sizeof d->profile_how, "the subject's taps are float32");
    }
    if (!name) return choose_by_fit(d, r, NULL, err);
    if (profile_find(name, &p, err) != ERR_OK) return err->code;
    bool family = false;
    for (int i = 0; profile_name(i); i++) {
        struct profile other;
        if (profile_find(profile_name(i), &other, err) != ERR_OK) return err->code;
        family |= other.family && strcmp(other.family, name) == 0;
    }
    if (family) return choose_by_fit(d, r, name, err);
    snprintf(d->profile_name, sizeof d->profile_name, "%s", p.name);
    return run_reference(d, r, &p, PRECISION_F32, &d->profile_run, err);
}

/* A profile without rounding gives no error to double: float32 engines differ by their order of
 * summation, and the derived bound says by how much. */
static bool rounds_nowhere(const char *name)
{
    struct err err = ERR_INIT;
    struct profile p;
    if (profile_find(name, &p, &err) != ERR_OK) return false;
    for (int i = 0; i < RP_COUNT; i++) {
        if (p.rounds[i]) return false;
    }
    return true;
}

/* What a dump in 16 bits of an engine that rounds nowhere can hide: its ops ran from finer values
 * than those that it stored. */
static enum err_code run_spread(struct diff *d, const struct diff_request *r, struct err *err)
{
    struct profile p;
    if (!d->anchored || !anchor_rounds(&d->anchor)) return ERR_OK;
    if (profile_find(d->profile_name, &p, err) != ERR_OK) return err->code;
    d->anchor.spreads = true;
    (void)!run_reference(d, r, &p, PRECISION_F32, &d->spread_run, err);
    d->anchor.spreads = false;
    return err->code;
}

enum err_code diff_model(struct diff *d, const struct diff_request *r, struct err *err)
{
    struct profile math;
    if (loaded_open(&d->loaded, r->model, err) != ERR_OK) return err->code;
    d->has_model = true;
    if (read_tokens(d, r, err) != ERR_OK ||
        tokens_check(&d->tokens, d->loaded.model.config->vocab, err) != ERR_OK ||
        force_experts(d, err) != ERR_OK || hold_at_subject(d, r, err) != ERR_OK ||
        open_head(d, r, err) != ERR_OK || profile_find("math", &math, err) != ERR_OK ||
        run_reference(d, r, &math, PRECISION_F64, &d->math, err) != ERR_OK ||
        make_profile_run(d, r, err) != ERR_OK ||
        (!r->profile_run && note_profile(d, err) != ERR_OK))
        return err->code;
    d->base = &d->math;
    if (d->judge.kind == BOUND_USER)
        return align_dumps(&d->subject, &d->profile_run, &d->profile_rows, err);
    d->judge.kind = rounds_nowhere(d->profile_name) ? BOUND_DERIVED : BOUND_MEASURED;
    if (d->judge.kind == BOUND_MEASURED) return ERR_OK;
    return run_spread(d, r, err) == ERR_OK
               ? align_dumps(&d->subject, &d->profile_run, &d->profile_rows, err)
               : err->code;
}

void diff_check_truth(struct diff *d)
{
    struct err err = ERR_INIT;
    struct alignment a;
    int64_t first_flip = INT64_MAX;
    double worst = 0;
    const char *where = "";
    if (!d->truth.file.tensors) return;
    if (d->anchored) { /* the run at hand follows the subject, whatever the truth is */
        if (!d->note[0])
            snprintf(d->note, sizeof d->note,
                     "anchored: judged against the reference's own ops, the truth given was not "
                     "looked at");
        return;
    }
    for (int64_t i = 0; i < d->flips.count; i++)
        first_flip = d->flips.list[i].layer < first_flip ? d->flips.list[i].layer : first_flip;
    if (align_dumps(&d->truth, &d->math, &a, &err) == ERR_OK && a.rows >= 0) {
        for (int64_t i = 0; i < a.count; i++) {
            const struct dump_tap *s = a.pairs[i].subject, *t = a.pairs[i].truth;
            bool before =
                s->known && (first_flip == INT64_MAX || (s->layer >= 0 && s->layer < first_flip) ||
                             s->kind == TAP_EMBED);
            if (!before || s->cols != t->cols || !dtype_is_float(s->tensor->dtype) ||
                s->rows != a.rows)
                continue;
            struct measure m;
            const struct view sv = {s->tensor->dtype, s->tensor->data, s->rows, s->cols};
            const struct view tv = {t->tensor->dtype, t->tensor->data, t->rows, t->cols};
            measure_views(sv, tv, a.row, &m, NULL, NULL, NULL);
            if (m.rel_rms <= worst) continue;
            worst = m.rel_rms;
            where = s->name;
        }
    }
    if (!(worst <= 1e-3) && !d->note[0])
        snprintf(d->note, sizeof d->note,
                 "the truth given is not this model's own run (%s differs by %.2g): judged against "
                 "the reference's",
                 where, worst);
    align_free(&a);
}
