/* test_eagle.c: ops "eagle.fc" and "eagle.layer" against modules of transformers put together as
 * speculators' layer is, and what must hold for any weights. Whole heads: test_golden_eagle.c. */
#include "core/eagle.h"

#include "harness/case.h"
#include "tests/op_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- against outside modules ---- */

/* In float64 within 1e-13 of values of size 1 to 10; in bf16 equal. */
static void judge(const struct fixture_case *c, const double *got, const char *want, int64_t rows,
                  int64_t cols)
{
    if (case_is(c, "kind", "f64"))
        assert_f64_near(got, case_f64(c, want), rows, cols, 1e-12, 1e-13);
    else
        assert_share(got, case_f64(c, want), rows, cols, 1.0);
}

static struct run run_of(struct fixture_case *c)
{
    return op_run(&c->fixture->arena, case_is(c, "kind", "f64") ? "math" : "hf", PRECISION_F64);
}

static void eagle_fc_ref__equals_torch(void **state)
{
    (void)state;
    struct fixture f;
    int seen = 0;
    fixture_open(&f, "eagle");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct err err = ERR_INIT;
        struct fixture_case c = fixture_at(&f, i);
        struct head *h = arena_alloc(&f.arena, 1, sizeof *h, "head", &err);
        if (!case_is(&c, "op", "eagle.fc")) continue;
        memset(h, 0, sizeof *h);
        h->config = (struct head_config){
            .base = {.hidden = case_int(&c, "H"), .norm_eps = case_real(&c, "eps")},
            .aux_count = (int)case_int(&c, "aux"),
            .target_hidden = case_int(&c, "Ht"),
            .norm_before_fc = case_is(&c, "norm", "before"),
            .fc_norm = case_is(&c, "norm", "each")};
        h->fc = case_matrix(&c, "fc");
        if (h->config.norm_before_fc) h->fc_input_norm = case_tensor(&c, "input_norm");
        for (int k = 0; h->config.fc_norm && k < h->config.aux_count; k++) {
            char name[24];
            snprintf(name, sizeof name, "fc_norm.%d", k);
            h->fc_norm[k] = case_tensor(&c, name);
        }
        struct eagle_fc op = {.T = case_int(&c, "T"), .head = h, .aux = case_f64(&c, "x")};
        op.y = space(&f.arena, op.T * h->config.base.hidden);
        struct run run = run_of(&c);
        (void)!eagle_fc_ref(&op, &run, &err);
        assert_ok(&err);
        judge(&c, op.y, "y", op.T, h->config.base.hidden);
        seen++;
    }
    assert_int_equal(seen, 6);
    fixture_close(&f);
}

static void bind_layer(struct fixture_case *c, struct head *h, int64_t layer)
{
    struct head_layer *l = &h->layers[layer];
    bool mla = h->config.kind == HEAD_MLA;
    l->embed_norm = case_tensor(c, "input_layernorm");
    l->hidden_norm = case_tensor(c, "hidden_norm");
    l->mlp_norm = case_tensor(c, "post_attention_layernorm");
    l->gate = case_matrix(c, "gate_proj");
    l->up = case_matrix(c, "up_proj");
    l->down = case_matrix(c, "down_proj");
    l->o = case_matrix(c, "o_proj");
    if (mla) {
        l->q_a = case_matrix(c, "q_a_proj");
        l->q_norm = case_tensor(c, "q_a_layernorm");
        l->q_b = case_matrix(c, "q_b_proj");
        l->kv_a = case_matrix(c, "kv_a_proj_with_mqa");
        l->kv_norm = case_tensor(c, "kv_a_layernorm");
        l->kv_b = case_matrix(c, "kv_b_proj");
        return;
    }
    l->q = case_matrix(c, "q_proj");
    l->k = case_matrix(c, "k_proj");
    l->v = case_matrix(c, "v_proj");
    if (!h->config.qk_norm) return;
    l->q_head_norm = case_tensor(c, "q_norm");
    l->k_head_norm = case_tensor(c, "k_norm");
}

