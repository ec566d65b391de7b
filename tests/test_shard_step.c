/* test_shard_step.c: a step of the reference over several processes against the same step alone:
 * every plan, in float64, in float32, and with partial sums rounded to bf16. */
#include "core/fault_shard.h"
#include "harness/judge.h"
#include "tests/config_texts.h"
#include "tests/golden.h"
#include "tests/shard_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plain {
    struct golden golden;
    struct loaded loaded;
    struct session_options options;
    struct tap_record whole;
};

static void record(struct plain *p, const char *profile, enum precision precision)
{
    struct err err = ERR_INIT;
    p->options = session_defaults();
    p->options.precision = precision;
    p->options.threads = 1;
    (void)!profile_find(profile, &p->options.profile, &err);
    assert_ok(&err);
    (void)!record_run(&p->whole, &p->loaded, &p->golden.tokens, &p->options, NULL, NULL, &err);
    assert_ok(&err);
}

static void open_case(struct plain *p, const char *name, const char *profile,
                      enum precision precision)
{
    struct err err = ERR_INIT;
    golden_open(&p->golden, name);
    (void)!loaded_open(&p->loaded, p->golden.model, &err);
    assert_ok(&err);
    record(p, profile, precision);
}

/* A model of our own, on a few tokens in two sequences. */
static void open_text(struct plain *p, void **state, const char *config, const char *profile,
                      enum precision precision)
{
    static const int64_t ids[] = {1, 40, 7, 7, 33, 2, 19, 46, 0, 5, 11, 28}, lengths[] = {9, 3};
    struct err err = ERR_INIT;
    *p = (struct plain){0};
    (void)!tokens_copy(ids, 12, lengths, 2, &p->golden.tokens, &err);
    assert_ok(&err);
    shard_model_text(&p->loaded, state, config, 5);
    record(p, profile, precision);
}

static void close_case(struct plain *p)
{
    record_free(&p->whole);
    loaded_close(&p->loaded);
    golden_close(&p->golden);
}

static struct shard_run run_of(const struct plain *p, int tp, int ep, enum dtype reduce)
{
    return (struct shard_run){.loaded = &p->loaded,
                              .tokens = &p->golden.tokens,
                              .options = p->options,
                              .plan = {.tp = tp, .ep = ep, .reduce = reduce}};
}

/* Last logits: whole, and with the same bits, on every rank; those of the tap. */
static void check_last(const struct plain *p, const struct shard_run *r,
                       const struct shard_outcome *o)
{
    const struct recorded *logits = record_find(&o->taps, "logits");
    const struct tokens *t = &p->golden.tokens;
    for (int rank = 0; rank < shard_world(&r->plan); rank++) {
        int64_t row = -1;
        for (int64_t s = 0; s < t->sequences; s++) {
            row += t->length[s];
            assert_memory_equal(o->last[rank] + s * logits->cols,
                                (const double *)logits->data + row * logits->cols,
                                (size_t)logits->cols * sizeof(double));
        }
    }
}

/* Runs, and says how far the taps lie from those of the whole. */
static double distance(const struct plain *p, struct shard_run r)
{
    struct shard_outcome o;
    shard_ranks_run(&r, &o);
    shard_ranks_ok(&r, &o);
    double d = shard_ranks_distance(&o.taps, &p->whole);
    check_last(p, &r, &o);
    shard_ranks_free(&o);
    return d;
}

static const struct {
    int tp, ep;
} plans[] = {{2, 1}, {4, 1}, {8, 1}, {1, 2}, {1, 4}, {2, 2}, {4, 2}, {2, 4}, {8, 2}, {4, 4}};

static void every_plan(const char *name)
{
    struct plain p;
    open_case(&p, name, "math", PRECISION_F64);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct shard_run r = run_of(&p, plans[i].tp, plans[i].ep, DT_F64);
        r.plan.map = i % 2 ? EXPERT_MAP_ROUND_ROBIN : EXPERT_MAP_CONTIGUOUS;
        r.plan.redundant = r.plan.ep > 1 ? (int64_t)(i % 3) * 2 : 0;
        double d = distance(&p, r);
        if (!(d <= 1e-12)) fail_msg("%s tp %d ep %d: %g", name, plans[i].tp, plans[i].ep, d);
    }
    close_case(&p);
}

