/* test_shard.c: plans: who has what, for every number of ranks; experts and their copies; what is
 * refused, with the numbers that would do; a rank's model; parts of experts. */
#include "core/fault_shard.h"
#include "core/shard.h"
#include "tests/config_texts.h"
#include "tests/golden.h"
#include "tests/shard_ranks.h"

#include <stdio.h>
#include <string.h>

static struct config config_of(const char *text)
{
    struct config c;
    struct err err = ERR_INIT;
    (void)!config_parse(text, (int64_t)strlen(text), "config.json", &c, &err);
    assert_ok(&err);
    return c;
}

/* Extents of t = 0 .. tp - 1 lie side by side and cover [0, all). */
static void assert_cover(const struct shard *s, size_t at, int tp, int64_t all)
{
    int64_t next = 0;
    for (int t = 0; t < tp; t++) {
        const struct extent *e = (const struct extent *)(const void *)((const char *)&s[t] + at);
        assert_int_equal(e->first, next);
        next += e->count;
    }
    assert_int_equal(next, all);
}

static void plan__covers_every_width_for_every_number_that_divides(void **state)
{
    (void)state;
    static const char *const texts[] = {CONFIG_K25, CONFIG_DSV3, CONFIG_PLAIN};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config c = config_of(texts[i]);
        int accepted = 0;
        c.heads = 12;
        c.intermediate = 96;
        c.vocab = 48;
        c.quant.block[0] = c.quant.block[1] = 4; /* of FP8 */
        for (int tp = 1; tp <= 16; tp++) {
            const struct shard_plan p = {.tp = tp, .ep = 1, .reduce = DT_F64};
            struct shard s[16];
            struct err err = ERR_INIT;
            if (shard_plan_check(&p, &c, &err) != ERR_OK) {
                assert_err(&err, ERR_INPUT, "shard plan", NULL, "over --tp", "--tp 1");
                continue;
            }
            accepted++;
            for (int t = 0; t < tp; t++) shard_of(&p, &c, t, &s[t]);
            assert_cover(s, offsetof(struct shard, heads), tp, c.heads);
            assert_cover(s, offsetof(struct shard, intermediate), tp, c.intermediate);
            assert_cover(s, offsetof(struct shard, moe), tp, c.moe_intermediate);
            assert_cover(s, offsetof(struct shard, shared), tp,
                         c.moe_intermediate * c.shared_experts);
            assert_cover(s, offsetof(struct shard, vocab), tp, c.vocab);
        }
        assert_true(accepted >= 3); /* 1, 2 and 4 at least */
    }
}

static void plan__that_does_not_fit_is_refused_with_the_numbers_that_do(void **state)
{
    (void)state;
    static const struct {
        int tp, ep;
        int64_t redundant;
        const char *where, *found, *wanted;
    } rows[] = {
        {3, 1, 0, "attention heads", "8 over --tp 3", "--tp 1, 2, 4 or 8"},
        {16, 1, 0, "attention heads", "8 over --tp 16", "--tp 1, 2, 4 or 8"},
        {1, 3, 0, "routed experts", "16 over --ep 3", "--ep 1, 2, 4, 8 or 16"},
        {1, 32, 0, "routed experts", "16 over --ep 32", "--ep 1, 2, 4, 8 or 16"},
        {8, 16, 0, "ranks", "--tp 8 --ep 16", "1 to 64"},
        {0, 1, 0, "ranks", "--tp 0", "1 to 64"},
        {1, 1, 2, "redundant experts", "2 of 16, over --ep 1", "--ep 2 or more"},
        {1, 2, 17, "redundant experts", "17 of 16", "0 to all"},
        {1, 2, -1, "redundant experts", "-1 of 16", "0 to all"},
    };
    struct golden g;
    struct loaded l;
    struct err opening = ERR_INIT;
    golden_open(&g, "tiny-k25");
    (void)!loaded_open(&l, g.model, &opening);
    assert_ok(&opening);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct shard_plan p = {
            .tp = rows[i].tp, .ep = rows[i].ep, .redundant = rows[i].redundant, .reduce = DT_F32};
        struct err err = ERR_INIT;
        (void)!shard_plan_check(&p, l.model.config, &err);
        assert_err(&err, ERR_INPUT, "shard plan", rows[i].where, rows[i].found, rows[i].wanted);
    }
    loaded_close(&l);
    golden_close(&g);
}

