/* int4.c: packed codes to integers and values, from int4.h; see naive.h. */
#include "tests/naive/naive.h"

enum err_code int4_naive(const struct int4 *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "int4", err) != ERR_OK || int4_check(op, err) != ERR_OK) return err->code;
    bool ordered = naive_ordered(op->w);
    for (int64_t i = 0; i < op->n; i++) {
        for (int64_t c = 0; c < op->w->in; c++) {
            if (op->q) op->q[i * op->w->in + c] = (int8_t)naive_code(op->w, op->row + i, c);
            op->y[i * op->w->in + c] = naive_value(op->w, op->row + i, c, ordered);
        }
    }
    return ERR_OK;
}
