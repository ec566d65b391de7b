/* test_fault_ranks.c: faults of ranks made in one process that knows the plan: the taps of the real
 * ranks, for each fault that has a key for it at each rank; what the other ranks of a run see. */
#include "core/fault_ranks.h"
#include "core/fault_shard.h"
#include "tests/golden.h"
#include "tests/shard_ranks.h"

#include <stdio.h>
#include <string.h>

static struct {
    struct golden golden;
    struct loaded loaded;
    struct session_options options;
    struct tap_record whole;
} one;

static void open_one(const char *name)
{
    struct err err = ERR_INIT;
    golden_open(&one.golden, name);
    (void)!loaded_open(&one.loaded, one.golden.model, &err);
    assert_ok(&err);
    one.options = session_defaults();
    one.options.precision = PRECISION_F64;
    one.options.threads = 1;
    (void)!record_run(&one.whole, &one.loaded, &one.golden.tokens, &one.options, NULL, NULL, &err);
    assert_ok(&err);
}

static void close_one(void)
{
    record_free(&one.whole);
    loaded_close(&one.loaded);
    golden_close(&one.golden);
}

static void imitate(const char *text, const struct shard_plan *plan, struct tap_record *out)
{
    struct faults faults = {.plan = plan};
    struct err err = ERR_INIT;
    (void)!faults_add(&faults, text, &err);
    assert_ok(&err);
    (void)!record_run(out, &one.loaded, &one.golden.tokens, &one.options, &faults, NULL, &err);
    assert_ok(&err);
    faults_clear(&faults);
}

static bool differs(const struct tap_record *a, const struct tap_record *b, double bound)
{
    for (int i = 0; i < a->count; i++) {
        const struct recorded *x = &a->tap[i], *y = &b->tap[i];
        assert_string_equal(x->name, y->name);
        bool ids =
            x->ints && memcmp(x->data, y->data, (size_t)(x->rows * x->cols) * sizeof(int32_t)) != 0;
        if (ids || (!x->ints && !(record_relative(x, y->data) <= bound))) return true;
    }
    return false;
}

/* The twin that knows the plan gives what the ranks give. Returns whether anything was edited. */
static bool check(const char *text, struct shard_plan plan)
{
    struct shard_outcome o;
    struct tap_record twin;
    plan.reduce = DT_F64;
    const struct shard_run r = {.loaded = &one.loaded,
                                .tokens = &one.golden.tokens,
                                .options = one.options,
                                .plan = plan,
                                .fault = text};
    int64_t edits = 0;
    shard_ranks_run(&r, &o);
    shard_ranks_ok(&r, &o);
    imitate(text, &plan, &twin);
    for (int k = 0; k < shard_world(&plan); k++) edits += o.edits[k];
    if (differs(&o.taps, &twin, 1e-11))
        fail_msg("%s, tp %d, ep %d: not as the ranks", text, plan.tp, plan.ep);
    if (edits > 0 && !differs(&twin, &one.whole, 1e-9)) fail_msg("%s: no effect", text);
    shard_ranks_free(&o);
    record_free(&twin);
    return edits > 0;
}

#define ROBIN .map = EXPERT_MAP_ROUND_ROBIN

/* Sums of a tensor group are compared where there is one group: of several, those of the others are
 * not in the dump. */
static void fault__at_each_rank_is_that_of_the_ranks(void **state)
{
    static const struct {
        const char *fault; /* its rank comes behind it */
        int ranks;         /* 0: it has no such key */
        struct shard_plan plan;
    } rows[] = {
        {"tp.partial_sum_lost@layer=0", 2, {.tp = 2, .ep = 1}},
        {"tp.partial_sum_lost@layer=2", 2, {.tp = 1, .ep = 2}},
        {"tp.partial_sum_lost@layer=2", 4, {.tp = 1, .ep = 4, ROBIN}},
        {"tp.partial_sum_lost@layer=2", 2, {.tp = 1, .ep = 2, .redundant = 5}},
        {"tp.shard_swapped@layer=0", 2, {.tp = 2, .ep = 1}},
        {"tp.shard_swapped@layer=1", 4, {.tp = 4, .ep = 1}},
        {"tp.double_reduce@layer=0", 0, {.tp = 4, .ep = 1}},
        {"tp.double_reduce@layer=1", 0, {.tp = 2, .ep = 2}},
        {"tp.reduce_bf16@layer=1", 0, {.tp = 2, .ep = 2}},
        {"ep.expert_map_shift@layer=2", 2, {.tp = 1, .ep = 2}},
        {"ep.expert_map_shift@layer=2", 4, {.tp = 2, .ep = 2, ROBIN}},
        {"ep.expert_map_shift@layer=2", 4, {.tp = 2, .ep = 2, .redundant = 3}},
        {"ep.token_lost@layer=2,row=3", 2, {.tp = 1, .ep = 2}},
        {"ep.token_lost@layer=2,row=3", 4, {.tp = 2, .ep = 2}},
        {"ep.combine_order@layer=2", 0, {.tp = 1, .ep = 4, ROBIN}},
        {"ep.combine_order@layer=2", 0, {.tp = 2, .ep = 2, .redundant = 7}},
    };
    (void)state;
    open_one("tiny-dsv3");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int edited = 0, ranks = rows[i].ranks;
        for (int r = 0; r < (ranks ? ranks : 1); r++) {
            char text[FAULT_TEXT], rank[32] = "";
            if (ranks) snprintf(rank, sizeof rank, ",rank=%d", r);
            snprintf(text, sizeof text, "%s%s", rows[i].fault, rank);
            edited += check(text, rows[i].plan);
        }
        if (edited == 0) fail_msg("%s: it never came up", rows[i].fault);
    }
    close_one();
}

