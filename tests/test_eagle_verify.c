/* test_eagle_verify.c: op "eagle.verify": the exact law of what is emitted, over all coins.
 *
 * The op is a black box here. Its result is piecewise constant in every coin and draw, so the ends
 * of the pieces are found by bisection, and their lengths are probabilities: no sampling. The law
 * that must come out is the target's own, whatever was drafted. Greedy, and refusals:
 * tests/test_eagle_verify_args.c */
#include "core/eagle.h"

#include "tests/support.h"
#include "tests/verify_round.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NODES = ROUND_NODES, IDS = ROUND_IDS, DEPTH = 3, TABLE = IDS * IDS * IDS };

/* ---- laws that are hard on a verifier ---- */

#define TINY 1e-300
#define ALMOST 0x1.fffffffffffffp-1 /* 1 - 2^-53 */

static const double laws[][IDS] = {
    {0.25, 0.35, 0.4, 0},
    {0.7, 0.2, 0.1, 0},
    {1, 0, 0, 0},
    {0, 0, 1, 0},
    {0.5, 0, 0.5, 0},
    {1.0 - 2 * TINY, TINY, TINY, 0},
    {ALMOST, 0, 0x1p-53, 0},
    {0, 0.125, 0.875, 0},
    {0.1, 0.2, 0.3, 0.4},
    {0, 0, 0, 1},
    {0.25, 0.25, 0.25, 0.25},
    {TINY, 0.5, TINY, 0.5},
    {0.3, 0, 0x1p-53, 0.7 - 1e-9},
};
enum { LAWS3 = 8, LAWS = sizeof laws / sizeof laws[0] };

/* The law of case `a` after `count` tokens: another one for every context. */
static void law_at(int64_t V, int a, const int64_t *tokens, int count, double *out)
{
    int n = V == 3 ? LAWS3 : LAWS, at = a;
    double sum = 0;
    for (int i = 0; i < count; i++) at += (int)(3 * i + 2 + 5 * tokens[i]);
    for (int64_t x = 0; x < V; x++) sum += laws[at % n][x];
    for (int64_t x = 0; x < V; x++) out[x] = laws[at % n][x] / sum;
}

/* ---- the exact law ---- */

/* What was emitted, by the first DEPTH tokens; what a round did not emit the target adds. */
struct outcome {
    int64_t V;
    int a; /* case of the target's laws */
    double table[TABLE];
    double accepted[NODES]; /* of each node */
};

static void spread(struct outcome *o, double weight, const int64_t *tokens, int count)
{
    if (count >= DEPTH) {
        o->table[(tokens[0] * o->V + tokens[1]) * o->V + tokens[2]] += weight;
        return;
    }
    double p[IDS];
    int64_t more[DEPTH];
    memcpy(more, tokens, (size_t)count * sizeof *tokens);
    law_at(o->V, o->a, tokens, count, p);
    for (int64_t x = 0; x < o->V; x++) {
        more[count] = x;
        spread(o, weight * p[x], more, count + 1);
    }
}

static void emit(struct outcome *o, const struct round *r, double weight)
{
    int64_t tokens[NODES + 1];
    for (int64_t i = 0; i < r->accepted; i++) tokens[i] = r->token[r->path[i + 1]];
    tokens[r->accepted] = r->next;
    for (int64_t i = 1; i <= r->accepted; i++) o->accepted[r->path[i]] += weight;
    spread(o, weight, tokens, (int)r->accepted + 1);
}

/* The largest v below `high` at which the result still is that of v = low. */
static double piece_end(struct round *r, double *v, double low)
{
    *v = low;
    round_play(r);
    struct round first = *r;
    double from = low, to = 1;
    for (int i = 0; i < 60 && from < to; i++) {
        double middle = from + (to - from) / 2;
        if (middle <= from || middle >= to) break;
        *v = middle;
        round_play(r);
        if (round_same(r, &first))
            from = middle;
        else
            to = middle;
    }
    *v = nextafter(1, 0);
    round_play(r);
    *v = low;
    return round_same(r, &first) ? 1 : to;
}

