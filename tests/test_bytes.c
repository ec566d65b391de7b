/* test_bytes.c: the lowest byte comes first, nothing beside is touched or looked at. */
#include "core/bytes.h"
#include "tests/support.h"

#include <string.h>

static void put__writes_the_low_bytes_and_no_others(void **state)
{
    static const unsigned char wanted[] = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x82, 0x81};
    (void)state;
    for (int n = 0; n <= 8; n++) {
        unsigned char out[11];
        memset(out, 0xee, sizeof out);
        bytes_put(out + 1, 0x8182030405060708, n);
        for (int i = 0; i < 11; i++)
            assert_int_equal(out[i], i >= 1 && i <= n ? wanted[i - 1] : 0xee);
    }
}

static void get__reads_what_was_put(void **state)
{
    static const unsigned char bytes[] = {0xff, 0x80, 0x01, 0x7f, 0x00, 0xfe, 0x10, 0x90, 0xff};
    static const uint64_t wanted[] = {0,        0x80,         0x0180,         0x7f0180,
                                      0x7f0180, 0xfe007f0180, 0x10fe007f0180, 0x9010fe007f0180};
    (void)state;
    for (int n = 0; n <= 7; n++) assert_true(bytes_get(bytes + 1, n) == wanted[n]);
    assert_true(bytes_get(bytes + 1, 8) == 0xff9010fe007f0180);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__writes_the_low_bytes_and_no_others),
        cmocka_unit_test(get__reads_what_was_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
