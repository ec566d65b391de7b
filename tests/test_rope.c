/* test_rope.c: op "rope" and its frequency table against transformers' DeepseekV3RotaryEmbedding
 * and rotations, the published tables of the model math notes (section 4), and what must hold for
 * any rotation. */
#include "core/cover.h"
#include "core/rope.h"

#include "tests/op_fixture.h"

#include <math.h>
#include <string.h>

static double number(const json_t *o, const char *key, double absent)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_number_value(v) : absent;
}

static struct config config_of(const struct fixture_case *c)
{
    const json_t *r = json_object_get(c->json, "rope");
    struct config config = {
        .rope = case_int(c, "R"), .rope_theta = number(r, "rope_theta", 0), .max_position = 262144};
    config.scaling = (struct rope_scaling){.factor = 1};
    if (strcmp(json_string_value(json_object_get(r, "rope_type")), "yarn") == 0)
        config.scaling = (struct rope_scaling){
            .yarn = true,
            .factor = number(r, "factor", 0),
            .beta_fast = number(r, "beta_fast", 0),
            .beta_slow = number(r, "beta_slow", 0),
            .mscale = number(r, "mscale", 0),
            .mscale_all_dim = number(r, "mscale_all_dim", 0),
            .attention_factor = number(r, "attention_factor", 0),
            .original_max_position = (int64_t)number(r, "original_max_position_embeddings", 0)};
    return config;
}

static void make_table(const struct config *c, struct rope_table *table)
{
    struct err err = ERR_INIT;
    if (rope_table_make(c, table, &err) != ERR_OK) assert_ok(&err);
}

