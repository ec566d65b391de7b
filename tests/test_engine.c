/* test_engine.c: an engine behind the contract of core/engine.h: that the harness drives one
 * through it and in no other way, and that one which cannot run here says so. The device's own:
 * ci/gpu.sh. */
#include "core/engine.h"
#include "harness/drafting.h"
#include "tests/cli.h"
#include "tests/drafted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define K25 ASSAY_SOURCE_DIR "/fixtures/tiny-k25"

/* ---- an engine that keeps its pools to itself ---- */

/* The reference behind a wall: entries are in reach while it runs, and at no other time, so that
 * whoever reads the pool past the contract dies of it. */
static struct {
    int opened, closed, caches, steps, drafts, moves;
    bool fails_to_move;
} seen;

static enum err_code wall_open(const struct model *m, void **self, struct err *err)
{
    *self = (void *)(uintptr_t)m;
    seen.opened++;
    return err->code;
}

static void wall_close(void *self)
{
    assert_non_null(self);
    seen.closed++;
}

static enum err_code wall_cache_open(void *self, struct cache *c, struct arena *arena,
                                     struct err *err)
{
    assert_non_null(self);
    assert_null(c->pool);
    if (cache_pool(c, arena, err) != ERR_OK) return err->code;
    c->own = c->pool;
    c->pool = NULL;
    seen.caches++;
    return ERR_OK;
}

static void wall_cache_close(void *self, struct cache *c)
{
    assert_non_null(self);
    if (c->own) seen.caches--;
}

static enum err_code wall_move(void *self, struct cache *c, int64_t sequence, int64_t from,
                               int64_t to, struct err *err)
{
    struct cache open = *c;
    assert_non_null(self);
    if (seen.fails_to_move) return err_set(err, ERR_DEVICE, "move|a cache|no device|one");
    open.pool = c->own;
    cache_move(&open, sequence, from, to);
    seen.moves++;
    return err->code;
}

static enum err_code wall_step(void *self, const struct step *s, struct run *run, struct err *err)
{
    assert_ptr_equal(self, s->model);
    seen.steps++;
    s->cache->pool = s->cache->own;
    enum err_code rc = model_step_ref(s, run, err);
    s->cache->pool = NULL;
    return rc;
}

static enum err_code wall_draft(void *self, const struct draft_step *s, struct run *run,
                                struct err *err)
{
    assert_non_null(self);
    seen.drafts++;
    s->cache->pool = s->cache->own;
    enum err_code rc = draft_step_ref(s, run, err);
    s->cache->pool = NULL;
    return rc;
}

static const struct engine_kind wall = {.name = "wall",
                                        .about = "a wall",
                                        .profile = "math",
                                        .imitates = true,
                                        .side = ref_side,
                                        .open = wall_open,
                                        .close = wall_close,
                                        .cache_open = wall_cache_open,
                                        .cache_close = wall_cache_close,
                                        .cache_move = wall_move,
                                        .step = wall_step,
                                        .draft = wall_draft};

static void put_behind_wall(struct loaded *l)
{
    struct err err = ERR_INIT;
    engine_close(&l->engine);
    (void)!engine_open(&l->engine, &wall, &l->model, &err);
    assert_ok(&err);
}

static int start(void **state)
{
    memset(&seen, 0, sizeof seen);
    return folder_setup(state);
}

/* ---- what is run through it ---- */

enum { TOKENS = 24, PROMPT = 3 };

/* Tokens of a head's rounds, of one engine. */
static void generate(void **state, enum drafted_head kind, bool tree, bool walled,
                     int64_t out[TOKENS])
{
    const struct speculate_options how = {.drafts = 4, .tree = tree, .depth = 2, .top_k = 3};
    const int64_t prompt[PROMPT] = {1, 7, 3};
    struct drafted d;
    drafted_models(&d, state, kind);
    if (walled) put_behind_wall(&d.loaded);
    drafted_start(&d, &how, PROMPT + TOKENS + 24);
    drafted_begin(&d, prompt, PROMPT);
    while (d.s.length < PROMPT + TOKENS) drafted_round(&d);
    memcpy(out, d.s.text + PROMPT, TOKENS * sizeof *out);
    drafted_stop(&d);
    drafted_close(&d);
}

static void rounds__go_through_the_engine_alone__and_give_the_same_tokens(void **state)
{
    static const enum drafted_head kinds[] = {DRAFTED_NONE, DRAFTED_LLAMA, DRAFTED_MLA};
    for (int i = 0; i < 6; i++) {
        int64_t plain[TOKENS], walled[TOKENS];
        bool tree = i >= 3;
        memset(&seen, 0, sizeof seen);
        generate(state, kinds[i % 3], tree, false, plain);
        assert_int_equal(seen.steps, 0);
        generate(state, kinds[i % 3], tree, true, walled);
        assert_memory_equal(plain, walled, sizeof plain);
        assert_true(seen.steps > 1);
        assert_int_equal(seen.drafts > 1, kinds[i % 3] != DRAFTED_NONE);
        assert_int_equal(seen.moves > 0, tree && kinds[i % 3] != DRAFTED_NONE);
        assert_int_equal(seen.caches, 0);
        assert_int_equal(seen.opened, 1);
        assert_int_equal(seen.closed, 1);
    }
}

