/* diff_json.c: the recorded result of a comparison; every renderer works from it. Fields: cli's
 * table. */
#include "harness/diff.h"

#include "core/json.h"
#include "harness/error_map.h"
#include "harness/spread.h"

#include <math.h>
#include <string.h>

/* JSON has no NaN and no infinity: they go out as text. */
static json_t *number(double x)
{
    if (isfinite(x)) return json_real(x);
    return json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

static json_t *names(const char *const *list, int64_t n)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(a, json_string(list[i]));
    return a;
}

static json_t *ids(const int32_t *list, int64_t n)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(a, json_integer(list[i]));
    return a;
}

static json_t *cell(const struct cell *c)
{
    if (c->row < 0) return json_null();
    return json_pack("{s:I, s:I, s:o, s:o}", "row", (json_int_t)c->row, "col", (json_int_t)c->col,
                     "subject", number(c->subject), "truth", number(c->truth));
}

static const char *verdict(enum tap_verdict v)
{
    return v == TAP_PASS ? "pass" : v == TAP_FAIL ? "fail" : "unchecked";
}

static const char *op_of(const struct pair *p)
{
    return p->subject->known ? tap_op(p->subject->kind, p->moe) : "unknown";
}

static json_t *lines(const struct spread_line *list, int n, const char *what)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_pack("{s:I, s:o, s:o}", what, (json_int_t)list[i].at, "rms",
                                           number(list[i].rms), "rel", number(list[i].rel)));
    return a;
}

/* Tokens and channels of a tap that fails: those of a green one say nothing, and cost a reading. */
static enum err_code add_spread(const struct diff *d, const struct pair *p,
                                const struct tap_judgement *t, json_t *tap, struct err *err)
{
    struct spread s;
    bool compared = t->verdict == TAP_FAIL && t->measure.elements > 0 &&
                    dtype_is_float(p->subject->tensor->dtype);
    if (!compared) return ERR_OK;
    if (spread_find(p, align_map(&d->rows, p), &s, err) != ERR_OK) return err->code;
    json_object_set_new(tap, "rows_spread",
                        json_pack("{s:o, s:o}", "worst", lines(s.row, s.rows, "row"), "median_rms",
                                  number(s.row_median)));
    json_object_set_new(tap, "cols_spread",
                        json_pack("{s:o, s:o}", "worst", lines(s.col, s.cols, "col"), "median_rms",
                                  number(s.col_median)));
    return ERR_OK;
}

static json_t *tap_object(const struct pair *p, const struct tap_judgement *t)
{
    const struct measure *m = &t->measure;
    json_t *row = t->row < 0 ? json_null()
                             : json_pack("{s:I, s:o, s:o}", "row", (json_int_t)t->row, "rel",
                                         number(t->row_rel), "bound", number(t->row_bound));
    json_t *tap = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:s}",
        "name", p->subject->name, "verdict", verdict(t->verdict), "op", op_of(p), "rel_rms",
        number(m->rel_rms), "max_abs", number(m->max_abs), "bound", number(t->bound), "bound_from",
        t->from, "worst", cell(&m->worst), "worst_row", row, "rows", (json_int_t)m->rows,
        "rows_failed", (json_int_t)t->rows_failed, "cosine", number(m->cosine), "equal_share",
        number(measure_equal_share(m)), "nan_subject", (json_int_t)m->nan_subject, "nan_truth",
        (json_int_t)m->nan_truth, "special_mismatch", (json_int_t)m->special_mismatch, "why",
        t->why);
    if (t->amplified_rows)
        json_object_set_new(tap, "amplified_rows", json_integer((json_int_t)t->amplified_rows));
    json_object_set_new(tap, "bound_kind", json_string(judge_kind_name(t->kind)));
    json_object_set_new(tap, "profile_rel",
                        isnan(t->profile_rel) ? json_null() : number(t->profile_rel));
    return tap;
}

/* Row and column where the first failing tap goes wrong: its first failing row, and the worst cell
 * if it lies there. */
