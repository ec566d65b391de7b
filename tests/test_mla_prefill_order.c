/* test_mla_prefill_order.c: every tile of a prefill is taken up once, long ones first within a
 * group of heads. Kernel and test read the same header. */
#include "tests/support.h"

#include "gpu/mla_prefill_order.h"

#include <string.h>

enum { MOST = 4096 };

static void tiles__are_each_taken_once__for_any_grouping(void **state)
{
    (void)state;
    for (int heads = 1; heads <= 13; heads++) {
        for (int group = 1; group <= heads; group++) {
            for (int blocks = 1; blocks <= 9; blocks += 2) {
                const struct prefill_order o = {blocks, heads, group};
                char seen[MOST] = {0};
                assert_int_equal(prefill_tiles(o), blocks * heads);
                for (int n = 0; n < prefill_tiles(o); n++) {
                    struct prefill_tile t = prefill_tile_at(o, n);
                    assert_in_range(t.head, 0, heads - 1);
                    assert_in_range(t.block, 0, blocks - 1);
                    assert_int_equal(seen[t.head * blocks + t.block]++, 0);
                }
            }
        }
    }
}

static void tiles__get_shorter__within_a_group(void **state)
{
    (void)state;
    const struct prefill_order o = {32, 10, 4};
    for (int n = 1; n < prefill_tiles(o); n++) {
        struct prefill_tile before = prefill_tile_at(o, n - 1), t = prefill_tile_at(o, n);
        if (t.head / o.group == before.head / o.group)
            assert_true(t.block <= before.block);
        else
            assert_true(t.head / o.group == before.head / o.group + 1 && t.block == o.blocks - 1);
    }
}

static void groups__hold_what_the_cache_has_room_for(void **state)
{
    (void)state;
    assert_int_equal(prefill_order_of(32, 128, 2 << 20, 30 << 20).group, 8);
    assert_int_equal(prefill_order_of(32, 128, 2 << 20, 32 << 20).group, 16);
    assert_int_equal(prefill_order_of(32, 8, 2 << 20, 30 << 20).group, 8);
    assert_int_equal(prefill_order_of(32, 9, 2 << 20, 300 << 20).group, 8);
    assert_int_equal(prefill_order_of(512, 64, 33 << 20, 30 << 20).group, 1);
    assert_int_equal(prefill_order_of(1, 64, 1, 30 << 20).group, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles__are_each_taken_once__for_any_grouping),
        cmocka_unit_test(tiles__get_shorter__within_a_group),
        cmocka_unit_test(groups__hold_what_the_cache_has_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
