/* test_law.c: the statistical check of a verification: green on the reference, red on every planted
 * fault, and the closed forms behind its power hold. */
#include "core/fault.h"
#include "harness/chi.h"
#include "harness/law.h"

#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 8 };

/* ---- planted faults: a verification that is wrong in one way ---- */

typedef enum err_code plant(const struct law_round *r, struct run *run, struct err *err);

/* The coin of a draft is the number that drew it. */
static enum err_code noise(const struct law_round *r, struct run *run, struct err *err)
{
    struct eagle_verify op = r->op;
    op.coin = r->noise;
    return eagle_verify_ref(&op, run, err);
}

static int64_t pick(const double *weight, int64_t V, double u)
{
    double sum = 0;
    int64_t x = 0;
    while (x < V - 1 && !(sum + weight[x] > u)) sum += weight[x++];
    return x;
}

static int64_t end_of(const struct law_round *r)
{
    return r->op.path[*r->op.accepted];
}

static bool has_children(const struct law_round *r, int64_t node)
{
    for (int64_t i = node + 1; i < r->op.nodes; i++) {
        if (r->op.parent[i] == node) return true;
    }
    return false;
}

/* After a refusal, the next token straight from p. */
static enum err_code from_p(const struct law_round *r, struct run *run, struct err *err)
{
    if (eagle_verify_ref(&r->op, run, err) != ERR_OK) return err->code;
    int64_t end = end_of(r), V = r->op.V;
    if (has_children(r, end)) *r->op.next = pick(r->op.target + end * V, V, r->op.draw[end]);
    return ERR_OK;
}

/* max(p - q, 0) is taken for a law as it is. */
static enum err_code unscaled(const struct law_round *r, struct run *run, struct err *err)
{
    if (eagle_verify_ref(&r->op, run, err) != ERR_OK) return err->code;
    int64_t end = end_of(r), V = r->op.V;
    double left[LAW_IDS];
    if (!has_children(r, end)) return ERR_OK;
    for (int64_t x = 0; x < V; x++)
        left[x] = fmax(r->op.target[end * V + x] - r->op.draft[(end + 1) * V + x], 0);
    *r->op.next = pick(left, V, r->op.draw[end]);
    return ERR_OK;
}

/* q at twice the temperature that drew the drafts. */
static enum err_code temperature(const struct law_round *r, struct run *run, struct err *err)
{
    struct eagle_verify op = r->op;
    double other[LAW_NODES * LAW_IDS] = {0};
    for (int64_t i = 1; i < op.nodes; i++) {
        double sum = 0;
        for (int64_t x = 0; x < op.V; x++) sum += sqrt(op.draft[i * op.V + x]);
        for (int64_t x = 0; x < op.V; x++) other[i * op.V + x] = sqrt(op.draft[i * op.V + x]) / sum;
    }
    op.draft = other;
    return eagle_verify_ref(&op, run, err);
}

static enum err_code bonus(const struct law_round *r, struct run *run, struct err *err)
{
    if (eagle_verify_ref(&r->op, run, err) != ERR_OK) return err->code;
    int64_t end = end_of(r), V = r->op.V;
    if (!has_children(r, end)) *r->op.next = pick(r->next + end * V, V, r->op.draw[end]);
    return ERR_OK;
}

/* Every node's first child, whatever the target says; then a draw from the last one's own law. */
static enum err_code unverified(const struct law_round *r, struct run *run, struct err *err)
{
    const struct eagle_verify *op = &r->op;
    int64_t at = 0;
    (void)run;
    *op->accepted = 0;
    for (int64_t i = 1; i < op->nodes; i++) {
        if (op->parent[i] != at) continue;
        op->path[++*op->accepted] = (int32_t)i;
        at = i;
    }
    *op->next = pick(op->target + at * op->V, op->V, op->draw[at]);
    return err->code;
}

static enum err_code bonus_of_parent(const struct law_round *r, struct run *run, struct err *err)
{
    if (eagle_verify_ref(&r->op, run, err) != ERR_OK) return err->code;
    int64_t end = end_of(r), V = r->op.V, up = r->op.parent[end];
    if (!has_children(r, end)) *r->op.next = pick(r->op.target + up * V, V, r->op.draw[end]);
    return ERR_OK;
}

