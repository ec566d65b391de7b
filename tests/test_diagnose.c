/* test_diagnose.c: planted bugs are named, with their place; with the true name taken away nothing
 * is named; two at once are named together or not at all; what is no known bug has a shape. */
#include "harness/diff.h"
#include "tests/planted.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K25 ASSAY_SOURCE_DIR "/fixtures/tiny-k25"
#define DSV3 "synth:" ASSAY_SOURCE_DIR "/fixtures/tiny-dsv3/config.json?seed=31"
#define PLAIN "synth:" ASSAY_SOURCE_DIR "/fixtures/tiny-k2-plainrope/config.json?seed=2"

static const int64_t tokens[] = {5, 17, 222, 301, 8, 99, 410, 63, 63, 128, 240, 77, 19, 350, 2, 6};
enum { TOKENS = sizeof tokens / sizeof tokens[0] };

static struct diff_request request(const char *subject, const char *model, const char *profile)
{
    return (struct diff_request){.subject = subject,
                                 .model = model,
                                 .profile = profile,
                                 .bound = NAN,
                                 .threads = 1,
                                 .diagnose = true};
}

static void run(struct diff *d, const struct diff_request *r)
{
    struct err err = ERR_INIT;
    enum err_code rc = diff_run(d, r, &err);
    assert_ok(&err);
    assert_int_equal(rc, ERR_DIFF);
    assert_non_null(d->guilty.pair);
    assert_true(d->diagnosis.made);
}

/* "a@layer=1 | b + c": the claims, in their order. */
static const char *claims(const struct diff *d)
{
    static char text[1024];
    const struct diagnosis *g = &d->diagnosis;
    char a[FAULT_TEXT], b[FAULT_TEXT];
    text[0] = '\0';
    for (int64_t i = 0; i < g->claimed; i++) {
        const struct claim *c = &g->claims[i];
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s%s%s", i ? " | " : "", fault_print(&c->use[0], a),
                 c->second >= 0 ? " + " : "", c->second >= 0 ? fault_print(&c->use[1], b) : "");
    }
    return text;
}

static const char *bug(const char *name)
{
    static char path[FILE_PATH];
    snprintf(path, sizeof path, "%s/fixtures/bugs/%s.safetensors", ASSAY_SOURCE_DIR, name);
    return path;
}

static const struct {
    const char *dump, *fault, *claim, *op;
    int64_t layer, rank;
} outside[] = {
    {"nibble", "int4.nibble_swap", "int4.nibble_swap@layer=1", "moe", 1, -1},
    {"nomscale", "mla.no_mscale", "mla.no_mscale@layer=0", "mla.core", 0, -1},
    {"biasweights", "router.bias_in_weights", "router.bias_in_weights@layer=1", "router", 1, -1},
    {"tp_lost", "tp.partial_sum_lost", "tp.partial_sum_lost@layer=2,rank=3", "mla.output", 2, 3},
    {"noyarn", "rope.no_yarn", "rope.no_yarn@layer=0", "mla.core", 0, -1},
};

static void bug_of_another_engine__is_named__and_nothing_is_without_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        struct diff d;
        struct diff_request r = request(bug(outside[i].dump), K25, "hf");
        run(&d, &r);
        assert_string_equal(claims(&d), outside[i].claim);
        assert_string_equal(d.guilty.op, outside[i].op);
        assert_int_equal(d.guilty.layer, outside[i].layer);
        assert_int_equal(d.guilty.rank, outside[i].rank);
        assert_true(d.diagnosis.list[0].explains > 0.999);
        assert_string_equal(d.diagnosis.list[0].use.row->id, outside[i].fault);
        assert_true(d.diagnosis.count > 20);
        assert_int_equal(strncmp(d.diagnosis.replay, "assay op ", 9), 0);
        assert_non_null(strstr(d.diagnosis.replay, outside[i].fault));
        diff_close(&d);
        const char *const without[] = {outside[i].fault, NULL};
        r.without = without;
        run(&d, &r);
        assert_string_equal(claims(&d), "");
        assert_true(d.diagnosis.shape.made);
        assert_true(d.diagnosis.shape.text[0] != '\0');
        assert_null(strstr(d.diagnosis.replay, "fault="));
        diff_close(&d);
    }
}

