/* test_architectures.c: which cards a list of architectures has code for. */
#include "gpu/architectures.h"

#include "tests/support.h"

static void cover__follows_the_rules_of_machine_and_intermediate_code__for_each_form(void **state)
{
    static const struct {
        const char *list;
        int major, minor;
        bool covered;
    } rows[] = {
        {"80, 90a", 9, 0, true},     {"80, 90a", 8, 0, true},       {"80, 90a", 8, 9, true},
        {"80, 90a", 10, 0, true},    {"80, 90a", 7, 5, false},      {"90a", 9, 0, true},
        {"90a", 10, 0, false},       {"90a-real", 9, 0, true},      {"80-real", 9, 0, false},
        {"80-real", 8, 6, true},     {"86-real", 8, 0, false},      {"80-virtual", 9, 0, true},
        {"80-virtual", 7, 5, false}, {"90a-virtual", 10, 0, false}, {"75;80-real", 8, 0, true},
        {"", 9, 0, false},           {"native", 9, 0, true},        {"80-real, 100", 12, 0, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool got = architectures_cover(rows[i].list, rows[i].major, rows[i].minor);
        if (got != rows[i].covered)
            fail_msg("\"%s\" on %d.%d: %d", rows[i].list, rows[i].major, rows[i].minor, got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cover__follows_the_rules_of_machine_and_intermediate_code__for_each_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
