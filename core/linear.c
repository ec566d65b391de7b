/* linear.c: argument checks of linear.h, and of the matrices that every linear takes. */
#include "core/linear.h"

#include "core/matrix.h"

enum err_code linear_check(const struct linear *op, struct err *err)
{
    if (op->T < 0 || !op->w || (op->T > 0 && (!op->x || !op->y)))
        return err_set(err, ERR_INPUT, "linear||T = %lld%s|0 or more rows, with x, W and y",
                       (long long)op->T, op->w ? "" : ", no W");
    if ((unsigned)op->point > RP_NONE)
        return err_set(err, ERR_INPUT, "linear||round point %d|0 to %d", (int)op->point, RP_NONE);
    return matrix_check(op->w, err);
}
