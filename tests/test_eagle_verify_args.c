/* test_eagle_verify_args.c: op "eagle.verify": the greedy walk against the choice among all leaves,
 * and each broken argument by name. The law of sampling: tests/test_eagle_verify.c */
#include "core/eagle.h"

#include "tests/support.h"
#include "tests/verify_round.h"

#include <math.h>
#include <string.h>

/* ---- greedy ---- */

/* Every leaf's path, the leading run in which each token is the argmax before it, the longest: as
 * SafeAILab's evaluate_posterior. */
static int64_t longest_run(const struct tree *t, const int64_t *best, int64_t *end)
{
    int64_t most = -1;
    for (int64_t leaf = 0; leaf < t->nodes; leaf++) {
        int64_t path[ROUND_NODES], depth = 0, n = 0;
        for (int64_t i = leaf; i > 0; i = t->parent[i]) depth++;
        for (int64_t i = leaf, d = depth; i >= 0; i = t->parent[i]) path[d--] = i;
        while (n < depth && t->token[path[n + 1]] == best[path[n]]) n++;
        if (n > most) {
            most = n;
            *end = path[n];
        }
    }
    return most;
}

static void greedy__takes_the_longest_path_that_the_target_confirms(void **state)
{
    (void)state;
    for (int t = 0; t < ROUND_TREES; t++) {
        int64_t cases = 1;
        for (int64_t i = 0; i < round_trees[t].nodes; i++) cases *= 3;
        for (int64_t n = 0; n < cases; n++) {
            struct round r;
            int64_t best[ROUND_NODES], end = 0, code = n;
            round_make(&r, round_trees[t].nodes, 3, round_trees[t].parent, round_trees[t].token);
            r.op.greedy = true;
            r.op.coin = r.op.draw = NULL;
            for (int64_t i = 0; i < round_trees[t].nodes; i++, code /= 3) {
                best[i] = code % 3;
                for (int64_t x = 0; x < 3; x++) r.target[i * 3 + x] = x == best[i] ? 1 : -2;
            }
            round_play(&r);
            assert_int_equal(r.accepted, longest_run(&round_trees[t], best, &end));
            assert_int_equal(r.path[r.accepted], end);
            assert_int_equal(r.next, best[end]);
            assert_int_equal(r.path[0], 0);
        }
    }
}

static void greedy__refuses_nan(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct round r;
    round_make(&r, 2, 3, (const int32_t[]){-1, 0}, (const int64_t[]){0, 2});
    r.op.greedy = true;
    r.target[4] = NAN;
    assert_int_equal(round_try(&r, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "eagle.verify", "node 1, token 1", "NaN", "logits");
}

static void greedy__ties_go_to_the_lower_id(void **state)
{
    (void)state;
    struct round r;
    round_make(&r, 3, 3, (const int32_t[]){-1, 0, 0}, (const int64_t[]){0, 2, 1});
    r.op.greedy = true;
    const double z[9] = {-1, 4, 4, 7, 7, 7, 0, 0, 1};
    memcpy(r.target, z, sizeof z);
    round_play(&r);
    assert_int_equal(r.accepted, 1);
    assert_int_equal(r.path[1], 2);
    assert_int_equal(r.next, 2);
}

/* ---- refusals ---- */

/* A good chain of two drawn drafts, with one number changed. */
enum place {
    AT_NODES,
    AT_IDS,
    AT_PARENT,
    AT_TOKEN,
    AT_TARGET,
    AT_DRAFT,
    AT_COIN,
    AT_DRAW,
    AT_TWIN
};

static const struct {
    const char *where, *found;
    enum place place;
    int i;
    double value;
} broken[] = {
    {"", "nodes = 0", AT_NODES, 0, 0},
    {"", "V = 0", AT_IDS, 0, 0},
    {"node 0", "parent 0", AT_PARENT, 0, 0},
    {"node 1", "parent 1", AT_PARENT, 1, 1},
    {"node 2", "parent -1", AT_PARENT, 2, -1},
    {"node 2", "a branch", AT_PARENT, 2, 0},
    {"nodes 1 and 2", "siblings with token 1", AT_TWIN, 2, 1},
    {"node 1", "token -1", AT_TOKEN, 1, -1},
    {"node 2", "token 3", AT_TOKEN, 2, 3},
    {"node 1", "token 2, whose draft probability is 0", AT_TOKEN, 1, 2},
    {"", "no coin", AT_COIN, -1, 0},
    {"", "no draw", AT_DRAW, -1, 0},
    {"node 1", "a coin of 1", AT_COIN, 1, 1},
    {"node 2", "a coin of nan", AT_COIN, 2, NAN},
    {"node 0", "a draw of -0.1", AT_DRAW, 0, -0.1},
    {"node 1, target probability of token 1", "nan", AT_TARGET, 4, NAN},
    {"node 1, target probability of token 0", "-0.5", AT_TARGET, 3, -0.5},
    {"node 0, target probability of token 0", "7", AT_TARGET, 0, 7},
    {"node 2", "target probability that sums to 1.1", AT_TARGET, 8, 0.5},
    {"node 1, draft probability of token 2", "nan", AT_DRAFT, 5, NAN},
    {"node 1", "draft probability that sums to 0.3", AT_DRAFT, 3, 0},
};

static void change(struct round *r, enum place place, int i, double value)
{
    if (place == AT_NODES) r->op.nodes = (int64_t)value;
    if (place == AT_IDS) r->op.V = (int64_t)value;
    if (place == AT_PARENT) r->parent[i] = (int32_t)value;
    if (place == AT_TOKEN || place == AT_TWIN) r->token[i] = (int64_t)value;
    if (place == AT_TARGET) r->target[i] = value;
    if (place == AT_DRAFT) r->draft[i] = value;
    if (place == AT_COIN && i >= 0) r->coin[i] = value;
    if (place == AT_DRAW && i >= 0) r->draw[i] = value;
    if (place == AT_COIN && i < 0) r->op.coin = NULL;
    if (place == AT_DRAW && i < 0) r->op.draw = NULL;
    if (place == AT_TWIN) {
        r->op.draft = NULL;
        r->parent[i] = 0;
    }
}

static void check__refuses_each_broken_argument(void **state)
{
    (void)state;
    const double target[3] = {0.25, 0.35, 0.4}, drawn[3] = {0.7, 0.3, 0};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct err err = ERR_INIT;
        struct round r;
        round_make(&r, 3, 3, (const int32_t[]){-1, 0, 1}, (const int64_t[]){0, 1, 0});
        r.op.draft = r.draft;
        for (int n = 0; n < 3; n++) {
            memcpy(r.target + 3 * n, target, sizeof target);
            memcpy(r.draft + 3 * n, drawn, sizeof drawn);
        }
        round_play(&r);
        change(&r, broken[i].place, broken[i].i, broken[i].value);
        if (round_try(&r, &err) == ERR_OK) fail_msg("accepted: %s", broken[i].found);
        assert_err(&err, ERR_INPUT, "eagle.verify", broken[i].where, broken[i].found, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy__takes_the_longest_path_that_the_target_confirms),
        cmocka_unit_test(greedy__refuses_nan),
        cmocka_unit_test(greedy__ties_go_to_the_lower_id),
        cmocka_unit_test(check__refuses_each_broken_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
