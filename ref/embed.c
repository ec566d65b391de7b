/* embed.c: op embed. Contract: core/embed.h; test tests/test_embed.c. */
#include "core/embed.h"

#include "core/matrix.h"

#include <math.h>
#include <string.h>

enum err_code embed_ref(const struct embed *op, struct run *run, struct err *err)
{
    if (embed_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    void *row = arena_alloc(run->arena, op->H, sizeof(double), "embedding row", err);
    for (int64_t t = 0; row && t < op->T && err->code == ERR_OK; t++) {
        double *y = op->y + t * op->H;
        int64_t at = op->id[t] - op->first;
        if (at < 0 || at >= op->table->shape[0]) {
            memset(y, 0, (size_t)op->H * sizeof *y);
            continue;
        }
        dtype_to_f64(op->table->dtype, tensor_elements(op->table, at * op->H, op->H, row), op->H,
                     y);
        for (int64_t i = 0; i < op->H; i++) {
            if (!isfinite(y[i])) (void)!tensor_find_bad(op->table, at * op->H, op->H, err);
        }
        run_round(run, RP_EMBED, y, op->H);
    }
    arena_release(run->arena, mark);
    return err->code;
}
