/* fault_logits.c: the head of another tensor. Test: tests/test_fault.c */
#include "core/fault_edits.h"
#include "core/logits.h"

static enum err_code tied_to_embedding(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    struct logits op = *(const struct logits *)arg;
    if (!c->place->model) return fault_next(c, &op, run, err);
    const struct matrix embed = {.format = MATRIX_DENSE,
                                 .out = op.head->out,
                                 .in = op.head->in,
                                 .data = c->place->model->embed};
    op.head = &embed;
    return fault_next(c, &op, run, err);
}

const struct fault_row fault_rows_logits[] = {
    {.id = "logits.tied_to_embedding",
     .hosts = {"logits"},
     .wrap = tied_to_embedding,
     .edit = "the embedding stands in for lm_head",
     .source = "B130",
     .detector = "diff"},
    {0},
};
