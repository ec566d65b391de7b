/* diff.c: see diff.h. The reference runs are in diff_model.c, the result as JSON in diff_json.c. */
#include "harness/diff.h"

#include "core/checkpoint.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "harness/amplified.h"
#include "harness/diff_model.h"
#include "harness/foreign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Taps that the subject's own order promises, or --require names, and that are not there. */
static enum err_code find_promised(struct diff *d, const struct diff_request *r, struct err *err)
{
    int64_t patterns = 0;
    while (r->require && r->require[patterns]) patterns++;
    d->promised = calloc((size_t)(d->subject.promised_count + d->base->count + patterns) + 1,
                         sizeof *d->promised);
    if (!d->promised) return err_set(err, ERR_MEMORY, "check promised taps||no memory");
    for (int64_t i = 0; i < d->subject.promised_count; i++) {
        if (!dump_find(&d->subject, d->subject.promised[i]))
            d->promised[d->promised_count++] = d->subject.promised[i];
    }
    for (int64_t p = 0; p < patterns; p++) {
        bool present = false, absent = false;
        for (int64_t i = 0; i < d->rows.count; i++)
            present |= text_glob(r->require[p], d->rows.pairs[i].subject->name);
        for (int64_t i = 0; i < d->rows.missing_count; i++) {
            if (!text_glob(r->require[p], d->rows.missing[i])) continue;
            d->promised[d->promised_count++] = d->rows.missing[i];
            absent = true;
        }
        if (!present && !absent) d->promised[d->promised_count++] = r->require[p];
    }
    return ERR_OK;
}

static void set_extent(struct diff *d)
{
    d->judge.layers = 1;
    d->judge.widest = 1;
    for (int64_t i = 0; i < d->rows.count; i++) {
        const struct dump_tap *t = d->rows.pairs[i].truth;
        if (t->cols > d->judge.widest) d->judge.widest = t->cols;
        if (t->known && !tap_is_draft(t->kind) && t->layer + 1 > d->judge.layers)
            d->judge.layers = t->layer + 1;
    }
}

/* The tap of expert ids is judged by its flips: certified ones are counted, any other is red. */
static void judge_experts(const struct diff *d, const struct pair *p, struct tap_judgement *out)
{
    int64_t all = 0, open = 0, first = -1;
    for (int64_t i = 0; i < d->flips.count; i++) {
        const struct flip *f = &d->flips.list[i];
        if (f->layer != p->subject->layer) continue;
        all++;
        if (f->certified) continue;
        if (open++ == 0) first = f->row;
    }
    out->verdict = open ? TAP_FAIL : TAP_PASS;
    out->row = first;
    snprintf(out->from, sizeof out->from,
             "exact: sets of experts, near ties certified by score errors");
    if (open)
        snprintf(out->why, sizeof out->why, "%lld rows chose other experts%s, first row %lld",
                 (long long)open, d->has_model ? " than score errors explain" : "",
                 (long long)first);
    else if (all)
        snprintf(out->why, sizeof out->why, "%lld near ties, certified", (long long)all);
    else
        out->why[0] = '\0';
}

/* Flips are sets of int32. */
static bool ids_fit(const struct dump_tap *t)
{
    for (int64_t i = 0; i < t->tensor->count; i++) {
        int64_t id = dtype_int_at(t->tensor->dtype, t->tensor->data, i);
        if (id != (int32_t)id) return false;
    }
    return true;
}

/* Sets were compared: what has no flips there was equal. Any other tap of that name is judged as a
 * plain one. */
static bool flips_saw(const struct diff *d, const struct pair *p)
{
    return p->subject->known && p->subject->kind == TAP_EXPERTS &&
           p->subject->cols == d->flips.top_k && dtype_is_int(p->subject->tensor->dtype) &&
           dtype_is_int(p->truth->tensor->dtype) && ids_fit(p->subject) && ids_fit(p->truth);
}

/* The reference has run this tap from what the subject recorded. */
static bool can_anchor(const struct diff *d, const struct dump_tap *t)
{
    return t->known && (t->kind <= TAP_LOGITS || (tap_is_draft(t->kind) && d->has_head));
}

