/* embed.c: y[t] = E[id[t]], from embed.h; see naive.h. */
#include "tests/naive/naive.h"

enum err_code embed_naive(const struct embed *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "embed", err) != ERR_OK || embed_check(op, err) != ERR_OK)
        return err->code;
    for (int64_t t = 0; t < op->T; t++) {
        for (int64_t i = 0; i < op->H; i++)
            op->y[t * op->H + i] = naive_element(op->table, op->id[t] * op->H + i);
    }
    return ERR_OK;
}