static void rotate(const struct rope *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (rope_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

static double *copied(struct arena *a, const double *x, int64_t n)
{
    double *y = space(a, n);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

/* Adjacent pairs -> first members of all pairs, then second ones: the order that transformers
 * leaves them in. */
static double *pairs_first(struct arena *a, const double *x, int64_t rows, int64_t R)
{
    double *y = space(a, rows * R);
    for (int64_t i = 0; i < rows * R; i++) {
        int64_t j = i % R;
        y[i] = x[i - j + (j < R / 2 ? 2 * j : 2 * (j - R / 2) + 1)];
    }
    return y;
}

/* ---- golden ---- */

static void rope_table__equals_transformers_within_an_ulp__for_every_model(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rope");
    int64_t equal = 0, all = 0;
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        struct config config = config_of(&c);
        struct rope_table table;
        make_table(&config, &table);
        assert_int_equal(table.R, config.rope);
        /* Theirs takes pow in float32; ours rounds an exact one. One of the frequencies differs, of
         * theta 50000 at pair 5 (in four models), by one unit. */
        const float *want = case_f32(&c, "inv_freq");
        assert_f32_ulps(table.frequency, want, 1, config.rope / 2, 1);
        assert_f64_close(table.factor, case_real(&c, "attention_factor"), 0, 1e-15);
        for (int64_t k = 0; k < config.rope / 2; k++) equal += table.frequency[k] == want[k];
        all += config.rope / 2;
    }
    if (all - equal > 4) fail_msg("%d of %d frequencies are equal", (int)equal, (int)all);
    fixture_close(&f);
}

static void rope_table__equals_the_published_frequencies__of_k25_and_v3(void **state)
{
    (void)state;
    static const struct {
        double theta, factor, fast;
        int at;
        double f;
    } known[] = {
        {50000, 64, 32, 1, 7.13111103e-01},  {50000, 64, 32, 8, 6.68740273e-02},
        {50000, 64, 32, 9, 4.37766574e-02},  {50000, 64, 32, 19, 1.58374998e-04},
        {50000, 64, 32, 20, 1.80702336e-05}, {50000, 64, 32, 31, 4.38220638e-07},
        {50000, 64, 1, 19, 1.62175996e-03},  {50000, 64, 1, 20, 1.80702336e-05},
        {10000, 40, 32, 10, 5.62341325e-02}, {10000, 40, 32, 16, 5.49999997e-03},
        {10000, 40, 32, 23, 3.33380376e-05}, {10000, 40, 32, 31, 3.33380353e-06},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct config config = {.rope = 64, .rope_theta = known[i].theta};
        config.scaling = (struct rope_scaling){.yarn = true,
                                               .factor = known[i].factor,
                                               .beta_fast = known[i].fast,
                                               .beta_slow = 1,
                                               .mscale = 1,
                                               .mscale_all_dim = 1,
                                               .original_max_position = 4096};
        struct rope_table table;
        make_table(&config, &table);
        assert_f64_close(table.frequency[known[i].at], known[i].f, 0, 2.5e-7);
        assert_f64_is(table.factor, 1.0);
    }
}

/* Rotates the case's input with the frequencies that transformers has, so that only the rotation is
 * judged. */
static double *rotated(struct fixture_case *c, bool interleaved, struct run *run)
{
    struct rope_table table = {.R = case_int(c, "R"), .factor = case_real(c, "attention_factor")};
    memcpy(table.frequency, case_f32(c, "inv_freq"), (size_t)(table.R / 2) * sizeof(float));
    struct rope op = {.T = case_int(c, "T"),
                      .heads = case_int(c, "heads"),
                      .stride = table.R,
                      .table = &table,
                      .position = case_i64(c, "position"),
                      .interleaved = interleaved,
                      .x = case_f64(c, "x")};
    rotate(&op, run);
    return interleaved ? pairs_first(&c->fixture->arena, op.x, op.T * op.heads, table.R) : op.x;
}

static void rope_ref__equals_transformers__in_float64(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rope");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        int64_t rows = case_int(&c, "T") * case_int(&c, "heads"), R = case_int(&c, "R");
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        /* Inputs below 6: three roundings of products below 6, and cos and sin of two libraries
         * within an ulp. */
        assert_f64_near(rotated(&c, true, &run), case_f64(&c, "y64_pairs"), rows, R, 6e-15, 0);
        assert_f64_near(rotated(&c, false, &run), case_f64(&c, "y64_halves"), rows, R, 6e-15, 0);
    }
    fixture_close(&f);
    cover_note("rope", COVER_GOLDEN);
}

static void rope_ref__equals_transformers__in_float32(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rope");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        int64_t rows = case_int(&c, "T") * case_int(&c, "heads"), R = case_int(&c, "R");
        struct run run = op_run(&f.arena, "math", PRECISION_F32);
        /* Theirs: cos and sin within 2 float32 units, three more roundings; inputs below 6, two
         * terms. */
        double bound = 2 * 6 * 6 * dtype_unit(DT_F32);
        assert_f64_near(rotated(&c, true, &run), case_f64(&c, "y_pairs"), rows, R, bound, 0);
        assert_f64_near(rotated(&c, false, &run), case_f64(&c, "y_halves"), rows, R, bound, 0);
    }
    fixture_close(&f);
}

static void rope_ref__equals_transformers_bitwise__in_profile_hf(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rope");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        int64_t rows = case_int(&c, "T") * case_int(&c, "heads"), R = case_int(&c, "R");
        struct run run = op_run(&f.arena, "hf", PRECISION_F64);
        assert_share(rotated(&c, true, &run), case_f64(&c, "bf16_pairs"), rows, R, 1.0);
        assert_share(rotated(&c, false, &run), case_f64(&c, "bf16_halves"), rows, R, 1.0);
    }
    fixture_close(&f);
}

/* ---- properties ---- */

static struct rope_table plain(int64_t R)
{
    struct config config = {.rope = R, .rope_theta = 50000, .scaling = {.factor = 1}};
    struct rope_table table;
    make_table(&config, &table);
    return table;
}

static void rope_ref__keeps_the_norm_of_every_pair__at_any_position(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    enum { T = 6, HEADS = 3, R = 10 };
    const int64_t position[T] = {0, 1, 77, 4096, 262143, 1000000};
    struct rope_table table = plain(R);
    double *x = random_f64(&a, 3, "x", T * HEADS * R, 2.0);
    struct rope op = {.T = T,
                      .heads = HEADS,
                      .stride = R,
                      .position = position,
                      .table = &table,
                      .interleaved = true,
                      .x = copied(&a, x, T * HEADS * R)};
    struct run run = op_run(&a, "math", PRECISION_F64);
    rotate(&op, &run);
    for (int i = 0; i < T * HEADS * R; i += 2)
        assert_f64_close(hypot(op.x[i], op.x[i + 1]), hypot(x[i], x[i + 1]), 0, 1e-15 * 4);
    arena_release(&a, NULL);
}

