/* test_lossless.c: the checks of lossless.h go red on tokens and verifications that are not the
 * target's own, and whole rounds of sampling emit the target's law. */
#include "harness/lossless.h"

#include "core/logits.h"
#include "harness/chance.h"
#include "harness/chi.h"
#include "tests/cli.h"
#include "tests/drafted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t prompt[] = {3, 7, 1, 0, 11};
enum { PROMPT = sizeof prompt / sizeof prompt[0], V = DRAFTED_IDS };

/* ---- greedy ---- */

static void check(const struct drafted *d, const int64_t *generated, int64_t n,
                  struct lossless *out)
{
    struct err err = ERR_INIT;
    struct tokens t = drafted_tokens(prompt, PROMPT);
    if (lossless_greedy(&d->loaded, &d->options, &t, generated, n, out, &err) != ERR_OK)
        assert_ok(&err);
    tokens_free(&t);
}

static void greedy__holds_for_what_came_out__and_names_what_did_not(void **state)
{
    const struct speculate_options how = {.drafts = 9, .tree = true, .depth = 2, .top_k = 3};
    struct drafted d;
    struct lossless l;
    drafted_models(&d, state, DRAFTED_LLAMA);
    drafted_start(&d, &how, 64);
    drafted_begin(&d, prompt, PROMPT);
    while (d.s.length < PROMPT + 20) drafted_round(&d);
    int64_t *generated = d.s.text + PROMPT, n = d.s.length - PROMPT;
    check(&d, generated, n, &l);
    assert_true(l.holds);
    assert_int_equal(l.checked, n);
    assert_int_equal(l.ties, 0);
    for (int64_t at = 0; at < n; at += 6) {
        int64_t own = generated[at];
        generated[at] = (own + 1) % V;
        check(&d, generated, n, &l);
        assert_false(l.holds);
        assert_int_equal(l.at, at);
        assert_int_equal(l.got, (own + 1) % V);
        assert_int_equal(l.wanted, own);
        assert_true(l.gap >= l.margin && l.margin == d.s.generated[PROMPT + at].margin);
        assert_int_equal(l.checked, n);
        generated[at] = own;
    }
    drafted_close(&d);
}

/* The same target as files: quicker than weights that are made anew at every step. Returns the path
 * of its tensors. */
static const char *target_to_disk(void **state, struct drafted *d)
{
    struct err err = ERR_INIT;
    const char *folder = textf("%s/target", (const char *)*state);
    json_decref(
        cli_passes("synth", folder_path(state, "target.json"), "--seed", "8", "--out", folder));
    loaded_close(&d->loaded);
    if (loaded_open(&d->loaded, folder, &err) != ERR_OK) assert_ok(&err);
    return textf("%s/model.safetensors", folder);
}

/* The target's head gets the same row for two tokens: their logits are equal everywhere. */
static void tie_tokens(void **state, struct drafted *d, int64_t from, int64_t to)
{
    struct st_edit e;
    struct err err = ERR_INIT;
    const char *file = target_to_disk(state, d);
    st_edit_read(&e, file);
    unsigned char *head = st_edit_data(&e, "language_model.lm_head.weight");
    memcpy(head + to * 64 * 2, head + from * 64 * 2, (size_t)64 * 2);
    loaded_close(&d->loaded);
    st_edit_write(&e, file);
    st_edit_free(&e);
    if (loaded_open(&d->loaded, textf("%s/target", (const char *)*state), &err) != ERR_OK)
        assert_ok(&err);
}

static void greedy__counts_a_difference__at_a_tie(void **state)
{
    const struct speculate_options alone = {0};
    struct drafted d;
    struct lossless l;
    enum { N = 12 };
    drafted_models(&d, state, DRAFTED_NONE);
    drafted_start(&d, &alone, 64);
    drafted_begin(&d, prompt, PROMPT);
    int64_t first = d.s.text[PROMPT], other = first + 1;
    assert_in_range(other, 1, V - 1);
    drafted_stop(&d);
    tie_tokens(state, &d, first, other);
    drafted_start(&d, &alone, 64);
    drafted_begin(&d, prompt, PROMPT);
    assert_int_equal(d.s.text[PROMPT], first);
    assert_true(d.s.generated[PROMPT].near_tie && d.s.generated[PROMPT].margin == 0);
    check(&d, &other, 1, &l);
    assert_true(l.holds);
    assert_int_equal(l.ties, 1);
    int64_t worse = (first + 5) % V;
    check(&d, &worse, 1, &l);
    assert_false(l.holds);
    assert_int_equal(l.wanted, first);
    drafted_close(&d);
}

