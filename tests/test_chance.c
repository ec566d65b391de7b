/* test_chance.c: the random numbers of a generation are reproducible, uniform and apart, and draw
 * from a law as it stands. */
#include "harness/chance.h"

#include "tests/support.h"

#include <math.h>

static void streams__are_apart_and_repeat(void **state)
{
    (void)state;
    double sum[3] = {0}, product[3] = {0};
    enum { N = 20000 };
    for (int64_t i = 0; i < N; i++) {
        double u[3] = {chance_draft(7, i), chance_coin(7, i, 3, 16), chance_draw(7, i)};
        for (int k = 0; k < 3; k++) {
            assert_true(u[k] >= 0 && u[k] < 1);
            sum[k] += u[k] / N;
            product[k] += (u[k] - 0.5) * (u[(k + 1) % 3] - 0.5) / N;
        }
        assert_true(u[0] == chance_draft(7, i) && u[0] != chance_draft(8, i));
        assert_true(u[1] != chance_coin(7, i, 4, 16) && u[1] != chance_coin(8, i, 3, 16));
        assert_true(u[2] != chance_draw(8, i));
    }
    /* Six standard deviations: 1 / sqrt(12 N) of a mean, 1 / (12 sqrt(N)) of a product. */
    for (int k = 0; k < 3; k++) {
        assert_true(fabs(sum[k] - 0.5) <= 6 / sqrt(12.0 * N));
        assert_true(fabs(product[k]) <= 6 / (12 * sqrt((double)N)));
    }
}

static void law__is_the_softmax_at_a_temperature(void **state)
{
    (void)state;
    double z[4] = {1, 3, -INFINITY, 2}, p[4];
    double warm = exp(-1) + 1 + exp(-0.5);
    chance_law(z, 4, 2, p);
    assert_true(fabs(p[0] - exp(-1) / warm) <= 1e-15);
    assert_true(fabs(p[1] - 1 / warm) <= 1e-15);
    assert_true(p[2] == 0);
    assert_true(fabs(p[3] - exp(-0.5) / warm) <= 1e-15);
    chance_law(z, 4, 1e-3, z);
    assert_true(z[1] == 1 && z[0] == 0 && z[3] == 0);
}

static void pick__is_the_inverse_of_the_cumulative_sum(void **state)
{
    (void)state;
    const double law[5] = {0, 0.25, 0, 0.5, 0.25}, twice[3] = {1, 0, 1};
    assert_int_equal(chance_pick(law, 5, 0), 1);
    assert_int_equal(chance_pick(law, 5, nextafter(0.25, 0)), 1);
    assert_int_equal(chance_pick(law, 5, 0.25), 3);
    assert_int_equal(chance_pick(law, 5, 0.74), 3);
    assert_int_equal(chance_pick(law, 5, 0.75), 4);
    assert_int_equal(chance_pick(law, 5, nextafter(1, 0)), 4);
    assert_int_equal(chance_pick(twice, 3, 0.49), 0);
    assert_int_equal(chance_pick(twice, 3, 0.5), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams__are_apart_and_repeat),
        cmocka_unit_test(law__is_the_softmax_at_a_temperature),
        cmocka_unit_test(pick__is_the_inverse_of_the_cumulative_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
