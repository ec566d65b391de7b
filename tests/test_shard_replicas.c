/* test_shard_replicas.c: partial sums that several ranks hold alike: who is outvoted, who is found
 * out by making the part anew, and what real ranks say at each rank. */
#include "core/shard_parts.h"
#include "tests/golden.h"
#include "tests/shard_ranks.h"

#include <stdio.h>
#include <string.h>

static void rank__that_most_contradict_is_outvoted(void **state)
{
    (void)state;
    static const struct {
        int tp, ep;
        uint64_t part[8], sum[8];
        bool sums, decided;
        int n, suspect[8];
    } rows[] = {
        {2, 2, {1, 2, 1, 2}, {9, 9, 9, 9}, false, true, 0, {0}},
        {2, 2, {1, 2, 1, 7}, {9, 9, 8, 8}, false, false, 2, {1, 3}},
        {2, 3, {1, 2, 1, 7, 1, 2}, {9, 9, 8, 8, 9, 9}, false, true, 1, {3}},
        {2, 4, {1, 2, 1, 2, 5, 2, 1, 2}, {0}, false, true, 1, {4}},
        {2, 4, {1, 2, 5, 2, 5, 2, 1, 2}, {0}, false, false, 4, {0, 2, 4, 6}},
        {1, 3, {1, 1, 1}, {4, 4, 6}, true, true, 1, {2}},
        {1, 3, {1, 2, 3}, {0}, false, false, 3, {0, 1, 2}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct shard_plan p = {.tp = rows[i].tp, .ep = rows[i].ep};
        struct shard_held all[COLLECTIVE_RANKS] = {{0}};
        int suspect[COLLECTIVE_RANKS];
        bool decided;
        for (int r = 0; r < p.tp * p.ep; r++)
            all[r] = (struct shard_held){rows[i].part[r], rows[i].sum[r]};
        assert_int_equal(shard_outvoted(&p, all, rows[i].sums, suspect, &decided), rows[i].n);
        assert_int_equal(decided, rows[i].decided);
        for (int k = 0; k < rows[i].n; k++) assert_int_equal(suspect[k], rows[i].suspect[k]);
    }
}

static void hash__tells_the_order_and_the_sign_of_zero(void **state)
{
    (void)state;
    const double a[] = {1, 2, 0}, b[] = {2, 1, 0}, c[] = {1, 2, -0.0};
    assert_true(shard_hash(a, 3) == shard_hash(a, 3));
    assert_true(shard_hash(a, 3) != shard_hash(b, 3));
    assert_true(shard_hash(a, 3) != shard_hash(c, 3));
    assert_true(shard_hash(a, 2) != shard_hash(a, 3));
}

/* Every rank's error says the same; without the check nobody stops at the sum. */
static void assert_stopped(struct shard_run *run, const char *where, int first)
{
    struct shard_outcome o;
    run->replicas_agree = true;
    shard_ranks_run(run, &o);
    for (int r = 0; r < shard_world(&run->plan); r++) {
        assert_err(&o.err[r], ERR_DIFF, "sum over ranks", where, "their part of the weights",
                   "one sum on all replicas");
        assert_int_equal(o.err[r].rank, first);
    }
    shard_ranks_free(&o);
}

static void rank__that_spoils_a_sum_is_named_at_each_op(void **state)
{
    static const struct {
        const char *fault, *where;
        int first;
        struct shard_plan plan;
    } rows[] = {
        {"tp.partial_sum_lost@layer=0,rank=0",
         "layers.0.mla.output: rank 0",
         0,
         {.tp = 2, .ep = 2}},
        {"tp.partial_sum_lost@layer=1,rank=1",
         "layers.1.mla.output: rank 1",
         1,
         {.tp = 2, .ep = 2}},
        {"tp.partial_sum_lost@layer=1,rank=2",
         "layers.1.mla.output: rank 2",
         2,
         {.tp = 2, .ep = 2}},
        {"tp.partial_sum_lost@layer=2,rank=3",
         "layers.2.mla.output: rank 3",
         3,
         {.tp = 2, .ep = 2}},
        {"tp.partial_sum_lost@layer=2,rank=5",
         "layers.2.mla.output: rank 5",
         5,
         {.tp = 2, .ep = 4}},
        {"tp.shard_swapped@layer=0,rank=0",
         "layers.0.mla.output: ranks 0 and 1",
         0,
         {.tp = 2, .ep = 2}},
        {"tp.shard_swapped@layer=1,rank=3",
         "layers.1.mla.output: ranks 2 and 3",
         2,
         {.tp = 2, .ep = 2}},
        {"tp.shard_swapped@layer=1,rank=7",
         "layers.1.mla.output: ranks 4 and 7",
         4,
         {.tp = 4, .ep = 2}},
    };
    struct golden g;
    struct loaded l;
    struct err err = ERR_INIT;
    (void)state;
    golden_open(&g, "tiny-dsv3");
    (void)!loaded_open(&l, g.model, &err);
    assert_ok(&err);
    struct shard_run run = {.loaded = &l, .tokens = &g.tokens, .options = session_defaults()};
    run.options.threads = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        run.plan = rows[i].plan;
        run.plan.reduce = DT_F32;
        run.fault = rows[i].fault;
        assert_stopped(&run, rows[i].where, rows[i].first);
    }
    struct shard_outcome o;
    run.fault = NULL;
    run.replicas_agree = true;
    shard_ranks_run(&run, &o);
    shard_ranks_ok(&run, &o);
    shard_ranks_free(&o);
    loaded_close(&l);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank__that_most_contradict_is_outvoted),
        cmocka_unit_test(hash__tells_the_order_and_the_sign_of_zero),
        cmocka_unit_test(rank__that_spoils_a_sum_is_named_at_each_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