struct planting {
    const char *model, *profile, *taps, *fault, *second;
    const char *claim; /* what must be claimed; NULL: nothing */
    enum dtype dtype;
    int64_t last;
    const char *says;
};

static void diagnose_planted(void **state, const struct planting *p, struct diff *d,
                             const char *const *without)
{
    const char *path = folder_path(state, "subject");
    const struct planted made = {.model = p->model,
                                 .profile = p->profile,
                                 .token = tokens,
                                 .tokens = TOKENS,
                                 .fault = {p->fault, p->second},
                                 .taps = p->taps,
                                 .last = p->last,
                                 .dtype = p->dtype,
                                 .says = p->says};
    assert_true(planted_write(&made, path));
    struct diff_request r = request(path, p->model, p->says ? p->says : p->profile);
    r.without = without;
    run(d, &r);
}

static void check(void **state, const struct planting *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct diff d;
        diagnose_planted(state, &list[i], &d, NULL);
        const char *wanted = list[i].claim ? list[i].claim : "";
        if (strcmp(claims(&d), wanted) != 0)
            fail_msg("%s: claimed \"%s\", wanted \"%s\" (%s, op %s)", list[i].fault, claims(&d),
                     wanted, d.guilty.pair->subject->name, d.guilty.op);
        diff_close(&d);
    }
}
#define CHECK_ALL(list) check(state, list, sizeof list / sizeof list[0])

static void fault__is_named_with_its_fitted_keys__in_each_family(void **state)
{
    static const struct planting list[] = {
        {K25, "hf4", NULL, "int4.scale_group_shift@layer=2,by=-1", NULL,
         "int4.scale_group_shift@layer=2,by=-1", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "int4.scale_group_shift@layer=2,edge=1", NULL,
         "int4.scale_group_shift@layer=2,edge=1", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "int4.scale_row_shift@layer=3,by=-1,edge=1", NULL,
         "int4.scale_row_shift@layer=3,by=-1,edge=1", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "any.off_by_one_row@op=mla.q,layer=2,by=-1", NULL,
         "any.off_by_one_row@op=mla.q,layer=2,by=-1", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "any.off_by_one_row@op=norm,layer=3,call=0,edge=1", NULL,
         "any.off_by_one_row@op=norm,layer=3,edge=1", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "any.stale_row@op=mla.output,layer=3,row=6,from=1", NULL,
         "any.stale_row@op=mla.output,layer=3,row=6,from=1", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "any.transposed@op=mla.output,layer=2,way=1", NULL,
         "any.transposed@op=mla.output,layer=2,way=1", DT_F32, 0, NULL},
        {K25, "hf4", NULL, "int4.zero_point_7@layer=3,expert=9", NULL,
         "int4.zero_point_7@layer=3,expert=9", DT_F32, 0, NULL},
        {K25, "hf4", NULL, "rope.position_off_by_one_for_k@layer=4", NULL,
         "rope.position_off_by_one_for_k@layer=4", DT_F32, 0, NULL},
        {DSV3, "vllm", NULL, "mla.stale_cache_row@layer=1,slot=6", NULL,
         "mla.stale_cache_row@layer=1,slot=6", DT_F32, 0, NULL},
        {DSV3, "hf4", NULL, "router.no_groups@layer=2", NULL, "router.no_groups@layer=2", DT_F32, 0,
         NULL},
        {DSV3, "hf4", NULL, "moe.shared_scaled@layer=3,factor=1.7", NULL,
         "moe.shared_scaled@layer=3,factor=1.7", DT_F32, 0, NULL},
        {PLAIN, "sgl", NULL, "norm.no_weight@layer=1", NULL, "norm.no_weight@layer=1", DT_F32, 0,
         NULL},
        {K25, "hf4", NULL, "tp.partial_sum_lost@layer=1,ranks=8,rank=5", NULL,
         "tp.partial_sum_lost@layer=1,rank=5,ranks=8", DT_BF16, 0, NULL},
        {K25, "math", NULL, "any.zero_row@op=mla.output,layer=2,row=7", NULL,
         "any.zero_row@op=mla.output,layer=2,row=7", DT_F32, 0, NULL},
    };
    CHECK_ALL(list);
}