static struct head *head_of(struct fixture_case *c)
{
    struct err err = ERR_INIT;
    struct head *h = arena_alloc(&c->fixture->arena, 1, sizeof *h, "head", &err);
    bool mla = case_is(c, "attention", "mla");
    assert_non_null(h);
    memset(h, 0, sizeof *h);
    h->config = (struct head_config){.kind = mla ? HEAD_MLA : HEAD_LLAMA,
                                     .base = {.hidden = case_int(c, "H"),
                                              .layers = 2,
                                              .heads = case_int(c, "heads"),
                                              .norm_eps = case_real(c, "eps"),
                                              .rope = mla ? case_int(c, "R") : case_int(c, "hd"),
                                              .rope_interleaved = mla},
                                     .kv_heads = case_int(c, "kv_heads"),
                                     .head_dim = case_int(c, "hd"),
                                     .norm_before_residual = case_true(c, "normed"),
                                     .qk_norm = case_is(c, "attention", "qwen")};
    if (mla) {
        h->config.base.q_lora = case_int(c, "q_lora");
        h->config.base.kv_lora = case_int(c, "L");
        h->config.base.nope = case_int(c, "P");
        h->config.base.v_head = case_int(c, "V");
    }
    h->rope = (struct rope_table){.R = h->config.base.rope, .factor = 1};
    memcpy(h->rope.frequency, case_f32(c, "inv_freq"), (size_t)(h->rope.R / 2) * sizeof(float));
    bind_layer(c, h, case_int(c, "layer"));
    return h;
}

/* Column i of the cache's entry in what transformers keeps: of MLA its roped keys stand as [first
 * members | second members]. */
static double kept(const struct head *h, const double *k, const double *v, int64_t t, int64_t i)
{
    const struct config *b = &h->config.base;
    bool mla = h->config.kind == HEAD_MLA;
    int64_t left = mla ? b->kv_lora : h->config.kv_heads * h->config.head_dim;
    int64_t right = mla ? b->rope : left;
    if (i < left) return k[t * left + i];
    i -= left;
    return v[t * right + (mla ? (i % 2 ? right / 2 : 0) + i / 2 : i)];
}

static void check_entries(struct fixture_case *c, const struct head *h, const struct cache *cache,
                          int64_t layer, int64_t T)
{
    int64_t width = head_cache_width(&h->config);
    const double *k = case_f64(c, "k"), *v = case_f64(c, "v");
    double *want = space(&c->fixture->arena, width);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < width; i++) want[i] = kept(h, k, v, t, i);
        const double *got = cache_read(cache, layer, 0, t);
        if (case_is(c, "kind", "f64"))
            assert_f64_near(got, want, 1, width, 1e-12, 1e-13);
        else
            assert_share(got, want, 1, width, 1.0);
    }
}

/* All rows at once, or in two steps against the same cache. */
static void check_layer(struct fixture_case *c, bool in_two)
{
    struct err err = ERR_INIT;
    struct arena *a = &c->fixture->arena;
    struct head *h = head_of(c);
    struct cache cache;
    int64_t T = case_int(c, "T"), H = h->config.base.hidden, layer = case_int(c, "layer");
    int32_t sequence[16] = {0};
    int64_t position[16];
    (void)!cache_make(&cache, a, 2, 1, &T, 3, head_cache_width(&h->config), 5, &err);
    assert_ok(&err);
    for (int64_t t = 0; t < T; t++) position[t] = t;
    double *embed = case_f64(c, "embed"), *hidden = case_f64(c, "hidden"), *y = space(a, T * H);
    struct run run = run_of(c);
    for (int64_t first = 0, n = in_two ? 2 : T; first < T; first += n, n = T - first) {
        const struct rows rows = {.count = n,
                                  .sequence = sequence,
                                  .position = position + first,
                                  .token = position,
                                  .dump_row = position};
        const struct eagle_layer op = {.head = h,
                                       .layer = layer,
                                       .rows = &rows,
                                       .embed = layer == 0 ? embed + first * H : NULL,
                                       .hidden = hidden + first * H,
                                       .cache = &cache,
                                       .y = y + first * H};
        rows_extend(&rows, &cache);
        (void)!eagle_layer_ref(&op, &run, &err);
        assert_ok(&err);
    }
    judge(c, y, "y", T, H);
    check_entries(c, h, &cache, layer, T);
}