static void k25__over_every_plan_is_the_whole_in_float64(void **state)
{
    (void)state;
    every_plan("tiny-k25");
}

static void dsv3__over_every_plan_is_the_whole_in_float64(void **state)
{
    (void)state;
    every_plan("tiny-dsv3");
}

/* tp 8 x ep 4, the most that the shipped cases are cut into. */
static void ranks__32_of_them_are_the_whole(void **state)
{
    (void)state;
    struct plain p;
    open_case(&p, "tiny-dsv3", "math", PRECISION_F64);
    double d = distance(&p, run_of(&p, 8, 4, DT_F64));
    if (!(d <= 1e-12)) fail_msg("%g", d);
    close_case(&p);
}

/* ---- shapes of our own ---- */

static char *edited(const char *text, const char *const *edits)
{
    char *out = strdup(text);
    for (; *edits; edits += 2) {
        char *next = replaced(out, edits[0], edits[1]);
        free(out);
        out = next;
    }
    return out;
}

/* Six heads, 12 experts; no q_lora; tied embeddings; no shared experts; several of them. */
static const struct {
    const char *base, *edits[9];
    int tp, ep;
} shapes[] = {
    {CONFIG_PLAIN, {NULL}, 2, 2},
    {CONFIG_PLAIN,
     {"\"num_attention_heads\": 2", "\"num_attention_heads\": 6", "\"intermediate_size\": 80",
      "\"intermediate_size\": 78", "\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 33",
      NULL},
     3,
     2},
    {CONFIG_PLAIN,
     {"\"torch_dtype\"", "\"tie_word_embeddings\": true, \"torch_dtype\"",
      "\"n_shared_experts\": 1", "\"n_shared_experts\": null", NULL},
     2,
     4},
    {CONFIG_PLAIN,
     {"\"n_shared_experts\": 1", "\"n_shared_experts\": 3", "\"first_k_dense_replace\": 1",
      "\"first_k_dense_replace\": 0", NULL},
     2,
     1},
    {CONFIG_PLAIN, {"\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 2", NULL}, 2, 1},
    {CONFIG_K25, {NULL}, 2, 2},
    {CONFIG_K25,
     {"\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 64", "\"num_bits\": 4",
      "\"num_bits\": 8", NULL},
     2,
     1},
};

static void shapes__of_other_models_are_the_whole(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct plain p;
        char *text = edited(shapes[i].base, shapes[i].edits);
        open_text(&p, state, text, "math", PRECISION_F64);
        double d = distance(&p, run_of(&p, shapes[i].tp, shapes[i].ep, DT_F64));
        if (!(d <= 1e-12)) fail_msg("shape %zu: %g", i, d);
        close_case(&p);
        free(text);
    }
}

/* ---- rounding ---- */

/* The whole model's derived bound (judge.h), of two runs in float32. */
static double derived(const struct recorded *t, const struct config *c)
{
    enum tap_kind kind;
    int64_t layer, widest = c->vocab > c->intermediate ? c->vocab : c->intermediate;
    assert_true(tap_parse(t->name, &kind, &layer));
    double n = (double)judge_depth(kind, layer, c->layers), u = 0x1p-24;
    return sqrt(16 * u * u * n + 64 * u * u * n * (double)widest / 64);
}

static void check_f32(const char *name, int tp, int ep, enum dtype reduce)
{
    struct plain p;
    struct shard_outcome o;
    open_case(&p, name, "math", PRECISION_F32);
    struct shard_run r = run_of(&p, tp, ep, reduce);
    shard_ranks_run(&r, &o);
    shard_ranks_ok(&r, &o);
    (void)shard_ranks_distance(&o.taps, &p.whole);
    for (int i = 0; i < o.taps.count; i++) {
        const struct recorded *t = &o.taps.tap[i];
        if (t->ints) continue;
        double d = record_relative(t, p.whole.tap[i].data);
        double bound = derived(t, p.loaded.model.config);
        if (!(d <= bound)) fail_msg("%s %s: %g, bound %g", name, t->name, d, bound);
    }
    shard_ranks_free(&o);
    close_case(&p);
}

static void float32__stays_within_the_derived_bound(void **state)
{
    (void)state;
    check_f32("tiny-k25", 2, 2, DT_F32);
    check_f32("tiny-k25", 8, 1, DT_F32);
    check_f32("tiny-dsv3", 4, 2, DT_F32);
    check_f32("tiny-dsv3", 1, 4, DT_F32);
}