static json_t *first_object(const struct diff *d)
{
    if (d->first < 0) return json_null();
    const struct pair *p = &d->rows.pairs[d->first];
    const struct tap_judgement *t = &d->taps[d->first];
    const struct measure *m = &t->measure;
    int64_t row = t->first_row_failed >= 0 ? t->first_row_failed
                  : t->row >= 0            ? t->row
                                           : m->worst.row,
            col = -1;
    if (m->special_mismatch > 0) row = m->first_mismatch.row;
    if (m->special_mismatch > 0)
        col = m->first_mismatch.col;
    else if (m->worst.row == row)
        col = m->worst.col;
    const int64_t *map = align_map(&d->rows, p);
    if (col < 0 && p->subject->known && p->subject->kind != TAP_EXPERTS && row >= 0 && map) {
        /* The worst cell of that row. */
        struct measure one;
        const int64_t at = map[row];
        const struct st_tensor *s = p->subject->tensor, *tr = p->truth->tensor;
        struct view sv = {s->dtype,
                          (const char *)s->data + row * p->subject->cols * dtype_size(s->dtype), 1,
                          p->subject->cols};
        struct view tv = {tr->dtype,
                          (const char *)tr->data + at * p->truth->cols * dtype_size(tr->dtype), 1,
                          p->truth->cols};
        if (at >= 0 && sv.cols == tv.cols) {
            measure_views(sv, tv, NULL, &one, NULL, NULL, NULL);
            col = one.worst.col;
        }
    }
    bool known = p->subject->known, draft = known && tap_is_draft(p->subject->kind);
    json_int_t number = known ? p->subject->layer : -1;
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "tap", p->subject->name, "op", op_of(p),
                     "layer", draft ? -1 : number, "draft_step", draft ? number : -1, "row",
                     (json_int_t)row, "col", (json_int_t)col);
}

static json_t *flip_list(const struct diff *d)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < d->flips.count; i++) {
        const struct flip *f = &d->flips.list[i];
        json_array_append_new(
            a, json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:s, s:b}", "layer", (json_int_t)f->layer,
                         "row", (json_int_t)f->row, "subject", ids(f->subject, d->flips.top_k),
                         "truth", ids(f->truth, d->flips.top_k), "gap", number(f->gap), "allowed",
                         number(f->allowed), "by", f->by_group ? "group" : "expert", "certified",
                         f->certified));
    }
    return a;
}

static json_t *draft_tie_list(const struct diff *d)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < d->draft_ties.count; i++) {
        const struct draft_tie *t = &d->draft_ties.list[i];
        json_array_append_new(a, json_pack("{s:I, s:I, s:I, s:I, s:o}", "step", (json_int_t)t->step,
                                           "row", (json_int_t)t->row, "subject",
                                           (json_int_t)t->subject, "truth", (json_int_t)t->truth,
                                           "gap", number(t->gap)));
    }
    return a;
}

static json_t *unchecked_list(const struct diff *d)
{
    json_t *a = names(d->rows.missing, d->rows.missing_count);
    for (int64_t i = 0; i < d->rows.count; i++) {
        if (d->taps[i].verdict == TAP_UNCHECKED)
            json_array_append_new(a, json_string(d->rows.pairs[i].subject->name));
    }
    return a;
}

static json_t *guilty_object(const struct diff *d)
{
    const struct guilty *g = &d->guilty;
    json_t *span = json_array(), *from = json_array();
    if (!g->pair) {
        json_decref(span);
        json_decref(from);
        return json_null();
    }
    for (int64_t i = 0; i < g->span.ops; i++)
        json_array_append_new(span, json_string(g->span.op[i].op));
    for (int64_t i = 0; i < g->span.froms; i++)
        json_array_append_new(from, json_string(g->span.from[i].name));
    bool draft = tap_is_draft(g->pair->truth->kind);
    json_int_t number = g->layer;
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:b}", "tap", g->pair->subject->name,
                     "op", g->op, "layer", draft ? -1 : number, "draft_step", draft ? number : -1,
                     "rank", g->rank < 0 ? json_null() : json_integer(g->rank), "span", span,
                     "rebuilt_from", from, "rebuilt", g->span.rebuilt);
}

/* Error by layer at the residual stream: it grows where runs are compared whole, and is each
 * layer's own where they are anchored. */
