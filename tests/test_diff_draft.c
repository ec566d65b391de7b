/* test_diff_draft.c: draft tokens that differ: near ties of logits that agree, and everything else.
 */
#include "harness/diff.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 3, V = 4 };

/* What one dump holds: logits and tokens of step 0, hidden of step 1. */
struct made {
    float logits[ROWS][V], hidden[ROWS][2];
    int32_t token[ROWS];
};

static const struct made truth = {
    .logits = {{1, 5, 2, 0}, {3, 3.000001f, 0, 1}, {0, 0, 0, 9}},
    .hidden = {{1, 2}, {3, 4}, {5, 6}},
    .token = {11, 11, 13},
};

static enum err_code compare(void **state, const struct made *subject, bool logits, struct diff *d)
{
    struct err err = ERR_INIT;
    const struct made *const sides[] = {subject, &truth};
    static const char *const names[] = {"s.safetensors", "t.safetensors"};
    for (int i = 0; i < 2; i++) {
        const struct st_part parts[] = {
            {"draft.0.logits", DT_F32, 2, {ROWS, V}, sides[i]->logits},
            {"draft.0.tokens", DT_I32, 1, {ROWS}, sides[i]->token},
            {"draft.1.hidden", DT_F32, 2, {ROWS, 2}, sides[i]->hidden},
        };
        write_safetensors(folder_path(state, names[i]), parts + !logits, 2 + logits, NULL, 0);
    }
    char s[FILE_PATH], t[FILE_PATH];
    snprintf(s, sizeof s, "%s", folder_path(state, names[0]));
    snprintf(t, sizeof t, "%s", folder_path(state, names[1]));
    const struct diff_request r = {.subject = s, .truth = t, .bound = 1e-4};
    enum err_code rc = diff_run(d, &r, &err);
    assert_int_equal(err.code, ERR_OK);
    return rc;
}

/* The tokens' judgement. */
static const struct tap_judgement *tokens_of(const struct diff *d)
{
    for (int64_t i = 0; i < d->rows.count; i++) {
        if (d->rows.pairs[i].subject->kind == TAP_DRAFT_TOKENS) return &d->taps[i];
    }
    fail_msg("no tokens were compared");
    return NULL;
}

static void near_tie__passes_and_its_later_steps_are_left_out(void **state)
{
    struct diff d;
    struct made s = truth;
    s.logits[1][0] = 3.00001f; /* now the larger one */
    s.token[1] = 10;
    s.hidden[1][0] = 77; /* it was fed another token */
    assert_int_equal(compare(state, &s, true, &d), ERR_OK);
    assert_int_equal(d.failed, 0);
    assert_int_equal(d.draft_ties.count, 1);
    const struct draft_tie *tie = &d.draft_ties.list[0];
    assert_int_equal(tie->step, 0);
    assert_int_equal(tie->row, 1);
    assert_int_equal(tie->subject, 10);
    assert_int_equal(tie->truth, 11);
    assert_true(tie->gap > 0 && tie->gap < 2e-6);
    assert_non_null(strstr(tokens_of(&d)->why, "1 near ties"));
    diff_close(&d);
}

static void other_row_of_a_later_step__is_still_compared(void **state)
{
    struct diff d;
    struct made s = truth;
    s.logits[1][0] = 3.00001f;
    s.token[1] = 10;
    s.hidden[2][0] = 77;
    assert_int_equal(compare(state, &s, true, &d), ERR_DIFF);
    assert_int_equal(d.failed, 1);
    assert_string_equal(d.rows.pairs[d.first].subject->name, "draft.1.hidden");
    diff_close(&d);
}

static void token__fails__when_the_logits_choose_the_same(void **state)
{
    struct diff d;
    struct made s = truth;
    s.token[0] = 12; /* a wrong map: same argmax, another id */
    assert_int_equal(compare(state, &s, true, &d), ERR_DIFF);
    assert_int_equal(d.draft_ties.count, 0);
    assert_int_equal(tokens_of(&d)->verdict, TAP_FAIL);
    assert_string_equal(tap_op(d.rows.pairs[d.first].subject->kind, false), "eagle.layer");
    diff_close(&d);
}

static void token__fails__beside_a_near_tie(void **state)
{
    struct diff d;
    struct made s = truth;
    s.logits[1][0] = 3.00001f;
    s.token[1] = 10;
    s.token[2] = 14;
    assert_int_equal(compare(state, &s, true, &d), ERR_DIFF);
    assert_int_equal(tokens_of(&d)->verdict, TAP_FAIL);
    diff_close(&d);
}

static void token__fails__when_the_logits_disagree_or_are_missing(void **state)
{
    struct diff d;
    struct made s = truth;
    s.logits[0][2] = 6;
    s.token[0] = 12;
    assert_int_equal(compare(state, &s, true, &d), ERR_DIFF);
    assert_int_equal(tokens_of(&d)->verdict, TAP_FAIL);
    assert_int_equal(d.failed, 2);
    diff_close(&d);
    s = truth;
    s.token[1] = 10;
    assert_int_equal(compare(state, &s, false, &d), ERR_DIFF);
    assert_int_equal(tokens_of(&d)->verdict, TAP_FAIL);
    diff_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(near_tie__passes_and_its_later_steps_are_left_out,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(other_row_of_a_later_step__is_still_compared, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(token__fails__when_the_logits_choose_the_same, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(token__fails__beside_a_near_tie, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(token__fails__when_the_logits_disagree_or_are_missing,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