/* All pieces of the draw at the node where the path ends. */
static void enumerate_draws(struct outcome *o, struct round *r, double weight)
{
    round_play(r);
    int64_t end = r->path[r->accepted];
    for (double low = 0; low < 1;) {
        double next = piece_end(r, &r->draw[end], low);
        r->draw[end] = low;
        round_play(r);
        emit(o, r, weight * (next - low));
        low = next;
    }
    r->draw[end] = 0;
}

/* Both pieces of every coin that decides something, given those before it: a child's coin counts
 * once its ancestors and earlier siblings, all of lower index, are settled. */
static void enumerate(struct outcome *o, struct round *r, int64_t node, double weight)
{
    if (node >= r->op.nodes || node >= NODES) {
        enumerate_draws(o, r, weight);
        return;
    }
    for (int64_t i = node; i < r->op.nodes; i++) r->coin[i] = 0;
    double end = piece_end(r, &r->coin[node], 0);
    r->coin[node] = 0;
    enumerate(o, r, node + 1, weight * end);
    if (end >= 1) return;
    r->coin[node] = nextafter(1, 0);
    enumerate(o, r, node + 1, weight * (1 - end));
    r->coin[node] = 0;
}

/* First tokens, pairs, triples: all of them the target's. */
static void assert_lossless(const struct outcome *o, const char *what)
{
    double p0[IDS], p1[IDS], p2[IDS], sum = 0;
    law_at(o->V, o->a, NULL, 0, p0);
    for (int64_t x = 0; x < o->V; x++) {
        law_at(o->V, o->a, &x, 1, p1);
        for (int64_t y = 0; y < o->V; y++) {
            const int64_t two[2] = {x, y};
            law_at(o->V, o->a, two, 2, p2);
            for (int64_t z = 0; z < o->V; z++) {
                double got = o->table[(x * o->V + y) * o->V + z], wanted = p0[x] * p1[y] * p2[z];
                sum += got;
                if (!(fabs(got - wanted) <= 1e-14))
                    fail_msg("%s, target %d: P(%d, %d, %d) = %.17g, wanted %.17g", what, o->a,
                             (int)x, (int)y, (int)z, got, wanted);
            }
        }
    }
    assert_true(fabs(sum - 1) <= 1e-13);
}

/* ---- chains ---- */

/* The law that drafts are drawn from after `count` tokens: of Vd ids at most. */
static void draft_law(int64_t V, int64_t Vd, int b, const int64_t *tokens, int count, double *out)
{
    double sum = 0;
    for (;; b++, sum = 0) {
        law_at(V, b, tokens, count, out);
        for (int64_t x = Vd; x < V; x++) out[x] = 0;
        for (int64_t x = 0; x < Vd; x++) sum += out[x];
        if (sum > 1e-9) break;
    }
    for (int64_t x = 0; x < Vd; x++) out[x] /= sum;
}

/* A chain of K drafts, each drawn from its law: every draft that can be, by its weight. */
static void draw_chain(struct outcome *o, int64_t Vd, int b, int K, int64_t *drafts, int count,
                       double weight)
{
    static const int32_t chain[NODES] = {-1, 0, 1, 2};
    int64_t token[NODES] = {0};
    if (count < K) {
        double q[IDS];
        draft_law(o->V, Vd, b, drafts, count, q);
        for (int64_t x = 0; x < Vd; x++) {
            drafts[count] = x;
            if (q[x] > 0) draw_chain(o, Vd, b, K, drafts, count + 1, weight * q[x]);
        }
        return;
    }
    struct round r;
    memcpy(token + 1, drafts, (size_t)K * sizeof *drafts);
    round_make(&r, K + 1, o->V, chain, token);
    r.op.draft = r.draft;
    for (int i = 0; i <= K; i++) {
        law_at(o->V, o->a, drafts, i, r.target + i * o->V);
        if (i > 0) draft_law(o->V, Vd, b, drafts, i - 1, r.draft + i * o->V);
    }
    enumerate(o, &r, 1, weight);
}

