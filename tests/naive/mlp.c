/* mlp.c: W_down(silu(W_gate x) * W_up x), from mlp.h; see naive.h. */
#include "tests/naive/naive.h"

#include <math.h>

double naive_silu(double a)
{
    return a / (1 + exp(-a));
}

enum err_code mlp_naive(const struct mlp *op, struct run *run, struct err *err)
{
    if (naive_begin(run, "mlp", err) != ERR_OK || mlp_check(op, err) != ERR_OK) return err->code;
    int64_t n = op->T * op->gate->out;
    struct arena_block *mark = arena_mark(run->arena);
    double *gate = arena_alloc(run->arena, n, sizeof *gate, "naive gate", err);
    double *up = arena_alloc(run->arena, n, sizeof *up, "naive up", err);
    enum err_code rc = gate && up ? ERR_OK : err->code;
    if (rc == ERR_OK) rc = naive_product(op->gate, op->T, op->x, gate, run, err);
    if (rc == ERR_OK) rc = naive_product(op->up, op->T, op->x, up, run, err);
    for (int64_t i = 0; rc == ERR_OK && i < n; i++) gate[i] = naive_silu(gate[i]) * up[i];
    if (rc == ERR_OK) rc = naive_product(op->down, op->T, gate, op->y, run, err);
    arena_release(run->arena, mark);
    return rc;
}