static void near_tie__is_four_units_of_the_largest_logit(void **state)
{
    const struct speculate_options alone = {0};
    const double row[V] = {1, -3, 2.5, 0};
    struct drafted d;
    struct err err = ERR_INIT;
    drafted_models(&d, state, DRAFTED_NONE);
    drafted_start(&d, &alone, 16);
    for (int rounds = 0; rounds < 2; rounds++) {
        double bound = 4 * 3 * dtype_unit(rounds ? DT_BF16 : DT_F32);
        if (profile_find(rounds ? "vllm" : "math", &d.session.options.profile, &err) != ERR_OK)
            assert_ok(&err);
        assert_true(speculate_near_tie(&d.session, row, bound));
        assert_false(speculate_near_tie(&d.session, row, bound * 1.001));
        assert_false(speculate_near_tie(&d.session, row, NAN));
    }
    drafted_close(&d);
}

/* ---- sampling: the law of the verification ---- */

static enum err_code from_p(void *ctx, const struct law_round *r, struct run *run, struct err *err)
{
    (void)ctx;
    if (eagle_verify_ref(&r->op, run, err) != ERR_OK) return err->code;
    int64_t end = r->op.path[*r->op.accepted];
    *r->op.next = chance_pick(r->op.target + end * r->op.V, r->op.V, r->op.draw[end]);
    return ERR_OK;
}

static void sampling__holds_for_the_reference_and_not_for_a_fault(void **state)
{
    struct drafted d;
    struct tokens t = drafted_tokens(prompt, PROMPT);
    drafted_models(&d, state, DRAFTED_LLAMA);
    for (int tree = 0; tree < 2; tree++) {
        const struct speculate_options how = {
            .tree = tree, .drafts = 5, .depth = 1, .top_k = 3, .temperature = 0.8, .seed = 11};
        struct lossless_laws laws;
        struct err err = ERR_INIT;
        if (lossless_sampling(&d.loaded, &d.options, &d.head, &how, &t, law_verify_ref, NULL, &laws,
                              &err) != ERR_OK)
            assert_ok(&err);
        assert_int_equal(laws.failed, -1);
        assert_int_equal(laws.count, 6);
        const struct law_test *model = &laws.test[5];
        assert_true(model->law == &laws.model && model->law->tree == tree);
        assert_true(model->power[1] >= LAW_POWER);
        lossless_laws_free(&laws);
        if (lossless_sampling(&d.loaded, &d.options, &d.head, &how, &t, from_p, NULL, &laws,
                              &err) != ERR_OK)
            assert_ok(&err);
        assert_int_equal(laws.failed, 0);
        assert_int_equal(laws.test[0].like, 1);
        assert_false(laws.test[5].holds);
        lossless_laws_free(&laws);
    }
    tokens_free(&t);
    drafted_close(&d);
}

/* ---- sampling: whole rounds ---- */

/* The target's own law of three tokens after the prompt, by plain decoding. */
static void exact_law(const struct drafted *d, double temperature, double law[V][V][V])
{
    struct session s;
    struct err err = ERR_INIT;
    struct tokens t = drafted_tokens(prompt, PROMPT);
    double a[V], b[V], c[V];
    int64_t room = 16;
    if (session_open(&s, &d->loaded, &d->options, 1, &room, &err) != ERR_OK ||
        session_forward(&s, &t, NULL, NULL, a, &err) != ERR_OK)
        assert_ok(&err);
    chance_law(a, V, temperature, a);
    for (int64_t x = 0; x < V; x++) {
        s.cache.length[0] = PROMPT;
        if (session_decode(&s, &x, b, &err) != ERR_OK) assert_ok(&err);
        chance_law(b, V, temperature, b);
        for (int64_t y = 0; y < V; y++) {
            s.cache.length[0] = PROMPT + 1;
            if (session_decode(&s, &y, c, &err) != ERR_OK) assert_ok(&err);
            chance_law(c, V, temperature, c);
            for (int64_t z = 0; z < V; z++) law[x][y][z] = a[x] * b[y] * c[z];
        }
    }
    session_close(&s);
    tokens_free(&t);
}

/* Chi-square of counts against a law; cells that expect fewer than 25 are one. */
static void assert_law(const int64_t *count, const double *law, int64_t cells, int64_t n)
{
    double statistic = 0, rest = 0, seen = 0;
    int groups = 0;
    for (int64_t i = 0; i < cells; i++) {
        double expected = law[i] * (double)n, off = (double)count[i] - expected;
        if (expected < 25) {
            rest += expected;
            seen += (double)count[i];
            continue;
        }
        statistic += off * off / expected;
        groups++;
    }
    if (rest > 0) statistic += (seen - rest) * (seen - rest) / rest;
    groups += rest > 0;
    assert_true(groups > 5);
    if (!(statistic <= chi_bound(LAW_ALPHA, groups - 1)))
        fail_msg("chi-square %g with %d groups", statistic, groups);
}