static void check_chain(int64_t V, int64_t Vd, int a, int b, int K)
{
    int64_t drafts[NODES];
    struct outcome o = {.V = V, .a = a};
    double p[IDS], q[IDS], common = 0;
    char what[64];
    snprintf(what, sizeof what, "chain of %d, V %d, draft vocabulary %d, draft %d", K, (int)V,
             (int)Vd, b);
    draw_chain(&o, Vd, b, K, drafts, 0, 1);
    assert_lossless(&o, what);
    law_at(V, a, NULL, 0, p);
    draft_law(V, Vd, b, NULL, 0, q);
    for (int64_t x = 0; x < V; x++) common += fmin(p[x], q[x]);
    assert_true(fabs(o.accepted[1] - common) <= 1e-14);
}

static void chain__emits_the_targets_law__for_drawn_drafts(void **state)
{
    (void)state;
    for (int a = 0; a < LAWS3; a++) {
        for (int b = 0; b < LAWS3; b++) {
            check_chain(3, 3, a, b, 1);
            check_chain(3, 3, a, b, 2);
        }
        check_chain(3, 3, a, a + 1, 3);
    }
    for (int a = 0; a < LAWS; a++) {
        for (int b = 0; b < LAWS; b++) check_chain(4, 4, a, b, 1);
    }
}

static void chain__emits_the_targets_law__when_the_draft_vocabulary_is_smaller(void **state)
{
    (void)state;
    for (int a = 0; a < LAWS; a++) {
        for (int b = 0; b < LAWS; b += 2) {
            check_chain(4, 2, a, b, 1);
            check_chain(4, 1, a, b, 2);
        }
    }
    check_chain(4, 3, 8, 3, 3);
}

/* ---- deterministic drafts ---- */

/* The tokens of the nodes on the path to `node`, the root not among them. */
static int context_of(const struct tree *t, int64_t node, int64_t *out)
{
    int depth = 0;
    for (int64_t i = node; i > 0; i = t->parent[i]) depth++;
    for (int64_t i = node, d = depth; i > 0; i = t->parent[i]) out[--d] = t->token[i];
    return depth;
}

static void round_of_tree(struct round *r, const struct tree *t, int64_t V, int a)
{
    round_make(r, t->nodes, V, t->parent, t->token);
    for (int64_t i = 0; i < t->nodes; i++) {
        int64_t context[NODES];
        int count = context_of(t, i, context);
        law_at(V, a, context, count, r->target + i * V);
    }
}

/* A node is accepted as often as the target itself would go that way: no draft is wasted. */
static void assert_all_used(const struct outcome *o, const struct tree *t)
{
    for (int64_t i = 1; i < t->nodes; i++) {
        int64_t context[NODES];
        double wanted = 1, p[IDS];
        int depth = context_of(t, i, context);
        for (int d = 0; d < depth; d++) {
            law_at(o->V, o->a, context, d, p);
            wanted *= p[context[d]];
        }
        assert_true(fabs(o->accepted[i] - wanted) <= 1e-14);
    }
}

static void tree__emits_the_targets_law(void **state)
{
    (void)state;
    for (int64_t V = 3; V <= 4; V++) {
        for (int a = 0; a < (V == 3 ? LAWS3 : LAWS); a++) {
            for (int t = 0; t < ROUND_TREES; t++) {
                struct outcome o = {.V = V, .a = a};
                struct round r;
                round_of_tree(&r, &round_trees[t], V, a);
                enumerate(&o, &r, 1, 1);
                assert_lossless(&o, round_trees[t].name);
                assert_all_used(&o, &round_trees[t]);
            }
        }
    }
}

/* ---- what the enumeration takes for granted ---- */

static double fraction(uint64_t *s)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*s >> 11) * 0x1p-53;
}

