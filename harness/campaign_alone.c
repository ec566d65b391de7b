/* campaign_alone.c: an op fault in an op that runs alone, its inputs drawn: what no model of the
 * campaign calls, or calls in one way only; see campaign_parts.h. */
#include "core/cover.h"
#include "core/synth.h"
#include "harness/campaign_parts.h"
#include "harness/case.h"
#include "harness/op_run.h"

#include <math.h>
#include <string.h>

/* Cases that are drawn until one is changed by the fault. */
enum { DRAWS = 12 };
#define THRESHOLD 2.0

/* How far past its bound the worst output is. */
static double times_bound(const struct op_result *r)
{
    double most = 0;
    for (int i = 0; i < r->outputs; i++) most = fmax(most, r->output[i].ratio);
    return most;
}

static json_t *judge(const struct campaign *c, const struct job *j, const char *line,
                     const struct op_result *r)
{
    char text[ERR_LINE];
    double ratio = times_bound(r);
    if (r->verdict == OP_ERROR) {
        bool said = err_line(&r->err, text, sizeof text)[0] != '\0';
        return campaign_record(j, c, said ? "caught" : "missed", "%s: %s", line, text);
    }
    if (r->verdict == OP_FAIL) {
        cover_note(j->op, COVER_FAULT);
        return campaign_record(j, c, "caught", "%s", line);
    }
    json_t *record =
        campaign_record(j, c, ratio < THRESHOLD ? "sub-threshold" : "missed", "%s", line);
    json_object_set_new(record, "ratio", isfinite(ratio) ? json_real(ratio) : json_string("inf"));
    return record;
}

json_t *campaign_alone(struct campaign *c, const struct job *j)
{
    const struct engine_kind *engine = c->options->engine;
    const struct op_subject sides[] = {{.side = engine ? ref_side() : naive_side()},
                                       {.side = engine ? engine->side() : ref_side()}};
    char line[CASE_LINE], text[ERR_LINE];
    uint64_t seed = synth_base(j->seed, j->op) >> 33;
    for (int64_t i = 0; i < DRAWS; i++) {
        struct op_case one;
        struct op_result r;
        struct err e = ERR_INIT;
        case_draw(&one, case_op_find(j->op), seed, i);
        if (engine) case_fit_device(&one);
        case_set(&one, "fault", j->fault[0]);
        case_print(&one, line);
        if (op_run_case(&one, sides, 2, &r, &e) != ERR_OK)
            return campaign_record(j, c, "error", "%s", err_line(&e, text, sizeof text));
        if (r.verdict == OP_ERROR || r.fault_changed > 0) return judge(c, j, line, &r);
    }
    return campaign_record(j, c, "inert", "no bit changes in %d cases of op %s", DRAWS, j->op);
}
