/* chi.c: see chi.h. */
#include "harness/chi.h"

#include <float.h>
#include <math.h>

/* Q(a, x), the upper regularised incomplete gamma function: the power series of P = 1 - Q below a +
 * 1, the continued fraction of Q (modified Lentz) above. Both are in every textbook. */
static double gamma_upper(double a, double x)
{
    double front = exp(a * log(x) - x - lgamma(a));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (double n = 1; term > sum * DBL_EPSILON; n++) sum += term *= x / (a + n);
        return 1 - front * sum;
    }
    double b = x + 1 - a, c = 1 / DBL_MIN, d = 1 / b, h = d, step = 0;
    for (double n = 1; !(fabs(step - 1) <= DBL_EPSILON); n++) {
        double t = -n * (n - a);
        b += 2;
        d = 1 / (t * d + b);
        c = b + t / c;
        step = c * d;
        h *= step;
    }
    return front * h;
}

double chi_tail(double x, double dof)
{
    return x > 0 ? gamma_upper(dof / 2, x / 2) : 1;
}

double chi_bound(double alpha, double dof)
{
    double low = 0, high = dof + 1;
    while (chi_tail(high, dof) > alpha) high *= 2;
    for (int i = 0; i < 200 && high - low > high * 1e-13; i++) {
        double middle = (low + high) / 2;
        *(chi_tail(middle, dof) > alpha ? &low : &high) = middle;
    }
    return high;
}

double chi_power(double lambda, double alpha, double dof)
{
    double bound = chi_bound(alpha, dof), half = lambda / 2, power = 0;
    if (!(lambda > 0)) return alpha;
    /* A Poisson mixture of central laws with dof + 2 j; terms twelve deviations off are nothing. */
    double reach = 12 * sqrt(half) + 40, first = half > reach ? floor(half - reach) : 0;
    for (double j = first; j <= half + reach; j++)
        power += exp(j * log(half) - half - lgamma(j + 1)) * chi_tail(bound, dof + 2 * j);
    return power < 1 ? power : 1;
}
