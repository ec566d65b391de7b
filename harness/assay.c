/* assay.c: see assay.h. */
#include "harness/assay.h"

#include "core/check.h"
#include "core/json.h"
#include "harness/diff.h"
#include "harness/taps_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err_code assay_dump_write(const char *path, const struct assay_tap *taps, int64_t count,
                               const char *tokens, const char *engine, struct err *err)
{
    CHECK(path && count >= 0 && (taps || count == 0));
    json_t *order = json_array(), *checked = NULL;
    char *order_text = NULL;
    int64_t metas = 0;
    struct st_meta meta[4];
    if (!order) err_set(err, ERR_MEMORY, "write dump|%s|no memory", path);
    for (int64_t i = 0; i < count && err->code == ERR_OK; i++) {
        if (json_array_append_new(order, json_string(taps[i].name)) != 0)
            err_set(err, ERR_INPUT, "write dump|tap %lld|a name that is no UTF-8", (long long)i);
    }
    if (err->code == ERR_OK && tokens)
        (void)!json_parse(tokens, (int64_t)strlen(tokens), "tokens", &checked, err);
    if (err->code == ERR_OK) {
        order_text = json_dumps(order, JSON_COMPACT);
        meta[metas++] = (struct st_meta){"assay.version", ASSAY_VERSION};
        meta[metas++] = (struct st_meta){"assay.order", order_text ? order_text : "[]"};
        if (tokens) meta[metas++] = (struct st_meta){"assay.tokens", tokens};
        if (engine) meta[metas++] = (struct st_meta){"assay.engine", engine};
        (void)!taps_write(path, taps, count, meta, metas, err);
    }
    free(order_text);
    json_decref(checked);
    json_decref(order);
    return err->code;
}

enum err_code assay_compare(const char *subject, const char *truth, double bound,
                            struct assay_verdict *out, struct err *err)
{
    struct diff d;
    const struct diff_request r = {.subject = subject, .truth = truth, .bound = bound};
    *out = (struct assay_verdict){.layer = -1, .row = -1, .col = -1};
    enum err_code rc = diff_run(&d, &r, err);
    out->compared = d.compared;
    out->failed = d.failed;
    if ((rc == ERR_OK || rc == ERR_DIFF) && d.first >= 0) {
        const struct pair *p = &d.rows.pairs[d.first];
        const struct tap_judgement *t = &d.taps[d.first];
        snprintf(out->tap, sizeof out->tap, "%s", p->subject->name);
        snprintf(out->op, sizeof out->op, "%s",
                 p->subject->known ? tap_op(p->subject->kind, p->moe) : "");
        snprintf(out->why, sizeof out->why, "%s", t->why);
        bool layered = p->subject->known && !tap_is_draft(p->subject->kind);
        out->layer = layered ? p->subject->layer : -1;
        out->row = t->first_row_failed >= 0 ? t->first_row_failed : t->measure.worst.row;
        out->col = t->measure.worst.row == out->row ? t->measure.worst.col : -1;
        out->rel_rms = t->measure.rel_rms;
        out->bound = t->bound;
    }
    diff_close(&d);
    return rc;
}
