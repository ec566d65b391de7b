/* test_drafting.c: a head beside its target on known tokens: every step's rows have the bits of an
 * inference chain with a cache of its own, whatever the threads, chunks and neighbours. Numbers
 * against goldens: test_golden_eagle.c. */
#include "core/embed.h"
#include "core/logits.h"
#include "core/norm.h"
#include "tests/assert_array.h"
#include "tests/eagle_case.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the chain of one row, as an engine that drafts would run it ---- */

struct chain {
    struct eagle_case *c;
    struct cache cache;
    double *feed, *hidden, *logits;
};

static void chain_open(struct chain *k, struct eagle_case *c, int64_t room)
{
    struct err err = ERR_INIT;
    struct arena *a = &c->session.arena;
    const struct head_config *h = &c->head.config;
    *k = (struct chain){.c = c};
    (void)!cache_make(&k->cache, a, h->base.layers, 1, &room, 5, head_cache_width(h), 3, &err);
    assert_ok(&err);
    k->feed = arena_alloc(a, room * h->base.hidden, sizeof(double), "feed", &err);
    k->hidden = arena_alloc(a, room * h->base.hidden, sizeof(double), "hidden", &err);
    k->logits = arena_alloc(a, room * h->draft_vocab, sizeof(double), "logits", &err);
    assert_ok(&err);
}

/* Rows first .. first+n-1 in plain order, each paired with its token. */
static void chain_step(struct chain *k, int64_t first, int64_t n, const int64_t *token,
                       const double *aux)
{
    struct err err = ERR_INIT;
    struct run run = k->c->session.run;
    int32_t *sequence = calloc((size_t)n, sizeof *sequence);
    int64_t *position = calloc((size_t)n, sizeof *position);
    assert_true(sequence && position);
    for (int64_t i = 0; i < n; i++) position[i] = first + i;
    const struct rows rows = {.count = n,
                              .sequence = sequence,
                              .position = position,
                              .token = token,
                              .dump_row = position};
    const struct draft_step step = {.head = &k->c->head,
                                    .cache = &k->cache,
                                    .rows = &rows,
                                    .aux = aux,
                                    .hidden = k->feed,
                                    .out = k->hidden,
                                    .feed = k->feed,
                                    .logits = k->logits};
    (void)!draft_step_ref(&step, &run, &err);
    assert_ok(&err);
    free(sequence);
    free(position);
}

/* Row p: its prefill, then each step as a decode; against what the drafting gave. */
static void check_chain(struct eagle_case *c, const struct eagle_drafts *d, int64_t p,
                        const int64_t *teacher)
{
    struct chain k;
    int64_t H = d->H, V = d->V;
    struct arena_block *mark = arena_mark(&c->session.arena);
    chain_open(&k, c, p + 1 + d->steps);
    chain_step(&k, 0, p + 1, c->tokens.id + 1, c->states.data);
    memmove(k.feed, k.feed + p * H, (size_t)H * sizeof(double));
    assert_f64_bits(k.hidden + p * H, d->hidden[0] + p * H, 1, H);
    assert_f64_bits(k.logits + p * V, d->logits[0] + p * V, 1, V);
    for (int64_t s = 1; s < d->steps && p < d->given[s]; s++) {
        int64_t token = teacher ? teacher[p + 1 + s] : d->token[s - 1][p];
        chain_step(&k, p + s, 1, &token, NULL);
        assert_f64_bits(k.hidden, d->hidden[s] + p * H, 1, H);
        assert_f64_bits(k.logits, d->logits[s] + p * V, 1, V);
    }
    arena_release(&c->session.arena, mark);
}

