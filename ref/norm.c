/* norm.c: op norm, RMSNorm. Contract: core/norm.h; test tests/test_norm.c. */
#include "core/norm.h"

#include "core/matrix.h"

#include <math.h>

enum err_code norm_ref(const struct norm *op, struct run *run, struct err *err)
{
    if (norm_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    double *w = arena_alloc(run->arena, op->H, sizeof *w, "norm weight", err);
    void *raw = arena_alloc(run->arena, op->H, sizeof(double), "stored norm weight", err);
    if (!w || !raw || (op->w && tensor_find_bad(op->w, 0, op->H, err) != ERR_OK)) goto done;
    for (int64_t i = 0; i < op->H; i++) w[i] = 1;
    if (op->w) dtype_to_f64(op->w->dtype, tensor_elements(op->w, 0, op->H, raw), op->H, w);
    for (int64_t t = 0; t < op->T; t++) {
        const double *x = op->x + t * op->H;
        double *y = op->y + t * op->H, squares = 0;
        for (int64_t i = 0; i < op->H; i++) squares += x[i] * x[i];
        double r = 1 / sqrt(squares / (double)op->H + op->eps);
        for (int64_t i = 0; i < op->H; i++) y[i] = x[i] * r;
        /* Under float32 alone the product is rounded once, at the end. */
        if (run->profile.rounds[RP_NORM_INNER]) run_round(run, RP_NORM_INNER, y, op->H);
        for (int64_t i = 0; i < op->H; i++) y[i] *= w[i];
        run_round(run, RP_NORM, y, op->H);
    }
done:
    arena_release(run->arena, mark);
    return err->code;
}
