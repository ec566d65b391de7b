/* test_speculate.c: after every round the caches of target and draft hold what a plain run over the
 * text leaves, bit for bit, and the tokens are those of plain greedy decoding. The tree's own
 * rules: tests/test_speculate_tree.c; a trained head: tests/test_speculate_trained.c; sampling:
 * tests/test_lossless.c. */
#include "harness/speculate.h"

#include "harness/chance.h"
#include "harness/speculate_parts.h"
#include "tests/drafted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t prompt[] = {3, 7, 1, 0, 11, 5, 9, 2, 2};
enum { PROMPT = sizeof prompt / sizeof prompt[0] };

static const struct speculate_options plain = {0}, chain = {.drafts = 3},
                                      tree = {.drafts = 9, .tree = true, .depth = 2, .top_k = 3};

/* ---- what a plain run leaves ---- */

/* A session that has run `count` tokens: the prompt as a prefill, the others one a step. */
static void run_plain(const struct drafted *d, struct session *session, const int64_t *text,
                      int64_t count, int64_t room, struct states *states)
{
    struct err err = ERR_INIT;
    struct session_options o = d->options;
    struct states_capture capture;
    struct tokens t = drafted_tokens(text, count);
    o.decode_last = count > d->s.prompt ? count - d->s.prompt : 0;
    if (session_open(session, &d->loaded, &o, 1, &room, &err) != ERR_OK ||
        session_forward(session, &t, states ? states_sink(&capture, states, NULL) : NULL, NULL,
                        NULL, &err) != ERR_OK)
        assert_ok(&err);
    tokens_free(&t);
}

static void assert_same_cache(const struct cache *a, const struct cache *b, const char *what)
{
    assert_int_equal(a->length[0], b->length[0]);
    for (int64_t layer = 0; layer < a->layers; layer++) {
        for (int64_t i = 0; i < a->length[0]; i++) {
            if (memcmp(cache_read(a, layer, 0, i), cache_read(b, layer, 0, i),
                       (size_t)a->width * sizeof(double)) != 0)
                fail_msg("%s: layer %d, token %d differs", what, (int)layer, (int)i);
        }
    }
}

/* Target and draft after a round, against a fresh decode and a fresh prefill of the same text. */
static void assert_fresh_caches(const struct drafted *d)
{
    const struct speculate *s = &d->s;
    int64_t rows = s->length - 1;
    struct session session;
    struct states states = s->states;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    states.rows = rows;
    states.data =
        arena_alloc(&arena, rows * states.count * states.hidden, sizeof(double), "states", &err);
    run_plain(d, &session, s->text, rows, s->capacity, &states);
    assert_same_cache(&s->session->cache, &session.cache, "target");

    struct speculate fresh;
    if (speculate_open(&fresh, &session, &d->head, &s->options, &err) != ERR_OK) assert_ok(&err);
    memcpy(fresh.text, s->text, (size_t)s->length * sizeof *s->text);
    fresh.length = s->length;
    if (draft_extend(&fresh, rows, states.data, 0, &err) != ERR_OK) assert_ok(&err);
    assert_same_cache(&s->draft, &fresh.draft, "draft");
    assert_memory_equal(s->logits, fresh.logits,
                        (size_t)d->head.config.draft_vocab * sizeof *s->logits);
    assert_memory_equal(s->feed, fresh.feed, (size_t)d->head.config.base.hidden * sizeof *s->feed);
    speculate_close(&fresh);
    session_close(&session);
    arena_release(&arena, NULL);
}

/* Each node's logits, of the round that began with `count` tokens fixed: those of a plain decode
 * of its path. */
