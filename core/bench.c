/* bench.c: see bench.h. */
#include "core/bench.h"

#include "core/check.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_median(double *seconds, int64_t n, struct bench_row *out)
{
    CHECK(n > 0);
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    out->rounds = n;
    out->seconds = n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
    out->spread = (seconds[n - 1 - n / 10] - seconds[n / 10]) / out->seconds;
}

double bench_share(const struct bench_row *r, const struct bench_ceilings *c)
{
    return fmax(r->bytes / c->read, r->flops / c->matmul) / r->seconds;
}
