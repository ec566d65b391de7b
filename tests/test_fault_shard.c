/* test_fault_shard.c: faults of real ranks: each gives what its twin gives that imitates the ranks
 * in one process (fault_tp.c, fault_moe.c), at every site; where it cannot occur it is refused. */
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
} dsv3;

static int setup(void **state)
{
    struct err err = ERR_INIT;
    (void)state;
    golden_open(&dsv3.golden, "tiny-dsv3");
    (void)!loaded_open(&dsv3.loaded, dsv3.golden.model, &err);
    assert_ok(&err);
    dsv3.options = session_defaults();
    dsv3.options.precision = PRECISION_F64;
    dsv3.options.threads = 1;
    (void)!record_run(&dsv3.whole, &dsv3.loaded, &dsv3.golden.tokens, &dsv3.options, NULL, NULL,
                      &err);
    assert_ok(&err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    record_free(&dsv3.whole);
    loaded_close(&dsv3.loaded);
    golden_close(&dsv3.golden);
    return 0;
}

/* The same fault in one process. */
static void imitate(const char *text, struct tap_record *out)
{
    struct faults faults = {0};
    struct err err = ERR_INIT;
    (void)!faults_add(&faults, text, &err);
    assert_ok(&err);
    (void)!record_run(out, &dsv3.loaded, &dsv3.golden.tokens, &dsv3.options, &faults, NULL, &err);
    assert_ok(&err);
    faults_clear(&faults);
}

static void run_ranks(const char *text, struct shard_plan plan, struct shard_outcome *out)
{
    const struct shard_run r = {.loaded = &dsv3.loaded,
                                .tokens = &dsv3.golden.tokens,
                                .options = dsv3.options,
                                .plan = plan,
                                .fault = text};
    shard_ranks_run(&r, out);
    shard_ranks_ok(&r, out);
}

static int first_change(const struct tap_record *a)
{
    for (int i = 0; i < a->count; i++) {
        const struct recorded *t = &a->tap[i];
        if (!t->ints && record_relative(t, dsv3.whole.tap[i].data) > 1e-12) return i;
    }
    return -1;
}

/* Up to the first routing that comes out otherwise: past that two runs need not be near. */
static void assert_twins(const char *text, const struct tap_record *a, const struct tap_record *b,
                         double bound)
{
    for (int i = 0; i < a->count; i++) {
        const struct recorded *x = &a->tap[i], *y = &b->tap[i];
        assert_string_equal(x->name, y->name);
        if (x->ints) {
            assert_memory_equal(x->data, y->data, (size_t)(x->rows * x->cols) * sizeof(int32_t));
            continue;
        }
        double d = record_relative(x, y->data);
        if (!(d <= bound)) fail_msg("%s: %s: %g", text, x->name, d);
    }
}

#define ROBIN .map = EXPERT_MAP_ROUND_ROBIN
#define RANK(r) (1u << (r))

static const struct {
    const char *text; /* on the ranks */
    const char *twin; /* in one process */
    struct shard_plan plan;
    const char *first; /* the tap where it first shows */
    unsigned edits;    /* the ranks that edited something */
} rows[] = {
    {"tp.partial_sum_lost@layer=1,rank=1",
     "tp.partial_sum_lost@layer=1,rank=1,ranks=2",
     {.tp = 2, .ep = 1},
     "layers.1.attn",
     RANK(1)},
    {"tp.partial_sum_lost@layer=2",
     "tp.partial_sum_lost@layer=2,ranks=4",
     {.tp = 4, .ep = 1},
     "layers.2.attn",
     RANK(3)},
    {"tp.partial_sum_lost@layer=2,rank=0",
     "tp.partial_sum_lost@layer=2,rank=0,ranks=4",
     {.tp = 4, .ep = 1},
     "layers.2.attn",
     RANK(0)},
    {"tp.double_reduce@layer=0",
     "tp.double_reduce@layer=0,ranks=2",
     {.tp = 2, .ep = 1},
     "layers.0.attn",
     RANK(0) | RANK(1)},
    {"tp.double_reduce@layer=3",
     "tp.double_reduce@layer=3,ranks=2",
     {.tp = 2, .ep = 1},
     "layers.3.attn",
     RANK(0) | RANK(1)},
    {"tp.shard_swapped@layer=1,rank=0",
     "tp.shard_swapped@layer=1,rank=0,ranks=2",
     {.tp = 2, .ep = 1},
     "layers.1.attn",
     RANK(0) | RANK(1)},
    {"tp.shard_swapped@layer=2,rank=1",
     "tp.shard_swapped@layer=2,rank=1,ranks=4",
     {.tp = 4, .ep = 1},
     "layers.2.attn",
     RANK(1) | RANK(2)},
    {"tp.shard_swapped@layer=3,rank=3",
     "tp.shard_swapped@layer=3,rank=3,ranks=4",
     {.tp = 4, .ep = 1},
     "layers.3.attn",
     RANK(3) | RANK(0)},
    {"tp.reduce_bf16@layer=2",
     "tp.reduce_bf16@layer=2,ranks=2",
     {.tp = 2, .ep = 1},
     "layers.2.attn",
     RANK(0) | RANK(1)},
    {"ep.expert_map_shift@layer=2,rank=1",
     "ep.expert_map_shift@layer=2,rank=1,ranks=2",
     {.tp = 1, .ep = 2},
     "layers.2.routed",
     RANK(1)},
    {"ep.expert_map_shift@layer=3",
     "ep.expert_map_shift@layer=3",
     {.tp = 1, .ep = 4, ROBIN},
     "layers.3.routed",
     RANK(0) | RANK(1) | RANK(2) | RANK(3)},
    {"ep.token_lost@layer=2,row=3,rank=0",
     "ep.token_lost@layer=2,row=3,rank=0,ranks=2",
     {.tp = 1, .ep = 2},
     "layers.2.routed",
     RANK(0)},
    {"ep.combine_order@layer=3",
     "ep.combine_order@layer=3,ranks=2",
     {.tp = 1, .ep = 2, ROBIN},
     "layers.3.routed",
     RANK(0) | RANK(1)},
    {"ep.combine_order@layer=2",
     "ep.combine_order@layer=2,ranks=4",
     {.tp = 2, .ep = 4, ROBIN},
     "layers.2.routed",
     0xff},
};

static void fault__of_ranks_is_its_twin_in_one_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tap_record twin;
        struct shard_outcome o;
        struct shard_plan plan = rows[i].plan;
        plan.reduce = DT_F64;
        assert_true(fault_is_of_ranks(rows[i].text));
        imitate(rows[i].twin, &twin);
        run_ranks(rows[i].text, plan, &o);
        assert_twins(rows[i].text, &o.taps, &twin, 1e-11);
        int first = first_change(&o.taps);
        if (first < 0) fail_msg("%s changed nothing", rows[i].text);
        assert_string_equal(o.taps.tap[first].name, rows[i].first);
        for (int r = 0; r < shard_world(&plan); r++) {
            if ((o.edits[r] > 0) != (rows[i].edits >> r & 1))
                fail_msg("%s: rank %d edited %d times", rows[i].text, r, (int)o.edits[r]);
        }
        shard_ranks_free(&o);
        record_free(&twin);
    }
}

