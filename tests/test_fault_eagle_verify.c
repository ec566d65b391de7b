/* test_fault_eagle_verify.c: each fault of the verification, token by token, and speculation that
 * is found lossy under it. By their law: test_law.c. */
#include "core/eagle.h"
#include "core/fault.h"
#include "harness/lossless.h"
#include "tests/drafted.h"
#include "tests/fault_bench.h"
#include "tests/support.h"

#include <string.h>

enum { V = 4, NODES = 4 };

struct round {
    int32_t parent[NODES], path[NODES];
    int64_t token[NODES], accepted, next;
    double target[NODES * V], draft[NODES * V], coin[NODES], draw[NODES];
    struct eagle_verify op;
};

static void round_make(struct round *r, bool greedy)
{
    *r = (struct round){.parent = {-1, 0, 1, 2}, .token = {0, 1, 2, 3}};
    for (int i = 0; i < NODES * V; i++) r->target[i] = r->draft[i] = 0.25;
    r->op = (struct eagle_verify){.nodes = NODES,
                                  .V = V,
                                  .parent = r->parent,
                                  .token = r->token,
                                  .target = r->target,
                                  .greedy = greedy,
                                  .coin = greedy ? NULL : r->coin,
                                  .draw = greedy ? NULL : r->draw,
                                  .path = r->path,
                                  .accepted = &r->accepted,
                                  .next = &r->next};
}

static void row_is(double *rows, int node, double a, double b, double c, double d)
{
    const double x[V] = {a, b, c, d};
    memcpy(rows + node * V, x, sizeof x);
}

static void verify(struct round *r, const char *fault)
{
    struct err err = ERR_INIT;
    struct arena arena = ARENA_INIT;
    struct run run = {.arena = &arena, .threads = 1, .precision = PRECISION_F64};
    if (fault)
        bench_fault(fault, "eagle.verify", &r->op, &run);
    else if (eagle_verify_ref(&r->op, &run, &err) != ERR_OK)
        assert_ok(&err);
    arena_release(&arena, NULL);
}

static void accept_unverified__takes_the_whole_chain(void **state)
{
    struct round r;
    (void)state;
    round_make(&r, true);
    row_is(r.target, 0, 5, 0, 0, 0); /* wants 0, is offered 1 */
    row_is(r.target, 3, 0, 0, 7, 0);
    verify(&r, NULL);
    assert_int_equal(r.accepted, 0);
    assert_int_equal(r.next, 0);
    verify(&r, "eagle.accept_unverified");
    assert_int_equal(r.accepted, 3);
    assert_int_equal(r.path[3], 3);
    assert_int_equal(r.next, 2);
}

static void wrong_bonus__repeats_the_row_before__after_a_whole_path_alone(void **state)
{
    struct round r;
    (void)state;
    round_make(&r, true);
    row_is(r.target, 0, 0, 1, 0, 0);
    row_is(r.target, 1, 0, 0, 1, 0);
    row_is(r.target, 2, 0, 0, 0, 1);
    row_is(r.target, 3, 9, 0, 0, 0);
    verify(&r, NULL);
    assert_int_equal(r.next, 0);
    verify(&r, "eagle.wrong_bonus");
    assert_int_equal(r.accepted, 3);
    assert_int_equal(r.next, 3);
    row_is(r.target, 2, 1, 0, 0, 0); /* the last draft is refused: a correction, no bonus */
    verify(&r, "eagle.wrong_bonus");
    assert_int_equal(r.accepted, 2);
    assert_int_equal(r.next, 0);
}

static void draw_from_p__may_say_what_was_refused(void **state)
{
    struct round r;
    (void)state;
    round_make(&r, false);
    row_is(r.target, 0, 0.1, 0.8, 0.1, 0);
    r.coin[1] = 0.9; /* refuses token 1 */
    r.draw[0] = 0.5; /* of p: token 1; of what is left: the middle of 0 and 2 */
    verify(&r, NULL);
    assert_int_equal(r.accepted, 0);
    assert_int_not_equal(r.next, 1);
    verify(&r, "eagle.draw_from_p");
    assert_int_equal(r.accepted, 0);
    assert_int_equal(r.next, 1);
}