static const struct eagle_spec *const specs[] = {&eagle_llama, &eagle_llama_nbr, &eagle_mla,
                                                 &eagle_trained};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void every_row__has_the_bits_of_an_incremental_chain(void **state)
{
    (void)state;
    for (int i = 0; i < SPECS; i++) {
        for (int precision = 0; precision < 2; precision++) {
            struct eagle_case c;
            struct eagle_drafts d;
            struct session_options o = session_defaults();
            o.precision = precision ? PRECISION_F64 : PRECISION_F32;
            eagle_case_open(&c, specs[i], &o);
            eagle_case_draft(&c, &c.head, NULL, NULL, &d);
            assert_int_equal(d.steps, specs[i]->steps);
            for (int64_t p = 0; p < c.rows; p += 1 + p / 7) check_chain(&c, &d, p, NULL);
            check_chain(&c, &d, c.rows - 1, NULL);
            eagle_drafts_free(&d);
            eagle_case_close(&c);
        }
    }
}

static void teacher__feeds_the_text_and_leaves_rows_without_it_out(void **state)
{
    (void)state;
    struct eagle_case c;
    struct eagle_drafts d, own;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_llama, &o);
    eagle_case_draft(&c, &c.head, NULL, c.tokens.id, &d);
    eagle_case_draft(&c, &c.head, NULL, NULL, &own);
    for (int64_t s = 0; s < d.steps; s++) assert_int_equal(d.given[s], c.rows - s);
    for (int64_t p = 0; p < c.rows; p += 5) check_chain(&c, &d, p, c.tokens.id);
    check_chain(&c, &d, c.rows - d.steps, c.tokens.id);
    assert_f64_bits(d.logits[0], own.logits[0], c.rows, d.V);
    /* The text is not what this head would have said. */
    assert_true(memcmp(d.hidden[1], own.hidden[1], (size_t)d.H * sizeof(double)) != 0);
    eagle_drafts_free(&own);
    eagle_drafts_free(&d);
    eagle_case_close(&c);
}

static void short_text__has_fewer_steps_with_a_teacher(void **state)
{
    (void)state;
    struct eagle_case c;
    struct eagle_drafts d;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_llama, &o);
    int64_t all = c.rows;
    c.rows = 2;
    eagle_case_draft(&c, &c.head, NULL, c.tokens.id, &d);
    assert_int_equal(d.steps, 2);
    assert_int_equal(d.given[1], 1);
    eagle_drafts_free(&d);
    c.rows = 0;
    eagle_case_draft(&c, &c.head, NULL, NULL, &d);
    assert_int_equal(d.steps, 0);
    eagle_drafts_free(&d);
    c.rows = all;
    eagle_case_close(&c);
}

static void assert_same_drafts(const struct eagle_drafts *a, const struct eagle_drafts *b)
{
    assert_int_equal(a->steps, b->steps);
    assert_f64_bits(a->fused, b->fused, a->rows, a->H);
    for (int64_t s = 0; s < a->steps; s++) {
        assert_f64_bits(a->hidden[s], b->hidden[s], a->rows, a->H);
        assert_f64_bits(a->logits[s], b->logits[s], a->rows, a->V);
        assert_memory_equal(a->token[s], b->token[s], (size_t)a->rows * sizeof(int32_t));
    }
}

static void drafts__have_the_same_bits__for_any_threads_and_chunks_of_the_target(void **state)
{
    (void)state;
    static const struct {
        int threads;
        int64_t chunk, block;
    } ways[] = {{1, 0, 64}, {3, 0, 64}, {2, 1, 64}, {2, 7, 5}, {3, 16, 1}};
    for (int i = 0; i < SPECS; i++) {
        struct eagle_case c;
        struct eagle_drafts first, other;
        struct session_options o = session_defaults();
        eagle_case_open(&c, specs[i], &o);
        eagle_case_draft(&c, &c.head, NULL, NULL, &first);
        eagle_case_close(&c);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            o.threads = ways[w].threads;
            o.chunk = ways[w].chunk;
            o.block = ways[w].block;
            eagle_case_open(&c, specs[i], &o);
            eagle_case_draft(&c, &c.head, NULL, NULL, &other);
            assert_same_drafts(&other, &first);
            eagle_drafts_free(&other);
            eagle_case_close(&c);
        }
        eagle_drafts_free(&first);
    }
}