/* Each width alone stands in the way. */
static void plan__names_the_width_that_does_not_divide(void **state)
{
    (void)state;
    struct config c = config_of(CONFIG_PLAIN);
    static const char *const names[] = {"attention heads", "width of a dense MLP",
                                        "width of a routed expert", "width of the shared experts",
                                        "vocabulary"};
    for (int i = 0; i < 5; i++) {
        struct config odd = c;
        int64_t *const width[] = {&odd.heads, &odd.intermediate, &odd.moe_intermediate,
                                  &odd.shared_experts, &odd.vocab};
        const struct shard_plan p = {.tp = 2, .ep = 1, .reduce = DT_F64};
        struct err err = ERR_INIT;
        if (i == 3) odd.moe_intermediate = 31; /* times 1: an odd width of both */
        *width[i] = i == 3 ? 1 : *width[i] + 1;
        (void)!shard_plan_check(&p, &odd, &err);
        assert_err(&err, ERR_INPUT, "shard plan", i == 3 ? names[2] : names[i], "over --tp 2",
                   "--tp ");
    }
    /* A width that no layer has is in nobody's way. */
    struct err err = ERR_INIT;
    const struct shard_plan p = {.tp = 2, .ep = 1, .reduce = DT_F64};
    c.first_dense = 0;
    c.intermediate++;
    (void)!shard_plan_check(&p, &c, &err);
    assert_ok(&err);
    c = config_of(CONFIG_PLAIN);
    c.first_dense = c.layers;
    c.moe_intermediate++;
    (void)!shard_plan_check(&p, &c, &err);
    assert_ok(&err);
    const struct shard_plan experts = {.tp = 1, .ep = 2, .reduce = DT_F64};
    (void)!shard_plan_check(&experts, &c, &err);
    assert_err(&err, ERR_INPUT, "shard plan", "routed experts", "0 over --ep 2", "--ep 1");
}

/* FP8 blocks of 128 x 128: heads of 12 values begin inside a block and end in the next one. */
static void plan__does_not_cut_through_blocks(void **state)
{
    (void)state;
    struct config c = config_of(CONFIG_DSV3);
    struct err err = ERR_INIT;
    const struct shard_plan p = {.tp = 3, .ep = 1, .reduce = DT_F64};
    c.heads = 12;
    c.intermediate = 384;
    c.moe_intermediate = 96;
    c.vocab = 48;
    (void)!shard_plan_check(&p, &c, &err);
    assert_err(&err, ERR_INPUT, "shard plan", "model.layers.0.self_attn.q_b_proj",
               "rows 96 to 191 over --tp 3", "of 128: --tp 1");
}

/* Groups of 32: three of them over two ranks are two and one, over four one each and one without;
 * where equal parts lie inside a group they stay equal. */
static void experts__are_cut_in_whole_groups_where_equal_parts_cannot_be(void **state)
{
    (void)state;
    static const struct {
        int64_t width;
        int tp;
        int64_t count[8];
    } rows[] = {
        {96, 2, {64, 32}},
        {96, 4, {32, 32, 32, 0}},
        {96, 8, {32, 32, 32, 0, 0, 0, 0, 0}},
        {64, 2, {32, 32}},
        {64, 4, {16, 16, 16, 16}},
        {64, 8, {8, 8, 8, 8, 8, 8, 8, 8}},
        {32, 8, {32, 0, 0, 0, 0, 0, 0, 0}},
        {160, 2, {96, 64}},
    };
    struct config c = config_of(CONFIG_K25);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct shard_plan p = {.tp = rows[i].tp, .ep = 1, .reduce = DT_F64};
        int64_t next = 0;
        c.moe_intermediate = rows[i].width;
        for (int t = 0; t < rows[i].tp; t++) {
            struct shard s;
            shard_of(&p, &c, t, &s);
            assert_int_equal(s.moe.count, rows[i].count[t]);
            assert_int_equal(s.moe.first, next);
            assert_int_equal(shard_holds(&s, 0), rows[i].count[t] > 0);
            next += s.moe.count;
        }
        assert_int_equal(next, rows[i].width);
    }
}

