/* test_anchor.c: each op from the subject's own inputs: the guilty op is the first red tap, and
 * what comes after it is judged on its own; dumps with few taps, few rows or narrow types; spans.
 */
#include "harness/diff.h"
#include "tests/planted.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define K25 ASSAY_SOURCE_DIR "/fixtures/tiny-k25"
#define DSV3 "synth:" ASSAY_SOURCE_DIR "/fixtures/tiny-dsv3/config.json?seed=21"

static const int64_t tokens[] = {3,  141, 59,  265, 358, 97, 93, 238, 46, 264,
                                 33, 83,  279, 50,  288, 41, 97, 169, 39, 9};
enum { TOKENS = sizeof tokens / sizeof tokens[0] };

static struct diff_request anchored(const char *subject, const char *model, const char *profile)
{
    return (struct diff_request){.subject = subject,
                                 .model = model,
                                 .profile = profile,
                                 .bound = NAN,
                                 .threads = 2,
                                 .anchor = true};
}

static enum err_code run(struct diff *d, const struct diff_request *r)
{
    struct err err = ERR_INIT;
    enum err_code rc = diff_run(d, r, &err);
    assert_ok(&err);
    return rc;
}

static const char *bug(const char *name)
{
    static char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/bugs/%s.safetensors", ASSAY_SOURCE_DIR, name);
    return path;
}

/* ---- whole dumps of an outside implementation ---- */

static void clean_dump__is_green__anchored(void **state)
{
    (void)state;
    struct diff d;
    const struct diff_request r = anchored(bug("clean"), K25, "hf");
    assert_int_equal(run(&d, &r), ERR_OK);
    assert_int_equal(d.compared, 71);
    assert_int_equal(d.flips.certified, d.flips.count);
    assert_null(d.guilty.pair);
    assert_string_equal(d.profile_name, "hf4");
    diff_close(&d);
}

static void planted_bug__reddens_its_own_taps_alone(void **state)
{
    (void)state;
    static const struct {
        const char *dump, *tap, *op;
        int64_t layer, failed; /* one tap in every layer that has the op, whatever went before */
    } bugs[] = {{"nibble", "layers.1.mlp", "moe", 1, 5},
                {"tp_lost", "layers.2.attn", "mla.output", 2, 1},
                {"nomscale", "layers.0.attn_core", "mla.core", 0, 6},
                {"noyarn", "layers.0.attn_core", "mla.core", 0, 6},
                {"biasweights", "layers.1.expert_weights", "router", 1, 5}};
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        struct diff d;
        const struct diff_request r = anchored(bug(bugs[i].dump), K25, "hf");
        assert_int_equal(run(&d, &r), ERR_DIFF);
        assert_string_equal(d.guilty.pair->subject->name, bugs[i].tap);
        assert_string_equal(d.guilty.op, bugs[i].op);
        assert_int_equal(d.guilty.layer, bugs[i].layer);
        assert_int_equal(d.guilty.rank, -1);
        assert_int_equal(d.failed, bugs[i].failed);
        assert_int_equal(d.flips.count, 0); /* no routing differs when the inputs are the same */
        diff_close(&d);
    }
}

static void float32_golden__is_green__under_a_bound_derived_for_each_op(void **state)
{
    (void)state;
    struct diff d;
    struct diff_request r = anchored(K25 "/golden.safetensors", K25, NULL);
    r.tokens = "@" K25 "/golden.json";
    assert_int_equal(run(&d, &r), ERR_OK);
    assert_int_equal(d.compared, 82);
    int seen = 0;
    for (int64_t i = 0; i < d.rows.count; i++) {
        const struct pair *p = &d.rows.pairs[i];
        if (strcmp(p->subject->name, "layers.5.attn_core") != 0) continue;
        seen++;
        assert_int_equal(p->ops, 2); /* rope and the core, however deep they lie */
        assert_non_null(strstr(d.taps[i].from, "derived: random walk of 6 roundings"));
    }
    assert_int_equal(seen, 1);
    diff_close(&d);
}

/* ---- dumps that lack something ---- */

struct partial {
    const char *model, *profile, *taps;
    int64_t last;
    enum dtype dtype;
    const char *fault, *tap, *op, *from; /* NULL: green; `from`: one of what it was rebuilt from */
    int64_t layer;
};