static void move__that_fails__ends_the_round(void **state)
{
    const struct speculate_options how = {.drafts = 8, .tree = true, .depth = 2, .top_k = 3};
    const int64_t prompt[PROMPT] = {1, 7, 3};
    struct err err = ERR_INIT;
    struct drafted d;
    drafted_models(&d, state, DRAFTED_MLA);
    put_behind_wall(&d.loaded);
    drafted_start(&d, &how, 128);
    drafted_begin(&d, prompt, PROMPT);
    seen.fails_to_move = true;
    for (int i = 0; i < 20 && err.code == ERR_OK; i++) (void)!speculate_round(&d.s, &err);
    assert_err(&err, ERR_DEVICE, "move", "a cache", "no device", NULL);
    drafted_stop(&d);
    drafted_close(&d);
}

static void batch__gives_the_same_logits__behind_the_contract(void **state)
{
    int64_t id[] = {1, 4, 9, 2, 2, 11, 5}, lengths[] = {4, 3};
    double *last[2];
    struct drafted d;
    struct tokens t;
    struct err err = ERR_INIT;
    drafted_models(&d, state, DRAFTED_NONE);
    if (tokens_copy(id, 7, lengths, 2, &t, &err) != ERR_OK) assert_ok(&err);
    for (int walled = 0; walled < 2; walled++) {
        struct session s;
        last[walled] = calloc(2 * DRAFTED_IDS, sizeof(double));
        if (walled) put_behind_wall(&d.loaded);
        (void)!session_open(&s, &d.loaded, &d.options, 2, lengths, &err);
        (void)!session_forward(&s, &t, NULL, NULL, last[walled], &err);
        assert_ok(&err);
        session_close(&s);
    }
    assert_memory_equal(last[0], last[1], 2 * DRAFTED_IDS * sizeof(double));
    assert_int_equal(seen.caches, 0);
    free(last[0]);
    free(last[1]);
    tokens_free(&t);
    drafted_close(&d);
}

enum { ROWS = 4, STEPS = 3 };

struct drafts {
    double logits[STEPS][ROWS * DRAFTED_DRAFT_IDS];
};

static enum err_code keep_drafts(void *ctx, const struct drafting_out *out, struct err *err)
{
    struct drafts *d = ctx;
    memcpy(d->logits[out->step], out->logits, sizeof d->logits[0]);
    return err->code;
}

static void drafts__of_known_rows__are_made_by_the_engine_they_are_given(void **state)
{
    const int64_t token[ROWS + 1] = {1, 7, 3, 3, 9};
    static double aux[ROWS * 3 * 64];
    struct drafts got[2] = {0};
    struct err err = ERR_INIT;
    struct drafted d;
    struct arena arena = ARENA_INIT;
    drafted_models(&d, state, DRAFTED_LLAMA);
    put_behind_wall(&d.loaded);
    for (size_t i = 0; i < sizeof aux / sizeof aux[0]; i++) aux[i] = (double)(i % 13) - 6;
    for (int walled = 0; walled < 2; walled++) {
        const struct run run = {
            .arena = &arena, .profile = d.options.profile, .act = DT_BF16, .threads = 1};
        const struct drafting drafting = {.engine = walled ? &d.loaded.engine : NULL,
                                          .head = &d.head,
                                          .run = run,
                                          .steps = STEPS,
                                          .give = keep_drafts,
                                          .ctx = &got[walled]};
        (void)!drafting_run(&drafting, 0, ROWS, aux, token, &err);
        assert_ok(&err);
        assert_int_equal(seen.drafts, walled ? STEPS : 0);
    }
    assert_memory_equal(&got[0], &got[1], sizeof got[0]);
    assert_true(got[0].logits[STEPS - 1][0] != 0);
    assert_int_equal(seen.caches, 0);
    arena_release(&arena, NULL);
    drafted_close(&d);
}

/* ---- caches ---- */

static void caches__of_the_reference__move_in_every_layer(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct cache c = {0};
    const struct engine e = {ref_engine(), NULL};
    const int64_t room = 9;
    const struct cache_sizes sizes = {3, 1, &room, 4, 2, 5};
    (void)!engine_cache_open(&e, &c, &arena, &sizes, &err);
    assert_ok(&err);
    assert_null(c.own);
    for (int64_t l = 0; l < 3; l++) {
        assert_true(isnan(cache_read(&c, l, 0, 8)[1]));
        cache_write(&c, l, 0, 8)[1] = (double)l + 7;
    }
    assert_int_equal(engine_cache_move(&e, &c, 0, 8, 1, &err), ERR_OK);
    for (int64_t l = 0; l < 3; l++) assert_true(cache_read(&c, l, 0, 1)[1] == (double)l + 7);
    engine_cache_close(&e, &c);
    engine_cache_close(&e, &c);
    assert_null(c.table);
    arena_release(&arena, NULL);
}

/* ---- which engine ---- */