/* A coin matters at its own node alone, and a draw where the path ends. */
static void coins__matter_at_their_own_nodes_alone(void **state)
{
    (void)state;
    uint64_t s = 5;
    for (int n = 0; n < 20000; n++) {
        const struct tree *t = &round_trees[n % ROUND_TREES];
        struct round r, other;
        round_of_tree(&r, t, 3, n % LAWS3);
        for (int64_t i = 0; i < t->nodes; i++) {
            r.coin[i] = fraction(&s);
            r.draw[i] = fraction(&s);
        }
        round_play(&r);
        bool judged[NODES] = {false};
        for (int64_t k = 0; k <= r.accepted; k++) {
            for (int64_t i = 1; i < t->nodes; i++) {
                bool passed = k == r.accepted || i <= r.path[k + 1];
                if (t->parent[i] == r.path[k] && passed) judged[i] = true;
            }
        }
        round_of_tree(&other, t, 3, n % LAWS3);
        for (int64_t i = 0; i < t->nodes; i++) {
            other.coin[i] = judged[i] ? r.coin[i] : fraction(&s);
            other.draw[i] = i == r.path[r.accepted] ? r.draw[i] : fraction(&s);
        }
        round_play(&other);
        assert_true(round_same(&r, &other));
    }
}

static void tokens__without_weight_are_never_emitted(void **state)
{
    (void)state;
    static const double draws[] = {0, 0.5, ALMOST};
    for (int a = 0; a < LAWS; a++) {
        for (int i = 0; i < 27; i++) {
            struct round r;
            double p[IDS];
            int64_t context[NODES];
            round_of_tree(&r, &round_trees[6], 4, a);
            for (int64_t n = 0; n < r.op.nodes; n++) {
                r.coin[n] = draws[i % 3];
                r.draw[n] = draws[i / 3 % 3];
            }
            round_play(&r);
            for (int64_t k = 0; k <= r.accepted; k++) {
                context[k] = k < r.accepted ? r.token[r.path[k + 1]] : r.next;
                law_at(4, a, context, (int)k, p);
                assert_true(p[context[k]] > 0);
            }
        }
    }
}

static void next__goes_up_where_the_draw_meets_a_cumulative_sum(void **state)
{
    (void)state;
    for (int x = 0; x < 4; x++) {
        struct round r;
        round_make(&r, 1, 4, (const int32_t[]){-1}, (const int64_t[]){0});
        for (int i = 0; i < 4; i++) r.target[i] = 0.25;
        r.draw[0] = 0.25 * x;
        round_play(&r);
        assert_int_equal(r.next, x);
        r.draw[0] = nextafter(0.25 * (x + 1), 0);
        round_play(&r);
        assert_int_equal(r.next, x);
    }
}

/* p and q that differ in a last bit alone, a refusal, and nothing left of p - q. */
static void next__comes_from_the_target__when_rounding_leaves_no_residual(void **state)
{
    (void)state;
    static const int32_t parent[2] = {-1, 0};
    static const int64_t token[2] = {0, 0};
    struct round r;
    round_make(&r, 2, 3, parent, token);
    const double p[3] = {nextafter(0.75, 0), 0, 0.25}, q[3] = {0.75, 0, 0.25};
    for (int i = 0; i < 2; i++) memcpy(r.target + 3 * i, p, sizeof p);
    memcpy(r.draft + 3, q, sizeof q);
    r.op.draft = r.draft;
    r.coin[1] = ALMOST;
    r.draw[0] = 0.1;
    round_play(&r);
    assert_int_equal(r.accepted, 0);
    assert_int_equal(r.next, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain__emits_the_targets_law__for_drawn_drafts),
        cmocka_unit_test(chain__emits_the_targets_law__when_the_draft_vocabulary_is_smaller),
        cmocka_unit_test(tree__emits_the_targets_law),
        cmocka_unit_test(coins__matter_at_their_own_nodes_alone),
        cmocka_unit_test(tokens__without_weight_are_never_emitted),
        cmocka_unit_test(next__goes_up_where_the_draw_meets_a_cumulative_sum),
        cmocka_unit_test(next__comes_from_the_target__when_rounding_leaves_no_residual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
