/* test_mla.c: ops "mla.q", "mla.kv", "mla.core", "mla.output" against DeepseekV3Attention, each
 * from the module's own recorded inputs. What must hold for any cache: tests/test_mla_core.c. */
#include "core/mla.h"

#include "tests/op_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void done(enum err_code code, const struct err *err)
{
    if (code != ERR_OK) assert_ok(err);
}

/* ---- golden ---- */

struct golden {
    struct fixture_case c;
    int64_t T, H, heads, P, R, V, L;
    bool interleaved, f64;
    struct rope_table table; /* with the frequencies that transformers has */
    const int64_t *position;
};

static struct golden golden_of(struct fixture *f, int i)
{
    struct fixture_case c = fixture_at(f, i);
    struct golden g = {.c = c,
                       .T = case_int(&c, "T"),
                       .H = case_int(&c, "H"),
                       .heads = case_int(&c, "heads"),
                       .P = case_int(&c, "P"),
                       .R = case_int(&c, "R"),
                       .V = case_int(&c, "V"),
                       .L = case_int(&c, "L"),
                       .interleaved = case_true(&c, "interleaved"),
                       .f64 = case_is(&c, "kind", "f64")};
    g.table = (struct rope_table){.R = g.R, .factor = 1}; /* the mscales are equal in every case */
    memcpy(g.table.frequency, case_f32(&c, "inv_freq"), (size_t)(g.R / 2) * sizeof(float));
    g.position = case_i64(&c, "position");
    return g;
}

/* transformers leaves interleaved pairs as [first members | second members]; the cache keeps them
 * adjacent. */
static double *roped_keys(struct golden *g)
{
    double *hf = case_f64(&g->c, "k_rope"), *k = space(&g->c.fixture->arena, g->T * g->R);
    for (int64_t i = 0; i < g->T * g->R; i++) {
        int64_t j = i % g->R, half = g->R / 2;
        k[i] = hf[i - j + (!g->interleaved ? j : j % 2 ? half + j / 2 : j / 2)];
    }
    return k;
}

/* In float64 within 1e-13 of values of size 1 (chained sums of at most 20 terms); in bf16 equal. */
static void judge(struct golden *g, const double *got, const double *want, int64_t cols)
{
    if (g->f64)
        assert_f64_near(got, want, g->T, cols, 1e-13, 1e-13);
    else
        assert_share(got, want, g->T, cols, 1.0);
}

static struct run golden_run(struct golden *g)
{
    return op_run(&g->c.fixture->arena, g->f64 ? "math" : "hf", PRECISION_F64);
}

static void mla_q_ref__equals_transformers(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct fixture f;
    fixture_open(&f, "mla");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct golden g = golden_of(&f, i);
        bool lora = case_int(&g.c, "q_lora") > 0;
        struct matrix a = {0}, b = case_matrix(&g.c, lora ? "q_b_proj" : "q_proj");
        struct tensor norm = {0};
        struct mla_q op = {.T = g.T,
                           .x = case_f64(&g.c, "x"),
                           .b = &b,
                           .eps = case_real(&g.c, "eps"),
                           .q = space(&f.arena, g.T * b.out)};
        if (lora) {
            a = case_matrix(&g.c, "q_a_proj");
            norm = case_tensor(&g.c, "q_a_layernorm");
            op.a = &a;
            op.norm = &norm;
        }
        struct run run = golden_run(&g);
        done(mla_q_ref(&op, &run, &err), &err);
        judge(&g, op.q, case_f64(&g.c, "q"), b.out);
    }
    fixture_close(&f);
}