/* A draft layer is many ops in one. */
static int64_t ops_of(const struct span *s)
{
    enum { OPS_OF_A_LAYER = 9 };
    int64_t n = 0;
    for (int64_t i = 0; i < s->ops; i++)
        n += strcmp(s->op[i].op, "eagle.layer") == 0 ? OPS_OF_A_LAYER : 1;
    return n;
}

/* Than something that it was computed from. */
static bool is_finer(const struct diff *d, const struct dump_tap *t, const struct span *s)
{
    if (!dtype_is_float(t->tensor->dtype)) return false;
    for (int64_t i = 0; i < s->froms; i++) {
        const struct dump_tap *from = dump_find(&d->subject, s->from[i].name);
        if (from && dtype_is_float(from->tensor->dtype) &&
            dtype_unit(from->tensor->dtype) > dtype_unit(t->tensor->dtype))
            return true;
    }
    return false;
}

/* Ops between what the subject recorded and each tap: what a derived bound counts. */
static enum err_code count_ops(struct diff *d, struct err *err)
{
    for (int64_t i = 0; i < d->rows.count && d->anchored; i++) {
        struct pair *p = &d->rows.pairs[i];
        struct span s;
        if (!can_anchor(d, p->truth)) continue;
        if (span_make(&s, &d->anchor, d->loaded.model.config, p->truth->kind, p->truth->layer,
                      err) == ERR_OK) {
            p->ops = ops_of(&s);
            p->finer = is_finer(d, p->subject, &s);
        }
        span_free(&s);
        if (err->code != ERR_OK) return err->code;
    }
    return ERR_OK;
}

/* Draft tokens that differ may be near ties of the logits that were judged before them. */
static enum err_code judge_draft_tokens(struct diff *d, int64_t i, struct err *err)
{
    const struct pair *p = &d->rows.pairs[i];
    const struct dump_tap *t = p->subject;
    bool ints = dtype_is_int(t->tensor->dtype) && dtype_is_int(p->truth->tensor->dtype);
    if (!t->known || t->kind != TAP_DRAFT_TOKENS || t->cols != 1 || !ints ||
        d->taps[i].measure.differing == 0)
        return ERR_OK;
    for (int64_t k = 0; k < i; k++) {
        const struct dump_tap *other = d->rows.pairs[k].subject;
        if (other->known && other->kind == TAP_DRAFT_LOGITS && other->layer == t->layer)
            return diff_draft_tokens(&d->draft_ties, p, &d->rows.pairs[k], &d->taps[k], &d->rows,
                                     &d->taps[i], err);
    }
    return ERR_OK;
}

static enum err_code find_guilty(struct diff *d, struct err *err)
{
    if (!d->anchored || d->first < 0) return ERR_OK;
    const struct pair *p = &d->rows.pairs[d->first];
    const struct dump_tap *t = p->truth;
    if (!can_anchor(d, t)) return ERR_OK;
    d->guilty =
        (struct guilty){.pair = p, .op = tap_op(t->kind, p->moe), .layer = t->layer, .rank = -1};
    return span_make(&d->guilty.span, &d->anchor, d->loaded.model.config, t->kind, t->layer, err);
}

/* A tap of another shape or type has no values to explain. */
static bool can_diagnose(const struct diff *d)
{
    const struct pair *p = d->guilty.pair;
    if (!p || p->subject->cols != p->truth->cols || p->subject->rows != align_count(&d->rows, p))
        return false;
    bool ints = p->truth->kind == TAP_EXPERTS || p->truth->kind == TAP_DRAFT_TOKENS;
    return ints ? dtype_is_int(p->subject->tensor->dtype)
                : dtype_is_float(p->subject->tensor->dtype);
}

static enum err_code judge_all(struct diff *d, struct err *err)
{
    d->first = -1;
    d->taps = calloc((size_t)d->rows.count + 1, sizeof *d->taps);
    if (!d->taps) return err_set(err, ERR_MEMORY, "judge taps||no memory");
    for (int64_t i = 0; i < d->rows.count; i++) {
        const struct pair *p = &d->rows.pairs[i];
        struct tap_judgement *t = &d->taps[i];
        if (judge_pair(&d->judge, p, t, err) != ERR_OK)
            return err_note(err, "tap %s", p->subject->name);
        if (t->measure.elements > 0 && flips_saw(d, p)) judge_experts(d, p, t);
        if (judge_draft_tokens(d, i, err) != ERR_OK) return err->code;
        if (t->verdict == TAP_UNCHECKED) continue;
        d->compared++;
        if (t->verdict != TAP_FAIL) continue;
        d->failed++;
        if (d->first < 0) d->first = i;
    }
    return ERR_OK;
}

