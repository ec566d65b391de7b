/* test_campaign_ranks.c: faults of ranks in real ranks: the cuts, what a case allows, and a
 * campaign that catches all. */
#include "harness/campaign_parts.h"
#include "tests/cli.h"

#include <string.h>

static void cuts__have_the_ranks_that_are_asked_for(void **state)
{
    (void)state;
    for (int ranks = 0; ranks <= 4; ranks += 2) {
        for (int map = 0; map < EXPERT_MAPS; map++) {
            int n = 0;
            for (const struct ranks_cut *c; (c = campaign_ranks_cut(ranks, map, n)); n++) {
                int world = c->tp * c->ep;
                assert_true(ranks == 0 ? world == 2 || world == 4 : world == ranks);
                assert_int_equal(c->map, map);
            }
            assert_true(n > 0);
        }
    }
}

static void fault__is_only_put_where_it_can_change_something(void **state)
{
    (void)state;
    struct loaded l;
    struct err err = ERR_INIT;
    const struct ranks_cut two = {2, 1, EXPERT_MAP_CONTIGUOUS}, three = {3, 1, 0},
                           experts = {1, 2, EXPERT_MAP_CONTIGUOUS},
                           turned = {1, 2, EXPERT_MAP_ROUND_ROBIN};
    (void)!loaded_open(&l, FIXTURE("tiny-k25"), &err);
    assert_ok(&err);
    assert_true(campaign_ranks_can(&l, &two, "tp.shard_swapped@layer=1,rank=1"));
    assert_false(campaign_ranks_can(&l, &two, "tp.shard_swapped@layer=1,rank=2"));
    assert_false(campaign_ranks_can(&l, &experts, "tp.shard_swapped@layer=1,rank=1"));
    assert_false(campaign_ranks_can(&l, &three, "tp.partial_sum_lost@layer=1,rank=1"));
    assert_false(campaign_ranks_can(&l, &two, "ep.expert_map_shift@layer=1,rank=1"));
    assert_true(campaign_ranks_can(&l, &experts, "ep.expert_map_shift@layer=1,rank=1"));
    assert_false(campaign_ranks_can(&l, &experts, "ep.combine_order@layer=1"));
    assert_true(campaign_ranks_can(&l, &turned, "ep.combine_order@layer=1"));
    assert_false(campaign_ranks_can(&l, &two, "mla.no_mscale"));
    loaded_close(&l);
}

static void campaign__catches_what_ranks_do_wrong_together(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "fault", "run", "--fault", "tp.partial_sum_lost", "--fault", "ep.expert_map_shift",
        "--quick", "--clean", "0", "--ranks", "2", "--model", FIXTURE("tiny-k25"), "--tokens",
        "1,420,348,395,7,9", "--seeds", "2", "--json");
    assert_int_equal(r.status, 0);
    const json_t *ranks = field(r.json, "ranks");
    assert_true(field_int(ranks, "injected") >= 2);
    assert_int_equal(field_int(ranks, "caught"), field_int(ranks, "injected"));
    assert_true(field_int(ranks, "named") >= 1);
    cli_free(&r);
    cli(&r, "fault", "run", "--fault", "tp.*", "--ranks", "3");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "--ranks: found 3, wanted 2 or 4"));
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts__have_the_ranks_that_are_asked_for),
        cmocka_unit_test(fault__is_only_put_where_it_can_change_something),
        cmocka_unit_test(campaign__catches_what_ranks_do_wrong_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
