/* test_tap.c: the list of taps, its order, and names that parse back and nothing else. */
#include "tests/config_texts.h"
#include "tests/support.h"

#include "core/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config config_of(const char *text)
{
    struct err err = ERR_INIT;
    struct config c;
    (void)!config_parse(text, (int64_t)strlen(text), "t", &c, &err);
    assert_ok(&err);
    return c;
}

static void list__names_every_tap_of_a_model_in_order(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct config c = config_of(CONFIG_K25);
    struct tap *taps;
    int64_t n;
    assert_int_equal(tap_list(&c, 0, 2, &taps, &n, &err), ERR_OK);
    static const struct {
        const char *name;
        int64_t cols;
    } want[] = {
        {"embed", 64},
        {"layers.0.attn_norm", 64},
        {"layers.0.q", 48},
        {"layers.0.kv_latent", 16},
        {"layers.0.k_rope", 8},
        {"layers.0.attn_core", 24},
        {"layers.0.attn", 64},
        {"layers.0.mlp_norm", 64},
        {"layers.0.mlp", 64},
        {"layers.0.output", 64},
        {"layers.1.attn_norm", 64},
        {"layers.1.q", 48},
        {"layers.1.kv_latent", 16},
        {"layers.1.k_rope", 8},
        {"layers.1.attn_core", 24},
        {"layers.1.attn", 64},
        {"layers.1.mlp_norm", 64},
        {"layers.1.router_logits", 4},
        {"layers.1.experts", 2},
        {"layers.1.expert_weights", 2},
        {"layers.1.routed", 64},
        {"layers.1.shared", 64},
        {"layers.1.mlp", 64},
        {"layers.1.output", 64},
    };
    assert_int_equal(n, sizeof want / sizeof *want);
    for (int64_t i = 0; i < n; i++) {
        assert_string_equal(taps[i].name, want[i].name);
        assert_int_equal(taps[i].cols, want[i].cols);
        assert_int_equal(taps[i].ints, strstr(want[i].name, ".experts") != NULL);
    }
    free(taps);
}

static void list__has_the_ends_only_where_they_belong(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct config c = config_of(CONFIG_K25);
    struct tap *taps;
    int64_t n;
    assert_int_equal(tap_list(&c, 2, 3, &taps, &n, &err), ERR_OK);
    assert_string_equal(taps[0].name, "layers.2.attn_norm");
    assert_string_equal(taps[n - 2].name, "final_norm");
    assert_int_equal(taps[n - 2].cols, 64);
    assert_string_equal(taps[n - 1].name, "logits");
    assert_int_equal(taps[n - 1].cols, 48);
    assert_int_equal(taps[n - 1].layer, -1);
    free(taps);
    assert_int_equal(tap_list(&c, 1, 2, &taps, &n, &err), ERR_OK);
    assert_string_equal(taps[n - 1].name, "layers.1.output");
    free(taps);
    assert_int_equal(tap_list(&c, 1, 1, &taps, &n, &err), ERR_OK);
    assert_int_equal(n, 0);
    free(taps);
}

static void list__leaves_out_shared__when_there_are_no_shared_experts(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct config c = config_of(CONFIG_K25);
    struct tap *taps;
    int64_t n;
    c.shared_experts = 0;
    assert_int_equal(tap_list(&c, 0, 3, &taps, &n, &err), ERR_OK);
    for (int64_t i = 0; i < n; i++) assert_null(strstr(taps[i].name, "shared"));
    free(taps);
}

static void rank__ascends_along_the_list_of_a_large_model(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct config c = config_of(CONFIG_K25);
    struct tap *taps;
    int64_t n;
    c.layers = 61;
    assert_int_equal(tap_list(&c, 0, 61, &taps, &n, &err), ERR_OK);
    for (int64_t i = 1; i < n; i++)
        assert_true(tap_rank(taps[i - 1].kind, taps[i - 1].layer) <
                    tap_rank(taps[i].kind, taps[i].layer));
    for (int64_t i = 0; i < n; i++) {
        enum tap_kind kind;
        int64_t layer;
        char name[TAP_NAME];
        assert_true(tap_parse(taps[i].name, &kind, &layer));
        assert_int_equal(kind, taps[i].kind);
        assert_int_equal(layer, taps[i].layer);
        tap_format(kind, layer, name);
        assert_string_equal(name, taps[i].name);
    }
    free(taps);
}

static void parse__refuses_names_that_are_no_taps(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "q",
                                      "attn",
                                      "embed.",
                                      "embed2",
                                      "layers.",
                                      "layers.3",
                                      "layers.3.",
                                      "layers.3.x",
                                      "layers.x.q",
                                      "layers..q",
                                      "layers.-1.q",
                                      "layers.+1.q",
                                      "layers. 1.q",
                                      "layers.01.q",
                                      "layers.1.q.",
                                      "layers.1.embed",
                                      "layers.1.logits",
                                      "layers.1.Q",
                                      "layer.1.q",
                                      "layers.1q",
                                      "layers.99999999999999999999.q",
                                      "Embed",
                                      "draft.logits",
                                      "draft.1.fused",
                                      "draft.01.logits",
                                      "draft.0.output",
                                      "layers.0.hidden",
                                      "draft.1.logit",
                                      "final_norm ",
                                      "layers.1.expert_weight"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        enum tap_kind kind;
        int64_t layer;
        if (tap_parse(bad[i], &kind, &layer)) fail_msg("\"%s\" was taken as a tap", bad[i]);
    }
}