/* A path of its own for one matrix, or for the two that engines join, is wrong alone. */
static void fault_of_one_matrix__is_named_with_it__and_never_as_one_of_all(void **state)
{
    static const struct planting list[] = {
        {K25, "hf4", NULL, "int4.nibble_swap@layer=1,matrix=down", NULL,
         "int4.nibble_swap@layer=1,matrix=down", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "int4.nibble_swap@layer=2,matrix=up", NULL,
         "int4.nibble_swap@layer=2,matrix=up", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "int4.word_reversed@layer=3,matrix=gate", NULL,
         "int4.word_reversed@layer=3,matrix=gate", DT_BF16, 0, NULL},
        {K25, "hf", NULL, "int4.awq_order@layer=2,matrix=gate_up", NULL,
         "int4.awq_order@layer=2,matrix=gate_up", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "int4.scale_group_shift@layer=4,matrix=up", NULL,
         "int4.scale_group_shift@layer=4,matrix=up", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "int4.scale_row_shift@layer=3,by=-1,matrix=down", NULL,
         "int4.scale_row_shift@layer=3,by=-1,matrix=down", DT_F32, 0, NULL},
        {K25, "math", NULL, "int4.zero_point_7@layer=2,expert=9,matrix=down", NULL,
         "int4.zero_point_7@layer=2,expert=9,matrix=down", DT_F32, 0, NULL},
        {K25, "hf4", "layers.*.attn,layers.*.mlp", "int4.nibble_swap@layer=3,matrix=down", NULL,
         "int4.nibble_swap@layer=3,matrix=down", DT_BF16, 0, NULL},
    };
    CHECK_ALL(list);
    for (size_t i = 0; i < 3; i++) {
        static const char *const without[] = {"int4.nibble_swap", "int4.word_reversed", NULL};
        struct diff d;
        diagnose_planted(state, &list[i], &d, without);
        assert_string_equal(claims(&d), "");
        diff_close(&d);
    }
}

/* What gives one output is one set; nothing is preferred. */
static void faults_of_one_output__are_claimed_together(void **state)
{
    static const struct planting list[] = {
        {K25, "hf4", NULL, "moe.drop_last_token@layer=2", NULL,
         "moe.drop_last_token@layer=2 | any.zero_row@op=moe,layer=2,row=15", DT_F32, 0, NULL},
        {K25, "hf4", NULL, "moe.expert_off_by_one@layer=2", NULL,
         "moe.expert_off_by_one@layer=2 | ep.expert_map_shift@layer=2", DT_F32, 0, NULL},
        {K25, "hf4", NULL, "moe.no_shared@layer=3", NULL,
         "moe.no_shared@layer=3 | moe.shared_scaled@layer=3,factor=0", DT_BF16, 0, NULL},
    };
    CHECK_ALL(list);
}

/* Tap `name` of the dump at `path` as the one at `from` has it; both hold the same taps. */
static void take_tap(const char *path, const char *from, const char *name)
{
    struct st_file file;
    struct err err = ERR_INIT;
    size_t size, other;
    char *to = read_whole(path, &size), *clean = read_whole(from, &other);
    assert_int_equal(size, other);
    (void)!st_open_memory(&file, path, to, (int64_t)size, &err);
    assert_ok(&err);
    const struct st_tensor *t = st_find(&file, name);
    assert_non_null(t);
    size_t at = (size_t)((const char *)t->data - to);
    memcpy(to + at, clean + at, (size_t)(t->count * dtype_size(t->dtype)));
    st_close(&file);
    write_whole(path, to, size);
    free(to);
    free(clean);
}

