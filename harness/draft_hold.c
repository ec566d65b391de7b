/* draft_hold.c: see draft_hold.h. */
#include "harness/draft_hold.h"

#include <stdlib.h>
#include <string.h>

/* ---- values of the subject ---- */

static const struct dump_tap *tap_of(const struct draft_hold *h, enum tap_kind kind, int64_t step)
{
    char name[TAP_NAME];
    tap_format(kind, step, name);
    return dump_find(h->subject, name);
}

static void hold_states(void *ctx, enum tap_kind kind, const struct draft_step *s, double *x)
{
    const struct draft_hold *h = ctx;
    const struct dump_tap *t = tap_of(h, kind, s->number);
    int64_t H = s->head->config.base.hidden;
    if (!h->states || !t || t->cols != H || !dtype_is_float(t->tensor->dtype)) return;
    for (int64_t i = 0; i < s->rows->count; i++) {
        int64_t at = h->at[s->rows->dump_row[i]];
        if (at < 0 || at >= t->rows) continue;
        const char *row = (const char *)t->tensor->data + at * H * dtype_size(t->tensor->dtype);
        dtype_to_f64(t->tensor->dtype, row, H, x + i * H);
    }
}

static void hold_tokens(void *ctx, int64_t step, int64_t first, int64_t rows, int32_t *token)
{
    const struct draft_hold *h = ctx;
    const struct dump_tap *t = tap_of(h, TAP_DRAFT_TOKENS, step);
    if (!t || t->cols != 1 || !dtype_is_int(t->tensor->dtype)) return;
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = h->at[first + i];
        if (at < 0 || at >= t->rows) continue;
        int64_t id = dtype_int_at(t->tensor->dtype, t->tensor->data, at);
        if (id >= 0 && id <= INT32_MAX) token[i] = (int32_t)id;
    }
}

int64_t *draft_hold_rows(const struct tokens *t)
{
    int64_t n = 0, r = 0, *batch = calloc((size_t)t->count + 1, sizeof *batch);
    for (int64_t q = 0; batch && q < t->sequences; q++) {
        for (int64_t p = 0; p < t->length[q]; p++, r++) {
            if (p + 1 < t->length[q]) batch[n++] = r;
        }
    }
    return batch;
}

enum err_code draft_hold_make(struct draft_hold *h, const struct dump *subject,
                              const struct tokens *t, bool states, struct err *err)
{
    *h = (struct draft_hold){.subject = subject, .rows = t->count, .states = states};
    h->at = calloc((size_t)t->count + 1, sizeof *h->at);
    int64_t *batch = draft_hold_rows(t);
    if (!h->at || !batch) {
        free(batch);
        return err_set(err, ERR_MEMORY, "hold draft|%s|no memory", subject->file.path);
    }
    int64_t n = t->count - t->sequences;
    for (int64_t r = 0; r < t->count; r++) h->at[r] = -1;
    if (!subject->draft_row && subject->draft_rows != n)
        (void)!err_set(err, ERR_INPUT,
                       "diff --draft|%s|%lld draft rows whose place is unknown|%lld, or assay.rows",
                       subject->file.path, (long long)subject->draft_rows, (long long)n);
    for (int64_t i = 0; i < subject->draft_rows && err->code == ERR_OK; i++) {
        int64_t at = subject->draft_row ? subject->draft_row[i] : i;
        if (at < n) h->at[batch[at]] = i;
    }
    free(batch);
    h->hold = (struct drafting_hold){.states = hold_states, .tokens = hold_tokens, .ctx = h};
    return err->code;
}

void draft_hold_free(struct draft_hold *h)
{
    free(h->at);
    *h = (struct draft_hold){0};
}

enum err_code draft_hold_aux(const struct anchor *a, struct states *s, struct err *err)
{
    char name[TAP_NAME];
    int64_t H = s->hidden;
    double *x = malloc((size_t)(s->rows * H) * sizeof *x + 1);
    if (!x) return err_set(err, ERR_MEMORY, "hold draft|aux states|no memory");
    for (int k = 0; k < s->count && s->data; k++) {
        for (int64_t r = 0; r < s->rows; r++)
            memcpy(x + r * H, s->data + (r * s->count + k) * H, (size_t)H * sizeof *x);
        tap_format(s->id[k] ? TAP_OUTPUT : TAP_EMBED, s->id[k] - 1, name);
        anchor_overlay(a, name, H, x);
        for (int64_t r = 0; r < s->rows; r++)
            memcpy(s->data + (r * s->count + k) * H, x + r * H, (size_t)H * sizeof *x);
    }
    free(x);
    return ERR_OK;
}

int64_t draft_hold_steps(const struct dump *subject)
{
    int64_t steps = 0;
    for (int64_t i = 0; i < subject->count; i++) {
        const struct dump_tap *t = &subject->taps[i];
        if (t->known && tap_is_draft(t->kind) && t->layer >= steps) steps = t->layer + 1;
    }
    return steps;
}

/* ---- spans ---- */

static void add_op(struct span *s, const char *op, int64_t step)
{
    s->op[s->ops++] = (struct span_op){op, step};
}

static void walk(struct span *s, const struct anchor *a, enum tap_kind kind, int64_t step);

/* An input: where the subject has it the span begins there. */
static void walk_input(struct span *s, const struct anchor *a, enum tap_kind kind, int64_t step)
{
    struct tap tap = {.kind = kind, .layer = step};
    tap_format(kind, step, tap.name);
    if (dump_find(a->subject, tap.name)) {
        s->from[s->froms++] = tap;
        return;
    }
    s->rebuilt = true;
    walk(s, a, kind, step);
}

static void walk(struct span *s, const struct anchor *a, enum tap_kind kind, int64_t step)
{
    if (kind == TAP_DRAFT_FUSED) {
        add_op(s, "eagle.fc", step);
    } else if (kind == TAP_DRAFT_HIDDEN) {
        if (step == 0) walk_input(s, a, TAP_DRAFT_FUSED, 0);
        if (step > 0) walk_input(s, a, TAP_DRAFT_HIDDEN, step - 1);
        if (step > 0) walk_input(s, a, TAP_DRAFT_TOKENS, step - 1);
        add_op(s, "embed", step);
        add_op(s, "eagle.layer", step);
    } else {
        walk_input(s, a, TAP_DRAFT_HIDDEN, step);
        add_op(s, "norm", step);
        add_op(s, "logits", step);
        if (kind == TAP_DRAFT_TOKENS) add_op(s, "eagle.layer", step); /* its d2t */
    }
}

void span_of_draft(struct span *s, const struct anchor *a, enum tap_kind kind, int64_t step)
{
    walk(s, a, kind, step);
}