/* Many generations of three tokens, each with a seed of its own: what comes at each place. */
static void check_rounds(void **state, enum drafted_head kind, struct speculate_options how)
{
    static double law[V][V][V];
    enum { N = 1500 };
    double wanted[3][V] = {{0}};
    int64_t count[3][V] = {{0}};
    struct drafted d;
    drafted_models(&d, state, kind);
    (void)target_to_disk(state, &d);
    exact_law(&d, how.temperature, law);
    for (int i = 0; i < V * V * V; i++) {
        const int at[3] = {i / V / V, i / V % V, i % V};
        for (int k = 0; k < 3; k++) wanted[k][at[k]] += law[at[0]][at[1]][at[2]];
    }
    drafted_start(&d, &how, PROMPT + 3 + how.drafts);
    for (int n = 0; n < N; n++) {
        d.s.options.seed = (uint64_t)n + 1000;
        d.session.cache.length[0] = 0;
        if (d.kind != DRAFTED_NONE) d.s.draft.length[0] = 0;
        drafted_begin(&d, prompt, PROMPT);
        while (d.s.length < PROMPT + 3) drafted_round(&d);
        for (int k = 0; k < 3; k++) count[k][d.s.text[PROMPT + k]]++;
    }
    for (int k = 0; k < 3; k++) assert_law(count[k], wanted[k], V, N);
    drafted_close(&d);
}

static void rounds__emit_the_targets_law__without_drafts(void **state)
{
    const struct speculate_options how = {.temperature = 1};
    check_rounds(state, DRAFTED_NONE, how);
}

static void rounds__emit_the_targets_law__from_a_chain_of_fewer_ids(void **state)
{
    const struct speculate_options how = {.drafts = 2, .temperature = 1};
    check_rounds(state, DRAFTED_LLAMA, how);
}

/* Warm: target and draft overlap, and more drafts are accepted. */
static void rounds__emit_the_targets_law__from_a_warm_chain(void **state)
{
    const struct speculate_options how = {.drafts = 2, .temperature = 2};
    check_rounds(state, DRAFTED_LLAMA, how);
}

static void rounds__emit_the_targets_law__from_a_tree(void **state)
{
    const struct speculate_options how = {
        .drafts = 6, .tree = true, .depth = 1, .top_k = 3, .temperature = 2};
    check_rounds(state, DRAFTED_MLA, how);
}

static void rounds__repeat__with_the_same_seed(void **state)
{
    const struct speculate_options how = {.drafts = 3, .temperature = 1, .seed = 5};
    struct drafted a, b;
    drafted_models(&a, state, DRAFTED_LLAMA);
    drafted_models(&b, state, DRAFTED_LLAMA);
    drafted_start(&a, &how, 64);
    drafted_start(&b, &how, 64);
    drafted_begin(&a, prompt, PROMPT);
    drafted_begin(&b, prompt, PROMPT);
    int64_t accepted = 0;
    for (int i = 0; i < 12; i++) {
        drafted_round(&a);
        drafted_round(&b);
        accepted += a.s.accepted;
        assert_int_equal(a.s.accepted, b.s.accepted);
    }
    assert_true(accepted > 0);
    assert_memory_equal(a.s.text, b.s.text, (size_t)a.s.length * sizeof *a.s.text);
    drafted_stop(&b);
    struct speculate_options other = how;
    other.seed = 6;
    drafted_start(&b, &other, 64);
    drafted_begin(&b, prompt, PROMPT);
    while (b.s.length < PROMPT + 12) drafted_round(&b);
    assert_memory_not_equal(a.s.text, b.s.text, (PROMPT + 12) * sizeof *a.s.text);
    drafted_close(&a);
    drafted_close(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(greedy__holds_for_what_came_out__and_names_what_did_not),
        TEST(greedy__counts_a_difference__at_a_tie),
        TEST(near_tie__is_four_units_of_the_largest_logit),
        TEST(sampling__holds_for_the_reference_and_not_for_a_fault),
        TEST(rounds__emit_the_targets_law__without_drafts),
        TEST(rounds__emit_the_targets_law__from_a_chain_of_fewer_ids),
        TEST(rounds__emit_the_targets_law__from_a_warm_chain),
        TEST(rounds__emit_the_targets_law__from_a_tree),
        TEST(rounds__repeat__with_the_same_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