/* Whatever the whole rounds to its activations' type is so rounded when the parts are added up. */
static void roundings__are_those_of_the_whole(void **state)
{
    (void)state;
    static const char *const profiles[] = {"vllm", "hf"};
    for (int k = 0; k < 2; k++) {
        struct plain p;
        struct shard_outcome o;
        int rounded = 0;
        open_case(&p, "tiny-k25", profiles[k], PRECISION_F32);
        struct shard_run r = run_of(&p, 2, 2, DT_F32);
        shard_ranks_run(&r, &o);
        shard_ranks_ok(&r, &o);
        assert_int_equal(o.taps.count, p.whole.count);
        for (int i = 0; i < o.taps.count; i++) {
            const struct recorded *t = &o.taps.tap[i], *w = &p.whole.tap[i];
            bool all = !t->ints;
            for (int64_t j = 0; all && j < t->rows * t->cols; j++) {
                double v = ((const double *)w->data)[j];
                all = dtype_round(DT_BF16, v) == v;
            }
            rounded += all;
            for (int64_t j = 0; all && j < t->rows * t->cols; j++) {
                double v = ((const double *)t->data)[j];
                if (dtype_round(DT_BF16, v) != v) fail_msg("%s is not rounded", t->name);
            }
        }
        assert_true(rounded > 60);
        shard_ranks_free(&o);
        close_case(&p);
    }
}

/* A term of an expert that is cut is no value of its own: what rounds terms alone rounds nothing.
 */
static void experts__that_are_cut_do_not_round_their_terms(void **state)
{
    (void)state;
    struct plain p;
    open_case(&p, "tiny-dsv3", "math", PRECISION_F64);
    p.options.profile.rounds[RP_EXPERT_TERM] = true;
    double cut = distance(&p, run_of(&p, 2, 1, DT_F64));
    double whole = distance(&p, run_of(&p, 1, 2, DT_F64));
    if (!(cut <= 1e-12) || !(whole > 1e-5)) fail_msg("cut %g, whole %g", cut, whole);
    close_case(&p);
}

/* Partial sums in bf16 are another model: further off than float32, and near still. */
static void bf16_sums__are_seen_and_are_small(void **state)
{
    (void)state;
    struct plain p;
    open_case(&p, "tiny-k2-plainrope", "vllm", PRECISION_F32);
    double plain = distance(&p, run_of(&p, 4, 1, DT_F32));
    double rounded = distance(&p, run_of(&p, 4, 1, DT_BF16));
    close_case(&p);
    printf("vllm, tp 4: float32 sums %.2g, bf16 sums %.2g\n", plain, rounded);
    assert_true(plain < rounded && rounded < 0.1);
}

/* Without cut linears every op but the experts' sum keeps its bits; that sum has another order. */
static void experts_alone__keep_the_bits_up_to_the_first_sum(void **state)
{
    (void)state;
    struct plain p;
    struct shard_outcome o;
    open_case(&p, "tiny-dsv3", "math", PRECISION_F64);
    struct shard_run r = run_of(&p, 1, 4, DT_F64);
    shard_ranks_run(&r, &o);
    shard_ranks_ok(&r, &o);
    int first = record_first_change(&o.taps, &p.whole);
    printf("ep 4 in float64: first tap that differs in bits: %s\n",
           first < 0 ? "none" : o.taps.tap[first].name);
    assert_true(first < 0 || strstr(o.taps.tap[first].name, ".routed"));
    shard_ranks_free(&o);
    close_case(&p);
}

/* ---- taps that are replaced; ranks that are not in one step ---- */

static void replace__of_rank_0_holds_on_every_rank(void **state)
{
    (void)state;
    struct plain p;
    struct shard_outcome o, one;
    open_case(&p, "tiny-dsv3", "math", PRECISION_F64);
    struct shard_run r = run_of(&p, 2, 2, DT_F64), alone = run_of(&p, 1, 1, DT_F64);
    r.replace = alone.replace = true;
    shard_ranks_run(&alone, &one);
    shard_ranks_ok(&alone, &one);
    shard_ranks_run(&r, &o);
    shard_ranks_ok(&r, &o);
    double d = shard_ranks_distance(&o.taps, &one.taps);
    if (!(d <= 1e-12)) fail_msg("%g", d);
    const struct recorded *out = record_find(&one.taps, "layers.0.output");
    assert_true(record_relative(out, record_find(&p.whole, "layers.0.output")->data) > 0.1);
    shard_ranks_free(&o);
    shard_ranks_free(&one);
    close_case(&p);
}

