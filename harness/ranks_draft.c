/* ranks_draft.c: a step of a draft head, on rank 0 alone, seen from the parent; see ranks_parts.h.
 */
#include "harness/ranks_parts.h"

#include <string.h>

enum { OUTPUTS = 4 };

struct output {
    double *data; /* NULL: not wanted */
    int64_t cols;
};

static void outputs_of(const struct draft_step *s, struct output out[OUTPUTS])
{
    const struct head_config *c = &s->head->config;
    out[0] = (struct output){s->fused, c->base.hidden};
    out[1] = (struct output){s->out, c->base.hidden};
    out[2] = (struct output){s->feed, c->base.hidden};
    out[3] = (struct output){s->logits, c->draft_vocab};
}

/* Its inputs in memory that rank 0 sees too. */
static enum err_code give_inputs(struct ranks *r, const struct draft_step *s, struct err *err)
{
    const struct head_config *c = &s->head->config;
    int64_t width = s->aux ? c->aux_count * c->target_hidden : c->base.hidden;
    int64_t bytes = s->rows->count * width * (int64_t)sizeof(double);
    if (segment_reserve(&r->inputs, "assay-draft", bytes, err) != ERR_OK) return err->code;
    memcpy(r->inputs.data, s->aux ? s->aux : s->hidden, (size_t)bytes);
    return ERR_OK;
}

static enum err_code take_outputs(const struct worker_reply *reply, const struct draft_step *s,
                                  struct err *err)
{
    struct output out[OUTPUTS];
    int at = 0;
    outputs_of(s, out);
    for (int i = 0; i < OUTPUTS; i++) {
        int64_t bytes = s->rows->count * out[i].cols * (int64_t)sizeof(double);
        if (!out[i].data) continue;
        if (at == reply->segments || reply->segment[at].bytes < bytes)
            return err_set(err, ERR_PROCESS, "draft step|reply of rank 0|output %d is missing|%s",
                           i, "what was asked for");
        memcpy(out[i].data, reply->segment[at++].data, (size_t)bytes);
    }
    return ERR_OK;
}

enum err_code ranks_draft(void *self, const struct draft_step *s, struct run *run, struct err *err)
{
    struct ranks *r = self;
    const struct ranks_draft_head h = {.number = s->number,
                                       .aux = s->aux != NULL,
                                       .fused = s->fused != NULL,
                                       .out = s->out != NULL,
                                       .feed = s->feed != NULL,
                                       .logits = s->logits != NULL};
    struct worker_request q = {.task = "shard.draft", .segment = &r->inputs, .segments = 1};
    if (s->replace || run->faults)
        return err_set(err, ERR_USAGE, "run over ranks|a draft step|%s|a run of one process",
                       s->replace ? "values put in for its own" : "faults of ops");
    if (give_inputs(r, s, err) != ERR_OK) return err->code;
    ranks_pack_head(r, s->cache, s->rows, run);
    pack_add(&r->pack, &h, sizeof h);
    pack_text(&r->pack, s->head->weights.path);
    rows_extend(s->rows, s->cache);
    if (ranks_call(r, false, &q, s->cache, run, err) != ERR_OK) return err->code;
    return take_outputs(&r->replies.of[0], s, err);
}
