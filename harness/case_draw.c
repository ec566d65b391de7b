/* case_draw.c: the random cases of the sweep; see case.h. Sizes are chosen to hurt: 1, primes, and
 * what lies one beside a power of two, since kernels are written for the powers. Every draw is
 * hash(seed, op, case, count). */
#include "core/check.h"
#include "harness/case_make.h"

#include <stdio.h>
#include <string.h>

static uint64_t next(struct draw *d)
{
    return synth_x(d->base, d->used++);
}

int64_t draw_int(struct draw *d, int64_t min, int64_t max)
{
    CHECK(min <= max);
    return min + (int64_t)(next(d) % (uint64_t)(max - min + 1));
}

bool draw_one_in(struct draw *d, int64_t n)
{
    return draw_int(d, 1, n) == 1;
}

int64_t draw_size(struct draw *d, int64_t max)
{
    static const int64_t hurtful[] = {1,   2,   3,   5,   7,   8,   9,   15,  16, 17,
                                      31,  32,  33,  47,  61,  63,  64,  65,  97, 113,
                                      127, 128, 129, 191, 192, 193, 255, 256, 257};
    int64_t n = 0;
    while (n < (int64_t)(sizeof hurtful / sizeof hurtful[0]) && hurtful[n] <= max) n++;
    if (n == 0 || draw_one_in(d, 4)) return draw_int(d, 1, max);
    return hurtful[draw_int(d, 0, n - 1)];
}

const char *draw_word(struct draw *d, const char *const *words)
{
    int n = 0;
    while (words[n]) n++;
    return words[draw_int(d, 0, n - 1)];
}

void draw_format(struct op_case *c, struct draw *d, int64_t in)
{
    static const int64_t group_sizes[] = {32, 64, 128, 0, 16, 8};
    const char *format = draw_word(d, words_format);
    int64_t group = group_sizes[draw_int(d, 0, 5)];
    case_set(c, "format", format);
    if (strcmp(format, "fp8") == 0) {
        case_set_int(c, "group", draw_one_in(d, 3) ? 128 : draw_size(d, 128));
    } else if (strncmp(format, "int", 3) == 0) {
        if (group && in % group != 0)
            group = in % 16 == 0 ? 16 : 0; /* groups that do not divide are refused */
        case_set_int(c, "group", group);
        case_set_int(c, "order", group && draw_one_in(d, 2));
    }
}

void draw_real(struct op_case *c, struct draw *d, const char *key, int min, int max)
{
    char text[32];
    snprintf(text, sizeof text, "%de%d", (int)draw_int(d, 1, 9), (int)draw_int(d, min, max));
    case_set(c, key, text);
}

void case_draw(struct op_case *out, const struct case_op *op, uint64_t seed, int64_t i)
{
    struct draw d = {.base = synth_base(seed, op->name) + (uint64_t)i * 0xD1B54A32D192ED03u};
    case_defaults(out, op);
    op->draw(out, &d);
    case_set_int(out, "seed", draw_int(&d, 0, 999999));
    case_set(out, "precision", draw_one_in(&d, 2) ? "f64" : "f32");
    case_set(out, "x", draw_one_in(&d, 2) ? "f32" : "bf16");
    case_set_int(out, "threads", draw_one_in(&d, 3) ? draw_int(&d, 2, 5) : 1);
    /* OpenBLAS sums in an order of its own: the bound must hold there too, but equal rows need not
     * stay equal. */
    bool ties = case_has_key(out, "ties") && case_get_int(out, "ties") > 0;
    if (draw_one_in(&d, 8) && !ties) case_set(out, "linear", "blas");
}
