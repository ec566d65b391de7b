/* test_speculate_tree.c: EAGLE-2's dynamic tree. What the draft says of a node is the same when the
 * node's path alone is fed; which nodes are fed and kept follows from the scores; the invariants of
 * a tree hold. */
#include "harness/speculate_parts.h"
#include "tests/drafted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t prompt[] = {3, 7, 1, 0, 11};
enum { PROMPT = sizeof prompt / sizeof prompt[0], ROUNDS = 4 };

/* A second speculation in the same state, whose pool holds one path. */
static void feed_path(struct speculate *one, const struct pool *pool, int64_t node)
{
    struct err err = ERR_INIT;
    int64_t path[64], n = 0, last = -1;
    for (int64_t k = node; k >= 0; k = pool->parent[k]) path[n++] = k;
    one->pool->count = one->pool->fed = 0;
    one->draft.length[0] = one->length - 1;
    while (n > 0) {
        last = draft_add(one->pool, last, pool->token[path[--n]], 0);
        if (draft_feed(one, &last, 1, &err) != ERR_OK) assert_ok(&err);
    }
}

static double log_probability(const double *logits, int64_t n, int64_t id)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, logits[i]);
    for (int64_t i = 0; i < n; i++) sum += exp(logits[i] - max);
    return logits[id] - max - log(sum);
}

/* The children of `parent` in the pool are the top_k tokens of these logits, likeliest first, the
 * lower id where they tie, with the score of their path. */
static void assert_children(const struct speculate *s, int64_t parent, const double *logits)
{
    const struct pool *pool = s->pool;
    int64_t n = s->head->config.draft_vocab, k = 0;
    double base = parent < 0 ? 0 : pool->score[parent];
    bool taken[DRAFTED_IDS] = {false};
    for (int64_t i = 0; i < pool->count; i++) {
        if (pool->parent[i] != parent) continue;
        int64_t best = -1;
        for (int64_t id = 0; id < n; id++) {
            if (!taken[id] && (best < 0 || logits[id] > logits[best])) best = id;
        }
        taken[best] = true;
        k++;
        assert_int_equal(pool->token[i], s->head->target_id[best]);
        assert_int_equal(pool->level[i], parent < 0 ? 0 : pool->level[parent] + 1);
        assert_true(fabs(pool->score[i] - base - log_probability(logits, n, best)) <= 1e-12);
    }
    assert_int_equal(k, s->options.top_k);
}

/* How many nodes from `first` to `end` come before node i: higher scores, or equal ones in a lower
 * place. */
static int64_t rank_of(const struct pool *pool, int64_t i, int64_t first, int64_t end)
{
    int64_t n = 0;
    for (int64_t j = first; j < end; j++) {
        if (pool->score[j] > pool->score[i] || (pool->score[j] == pool->score[i] && j < i)) n++;
    }
    return n;
}

/* Of every level but the last the top_k best are fed; of all, as many as there are drafts kept. */
static void assert_selection(const struct speculate *s)
{
    const struct pool *pool = s->pool;
    const struct draft_tree *t = &s->tree;
    int64_t node = 1;
    for (int64_t i = 0; i < pool->count; i++) {
        int64_t first = i, end = i;
        while (first > 0 && pool->level[first - 1] == pool->level[i]) first--;
        while (end < pool->count && pool->level[end] == pool->level[i]) end++;
        bool fed =
            pool->level[i] < s->options.depth && rank_of(pool, i, first, end) < s->options.top_k;
        assert_int_equal(pool->place[i] >= 0, fed);
        if (rank_of(pool, i, 0, pool->count) >= s->options.drafts) continue;
        assert_int_equal(t->token[node], pool->token[i]);
        assert_int_equal(t->depth[node], pool->level[i] + 1);
        assert_int_equal(t->token[t->parent[node]], pool->parent[i] < 0
                                                        ? s->text[s->length - 1]
                                                        : pool->token[pool->parent[i]]);
        node++;
    }
    assert_int_equal(node, t->nodes);
}

static void assert_tree(const struct draft_tree *t)
{
    assert_int_equal(t->parent[0], -1);
    for (int64_t i = 1; i < t->nodes; i++) {
        assert_in_range(t->parent[i], 0, i - 1);
        assert_int_equal(t->depth[i], t->depth[t->parent[i]] + 1);
        for (int64_t j = 1; j < i; j++)
            assert_false(t->parent[j] == t->parent[i] && t->token[j] == t->token[i]);
    }
}

