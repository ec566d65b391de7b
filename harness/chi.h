/* chi.h: the chi-square law: how likely a statistic is by chance, and how surely a test sees an
 * effect. Test: tests/test_chi.c, against published values. */
#ifndef ASSAY_HARNESS_CHI_H
#define ASSAY_HARNESS_CHI_H

#include <stdint.h>

/* P(X > x) for X chi-square with `dof` degrees of freedom (dof > 0, x >= 0). */
double chi_tail(double x, double dof);
/* The x with chi_tail(x, dof) = alpha, 0 < alpha < 1. */
double chi_bound(double alpha, double dof);
/* P(X > chi_bound(alpha, dof)) for X non-central chi-square with non-centrality lambda: the power
 * of a test whose statistic has this law under the effect. */
double chi_power(double lambda, double alpha, double dof);

#endif
