/* test_mla_split.c: the parts of a context, and its chunks, cover it once, are whole pages, and
 * depend on its length alone. Kernels and host read the same header. */
#include "tests/support.h"

#include "gpu/mla_split.h"

/* From whole rows to eighths. */
static const struct mla_cut cuts[] = {{0, 13}, {1, 12}, {2, 11}, {3, 10}};

enum { CUTS = sizeof cuts / sizeof cuts[0] };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Parts that a cut asks for: as many as a context is divided into, or as its longest part needs. */
static int64_t wanted_parts(struct mla_cut cut, int64_t seen)
{
    return larger(INT64_C(1) << cut.halvings, (seen + (1 << cut.longest) - 1) >> cut.longest);
}

static void parts__cover_every_token_once__for_each_length(void **state)
{
    (void)state;
    for (int c = 0; c < CUTS; c++) {
        for (int64_t seen = 1; seen <= 20000; seen++) {
            int64_t tokens = mla_part_tokens(cuts[c], seen), parts = mla_parts(cuts[c], seen);
            assert_true((parts - 1) * tokens < seen); /* the last part is not empty */
            assert_true(parts * tokens >= seen);
            assert_int_equal(tokens % MLA_PAGE, 0);
            assert_in_range(tokens, MLA_PART_MIN, 1 << cuts[c].longest);
        }
    }
}

static void parts__are_as_long_as_each_other__but_for_whole_pages(void **state)
{
    (void)state;
    for (int c = 0; c < CUTS; c++) {
        for (int64_t seen = 1; seen <= 200000; seen += 7) {
            int64_t tokens = mla_part_tokens(cuts[c], seen), n = wanted_parts(cuts[c], seen);
            assert_true(mla_parts(cuts[c], seen) <= n);
            if (tokens > MLA_PART_MIN) assert_true((tokens - MLA_PAGE) * n < seen);
        }
    }
}

static void parts__are_what_kernels_were_measured_with(void **state)
{
    (void)state;
    const struct mla_cut usual = mla_cut_usual();
    assert_int_equal(mla_parts(usual, MLA_PART_MIN), 1);
    assert_int_equal(mla_parts(usual, 4096), 4);
    assert_int_equal(mla_parts(usual, 8192), 4);
    assert_int_equal(mla_parts(usual, 8193), 5);
    assert_int_equal(mla_part_tokens(usual, 8193), 1664);
    assert_int_equal(mla_parts(usual, 131072), 64);
    assert_int_equal(mla_parts(cuts[0], 8192), 1);
    assert_int_equal(mla_parts(cuts[0], 8193), 2);
    assert_int_equal(mla_parts(cuts[1], 8192), 2);
    assert_int_equal(mla_parts(cuts[3], 8192), 8);
}

static void parts__are_none__where_nothing_is_seen(void **state)
{
    (void)state;
    for (int c = 0; c < CUTS; c++) {
        assert_int_equal(mla_parts(cuts[c], 0), 0);
        assert_int_equal(mla_parts(cuts[c], -1000), 0);
        assert_int_equal(mla_parts_most(cuts[c], 0), 0);
    }
}

static void most__is_reached_and_never_passed__up_to_a_context(void **state)
{
    (void)state;
    for (int c = 0; c < CUTS; c++) {
        int64_t largest = 0;
        for (int64_t context = 1; context <= 20000; context++) {
            largest = larger(largest, mla_parts(cuts[c], context));
            assert_int_equal(mla_parts_most(cuts[c], context), largest);
        }
    }
}

static void chunks__cover_every_token_once__in_whole_units(void **state)
{
    (void)state;
    for (uint32_t unit = 64; unit <= 4096; unit *= 2) {
        for (uint32_t seen = 1; seen <= 20000; seen++) {
            uint32_t tokens = mla_chunk_tokens(seen, unit), chunks = mla_chunks(seen, unit);
            assert_true((chunks - 1) * tokens < seen);
            assert_true(chunks * tokens >= seen);
            assert_int_equal(tokens % unit, 0);
            assert_in_range(chunks, 1, MLA_CHUNKED / unit);
        }
        assert_int_equal(mla_chunks(0, unit), 0);
    }
}

static void chunks__are_one_unit__up_to_a_context(void **state)
{
    (void)state;
    assert_int_equal(mla_chunk_tokens(1, 64), 64);
    assert_int_equal(mla_chunk_tokens(MLA_CHUNKED, 64), 64);
    assert_int_equal(mla_chunk_tokens(MLA_CHUNKED + 1, 64), 128);
    assert_int_equal(mla_chunks(MLA_CHUNKED, 64), 64);
    assert_int_equal(mla_chunks(MLA_CHUNKED, 128), 32);
    assert_int_equal(mla_chunks(INT32_MAX, 128), 32);
    assert_true((int64_t)mla_chunk_tokens(INT32_MAX, 128) * 32 >= INT32_MAX);
}

static void most_chunks__are_reached_and_never_passed__up_to_a_context(void **state)
{
    (void)state;
    for (uint32_t unit = 64; unit <= 4096; unit *= 2) {
        int64_t largest = 0;
        for (uint32_t context = 0; context <= 20000; context++) {
            uint32_t chunks = mla_chunks(context, unit);
            if (chunks > largest) largest = chunks;
            assert_int_equal(mla_chunks_most(context, unit), largest);
        }
    }
}

static void parts__do_not_overflow__at_the_longest_context(void **state)
{
    (void)state;
    int64_t seen = INT32_MAX;
    for (int c = 0; c < CUTS; c++) {
        int64_t parts = mla_parts(cuts[c], seen);
        assert_int_equal(parts, wanted_parts(cuts[c], seen));
        assert_int_equal(mla_parts_most(cuts[c], seen), parts);
        assert_true(parts * mla_part_tokens(cuts[c], seen) >= seen);
    }
}

static void items__are_dealt_once__forth_and_back(void **state)
{
    (void)state;
    for (int blocks = 1; blocks <= 7; blocks++) {
        for (int items = 0; items <= 40; items++) {
            int dealt[40] = {0};
            for (int block = 0; block < blocks; block++) {
                int item;
                for (int n = 0; (item = mla_deal(block, blocks, n)) < items; n++) dealt[item]++;
            }
            for (int i = 0; i < items; i++) assert_int_equal(dealt[i], 1);
        }
    }
    assert_int_equal(mla_deal(2, 5, 0) + mla_deal(2, 5, 1), 9); /* the sum for every block */
    assert_int_equal(mla_deal(0, 5, 0) + mla_deal(0, 5, 1), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts__cover_every_token_once__for_each_length),
        cmocka_unit_test(parts__are_as_long_as_each_other__but_for_whole_pages),
        cmocka_unit_test(parts__are_what_kernels_were_measured_with),
        cmocka_unit_test(parts__are_none__where_nothing_is_seen),
        cmocka_unit_test(most__is_reached_and_never_passed__up_to_a_context),
        cmocka_unit_test(parts__do_not_overflow__at_the_longest_context),
        cmocka_unit_test(items__are_dealt_once__forth_and_back),
        cmocka_unit_test(chunks__cover_every_token_once__in_whole_units),
        cmocka_unit_test(chunks__are_one_unit__up_to_a_context),
        cmocka_unit_test(most_chunks__are_reached_and_never_passed__up_to_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
