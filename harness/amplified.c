/* amplified.c: see amplified.h. */
#include "harness/amplified.h"

#include <stdio.h>
#include <string.h>

/* Some rows are past their bounds, all rows together are not. */
static bool fails_by_rows(const struct tap_judgement *t)
{
    return t->verdict == TAP_FAIL && t->kind == BOUND_MEASURED && t->rows_failed > 0 &&
           t->measure.rel_rms <= t->bound;
}

static bool any_fails_by_rows(const struct diff *d)
{
    for (int64_t i = 0; i < d->rows.count; i++) {
        if (fails_by_rows(&d->taps[i])) return true;
    }
    return false;
}

/* The tap holds where each op ran from the subject's own inputs. */
static bool holds_anchored(const struct diff *anchored, const char *name)
{
    for (int64_t i = 0; i < anchored->rows.count; i++) {
        if (strcmp(anchored->rows.pairs[i].subject->name, name) == 0)
            return anchored->taps[i].verdict == TAP_PASS;
    }
    return false;
}

static void excuse(struct tap_judgement *t)
{
    t->verdict = TAP_PASS;
    t->amplified_rows = t->rows_failed;
    t->rows_failed = 0;
    t->first_row_failed = -1;
    snprintf(t->why, sizeof t->why,
             "%lld rows past their bound, where the op amplifies what comes in: right from the "
             "subject's own inputs",
             (long long)t->amplified_rows);
}

/* In execution order, up to the first tap that stays red. */
static void excuse_all(struct diff *d, const struct diff *anchored)
{
    d->failed = 0;
    d->first = -1;
    for (int64_t i = 0; i < d->rows.count; i++) {
        struct tap_judgement *t = &d->taps[i];
        if (d->first < 0 && fails_by_rows(t) &&
            holds_anchored(anchored, d->rows.pairs[i].subject->name)) {
            excuse(t);
            d->amplified_rows += t->amplified_rows;
        }
        if (t->verdict != TAP_FAIL) continue;
        d->failed++;
        if (d->first < 0) d->first = i;
    }
}

enum err_code amplified_excuse(struct diff *d, const struct diff_request *r, struct err *err)
{
    struct diff anchored;
    struct diff_request again = *r;
    if (d->anchored || !d->has_model || !any_fails_by_rows(d)) return ERR_OK;
    again.anchor = true;
    again.profile = d->profile_name;
    enum err_code rc = diff_run(&anchored, &again, err);
    if (rc == ERR_OK || rc == ERR_DIFF) {
        excuse_all(d, &anchored);
        rc = err->code;
    }
    diff_close(&anchored);
    return rc;
}