/* q = 0.64 against p = 0.5: accepted below 0.78. At twice the temperature q is 0.8 / 2. */
static void q_temperature__accepts_by_another_q(void **state)
{
    struct round r;
    (void)state;
    round_make(&r, false);
    r.op.nodes = 2;
    r.op.draft = r.draft;
    row_is(r.target, 0, 0.5, 0.5, 0, 0);
    row_is(r.draft, 1, 0.04, 0.64, 0.16, 0.16);
    r.coin[1] = 0.9;
    verify(&r, NULL);
    assert_int_equal(r.accepted, 0);
    verify(&r, "eagle.q_temperature");
    assert_int_equal(r.accepted, 1);
    verify(&r, "eagle.q_temperature@factor=1");
    assert_int_equal(r.accepted, 0);
}

static void siblings_share_coin__refuses_all_children_alike(void **state)
{
    struct round r;
    (void)state;
    round_make(&r, false);
    r.parent[2] = r.parent[3] = 0;
    r.coin[1] = 0.9;
    r.coin[2] = 0.1; /* 1/3 of what is left: accepted */
    verify(&r, NULL);
    assert_int_equal(r.path[1], 2);
    verify(&r, "eagle.siblings_share_coin");
    assert_int_equal(r.accepted, 0);
}

/* ---- speculation ---- */

static const int64_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
enum { PROMPT = sizeof prompt / sizeof prompt[0], NEW = 40, TREE = 7 };

static struct lossless text_under(struct drafted *d, bool tree, const char *fault, int64_t *changed)
{
    const struct speculate_options how = {.drafts = TREE, .tree = tree, .top_k = TREE};
    struct faults faults = {.count_changes = true};
    struct err err = ERR_INIT;
    struct lossless l;
    drafted_start(d, &how, PROMPT + NEW + TREE + 8);
    if (fault && faults_add(&faults, fault, &err) != ERR_OK) assert_ok(&err);
    d->session.run.faults = d->s.run.faults = fault ? &faults : NULL;
    drafted_begin(d, prompt, PROMPT);
    while (d->s.length - d->s.prompt < NEW) drafted_round(d);
    struct tokens t = drafted_tokens(prompt, PROMPT);
    if (lossless_greedy(&d->loaded, &d->options, &t, d->s.text + PROMPT, d->s.length - PROMPT, &l,
                        &err) != ERR_OK)
        assert_ok(&err);
    *changed = fault ? faults.use[0].changed : 0;
    tokens_free(&t);
    faults_clear(&faults);
    drafted_stop(d);
    return l;
}

static void greedy_speculation__is_found_lossy_under_faults_of_its_verification(void **state)
{
    static const char *const faults[] = {"eagle.accept_unverified", "eagle.wrong_bonus"};
    struct drafted d;
    int64_t changed;
    drafted_models(&d, state, DRAFTED_LLAMA);
    assert_true(text_under(&d, true, NULL, &changed).holds);
    for (int i = 0; i < 2; i++) {
        struct lossless l = text_under(&d, true, faults[i], &changed);
        assert_true(changed > 0);
        if (l.holds) fail_msg("%s: found lossless", faults[i]);
        assert_int_not_equal(l.got, l.wanted);
    }
    /* A wrong map of the draft costs acceptance, and no token. */
    assert_true(text_under(&d, false, "eagle.d2t_absolute", &changed).holds);
    assert_true(changed > 0);
    drafted_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_unverified__takes_the_whole_chain),
        cmocka_unit_test(wrong_bonus__repeats_the_row_before__after_a_whole_path_alone),
        cmocka_unit_test(draw_from_p__may_say_what_was_refused),
        cmocka_unit_test(q_temperature__accepts_by_another_q),
        cmocka_unit_test(siblings_share_coin__refuses_all_children_alike),
        cmocka_unit_test_setup_teardown(
            greedy_speculation__is_found_lossy_under_faults_of_its_verification, folder_setup,
            folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
