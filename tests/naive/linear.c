/* linear.c: y = x W^T, from linear.h; see naive.h. */
#include "tests/naive/naive.h"

enum err_code linear_naive(const struct linear *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "linear", err) != ERR_OK || linear_check(op, err) != ERR_OK)
        return err->code;
    return naive_product(op->w, op->T, op->x, op->y, run, err);
}