/* ---- experts ---- */

static void expert__has_one_computer_for_every_row(void **state)
{
    (void)state;
    const struct config c = config_of(CONFIG_DSV3); /* 8 experts */
    static const int eps[] = {1, 2, 4, 8};
    for (int i = 0; i < 4 * EXPERT_MAPS * 4; i++) {
        const struct shard_plan p = {.tp = 2,
                                     .ep = eps[i % 4],
                                     .map = (enum expert_map)(i / 4 % EXPERT_MAPS),
                                     .redundant = eps[i % 4] > 1 ? i / 4 / EXPERT_MAPS * 2 : 0,
                                     .reduce = DT_F64};
        for (int64_t e = 0; e < c.experts; e++) {
            int holders = 0;
            for (int r = 0; r < shard_world(&p); r++) {
                struct shard s;
                shard_of(&p, &c, r, &s);
                holders += shard_holds(&s, e);
                for (int64_t row = 0; row < 4; row++) {
                    int by = shard_computer(&s, e, row);
                    assert_true(by >= 0 && by < p.ep);
                    if (by == s.e) assert_true(shard_holds(&s, e));
                    /* Copies take turns. */
                    assert_int_equal(by == shard_computer(&s, e, row + 1), e >= p.redundant);
                }
            }
            assert_int_equal(holders, p.tp * (e < p.redundant ? 2 : 1));
        }
    }
}

static void expert__maps_are_the_named_ones(void **state)
{
    (void)state;
    const struct config c = config_of(CONFIG_DSV3);
    struct shard_plan p = {.tp = 1, .ep = 4, .reduce = DT_F64};
    struct shard s;
    static const int contiguous[] = {0, 0, 1, 1, 2, 2, 3, 3}, robin[] = {0, 1, 2, 3, 0, 1, 2, 3};
    shard_of(&p, &c, 0, &s);
    for (int e = 0; e < 8; e++) assert_int_equal(shard_holder(&s, e, 0), contiguous[e]);
    p.map = EXPERT_MAP_ROUND_ROBIN;
    p.redundant = 4;
    shard_of(&p, &c, 0, &s);
    for (int e = 0; e < 8; e++) assert_int_equal(shard_holder(&s, e, 0), robin[e]);
    assert_int_equal(shard_holder(&s, 3, 1), 0);
    assert_string_equal(expert_map_name(0), "contiguous");
    assert_string_equal(expert_map_name(1), "round-robin");
    assert_null(expert_map_name(2));
}

static void route__leaves_each_choice_to_one_rank(void **state)
{
    (void)state;
    const struct config c = config_of(CONFIG_DSV3);
    const struct shard_plan p = {.tp = 1, .ep = 4, .redundant = 3, .reduce = DT_F64};
    static const int32_t ids[12] = {0, 1, 2, 1, 2, 7, 0, 3, 4, 5, 6, 7};
    int seen[12] = {0};
    const struct rows rows = {.count = 4};
    for (int r = 0; r < 4; r++) {
        struct shard s;
        int32_t own[12];
        shard_of(&p, &c, r, &s);
        memcpy(own, ids, sizeof own);
        shard_route(&s, 1, &rows, 3, own);
        for (int i = 0; i < 12; i++) {
            assert_true(own[i] == -1 || (own[i] == ids[i] && shard_holds(&s, ids[i])));
            seen[i] += own[i] >= 0;
        }
    }
    for (int i = 0; i < 12; i++) assert_int_equal(seen[i], 1);
}