static void check_drafts(struct drafted *d, struct drafted *path)
{
    struct speculate *s = &d->s, *one = &path->s;
    struct err err = ERR_INIT;
    s->pool->count = s->pool->fed = 0;
    s->tree.nodes = 1;
    s->tree.parent[0] = -1;
    s->tree.token[0] = s->text[s->length - 1];
    s->tree.depth[0] = 0;
    if (draft_tree(s, &err) != ERR_OK) assert_ok(&err);
    const struct pool *pool = s->pool;
    const struct speculate_options *o = &s->options;
    assert_int_equal(pool->count, o->top_k + o->depth * o->top_k * o->top_k);
    assert_children(s, -1, s->logits);
    for (int64_t i = 0; i < pool->count; i++) {
        if (pool->place[i] < 0) continue;
        feed_path(one, pool, i);
        assert_children(s, i, one->pool->logits);
    }
    assert_selection(s);
    assert_tree(&s->tree);
    one->draft.length[0] = one->length - 1;
    s->draft.length[0] = s->length - 1;
}

static void check_shape(void **state, enum drafted_head kind, struct speculate_options how)
{
    struct drafted d, path;
    const struct speculate_options chain = {.drafts = 8};
    drafted_models(&d, state, kind);
    drafted_models(&path, state, kind);
    drafted_start(&d, &how, 64);
    drafted_start(&path, &chain, 64);
    drafted_begin(&d, prompt, PROMPT);
    drafted_begin(&path, prompt, PROMPT);
    for (int round = 0; round < ROUNDS; round++) {
        check_drafts(&d, &path);
        drafted_round(&d);
        while (path.s.length < d.s.length) drafted_round(&path);
        if (path.s.length > d.s.length) break;
    }
    drafted_close(&d);
    drafted_close(&path);
}

static void tree__is_what_the_scores_say(void **state)
{
    static const struct speculate_options shapes[] = {
        {.tree = true, .depth = 0, .top_k = 1, .drafts = 1},
        {.tree = true, .depth = 0, .top_k = 5, .drafts = 3},
        {.tree = true, .depth = 3, .top_k = 1, .drafts = 4},
        {.tree = true, .depth = 3, .top_k = 2, .drafts = 60},
        {.tree = true, .depth = 4, .top_k = 3, .drafts = 12},
        {.tree = true, .depth = 2, .top_k = 8, .drafts = 30},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_shape(state, DRAFTED_LLAMA, shapes[i]);
        check_shape(state, DRAFTED_MLA, shapes[i]);
    }
}

/* All logits equal: every score ties with its siblings'. */
static void ties__go_to_the_lower_place(void **state)
{
    const struct speculate_options how = {.tree = true, .depth = 0, .top_k = 5, .drafts = 3};
    struct drafted d;
    struct err err = ERR_INIT;
    drafted_models(&d, state, DRAFTED_LLAMA);
    drafted_start(&d, &how, 64);
    drafted_begin(&d, prompt, PROMPT);
    for (int i = 0; i < DRAFTED_DRAFT_IDS; i++) d.s.logits[i] = i == 6 ? 2 : 1;
    d.s.pool->count = d.s.pool->fed = 0;
    d.s.tree.nodes = 1;
    if (draft_tree(&d.s, &err) != ERR_OK) assert_ok(&err);
    static const int wanted[] = {6, 0, 1, 2, 3};
    for (int i = 0; i < 5; i++) assert_int_equal(d.s.pool->token[i], d.head.target_id[wanted[i]]);
    assert_int_equal(d.s.tree.nodes, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(d.s.tree.token[i + 1], d.head.target_id[wanted[i]]);
    drafted_close(&d);
}

/* A tree of one child a node is the chain. */
static void tree__of_width_one_is_the_chain(void **state)
{
    const struct speculate_options thin = {.tree = true, .depth = 3, .top_k = 1, .drafts = 4},
                                   chain = {.drafts = 4};
    struct drafted a, b;
    drafted_models(&a, state, DRAFTED_MLA);
    drafted_models(&b, state, DRAFTED_MLA);
    drafted_start(&a, &thin, 64);
    drafted_start(&b, &chain, 64);
    drafted_begin(&a, prompt, PROMPT);
    drafted_begin(&b, prompt, PROMPT);
    while (a.s.length < 40) {
        drafted_round(&a);
        drafted_round(&b);
        assert_int_equal(a.s.accepted, b.s.accepted);
        assert_int_equal(a.s.tree.nodes, 5);
        assert_memory_equal(a.s.tree.token, b.s.tree.token, 5 * sizeof *a.s.tree.token);
        assert_memory_equal(a.s.text, b.s.text, (size_t)a.s.length * sizeof *a.s.text);
    }
    drafted_close(&a);
    drafted_close(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(tree__is_what_the_scores_say),
        TEST(ties__go_to_the_lower_place),
        TEST(tree__of_width_one_is_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
