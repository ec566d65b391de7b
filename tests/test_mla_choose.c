/* test_mla_choose.c: the model by which a decode kernel is chosen: what it counts, what it refuses,
 * and that it prefers what was measured to be faster. */
#include "tests/support.h"

#include "gpu/mla_choose.h"

#include <math.h>

/* A kernel that takes parts of 64 heads, and one that takes chunks of sixteen and merges them. */
static const struct mla_decode_cost parts = {"parts", 1, 10, 2, 1e9, 64, 64, 0, 0, {2, 11}};
static const struct mla_decode_cost chunks = {"chunks", 1, 5, 3, 1e9, 16, 64, 128, 512, {0, 0}};
/* What reads so slowly that nothing else counts: 1000 tokens in 1.152 us. */
static const struct mla_decode_cost slow = {"slow", 0, 0, 0.001, 1000, 64, 64, 0, 0, {0, 13}};
/* The cuts as they were measured. */
static const struct mla_decode_cost whole = {"whole", 2, 6, 1.65, 4300, 64, 64, 0, 0, {0, 13}};
static const struct mla_decode_cost halves = {"halves", 2, 6, 1.65, 4300, 64, 64, 0, 0, {1, 12}};
static const struct mla_decode_cost fours = {"fours", 2, 6, 1.65, 4300, 64, 64, 0, 0, {2, 11}};
static const struct mla_decode_cost eights = {"eights", 2, 6, 1.65, 4300, 64, 64, 0, 0, {3, 10}};

static void assert_microseconds(double found, double wanted)
{
    assert_true(fabs(found - wanted) < 1e-9);
}

/* Rows that see `tokens` each, cut as this kernel does it. */
static struct mla_decode_size size_for(const struct mla_decode_cost *c, int64_t rows, int64_t heads,
                                       int64_t tokens)
{
    int64_t cut = mla_parts(c->cut, tokens), longest = mla_part_tokens(c->cut, tokens);
    return (struct mla_decode_size){
        rows,   heads,         rows * cut, cut, longest < tokens ? longest : tokens,
        tokens, rows * tokens, true};
}

static struct mla_decode_size size_of(int64_t rows, int64_t heads, int64_t tokens)
{
    return size_for(&parts, rows, heads, tokens);
}

static double time_of(const struct mla_decode_cost *c, int64_t rows, int64_t heads, int64_t tokens)
{
    const struct mla_decode_size s = size_for(c, rows, heads, tokens);
    return mla_decode_microseconds(c, &s, 132);
}

static void items__are_parts__or_places_of_chunks__by_blocks_of_heads(void **state)
{
    (void)state;
    const struct mla_decode_size s = {10, 65, 13, 4, 1024, 4000, 40000, true};
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
    assert_microseconds(mla_decode_microseconds(&parts, &s, 128), 1 + 10 + 16 * 2 + merge);
    assert_microseconds(mla_decode_microseconds(&parts, &s, 127), 1 + 2 * (10 + 16 * 2) + merge);
    const struct mla_decode_size one = size_of(1, 64, 65); /* one part of two tiles: no merge */
    assert_microseconds(mla_decode_microseconds(&parts, &one, 132), 1 + 10 + 2 * 2);
    const struct mla_decode_size nothing = {3, 64, 0, 1, 0, 0, 0, true};
    assert_microseconds(mla_decode_microseconds(&parts, &nothing, 132), 1);
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

static void microseconds__are_never_less_than_the_cache_takes_to_be_read(void **state)
{
    (void)state;
    assert_microseconds(time_of(&slow, 10, 64, 1000), 11.52);
    assert_microseconds(time_of(&slow, 10, 128, 1000),
                        11.52); /* two blocks of heads read the same */
}

static void microseconds__of_uneven_rows__are_those_of_the_mean_and_a_quarter(void **state)
{
    (void)state;
    struct mla_decode_size s = {40, 64, 200, 8, 2048, 16384, 40 * 4096, false};
    double mean = 40 * 4096 / 64.0 / 100, merge = 2 + 200.0 * 64 * 512 * 4 * 2 / 4.3e6;
    assert_microseconds(mla_decode_microseconds(&parts, &s, 100),
                        1 + 2 * 10 + (mean + 8) * 2 + merge);
    s.heads = 128; /* twice the blocks, and the partial sums */
    assert_microseconds(mla_decode_microseconds(&parts, &s, 100),
                        1 + 4 * 10 + (2 * mean + 8) * 2 + 2 * merge - 2);
    s.heads = 64;
    s.tokens = 40 * 1024; /* no block has less than the longest part */
    assert_microseconds(mla_decode_microseconds(&parts, &s, 100), 1 + 2 * 10 + 32 * 2 + merge);
    s.tokens = 40 * 16384; /* nor more than its share of longest parts */
    assert_microseconds(mla_decode_microseconds(&parts, &s, 100), 1 + 2 * 10 + 64 * 2 + merge);
}

static void serves__refuses__more_parts_than_have_numbers(void **state)
{
    (void)state;
    struct mla_decode_size s = size_of(256, 64, 4096);
    s.parts = (1 << 24) - 1;
    assert_true(mla_decode_serves(&parts, &s, 132));
    s.parts++;
    assert_false(mla_decode_serves(&parts, &s, 132));
}

/* 132 multiprocessors: whole rows where they fill them, more parts where there are fewer rows. */
static void model__cuts_no_more_than_fills_the_card(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, heads, tokens;
        const struct mla_decode_cost *best;
    } cases[] = {
        {128, 64, 8192, &whole},  {128, 128, 8192, &whole}, {128, 64, 4096, &whole},
        {64, 128, 8192, &whole},  {64, 64, 8192, &halves},  {32, 128, 4096, &halves},
        {64, 64, 4096, &halves},  {140, 64, 8192, &halves}, {32, 64, 4096, &fours},
        {1, 128, 131072, &fours}, {16, 64, 8192, &eights},  {1, 64, 131072, &eights},
    };
    const struct mla_decode_cost *all[] = {&whole, &halves, &fours, &eights};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double best = time_of(cases[i].best, cases[i].rows, cases[i].heads, cases[i].tokens);
        for (int c = 0; c < 4; c++)
            assert_true(best <= time_of(all[c], cases[i].rows, cases[i].heads, cases[i].tokens));
    }
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
        cmocka_unit_test(microseconds__are_never_less_than_the_cache_takes_to_be_read),
        cmocka_unit_test(microseconds__of_uneven_rows__are_those_of_the_mean_and_a_quarter),
        cmocka_unit_test(serves__refuses__more_parts_than_have_numbers),
        cmocka_unit_test(model__cuts_no_more_than_fills_the_card),
        cmocka_unit_test(model__prefers_chunks__for_few_rows_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