/* ---- a rank's model ---- */

static void model__of_a_rank_has_its_sizes_and_no_others(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct shard s;
    struct shard_model part;
    struct expert e;
    struct err err = ERR_INIT;
    const struct shard_plan p = {.tp = 2, .ep = 2, .reduce = DT_F32};
    golden_open(&g, "tiny-k25");
    (void)!loaded_open(&l, g.model, &err);
    assert_ok(&err);
    shard_of(&p, l.model.config, 3, &s);
    (void)!shard_model_open(&part, &l.model, &s, &err);
    assert_ok(&err);
    const struct model *m = &part.model;
    const struct layer *dense = &m->layers[0], *moe = &m->layers[1];
    assert_true(m->config == &part.config && m->shard == &part.shard);
    assert_int_equal(m->config->heads, 4);
    assert_int_equal(m->config->vocab, 512);
    assert_int_equal(m->config->experts, 16);
    assert_int_equal(m->config->intermediate, 192);
    assert_int_equal(m->config->moe_intermediate, 32);
    assert_int_equal(m->embed.shape[0], 256);
    assert_int_equal(m->head.out, 256);
    assert_int_equal(dense->q_b.out, 4 * 48);
    assert_int_equal(dense->o.in, 4 * 32);
    assert_int_equal(dense->o.out, 256);
    assert_int_equal(dense->kv_a.out, l.model.layers[0].kv_a.out);
    assert_int_equal(dense->down.in, 192);
    assert_int_equal(moe->gate.out, 48);
    (void)!model_expert(m, 1, 8, &e, &err);
    assert_ok(&err);
    assert_true(e.gate.out == 32 && e.down.in == 32 && e.down.out == 256);
    (void)!model_expert(m, 1, 7, &e, &err);
    assert_err(&err, ERR_INPUT, "expert of a rank", "layers.1, expert 7", "rank 3", "rank 1");
    shard_model_close(&part);
    loaded_close(&l);
    golden_close(&g);
}

/* Alone nothing is cut, and nothing is waited for. */
static void model__of_one_rank_is_the_whole(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct shard s;
    struct shard_model part;
    struct err err = ERR_INIT;
    double x[3] = {1.0 / 3, 2, 3}, y[3];
    const struct shard_site at = {.op = "mla.output", .layer = 2, .T = 1, .width = 3};
    const struct shard_plan p = shard_plan_alone();
    golden_open(&g, "tiny-dsv3");
    (void)!loaded_open(&l, g.model, &err);
    assert_ok(&err);
    shard_of(&p, l.model.config, 0, &s);
    (void)!shard_model_open(&part, &l.model, &s, &err);
    (void)!shard_reduce(&s, &at, x, &err);
    (void)!shard_gather_columns(&s, &at, x, y, &err);
    assert_ok(&err);
    assert_true(x[0] == 1.0 / 3);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(&part.config, l.model.config, sizeof part.config);
    shard_model_close(&part);
    loaded_close(&l);
    golden_close(&g);
}

/* ---- sums ---- */

/* What a collective was asked for. */
static struct collective_call asked;
static char asked_name[COLLECTIVE_NAME];
static const struct collective *asked_group;
static int asked_times;

static enum err_code listen(struct collective *c, const struct collective_call *call,
                            struct err *err)
{
    asked = *call;
    asked_group = c;
    asked_times++;
    snprintf(asked_name, sizeof asked_name, "%s", call->name);
    return err->code;
}

/* Routed experts over all ranks, the others over t, an embedding exactly; nothing where one rank
 * has it all. */
