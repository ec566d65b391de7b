/* test_cache.c: paged entries are disjoint, what was never written is NaN, tables are checked at
 * every access. */
#include "tests/support.h"

#include "core/cache.h"

#include <math.h>
#include <signal.h>
#include <string.h>

enum { LAYERS = 3, WIDTH = 5 };

static void make__deals_every_block_once__in_order_or_shuffled(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct cache c;
        const int64_t lengths[4] = {7, 0, 4, 9};
        assert_int_equal(cache_make(&c, &arena, LAYERS, 4, lengths, 4, WIDTH, seed, &err), ERR_OK);
        assert_int_equal(c.blocks, 2 + 0 + 1 + 3);
        assert_int_equal(c.blocks_max, 3);
        int seen[6] = {0}, moved = 0, dealt = 0;
        for (int64_t s = 0; s < 4; s++) {
            int64_t need = (lengths[s] + 3) / 4;
            assert_int_equal(c.length[s], 0);
            for (int64_t b = 0; b < c.blocks_max; b++) {
                int32_t at = c.table[s * c.blocks_max + b];
                if (b >= need) {
                    assert_int_equal(at, -1);
                    continue;
                }
                assert_in_range(at, 0, 5);
                seen[at]++;
                moved += at != dealt++;
            }
        }
        for (int i = 0; i < 6; i++) assert_int_equal(seen[i], 1);
        assert_int_equal(moved > 0, seed > 0);
        arena_release(&arena, NULL);
    }
}

static void make__gives_the_same_table__for_the_same_seed(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct cache a, b, c;
    const int64_t length = 100;
    assert_int_equal(cache_make(&a, &arena, 1, 1, &length, 2, 1, 42, &err), ERR_OK);
    assert_int_equal(cache_make(&b, &arena, 1, 1, &length, 2, 1, 42, &err), ERR_OK);
    assert_int_equal(cache_make(&c, &arena, 1, 1, &length, 2, 1, 43, &err), ERR_OK);
    assert_memory_equal(a.table, b.table, 50 * sizeof *a.table);
    assert_memory_not_equal(a.table, c.table, 50 * sizeof *a.table);
    arena_release(&arena, NULL);
}

static void read__is_nan__where_nothing_was_written(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct cache c;
    const int64_t lengths[2] = {5, 3};
    assert_int_equal(cache_make(&c, &arena, LAYERS, 2, lengths, 2, WIDTH, 1, &err), ERR_OK);
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        for (int64_t s = 0; s < 2; s++) {
            for (int64_t t = 0; t < lengths[s]; t++) {
                const double *x = cache_read(&c, layer, s, t);
                for (int i = 0; i < WIDTH; i++) assert_true(isnan(x[i]));
            }
        }
    }
    arena_release(&arena, NULL);
}

static void write__is_read_back__and_touches_no_other_entry(void **state)
{
    (void)state;
    static const int64_t blocks[] = {1, 2, 3, 16, 1000};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct cache c;
        const int64_t lengths[3] = {11, 1, 6};
        assert_int_equal(cache_make(&c, &arena, LAYERS, 3, lengths, blocks[b], WIDTH, 9, &err),
                         ERR_OK);
        for (int64_t layer = 0; layer < LAYERS; layer++) {
            for (int64_t s = 0; s < 3; s++) {
                for (int64_t t = 0; t < lengths[s]; t++) {
                    double *x = cache_write(&c, layer, s, t);
                    for (int i = 0; i < WIDTH; i++)
                        x[i] = (double)(((layer * 3 + s) * 100 + t) * 10 + i);
                }
            }
        }
        for (int64_t layer = 0; layer < LAYERS; layer++) {
            for (int64_t s = 0; s < 3; s++) {
                for (int64_t t = 0; t < lengths[s]; t++) {
                    const double *x = cache_read(&c, layer, s, t);
                    for (int i = 0; i < WIDTH; i++)
                        assert_int_equal((int64_t)x[i], ((layer * 3 + s) * 100 + t) * 10 + i);
                }
            }
        }
        arena_release(&arena, NULL);
    }
}

