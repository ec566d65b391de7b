/* test_diagnose_ranks.c: a diagnosis that knows how the ranks of its subject share the model names
 * the rank; in another plan it names nothing. */
#include "harness/diff.h"
#include "tests/support.h"

#include <math.h>

#define K25 ASSAY_SOURCE_DIR "/fixtures/tiny-k25"
#define TP_LOST ASSAY_SOURCE_DIR "/fixtures/bugs/tp_lost.safetensors"

static struct diff_request request(const struct shard_plan *plan)
{
    return (struct diff_request){.subject = TP_LOST,
                                 .model = K25,
                                 .profile = "hf",
                                 .plan = plan,
                                 .bound = NAN,
                                 .threads = 1,
                                 .diagnose = true};
}

/* The dump of another engine says nothing of its ranks; whoever knows can. */
static void rank__is_that_of_the_plan_that_is_told(void **state)
{
    (void)state;
    static const struct {
        int tp;
        int64_t claimed, rank;
    } rows[] = {{4, 1, 3}, {2, 0, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct shard_plan plan = {.tp = rows[i].tp, .ep = 1, .reduce = DT_F32};
        struct diff d;
        struct diff_request r = request(&plan);
        struct err err = ERR_INIT;
        enum err_code rc = diff_run(&d, &r, &err);
        assert_ok(&err);
        assert_int_equal(rc, ERR_DIFF);
        assert_int_equal(d.diagnosis.claimed, rows[i].claimed);
        assert_int_equal(d.guilty.rank, rows[i].rank);
        if (rows[i].claimed > 0) {
            const struct claim *c = &d.diagnosis.claims[0];
            char text[FAULT_TEXT];
            assert_string_equal(fault_print(&c->use[0], text),
                                "tp.partial_sum_lost@layer=2,rank=3");
            assert_true(c->ranks == 1 && c->rank[0] == 3);
        }
        diff_close(&d);
    }
    const struct shard_plan three = {.tp = 3, .ep = 1, .reduce = DT_F32};
    struct diff d;
    struct err err = ERR_INIT;
    struct diff_request r = request(&three);
    (void)!diff_run(&d, &r, &err);
    assert_err(&err, ERR_INPUT, "shard plan", "heads", "3", "1, 2, 4");
    diff_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank__is_that_of_the_plan_that_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