static void mla_kv_ref__equals_transformers(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct fixture f;
    fixture_open(&f, "mla");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct golden g = golden_of(&f, i);
        struct matrix a = case_matrix(&g.c, "kv_a_proj_with_mqa");
        struct tensor norm = case_tensor(&g.c, "kv_a_layernorm");
        struct mla_kv op = {.T = g.T,
                            .L = g.L,
                            .R = g.R,
                            .x = case_f64(&g.c, "x"),
                            .a = &a,
                            .norm = &norm,
                            .eps = case_real(&g.c, "eps"),
                            .position = g.position,
                            .table = &g.table,
                            .interleaved = g.interleaved,
                            .latent = space(&f.arena, g.T * g.L),
                            .k_rope = space(&f.arena, g.T * g.R)};
        struct run run = golden_run(&g);
        done(mla_kv_ref(&op, &run, &err), &err);
        judge(&g, op.latent, case_f64(&g.c, "latent"), g.L);
        judge(&g, op.k_rope, roped_keys(&g), g.R);
    }
    fixture_close(&f);
}

static void mla_core_ref__equals_transformers__in_both_forms(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "mla");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct golden g = golden_of(&f, i);
        struct err err = ERR_INIT;
        struct run run = golden_run(&g);
        struct cache cache;
        if (cache_make(&cache, &f.arena, 1, 1, &g.T, 4, g.L + g.R, 3, &err) != ERR_OK)
            assert_ok(&err);
        cache.length[0] = g.T;
        double *latent = case_f64(&g.c, "latent"), *k = roped_keys(&g), *q = case_f64(&g.c, "q");
        int32_t *sequence = arena_alloc(&f.arena, g.T, sizeof *sequence, "sequence", &err);
        for (int64_t t = 0; t < g.T; t++) {
            double *entry = cache_write(&cache, 0, 0, t);
            memcpy(entry, latent + t * g.L, (size_t)g.L * sizeof *entry);
            memcpy(entry + g.L, k + t * g.R, (size_t)g.R * sizeof *entry);
            sequence[t] = 0;
        }
        struct rope rope = {.T = g.T,
                            .heads = g.heads,
                            .stride = g.P + g.R,
                            .offset = g.P,
                            .position = g.position,
                            .table = &g.table,
                            .interleaved = g.interleaved,
                            .x = q};
        done(rope_ref(&rope, &run, &err), &err);
        struct rows rows = {.count = g.T,
                            .sequence = sequence,
                            .position = g.position,
                            .token = g.position,
                            .dump_row = g.position};
        struct matrix kv_b = case_matrix(&g.c, "kv_b_proj");
        struct mla_core op = {.heads = g.heads,
                              .P = g.P,
                              .R = g.R,
                              .V = g.V,
                              .L = g.L,
                              .scale = case_real(&g.c, "scale"),
                              .rows = &rows,
                              .q = q,
                              .kv_b = &kv_b,
                              .cache = &cache,
                              .y = space(&f.arena, g.T * g.heads * g.V)};
        for (int form = MLA_EXPANDED; form <= (g.f64 ? MLA_ABSORBED : MLA_EXPANDED); form++) {
            op.form = (enum mla_form)form;
            done(mla_core_ref(&op, &run, &err), &err);
            judge(&g, op.y, case_f64(&g.c, "core"), g.heads * g.V);
        }
    }
    fixture_close(&f);
}

static void mla_output_ref__equals_transformers(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct fixture f;
    fixture_open(&f, "mla");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct golden g = golden_of(&f, i);
        struct matrix o = case_matrix(&g.c, "o_proj");
        struct mla_output op = {
            .T = g.T, .x = case_f64(&g.c, "core"), .o = &o, .y = space(&f.arena, g.T * g.H)};
        struct run run = golden_run(&g);
        done(mla_output_ref(&op, &run, &err), &err);
        judge(&g, op.y, case_f64(&g.c, "y"), g.H);
    }
    fixture_close(&f);
}