static json_t *growth_list(const struct diff *d)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < d->rows.count; i++) {
        const struct dump_tap *t = d->rows.pairs[i].subject;
        const struct tap_judgement *j = &d->taps[i];
        if (!t->known || t->kind != TAP_OUTPUT || j->verdict == TAP_UNCHECKED) continue;
        json_array_append_new(
            list, json_pack("{s:I, s:o, s:o, s:o}", "layer", (json_int_t)t->layer, "subject",
                            number(j->measure.rel_rms), "profile",
                            isnan(j->profile_rel) ? json_null() : number(j->profile_rel), "bound",
                            number(j->bound)));
    }
    return list;
}

/* Ranks that made equal parts of a tap's columns, as the subject says: the file of a joined dump,
 * or the plan of a run. 0: each made all of them, or nothing is said. */
static int64_t ranks_of(const struct diff *d, const struct dump_tap *t)
{
    const char *text = st_meta(&d->subject.file, "assay.parts");
    struct err ignored = ERR_INIT;
    json_t *parts = NULL;
    int64_t ranks = 0;
    if (text && json_parse(text, (int64_t)strlen(text), "assay.parts", &parts, &ignored) == ERR_OK)
        ranks = json_integer_value(json_object_get(parts, t->name));
    json_decref(parts);
    if (ranks || !d->cut || !t->known) return ranks;
    switch (t->kind) {
    case TAP_Q:
    case TAP_ATTN_CORE:
    case TAP_LOGITS:
        return d->plan.tp;
    case TAP_ROUTER_LOGITS:
        return d->plan.map == EXPERT_MAP_CONTIGUOUS ? d->plan.ep : 0;
    default:
        return 0;
    }
}

/* Of the guilty op's tap, else of the first that diverges; none where it has no numbers. */
static enum err_code add_map(const struct diff *d, json_t *result, struct err *err)
{
    json_t *map = NULL;
    for (int64_t i = 0; i < d->rows.count && !map; i++) {
        const struct pair *p = &d->rows.pairs[i];
        const bool wanted = d->guilty.pair ? p->subject == d->guilty.pair->subject : i == d->first;
        const bool heads =
            p->subject->known && (p->subject->kind == TAP_Q || p->subject->kind == TAP_ATTN_CORE);
        if (!wanted || d->taps[i].measure.elements == 0 ||
            !dtype_is_float(p->subject->tensor->dtype))
            continue;
        if (error_map_make(p, align_map(&d->rows, p),
                           heads && d->has_model ? d->loaded.model.config->heads : 0,
                           ranks_of(d, p->subject), &map, err) != ERR_OK)
            return err->code;
    }
    json_object_set_new(result, "error_map", map ? map : json_null());
    return ERR_OK;
}

enum err_code diff_json(const struct diff *d, json_t *result, struct err *err)
{
    json_t *taps = json_array();
    for (int64_t i = 0; i < d->rows.count; i++) {
        json_t *tap = tap_object(&d->rows.pairs[i], &d->taps[i]);
        json_array_append_new(taps, tap);
        if (add_spread(d, &d->rows.pairs[i], &d->taps[i], tap, err) != ERR_OK) {
            json_decref(taps);
            return err->code;
        }
    }
    json_t *fields = json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:s, s:s, s:b, s:s, "
        "s:s, s:s}",
        "compared", (json_int_t)d->compared, "failed", (json_int_t)d->failed, "unchecked",
        unchecked_list(d), "taps", taps, "first", first_object(d), "flips", flip_list(d),
        "draft_ties", draft_tie_list(d), "missing", names(d->rows.missing, d->rows.missing_count),
        "extra", names(d->rows.extra, d->rows.extra_count), "promised",
        names(d->promised, d->promised_count), "guilty", guilty_object(d), "growth", growth_list(d),
        "anchored", d->anchored, "profile",
        d->judge.kind == BOUND_MEASURED || d->has_model ? d->profile_name : "", "profile_how",
        d->profile_how, "unverified", d->unverified, "rows_by", d->rows.how ? d->rows.how : "",
        "note", d->note, "subject", d->subject.file.path);
    if (!fields || json_object_update(result, fields) != 0)
        return err_set(err, ERR_MEMORY, "record result|diff|no memory, or a name that is no UTF-8");
    json_decref(fields);
    if (add_map(d, result, err) != ERR_OK) return err->code;
    return diagnosis_json(&d->diagnosis, result, err);
}
