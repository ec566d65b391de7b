/* test_golden_eagle_full.c: test_golden_eagle.c for a head of Kimi-K2.5's dimensions. Apart,
 * because its weights and its target's are made as they are read. */
#include "tests/eagle_case.h"
#include "tests/support.h"

static void drafts__match_golden__at_real_dimensions(void **state)
{
    (void)state;
    eagle_case_check(&eagle_full, PRECISION_F32);
    eagle_case_check(&eagle_full, PRECISION_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts__match_golden__at_real_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