static void make__is_an_error__when_the_block_size_or_the_size_cannot_be(void **state)
{
    (void)state;
    struct arena arena = {.bytes_max = 4096};
    struct err err = ERR_INIT;
    struct cache c;
    int64_t length = 10;
    assert_int_equal(cache_make(&c, &arena, 1, 1, &length, 0, 4, 0, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "cache block size", NULL, "0", "at least 1");
    err_clear(&err);
    length = 100000;
    assert_int_equal(cache_make(&c, &arena, 1, 1, &length, 16, 64, 0, &err), ERR_MEMORY);
    assert_err(&err, ERR_MEMORY, "allocate memory", NULL, NULL, "limit");
    err_clear(&err);
    length = INT64_C(1) << 40;
    assert_int_equal(cache_make(&c, &arena, 1, 1, &length, 1, 1, 0, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "cache", NULL, "1099511627776 blocks", "fewer than 2^31");
    arena_release(&arena, NULL);
}

static void make__is_an_error__when_the_pool_overflows(void **state)
{
    (void)state;
    struct arena arena = {.bytes_max = 1 << 20};
    struct err err = ERR_INIT;
    struct cache c;
    const int64_t length = 8;
    assert_int_not_equal(cache_make(&c, &arena, 64, 1, &length, INT64_C(1) << 58, 64, 0, &err),
                         ERR_OK);
    assert_int_not_equal(err.code, ERR_OK);
    arena_release(&arena, NULL);
}

/* One access that must be caught: layer, sequence, token, and the table's first entry. */
struct access {
    int64_t layer, sequence, t;
    int32_t entry;
    bool write;
};

static void do_access(void *ctx)
{
    const struct access *a = ctx;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct cache c;
    const int64_t lengths[2] = {4, 2};
    if (cache_make(&c, &arena, 2, 2, lengths, 2, 3, 0, &err) != ERR_OK) return;
    if (a->entry != 99) c.table[0] = a->entry;
    volatile double x = a->write ? *cache_write(&c, a->layer, a->sequence, a->t)
                                 : *cache_read(&c, a->layer, a->sequence, a->t);
    (void)x;
    arena_release(&arena, NULL);
}

static void access__aborts__when_it_is_outside_or_the_table_is_stale(void **state)
{
    (void)state;
    const struct access bad[] = {{2, 0, 0, 99, false}, {-1, 0, 0, 99, false},
                                 {0, 2, 0, 99, true},  {0, -1, 0, 99, false},
                                 {0, 0, -1, 99, true}, {0, 0, 4, 99, true},
                                 {0, 1, 2, 99, false}, {0, 0, 1, -1, false},
                                 {0, 0, 1, 3, true},   {0, 0, 0, INT32_MAX, false}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(signal_of(do_access, (void *)(uintptr_t)&bad[i], NULL), SIGABRT);
    struct access good = {1, 0, 3, 99, false};
    assert_int_equal(signal_of(do_access, &good, NULL), 0);
}

static void plan__has_the_tables_of_make__and_no_pool(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct cache plan, made;
    const int64_t lengths[2] = {9, 3};
    const struct cache_sizes sizes = {2, 2, lengths, 4, 3, 11};
    assert_int_equal(cache_plan(&plan, &arena, &sizes, &err), ERR_OK);
    assert_int_equal(cache_make(&made, &arena, 2, 2, lengths, 4, 3, 11, &err), ERR_OK);
    assert_null(plan.pool);
    assert_null(plan.own);
    assert_int_equal(plan.blocks, made.blocks);
    assert_memory_equal(plan.table, made.table, (size_t)(2 * plan.blocks_max) * sizeof *plan.table);
    assert_int_equal(cache_pool(&plan, &arena, &err), ERR_OK);
    assert_true(isnan(cache_read(&plan, 1, 1, 2)[2]));
    arena_release(&arena, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(make__deals_every_block_once__in_order_or_shuffled),
        cmocka_unit_test(make__gives_the_same_table__for_the_same_seed),
        cmocka_unit_test(read__is_nan__where_nothing_was_written),
        cmocka_unit_test(write__is_read_back__and_touches_no_other_entry),
        cmocka_unit_test(make__is_an_error__when_the_block_size_or_the_size_cannot_be),
        cmocka_unit_test(make__is_an_error__when_the_pool_overflows),
        cmocka_unit_test(plan__has_the_tables_of_make__and_no_pool),
        cmocka_unit_test(access__aborts__when_it_is_outside_or_the_table_is_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
