/* int4.c: argument checks of int4.h. */
#include "core/int4.h"

#include "core/matrix.h"

enum err_code int4_check(const struct int4 *op, struct err *err)
{
    if (!op->w || op->w->format != MATRIX_PACKED)
        return err_set(err, ERR_INPUT, "int4||a matrix that is not packed|packed codes");
    if (op->row < 0 || op->n < 0 || op->row + op->n > op->w->out)
        return err_set(err, ERR_INPUT, "int4 rows|%s|%lld to %lld|inside 0 to %lld",
                       op->w->data.name, (long long)op->row, (long long)(op->row + op->n),
                       (long long)op->w->out);
    return matrix_check(op->w, err);
}
