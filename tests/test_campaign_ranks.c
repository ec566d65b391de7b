/* test_campaign_ranks.c: faults of ranks in real ranks: the cuts, what a case allows, and a
 * campaign that catches all. */
#include "harness/campaign_parts.h"
#include "tests/cli.h"

#include <string.h>

static void cuts__have_the_ranks_that_are_asked_for(void **state)
{
    (void)state;
    for (int ranks = 0; ranks <= 8; ranks = ranks ? 2 * ranks : 2) {
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
    const struct ranks_cut two = {.tp = 2, .ep = 1}, three = {.tp = 3, .ep = 1},
                           experts = {.tp = 1, .ep = 2},
                           turned = {.tp = 1, .ep = 2, .map = EXPERT_MAP_ROUND_ROBIN};
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

/* Two ranks each way: every rank errs once, and is named in what they all made. */
static void campaign__names_the_rank_at_each_rank(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "fault", "run", "--fault", "tp.partial_sum_lost", "--fault", "ep.expert_map_shift",
        "--quick", "--clean", "0", "--ranks", "2", "--model", FIXTURE("tiny-k25"), "--tokens",
        "1,420,348,395,7,9", "--json");
    assert_int_equal(r.status, 0);
    const json_t *ranks = field(r.json, "ranks"), *by = field(r.json, "by_fault");
    int64_t n = field_int(ranks, "injected");
    assert_true(n >= 6); /* tp and ep; contiguous and round-robin: two ranks of each */
    assert_int_equal(field_int(ranks, "caught"), n);
    assert_int_equal(field_int(ranks, "named"), n);
    assert_int_equal(field_int(ranks, "with_rank"), n);
    assert_int_equal(field_int(ranks, "rank_named"), n);
    assert_int_equal(field_int(ranks, "stopped_by_ranks"), 0);
    const json_t *shift = field(by, "ep.expert_map_shift");
    assert_int_equal(field_int(shift, "rank_named"), field_int(shift, "with_rank"));
    const json_t *each = field(shift, "by_rank");
    assert_int_equal(json_object_size(each), 2);
    for (int i = 0; i < 2; i++)
        assert_true(json_integer_value(json_array_get(field(each, i ? "1" : "0"), 1)) >= 2);
    assert_int_equal(json_array_size(field(r.json, "rank_unnamed")), 0);
    assert_int_equal(field_int(r.json, "wrong_names"), 0);
    cli_free(&r);
}

/* Two groups of two: what the other group does to its own sums stops the run, by name. */
static void campaign__of_four_ranks_names_those_that_stop_it(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "fault", "run", "--fault", "tp.shard_swapped", "--quick", "--clean", "0", "--ranks",
        "4", "--model", FIXTURE("tiny-k25"), "--tokens", "1,420,348,395,7,9", "--json");
    assert_int_equal(r.status, 0);
    const json_t *ranks = field(r.json, "ranks");
    assert_true(field_int(ranks, "stopped_by_ranks") >= 4);
    assert_int_equal(field_int(ranks, "rank_named"), field_int(ranks, "injected"));
    cli_free(&r);
}

static void ranks__are_as_many_as_a_small_model_has(void **state)
{
    (void)state;
    struct cli r;
    cli(&r, "fault", "run", "--fault", "tp.*", "--ranks", "3");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "--ranks: found 3, wanted 2, 4 or 8"));
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts__have_the_ranks_that_are_asked_for),
        cmocka_unit_test(fault__is_only_put_where_it_can_change_something),
        cmocka_unit_test(campaign__names_the_rank_at_each_rank),
        cmocka_unit_test(campaign__of_four_ranks_names_those_that_stop_it),
        cmocka_unit_test(ranks__are_as_many_as_a_small_model_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
