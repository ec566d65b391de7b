/* linear.c: op linear. Contract and order of summation: core/linear.h; inner loops: ref/kernel.c;
 * test tests/test_linear.c. */
#include "core/linear.h"

#include "ref/matrix.h"

enum err_code linear_ref(const struct linear *op, struct run *run, struct err *err)
{
    if (linear_check(op, err) != ERR_OK || op->T == 0) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    void *x =
        arena_alloc(run->arena, matrix_packed_bytes(run, op->T, op->w->in), 1, "packed rows", err);
    if (x) {
        matrix_pack(run, op->T, op->w->in, op->x, x);
        (void)!matrix_multiply(run, op->w, op->T, x, op->y, op->point, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}
