/* mla.c: argument checks of mla.h. */
#include "core/mla.h"

#include "core/matrix.h"

enum err_code mla_q_check(const struct mla_q *op, struct err *err)
{
    if (op->T < 0 || !op->b)
        return err_set(err, ERR_INPUT, "mla.q||T = %lld%s|0 or more rows, and weights",
                       (long long)op->T, op->b ? "" : ", no q_b");
    if (matrix_check(op->b, err) != ERR_OK) return err->code;
    if (!op->a) return ERR_OK;
    if (matrix_want(op->a, "mla.q q_a", op->b->in, op->a->in, err) != ERR_OK) return err->code;
    if (!op->norm || tensor_count(op->norm) != op->b->in)
        return err_set(err, ERR_INPUT, "mla.q norm||%lld weights|%lld, the rank of q",
                       op->norm ? (long long)tensor_count(op->norm) : 0LL, (long long)op->b->in);
    return ERR_OK;
}

enum err_code mla_kv_check(const struct mla_kv *op, struct err *err)
{
    if (op->T < 0 || op->L < 1 || op->R < 2 || op->R % 2 || !op->a || !op->table ||
        op->table->R != op->R)
        return err_set(err, ERR_INPUT,
                       "mla.kv||T = %lld, L = %lld, R = %lld|L of 1 or more, an even R of 2 or "
                       "more and its table",
                       (long long)op->T, (long long)op->L, (long long)op->R);
    if (!op->norm || tensor_count(op->norm) != op->L)
        return err_set(err, ERR_INPUT,
                       "mla.kv norm||%lld weights|%lld, the latent width without k_rope",
                       op->norm ? (long long)tensor_count(op->norm) : 0LL, (long long)op->L);
    return matrix_want(op->a, "mla.kv kv_a", op->L + op->R, op->a->in, err);
}

enum err_code mla_core_check(const struct mla_core *op, struct err *err)
{
    if (op->heads < 1 || op->P < 1 || op->R < 1 || op->V < 1 || op->L < 1 || !op->rows ||
        !op->cache)
        return err_set(
            err, ERR_INPUT,
            "mla.core||heads = %lld, P = %lld, R = %lld, V = %lld, L = %lld|all at least 1",
            (long long)op->heads, (long long)op->P, (long long)op->R, (long long)op->V,
            (long long)op->L);
    if (op->cache->width != op->L + op->R)
        return err_set(err, ERR_INPUT, "mla.core cache||entries of %lld|%lld: latent and roped key",
                       (long long)op->cache->width, (long long)(op->L + op->R));
    if (rows_check(op->rows, op->cache, "mla.core", err) != ERR_OK) return err->code;
    return matrix_want(op->kv_b, "mla.core kv_b", op->heads * (op->P + op->V), op->L, err);
}

enum err_code mla_output_check(const struct mla_output *op, struct err *err)
{
    if (op->T < 0 || !op->o)
        return err_set(err, ERR_INPUT, "mla.output||T = %lld%s|0 or more rows, and weights",
                       (long long)op->T, op->o ? "" : ", no W_o");
    return matrix_check(op->o, err);
}
