/* test_shard_report.c: the printed plan: what it says of a model, that it counts every byte, and
 * that it sees what is misplaced. */
#include "core/fault_shard.h"
#include "core/shard.h"
#include "tests/config_texts.h"
#include "tests/golden.h"
#include "tests/shard_ranks.h"

#include <stdlib.h>
#include <string.h>

static int64_t number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

/* Bytes of every tensor of the model, experts once. */
static int64_t matrix_bytes(const struct matrix *m)
{
    const struct tensor *const parts[] = {&m->data, &m->scale, &m->zero};
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        if (tensor_exists(parts[i])) bytes += tensor_count(parts[i]) * dtype_size(parts[i]->dtype);
    }
    return bytes;
}

static int64_t tensor_bytes(const struct tensor *t)
{
    return tensor_exists(t) ? tensor_count(t) * dtype_size(t->dtype) : 0;
}

static int64_t expert_bytes(const struct model *m, int64_t layer)
{
    int64_t bytes = 0;
    for (int64_t e = 0; e < m->config->experts; e++) {
        struct expert x;
        struct err err = ERR_INIT;
        (void)!model_expert(m, layer, e, &x, &err);
        assert_ok(&err);
        bytes += matrix_bytes(&x.gate) + matrix_bytes(&x.up) + matrix_bytes(&x.down);
    }
    return bytes;
}

static int64_t model_bytes(const struct model *m)
{
    int64_t bytes = tensor_bytes(&m->embed) + tensor_bytes(&m->norm);
    if (!m->config->tied_embeddings) bytes += matrix_bytes(&m->head);
    for (int64_t i = 0; i < m->config->layers; i++) {
        const struct layer *l = &m->layers[i];
        const struct tensor *const vectors[] = {&l->attn_norm, &l->mlp_norm, &l->q_norm,
                                                &l->kv_norm, &l->bias};
        const struct matrix *const matrices[] = {&l->q_a,  &l->q_b, &l->kv_a, &l->kv_b,  &l->o,
                                                 &l->gate, &l->up,  &l->down, &l->router};
        for (int k = 0; k < 5; k++) bytes += tensor_bytes(vectors[k]);
        for (int k = 0; k < 9; k++) bytes += matrix_bytes(matrices[k]);
        if (l->moe) bytes += expert_bytes(m, i);
    }
    return bytes;
}

/* What all ranks hold, less what is held more than once: the bytes of the whole. */
static void check_report(const struct loaded *l, struct shard_plan p)
{
    json_t *report = NULL, *rank;
    struct err err = ERR_INIT;
    size_t i;
    int64_t held = 0, repeated = 0, whole = model_bytes(&l->model);
    (void)!shard_plan_report(&p, &l->model, &report, &err);
    assert_ok(&err);
    assert_int_equal(number(report, "bytes"), whole);
    assert_int_equal(json_array_size(json_object_get(report, "problems")), 0);
    assert_int_equal(json_array_size(json_object_get(report, "ranks")), shard_world(&p));
    json_array_foreach(json_object_get(report, "ranks"), i, rank)
    {
        held += number(rank, "bytes");
        repeated += number(rank, "replicated_bytes");
        assert_true(number(rank, "bytes") < whole || shard_world(&p) == 1);
    }
    assert_true(held - repeated <= whole && held >= whole);
    if (shard_world(&p) == 1) assert_true(held == whole && repeated == 0);
    json_decref(report);
}

static void report__counts_every_byte_of_every_plan(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-k25", "tiny-dsv3", "tiny-k2-plainrope"};
    static const int plans[][3] = {{1, 1, 0}, {2, 1, 0},  {8, 1, 0}, {1, 4, 0},
                                   {2, 2, 3}, {4, 2, 16}, {2, 4, 1}};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct golden g;
        struct loaded l;
        struct err err = ERR_INIT;
        golden_open(&g, names[n]);
        (void)!loaded_open(&l, g.model, &err);
        assert_ok(&err);
        for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
            check_report(&l, (struct shard_plan){.tp = plans[i][0],
                                                 .ep = plans[i][1],
                                                 .map = i % 2 ? EXPERT_MAP_ROUND_ROBIN
                                                              : EXPERT_MAP_CONTIGUOUS,
                                                 .redundant = plans[i][2],
                                                 .reduce = DT_F32});
        loaded_close(&l);
        golden_close(&g);
    }
}

static void report__of_models_with_less_counts_every_byte(void **state)
{
    static const char *const edits[][2] = {
        {"\"torch_dtype\"", "\"tie_word_embeddings\": true, \"torch_dtype\""},
        {"\"n_shared_experts\": 1", "\"n_shared_experts\": null"},
        {"\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 2"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        struct loaded l;
        char *text = replaced(CONFIG_PLAIN, edits[i][0], edits[i][1]);
        shard_model_text(&l, state, text, 3);
        check_report(&l, (struct shard_plan){.tp = 2, .ep = i < 2 ? 2 : 1, .reduce = DT_F64});
        loaded_close(&l);
        free(text);
    }
}

static const json_t *row_of(const json_t *report, const char *name)
{
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(report, "matrices"), i, m)
    {
        if (strcmp(json_string_value(json_object_get(m, "name")), name) == 0) return m;
    }
    fail_msg("no row of %s", name);
    return NULL;
}