/* Siblings look at their parent's first child's coin. */
static enum err_code one_coin(const struct law_round *r, struct run *run, struct err *err)
{
    struct eagle_verify op = r->op;
    double coin[LAW_NODES];
    for (int64_t i = op.nodes - 1; i > 0; i--) {
        for (int64_t j = i; j < op.nodes; j++) {
            if (op.parent[j] == op.parent[i]) coin[j] = op.coin[i];
        }
    }
    coin[0] = 0;
    op.coin = coin;
    return eagle_verify_ref(&op, run, err);
}

/* A walk of its own that forgets to renormalise p between siblings. */
static enum err_code siblings_unscaled(const struct law_round *r, struct run *run, struct err *err)
{
    const struct eagle_verify *op = &r->op;
    int64_t at = 0, V = op->V;
    double law[LAW_IDS];
    (void)run;
    *op->accepted = 0;
    memcpy(law, op->target, (size_t)V * sizeof *law);
    for (int64_t i = 1; i < op->nodes; i++) {
        if (op->parent[i] != at) continue;
        if (op->coin[i] < law[op->token[i]]) {
            at = i;
            op->path[++*op->accepted] = (int32_t)i;
            memcpy(law, op->target + i * V, (size_t)V * sizeof *law);
        } else {
            law[op->token[i]] = 0;
        }
    }
    double sum = 0;
    for (int64_t x = 0; x < V; x++) sum += law[x];
    *op->next = pick(law, V, op->draw[at] * sum);
    return err->code;
}

/* In the order of law_faults(). */
static plant *const planted[2][LAW_FAULTS] = {
    {noise, from_p, unscaled, temperature, bonus, unverified, bonus_of_parent},
    {one_coin, from_p, siblings_unscaled, bonus, unverified, bonus_of_parent},
};

/* A function pointer does not fit void * in ISO C: the slot that holds it does. */
static enum err_code planted_slot(void *ctx, const struct law_round *r, struct run *run,
                                  struct err *err)
{
    return (*(plant *const *)ctx)(r, run, err);
}

static struct law_test planned(const struct law *l)
{
    struct err err = ERR_INIT;
    struct law_test t;
    if (law_plan(&t, l, &err) != ERR_OK) assert_ok(&err);
    return t;
}

static bool holds(struct law_test *t, law_verify *verify, const void *ctx, uint64_t seed)
{
    struct err err = ERR_INIT;
    if (law_play(t, verify, (void *)(uintptr_t)ctx, seed, &err) != ERR_OK) assert_ok(&err);
    return t->holds;
}

/* ---- the toys ---- */

/* How many seeds: more by hand. */
static uint64_t seeds(void)
{
    const char *n = getenv("ASSAY_LAW_SEEDS");
    return n ? strtoull(n, NULL, 10) : SEEDS;
}

static void toys__have_the_power_that_is_stated(void **state)
{
    (void)state;
    int i = 0;
    for (const struct law *l; (l = law_toy(i)); i++) {
        struct law_test t = planned(l);
        int faults;
        const struct law_fault *fault = law_faults(l->tree, &faults);
        assert_in_range(t.samples, 1, 1 << 16);
        assert_true(chi_tail(t.bound, t.cells - 1) <= LAW_ALPHA * (1 + 1e-9));
        for (int f = 0; f < faults; f++) {
            /* The bonus of two drafts is a third token. */
            bool hidden = fault[f].bonus && !l->tree && l->nodes > 2;
            if (hidden ? t.power[f] != 0 : !(t.power[f] >= LAW_POWER))
                fail_msg("%s: %s: power %g", l->name, fault[f].name, t.power[f]);
        }
    }
    assert_int_equal(i, 5);
}

static void toys__are_green_on_the_reference(void **state)
{
    (void)state;
    const struct law *l;
    for (int i = 0; (l = law_toy(i)); i++) {
        struct law_test t = planned(l);
        for (uint64_t seed = 1; seed <= seeds(); seed++) {
            if (!holds(&t, law_verify_ref, NULL, seed))
                fail_msg("%s, seed %d: %g over %g", l->name, (int)seed, t.statistic, t.bound);
        }
    }
}