/* Without a row one is taken, without a rank that of its first expert: some row changes, alone. */
static void token__is_lost_in_one_row_where_none_is_named(void **state)
{
    (void)state;
    struct shard_outcome o;
    run_ranks("ep.token_lost@layer=3", (struct shard_plan){.tp = 2, .ep = 2, .reduce = DT_F64}, &o);
    const struct recorded *got = record_find(&o.taps, "layers.3.routed");
    const struct recorded *want = record_find(&dsv3.whole, "layers.3.routed");
    int changed = 0;
    for (int64_t r = 0; r < got->rows; r++) {
        double most = 0;
        for (int64_t c = 0; c < got->cols; c++) {
            int64_t at = r * got->cols + c;
            double d = ((const double *)got->data)[at] - ((const double *)want->data)[at];
            if (d * d > most) most = d * d;
        }
        changed += most > 1e-12;
    }
    assert_int_equal(changed, 1);
    int64_t edits = 0;
    for (int r = 0; r < 4; r++) edits += o.edits[r];
    assert_int_equal(edits, 1);
    shard_ranks_free(&o);
}

/* A fault at a site that never comes up changes no bit, and says so. */
static void fault__elsewhere_changes_nothing(void **state)
{
    (void)state;
    struct shard_outcome o, clean;
    const struct shard_plan plan = {.tp = 2, .ep = 2, .reduce = DT_F64};
    static const char *const texts[] = {"tp.partial_sum_lost@layer=9", "ep.token_lost@row=900",
                                        "ep.expert_map_shift@layer=0"};
    run_ranks(NULL, plan, &clean);
    for (int i = 0; i < 3; i++) {
        run_ranks(texts[i], plan, &o);
        assert_int_equal(record_first_change(&o.taps, &clean.taps), -1);
        for (int r = 0; r < 4; r++) assert_int_equal(o.edits[r], 0);
        shard_ranks_free(&o);
    }
    shard_ranks_free(&clean);
}