static void assert_row(const json_t *report, const char *name, const char *cut, int64_t rows,
                       int64_t columns, int ranks)
{
    const json_t *m = row_of(report, name), *part = json_object_get(m, "part");
    assert_string_equal(json_string_value(json_object_get(m, "cut")), cut);
    assert_int_equal(json_integer_value(json_array_get(part, 0)), rows);
    assert_int_equal(json_integer_value(json_array_get(part, 1)), columns);
    assert_int_equal(number(m, "ranks"), ranks);
}

#define LAYER(n, rest) "language_model.model.layers." #n "." rest

static void report__says_how_each_matrix_is_cut(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct err err = ERR_INIT;
    json_t *report = NULL;
    const struct shard_plan p = {.tp = 2, .ep = 2, .redundant = 1, .reduce = DT_BF16};
    golden_open(&g, "tiny-k25");
    (void)!loaded_open(&l, g.model, &err);
    (void)!shard_plan_report(&p, &l.model, &report, &err);
    assert_ok(&err);
    assert_string_equal(json_string_value(json_object_get(report, "map")), "contiguous");
    assert_string_equal(json_string_value(json_object_get(report, "reduce")), "bf16");
    assert_row(report, LAYER(0, "self_attn.q_a_proj.weight"), "replicated", 96, 256, 4);
    assert_row(report, LAYER(0, "self_attn.q_b_proj.weight"), "rows", 4 * 48, 96, 4);
    assert_row(report, LAYER(0, "self_attn.o_proj.weight"), "columns", 256, 4 * 32, 4);
    assert_row(report, LAYER(0, "mlp.down_proj.weight"), "columns", 256, 192, 4);
    assert_row(report, LAYER(5, "mlp.shared_experts.up_proj.weight"), "rows", 48, 256, 4);
    assert_row(report, LAYER(5, "mlp.gate.weight"), "replicated", 16, 256, 4);
    assert_row(report, LAYER(2, "input_layernorm.weight"), "replicated", 1, 256, 4);
    assert_row(report, LAYER(1, "mlp.experts.3.down_proj.weight_packed"), "experts", 256, 64, 2);
    assert_row(report, LAYER(1, "mlp.experts.0.down_proj.weight_packed"), "experts", 256, 64, 4);
    const json_t *last = json_array_get(json_object_get(report, "ranks"), 3);
    assert_int_equal(number(last, "t"), 1);
    assert_int_equal(number(last, "e"), 1);
    assert_int_equal(json_array_size(json_object_get(last, "experts")), 9);
    json_decref(report);
    loaded_close(&l);
    golden_close(&g);
}

/* A model whose matrices are not those of its names: what a rank opens is elsewhere. */
static void report__names_what_no_rank_holds(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct err err = ERR_INIT;
    json_t *report = NULL;
    const struct shard_plan p = {.tp = 2, .ep = 1, .reduce = DT_F32};
    golden_open(&g, "tiny-dsv3");
    (void)!loaded_open(&l, g.model, &err);
    assert_ok(&err);
    /* The whole model's table is larger than what its ranks cut, which is by the config. */
    l.model.layers[1].o.data.shape[0] += 1;
    l.model.layers[1].o.out += 1;
    l.model.layers[0].gate.data.shape[0] += 2;
    (void)!shard_plan_report(&p, &l.model, &report, &err);
    assert_err(&err, ERR_DIFF, "shard plan", "of its weights' places",
               "model.layers.0.mlp.gate_proj.weight: rows 384 to 385, columns 0 to 255: held by 0 "
               "ranks, not by 1",
               "as planned");
    assert_int_equal(json_array_size(json_object_get(report, "problems")), 1);
    json_decref(report);
    loaded_close(&l);
    golden_close(&g);
}

static void report__of_a_plan_that_cannot_be_is_its_refusal(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct err err = ERR_INIT;
    json_t *report = NULL;
    const struct shard_plan p = {.tp = 3, .ep = 1, .reduce = DT_F32};
    golden_open(&g, "tiny-dsv3");
    (void)!loaded_open(&l, g.model, &err);
    assert_ok(&err);
    (void)!shard_plan_report(&p, &l.model, &report, &err);
    assert_err(&err, ERR_INPUT, "shard plan", "attention heads", "8 over --tp 3", "--tp 1, 2, 4");
    assert_null(report);
    loaded_close(&l);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report__counts_every_byte_of_every_plan),
        cmocka_unit_test_setup_teardown(report__of_models_with_less_counts_every_byte, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(report__says_how_each_matrix_is_cut),
        cmocka_unit_test(report__names_what_no_rank_holds),
        cmocka_unit_test(report__of_a_plan_that_cannot_be_is_its_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
