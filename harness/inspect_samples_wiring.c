/* inspect_samples_wiring.c: which layers the stored states are, over all samples, and samples that
 * are unlike the others; see inspect_samples.h. */
#include "harness/inspect_samples.h"

#include <math.h>
#include <stdlib.h>

/* One place of the list of states, over all samples. */
struct place {
    int64_t candidate; /* of most samples; -1: none is clear */
    int64_t votes, of;
    const struct match *m; /* the first sample's that agrees */
};

/* ---- votes ---- */

static struct place vote(const struct samples *w, int state)
{
    struct place best = {.candidate = -1};
    int64_t all = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        if (k->rows == 0 || state >= k->file.sample.states) continue;
        all++;
        if (k->match[state].kind != MATCH_CLEAR) continue;
        struct place p = {k->match[state].candidate, 0, 0, &k->match[state]};
        for (int64_t j = 0; j < w->count; j++) {
            const struct looked *o = &w->looked[j];
            p.votes += o->rows > 0 && state < o->file.sample.states &&
                       o->match[state].kind == MATCH_CLEAR &&
                       o->match[state].candidate == p.candidate;
        }
        if (p.votes > best.votes) best = p;
    }
    best.of = all;
    return best;
}

static double all_errors(const struct samples *w, int state, double *room)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        if (k->rows > 0 && state < k->file.sample.states && k->match[state].kind != MATCH_NONE)
            room[n++] = k->match[state].error;
    }
    return match_median(room, n);
}

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *candidate_json(const struct samples *w, int64_t c)
{
    return c < 0 ? json_null()
                 : json_pack("{s:I, s:s}", "entry", (json_int_t)truth_entry(&w->truth, c), "norm",
                             truth_normed(&w->truth, c) ? "final" : "none");
}

static void add_found(struct samples *w, int state, const struct place *p, double *room)
{
    int64_t e = p->candidate < 0 ? -1 : truth_entry(&w->truth, p->candidate);
    json_t *o = json_pack(
        "{s:i, s:o, s:o, s:o, s:I, s:I}", "stored", state, "entry",
        e < 0 ? json_null() : json_integer(e), "norm",
        e < 0 ? json_null() : json_string(truth_normed(&w->truth, p->candidate) ? "final" : "none"),
        "error", real_or_null(all_errors(w, state, room)), "samples", (json_int_t)p->votes, "of",
        (json_int_t)p->of);
    if (p->m) {
        json_t *next = candidate_json(w, p->m->next);
        if (json_is_object(next)) {
            json_object_set_new(next, "error", real_or_null(p->m->next_error));
            json_object_set_new(next, "margin", real_or_null(p->m->margin));
        }
        json_object_set_new(o, "next_best", next);
        json_object_set_new(o, "scale", json_real(p->m->scale));
    }
    if (!o || json_array_append_new(w->found, o) != 0) w->s->broken = true;
}

/* ---- one sample against all ---- */

/* Two that fit alike: a finding only where neither is what the files claim. */
static void report_unclear(struct samples *w, const struct looked *k, int state)
{
    const struct match *m = &k->match[state];
    int64_t rival = m->rival < 0 ? m->next : m->rival;
    int64_t a = truth_entry(&w->truth, m->candidate), b = truth_entry(&w->truth, rival);
    struct samples_claim c;
    const char *text =
        ins_text(w->s,
                 "state %d may be entry %lld, %s (error %.3g), or entry %lld, %s: the rows do not "
                 "tell them apart",
                 state, (long long)a, samples_norm_text(truth_normed(&w->truth, m->candidate)),
                 m->error, (long long)b, samples_norm_text(truth_normed(&w->truth, rival)));
    if (samples_claim(w, &c) && state < c.count && c.entry[state] != a && c.entry[state] != b)
        samples_problem(
            w, "aux layers", k->name, text,
            ins_text(w->s, "%s says entry %lld: extract again", c.from, (long long)c.entry[state]));
    else
        samples_note(w, ins_text(w->s, "%s: %s", k->name, text));
}