static void eagle_layer_ref__equals_transformers_modules(void **state)
{
    (void)state;
    struct fixture f;
    int seen = 0;
    fixture_open(&f, "eagle");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "op", "eagle.layer")) continue;
        check_layer(&c, false);
        check_layer(&c, true);
        seen++;
    }
    assert_int_equal(seen, 10);
    fixture_close(&f);
}

/* ---- what holds for any weights ---- */

static const char *const layer_lines[] = {
    "eagle.layer rows=7,context=5,heads=6,kv_heads=2,hd=10,block=3",
    "eagle.layer rows=4:3,context=9:0,residual=normed,qk_norm=1,block=64",
    "eagle.layer layer=1,rows=6,context=3",
    "eagle.layer kind=mla,rows=5:2,context=4:7,block=5",
};
enum { LINES = sizeof layer_lines / sizeof layer_lines[0] };
static const char *const profiles[] = {"math", "hf", "vllm", "sgl"};

static void make_case(const char *line, struct arena *a, struct case_data *d)
{
    struct op_case c;
    struct err err = ERR_INIT;
    (void)!case_parse(&c, line, &err);
    assert_ok(&err);
    (void)!case_make(&c, a, d, &err);
    assert_ok(&err);
}

static void run_layer(const struct eagle_layer *op, struct run *run)
{
    struct err err = ERR_INIT;
    (void)!eagle_layer_ref(op, run, &err);
    assert_ok(&err);
}

static void row__has_the_same_bits__on_any_threads_and_one_at_a_time(void **state)
{
    (void)state;
    for (int i = 0; i < LINES; i++) {
        for (size_t p = 0; p < sizeof profiles / sizeof profiles[0]; p++) {
            struct arena a = ARENA_INIT;
            struct case_data whole, again, single;
            make_case(layer_lines[i], &a, &whole);
            make_case(layer_lines[i], &a, &again);
            make_case(layer_lines[i], &a, &single);
            struct eagle_layer *op = whole.op, *other = again.op, *one = single.op;
            int64_t T = op->rows->count, H = op->head->config.base.hidden;
            struct run run = op_run(&a, profiles[p], PRECISION_F32);
            run_layer(op, &run);
            run.threads = 3;
            run_layer(other, &run);
            assert_f64_bits(other->y, op->y, T, H);
            const struct rows all = *one->rows;
            for (int64_t r = 0; r < T; r++) {
                const struct rows row = {.count = 1,
                                         .sequence = all.sequence + r,
                                         .position = all.position + r,
                                         .token = all.token + r,
                                         .dump_row = all.dump_row + r};
                struct eagle_layer part = *one;
                part.rows = &row;
                if (part.embed) part.embed += r * H;
                part.hidden += r * H;
                part.y += r * H;
                part.y_sum += r * H;
                run_layer(&part, &run);
            }
            assert_f64_bits(one->y, op->y, T, H);
            assert_f64_bits(one->y_sum, op->y_sum, T, H);
            arena_release(&a, NULL);
        }
    }
}

/* A node of a tree against a plain decode of its path: every node, its path packed behind the
 * context of a fresh cache. */
