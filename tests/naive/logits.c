/* logits.c: y = W_head x, from logits.h; see naive.h. */
#include "tests/naive/naive.h"

enum err_code logits_naive(const struct logits *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "logits", err) != ERR_OK || logits_check(op, err) != ERR_OK)
        return err->code;
    return naive_product(op->head, op->T, op->x, op->y, run, err);
}