/* The subject of `fault`, but for the terms of the sum in that layer, which are right. */
static void diagnose_added(void **state, const char *fault, int layer, struct diff *d)
{
    char path[FILE_PATH], clean[FILE_PATH], name[TAP_NAME];
    snprintf(path, sizeof path, "%s", folder_path(state, "subject"));
    snprintf(clean, sizeof clean, "%s", folder_path(state, "clean"));
    struct planted made = {
        .model = K25, .profile = "hf4", .token = tokens, .tokens = TOKENS, .dtype = DT_BF16};
    assert_true(planted_write(&made, clean));
    made.fault[0] = fault;
    assert_true(planted_write(&made, path));
    tap_format(TAP_ROUTED, layer, name);
    take_tap(path, clean, name);
    tap_format(TAP_SHARED, layer, name);
    take_tap(path, clean, name);
    const struct diff_request r = request(path, K25, "hf4");
    run(d, &r);
}

/* The terms of a sum were recorded as they should be, and added wrongly. */
static void fault__is_named__after_its_own_tap_was_recorded(void **state)
{
    static const struct {
        const char *fault, *claim;
        int layer;
    } list[] = {
        {"moe.no_shared@layer=3", "moe.no_shared@layer=3", 3},
        {"moe.shared_scaled@layer=2", "moe.shared_scaled@layer=2", 2},
        {"moe.scaling_twice@layer=4", "moe.scaling_twice@layer=4", 4},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        struct diff d;
        diagnose_added(state, list[i].fault, list[i].layer, &d);
        if (strcmp(claims(&d), list[i].claim) != 0)
            fail_msg("%s: claimed \"%s\", op %s", list[i].fault, claims(&d), d.guilty.op);
        assert_int_equal(d.guilty.pair->subject->kind, TAP_MLP);
        assert_int_equal(d.guilty.layer, list[i].layer);
        diff_close(&d);
    }
}

static void fault__is_named__in_dumps_that_lack_its_tap(void **state)
{
    static const struct planting list[] = {
        {K25, "hf4", "layers.*.output", "mla.no_mscale@layer=2", NULL, "mla.no_mscale@layer=2",
         DT_F32, 0, NULL},
        {K25, "hf4", "layers.*.attn,layers.*.mlp", "int4.nibble_swap@layer=3", NULL,
         "int4.nibble_swap@layer=3", DT_BF16, 0, NULL},
        {K25, "hf4", NULL, "mla.no_q_norm@layer=4", NULL, "mla.no_q_norm@layer=4", DT_BF16, 5,
         NULL},
        {K25, "hf4", NULL, "mla.value_heads_transposed@layer=1", NULL,
         "mla.value_heads_transposed@layer=1", DT_F16, 0, NULL},
        /* The bug hides which of the family's two profiles it was. */
        {K25, "hf4", NULL, "int4.nibble_swap", NULL, "int4.nibble_swap@layer=1", DT_BF16, 0, "hf"},
    };
    CHECK_ALL(list);
}

static void two_faults__are_named_together__at_one_op(void **state)
{
    static const struct planting list[] = {
        {K25, "hf4", NULL, "mla.no_mscale@layer=2", "mla.value_heads_transposed@layer=2", NULL,
         DT_F32, 0, NULL}, /* one explains nearly all: no second is looked for */
        {K25, "hf4", NULL, "int4.nibble_swap@layer=2", "moe.gate_up_swapped@layer=2",
         "int4.nibble_swap@layer=2 + moe.gate_up_swapped@layer=2", DT_F32, 0, NULL},
    };
    CHECK_ALL(list);
}

/* A parameter that no diagnosis tries, where its fault's outputs are not affine in it. */
static void parameter_off_the_grid__names_nothing(void **state)
{
    static const struct planting list[] = {
        {K25, "hf4", NULL, "mla.score_scaled@layer=1,factor=0.7", NULL, NULL, DT_F32, 0, NULL},
        {DSV3, "hf4", NULL, "rope.theta_default@layer=1,value=31000", NULL, NULL, DT_F32, 0, NULL},
        {K25, "hf4", NULL, "mla.window@layer=2,size=5", NULL, NULL, DT_F32, 0, NULL},
    };
    CHECK_ALL(list);
}