/* Rows of a profile run are found by their place: taps of one file must have the same rows. */
static enum err_code check_profile_rows(const struct diff *d, struct err *err)
{
    const struct dump *const dumps[] = {&d->subject, d->base, &d->profile_run};
    for (int i = 0; d->profile_rows.row && i < 3; i++) {
        if (dumps[i]->rows < 0 || dumps[i]->draft_rows < 0)
            return err_set(err, ERR_INPUT,
                           "align dumps|%s|taps of different row counts|the same in all taps",
                           dumps[i]->file.path);
    }
    return ERR_OK;
}

/* The same of their draft heads. */
static enum err_code check_head(const struct dump *s, const struct dump *t, struct err *err)
{
    static const char *const keys[] = {"assay.draft_config_sha256", "assay.draft_checkpoint",
                                       "assay.aux"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *a = st_meta(&s->file, keys[i]), *b = st_meta(&t->file, keys[i]);
        bool differ = a && b && (i == 1 ? checkpoint_contradicts(a, b) : strcmp(a, b) != 0);
        if (!differ) continue;
        return err_set(err, ERR_INPUT,
                       "compare dumps|%s and %s|%s %.80s beside %.80s|one head of both",
                       s->file.path, t->file.path, keys[i], a, b);
    }
    return ERR_OK;
}

/* Two runs of different models are no comparison. What a dump does not say is not held against it.
 */
static enum err_code check_provenance(const struct dump *s, const struct dump *t, struct err *err)
{
    const bool config = s->config_sha256[0] && t->config_sha256[0] &&
                        strcmp(s->config_sha256, t->config_sha256) != 0;
    if (!config && !checkpoint_contradicts(s->checkpoint, t->checkpoint))
        return check_head(s, t, err);
    const char *what = config ? "config" : "checkpoint";
    return err_set(err, ERR_INPUT, "compare dumps|%s and %s|%s %.80s beside %.80s|one %s of both",
                   s->file.path, t->file.path, what, config ? s->config_sha256 : s->checkpoint,
                   config ? t->config_sha256 : t->checkpoint, what);
}

/* How the ranks of the subject share the model: a diagnosis asks which of them errs. */
static enum err_code find_plan(struct diff *d, const struct diff_request *r, struct err *err)
{
    if (r->plan) {
        d->plan = *r->plan;
        d->cut = shard_world(r->plan) > 1;
    } else if (shard_plan_of_dump(&d->subject, &d->plan, &d->cut, err) != ERR_OK) {
        return err->code;
    }
    return d->cut && d->has_model ? shard_plan_check(&d->plan, d->loaded.model.config, err)
                                  : ERR_OK;
}

/* What the dump's writer counted (compat/python/assay_taps.py): a tap that came twice in a forward
 * pass is not the one that is compared. One that is missing is promised, and counted as that. */
static enum err_code check_counts(const struct dump *s, struct err *err)
{
    const char *text = st_meta(&s->file, "assay.counts"), *name;
    json_t *counts = NULL, *n;
    if (!text) return ERR_OK;
    if (json_parse(text, (int64_t)strlen(text), s->file.path, &counts, err) != ERR_OK)
        return err->code;
    json_object_foreach(counts, name, n)
    {
        if (json_integer_value(n) > 1)
            err_set(err, ERR_DIFF, "count taps|%s: %s|%lld in one forward pass|one", s->file.path,
                    name, (long long)json_integer_value(n));
    }
    json_decref(counts);
    return err->code;
}

static enum err_code open_truth(struct diff *d, const struct diff_request *r, struct err *err)
{
    struct foreign_options o = r->foreign;
    o.map = NULL;
    o.has_step &= file_is_folder(r->truth);
    return foreign_open(&d->truth, r->truth, &o, err);
}

static bool has_spread(const struct diff *d)
{
    return d->spread_run.file.tensors != NULL;
}

