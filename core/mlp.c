/* mlp.c: argument checks of mlp.h. */
#include "core/mlp.h"

#include "core/matrix.h"

enum err_code mlp_check(const struct mlp *op, struct err *err)
{
    if (op->T < 0 || !op->gate)
        return err_set(err, ERR_INPUT, "mlp||T = %lld%s|0 or more rows, and weights",
                       (long long)op->T, op->gate ? "" : ", no gate");
    int64_t I = op->gate->out, H = op->gate->in;
    if (matrix_want(op->gate, "mlp gate", I, H, err) != ERR_OK ||
        matrix_want(op->up, "mlp up", I, H, err) != ERR_OK)
        return err->code;
    return matrix_want(op->down, "mlp down", H, I, err);
}
