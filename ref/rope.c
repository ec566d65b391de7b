/* rope.c: op rope. Contract: core/rope.h; test tests/test_rope.c. */
#include "core/rope.h"

#include <math.h>

/* cos and sin of row t, pair i: the angle is a product rounded to float32, as in every engine. */
static void rotation(const struct run *run, const struct rope_table *table, int64_t t, int64_t i,
                     double *cosine, double *sine)
{
    float angle = (float)t * table->frequency[i];
    *cosine = cos((double)angle) * table->factor;
    *sine = sin((double)angle) * table->factor;
    if (!run->profile.rounds[RP_ROPE_TABLE]) return;
    *cosine = run_round_one(run, RP_ROPE_TABLE, *cosine);
    *sine = run_round_one(run, RP_ROPE_TABLE, *sine);
}

/* a*b + c*d with each product rounded where the profile says so. */
static double two_terms(const struct run *run, double a, double b, double c, double d)
{
    double first = a * b, second = c * d;
    if (run->profile.rounds[RP_ROPE_TERM]) {
        first = run_round_one(run, RP_ROPE_TERM, first);
        second = run_round_one(run, RP_ROPE_TERM, second);
    }
    return run_round_one(run, RP_ROPE, first + second);
}

enum err_code rope_ref(const struct rope *op, struct run *run, struct err *err)
{
    if (rope_check(op, err) != ERR_OK) return err->code;
    int64_t half = op->table->R / 2;
    for (int64_t t = 0; t < op->T; t++) {
        for (int64_t i = 0; i < half; i++) {
            double c, s;
            rotation(run, op->table, op->position[t], i, &c, &s);
            for (int64_t h = 0; h < op->heads; h++) {
                double *x = op->x + (t * op->heads + h) * op->stride + op->offset;
                double *a = op->interleaved ? x + 2 * i : x + i;
                double *b = op->interleaved ? x + 2 * i + 1 : x + i + half;
                double a0 = *a, b0 = *b;
                *a = two_terms(run, a0, c, -b0, s);
                *b = two_terms(run, b0, c, a0, s);
            }
        }
    }
    return ERR_OK;
}
