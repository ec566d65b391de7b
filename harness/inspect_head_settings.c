/* inspect_head_settings.c: what the trials say of a head, as problems, notes and a ranking; see
 * inspect_head.h. */
#include "harness/inspect_head.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *ids_text(struct trials *t, const struct setting *s)
{
    char text[128] = "";
    size_t used = 0;
    for (int i = 0; i < s->aux_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? ", " : "",
                                 (long long)s->aux[i]);
    return ins_text(t->s, "[%s]", text);
}

/* "as given", or what differs from it. */
static const char *setting_text(struct trials *t, const struct setting *s)
{
    const struct setting own = setting_of(t->head);
    char text[256] = "";
    size_t used = 0;
    const struct {
        bool differs;
        const char *text;
    } parts[] = {
        {s->normed != own.normed,
         s->normed ? "norm_before_residual true" : "norm_before_residual false"},
        {s->fed != own.fed, s->fed ? "norm_output true" : "norm_output false"},
        {s->swapped != own.swapped, "[hidden | embedding]"},
        {s->skip != own.skip && s->skip >= 0,
         ins_text(t->s, "no fc, entry %lld", (long long)s->aux[s->skip < 0 ? 0 : s->skip])},
        {s->skip < 0 && memcmp(s->aux, own.aux, sizeof s->aux) != 0,
         ins_text(t->s, "aux %s", ids_text(t, s))},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts && used < sizeof text; i++) {
        if (parts[i].differs)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     parts[i].text);
    }
    return ins_text(t->s, "%s", used ? text : "as given");
}

/* ---- the ranking ---- */

static int by_bits(const void *a, const void *b)
{
    double x = ((const struct trial *)a)->score.choice_bits;
    double y = ((const struct trial *)b)->score.choice_bits;
    return (x > y) - (x < y);
}

static json_t *numbers(const double *x, double by)
{
    json_t *a = json_array();
    for (int i = 0; i < HEAD_STEPS; i++) json_array_append_new(a, json_real(x[i] * by));
    return a;
}

static json_t *aux_json(const struct setting *s)
{
    json_t *a = json_array();
    for (int i = 0; i < s->aux_count; i++) json_array_append_new(a, json_integer(s->aux[i]));
    return a;
}

/* KL may be infinite, for which JSON has no word: such a list is left out as null. */
static json_t *finite_numbers(const double *x, double by)
{
    for (int i = 0; i < HEAD_STEPS; i++) {
        if (!isfinite(x[i])) return json_null();
    }
    return numbers(x, by);
}

static void add_setting(struct trials *t, const struct trial *n, const struct trial *best)
{
    const struct setting *s = &n->setting;
    double sure = trial_sure(n, best);
    json_t *o = json_pack(
        "{s:o, s:o, s:b, s:b, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:f, s:o, s:o}", "setting",
        ins_json(setting_text(t, s)), "aux", aux_json(s), "norm_before_residual", s->normed,
        "norm_output", s->fed, "concat", s->swapped ? "hidden|embedding" : "embedding|hidden", "fc",
        s->skip < 0 ? json_true() : json_false(), "rows", (json_int_t)n->score.rows, "loss",
        finite_numbers(n->score.loss, 1), "bits", finite_numbers(n->score.loss, 1 / log(2)),
        "full_acc", numbers(n->score.full_acc, 1), "cond_acc", numbers(n->score.cond_acc, 1),
        "temperature", n->score.temperature, "choice_bits",
        isfinite(n->score.choice_bits) ? json_real(n->score.choice_bits) : json_null(), "worse_by",
        isfinite(sure) ? json_real(sure) : json_null());
    if (!o || json_array_append_new(t->settings, o) != 0) t->s->broken = true;
}

/* ---- findings ---- */

static void problem(struct trials *t, const char *what, const char *cause, const char *remedy)
{
    ins_problem(
        t->s, (struct ins_problem){
                  .what = what, .where = t->head->weights.path, .found = cause, .remedy = remedy});
}

static void note(struct trials *t, const char *text)
{
    if (json_array_append_new(t->notes, ins_json(text)) != 0) t->s->broken = true;
}

/* "7.1 bits a choice, 5.2 as given" with one difference taken back. */
static const char *gain_text(struct trials *t, const struct setting *best,
                             const struct setting *back, struct err *err)
{
    double mine = NAN, given = NAN;
    const struct trial *n = trial_of(t, best, err);
    if (n) mine = n->score.choice_bits;
    n = trial_of(t, back, err);
    if (n) given = n->score.choice_bits;
    return ins_text(t->s, "%.3f bits a choice against %.3f", mine, given);
}

