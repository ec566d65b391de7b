/* test_golden_full.c: test_golden.c for two layers of real K2.5 dimensions. Apart, because its
 * weights are made as they are read: half a minute, and many where that is instrumented (the asan
 * preset leaves it out). */
#include "tests/golden.h"
#include "tests/support.h"

static void reference__matches_golden__two_layers_of_real_dimensions(void **state)
{
    (void)state;
    golden_check("full-k25-2l", PRECISION_F32, NULL, 14);
    golden_check("full-k25-2l", PRECISION_F64, NULL, 14);
}

static void greedy_tokens__equal_golden__at_real_dimensions(void **state)
{
    (void)state;
    golden_check_greedy("full-k25-2l");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference__matches_golden__two_layers_of_real_dimensions),
        cmocka_unit_test(greedy_tokens__equal_golden__at_real_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