static void rope_ref__is_the_identity_bitwise__at_position_zero(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    enum { T = 2, R = 8 };
    const int64_t position[T] = {0, 0};
    struct rope_table table = plain(R);
    double *x = random_f64(&a, 4, "x", T * R, 2.0);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct rope op = {.T = T,
                          .heads = 1,
                          .stride = R,
                          .position = position,
                          .table = &table,
                          .interleaved = interleaved != 0,
                          .x = copied(&a, x, T * R)};
        struct run run = op_run(&a, "math", PRECISION_F32);
        rotate(&op, &run);
        assert_f64_bits(op.x, x, T, R);
    }
    arena_release(&a, NULL);
}

static void rope_ref__leaves_a_score_that_depends_on_the_distance_only(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    enum { R = 64 };
    struct rope_table table = plain(R);
    double *q = random_f64(&a, 5, "q", R, 1.0), *k = random_f64(&a, 5, "k", R, 1.0);
    struct run run = op_run(&a, "math", PRECISION_F64);
    for (int64_t distance = 0; distance < 40; distance += 13) {
        double first = NAN;
        for (int64_t t = distance; t < 2000; t += 391) {
            const int64_t position[2] = {t, t - distance};
            double *both = space(&a, 2 * R), score = 0, size = 0;
            memcpy(both, q, R * sizeof *q);
            memcpy(both + R, k, R * sizeof *k);
            struct rope op = {.T = 2,
                              .heads = 1,
                              .stride = R,
                              .position = position,
                              .table = &table,
                              .interleaved = true,
                              .x = both};
            rotate(&op, &run);
            for (int i = 0; i < R; i++) {
                score += both[i] * both[R + i];
                size += fabs(q[i] * k[i]) + fabs(q[i] * k[i ^ 1]);
            }
            if (isnan(first)) first = score;
            /* Each angle is rounded to float32 (contract): off by at most 2000 * 2^-24, twice. */
            assert_f64_close(score, first, 4 * 2000 * dtype_unit(DT_F32) * size, 0);
        }
    }
    arena_release(&a, NULL);
}

static void rope_ref__agrees_between_interleaved_and_halves__up_to_the_permutation(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    for (int64_t R = 2; R <= 34; R += 8) {
        const int64_t position[3] = {0, 5, 99999};
        struct rope_table table = plain(R);
        double *x = random_f64(&a, 6, "x", 3 * R, 2.0);
        struct rope pairs = {.T = 3,
                             .heads = 1,
                             .stride = R,
                             .position = position,
                             .table = &table,
                             .interleaved = true,
                             .x = copied(&a, x, 3 * R)};
        struct rope halves = pairs;
        halves.interleaved = false;
        halves.x = pairs_first(&a, x, 3, R);
        struct run run = op_run(&a, "hf", PRECISION_F64);
        rotate(&pairs, &run);
        rotate(&halves, &run);
        assert_f64_bits(pairs_first(&a, pairs.x, 3, R), halves.x, 3, R);
    }
    arena_release(&a, NULL);
}

static void rope_ref__touches_only_its_columns__when_offset_and_stride_leave_others(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    enum { T = 5, HEADS = 3, R = 6, OFFSET = 4, STRIDE = 11 };
    const int64_t position[T] = {9, 3, 0, 77, 1};
    struct rope_table table = plain(R);
    double *x = random_f64(&a, 7, "x", T * HEADS * STRIDE, 2.0), *tight = space(&a, T * HEADS * R);
    for (int i = 0; i < T * HEADS * R; i++) tight[i] = x[i / R * STRIDE + OFFSET + i % R];
    struct rope op = {.T = T,
                      .heads = HEADS,
                      .stride = STRIDE,
                      .offset = OFFSET,
                      .position = position,
                      .table = &table,
                      .interleaved = true,
                      .x = copied(&a, x, T * HEADS * STRIDE)};
    struct rope alone = {.T = T,
                         .heads = HEADS,
                         .stride = R,
                         .position = position,
                         .table = &table,
                         .interleaved = true,
                         .x = tight};
    struct run run = op_run(&a, "vllm", PRECISION_F64);
    rotate(&alone, &run);
    run.threads = 3;
    rotate(&op, &run);
    for (int i = 0; i < T * HEADS * STRIDE; i++) {
        int col = i % STRIDE - OFFSET;
        bool inside = col >= 0 && col < R;
        assert_f64_is(op.x[i], inside ? tight[i / STRIDE * R + col] : x[i]);
    }
    arena_release(&a, NULL);
}

