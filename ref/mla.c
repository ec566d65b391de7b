/* mla.c: ops mla.q, mla.kv, mla.output. Contract: core/mla.h; the attention itself: ref/mla_core.c;
 * test tests/test_mla.c. */
#include "core/mla.h"

#include "core/linear.h"
#include "core/norm.h"

#include <string.h>

enum err_code mla_q_ref(const struct mla_q *op, struct run *run, struct err *err)
{
    if (mla_q_check(op, err) != ERR_OK) return err->code;
    if (!op->a) {
        const struct linear direct = {
            .T = op->T, .x = op->x, .w = op->b, .y = op->q, .point = RP_LINEAR};
        return linear_ref(&direct, run, err);
    }
    struct arena_block *mark = arena_mark(run->arena);
    double *c = arena_alloc(run->arena, op->T * op->a->out, sizeof *c, "query latent", err);
    if (c) {
        const struct linear down = {.T = op->T, .x = op->x, .w = op->a, .y = c, .point = RP_LINEAR};
        const struct norm norm = {
            .T = op->T, .H = op->a->out, .eps = op->eps, .x = c, .w = op->norm, .y = c};
        const struct linear up = {.T = op->T, .x = c, .w = op->b, .y = op->q, .point = RP_LINEAR};
        if (linear_ref(&down, run, err) == ERR_OK && norm_ref(&norm, run, err) == ERR_OK)
            (void)!linear_ref(&up, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

enum err_code mla_kv_ref(const struct mla_kv *op, struct run *run, struct err *err)
{
    if (mla_kv_check(op, err) != ERR_OK) return err->code;
    struct arena_block *mark = arena_mark(run->arena);
    double *a = arena_alloc(run->arena, op->T * (op->L + op->R), sizeof *a, "latent and key", err);
    const struct linear down = {.T = op->T, .x = op->x, .w = op->a, .y = a, .point = RP_LINEAR};
    if (!a || linear_ref(&down, run, err) != ERR_OK) goto done;
    for (int64_t t = 0; t < op->T; t++) {
        memcpy(op->latent + t * op->L, a + t * (op->L + op->R), (size_t)op->L * sizeof *a);
        memcpy(op->k_rope + t * op->R, a + t * (op->L + op->R) + op->L, (size_t)op->R * sizeof *a);
    }
    const struct norm norm = {
        .T = op->T, .H = op->L, .eps = op->eps, .x = op->latent, .w = op->norm, .y = op->latent};
    const struct rope rope = {.T = op->T,
                              .heads = 1,
                              .stride = op->R,
                              .offset = 0,
                              .position = op->position,
                              .table = op->table,
                              .interleaved = op->interleaved,
                              .x = op->k_rope};
    if (norm_ref(&norm, run, err) == ERR_OK) (void)!rope_ref(&rope, run, err);
done:
    arena_release(run->arena, mark);
    return err->code;
}

enum err_code mla_output_ref(const struct mla_output *op, struct run *run, struct err *err)
{
    if (mla_output_check(op, err) != ERR_OK) return err->code;
    const struct linear o = {
        .T = op->T, .x = op->x, .w = op->o, .y = op->y, .point = op->partial ? RP_NONE : RP_LINEAR};
    return linear_ref(&o, run, err);
}