static void assert_plain_logits(const struct drafted *d, int64_t count)
{
    const struct speculate *s = &d->s;
    const struct draft_tree *t = &s->tree;
    struct session session;
    struct err err = ERR_INIT;
    double row[DRAFTED_IDS];
    run_plain(d, &session, s->text, count - 1, s->capacity, NULL);
    for (int64_t i = 0; i < t->nodes; i++) {
        int64_t path[64], depth = t->depth[i];
        for (int64_t k = i, at = depth; k >= 0; k = t->parent[k]) path[at--] = t->token[k];
        session.cache.length[0] = count - 1;
        for (int64_t k = 0; k <= depth; k++) {
            if (session_decode(&session, &path[k], row, &err) != ERR_OK) assert_ok(&err);
        }
        if (memcmp(row, s->target + i * DRAFTED_IDS, sizeof row) != 0)
            fail_msg("node %d of %d differs", (int)i, (int)t->nodes);
    }
    session_close(&session);
}

/* ---- rounds ---- */

struct rounds {
    int64_t accepted, moved; /* moved: accepted nodes that were not in their place */
};

static struct rounds check_rounds(struct drafted *d, const struct speculate_options *how)
{
    struct rounds r = {0};
    drafted_start(d, how, PROMPT + 24 + 10);
    drafted_begin(d, prompt, PROMPT);
    assert_fresh_caches(d);
    while (d->s.length < PROMPT + 24) {
        int64_t count = d->s.length;
        drafted_round(d);
        assert_int_equal(d->s.length, count + d->s.accepted + 1);
        assert_plain_logits(d, count);
        assert_fresh_caches(d);
        r.accepted += d->s.accepted;
        for (int64_t i = 1; i <= d->s.accepted; i++) r.moved += d->s.path[i] != i;
    }
    drafted_stop(d);
    return r;
}

static void check_profile(void **state, const char *profile, enum drafted_head kind)
{
    struct drafted d;
    struct err err = ERR_INIT;
    drafted_models(&d, state, kind);
    if (profile_find(profile, &d.options.profile, &err) != ERR_OK) assert_ok(&err);
    struct rounds r = check_rounds(&d, &chain);
    assert_true(r.accepted > 0);
    r = check_rounds(&d, &tree);
    assert_true(r.accepted > 0 && r.moved > 0);
    drafted_close(&d);
}

static void round__leaves_the_caches_and_gives_the_logits_of_a_plain_run(void **state)
{
    check_profile(state, "math", DRAFTED_LLAMA);
    check_profile(state, "math", DRAFTED_MLA);
}

/* Absorbed decode, and rounding: the form of a step matters to the last bit. */
static void round__is_that_of_a_plain_run__in_an_engines_profile(void **state)
{
    check_profile(state, "vllm", DRAFTED_LLAMA);
    check_profile(state, "vllm", DRAFTED_MLA);
}

/* n tokens after `count` of the prompt. */
static void generate(struct drafted *d, const struct speculate_options *how, int64_t count,
                     int64_t n, int64_t *out)
{
    drafted_start(d, how, count + n + how->drafts);
    drafted_begin(d, prompt, count);
    while (d->s.length < count + n) drafted_round(d);
    memcpy(out, d->s.text + count, (size_t)n * sizeof *out);
    drafted_stop(d);
}

static void tokens__are_those_of_plain_greedy_decoding(void **state)
{
    static const int64_t counts[] = {1, 2, PROMPT};
    enum { N = 24 };
    for (int kind = DRAFTED_LLAMA; kind <= DRAFTED_MLA; kind++) {
        struct drafted d, alone;
        drafted_models(&d, state, kind);
        drafted_models(&alone, state, DRAFTED_NONE);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            int64_t wanted[N], got[N];
            generate(&alone, &plain, counts[i], N, wanted);
            for (int64_t K = 1; K <= 7; K++) {
                const struct speculate_options how = {.drafts = K}, spread = {.drafts = K,
                                                                              .tree = true,
                                                                              .depth = K % 4,
                                                                              .top_k = 1 + K};
                generate(&d, &how, counts[i], N, got);
                assert_memory_equal(got, wanted, sizeof wanted);
                generate(&d, &spread, counts[i], N, got);
                assert_memory_equal(got, wanted, sizeof wanted);
            }
        }
        drafted_close(&d);
        drafted_close(&alone);
    }
}