static void report_unknown(struct samples *w, const struct looked *k, int state)
{
    const struct match *m = &k->match[state];
    int64_t e = m->candidate >= 0 ? truth_entry(&w->truth, m->candidate) : -1;
    if (m->kind == MATCH_ROTATED)
        samples_problem(
            w, "rotated states", k->name,
            ins_text(w->s,
                     "state %d has the scalar products of entry %lld (error %.2g), but not its "
                     "columns: the states are rotated or permuted",
                     state, (long long)e, m->error),
            "undo the rotation before storing: a quantiser (QuaRot) turns the residual stream, and "
            "heads expect it unturned");
    else if (m->kind == MATCH_NONE)
        samples_problem(
            w, "unknown states", k->name,
            ins_text(w->s,
                     "state %d is no entry of this model for these tokens or the other samples' "
                     "(nearest: entry %lld, error %.2g)",
                     state, (long long)e, m->error),
            "name the model and the samples' own tokens, or extract again");
    else if (m->kind == MATCH_UNCLEAR)
        report_unclear(w, k, state);
}

static void report_scale(struct samples *w, const struct looked *k, int state)
{
    const struct match *m = &k->match[state];
    double routed = w->loaded->model.config->routed_scale, off = m->scale * routed - 1;
    bool known = routed != 1 && fabs(off) < 0.01;
    samples_problem(w, "scaled states", k->name,
                    ins_text(w->s, "state %d is entry %lld times %.4g%s", state,
                             (long long)truth_entry(&w->truth, m->candidate), m->scale,
                             known ? ", which is 1 / routed_scaling_factor (float16 in vLLM)" : ""),
                    ins_text(w->s, "%s multiply the states by %.4g",
                             known ? "serve in bfloat16 when extracting, or" : "", 1 / m->scale));
}

static void report_states(struct samples *w, const struct place *places)
{
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        for (int s = 0; k->rows > 0 && s < k->file.sample.states; s++) {
            const struct match *m = &k->match[s];
            if (m->kind != MATCH_CLEAR) {
                report_unknown(w, k, s);
                continue;
            }
            if (m->scale != 1) report_scale(w, k, s);
            if (s >= w->states || m->candidate == places[s].candidate) continue;
            samples_problem(
                w, "another layer than in the other samples", k->name,
                ins_text(w->s, "state %d is entry %lld, %s; entry %lld, %s, in most samples", s,
                         (long long)truth_entry(&w->truth, m->candidate),
                         samples_norm_text(truth_normed(&w->truth, m->candidate)),
                         (long long)truth_entry(&w->truth, places[s].candidate),
                         samples_norm_text(truth_normed(&w->truth, places[s].candidate))),
                "extract this sample again like the others");
        }
    }
}

/* ---- all ---- */

void samples_report_wiring(struct samples *w)
{
    struct place place[SAMPLE_STATES];
    int64_t entry[SAMPLE_STATES];
    bool all = w->truth.rows > 0, normed = false;
    double *room = malloc((size_t)(w->count + 1) * sizeof *room);
    if (!room) w->s->broken = true;
    if (!all || !room) {
        free(room);
        return;
    }
    for (int s = 0; s < w->states; s++) {
        place[s] = vote(w, s);
        all = all && place[s].candidate >= 0;
        entry[s] = place[s].candidate >= 0 ? truth_entry(&w->truth, place[s].candidate) : -1;
        add_found(w, s, &place[s], room);
    }
    free(room);
    report_states(w, place);
    for (int64_t i = 0; i < w->count; i++)
        normed = normed || (w->looked[i].rows > 0 && w->looked[i].file.sample.last_normed);
    if (!all) return;
    samples_check_order(w, entry, (int)w->states);
    struct place *last = &place[w->states - 1];
    for (int s = 0; s < w->states; s++) {
        if (entry[w->states - 1] == truth_entry(&w->truth, place[s].candidate)) last = &place[s];
    }
    samples_check_last(w, last->candidate, normed);
    samples_check_claim(w, entry, (int)w->states - 1);
}
