/* verb_forward.c: a model on a token list, its taps to a dump; the work is in forward.c. */
#include "core/text.h"
#include "harness/forward.h"
#include "harness/kernel_report.h"
#include "harness/verb.h"

#include <stdio.h>

static const struct option_row options[] = {
    {"--tokens", "T", "1,5,9, a file, or @golden.json", false},
    {"--out", "DUMP", "the file to write", false},
    SESSION_OPTION_ROWS,
    RANKS_OPTION_ROWS,
    {"--taps", "GLOB,...", "only taps that match (default all)", false},
    {"--layers", "A:B", "taps of layers A to B-1; layers from B on are not run", false},
    {"--rows", "A:B", "only these rows of the batch; -24: is the last 24", false},
    {"--experts", "DUMP", "take the experts of this dump instead of the router's own", false},
    {"--draft", "HEAD",
     "also a draft head: taps draft.S.* of each row with a token behind it, and so one less a "
     "sequence; layers past its last aux id run only where --layers and --taps ask for them",
     false},
    {"--draft-steps", "K", "steps that each row feeds itself (default 3)", false},
    {"--resume", NULL, "keep state after each layer (OUT.state, OUT.partial) and go on from it",
     false},
    {"--dump-dtype", "f32|f64", "type of real taps (default f32; on a device its own)", false},
    {NULL, NULL, NULL, false},
};

static void warn(const struct forward_request *r, const struct forward_result *f)
{
    const char *note = forward_note(r);
    if (note[0]) fprintf(stderr, "assay: warning: profile %s: %s\n", r->options.profile.name, note);
    const struct head_config *c = &f->draft;
    const char *const assumed[] = {c->residual_assumed, c->aux_assumed, c->width_assumed};
    for (size_t i = 0; r->draft && i < sizeof assumed / sizeof assumed[0]; i++) {
        if (assumed[i][0]) fprintf(stderr, "assay: warning: draft head: %s\n", assumed[i]);
    }
}

static void print(const struct forward_request *r, const struct forward_result *f)
{
    char bytes[32];
    const struct session_options *o = &r->options;
    char ranks[48] = "";
    const struct shard_plan *plan = &o->ranks.plan;
    if (o->ranks.on) snprintf(ranks, sizeof ranks, ", tp %d, ep %d", plan->tp, plan->ep);
    printf("%lld taps of %lld rows, %s %s %s%s%s -> %s (%.2f s, %s of memory)\n",
           (long long)f->taps, (long long)f->rows, o->engine->name, o->profile.name,
           session_precision_name(o), ranks, forward_note(r)[0] ? ", unverified" : "", r->out,
           f->seconds, text_bytes((double)f->peak_bytes, bytes, sizeof bytes));
    if (f->kernels) kernels_print(f->kernels, stdout);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct forward_request r;
    struct forward_result f;
    if (forward_request_read(a, &r, err) != ERR_OK) return err->code;
    if (forward_run(&r, &f, err) != ERR_OK) {
        if (f.ranks) json_object_update(result, f.ranks);
        forward_result_free(&f);
        return err->code;
    }
    json_t *fields = forward_json(&r, &f);
    json_object_update(result, fields);
    json_decref(fields);
    warn(&r, &f);
    if (!a->json) print(&r, &f);
    forward_result_free(&f);
    return forward_check(&f, err);
}

const struct verb verb_forward = {
    .name = "forward",
    .usage = "MODEL --tokens T --out DUMP [--on ref|gpu] [options]",
    .about = "run a model on a token list and write its taps to a dump",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