static void rope_ref__multiplies_by_the_attention_factor(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    const int64_t position[2] = {0, 31};
    struct rope_table table = plain(4), doubled = table;
    doubled.factor = 2;
    double *x = random_f64(&a, 8, "x", 8, 1.0);
    struct rope op = {.T = 2,
                      .heads = 1,
                      .stride = 4,
                      .position = position,
                      .table = &table,
                      .interleaved = true,
                      .x = copied(&a, x, 8)};
    struct rope twice = op;
    twice.table = &doubled;
    twice.x = copied(&a, x, 8);
    struct run run = op_run(&a, "math", PRECISION_F64);
    rotate(&op, &run);
    rotate(&twice, &run);
    for (int i = 0; i < 8; i++) assert_f64_is(twice.x[i], 2 * op.x[i]);
    arena_release(&a, NULL);
}

/* ---- errors ---- */

static void rope_table_make__refuses__when_the_width_or_theta_is_bad(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct rope_table table;
    static const struct {
        int64_t R;
        double theta;
        const char *found;
    } bad[] = {{7, 1e4, "width 7"},
               {0, 1e4, "width 0"},
               {514, 1e4, "width 514"},
               {8, 1.0, "theta 1"},
               {8, NAN, "nan"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct config config = {
            .rope = bad[i].R, .rope_theta = bad[i].theta, .scaling = {.factor = 1}};
        assert_refused(rope_table_make(&config, &table, &err), &err, bad[i].found);
    }
}

static void rope_check__refuses__when_an_argument_is_bad(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    int64_t position[2] = {0, 1};
    struct rope_table table = plain(4), odd = table;
    double *x = random_f64(&a, 8, "x", 8, 1.0);
    const struct rope good = {
        .T = 2, .heads = 1, .stride = 4, .position = position, .table = &table, .x = x};
    struct rope op = good;
    assert_int_equal(rope_check(&op, &err), ERR_OK);
    position[1] = -3;
    assert_refused(rope_check(&op, &err), &err, "found -3");
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(rope_ref(&op, &run, &err), &err, "found -3");
    position[1] = 1;
    odd.R = 3;
    op.table = &odd;
    assert_refused(rope_check(&op, &err), &err, "3");
    op = good;
    op.offset = 1; /* columns 1..4 of 4 */
    assert_refused(rope_check(&op, &err), &err, "4");
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_table__equals_transformers_within_an_ulp__for_every_model),
        cmocka_unit_test(rope_table__equals_the_published_frequencies__of_k25_and_v3),
        cmocka_unit_test(rope_ref__equals_transformers__in_float64),
        cmocka_unit_test(rope_ref__equals_transformers__in_float32),
        cmocka_unit_test(rope_ref__equals_transformers_bitwise__in_profile_hf),
        cmocka_unit_test(rope_ref__keeps_the_norm_of_every_pair__at_any_position),
        cmocka_unit_test(rope_ref__is_the_identity_bitwise__at_position_zero),
        cmocka_unit_test(rope_ref__leaves_a_score_that_depends_on_the_distance_only),
        cmocka_unit_test(rope_ref__agrees_between_interleaved_and_halves__up_to_the_permutation),
        cmocka_unit_test(rope_ref__touches_only_its_columns__when_offset_and_stride_leave_others),
        cmocka_unit_test(rope_ref__multiplies_by_the_attention_factor),
        cmocka_unit_test(rope_table_make__refuses__when_the_width_or_theta_is_bad),
        cmocka_unit_test(rope_check__refuses__when_an_argument_is_bad),
    };
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}