static void result__holds_names_ranking_shape_and_replay(void **state)
{
    struct diff d;
    struct err err = ERR_INIT;
    const char *const without[] = {"moe.no_shared", "moe.shared_scaled", "any.*", NULL};
    const struct planting p = {K25,    "hf4", NULL, "moe.no_shared@layer=4", NULL, NULL,
                               DT_F32, 0,     NULL};
    diagnose_planted(state, &p, &d, NULL);
    json_t *j = json_object();
    assert_int_equal(diff_json(&d, j, &err), ERR_OK);
    const json_t *named = json_object_get(j, "diagnosis"), *all = json_object_get(j, "hypotheses");
    assert_true(json_array_size(named) >= 1);
    const json_t *one = json_array_get(named, 0);
    assert_string_equal(json_string_value(json_object_get(one, "fault")), "moe.no_shared");
    assert_string_equal(json_string_value(json_object_get(one, "site")), "layer=4");
    assert_true(json_number_value(json_object_get(one, "explains")) == 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "inject"), 0)),
                        "moe.no_shared@layer=4");
    double before = 2;
    for (size_t i = 0; i < json_array_size(all); i++) {
        double e = json_number_value(json_object_get(json_array_get(all, i), "explains"));
        assert_true(e <= before);
        before = e;
    }
    const json_t *guilty = json_object_get(j, "guilty");
    assert_string_equal(json_string_value(json_object_get(guilty, "op")), "moe.shared");
    assert_true(json_is_null(json_object_get(guilty, "rank")));
    assert_int_equal(json_array_size(json_object_get(j, "growth")), 6);
    json_decref(j);
    diff_close(&d);
    diagnose_planted(state, &p, &d, without);
    j = json_object();
    assert_int_equal(diff_json(&d, j, &err), ERR_OK);
    assert_int_equal(json_array_size(json_object_get(j, "diagnosis")), 0);
    const char *text = json_string_value(json_object_get(json_object_get(j, "shape"), "text"));
    assert_non_null(strstr(text, "the reference times 0 explains 100.0 %"));
    json_decref(j);
    diff_close(&d);
}

/* What has no values to explain is still guilty. */
static void tap_of_another_shape_or_type__is_guilty_and_not_diagnosed(void **state)
{
    const char *path = folder_path(state, "subject");
    static const float narrow[TOKENS * 8];
    static const int32_t whole[TOKENS * 256];
    char text[256];
    size_t used = (size_t)snprintf(text, sizeof text, "[%lld", (long long)tokens[0]);
    for (int i = 1; i < TOKENS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",%lld", (long long)tokens[i]);
    snprintf(text + used, sizeof text - used, "]");
    const struct st_meta meta = {"assay.tokens", text};
    const struct st_part parts[] = {
        {.name = "layers.1.attn", .dtype = DT_F32, .dims = 2, .shape = {TOKENS, 8}, .data = narrow},
        {.name = "embed", .dtype = DT_I32, .dims = 2, .shape = {TOKENS, 256}, .data = whole}};
    for (int i = 0; i < 2; i++) {
        struct diff d;
        struct err err = ERR_INIT;
        write_safetensors(path, &parts[i], 1, &meta, 1);
        const struct diff_request r = request(path, K25, "hf4");
        assert_int_equal(diff_run(&d, &r, &err), ERR_DIFF);
        assert_ok(&err);
        assert_string_equal(d.guilty.pair->subject->name, parts[i].name);
        assert_false(d.diagnosis.made);
        json_t *j = json_object();
        assert_int_equal(diff_json(&d, j, &err), ERR_OK);
        json_decref(j);
        diff_close(&d);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(bug_of_another_engine__is_named__and_nothing_is_without_it),
        TEST(fault__is_named_with_its_fitted_keys__in_each_family),
        TEST(fault_of_one_matrix__is_named_with_it__and_never_as_one_of_all),
        TEST(faults_of_one_output__are_claimed_together),
        TEST(fault__is_named__after_its_own_tap_was_recorded),
        TEST(fault__is_named__in_dumps_that_lack_its_tap),
        TEST(two_faults__are_named_together__at_one_op),
        TEST(parameter_off_the_grid__names_nothing),
        TEST(result__holds_names_ranking_shape_and_replay),
        TEST(tap_of_another_shape_or_type__is_guilty_and_not_diagnosed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
