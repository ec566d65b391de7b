/* rope.c: argument checks and frequencies of rope.h. Model math 4, each step rounded to float32 as
 * engines do. */
#include "core/rope.h"

#include <math.h>

enum err_code rope_check(const struct rope *op, struct err *err)
{
    int64_t R = op->table ? op->table->R : 0;
    if (R < 2 || R % 2 || op->T < 0 || op->heads < 1)
        return err_set(err, ERR_INPUT,
                       "rope||T = %lld, heads = %lld, width %lld|heads of 1 or more, an even width "
                       "of 2 or more",
                       (long long)op->T, (long long)op->heads, (long long)R);
    if (op->offset < 0 || op->offset + R > op->stride)
        return err_set(err, ERR_INPUT, "rope||columns %lld to %lld|inside a head of %lld",
                       (long long)op->offset, (long long)(op->offset + R), (long long)op->stride);
    for (int64_t i = 0; i < op->T; i++) {
        if (op->position[i] < 0)
            return err_set(err, ERR_INPUT, "rope position|row %lld|%lld|0 or more", (long long)i,
                           (long long)op->position[i]);
    }
    return ERR_OK;
}

/* 0.1 m ln(s) + 1, 1 for s <= 1 */
static double mscale_factor(double scale, double m)
{
    return scale <= 1 ? 1 : 0.1 * m * log(scale) + 1;
}

static double attention_factor(const struct rope_scaling *s)
{
    if (s->attention_factor != 0) return s->attention_factor;
    if (s->mscale != 0 && s->mscale_all_dim != 0)
        return mscale_factor(s->factor, s->mscale) / mscale_factor(s->factor, s->mscale_all_dim);
    return mscale_factor(s->factor, 1);
}

/* The dimension whose wavelength turns n times in the original context. */
static double correction(const struct config *c, double n)
{
    const double pi = 3.14159265358979323846;
    return (double)c->rope * log((double)c->scaling.original_max_position / (n * 2 * pi)) /
           (2 * log(c->rope_theta));
}

enum err_code rope_table_make(const struct config *c, struct rope_table *out, struct err *err)
{
    if (c->rope < 2 || c->rope % 2 ||
        c->rope / 2 > (int64_t)(sizeof out->frequency / sizeof out->frequency[0]))
        return err_set(err, ERR_INPUT, "rope table||width %lld|an even number, 2 to 512",
                       (long long)c->rope);
    if (!(c->rope_theta > 1))
        return err_set(err, ERR_INPUT, "rope table||theta %g|above 1", c->rope_theta);
    *out = (struct rope_table){
        .R = c->rope, .factor = 1, .theta = c->rope_theta, .scaling = c->scaling};
    double low = 0, high = 0;
    if (c->scaling.yarn) {
        low = fmax(floor(correction(c, c->scaling.beta_fast)), 0);
        high = fmin(ceil(correction(c, c->scaling.beta_slow)), (double)c->rope - 1);
        if (low == high) high += 0.001;
        out->factor = attention_factor(&c->scaling);
    }
    for (int64_t i = 0; i < c->rope / 2; i++) {
        float exponent = (float)(2 * i) / (float)c->rope;
        float period = (float)pow(c->rope_theta, (double)exponent);
        float plain = 1.0f / period;
        out->frequency[i] = plain;
        if (!c->scaling.yarn) continue;
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float interpolated = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        float keep = 1.0f - interpolated;
        float scaled = 1.0f / ((float)c->scaling.factor * period);
        out->frequency[i] = scaled * (1.0f - keep) + plain * keep;
    }
    return ERR_OK;
}
