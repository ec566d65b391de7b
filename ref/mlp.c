/* mlp.c: ops mlp and moe.shared. Contract: core/mlp.h; test tests/test_mlp.c. */
#include "core/mlp.h"

#include "ref/matrix.h"
#include "ref/swiglu.h"

#include <math.h>

enum err_code swiglu(struct run *run, const struct matrix *gate, const struct matrix *up,
                     const struct matrix *down, int64_t T, const void *x, double *y,
                     enum round_point point, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    int64_t n = T * gate->out;
    double *g = arena_alloc(run->arena, n, sizeof *g, "gate", err);
    double *u = arena_alloc(run->arena, n, sizeof *u, "up", err);
    void *packed = arena_alloc(run->arena, matrix_packed_bytes(run, T, gate->out), 1,
                               "packed activations", err);
    if (!g || !u || !packed || matrix_multiply(run, gate, T, x, g, RP_LINEAR, err) != ERR_OK ||
        matrix_multiply(run, up, T, x, u, RP_LINEAR, err) != ERR_OK)
        goto done;
    for (int64_t i = 0; i < n; i++) g[i] = g[i] / (1 + exp(-g[i]));
    if (run->profile.rounds[RP_SILU]) run_round(run, RP_SILU, g, n);
    for (int64_t i = 0; i < n; i++) g[i] *= u[i];
    run_round(run, RP_ACT, g, n);
    matrix_pack(run, T, gate->out, g, packed);
    (void)!matrix_multiply(run, down, T, packed, y, point, err);
done:
    arena_release(run->arena, mark);
    return err->code;
}

enum err_code mlp_ref(const struct mlp *op, struct run *run, struct err *err)
{
    if (mlp_check(op, err) != ERR_OK || op->T == 0) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    void *x = arena_alloc(run->arena, matrix_packed_bytes(run, op->T, op->gate->in), 1,
                          "packed rows", err);
    if (x) {
        matrix_pack(run, op->T, op->gate->in, op->x, x);
        (void)!swiglu(run, op->gate, op->up, op->down, op->T, x, op->y,
                      op->partial ? RP_NONE : RP_LINEAR, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}