/* fine: taps that are in float32 whatever the dtype says; NULL: none. */
static void check_dump(void **state, const struct partial *p, const char *fine)
{
    struct diff d;
    const char *path = folder_path(state, "subject");
    const struct planted made = {.model = p->model,
                                 .profile = p->profile,
                                 .token = tokens,
                                 .tokens = TOKENS,
                                 .fault = {p->fault},
                                 .taps = p->taps,
                                 .last = p->last,
                                 .dtype = p->dtype,
                                 .fine = fine};
    assert_true(planted_write(&made, path));
    const struct diff_request r = anchored(path, p->model, p->profile);
    enum err_code rc = run(&d, &r);
    if (!p->fault) {
        if (rc != ERR_OK)
            fail_msg("%s: %s: %s", p->taps ? p->taps : "all", d.rows.pairs[d.first].subject->name,
                     d.taps[d.first].why);
    } else {
        assert_int_equal(rc, ERR_DIFF);
        assert_non_null(d.guilty.pair);
        assert_string_equal(d.guilty.pair->subject->name, p->tap);
        assert_string_equal(d.guilty.op, p->op);
        assert_int_equal(d.guilty.layer, p->layer);
    }
    bool from = p->from == NULL;
    for (int64_t i = 0; p->from && i < d.guilty.span.froms; i++)
        from |= strcmp(d.guilty.span.from[i].name, p->from) == 0;
    assert_true(from);
    diff_close(&d);
}

static void check_partial(void **state, const struct partial *p)
{
    check_dump(state, p, NULL);
}

