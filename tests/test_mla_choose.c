/* test_mla_choose.c: the model by which a decode kernel is chosen: what it counts, what it refuses,
 * and that it prefers what was measured to be faster. */
#include "tests/support.h"

#include "gpu/mla_choose.h"

#include <math.h>

/* A kernel of one block a part, and one of sixteen that merges. */
static const struct mla_decode_cost alone = {"alone", 10, 2, 1, 1, false, 0};
static const struct mla_decode_cost shared = {"shared", 4, 10, 16, 16, true, 4096};

static void assert_microseconds(double found, double wanted)
{
    assert_true(fabs(found - wanted) < 1e-9);
}

/* Rows that see `tokens` each. */
static struct mla_decode_size size_of(int64_t rows, int64_t heads, int64_t tokens)
{
    int64_t parts = mla_parts(tokens), longest = mla_part_tokens(tokens);
    return (struct mla_decode_size){rows, heads, rows * parts, parts,
                                    longest < tokens ? longest : tokens};
}

static void items__are_parts_of_64_heads__or_places_of_parts_where_the_kernel_merges(void **state)
{
    (void)state;
    const struct mla_decode_size s = {10, 65, 13, 4, 1024};
    assert_int_equal(mla_decode_items(&alone, &s), 13 * 2);
    assert_int_equal(mla_decode_items(&shared, &s), 10 * 4 * 2);
    assert_int_equal(mla_head_blocks(1), 1);
    assert_int_equal(mla_head_blocks(64), 1);
    assert_int_equal(mla_head_blocks(65), 2);
}

static void microseconds__are_waves_of_tiles_and_the_merge_that_follows(void **state)
{
    (void)state;
    const struct mla_decode_size s = size_of(32, 64, 4096); /* 128 parts of 16 tiles */
    double merge = 2 + 128.0 * 64 * 512 * 4 * 2 / 4.3e6;
    assert_microseconds(mla_decode_microseconds(&alone, &s, 128), 10 + 16 * 2 + merge);
    assert_microseconds(mla_decode_microseconds(&alone, &s, 127), 2 * (10 + 16 * 2) + merge);
    assert_float_equal(mla_decode_microseconds(&shared, &s, 6), 22 * (4 + 10), 1e-9);
    const struct mla_decode_size one = size_of(1, 64, 65); /* one part of two tiles: no merge */
    assert_float_equal(mla_decode_microseconds(&alone, &one, 132), 10 + 2 * 2, 1e-9);
    const struct mla_decode_size nothing = {3, 64, 0, 1, 0};
    assert_float_equal(mla_decode_microseconds(&alone, &nothing, 132), 0, 1e-9);
}

static void serves__refuses__more_parts_or_meetings_than_a_kernel_that_merges_has_room_for(
    void **state)
{
    (void)state;
    const struct mla_decode_size few = size_of(256, 64, 8192), more = size_of(257, 64, 8192);
    const struct mla_decode_size longer = size_of(1, 64, 8193), wide = size_of(129, 128, 4096);
    assert_true(mla_decode_serves(&shared, &few));
    assert_false(mla_decode_serves(&shared, &more));
    assert_false(mla_decode_serves(&shared, &longer));
    assert_false(mla_decode_serves(&shared, &wide));
    assert_true(mla_decode_serves(&alone, &more));
    assert_true(mla_decode_serves(&alone, &longer));
}

static void model__prefers_the_shared_kernel__for_few_rows_alone(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 256; rows *= 2) {
        const struct mla_decode_size s = size_of(rows, 64, 4096);
        double a = mla_decode_microseconds(&alone, &s, 132);
        double b = mla_decode_microseconds(&shared, &s, 6);
        if (rows <= 2) assert_true(b < a);
        if (rows >= 8) assert_true(a < b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items__are_parts_of_64_heads__or_places_of_parts_where_the_kernel_merges),
        cmocka_unit_test(microseconds__are_waves_of_tiles_and_the_merge_that_follows),
        cmocka_unit_test(
            serves__refuses__more_parts_or_meetings_than_a_kernel_that_merges_has_room_for),
        cmocka_unit_test(model__prefers_the_shared_kernel__for_few_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