static void fault__that_cannot_occur_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct shard_plan plan;
        const char *where, *found, *wanted;
    } refused[] = {
        {"tp.double_reduce",
         {.tp = 1, .ep = 1},
         "tp.double_reduce",
         "--tp 1 --ep 1",
         "two ranks or more"},
        {"tp.shard_swapped",
         {.tp = 1, .ep = 4},
         "tp.shard_swapped",
         "--tp 1 --ep 4",
         "--tp 2 or more"},
        {"ep.token_lost", {.tp = 4, .ep = 1}, "ep.token_lost", "--tp 4 --ep 1", "--ep 2 or more"},
        {"ep.combine_order",
         {.tp = 1, .ep = 2},
         "ep.combine_order",
         "--expert-map contiguous",
         "--expert-map round-robin"},
        {"tp.partial_sum_lost@rank=4",
         {.tp = 2, .ep = 2},
         "tp.partial_sum_lost: rank",
         "4",
         "0 to 3"},
        {"tp.partial_sum_lost@ranks=8",
         {.tp = 2, .ep = 2},
         "tp.partial_sum_lost: ranks",
         "8",
         "none: the run has 4 ranks"},
        {"tp.partial_sum_lost@depth=8",
         {.tp = 2, .ep = 2},
         "tp.partial_sum_lost",
         "depth=8",
         "KEY=VALUE"},
        {"mla.no_mscale", {.tp = 2, .ep = 2}, "mla.no_mscale", "an edit of an op", "tp.* or ep.*"},
        {"file.truncated", {.tp = 2, .ep = 2}, "file.", NULL, NULL},
        {"tp.nothing", {.tp = 2, .ep = 2}, "tp.nothing", "no such fault", "assay fault list"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct shard_fault f;
        struct err err = ERR_INIT;
        (void)!shard_fault_parse(&f, refused[i].text, &refused[i].plan, &err);
        assert_err(&err, ERR_USAGE, "fault", refused[i].where, refused[i].found, refused[i].wanted);
    }
    struct shard_fault f;
    struct err err = ERR_INIT;
    const struct shard_plan plan = {.tp = 2, .ep = 2};
    (void)!shard_fault_parse(&f, "tp.partial_sum_lost@ranks=2,rank=3", &plan, &err);
    assert_ok(&err);
    assert_false(fault_is_of_ranks("mla.no_mscale@layer=2"));
    assert_false(fault_is_of_ranks("tp.double"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault__of_ranks_is_its_twin_in_one_process),
        cmocka_unit_test(token__is_lost_in_one_row_where_none_is_named),
        cmocka_unit_test(fault__elsewhere_changes_nothing),
        cmocka_unit_test(fault__that_cannot_occur_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