static void toys__go_red_on_every_planted_fault(void **state)
{
    (void)state;
    const struct law *l;
    int tried = 0;
    for (int i = 0; (l = law_toy(i)); i++) {
        struct law_test t = planned(l);
        int faults;
        const struct law_fault *fault = law_faults(l->tree, &faults);
        for (int f = 0; f < faults; f++) {
            if (t.power[f] < LAW_POWER) continue;
            tried++;
            for (uint64_t seed = 1; seed <= seeds(); seed++) {
                if (holds(&t, planted_slot, &planted[l->tree][f], seed))
                    fail_msg("%s, %s: green at seed %d", l->name, fault[f].name, (int)seed);
                if (t.like != f)
                    fail_msg("%s, %s at seed %d: said to be %d", l->name, fault[f].name, (int)seed,
                             t.like);
            }
        }
    }
    assert_true(tried >= 31); /* what so many samples can show */
}

/* The same of the registry's edits: one of each list has the law of one here. */
static void toys__go_red_on_the_registrys_faults__by_their_own_name(void **state)
{
    (void)state;
    const struct law *l;
    int tried = 0;
    for (int i = 0; (l = law_toy(i)); i++) {
        struct law_test t = planned(l);
        int faults;
        const struct law_fault *fault = law_faults(l->tree, &faults);
        for (int f = 0; f < faults; f++) {
            struct err err = ERR_INIT;
            struct faults use = {0};
            if (!fault[f].fault || t.power[f] < LAW_POWER) continue;
            tried++;
            if (faults_add(&use, fault[f].fault, &err) != ERR_OK) assert_ok(&err);
            if (holds(&t, law_verify_ref, &use, 1))
                fail_msg("%s, %s: green", l->name, fault[f].fault);
            if (t.like != f) fail_msg("%s, %s: said to be %d", l->name, fault[f].fault, t.like);
            faults_clear(&use);
        }
    }
    assert_true(tried >= 19);
}

/* Now and then a token that the target never says there: no fault of the list. */
static enum err_code never_said(const struct law_round *r, struct run *run, struct err *err)
{
    if (eagle_verify_ref(&r->op, run, err) != ERR_OK) return err->code;
    int64_t end = end_of(r), V = r->op.V;
    for (int64_t x = 0; x < V; x++) {
        if (r->op.target[end * V + x] == 0 && r->op.draw[end] < 0.005) *r->op.next = x;
    }
    return ERR_OK;
}

static void toys__go_red_on_a_token_that_is_never_said(void **state)
{
    (void)state;
    static plant *const never = never_said;
    struct law_test t = planned(law_toy(0));
    assert_false(holds(&t, planted_slot, &never, 1));
    assert_true(isinf(t.statistic));
    assert_int_equal(t.like, -1);
}

/* ---- a model's laws ---- */

enum { WIDE = 900 };

static void soft(uint64_t n, double sharpness, double *out)
{
    double sum = 0;
    for (int64_t x = 0; x < WIDE; x++) {
        n = n * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += out[x] = exp(sharpness * ((double)(n >> 40) * 0x1p-24));
    }
    for (int64_t x = 0; x < WIDE; x++) out[x] /= sum;
}