/* Other states that explain as much, all else equal: " or [1, 3, 6]". */
static const char *alike_text(struct trials *t, const struct setting *best, struct err *err)
{
    char text[256] = "";
    size_t used = 0;
    for (int64_t i = 0; i < t->count && used < sizeof text; i++) {
        struct setting s = t->list[i].setting;
        if (setting_same(&s, best)) continue;
        memcpy(s.aux, best->aux, sizeof s.aux);
        if (!setting_same(&s, best)) continue;
        const struct trial *b = trial_of(t, best, err);
        if (!b || trial_sure(&t->list[i], b) > HEAD_SURE) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, " or %s",
                                 ids_text(t, &t->list[i].setting));
    }
    return ins_text(t->s, "%s", text);
}

static bool ascending(const struct setting *s)
{
    for (int i = 1; i < s->aux_count; i++) {
        if (s->aux[i] <= s->aux[i - 1]) return false;
    }
    return true;
}

/* The difference that all ids share; 0: none. */
static int64_t all_off(const struct setting *a, const struct setting *b)
{
    for (int i = 1; i < a->aux_count; i++) {
        if (a->aux[i] - b->aux[i] != a->aux[0] - b->aux[0]) return 0;
    }
    return a->aux[0] - b->aux[0];
}

static void report_aux(struct trials *t, const struct setting *best, const struct setting *own,
                       struct err *err)
{
    struct setting back = *best;
    memcpy(back.aux, own->aux, sizeof back.aux);
    const char *alike = alike_text(t, best, err), *gain = gain_text(t, best, &back, err);
    int64_t off = all_off(best, own);
    const char *cause =
        ins_text(t->s, "fc was trained on entries %s%s, %s is %s: %s", ids_text(t, best), alike,
                 ids_text(t, own), t->head->config.aux_given ? "given" : "assumed", gain);
    if (!ascending(best)) {
        problem(t, "aux states swapped", cause,
                "reorder fc's column blocks by ascending layer: engines serve low, middle, high");
        return;
    }
    problem(t, "aux layers", cause,
            ins_text(t->s, "serve with eagle_aux_hidden_state_layer_ids = %s%s", ids_text(t, best),
                     off == 1    ? " (the ids given are those of outputs)"
                     : off == -1 ? " (one was added to ids that were entries already)"
                                 : ""));
}

/* What differs in the best setting from the head's own, each where taking it back costs. */
static void report_differences(struct trials *t, const struct setting *best, struct err *err)
{
    const struct setting own = setting_of(t->head);
    struct setting back = *best;
    if (best->normed != own.normed) {
        back.normed = own.normed;
        problem(t, "norm_before_residual",
                ins_text(t->s, "%s explains the data better than %s (%s): %s",
                         best->normed ? "true" : "false", own.normed ? "true" : "false",
                         t->head->config.residual_assumed[0] ? "assumed" : "given",
                         gain_text(t, best, &back, err)),
                ins_text(t->s, "set norm_before_residual to %s in config.json",
                         best->normed ? "true" : "false"));
    }
    back = *best;
    if (best->fed != own.fed) {
        back.fed = own.fed;
        problem(
            t, "norm_output",
            ins_text(t->s, "feeding back the %s state explains the later steps better: %s",
                     best->fed ? "normed" : "un-normed", gain_text(t, best, &back, err)),
            ins_text(t->s, "set norm_output to %s in config.json", best->fed ? "true" : "false"));
    }
    back = *best;
    if (best->swapped != own.swapped) {
        back.swapped = own.swapped;
        problem(t, "concat order swapped",
                ins_text(t->s, "the layer was trained on [hidden | embedding]: %s",
                         gain_text(t, best, &back, err)),
                "exchange the column halves of the q, k and v projections: engines put the "
                "embedding first");
    }
    back = *best;
    if (best->skip >= 0) {
        back.skip = -1;
        problem(t, "fc skipped",
                ins_text(t->s,
                         "entry %lld as it is, without fc, explains the data better than with "
                         "fc: %s",
                         (long long)best->aux[best->skip], gain_text(t, best, &back, err)),
                "train with fc (EAGLE3, not EAGLE), or look for the fc that the layer was trained "
                "with");
    } else if (!setting_same(best, &own) && memcmp(best->aux, own.aux, sizeof own.aux) != 0) {
        report_aux(t, best, &own, err);
    }
}