/* The last row of a chunk that is not the last pairs with the next token of the prompt. */
static void prefill__gives_the_draft_the_same_rows__in_chunks(void **state)
{
    static const int64_t chunks[] = {1, 2, 3, 4, 7, 8, 9, 20};
    const struct speculate_options one = {.drafts = 1};
    struct drafted whole, d;
    drafted_models(&whole, state, DRAFTED_LLAMA);
    drafted_models(&d, state, DRAFTED_LLAMA);
    drafted_start(&whole, &one, PROMPT + 2);
    drafted_begin(&whole, prompt, PROMPT);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        d.options.chunk = chunks[i];
        drafted_start(&d, &one, PROMPT + 2);
        drafted_begin(&d, prompt, PROMPT);
        assert_same_cache(&whole.s.draft, &d.s.draft, "draft");
        assert_same_cache(&whole.session.cache, &d.session.cache, "target");
        assert_memory_equal(whole.s.logits, d.s.logits, DRAFTED_DRAFT_IDS * sizeof(double));
        drafted_stop(&d);
    }
    drafted_close(&whole);
    drafted_close(&d);
}

static void margin__is_that_of_the_logits_which_gave_the_token(void **state)
{
    struct drafted d, alone;
    drafted_models(&d, state, DRAFTED_MLA);
    drafted_models(&alone, state, DRAFTED_NONE);
    drafted_start(&d, &tree, 64);
    drafted_begin(&d, prompt, PROMPT);
    drafted_start(&alone, &plain, 64);
    drafted_begin(&alone, prompt, PROMPT);
    while (d.s.length < PROMPT + 20) drafted_round(&d);
    while (alone.s.length < d.s.length) drafted_round(&alone);
    for (int64_t i = PROMPT; i < d.s.length; i++) {
        assert_int_equal(d.s.text[i], alone.s.text[i]);
        assert_true(d.s.generated[i].margin == alone.s.generated[i].margin);
        assert_true(d.s.generated[i].margin >= 0);
    }
    drafted_close(&d);
    drafted_close(&alone);
}

/* q of a draft is its law at the temperature, at target ids, and 0 at those that the draft does not
 * know; by it and by the coin of its place the draft is accepted or not. */
static void sampled__drafts_come_with_the_law_that_drew_them(void **state)
{
    const struct speculate_options how = {.drafts = 2, .temperature = 2, .seed = 3};
    struct drafted d;
    drafted_models(&d, state, DRAFTED_LLAMA);
    drafted_start(&d, &how, 128);
    drafted_begin(&d, prompt, PROMPT);
    int kept_some = 0;
    for (int round = 0; round < 20; round++) {
        double law[DRAFTED_DRAFT_IDS], q[DRAFTED_IDS] = {0};
        int64_t position = d.s.length;
        chance_law(d.s.logits, DRAFTED_DRAFT_IDS, 2, law);
        for (int i = 0; i < DRAFTED_DRAFT_IDS; i++) q[d.head.target_id[i]] = law[i];
        drafted_round(&d);
        assert_memory_equal(d.s.tree.q + DRAFTED_IDS, q, sizeof q);
        int64_t token = d.s.tree.token[1];
        assert_int_equal(token, chance_pick(q, DRAFTED_IDS, chance_draft(3, position)));
        bool kept = chance_coin(3, position, token, DRAFTED_IDS) * q[token] < d.s.target[token];
        assert_int_equal(d.s.accepted > 0, kept);
        kept_some += kept;
    }
    assert_in_range(kept_some, 1, 19);
    drafted_close(&d);
}

/* ---- refusals ---- */