static void reduce__asks_the_right_group_once(void **state)
{
    (void)state;
    static const struct collective_side side = {.name = "listens", .run = listen};
    static const struct {
        int tp, ep;
        const char *op;
        int64_t layer;
        const char *name;
        bool all;
        enum dtype dtype;
    } rows[] = {
        {2, 2, "mla.output", 3, "layers.3.mla.output", false, DT_BF16},
        {2, 2, "mlp", 0, "layers.0.mlp", false, DT_BF16},
        {2, 2, "moe", 1, "layers.1.moe", true, DT_BF16},
        {1, 4, "moe", 1, "layers.1.moe", true, DT_BF16},
        {2, 2, "embed", -1, "embed", false, DT_F64},
        {1, 4, "mla.output", 3, NULL, false, DT_BF16},
        {1, 4, "embed", -1, NULL, false, DT_BF16},
    };
    const struct config c = config_of(CONFIG_DSV3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct shard_plan p = {.tp = rows[i].tp, .ep = rows[i].ep, .reduce = DT_BF16};
        struct collective all = {.side = &side, .world = shard_world(&p)};
        struct collective tensor = {.side = p.tp > 1 ? &side : NULL, .world = p.tp};
        struct shard s;
        struct err err = ERR_INIT;
        double x[6] = {1, 2, 3, 4, 5, 6};
        const struct shard_site at = {.op = rows[i].op, .layer = rows[i].layer, .T = 2, .width = 3};
        shard_of(&p, &c, 0, &s);
        s.all = &all;
        s.tensor = &tensor;
        asked_times = 0;
        (void)!shard_reduce(&s, &at, x, &err);
        assert_ok(&err);
        assert_int_equal(asked_times, rows[i].name != NULL);
        if (!rows[i].name) continue;
        assert_string_equal(asked_name, rows[i].name);
        assert_ptr_equal(asked_group, rows[i].all ? &all : &tensor);
        assert_true(asked.sum == x && asked.n == 6 && asked.dtype == rows[i].dtype);
    }
}

/* What only the tensors tell: a group index that is in use. */
static void model__with_a_group_index_in_use_is_not_cut_along_columns(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct shard s;
    struct expert whole, part;
    int32_t index[96];
    struct err err = ERR_INIT;
    const struct shard_plan p = {.tp = 2, .ep = 1, .reduce = DT_F32};
    golden_open(&g, "tiny-k25");
    (void)!loaded_open(&l, g.model, &err);
    (void)!model_expert(&l.model, 1, 0, &whole, &err);
    assert_ok(&err);
    for (int i = 0; i < 96; i++) index[i] = i % 3;
    whole.down.g_idx = (struct tensor){
        .name = "w.weight_g_idx", .dtype = DT_I32, .dims = 1, .shape = {96}, .data = index};
    shard_of(&p, l.model.config, 0, &s);
    (void)!shard_expert(&s, l.model.config, 1, &whole, &part, &err);
    assert_err(&err, ERR_INPUT, "cut a matrix", "w.weight_g_idx", "columns 0 to 63", "all columns");
    loaded_close(&l);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan__covers_every_width_for_every_number_that_divides),
        cmocka_unit_test(plan__that_does_not_fit_is_refused_with_the_numbers_that_do),
        cmocka_unit_test(plan__names_the_width_that_does_not_divide),
        cmocka_unit_test(plan__does_not_cut_through_blocks),
        cmocka_unit_test(experts__are_cut_in_whole_groups_where_equal_parts_cannot_be),
        cmocka_unit_test(expert__has_one_computer_for_every_row),
        cmocka_unit_test(expert__maps_are_the_named_ones),
        cmocka_unit_test(route__leaves_each_choice_to_one_rank),
        cmocka_unit_test(model__of_a_rank_has_its_sizes_and_no_others),
        cmocka_unit_test(model__of_one_rank_is_the_whole),
        cmocka_unit_test(reduce__asks_the_right_group_once),
        cmocka_unit_test(model__with_a_group_index_in_use_is_not_cut_along_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
