/* campaign_clean.c: runs without a fault, which must not be red; see campaign_parts.h. */
#include "core/synth.h"
#include "harness/campaign_parts.h"

#include <string.h>
#include <unistd.h>

enum { THREADS_MOST = 4 };

static double value(const struct dump_tap *t, int64_t i)
{
    double x;
    const char *data = t->tensor->data;
    dtype_to_f64(t->tensor->dtype, data + i * dtype_size(t->tensor->dtype), 1, &x);
    return x;
}

/* Taps of the subject whose bits, in its own type, the reference's run in that profile does not
 * have. */
static int64_t taps_that_differ(const struct diff *d)
{
    int64_t n = 0;
    for (int64_t i = 0; i < d->rows.count; i++) {
        const struct dump_tap *s = d->rows.pairs[i].subject,
                              *p = dump_find(&d->profile_run, s->name);
        if (!p || !dtype_is_float(s->tensor->dtype)) continue;
        for (int64_t k = 0; k < s->tensor->count; k++) {
            if (value(s, k) == dtype_round(s->tensor->dtype, value(p, k))) continue;
            n++;
            break;
        }
    }
    return n;
}

static json_t *judge(struct campaign *c, const struct job *j, const struct diff *d,
                     enum err_code rc, const struct err *e)
{
    char line[ERR_LINE];
    if (rc == ERR_DIFF && d->first >= 0)
        return campaign_record(j, c, "alarm", "%s: %s", d->rows.pairs[d->first].subject->name,
                               d->taps[d->first].why);
    if (rc == ERR_DIFF) return campaign_record(j, c, "alarm", "red without a tap");
    if (rc != ERR_OK) return campaign_record(j, c, "error", "%s", err_line(e, line, sizeof line));
    int64_t differ = taps_that_differ(d);
    return campaign_record(j, c, differ ? "green" : "same bits", "%lld taps differ in bits",
                           (long long)differ);
}

json_t *campaign_clean(struct campaign *c, const struct job *j)
{
    char path[FILE_PATH];
    struct tokens t = {0};
    struct subject s = {0};
    struct diff d = {0};
    struct err e = ERR_INIT;
    enum err_code rc = ERR_OK;
    uint64_t draw = synth_base(j->seed, "campaign.clean");
    struct subject_how how = campaign_how(c, j);
    how.threads = 1 + (int)(synth_x(draw, 0) % THREADS_MOST);
    const struct loaded *l = &c->loaded[j->on];
    struct diff_request r = {.subject = campaign_path(c, "clean-run.safetensors", path),
                             .model = c->cases[j->on].model,
                             .draft = j->draft ? c->cases[j->on].head : NULL,
                             .bound = c->options->bound,
                             .threads = 1 + (int)(synth_x(draw, 1) % THREADS_MOST),
                             .anchor = synth_x(draw, 2) % 2};
    if (campaign_case_tokens(&t, l->model.config->vocab, j->seed, &e) == ERR_OK &&
        subject_run(&s, l, &t, how, NULL, &e) == ERR_OK &&
        subject_write(&s, &t, j->profile, path, &e) == ERR_OK)
        rc = diff_run(&d, &r, &e);
    else
        rc = e.code;
    json_t *record = judge(c, j, &d, rc, &e);
    diff_close(&d);
    subject_free(&s);
    tokens_free(&t);
    unlink(path);
    return record;
}