static void node__has_the_bits_of_its_path(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"eagle.layer rows=9,context=6,view=tree,heads=4,kv_heads=2,block=3",
         "eagle.layer rows=9,context=6,heads=4,kv_heads=2,block=4"},
        {"eagle.layer kind=mla,rows=9,context=6,view=tree",
         "eagle.layer kind=mla,rows=9,context=6,block=64"},
    };
    for (int i = 0; i < 2; i++) {
        struct arena a = ARENA_INIT;
        struct case_data tree, plain;
        make_case(pairs[i][0], &a, &tree);
        struct eagle_layer *op = tree.op;
        struct run run = op_run(&a, "math", PRECISION_F32);
        int64_t H = op->head->config.base.hidden, context = 6;
        run_layer(op, &run);
        for (int64_t node = 0; node < op->rows->count; node++) {
            const int64_t *path;
            int64_t n = rows_extras(op->rows, node, &path);
            make_case(pairs[i][1], &a, &plain);
            struct eagle_layer *chain = plain.op;
            double *embed = space(&a, n * H), *hidden = space(&a, n * H);
            for (int64_t k = 0; k < n; k++) {
                int64_t from = (path[k] - context) * H;
                memcpy(embed + k * H, op->embed + from, (size_t)H * sizeof *embed);
                memcpy(hidden + k * H, op->hidden + from, (size_t)H * sizeof *hidden);
            }
            struct rows rows = *chain->rows;
            rows.count = n;
            chain->rows = &rows;
            chain->embed = embed;
            chain->hidden = hidden;
            run_layer(chain, &run);
            assert_f64_bits(chain->y + (n - 1) * H, op->y + node * H, 1, H);
        }
        arena_release(&a, NULL);
    }
}

/* sgl's norms read the sum before its last rounding: where a layer is given it, that is what counts
 * for the norm, and not for the skip path. */
static void unrounded_sum__is_what_the_norm_reads__in_profile_sgl_alone(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof profiles / sizeof profiles[0]; p++) {
        struct arena a = ARENA_INIT;
        struct case_data with, without;
        make_case("eagle.layer layer=1,rows=3", &a, &with);
        make_case("eagle.layer layer=1,rows=3", &a, &without);
        struct eagle_layer *op = with.op, *other = without.op;
        int64_t n = op->rows->count * op->head->config.base.hidden;
        double *sum = space(&a, n);
        for (int64_t i = 0; i < n; i++) sum[i] = op->hidden[i] * (i % 2 ? 1.003 : 0.997);
        op->sum = sum;
        struct run run = op_run(&a, profiles[p], PRECISION_F32);
        run_layer(op, &run);
        run_layer(other, &run);
        bool same = memcmp(op->y, other->y, (size_t)n * sizeof *op->y) == 0;
        assert_int_equal(same, strcmp(profiles[p], "sgl") != 0);
        arena_release(&a, NULL);
    }
}

/* The norm before the mlp is such a norm too. */
static void mlp_norm__reads_the_unrounded_sum__where_the_profile_says_so(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct case_data with, without;
    make_case("eagle.layer rows=3", &a, &with);
    make_case("eagle.layer rows=3", &a, &without);
    struct eagle_layer *op = with.op, *other = without.op;
    size_t bytes = (size_t)(op->rows->count * op->head->config.base.hidden) * sizeof *op->y;
    struct run run = op_run(&a, "sgl", PRECISION_F32);
    run_layer(op, &run);
    run.profile.norm_sees_unrounded = false;
    run_layer(other, &run);
    assert_true(memcmp(op->y, other->y, bytes) != 0);
    arena_release(&a, NULL);
}

static void ops__return_their_scratch(void **state)
{
    (void)state;
    for (int i = 0; i < LINES; i++) {
        struct arena a = ARENA_INIT, scratch = ARENA_INIT;
        struct case_data d;
        struct err err = ERR_INIT;
        make_case(layer_lines[i], &a, &d);
        struct run run = op_run(&scratch, "math", PRECISION_F64);
        run_layer(d.op, &run);
        assert_int_equal(scratch.bytes, 0);
        make_case("eagle.fc T=3,norm=each", &a, &d);
        (void)!eagle_fc_ref(d.op, &run, &err);
        assert_ok(&err);
        assert_int_equal(scratch.bytes, 0);
        arena_release(&a, NULL);
    }
}

static void ops__say_when_memory_is_short(void **state)
{
    (void)state;
    static const char *const lines[] = {"eagle.layer rows=3", "eagle.layer kind=mla,rows=3"};
    for (int i = 0; i < 2; i++) {
        struct arena a = ARENA_INIT, all = ARENA_INIT;
        struct case_data d;
        make_case(lines[i], &a, &d);
        struct run run = op_run(&all, "math", PRECISION_F32);
        run_layer(d.op, &run);
        for (size_t most = 0; most < all.bytes_peak; most += 1 + all.bytes_peak / 97) {
            struct err err = ERR_INIT;
            struct arena small = {.bytes_max = most + 1};
            run.arena = &small;
            assert_int_equal(eagle_layer_ref(d.op, &run, &err), ERR_MEMORY);
            assert_int_equal(small.bytes, 0);
        }
        arena_release(&a, NULL);
    }
}

