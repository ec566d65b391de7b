/* embed.c: argument checks of embed.h. */
#include "core/embed.h"

enum err_code embed_check(const struct embed *op, struct err *err)
{
    if (op->T < 0 || op->H < 1 || op->V < 1)
        return err_set(err, ERR_INPUT,
                       "embed||T = %lld, H = %lld, V = %lld|T of 0 or more, H and V of 1 or more",
                       (long long)op->T, (long long)op->H, (long long)op->V);
    const struct tensor *t = op->table;
    char shape[96];
    int64_t rows = op->rows ? op->rows : op->V;
    if (op->first < 0 || op->rows < 0 || op->first + rows > op->V)
        return err_set(err, ERR_INPUT, "embed table|%s|ids %lld to %lld|some of the %lld",
                       op->table->name, (long long)op->first, (long long)(op->first + rows - 1),
                       (long long)op->V);
    if (t->dims != 2 || t->shape[0] != rows || t->shape[1] != op->H || !dtype_is_float(t->dtype))
        return err_set(err, ERR_INPUT, "embed table|%s|%s %s|floats [%lld, %lld]", t->name,
                       dtype_name(t->dtype), st_shape_text(t->dims, t->shape, shape, sizeof shape),
                       (long long)rows, (long long)op->H);
    for (int64_t i = 0; i < op->T; i++) {
        if (op->id[i] < 0 || op->id[i] >= op->V)
            return err_set(err, ERR_INPUT, "token id|row %lld|%lld|0 to %lld, the vocabulary",
                           (long long)i, (long long)op->id[i], (long long)op->V - 1);
    }
    return ERR_OK;
}