static void parse__takes_layer_zero_and_large_layers(void **state)
{
    (void)state;
    enum tap_kind kind;
    int64_t layer;
    assert_true(tap_parse("layers.0.q", &kind, &layer));
    assert_int_equal(layer, 0);
    assert_int_equal(kind, TAP_Q);
    assert_true(tap_parse("layers.123456789.output", &kind, &layer));
    assert_int_equal(layer, 123456789);
    assert_true(tap_parse("logits", &kind, &layer));
    assert_int_equal(layer, -1);
}

static void op__names_the_op_that_makes_each_tap(void **state)
{
    (void)state;
    static const struct {
        const char *tap, *dense, *moe;
    } rows[] = {{"embed", "embed", "embed"},
                {"layers.1.attn_norm", "norm", "norm"},
                {"layers.1.q", "mla.q", "mla.q"},
                {"layers.1.kv_latent", "mla.kv", "mla.kv"},
                {"layers.1.k_rope", "mla.kv", "mla.kv"},
                {"layers.1.attn_core", "mla.core", "mla.core"},
                {"layers.1.attn", "mla.output", "mla.output"},
                {"layers.1.mlp_norm", "norm", "norm"},
                {"layers.1.router_logits", "router", "router"},
                {"layers.1.experts", "router", "router"},
                {"layers.1.expert_weights", "router", "router"},
                {"layers.1.routed", "moe", "moe"},
                {"layers.1.shared", "moe.shared", "moe.shared"},
                {"layers.1.mlp", "mlp", "moe"},
                {"layers.1.output", "mlp", "moe"},
                {"final_norm", "norm", "norm"},
                {"logits", "logits", "logits"},
                {"draft.0.fused", "eagle.fc", "eagle.fc"},
                {"draft.1.hidden", "eagle.layer", "eagle.layer"},
                {"draft.1.logits", "eagle.layer", "eagle.layer"},
                {"draft.1.tokens", "eagle.layer", "eagle.layer"}};
    assert_int_equal(sizeof rows / sizeof *rows, TAP_KINDS);
    for (size_t i = 0; i < TAP_KINDS; i++) {
        enum tap_kind kind;
        int64_t layer;
        assert_true(tap_parse(rows[i].tap, &kind, &layer));
        assert_int_equal(kind, i);
        assert_string_equal(tap_op(kind, false), rows[i].dense);
        assert_string_equal(tap_op(kind, true), rows[i].moe);
    }
}

static void list_draft__has_the_taps_of_every_step_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t step, cols;
        bool ints;
    } want[] = {{"draft.0.fused", 0, 8, false},  {"draft.0.hidden", 0, 8, false},
                {"draft.0.logits", 0, 5, false}, {"draft.0.tokens", 0, 1, true},
                {"draft.1.hidden", 1, 8, false}, {"draft.1.logits", 1, 5, false},
                {"draft.1.tokens", 1, 1, true}};
    struct err err = ERR_INIT;
    struct tap *taps;
    int64_t n, before = tap_rank(TAP_LOGITS, -1);
    assert_int_equal(tap_list_draft(2, 8, 5, &taps, &n, &err), ERR_OK);
    assert_int_equal(n, sizeof want / sizeof *want);
    for (int64_t i = 0; i < n; i++) {
        enum tap_kind kind;
        int64_t step;
        assert_string_equal(taps[i].name, want[i].name);
        assert_int_equal(taps[i].layer, want[i].step);
        assert_int_equal(taps[i].cols, want[i].cols);
        assert_int_equal(taps[i].ints, want[i].ints);
        assert_true(tap_parse(taps[i].name, &kind, &step));
        assert_int_equal(kind, taps[i].kind);
        assert_int_equal(step, want[i].step);
        assert_true(tap_is_draft(kind));
        assert_true(tap_rank(kind, step) > before && tap_rank(kind, step) < TAP_RANK_END);
        before = tap_rank(kind, step);
    }
    assert_false(tap_is_draft(TAP_LOGITS));
    free(taps);
}

static void dtype__is_float32__for_what_is_summed_and_not_rounded(void **state)
{
    (void)state;
    for (int kind = 0; kind < TAP_KINDS; kind++) {
        bool sum = kind == TAP_ROUTER_LOGITS || kind == TAP_EXPERT_WEIGHTS || kind == TAP_LOGITS ||
                   kind == TAP_DRAFT_LOGITS;
        assert_int_equal(tap_dtype(kind, DT_BF16), sum ? DT_F32 : DT_BF16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__names_every_tap_of_a_model_in_order),
        cmocka_unit_test(list__has_the_ends_only_where_they_belong),
        cmocka_unit_test(list__leaves_out_shared__when_there_are_no_shared_experts),
        cmocka_unit_test(rank__ascends_along_the_list_of_a_large_model),
        cmocka_unit_test(parse__refuses_names_that_are_no_taps),
        cmocka_unit_test(parse__takes_layer_zero_and_large_layers),
        cmocka_unit_test(op__names_the_op_that_makes_each_tap),
        cmocka_unit_test(list_draft__has_the_taps_of_every_step_in_order),
        cmocka_unit_test(dtype__is_float32__for_what_is_summed_and_not_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