static enum err_code read_options(struct session_options *o, struct err *err, const char *const *in)
{
    static const struct option_row rows[] = {SESSION_OPTION_ROWS};
    struct args a = {.verb = &verb_forward};
    for (; in[0]; in += 2) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            if (strcmp(rows[r].name, in[0]) == 0) a.given[a.givens] = &rows[r];
        }
        assert_non_null(a.given[a.givens]);
        a.value[a.givens++] = in[1];
    }
    return session_options_read(&a, o, err);
}

static void options__give_an_engine_its_own_profile(void **state)
{
    (void)state;
    static const struct {
        const char *given[5], *engine, *profile;
    } rows[] = {
        {{NULL}, "ref", "math"},
        {{"--on", "ref", NULL}, "ref", "math"},
        {{"--profile", "gpu", NULL}, "ref", "gpu"},
        {{"--on", "gpu", NULL}, "gpu", "gpu"},
        {{"--on", "gpu", "--profile", "gpu", NULL}, "gpu", "gpu"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        struct session_options o;
        (void)!read_options(&o, &err, rows[i].given);
        assert_ok(&err);
        assert_string_equal(o.engine->name, rows[i].engine);
        assert_string_equal(o.profile.name, rows[i].profile);
    }
}

static void options__are_refused__where_the_engine_does_not_imitate(void **state)
{
    (void)state;
    static const struct {
        const char *given[5], *where, *found, *wanted;
    } rows[] = {
        {{"--on", "gpu", "--profile", "hf", NULL},
         "--profile with --on gpu",
         "hf",
         "gpu: it rounds"},
        {{"--on", "gpu", "--profile", "gpu+exact", NULL},
         "--profile",
         "gpu+exact",
         "gpu: it rounds"},
        {{"--on", "gpu", "--precision", "f64", NULL}, "--precision", "--on gpu", "--on ref"},
        {{"--on", "gpu", "--linear", "own", NULL}, "--linear", "--on gpu", "--on ref"},
        {{"--on", "tpu", NULL}, "--on", "\"tpu\"", "ref or gpu"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = ERR_INIT;
        struct session_options o;
        assert_int_equal(read_options(&o, &err, rows[i].given), ERR_USAGE);
        assert_err(&err, ERR_USAGE, "option", rows[i].where, rows[i].found, rows[i].wanted);
    }
}

/* ---- where there is no device ---- */

static bool has_device(void)
{
    if (!gpu_side()->available) return false;
    print_message("not looked at: this machine has a device; ci/gpu.sh tests what runs on it\n");
    return true;
}

static void gpu__says_why_not__where_it_cannot_run(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct loaded l;
    struct engine e;
    if (has_device()) return;
    assert_int_equal(engine_usable(gpu_engine(), &err), ERR_DEVICE);
    assert_err(&err, ERR_DEVICE, "run", "--on gpu", gpu_side()->why_not, "a CUDA device");
    err_clear(&err);
    assert_int_equal(engine_open(&e, gpu_engine(), NULL, &err), ERR_DEVICE);
    assert_null(e.kind);
    engine_close(&e);
    err_clear(&err);
    assert_int_equal(loaded_open_on(&l, K25, gpu_engine(), &err), ERR_DEVICE);
    loaded_close(&l);
}

static void verbs__end_with_3_and_one_line__without_a_device(void **state)
{
    struct refusal r = {3, "run", "--on gpu", gpu_side()->why_not, "a CUDA device"};
    if (has_device()) return;
    cli_refuses(state, r, "forward", K25, "--tokens", "1", "--on", "gpu", "--out",
                folder_path(state, "a.safetensors"));
    cli_refuses(state, r, "generate", K25, "--tokens", "1", "-n", "2", "--on", "gpu");
    cli_refuses(state, r, "extract", K25, "--data", "1,2", "--layers", "1,2,4,5", "--numbering",
                "output", "--format", "vllm", "--out", folder_path(state, "x"), "--on", "gpu");
    assert_int_equal(folder_count(*state), 0);
}

static void extract__takes_a_sample_at_a_time__on_a_device(void **state)
{
    struct refusal r = {2, "option", "--batch with --on gpu", "4", "1: a sample alone"};
    cli_refuses(state, r, "extract", K25, "--data", "1,2", "--layers", "1,2,4,5", "--numbering",
                "output", "--format", "vllm", "--out", folder_path(state, "x"), "--on", "gpu",
                "--batch", "4");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rounds__go_through_the_engine_alone__and_give_the_same_tokens),
        TEST(move__that_fails__ends_the_round),
        TEST(batch__gives_the_same_logits__behind_the_contract),
        TEST(drafts__of_known_rows__are_made_by_the_engine_they_are_given),
        TEST(caches__of_the_reference__move_in_every_layer),
        TEST(options__give_an_engine_its_own_profile),
        TEST(options__are_refused__where_the_engine_does_not_imitate),
        TEST(gpu__says_why_not__where_it_cannot_run),
        TEST(verbs__end_with_3_and_one_line__without_a_device),
        TEST(extract__takes_a_sample_at_a_time__on_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
