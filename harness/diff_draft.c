/* diff_draft.c: see diff_draft.h. */
#include "harness/diff_draft.h"

#include "core/logits.h"

#include <stdio.h>
#include <stdlib.h>

static enum err_code add(struct draft_ties *t, const struct draft_tie *tie, struct err *err)
{
    struct draft_tie *more = realloc(t->list, (size_t)(t->count + 1) * sizeof *more);
    if (!more) return err_set(err, ERR_MEMORY, "compare draft tokens||no memory");
    t->list = more;
    more[t->count++] = *tie;
    return ERR_OK;
}

static void read_row(const struct dump_tap *t, int64_t row, double *out)
{
    const struct st_tensor *s = t->tensor;
    const char *at = (const char *)s->data + row * t->cols * dtype_size(s->dtype);
    dtype_to_f64(s->dtype, at, t->cols, out);
}

/* Whether the logits of this row explain that another id was chosen; they agree already. */
static bool explains(const struct pair *logits, int64_t row, int64_t truth_row, double *subject,
                     double *truth, struct draft_tie *tie)
{
    double margin;
    int64_t V = logits->truth->cols;
    read_row(logits->subject, row, subject);
    read_row(logits->truth, truth_row, truth);
    int64_t i = logits_argmax(truth, V, &margin), j = logits_argmax(subject, V, &margin);
    if (i < 0 || j < 0 || i == j) return false;
    tie->gap = truth[i] - truth[j];
    return true;
}

enum err_code diff_draft_tokens(struct draft_ties *t, const struct pair *p,
                                const struct pair *logits, const struct tap_judgement *logits_out,
                                struct alignment *rows, struct tap_judgement *out, struct err *err)
{
    const struct st_tensor *s = p->subject->tensor, *u = p->truth->tensor;
    bool agree = logits && logits_out->verdict == TAP_PASS && align_map(rows, p) &&
                 dtype_is_float(logits->subject->tensor->dtype) &&
                 dtype_is_float(logits->truth->tensor->dtype);
    double *row_of = calloc((size_t)(agree ? 2 * logits->truth->cols : 0) + 1, sizeof *row_of);
    int64_t ties = 0, open = 0;
    if (!row_of) return err_set(err, ERR_MEMORY, "compare draft tokens||no memory");
    for (int64_t r = 0; r < p->subject->rows && align_map(rows, p); r++) {
        int64_t at = rows->draft_row[r];
        if (at < 0) continue;
        struct draft_tie tie = {.step = p->subject->layer,
                                .row = r,
                                .subject = dtype_int_at(s->dtype, s->data, r),
                                .truth = dtype_int_at(u->dtype, u->data, at)};
        if (tie.subject == tie.truth) continue;
        if (!agree || !explains(logits, r, at, row_of, row_of + logits->truth->cols, &tie)) {
            open++;
            continue;
        }
        ties++;
        rows->draft_row[r] = -1;
        if (add(t, &tie, err) != ERR_OK) break;
    }
    free(row_of);
    if (ties == 0 || open > 0) return err->code;
    out->verdict = TAP_PASS;
    out->row = -1;
    snprintf(out->why, sizeof out->why,
             "%lld near ties, explained by the logits; later steps of those rows are left out",
             (long long)ties);
    return err->code;
}

void draft_ties_free(struct draft_ties *t)
{
    free(t->list);
    *t = (struct draft_ties){0};
}