static void round__is_refused__when_the_cache_has_no_room_for_its_nodes(void **state)
{
    struct drafted d;
    struct err err = ERR_INIT;
    drafted_models(&d, state, DRAFTED_LLAMA);
    drafted_start(&d, &chain, PROMPT + 3); /* three blocks of four */
    drafted_begin(&d, prompt, PROMPT);
    assert_int_equal(d.s.capacity, 12);
    assert_int_equal(speculate_round(&d.s, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "generate", "token 1", "a cache for 12 tokens", "13: ");
    assert_int_equal(d.s.length, PROMPT + 1);
    drafted_stop(&d);
    drafted_start(&d, &chain, PROMPT + 4);
    drafted_begin(&d, prompt, PROMPT);
    drafted_round(&d);
    drafted_stop(&d);

    struct tokens t = drafted_tokens(prompt, PROMPT);
    drafted_start(&d, &chain, 4);
    err_clear(&err);
    assert_int_equal(speculate_begin(&d.s, &t, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "generate", "token 0", "a cache for 4 tokens", "9: ");
    tokens_free(&t);
    int64_t lengths[2] = {1, 1};
    err_clear(&err);
    if (tokens_copy(prompt, 2, lengths, 2, &t, &err) != ERR_OK) assert_ok(&err);
    assert_int_equal(speculate_begin(&d.s, &t, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "generate", "prompt", "2 sequences", "one");
    tokens_free(&t);
    drafted_close(&d);
}

static void options__that_make_no_drafts_are_refused(void **state)
{
    static const struct {
        struct speculate_options how;
        const char *where, *found;
    } rows[] = {
        {{.drafts = 0}, "drafts of a round", "0"},
        {{.drafts = 4097}, "drafts of a round", "4097"},
        {{.drafts = 2, .temperature = -1}, "temperature", "-1"},
        {{.drafts = 2, .temperature = NAN}, "temperature", "nan"},
        {{.drafts = 2, .tree = true, .top_k = 0}, "tree", "depth 0, top-k 0"},
        {{.drafts = 2, .tree = true, .top_k = 2, .depth = 65}, "tree", "depth 65"},
        {{.drafts = 2, .tree = true, .top_k = 9, .depth = 1}, "tree", "top-k 9"},
    };
    struct drafted d;
    int64_t room = 16;
    drafted_models(&d, state, DRAFTED_LLAMA);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        if (session_open(&d.session, &d.loaded, &d.options, 1, &room, &err) != ERR_OK)
            assert_ok(&err);
        assert_int_equal(speculate_open(&d.s, &d.session, &d.head, &rows[i].how, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "speculate", rows[i].where, rows[i].found, NULL);
        drafted_stop(&d);
    }
    drafted_close(&d);
}

static void draft__with_nan_is_named(void **state)
{
    const struct speculate_options *const hows[] = {&chain, &tree};
    for (size_t i = 0; i < 2; i++) {
        struct drafted d;
        struct err err = ERR_INIT;
        drafted_models(&d, state, DRAFTED_LLAMA);
        drafted_start(&d, hows[i], 40);
        drafted_begin(&d, prompt, PROMPT);
        d.s.logits[3] = NAN;
        assert_int_equal(speculate_round(&d.s, &err), ERR_DIFF);
        assert_err(&err, ERR_DIFF, "generate", "draft of token 1", "NaN", "numbers");
        drafted_close(&d);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(round__leaves_the_caches_and_gives_the_logits_of_a_plain_run),
        TEST(round__is_that_of_a_plain_run__in_an_engines_profile),
        TEST(tokens__are_those_of_plain_greedy_decoding),
        TEST(prefill__gives_the_draft_the_same_rows__in_chunks),
        TEST(margin__is_that_of_the_logits_which_gave_the_token),
        TEST(sampled__drafts_come_with_the_law_that_drew_them),
        TEST(round__is_refused__when_the_cache_has_no_room_for_its_nodes),
        TEST(options__that_make_no_drafts_are_refused),
        TEST(draft__with_nan_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
