/* test_mla_choose.c: the model by which a decode kernel is chosen: what it counts, what it refuses,
 * and that it prefers what was measured to be faster. */
#include "tests/support.h"

#include "gpu/mla_choose.h"

#include <math.h>

/* A kernel that takes parts of 64 heads, and one that takes chunks of sixteen and merges them. */
static const struct mla_decode_cost parts = {"parts", 0, 10, 2, 64, 64, 0, 0};
static const struct mla_decode_cost chunks = {"chunks", 1, 5, 3, 16, 64, 128, 512};

static void assert_microseconds(double found, double wanted)
{
    assert_true(fabs(found - wanted) < 1e-9);
}

/* Rows that see `tokens` each. */
static struct mla_decode_size size_of(int64_t rows, int64_t heads, int64_t tokens)
{
    int64_t cut = mla_parts(tokens), longest = mla_part_tokens(tokens);
    return (struct mla_decode_size){
        rows, heads, rows * cut, cut, longest < tokens ? longest : tokens, tokens};
}

static void items__are_parts__or_places_of_chunks__by_blocks_of_heads(void **state)
{
    (void)state;
    const struct mla_decode_size s = {10, 65, 13, 4, 1024, 4000};
    assert_int_equal(mla_decode_items(&parts, &s), 13 * 2);
    assert_int_equal(mla_decode_items(&chunks, &s), 10 * 32 * 5);
    assert_int_equal(mla_head_blocks(1, 64), 1);
    assert_int_equal(mla_head_blocks(64, 64), 1);
    assert_int_equal(mla_head_blocks(65, 64), 2);
}

static void microseconds__are_waves_of_tiles_and_the_merge_that_follows(void **state)
{
    (void)state;
    const struct mla_decode_size s = size_of(32, 64, 4096); /* 128 parts of 16 tiles */
    double merge = 2 + 128.0 * 64 * 512 * 4 * 2 / 4.3e6;
    assert_microseconds(mla_decode_microseconds(&parts, &s, 128), 10 + 16 * 2 + merge);
    assert_microseconds(mla_decode_microseconds(&parts, &s, 127), 2 * (10 + 16 * 2) + merge);
    const struct mla_decode_size one = size_of(1, 64, 65); /* one part of two tiles: no merge */
    assert_microseconds(mla_decode_microseconds(&parts, &one, 132), 10 + 2 * 2);
    const struct mla_decode_size nothing = {3, 64, 0, 1, 0, 0};
    assert_microseconds(mla_decode_microseconds(&parts, &nothing, 132), 0);
}

static void microseconds__of_chunks__count_whole_rows_of_blocks_along_the_heads(void **state)
{
    (void)state;
    const struct mla_decode_size s = size_of(1, 64, 4096), longer = size_of(1, 64, 4097);
    const struct mla_decode_size three = size_of(1, 48, 4096);
    assert_microseconds(mla_decode_microseconds(&chunks, &s, 132), 1 + 5 + 2 * 3);
    assert_microseconds(mla_decode_microseconds(&chunks, &s, 127), 1 + 2 * (5 + 2 * 3));
    assert_microseconds(mla_decode_microseconds(&chunks, &longer, 132), 1 + 5 + 4 * 3);
    assert_int_equal(mla_decode_at_once(&chunks, &three, 131), 129);
    assert_int_equal(mla_decode_at_once(&parts, &three, 131), 131);
}

static void serves__refuses__more_blocks_than_there_is_room_for_or_than_run_at_once(void **state)
{
    (void)state;
    const struct mla_decode_size few = size_of(4, 64, 4096), more = size_of(5, 64, 4096);
    const struct mla_decode_size longer = size_of(4, 64, 131072), wide = size_of(1, 16 * 133, 1);
    assert_true(mla_decode_serves(&chunks, &few, 132));
    assert_true(mla_decode_serves(&chunks, &longer, 132));
    assert_false(mla_decode_serves(&chunks, &more, 132));
    assert_false(mla_decode_serves(&chunks, &wide, 132));
    assert_true(mla_decode_serves(&chunks, &wide, 133));
    assert_true(mla_decode_serves(&parts, &more, 132));
    assert_true(mla_decode_serves(&parts, &wide, 132));
}

static void model__prefers_chunks__for_few_rows_alone(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 256; rows *= 2) {
        const struct mla_decode_size s = size_of(rows, 64, 4096);
        double a = mla_decode_microseconds(&parts, &s, 132);
        double b = mla_decode_microseconds(&chunks, &s, 132);
        if (rows <= 2) assert_true(b < a);
        if (rows >= 8) assert_true(a < b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items__are_parts__or_places_of_chunks__by_blocks_of_heads),
        cmocka_unit_test(microseconds__are_waves_of_tiles_and_the_merge_that_follows),
        cmocka_unit_test(microseconds__of_chunks__count_whole_rows_of_blocks_along_the_heads),
        cmocka_unit_test(serves__refuses__more_blocks_than_there_is_room_for_or_than_run_at_once),
        cmocka_unit_test(model__prefers_chunks__for_few_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