static void other_tokens(int rank, struct shard_run *run, struct tokens *tokens)
{
    (void)run;
    if (rank == 1) tokens->id[3] ^= 1;
}

static void fewer_layers(int rank, struct shard_run *run, struct tokens *tokens)
{
    (void)tokens;
    if (rank == 1) run->options.layer_end = 2;
}

static void other_profile(int rank, struct shard_run *run, struct tokens *tokens)
{
    struct err err = ERR_INIT;
    (void)tokens;
    if (rank == 1) (void)!profile_find("hf", &run->options.profile, &err);
}

static void rank__in_another_step_is_named(void **state)
{
    (void)state;
    struct plain p;
    open_case(&p, "tiny-dsv3", "math", PRECISION_F32);
    void (*const ways[])(int, struct shard_run *, struct tokens *) = {other_tokens, fewer_layers,
                                                                      other_profile};
    for (int i = 0; i < 3; i++) {
        struct shard_outcome o;
        struct shard_run r = run_of(&p, 2, 1, DT_F32);
        r.differ = ways[i];
        shard_ranks_run(&r, &o);
        for (int rank = 0; rank < 2; rank++) {
            assert_err(&o.err[rank], ERR_DIFF, "agree", "step: rank 1 against rank 0", NULL, NULL);
            assert_int_equal(o.err[rank].rank, 1);
        }
        shard_ranks_free(&o);
    }
    close_case(&p);
}

/* A lost sum on one e alone: its router sees other rows, and chooses otherwise. */
static void rank__that_routes_otherwise_is_named(void **state)
{
    (void)state;
    struct plain p;
    struct shard_outcome o;
    open_case(&p, "tiny-dsv3", "math", PRECISION_F32);
    struct shard_run r = run_of(&p, 2, 2, DT_F32);
    r.fault = "tp.partial_sum_lost@layer=1,rank=3";
    shard_ranks_run(&r, &o);
    for (int rank = 0; rank < 4; rank++) {
        assert_err(&o.err[rank], ERR_DIFF, "agree", "layers.2.experts: rank 2 against rank 0", NULL,
                   NULL);
        assert_int_equal(o.err[rank].rank, 2);
    }
    shard_ranks_free(&o);
    close_case(&p);
}

static void step__without_groups_is_refused(void **state)
{
    (void)state;
    struct plain p;
    struct shard s;
    struct shard_model part;
    struct tap_record taps;
    struct err err = ERR_INIT;
    const struct shard_plan plan = {.tp = 2, .ep = 1, .reduce = DT_F64};
    open_case(&p, "tiny-dsv3", "math", PRECISION_F32);
    shard_of(&plan, p.loaded.model.config, 1, &s);
    (void)!shard_model_open(&part, &p.loaded.model, &s, &err);
    assert_ok(&err);
    struct loaded l = p.loaded;
    l.model = part.model;
    (void)!record_run(&taps, &l, &p.golden.tokens, &p.options, NULL, NULL, &err);
    assert_err(&err, ERR_INPUT, "step", "rank 1 of 2", "no group of ranks", "shard_join");
    record_free(&taps);
    shard_model_close(&part);
    close_case(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k25__over_every_plan_is_the_whole_in_float64),
        cmocka_unit_test(dsv3__over_every_plan_is_the_whole_in_float64),
        cmocka_unit_test(ranks__32_of_them_are_the_whole),
        cmocka_unit_test_setup_teardown(shapes__of_other_models_are_the_whole, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(float32__stays_within_the_derived_bound),
        cmocka_unit_test(roundings__are_those_of_the_whole),
        cmocka_unit_test(experts__that_are_cut_do_not_round_their_terms),
        cmocka_unit_test(bf16_sums__are_seen_and_are_small),
        cmocka_unit_test(experts_alone__keep_the_bits_up_to_the_first_sum),
        cmocka_unit_test(replace__of_rank_0_holds_on_every_rank),
        cmocka_unit_test(rank__in_another_step_is_named),
        cmocka_unit_test(rank__that_routes_otherwise_is_named),
        cmocka_unit_test(step__without_groups_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