static void row__sees_nothing_behind_it(void **state)
{
    (void)state;
    struct eagle_case c;
    struct eagle_drafts whole, part;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_mla, &o);
    eagle_case_draft(&c, &c.head, NULL, NULL, &whole);
    int64_t all = c.rows, few = 17;
    c.rows = few;
    eagle_case_draft(&c, &c.head, NULL, NULL, &part);
    for (int64_t s = 0; s < part.steps; s++)
        assert_f64_bits(part.logits[s], whole.logits[s], few, part.V);
    c.rows = all;
    eagle_drafts_free(&part);
    eagle_drafts_free(&whole);
    eagle_case_close(&c);
}

/* A state that is not a number has no draft, stays one through the steps, and leaves earlier rows
 * alone. */
static void nan_state__gives_no_token__and_earlier_rows_keep_their_bits(void **state)
{
    (void)state;
    enum { BAD = 11 };
    struct eagle_case c;
    struct eagle_drafts good, bad;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_llama, &o);
    eagle_case_draft(&c, &c.head, NULL, NULL, &good);
    c.states.data[BAD * c.states.count * c.states.hidden + 5] = NAN;
    eagle_case_draft(&c, &c.head, NULL, NULL, &bad);
    for (int64_t s = 0; s < bad.steps; s++) {
        assert_f64_bits(bad.logits[s], good.logits[s], BAD, bad.V);
        for (int64_t p = BAD; p < c.rows; p++) {
            assert_int_equal(bad.token[s][p], -1);
            assert_true(isnan(bad.hidden[s][p * bad.H]));
        }
    }
    eagle_drafts_free(&bad);
    eagle_drafts_free(&good);
    eagle_case_close(&c);
}

static void rounding__is_to_the_heads_type__not_the_targets(void **state)
{
    (void)state;
    struct eagle_case c;
    struct eagle_drafts own, other, half;
    struct err err = ERR_INIT;
    struct session_options o = session_defaults();
    (void)!profile_find("hf", &o.profile, &err);
    assert_ok(&err);
    eagle_case_open(&c, &eagle_llama, &o);
    eagle_case_draft(&c, &c.head, NULL, NULL, &own);
    c.session.run.act = DT_F16; /* as if the target were of another type */
    eagle_case_draft(&c, &c.head, NULL, NULL, &other);
    assert_same_drafts(&other, &own);
    for (int64_t i = 0; i < c.rows * own.H; i++)
        assert_true(own.hidden[0][i] == dtype_round(DT_BF16, own.hidden[0][i]));
    struct head h = c.head;
    h.config.base.dtype = DT_F16;
    eagle_case_draft(&c, &h, NULL, NULL, &half);
    assert_true(memcmp(half.fused, own.fused, (size_t)(c.rows * own.H) * sizeof(double)) != 0);
    eagle_drafts_free(&half);
    eagle_drafts_free(&other);
    eagle_drafts_free(&own);
    eagle_case_close(&c);
}

/* Logits of a state as it was given, rounded. */
static double *logits_of(struct eagle_case *c, const double *hidden, struct run *run)
{
    struct err err = ERR_INIT;
    struct arena *a = &c->session.arena;
    const struct head_config *h = &c->head.config;
    double *normed = arena_alloc(a, c->rows * h->base.hidden, sizeof *normed, "normed", &err);
    double *y = arena_alloc(a, c->rows * h->draft_vocab, sizeof *y, "logits", &err);
    assert_ok(&err);
    const struct norm norm = {.T = c->rows,
                              .H = h->base.hidden,
                              .eps = h->base.norm_eps,
                              .x = hidden,
                              .w = &c->head.norm,
                              .y = normed};
    const struct logits logits = {.T = c->rows, .x = normed, .head = &c->head.lm_head, .y = y};
    (void)!norm_ref(&norm, run, &err);
    (void)!logits_ref(&logits, run, &err);
    assert_ok(&err);
    return y;
}

