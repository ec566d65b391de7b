/* test_mla_split.c: the parts of a context, and its chunks, cover it once, are whole pages, and
 * depend on its length alone. Kernels and host read the same header. */
#include "tests/support.h"

#include "gpu/mla_split.h"

static void parts__cover_every_token_once__for_each_length(void **state)
{
    (void)state;
    for (int64_t seen = 1; seen <= 20000; seen++) {
        int64_t tokens = mla_part_tokens(seen), parts = mla_parts(seen);
        assert_true((parts - 1) * tokens < seen); /* the last part is not empty */
        assert_true(parts * tokens >= seen);
        assert_int_equal(tokens % MLA_PAGE, 0);
        assert_in_range(tokens, MLA_PART_MIN, MLA_PART_MAX);
    }
}

static void parts__are_few__until_they_have_their_full_length(void **state)
{
    (void)state;
    for (int64_t seen = 1; seen <= 200000; seen += 7) {
        if (mla_parts(seen) > MLA_PARTS) assert_int_equal(mla_part_tokens(seen), MLA_PART_MAX);
        if (seen <= MLA_PART_MIN) assert_int_equal(mla_parts(seen), 1);
    }
    assert_int_equal(mla_parts(4096), MLA_PARTS);
    assert_int_equal(mla_parts(8192), MLA_PARTS);
    assert_int_equal(mla_parts(131072), 64);
}

static void parts__are_none__where_nothing_is_seen(void **state)
{
    (void)state;
    assert_int_equal(mla_parts(0), 0);
    assert_int_equal(mla_parts(-1000), 0);
    assert_int_equal(mla_parts_most(0), 0);
}

static void most__is_reached_and_never_passed__up_to_a_context(void **state)
{
    (void)state;
    int64_t largest = 0;
    for (int64_t context = 1; context <= 20000; context++) {
        if (mla_parts(context) > largest) largest = mla_parts(context);
        assert_int_equal(mla_parts_most(context), largest);
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
    assert_int_equal(mla_parts(seen), (seen + MLA_PART_MAX - 1) / MLA_PART_MAX);
    assert_int_equal(mla_parts_most(seen), mla_parts(seen));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts__cover_every_token_once__for_each_length),
        cmocka_unit_test(parts__are_few__until_they_have_their_full_length),
        cmocka_unit_test(parts__are_none__where_nothing_is_seen),
        cmocka_unit_test(most__is_reached_and_never_passed__up_to_a_context),
        cmocka_unit_test(parts__do_not_overflow__at_the_longest_context),
        cmocka_unit_test(chunks__cover_every_token_once__in_whole_units),
        cmocka_unit_test(chunks__are_one_unit__up_to_a_context),
        cmocka_unit_test(most_chunks__are_reached_and_never_passed__up_to_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
