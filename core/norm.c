/* norm.c: argument checks of norm.h. */
#include "core/norm.h"

enum err_code norm_check(const struct norm *op, struct err *err)
{
    if (op->T < 0 || op->H < 1)
        return err_set(err, ERR_INPUT, "norm||T = %lld, H = %lld|T of 0 or more, H of 1 or more",
                       (long long)op->T, (long long)op->H);
    if (!(op->eps >= 0)) return err_set(err, ERR_INPUT, "norm||eps = %g|0 or more", op->eps);
    if (op->w && (tensor_count(op->w) != op->H || !dtype_is_float(op->w->dtype)))
        return err_set(err, ERR_INPUT, "norm weight|%s|%lld of %s|%lld floats", op->w->name,
                       (long long)tensor_count(op->w), dtype_name(op->w->dtype), (long long)op->H);
    return ERR_OK;
}