static void last_norm__reads_the_unrounded_sum__in_profile_sgl_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"math", "hf", "vllm", "sgl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct eagle_case c;
        struct eagle_drafts d;
        struct err err = ERR_INIT;
        struct session_options o = session_defaults();
        (void)!profile_find(names[i], &o.profile, &err);
        assert_ok(&err);
        eagle_case_open(&c, &eagle_llama, &o);
        eagle_case_draft(&c, &c.head, NULL, NULL, &d);
        struct run run = c.session.run;
        run.act = c.head.config.base.dtype;
        const double *want = logits_of(&c, d.hidden[0], &run);
        bool same = memcmp(want, d.logits[0], (size_t)(c.rows * d.V) * sizeof *want) == 0;
        assert_int_equal(same, strcmp(names[i], "sgl") != 0);
        eagle_drafts_free(&d);
        eagle_case_close(&c);
    }
}

/* ---- heads of two layers ---- */

/* eagle-llama with a second layer, made by the rule; opened in c->head's place. */
static void take_two_layers(void **state, struct eagle_case *c)
{
    struct err err = ERR_INIT;
    char spec[FILE_PATH], path[FILE_PATH];
    size_t size;
    snprintf(path, sizeof path, "%s/fixtures/eagle-llama/config.json", ASSAY_SOURCE_DIR);
    char *text = read_whole(path, &size);
    char *two = replaced(text, "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
    write_text(folder_path(state, "config.json"), two);
    int n = snprintf(spec, sizeof spec, "synth:%s?seed=31", folder_path(state, "config.json"));
    assert_true(n > 0 && n < FILE_PATH);
    head_close(&c->head);
    (void)!head_open(&c->head, spec, &c->loaded.model, &err);
    assert_ok(&err);
    assert_int_equal(c->head.config.base.layers, 2);
    free(two);
    free(text);
}

static void two_layers__draft_as_a_chain_does(void **state)
{
    struct eagle_case c;
    struct eagle_drafts d;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_llama, &o);
    take_two_layers(state, &c);
    eagle_case_draft(&c, &c.head, NULL, NULL, &d);
    for (int64_t p = 0; p < c.rows; p += 9) check_chain(&c, &d, p, NULL);
    eagle_drafts_free(&d);
    eagle_case_close(&c);
}

/* Both layers by hand, the second with the first's state and its sum before the rounding. */
static double *two_layers(struct eagle_case *c, const double *fused, struct run *run, bool with_sum)
{
    struct err err = ERR_INIT;
    struct arena *a = &c->session.arena;
    const struct head *h = &c->head;
    int64_t H = h->config.base.hidden, n = c->rows;
    struct cache cache;
    int32_t *sequence = arena_alloc(a, n, sizeof *sequence, "rows", &err);
    int64_t *position = arena_alloc(a, n, sizeof *position, "rows", &err);
    double *embed = arena_alloc(a, n * H, sizeof *embed, "embed", &err);
    double *x = arena_alloc(a, n * H, sizeof *x, "state", &err);
    double *sum = arena_alloc(a, n * H, sizeof *sum, "sum", &err);
    assert_ok(&err);
    for (int64_t p = 0; p < n; p++) {
        sequence[p] = 0;
        position[p] = p;
    }
    const struct rows rows = {.count = n,
                              .sequence = sequence,
                              .position = position,
                              .token = c->tokens.id + 1,
                              .dump_row = position};
    const struct embed e = {.T = n,
                            .H = H,
                            .V = h->config.base.vocab,
                            .id = rows.token,
                            .table = &h->embed,
                            .y = embed};
    struct eagle_layer op = {.head = h,
                             .rows = &rows,
                             .embed = embed,
                             .hidden = fused,
                             .cache = &cache,
                             .y = x,
                             .y_sum = sum};
    (void)!cache_make(&cache, a, 2, 1, &n, 4, head_cache_width(&h->config), 1, &err);
    (void)!embed_ref(&e, run, &err);
    assert_ok(&err);
    rows_extend(&rows, &cache);
    (void)!eagle_layer_ref(&op, run, &err);
    op.layer = 1;
    op.embed = NULL;
    op.hidden = x;
    op.sum = with_sum ? sum : NULL;
    (void)!eagle_layer_ref(&op, run, &err);
    assert_ok(&err);
    return x;
}

