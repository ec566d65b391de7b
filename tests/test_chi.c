/* test_chi.c: the chi-square law against values of printed tables and of closed forms. */
#include "harness/chi.h"

#include "tests/support.h"

#include <math.h>

static void near(double got, double wanted, double relative)
{
    if (!(fabs(got - wanted) <= relative * fabs(wanted)))
        fail_msg("%.12g, wanted %.12g", got, wanted);
}

static void tail__has_closed_forms(void **state)
{
    (void)state;
    for (double x = 0.01; x < 200; x *= 1.7) {
        near(chi_tail(x, 1), erfc(sqrt(x / 2)), 1e-9);
        near(chi_tail(x, 2), exp(-x / 2), 1e-9);
        near(chi_tail(x, 4), exp(-x / 2) * (1 + x / 2), 1e-9);
        near(chi_tail(x, 6), exp(-x / 2) * (1 + x / 2 + x * x / 8), 1e-9);
    }
    assert_true(chi_tail(0, 3) == 1);
}

static void bound__is_the_printed_quantile(void **state)
{
    (void)state;
    static const struct {
        double alpha, dof, bound;
    } rows[] = {{0.05, 1, 3.841459},   {0.05, 10, 18.307038}, {0.01, 2, 9.210340},
                {0.01, 30, 50.892181}, {0.001, 5, 20.515006}, {0.001, 100, 149.449253},
                {0.995, 10, 2.155856}, {1e-6, 2, 27.631021},  {1e-6, 4, 33.376842}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        near(chi_bound(rows[i].alpha, rows[i].dof), rows[i].bound, 5e-7);
        near(chi_tail(chi_bound(rows[i].alpha, rows[i].dof), rows[i].dof), rows[i].alpha, 1e-9);
    }
}

/* One degree: X = (Z + sqrt(lambda))^2, so the tail is two normal ones. */
static void power__is_the_shifted_normals__with_one_degree(void **state)
{
    (void)state;
    static const double lambdas[] = {1e-3, 0.5, 4, 25, 100, 900};
    for (size_t i = 0; i < sizeof lambdas / sizeof lambdas[0]; i++) {
        double b = sqrt(chi_bound(1e-3, 1)), m = sqrt(lambdas[i]);
        near(chi_power(lambdas[i], 1e-3, 1),
             0.5 * erfc((b - m) / sqrt(2)) + 0.5 * erfc((b + m) / sqrt(2)), 1e-8);
    }
}

static void power__is_alpha_without_an_effect__and_1_with_a_huge_one(void **state)
{
    (void)state;
    assert_true(chi_power(0, 1e-6, 8) == 1e-6);
    near(chi_power(1e-12, 1e-6, 8), 1e-6, 1e-6);
    near(chi_power(1e5, 1e-6, 8), 1, 1e-9);
    /* Printed tables: lambda 9.635 gives a power of 0.80 with 2 degrees at 0.05. */
    near(chi_power(9.635, 0.05, 2), 0.80, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tail__has_closed_forms),
        cmocka_unit_test(bound__is_the_printed_quantile),
        cmocka_unit_test(power__is_the_shifted_normals__with_one_degree),
        cmocka_unit_test(power__is_alpha_without_an_effect__and_1_with_a_huge_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