static void model__keeps_what_is_likely_and_lumps_the_rest(void **state)
{
    (void)state;
    static double row[4][WIDE];
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct law l;
    for (int i = 0; i < 4; i++) soft((uint64_t)i + 3, 12, row[i]);
    for (int64_t x = WIDE / 2; x < WIDE; x++) row[2][x] = 0;
    const double *const p[2] = {row[0], row[1]}, *const q[2] = {row[2], row[3]};
    if (law_of_model(&l, false, WIDE, p, q, &arena, &err) != ERR_OK) assert_ok(&err);
    assert_int_equal(l.V, LAW_IDS);
    const double *const kept[4] = {l.p, l.p_after, l.q, l.q_after};
    const double *const whole[4] = {row[0], row[1], row[2], row[3]};
    for (int i = 0; i < 4; i++) {
        double sum = 0, all = 0;
        for (int64_t x = 0; x < l.V; x++) sum += kept[i][x];
        for (int64_t x = 0; x < WIDE; x++) all += whole[i][x];
        assert_true(fabs(sum - all) <= 1e-12);
    }
    double most = 0;
    for (int64_t x = 0; x < WIDE; x++) most = fmax(most, row[0][x]);
    bool there = false;
    for (int64_t x = 0; x < l.V - 1; x++) there = there || l.p[x] == most;
    assert_true(there);
    for (int k = 0; k < 2; k++) {
        double low[LAW_BUCKETS + 1], high[LAW_BUCKETS + 1];
        for (int b = 0; b <= LAW_BUCKETS; b++) low[b] = 1, high[b] = 0;
        for (int64_t x = 0; x < l.V; x++) {
            double share = kept[k][x] / (kept[k][x] + kept[k + 2][x]);
            int b = l.bucket[k][x];
            low[b] = fmin(low[b], share);
            high[b] = fmax(high[b], share);
        }
        for (int b = 0; b < LAW_BUCKETS - 1; b++) assert_true(low[b] >= high[b + 1]);
    }
    arena_release(&arena, NULL);
}

static void model__is_green_on_the_reference_and_red_on_faults(void **state)
{
    (void)state;
    static double row[4][WIDE];
    for (int i = 0; i < 4; i++) soft((uint64_t)i + 3, 12, row[i]);
    const double *const p[2] = {row[0], row[1]}, *const q[2] = {row[2], row[3]};
    for (int tree = 0; tree < 2; tree++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct law l;
        int faults;
        if (law_of_model(&l, tree, WIDE, p, q, &arena, &err) != ERR_OK) assert_ok(&err);
        struct law_test t = planned(&l);
        (void)law_faults(tree, &faults);
        assert_true(holds(&t, law_verify_ref, NULL, 1));
        for (int f = 0; f < faults; f++) {
            if (t.power[f] >= LAW_POWER)
                assert_false(holds(&t, planted_slot, &planted[tree][f], 2));
        }
        arena_release(&arena, NULL);
    }
}

/* A draft that is nearly the target hides its faults: more samples, up to a limit. */
static void plan__takes_more_samples__where_faults_hardly_show(void **state)
{
    (void)state;
    static double row[4][WIDE];
    static const double shares[] = {0.15, 0.01};
    for (int close = 0; close < 2; close++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct law l;
        for (int i = 0; i < 4; i++) soft((uint64_t)i + 3, 12, row[i]);
        for (int64_t x = 0; x < WIDE; x++) {
            row[2][x] = row[0][x] + shares[close] * (row[2][x] - row[0][x]);
            row[3][x] = row[1][x] + shares[close] * (row[3][x] - row[1][x]);
        }
        const double *const p[2] = {row[0], row[1]}, *const q[2] = {row[2], row[3]};
        if (law_of_model(&l, false, WIDE, p, q, &arena, &err) != ERR_OK) assert_ok(&err);
        struct law_test t = planned(&l);
        double least = 1;
        for (int f = 0; f < LAW_FAULTS; f++) least = fmin(least, t.power[f]);
        assert_true(t.samples > 4096);
        assert_int_equal(t.samples == LAW_SAMPLES_MAX, close);
        assert_true(close ? least < LAW_POWER : least >= LAW_POWER);
        arena_release(&arena, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toys__have_the_power_that_is_stated),
        cmocka_unit_test(toys__are_green_on_the_reference),
        cmocka_unit_test(toys__go_red_on_every_planted_fault),
        cmocka_unit_test(toys__go_red_on_the_registrys_faults__by_their_own_name),
        cmocka_unit_test(toys__go_red_on_a_token_that_is_never_said),
        cmocka_unit_test(plan__takes_more_samples__where_faults_hardly_show),
        cmocka_unit_test(model__keeps_what_is_likely_and_lumps_the_rest),
        cmocka_unit_test(model__is_green_on_the_reference_and_red_on_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