/* Bits that the target needs for the next token of a row, over the draft's ids; false: no id of it.
 */
static bool text_bits(const struct trials *t, const struct looked *k, int64_t row, double *bits)
{
    const struct truth *truth = &t->samples->truth;
    int64_t n = t->head->config.draft_vocab, token = k->file.sample.token[row + 1], at = -1;
    for (int64_t i = 0; i < n && at < 0; i++) {
        if (t->head->target_id[i] == token) at = i;
    }
    if (at < 0) return false;
    const float *z = truth->logits + (k->first + row) * n;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, (double)z[i]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)z[i] - most);
    *bits = (log(sum) + most - (double)z[at]) / log(2);
    return true;
}

/* The samples' text is of the kind that the target writes: it needs surely fewer bits for it than
 * one who knows nothing. On any other text a head cannot be asked to draft. */
static bool text_is_the_targets(const struct trials *t)
{
    double chance = log2((double)t->head->config.draft_vocab), n = 0, sum = 0, squares = 0;
    for (int64_t i = 0; i < t->samples->count; i++) {
        const struct looked *k = &t->samples->looked[i];
        for (int64_t row = 0; row + 1 < k->rows; row++) {
            double bits;
            if (!text_bits(t, k, row, &bits)) continue;
            n++;
            sum += bits;
            squares += bits * bits;
        }
    }
    if (n < 2) return false;
    double mean = sum / n, error = sqrt(fmax(squares / n - mean * mean, 0) / n);
    return chance - mean > HEAD_SURE * error;
}

/* A head that explains nothing under any wiring. What the best of K settings with one fitted
 * number saves by chance, in nats over all rows, passes log(20 K) once in twenty times; a head that
 * drafts at all saves a nat a row. */
static void judge_at_all(struct trials *t, const struct trial *best)
{
    double chance = log2((double)t->head->config.draft_vocab), rows = (double)best->score.rows;
    double saved = (chance - best->score.choice_bits) * log(2) * rows;
    double luck = log(20 * (double)t->count);
    if (rows < 3 * luck)
        note(t, ins_text(t->s, "%.0f rows are too few to tell how the head is wired", rows));
    else if (!(saved > luck) && !text_is_the_targets(t))
        note(t, "the samples' text is not what this target writes, nor does the head explain it: "
                "nothing can be told of the head from them");
    else if (!(saved > luck))
        problem(t, "the head explains nothing",
                ins_text(t->s,
                         "%.3f bits a choice at best, where knowing nothing takes %.3f, whatever "
                         "the wiring",
                         best->score.choice_bits, chance),
                "look for weights that were never trained or never loaded (fc, lm_head), or for "
                "another target");
}

/* Ones that differ from the head's own and cannot be told from it. */
static void note_ties(struct trials *t, const struct setting *best, struct err *err)
{
    int n = 0;
    char text[300] = "";
    size_t used = 0;
    const struct trial *b = trial_of(t, best, err);
    for (int64_t i = 0; b && i < t->count; i++) {
        const struct trial *o = &t->list[i];
        if (setting_same(&o->setting, best) || trial_sure(o, b) > HEAD_SURE) continue;
        if (n++ < 3 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", n > 1 ? "; " : "",
                                     setting_text(t, &o->setting));
    }
    if (n > 0)
        note(t, ins_text(t->s, "%d other settings explain these %lld rows as well: %s%s", n,
                         (long long)b->score.rows, text, n > 3 ? "; .." : ""));
}

enum err_code head_report_settings(struct trials *t, const struct setting *best, struct err *err)
{
    report_differences(t, best, err);
    note_ties(t, best, err);
    const struct trial *b = trial_of(t, best, err);
    if (!b) return err->code;
    if (b->score.rows == 0) {
        note(t, "no row of the samples counts: their masks are 0");
        return ERR_OK;
    }
    judge_at_all(t, b);
    const struct setting own = setting_of(t->head);
    if (t->count > 1) qsort(t->list, (size_t)t->count, sizeof *t->list, by_bits);
    for (int64_t i = 0; i < t->count; i++) {
        b = trial_of(t, best, err);
        if (b) add_setting(t, &t->list[i], b);
    }
    const struct trial *given = trial_of(t, &own, err);
    if (given)
        note(t, ins_text(t->s, "as given: %.3f bits a choice at temperature %.3g, %lld rows",
                         given->score.choice_bits, given->score.temperature,
                         (long long)given->score.rows));
    return err->code;
}
