/* weights.c: stored formats decoded bit by bit, from weights.h, int4.h and model math 6; see
 * naive.h. */
#include "tests/naive/naive.h"

#include <math.h>
#include <string.h>

enum err_code naive_begin(const struct run *run, const char *op, struct err *err)
{
    for (int p = 0; p < RP_COUNT; p++) {
        if (run->profile.rounds[p])
            return err_set(err, ERR_USAGE,
                           "naive oracle|op %s|profile %s, which rounds|math or NAME+exact", op,
                           run->profile.name);
    }
    return ERR_OK;
}

/* A binary float of `ebits` exponent bits and `mbits` fraction bits; the contract's inputs hold no
 * NaN or infinity. */
static double decode(uint32_t bits, int ebits, int mbits)
{
    int bias = (1 << (ebits - 1)) - 1;
    int exponent = (int)(bits >> mbits) & ((1 << ebits) - 1);
    double fraction = bits & ((1u << mbits) - 1);
    double sign = bits >> (ebits + mbits) & 1 ? -1 : 1;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - mbits);
    return sign * ldexp(fraction + ldexp(1, mbits), exponent - bias - mbits);
}

/* Nearest value of `digits` significant bits that is a multiple of 2^smallest; a tie goes to the
 * even one. */
static double nearest(double v, int digits, int smallest)
{
    int e;
    if (v == 0) return v;
    frexp(v, &e);
    int quantum = e - digits > smallest ? e - digits : smallest;
    return ldexp(rint(ldexp(v, -quantum)), quantum);
}

static double nearest_of(enum dtype t, double v)
{
    return t == DT_BF16  ? nearest(v, 8, -133)
           : t == DT_F16 ? nearest(v, 11, -24)
                         : nearest(v, 24, -149);
}

double naive_element(const struct tensor *t, int64_t i)
{
    unsigned char buf[4] = {0};
    int size = t->dtype == DT_F8_E4M3 ? 1 : t->dtype == DT_F32 ? 4 : 2;
    const unsigned char *p = tensor_elements(t, i, 1, buf);
    uint32_t bits = 0;
    for (int b = 0; b < size; b++) bits |= (uint32_t)p[b] << (8 * b);
    switch (t->dtype) {
    case DT_F8_E4M3:
        return decode(bits, 4, 3);
    case DT_F16:
        return decode(bits, 5, 10);
    case DT_BF16:
        return decode(bits, 8, 7);
    case DT_F32:
        return decode(bits, 8, 23);
    default:
        return NAN;
    }
}

static uint32_t word_of(const struct tensor *t, int64_t i)
{
    unsigned char buf[4];
    const unsigned char *p = tensor_elements(t, i, 1, buf);
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* b-bit code number i of a row of words, lowest bits first, with 2^(b-1) taken off. */
static int64_t code_in(uint32_t word, int64_t i, int bits)
{
    int64_t u = 0;
    for (int b = 0; b < bits; b++) u += (int64_t)(word >> (bits * i + b) & 1) << b;
    return u - ((int64_t)1 << (bits - 1));
}

int64_t naive_code(const struct matrix *w, int64_t r, int64_t c)
{
    int64_t codes = 32 / w->bits, words = (w->in + codes - 1) / codes;
    return code_in(word_of(&w->data, r * words + c / codes), c % codes, w->bits);
}

bool naive_ordered(const struct matrix *w)
{
    if (w->format != MATRIX_PACKED || !tensor_exists(&w->g_idx)) return false;
    for (int64_t c = 0; c < w->in; c++) {
        if (word_of(&w->g_idx, c) == 0xffffffffu) return false;
    }
    return true;
}

double naive_value(const struct matrix *w, int64_t r, int64_t c, bool ordered)
{
    if (w->format == MATRIX_DENSE) return naive_element(&w->data, r * w->in + c);
    if (w->format == MATRIX_FP8_BLOCK) {
        int64_t blocks = (w->in + w->block[1] - 1) / w->block[1];
        double scale = naive_element(&w->scale, r / w->block[0] * blocks + c / w->block[1]);
        /* The official converter: float32 product, then bf16. */
        return nearest_of(DT_BF16,
                          nearest_of(DT_F32, naive_element(&w->data, r * w->in + c) * scale));
    }
    int64_t groups = w->group ? (w->in + w->group - 1) / w->group : 1, codes = 32 / w->bits;
    int64_t g = ordered ? (int64_t)word_of(&w->g_idx, c) : w->group ? c / w->group : 0;
    int64_t q = naive_code(w, r, c);
    if (tensor_exists(&w->zero))
        q -= code_in(word_of(&w->zero, r / codes * groups + g), r % codes, w->bits);
    return nearest_of(w->scale.dtype, (double)q * naive_element(&w->scale, r * groups + g));
}

double *naive_matrix(const struct matrix *w, struct run *run, struct err *err)
{
    bool ordered = naive_ordered(w);
    double *out = arena_alloc(run->arena, w->out * w->in, sizeof *out, "naive weights", err);
    for (int64_t r = 0; out && r < w->out; r++) {
        for (int64_t c = 0; c < w->in; c++) out[r * w->in + c] = naive_value(w, r, c, ordered);
    }
    return out;
}

enum err_code naive_product(const struct matrix *w, int64_t T, const double *x, double *y,
                            struct run *run, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    double *values = naive_matrix(w, run, err);
    for (int64_t t = 0; values && t < T; t++) {
        for (int64_t o = 0; o < w->out; o++) {
            double sum = 0;
            for (int64_t k = 0; k < w->in; k++) sum += x[t * w->in + k] * values[o * w->in + k];
            y[t * w->out + o] = sum;
        }
    }
    arena_release(run->arena, mark);
    return values ? ERR_OK : err->code;
}
