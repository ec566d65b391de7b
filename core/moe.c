/* moe.c: argument checks and last roundings of moe.h. */
#include "core/moe.h"

void moe_round(const struct run *run, double sum_scale, int64_t n, double *y)
{
    run_round(run, RP_ROUTED, y, n);
    if (sum_scale == 1) return;
    for (int64_t i = 0; i < n; i++) y[i] *= sum_scale;
    run_round(run, RP_ROUTED_SCALED, y, n);
}

enum err_code moe_check(const struct moe *op, struct err *err)
{
    if (op->T < 0 || op->H < 1 || op->I < 1 || op->E < 1 || op->top_k < 1 || op->top_k > op->E ||
        !op->expert)
        return err_set(err, ERR_INPUT,
                       "moe||T = %lld, H = %lld, I = %lld, E = %lld, k = %lld|positive sizes and k "
                       "of at most E",
                       (long long)op->T, (long long)op->H, (long long)op->I, (long long)op->E,
                       (long long)op->top_k);
    for (int64_t i = 0; i < op->T * op->top_k; i++) {
        if (op->partial && op->ids[i] == -1) continue; /* of another rank */
        const int32_t *row = op->ids + i / op->top_k * op->top_k;
        for (const int32_t *other = row; other < op->ids + i; other++) {
            if (*other == op->ids[i])
                return err_set(err, ERR_INPUT, "expert id|row %lld|expert %d twice|each once",
                               (long long)(i / op->top_k), *other);
        }
        if (op->ids[i] < 0 || op->ids[i] >= op->E)
            return err_set(err, ERR_INPUT, "expert id|row %lld, slot %lld|%d|0 to %lld",
                           (long long)(i / op->top_k), (long long)(i % op->top_k), op->ids[i],
                           (long long)op->E - 1);
    }
    return ERR_OK;
}
