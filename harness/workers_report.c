/* workers_report.c: failures of ranks for people and for JSON; see workers.h. */
#include "harness/workers_parts.h"

#include "core/json.h"

#include <stdio.h>
#include <string.h>

const struct worker_failures *workers_failures(const struct workers *w)
{
    return &w->failures;
}

static json_t *failure_json(const struct worker_failure *f)
{
    const struct envelope *e = &f->envelope;
    json_t *j = json_err(&e->err),
           *own = json_pack("{s:i, s:s, s:b, s:o, s:I, s:o}", "rank", e->rank, "outcome",
                            worker_outcome_name(f->outcome), "consequence", (int)f->consequence,
                            "host", json_any_text(e->host), "pid", (json_int_t)e->pid, "op",
                            json_any_text(e->op));
    json_object_update(j, own);
    json_decref(own);
    const struct {
        const char *name;
        int64_t value;
    } places[] = {{"layer", e->layer}, {"batch", e->batch}, {"sample", e->sample}};
    for (int i = 0; i < 3; i++)
        json_object_set_new(j, places[i].name,
                            places[i].value < 0 ? json_null() : json_integer(places[i].value));
    char site[ENVELOPE_FILE + 16];
    snprintf(site, sizeof site, "%s:%d", e->file, e->line);
    json_object_set_new(j, "samples", json_any_text(e->samples));
    json_object_set_new(j, "site", json_any_text(e->file[0] ? site : ""));
    json_object_set_new(j, "time", json_real(1e-9 * (double)e->time_ns));
    json_object_set_new(j, "stderr", worker_log_json(f->tail));
    return j;
}

json_t *workers_failures_json(const struct workers *w)
{
    json_t *all = json_array();
    for (int i = 0; i < w->failures.count; i++)
        json_array_append_new(all, failure_json(&w->failures.of[i]));
    return all;
}

static void print_one(const struct worker_failure *f, FILE *out)
{
    char line[ERR_LINE], place[512];
    fprintf(out, "assay: rank %d: %s: %s [%s]\n", f->envelope.rank,
            f->consequence ? "consequence" : "cause", err_line(&f->envelope.err, line, sizeof line),
            envelope_place(&f->envelope, place, sizeof place));
}

void workers_failures_print(const struct workers *w, FILE *out)
{
    for (int i = 0; i < w->failures.count; i++) {
        const struct worker_failure *f = &w->failures.of[i];
        print_one(f, out);
        for (const char *p = f->tail; i == 0 && *p;) {
            size_t n = strcspn(p, "\n");
            fprintf(out, "assay: rank %d: stderr: %.*s\n", f->envelope.rank, (int)n, p);
            p += n + (p[n] == '\n');
        }
    }
}