static void second_layer__reads_the_first_ones_state_and_sum(void **state)
{
    static const char *const names[] = {"math", "hf", "sgl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct eagle_case c;
        struct eagle_drafts d;
        struct err err = ERR_INIT;
        struct session_options o = session_defaults();
        (void)!profile_find(names[i], &o.profile, &err);
        assert_ok(&err);
        eagle_case_open(&c, &eagle_llama, &o);
        take_two_layers(state, &c);
        eagle_case_draft(&c, &c.head, NULL, NULL, &d);
        struct run run = c.session.run;
        run.act = c.head.config.base.dtype;
        assert_f64_bits(d.hidden[0], two_layers(&c, d.fused, &run, true), c.rows, d.H);
        const double *without = two_layers(&c, d.fused, &run, false);
        bool same = memcmp(d.hidden[0], without, (size_t)(c.rows * d.H) * sizeof *without) == 0;
        assert_int_equal(same, strcmp(names[i], "sgl") != 0);
        eagle_drafts_free(&d);
        eagle_case_close(&c);
    }
}

static enum err_code refuse(void *ctx, const struct drafting_out *out, struct err *err)
{
    int64_t *calls = ctx;
    (*calls)++;
    return err_set(err, ERR_IO, "take drafts||step %lld|none", (long long)out->step);
}

static void error_of_the_receiver__ends_the_run(void **state)
{
    (void)state;
    struct eagle_case c;
    struct err err = ERR_INIT;
    int64_t calls = 0;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_llama, &o);
    const struct drafting d = {
        .head = &c.head, .run = c.session.run, .steps = 3, .give = refuse, .ctx = &calls};
    assert_int_equal(drafting_run(&d, 0, c.rows, c.states.data, c.tokens.id, &err), ERR_IO);
    assert_int_equal(calls, 1);
    assert_err(&err, ERR_IO, "take drafts", NULL, "step 0", NULL);
    eagle_case_close(&c);
}

static void token_outside_the_vocabulary__is_refused(void **state)
{
    (void)state;
    struct eagle_case c;
    struct err err = ERR_INIT;
    int64_t calls = 0;
    struct session_options o = session_defaults();
    eagle_case_open(&c, &eagle_llama, &o);
    const struct drafting d = {
        .head = &c.head, .run = c.session.run, .steps = 1, .give = refuse, .ctx = &calls};
    c.tokens.id[3] = c.head.config.base.vocab;
    assert_int_equal(drafting_run(&d, 0, c.rows, c.states.data, c.tokens.id, &err), ERR_INPUT);
    assert_int_equal(calls, 0);
    assert_err(&err, ERR_INPUT, "token id", "row 2", "512", "0 to 511");
    eagle_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row__has_the_bits_of_an_incremental_chain),
        cmocka_unit_test(teacher__feeds_the_text_and_leaves_rows_without_it_out),
        cmocka_unit_test(short_text__has_fewer_steps_with_a_teacher),
        cmocka_unit_test(drafts__have_the_same_bits__for_any_threads_and_chunks_of_the_target),
        cmocka_unit_test(row__sees_nothing_behind_it),
        cmocka_unit_test(nan_state__gives_no_token__and_earlier_rows_keep_their_bits),
        cmocka_unit_test(rounding__is_to_the_heads_type__not_the_targets),
        cmocka_unit_test(last_norm__reads_the_unrounded_sum__in_profile_sgl_alone),
        cmocka_unit_test_setup_teardown(two_layers__draft_as_a_chain_does, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(second_layer__reads_the_first_ones_state_and_sum,
                                        folder_setup, folder_teardown),
        cmocka_unit_test(error_of_the_receiver__ends_the_run),
        cmocka_unit_test(token_outside_the_vocabulary__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