static enum err_code prepare(struct diff *d, const struct diff_request *r, struct err *err)
{
    if (foreign_open(&d->subject, r->subject, &r->foreign, err) != ERR_OK ||
        check_counts(&d->subject, err) != ERR_OK || (r->truth && open_truth(d, r, err) != ERR_OK))
        return err->code;
    if (r->profile_run && foreign_open(&d->profile_run, r->profile_run, NULL, err) != ERR_OK)
        return err->code;
    if ((r->truth && check_provenance(&d->subject, &d->truth, err) != ERR_OK) ||
        (r->profile_run && check_provenance(&d->subject, &d->profile_run, err) != ERR_OK))
        return err->code;
    d->base = &d->truth;
    d->judge.kind = !isnan(r->bound) ? BOUND_USER : r->profile_run ? BOUND_MEASURED : BOUND_DERIVED;
    d->judge.user = r->bound;
    snprintf(d->profile_name, sizeof d->profile_name, "%s", r->profile ? r->profile : "given");
    if ((r->model && diff_model(d, r, err) != ERR_OK) || find_plan(d, r, err) != ERR_OK)
        return err->code;
    return align_dumps(&d->subject, d->base, &d->rows, err);
}

enum err_code diff_run(struct diff *d, const struct diff_request *r, struct err *err)
{
    *d = (struct diff){.first = -1};
    if ((r->anchor || r->diagnose) && (!r->model || r->profile_run))
        return err_set(
            err, ERR_USAGE, "arguments|diff|%s %s|%s", r->diagnose ? "--diagnose" : "--anchor",
            r->model ? "with --profile-run" : "without --model",
            r->model ? "--profile NAME: the run is made anchored" : "--model MODEL with it");
    if (prepare(d, r, err) != ERR_OK) return err->code;
    set_extent(d);
    d->judge.rows = &d->rows;
    if (d->judge.kind == BOUND_MEASURED) {
        if (align_dumps(&d->subject, &d->profile_run, &d->profile_rows, err) != ERR_OK)
            return err->code;
        d->judge.profile = &d->profile_run;
    } else if (has_spread(d)) {
        d->judge.profile = &d->spread_run;
    }
    d->judge.profile_row = d->profile_rows.row;
    d->judge.profile_draft_row = d->profile_rows.draft_row;
    d->judge.profile_name = d->profile_name;
    if (check_profile_rows(d, err) != ERR_OK) return err->code;
    if (d->has_model && d->profile_rows.row) {
        if (flips_find(&d->loaded.model, &d->subject, &d->math, d->rows.row,
                       has_spread(d) ? &d->spread_run : &d->profile_run, d->profile_rows.row,
                       &d->flips, err) != ERR_OK)
            return err->code;
    } else if (flips_compare(&d->subject, d->base, d->rows.rows >= 0 ? d->rows.row : NULL,
                             &d->flips, err) != ERR_OK) {
        return err->code;
    }
    if (count_ops(d, err) != ERR_OK || judge_all(d, err) != ERR_OK ||
        amplified_excuse(d, r, err) != ERR_OK || find_promised(d, r, err) != ERR_OK ||
        find_guilty(d, err) != ERR_OK ||
        (r->diagnose && can_diagnose(d) && diagnose(d, r, err) != ERR_OK))
        return err->code;
    if (d->has_model) diff_check_truth(d);
    return d->compared == 0 || d->failed > 0 || d->promised_count > 0 ? ERR_DIFF : ERR_OK;
}

void diff_close(struct diff *d)
{
    forward_draft_close(&d->draft);
    draft_hold_free(&d->hold);
    free(d->taps);
    free(d->promised);
    diagnosis_free(&d->diagnosis);
    span_free(&d->guilty.span);
    anchor_free(&d->anchor);
    flips_free(&d->flips);
    draft_ties_free(&d->draft_ties);
    align_free(&d->rows);
    align_free(&d->profile_rows);
    forced_free(&d->forced);
    tokens_free(&d->tokens);
    dump_close(&d->math);
    dump_close(&d->profile_run);
    dump_close(&d->rival_run);
    dump_close(&d->spread_run);
    dump_close(&d->truth);
    dump_close(&d->subject);
    loaded_close(&d->loaded);
    *d = (struct diff){0};
}