static void mla_kv_ref__norms_the_latent_alone__whatever_the_key_part_is(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    enum { H = 5, L = 4, R = 2 };
    struct matrix w = random_matrix(&a, 61, "kv_a", DT_F32, L + R, H, 1.0), loud = w;
    struct tensor norm = random_vector(&a, 61, "norm", DT_F32, L, 1.0);
    float *data = (float *)space(&a, (L + R) * H);
    memcpy(data, w.data.data, sizeof(float) * (L + R) * H);
    for (int i = L * H; i < (L + R) * H; i++) data[i] *= 1000;
    loud.data.data = data;
    const int64_t position = 0;
    struct rope_table table = {.R = R, .factor = 1, .frequency = {1}};
    struct mla_kv op = {.T = 1,
                        .L = L,
                        .R = R,
                        .x = random_f64(&a, 61, "x", H, 1.0),
                        .a = &w,
                        .norm = &norm,
                        .eps = 1e-6,
                        .position = &position,
                        .table = &table,
                        .latent = space(&a, L),
                        .k_rope = space(&a, R)},
                  other = op;
    other.a = &loud;
    other.latent = space(&a, L);
    other.k_rope = space(&a, R);
    struct run run = op_run(&a, "math", PRECISION_F64);
    done(mla_kv_ref(&op, &run, &err), &err);
    done(mla_kv_ref(&other, &run, &err), &err);
    assert_f64_bits(other.latent, op.latent, 1, L);
    for (int i = 0; i < R; i++) assert_f64_close(other.k_rope[i], 1000 * op.k_rope[i], 0, 1e-6);
    arena_release(&a, NULL);
}

/* ---- errors ---- */

static void mla_checks__refuse__when_shapes_do_not_chain(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    struct matrix w = random_matrix(&a, 81, "q_a", DT_BF16, 6, 5, 1.0),
                  b = random_matrix(&a, 81, "q_b", DT_BF16, 8, 7, 1.0);
    struct tensor norm = random_vector(&a, 81, "norm", DT_BF16, 6, 1.0);
    struct mla_q q = {.T = 1, .a = &w, .norm = &norm, .b = &b};
    assert_refused(mla_q_check(&q, &err), &err, "q_a: found [6, 5], wanted [7, 5]");
    b = random_matrix(&a, 81, "q_b", DT_BF16, 8, 6, 1.0);
    assert_int_equal(mla_q_check(&q, &err), ERR_OK);
    q.norm = NULL;
    assert_refused(mla_q_check(&q, &err), &err, "wanted 6, the rank of q");
    q.b = NULL;
    assert_refused(mla_q_check(&q, &err), &err, "no q_b");

    struct rope_table table = {.R = 2, .factor = 1};
    struct mla_kv kv = {.T = 1, .L = 4, .R = 2, .a = &w, .norm = &norm, .table = &table};
    assert_refused(mla_kv_check(&kv, &err), &err, "found 6 weights, wanted 4");
    norm.shape[0] = 4;
    assert_int_equal(mla_kv_check(&kv, &err), ERR_OK);
    kv.a = &b;
    assert_refused(mla_kv_check(&kv, &err), &err, "q_b: found [8, 6], wanted [6, 6]");
    kv.R = 3;
    assert_refused(mla_kv_check(&kv, &err), &err, "R = 3");

    struct mla_output output = {.T = 1};
    assert_refused(mla_output_check(&output, &err), &err, "no W_o");
    w.data.dtype = DT_I16;
    output.o = &w;
    assert_refused(mla_output_check(&output, &err), &err, "q_a: found I16");
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(mla_output_ref(&output, &run, &err), &err, "q_a: found I16");
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mla_q_ref__equals_transformers),
        cmocka_unit_test(mla_kv_ref__equals_transformers),
        cmocka_unit_test(mla_core_ref__equals_transformers__in_both_forms),
        cmocka_unit_test(mla_output_ref__equals_transformers),
        cmocka_unit_test(mla_kv_ref__norms_the_latent_alone__whatever_the_key_part_is),
        cmocka_unit_test(mla_checks__refuse__when_shapes_do_not_chain),
    };
    return cmocka_run_group_tests_name("mla", tests, NULL, NULL);
}