/* Packed experts are cut in whole groups: some ranks have more of one than others, or nothing. */
static void fault__of_uneven_parts_is_that_of_the_ranks(void **state)
{
    (void)state;
    int edited = 0;
    open_one("tiny-k25");
    for (int r = 0; r < 4; r++) {
        char text[FAULT_TEXT];
        snprintf(text, sizeof text, "tp.partial_sum_lost@layer=1,rank=%d", r);
        edited += check(text, (struct shard_plan){.tp = 4, .ep = 1});
        snprintf(text, sizeof text, "ep.expert_map_shift@layer=1,rank=%d", r);
        edited += check(text, (struct shard_plan){.tp = 2, .ep = 2});
    }
    assert_int_equal(edited, 8);
    close_one();
}

/* A rank of another group than rank 0's spoils sums that are in no dump of rank 0. */
static void fault__of_another_group_is_not_seen(void **state)
{
    (void)state;
    struct tap_record twin;
    const struct shard_plan plan = {.tp = 2, .ep = 2, .reduce = DT_F64};
    open_one("tiny-dsv3");
    imitate("tp.partial_sum_lost@layer=0,rank=3", &plan, &twin);
    assert_false(differs(&twin, &one.whole, 1e-11));
    record_free(&twin);
    imitate("tp.partial_sum_lost@layer=0,rank=1", &plan, &twin);
    assert_true(differs(&twin, &one.whole, 1e-9));
    record_free(&twin);
    close_one();
}

static void ranks__that_err_are_those_of_the_fault(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct shard_plan plan;
        int n, rank[2];
    } rows[] = {
        {"tp.partial_sum_lost@rank=3", {.tp = 2, .ep = 2}, 1, {3}},
        {"tp.partial_sum_lost", {.tp = 2, .ep = 2}, 1, {3}},
        {"tp.shard_swapped@rank=2", {.tp = 2, .ep = 2}, 2, {2, 3}},
        {"tp.shard_swapped@rank=3", {.tp = 2, .ep = 2}, 2, {2, 3}},
        {"tp.shard_swapped@rank=1", {.tp = 4, .ep = 1}, 2, {1, 2}},
        {"tp.shard_swapped@rank=3", {.tp = 4, .ep = 1}, 2, {0, 3}},
        {"ep.expert_map_shift@rank=0", {.tp = 1, .ep = 2}, 1, {0}},
        {"ep.expert_map_shift", {.tp = 1, .ep = 2}, 0, {0}},
        {"ep.token_lost@row=2", {.tp = 1, .ep = 2}, 0, {0}},
        {"tp.double_reduce", {.tp = 2, .ep = 2}, 0, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shard_fault f;
        struct err err = ERR_INIT;
        int rank[2] = {-1, -1};
        (void)!shard_fault_parse(&f, rows[i].text, &rows[i].plan, &err);
        assert_ok(&err);
        assert_int_equal(shard_fault_ranks(&f.use, &rows[i].plan, rank), rows[i].n);
        for (int k = 0; k < rows[i].n; k++) assert_int_equal(rank[k], rows[i].rank[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault__at_each_rank_is_that_of_the_ranks),
        cmocka_unit_test(fault__of_uneven_parts_is_that_of_the_ranks),
        cmocka_unit_test(fault__of_another_group_is_not_seen),
        cmocka_unit_test(ranks__that_err_are_those_of_the_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