/* ---- refusals; more of them in compat/ops/eagle.yaml ---- */

static void eagle_layer_check__refuses__what_does_not_fit(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct case_data d;
    make_case("eagle.layer rows=2,H=32,heads=4,kv_heads=2,hd=8", &a, &d);
    struct eagle_layer op = *(struct eagle_layer *)d.op;
    struct head *h = malloc(sizeof *h);
    assert_non_null(h);
    assert_int_equal(eagle_layer_check(&op, &err), ERR_OK);
    op.embed = NULL;
    assert_refused(eagle_layer_check(&op, &err), &err, "no embeddings");
    op = *(struct eagle_layer *)d.op;
    op.layer = 1;
    assert_refused(eagle_layer_check(&op, &err), &err, "embeddings in layer 0 alone");
    op = *(struct eagle_layer *)d.op;
    op.cache->length[0] = 1;
    assert_refused(eagle_layer_check(&op, &err), &err, "row 1");
    op.cache->length[0] = 2;
    *h = *op.head;
    op.head = h;
    h->rope.R = 6;
    assert_refused(eagle_layer_check(&op, &err), &err, "rope over 6");
    h->rope.R = 8;
    h->config.qk_norm = true;
    h->layers[0].k_head_norm = (struct tensor){0};
    assert_refused(eagle_layer_check(&op, &err), &err, "key norm");
    h->config.qk_norm = false;
    h->layers[0].down.in--;
    assert_refused(eagle_layer_check(&op, &err), &err, "eagle.layer gate");
    h->layers[0].down.in++;
    h->layers[0].o.out++;
    assert_refused(eagle_layer_check(&op, &err), &err, "eagle.layer o");
    op.head = NULL;
    assert_refused(eagle_layer_check(&op, &err), &err, "layer 0");
    free(h);
    arena_release(&a, NULL);
}

static void eagle_fc_check__refuses__what_does_not_fit(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct case_data d;
    make_case("eagle.fc T=2,norm=each", &a, &d);
    struct eagle_fc op = *(struct eagle_fc *)d.op;
    struct head *h = malloc(sizeof *h);
    assert_non_null(h);
    *h = *op.head;
    op.head = h;
    assert_int_equal(eagle_fc_check(&op, &err), ERR_OK);
    h->fc_norm[2].shape[0]++;
    assert_refused(eagle_fc_check(&op, &err), &err, "13 weights, wanted 12 floats");
    h->fc_norm[2].shape[0]--;
    h->fc_norm[1] = (struct tensor){0};
    assert_refused(eagle_fc_check(&op, &err), &err, "0 weights");
    op.T = -1;
    assert_refused(eagle_fc_check(&op, &err), &err, "T = -1");
    op.T = 2;
    op.head = NULL;
    assert_refused(eagle_fc_check(&op, &err), &err, "0 aux states");
    free(h);
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eagle_fc_ref__equals_torch),
        cmocka_unit_test(eagle_layer_ref__equals_transformers_modules),
        cmocka_unit_test(row__has_the_same_bits__on_any_threads_and_one_at_a_time),
        cmocka_unit_test(node__has_the_bits_of_its_path),
        cmocka_unit_test(unrounded_sum__is_what_the_norm_reads__in_profile_sgl_alone),
        cmocka_unit_test(mlp_norm__reads_the_unrounded_sum__where_the_profile_says_so),
        cmocka_unit_test(ops__return_their_scratch),
        cmocka_unit_test(ops__say_when_memory_is_short),
        cmocka_unit_test(eagle_layer_check__refuses__what_does_not_fit),
        cmocka_unit_test(eagle_fc_check__refuses__what_does_not_fit),
    };
    return cmocka_run_group_tests_name("eagle", tests, NULL, NULL);
}