static void clean_dump__is_green__whatever_it_lacks(void **state)
{
    static const struct partial list[] = {
        {K25, "hf4", "layers.*.output", 0, DT_BF16, NULL, NULL, NULL, NULL, 0},
        {K25, "hf4", "layers.*.attn,layers.*.mlp", 0, DT_BF16, NULL, NULL, NULL, NULL, 0},
        {K25, "hf", "*", 0, DT_F16, NULL, NULL, NULL, NULL, 0},
        {K25, "hf", "*", 7, DT_BF16, NULL, NULL, NULL, NULL, 0},
        {K25, "math", "logits", 0, DT_F32, NULL, NULL, NULL, NULL, 0},
        {K25, "math", "*", 0, DT_BF16, NULL, NULL, NULL, NULL, 0},
        {DSV3, "vllm", "*", 0, DT_BF16, NULL, NULL, NULL, NULL, 0},
        {DSV3, "sgl", "layers.*.output,*.experts", 0, DT_F32, NULL, NULL, NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) check_partial(state, &list[i]);
}

static void planted_bug__is_found__in_what_was_dumped(void **state)
{
    static const struct partial list[] = {
        {K25, "hf4", "layers.*.output", 0, DT_BF16, "mla.no_mscale@layer=2", "layers.2.output",
         "moe", "layers.1.output", 2},
        {K25, "hf4", "layers.*.attn,layers.*.mlp", 0, DT_BF16, "mla.no_mscale@layer=2",
         "layers.2.attn", "mla.output", "layers.1.mlp", 2},
        {K25, "hf4", "layers.*.output", 0, DT_BF16, "mla.no_mscale@layer=0", "layers.0.output",
         "mlp", NULL, 0},
        {DSV3, "hf4", "layers.1.output,layers.3.output", 0, DT_F32, "moe.no_shared@layer=2",
         "layers.3.output", "moe", "layers.1.output", 3},
        {K25, "hf4", "*", 6, DT_BF16, "moe.no_shared@layer=3", "layers.3.shared", "moe.shared",
         "layers.3.mlp_norm", 3},
        {K25, "hf4", "logits", 0, DT_F32, "mla.no_mscale@layer=4", "logits", "logits", NULL, -1},
        {K25, "hf4", "*", 0, DT_F32, "any.nan@op=mla.output,layer=3", "layers.3.attn", "mla.output",
         "layers.3.attn_core", 3},
        {K25, "hf4", "embed,*.output", 0, DT_F32, "any.zero_row@op=embed,row=4", "embed", "embed",
         NULL, -1},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) check_partial(state, &list[i]);
}

/* ---- taps finer than what they were computed from ---- */

#define ROUTER "*.router_logits,*.expert_weights"

static void float32_engine__is_green__whose_dump_rounds_the_inputs_alone(void **state)
{
    static const struct {
        const char *model, *profile, *taps, *fine;
        enum dtype dtype;
    } list[] = {
        {K25, "math", "*", ROUTER ",logits", DT_BF16},
        {DSV3, "math", "*", ROUTER ",logits", DT_BF16},
        {K25, "math", "*", ROUTER ",logits", DT_F16},
        {K25, "hf+exact", "*", ROUTER, DT_BF16},
        {K25, "math", "*", "*.attn_core,*.routed,*.output,*.q", DT_BF16},
        {DSV3, "math", "*.output,*.router_logits,*.experts", ROUTER, DT_BF16},
        {K25, "math", "*.mlp_norm,*.experts", NULL, DT_BF16},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const struct partial p = {.model = list[i].model,
                                  .profile = list[i].profile,
                                  .taps = list[i].taps,
                                  .dtype = list[i].dtype};
        check_dump(state, &p, list[i].fine);
    }
}

/* What such a dump rounds hides no fault of the router: each is red at the tap it spoils. */
static void fault_of_the_router__is_found__where_its_inputs_are_rounded(void **state)
{
    static const struct {
        const char *model, *fault, *tap;
    } list[] = {{K25, "router.bf16_logits@layer=2", "layers.2.router_logits"},
                {DSV3, "router.bf16_logits@layer=2", "layers.2.router_logits"},
                {K25, "router.bias_in_weights@layer=2", "layers.2.expert_weights"},
                {K25, "router.no_bias@layer=3", "layers.3.experts"},
                {K25, "router.no_scaling_factor@layer=2", "layers.2.expert_weights"},
                {K25, "router.k_off_by_one@layer=2", "layers.2.expert_weights"},
                {DSV3, "router.softmax@layer=2", "layers.2.experts"},
                {DSV3, "router.no_groups@layer=2", "layers.2.experts"},
                {DSV3, "router.group_top1@layer=2", "layers.2.experts"},
                {DSV3, "router.no_topk_norm@layer=2", "layers.2.expert_weights"}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const struct partial p = {.model = list[i].model,
                                  .profile = "math",
                                  .taps = "*",
                                  .dtype = DT_BF16,
                                  .fault = list[i].fault,
                                  .tap = list[i].tap,
                                  .op = "router",
                                  .layer = list[i].tap[7] - '0'};
        check_dump(state, &p, ROUTER ",logits");
    }
}

/* ---- spans ---- */

static void assert_span(struct anchor *a, const struct config *c, enum tap_kind kind, int64_t layer,
                        const char *ops, const char *from, bool rebuilt)
{
    struct span s;
    struct err err = ERR_INIT;
    char text[2048] = "", begin[2048] = "";
    assert_int_equal(span_make(&s, a, c, kind, layer, &err), ERR_OK);
    for (int64_t i = 0; i < s.ops; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", s.op[i].op);
    }
    for (int64_t i = 0; i < s.froms; i++) {
        size_t n = strlen(begin);
        snprintf(begin + n, sizeof begin - n, "%s%s", i ? " " : "", s.from[i].name);
    }
    assert_string_equal(text, ops);
    assert_string_equal(begin, from);
    assert_int_equal(s.rebuilt, rebuilt);
    span_free(&s);
}

static void span__ends_at_the_nearest_taps__that_were_dumped(void **state)
{
    struct loaded l = {0};
    struct err err = ERR_INIT;
    struct anchor a;
    struct dump d;
    assert_int_equal(loaded_open(&l, K25, &err), ERR_OK);
    const struct config *c = l.model.config;
    const char *path = folder_path(state, "subject");
    struct planted p = {.model = K25, .profile = "math", .token = tokens, .tokens = TOKENS};
    assert_true(planted_write(&p, path));
    assert_int_equal(dump_open(&d, path, &err), ERR_OK);
    assert_int_equal(anchor_make(&a, &d, TOKENS, &err), ERR_OK);
    assert_span(&a, c, TAP_EMBED, -1, "embed", "", false);
    assert_span(&a, c, TAP_ATTN_NORM, 0, "norm", "embed", false);
    assert_span(&a, c, TAP_ATTN_CORE, 3, "rope mla.core",
                "layers.3.q layers.3.kv_latent layers.3.k_rope", false);
    assert_span(&a, c, TAP_MLP, 0, "mlp", "layers.0.mlp_norm", false);
    assert_span(&a, c, TAP_MLP, 1, "moe", "layers.1.routed layers.1.shared", false);
    assert_span(&a, c, TAP_ROUTED, 1, "moe",
                "layers.1.mlp_norm layers.1.experts layers.1.expert_weights", false);
    assert_span(&a, c, TAP_OUTPUT, 2, "moe", "layers.1.output layers.2.attn layers.2.mlp", false);
    assert_span(&a, c, TAP_LOGITS, -1, "logits", "final_norm", false);
    anchor_free(&a);
    dump_close(&d);
    p.taps = "layers.1.attn,layers.1.output,layers.1.experts";
    assert_true(planted_write(&p, path));
    assert_int_equal(dump_open(&d, path, &err), ERR_OK);
    assert_int_equal(anchor_make(&a, &d, TOKENS, &err), ERR_OK);
    assert_span(&a, c, TAP_OUTPUT, 1,
                "embed norm mla.q mla.kv rope mla.core mla.output norm mlp norm router moe "
                "moe.shared",
                "layers.1.attn layers.1.experts", true);
    assert_span(&a, c, TAP_FINAL_NORM, -1,
                "norm mla.q mla.kv rope mla.core mla.output norm router moe moe.shared norm mla.q "
                "mla.kv rope mla.core mla.output norm router moe moe.shared norm mla.q mla.kv rope "
                "mla.core mla.output norm router moe moe.shared norm mla.q mla.kv rope mla.core "
                "mla.output norm router moe moe.shared norm",
                "layers.1.output", true);
    anchor_free(&a);
    dump_close(&d);
    loaded_close(&l);
}

/* ---- the sink ---- */

static bool wants_none(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return false;
}

/* Row 1 of the batch is row 0 of a subject that kept the last row of two. */
static void sink__overwrites_what_the_subject_has__and_keeps_finer_weights(void **state)
{
    const char *path = folder_path(state, "subject");
    static const uint16_t stream[] = {0x3f80, 0x4000}, weights[] = {0x3e80, 0x3f00};
    const struct st_part parts[] = {
        {.name = "layers.0.output", .dtype = DT_BF16, .dims = 2, .shape = {1, 2}, .data = stream},
        {.name = "layers.0.expert_weights",
         .dtype = DT_BF16,
         .dims = 2,
         .shape = {1, 2},
         .data = weights}};
    const struct st_meta meta = {"assay.rows", "[1]"};
    struct dump d;
    struct anchor a;
    struct err err = ERR_INIT;
    write_safetensors(path, parts, 2, &meta, 1);
    assert_int_equal(dump_open(&d, path, &err), ERR_OK);
    assert_int_equal(anchor_make(&a, &d, 2, &err), ERR_OK);
    const struct tap_sink inner = {.wants = wants_none};
    struct tap_sink *sink = anchor_sink(&a, &inner);
    const int64_t dump_row[] = {0, 1};
    const struct rows rows = {.count = 2, .dump_row = dump_row};
    double x[] = {5, 6, 7, 8}, w[] = {0.1, 0.2, 0.2503, 0.7}, other[] = {5, 6, 7, 8, 9, 10};
    assert_false(sink->wants(sink->ctx, "layers.0.output"));
    assert_int_equal(sink->replace(sink->ctx, "layers.0.output", &rows, 2, x, &err), ERR_OK);
    assert_true(x[0] == 5 && x[1] == 6 && x[2] == 1 && x[3] == 2);
    assert_int_equal(sink->replace(sink->ctx, "layers.0.expert_weights", &rows, 2, w, &err),
                     ERR_OK);
    assert_true(w[0] == 0.1 && w[2] == 0.2503 && w[3] == 0.5); /* 0.2503 rounds to 0.25 */
    assert_int_equal(sink->replace(sink->ctx, "layers.0.output", &rows, 3, other, &err), ERR_OK);
    assert_int_equal(sink->replace(sink->ctx, "layers.1.output", &rows, 2, other, &err), ERR_OK);
    assert_true(other[2] == 7 && other[5] == 10); /* another width, another tap: not touched */
    anchor_free(&a);
    dump_close(&d);
}

/* A run that spreads starts from any value that the dump would have stored so, never from another;
 * what it has exactly as stored it leaves. */
static void sink__spreads_values__over_what_rounds_to_the_stored(void **state)
{
    enum { N = 64 };
    const char *path = folder_path(state, "subject");
    double values[N], x[N], least = 1, most = -1;
    uint16_t bf16[N], f16[N];
    for (int i = 0; i < N; i++)
        values[i] = (i % 2 ? -1 : 1) * (i < N / 2 ? (1 + i / 7.0) * 1e-6 : 0x1p-20);
    dtype_from_f64(DT_BF16, values, N, bf16);
    dtype_from_f64(DT_F16, values, N, f16); /* subnormal */
    bf16[3] = 0x7fc0;                       /* NaN */
    const struct st_part parts[] = {
        {.name = "embed", .dtype = DT_BF16, .dims = 2, .shape = {1, N}, .data = bf16},
        {.name = "final_norm", .dtype = DT_F16, .dims = 2, .shape = {1, N}, .data = f16}};
    struct dump d;
    struct anchor a;
    struct err err = ERR_INIT;
    write_safetensors(path, parts, 2, NULL, 0);
    assert_int_equal(dump_open(&d, path, &err), ERR_OK);
    assert_int_equal(anchor_make(&a, &d, 1, &err), ERR_OK);
    assert_true(anchor_rounds(&a));
    a.spreads = true;
    const struct tap_sink inner = {.wants = wants_none};
    struct tap_sink *sink = anchor_sink(&a, &inner);
    const int64_t dump_row[] = {0};
    const struct rows rows = {.count = 1, .dump_row = dump_row};
    for (int t = 0; t < 2; t++) {
        enum dtype type = parts[t].dtype;
        int moved = 0;
        double furthest = 0;
        for (int i = 0; i < N; i++) x[i] = i == 5 ? dtype_round(type, values[5]) : 0;
        assert_int_equal(sink->replace(sink->ctx, parts[t].name, &rows, N, x, &err), ERR_OK);
        for (int i = 0; i < N; i++) {
            double stored = dtype_round(type, values[i]);
            if (t == 0 && i == 3) {
                assert_true(isnan(x[i]));
                continue;
            }
            double off = (x[i] - stored) / fabs(stored);
            moved += x[i] != stored;
            furthest = fmax(furthest, fabs(x[i] - stored));
            assert_true(dtype_round(type, x[i]) == stored);
            if (t == 0) least = fmin(least, off);
            if (t == 0) most = fmax(most, off);
        }
        assert_in_range(moved, N / 2, N - 1); /* below a power of two some stay */
        assert_true(type != DT_F16 || furthest > 0x1p-26);
        assert_true(x[5] == dtype_round(type, values[5]));
    }
    assert_true(least < -0x1p-10 && most > 0x1p-10); /* as far as half a step, to both sides */
    anchor_free(&a);
    dump_close(&d);
}

static void anchor__is_refused__without_a_model_and_beside_a_profile_run(void **state)
{
    (void)state;
    struct diff d;
    struct err err = ERR_INIT;
    struct diff_request r = anchored(bug("clean"), NULL, NULL);
    r.truth = K25 "/golden.safetensors";
    (void)!diff_run(&d, &r, &err);
    assert_err(&err, ERR_USAGE, NULL, NULL, "--anchor without --model", "--model MODEL");
    diff_close(&d);
    err_clear(&err);
    r.model = K25;
    r.profile_run = bug("clean");
    r.diagnose = true;
    (void)!diff_run(&d, &r, &err);
    assert_err(&err, ERR_USAGE, NULL, NULL, "--diagnose with --profile-run", "--profile NAME");
    diff_close(&d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(clean_dump__is_green__anchored),
        TEST(planted_bug__reddens_its_own_taps_alone),
        TEST(float32_golden__is_green__under_a_bound_derived_for_each_op),
        TEST(clean_dump__is_green__whatever_it_lacks),
        TEST(planted_bug__is_found__in_what_was_dumped),
        TEST(float32_engine__is_green__whose_dump_rounds_the_inputs_alone),
        TEST(fault_of_the_router__is_found__where_its_inputs_are_rounded),
        TEST(span__ends_at_the_nearest_taps__that_were_dumped),
        TEST(sink__overwrites_what_the_subject_has__and_keeps_finer_weights),
        TEST(sink__spreads_values__over_what_rounds_to_the_stored),
        TEST(anchor__is_refused__without_a_model_and_beside_a_profile_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
