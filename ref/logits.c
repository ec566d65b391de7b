/* logits.c: op logits. Contract: core/logits.h; test tests/test_logits.c. */
#include "core/logits.h"

#include "core/linear.h"

enum err_code logits_ref(const struct logits *op, struct run *run, struct err *err)
{
    if (logits_check(op, err) != ERR_OK) return err->code;
    const struct linear head = {
        .T = op->T, .x = op->x, .w = op->head, .y = op->y, .point = RP_LOGITS};
    return linear_ref(&head, run, err);
}
