/* test_mlp.c: ops "mlp" and "moe.shared" against DeepseekV3MLP, and what must hold for any weights.
 */
#include "core/mlp.h"

#include "tests/op_fixture.h"

#include <math.h>

static void run_mlp(const struct mlp *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (mlp_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

struct mlp_scene {
    struct matrix gate, up, down;
    struct mlp op;
};

static void from_case(struct mlp_scene *s, struct fixture_case *c)
{
    s->gate = case_matrix(c, "gate");
    s->up = case_matrix(c, "up");
    s->down = case_matrix(c, "down");
    s->op = (struct mlp){.T = case_int(c, "T"),
                         .x = case_f64(c, "x"),
                         .gate = &s->gate,
                         .up = &s->up,
                         .down = &s->down};
    s->op.y = space(&c->fixture->arena, s->op.T * s->down.out);
}

static void made(struct mlp_scene *s, struct arena *a, int64_t T, int64_t H, int64_t I)
{
    s->gate = random_matrix(a, 21, "gate", DT_BF16, I, H, 3.0);
    s->up = random_matrix(a, 21, "up", DT_BF16, I, H, 1.0);
    s->down = random_matrix(a, 21, "down", DT_BF16, H, I, 1.0);
    s->op = (struct mlp){.T = T,
                         .x = random_f64(a, 21, "x", T * H, 1.0),
                         .gate = &s->gate,
                         .up = &s->up,
                         .down = &s->down,
                         .y = space(a, T * H)};
}

static void mlp_ref__equals_transformers__in_float64(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "mlp");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "f64")) continue;
        struct mlp_scene s;
        from_case(&s, &c);
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        run_mlp(&s.op, &run);
        /* Three chained sums of at most 50 terms of size 10: some hundred units of values up to 30.
         */
        assert_f64_near(s.op.y, case_f64(&c, "y"), s.op.T, s.down.out, 3e-13, 0);
        run.precision = PRECISION_F32;
        run_mlp(&s.op, &run);
        assert_f64_near(s.op.y, case_f64(&c, "y"), s.op.T, s.down.out, 1e-4, 0);
    }
    fixture_close(&f);
}

static void mlp_ref__equals_transformers_bitwise__in_profile_hf(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "mlp");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "bf16")) continue;
        struct mlp_scene s;
        from_case(&s, &c);
        struct run run = op_run(&f.arena, "hf", PRECISION_F64);
        run_mlp(&s.op, &run);
        assert_share(s.op.y, case_f64(&c, "y"), s.op.T, s.down.out, 1.0);
    }
    fixture_close(&f);
}

static void mlp_ref__tells_gate_from_up__when_the_gates_are_large(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct mlp_scene s;
    made(&s, &a, 1, 1, 1);
    const double x = 1;
    const float gate = -4, up = 2, down = 1;
    s.gate = matrix_of("gate", DT_F32, 1, 1, &gate);
    s.up = matrix_of("up", DT_F32, 1, 1, &up);
    s.down = matrix_of("down", DT_F32, 1, 1, &down);
    s.op.x = &x;
    struct run run = op_run(&a, "math", PRECISION_F64);
    run_mlp(&s.op, &run);
    assert_f64_close(s.op.y[0], -4 / (1 + exp(4)) * 2, 0, 1e-15);
    arena_release(&a, NULL);
}

static void mlp_ref__is_finite__when_the_gates_are_huge(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct mlp_scene s;
    made(&s, &a, 2, 1, 1);
    const double x[2] = {1, -1};
    const float gate = 3e4F, one = 1;
    s.gate = matrix_of("gate", DT_F32, 1, 1, &gate);
    s.up = matrix_of("up", DT_F32, 1, 1, &one);
    s.down = matrix_of("down", DT_F32, 1, 1, &one);
    s.op.x = x;
    s.op.y = space(&a, 2);
    for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
        struct run run = op_run(&a, "math", (enum precision)precision);
        run_mlp(&s.op, &run);
        assert_f64_is(s.op.y[0], 3e4);
        assert_true(s.op.y[1] == 0); /* -3e4 / (1 + e^3e4), times -1 */
    }
    arena_release(&a, NULL);
}

static void mlp_ref__gives_a_row_the_same_bits__alone_and_on_any_number_of_threads(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1}, {13, 7, 5}, {6, 33, 50}, {9, 64, 3}};
    const char *const profiles[] = {"math", "hf", "sgl"};
    for (int i = 0; i < 4; i++) {
        struct arena a = ARENA_INIT;
        struct mlp_scene s;
        int64_t T = shapes[i][0], H = shapes[i][1];
        made(&s, &a, T, H, shapes[i][2]);
        for (int p = 0; p < 3; p++) {
            struct run run = op_run(&a, profiles[p], PRECISION_F32);
            run_mlp(&s.op, &run);
            struct mlp again = s.op, alone = s.op;
            again.y = space(&a, T * H);
            run.threads = 4;
            run_mlp(&again, &run);
            assert_f64_bits(again.y, s.op.y, T, H);
            alone.T = 1;
            alone.x = s.op.x + (T - 1) * H;
            alone.y = space(&a, H);
            run_mlp(&alone, &run);
            assert_f64_bits(alone.y, s.op.y + (T - 1) * H, 1, H);
        }
        arena_release(&a, NULL);
    }
}

static void mlp_ref__returns_its_scratch(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT, scratch = ARENA_INIT;
    struct mlp_scene s;
    made(&s, &a, 3, 7, 5);
    struct run run = op_run(&scratch, "math", PRECISION_F64);
    run_mlp(&s.op, &run);
    assert_int_equal(scratch.bytes, 0);
    arena_release(&a, NULL);
}

static void mlp_check__refuses__when_shapes_do_not_chain(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct arena a = ARENA_INIT;
    struct mlp_scene s;
    made(&s, &a, 2, 5, 3);
    assert_int_equal(mlp_check(&s.op, &err), ERR_OK);
    struct matrix tall = random_matrix(&a, 1, "too.tall", DT_BF16, 4, 5, 1.0);
    struct mlp op = s.op;
    op.up = &tall;
    assert_refused(mlp_check(&op, &err), &err,
                   "mlp up weight: too.tall: found [4, 5], wanted [3, 5]");
    op = s.op;
    op.down = &tall;
    assert_refused(mlp_check(&op, &err), &err,
                   "mlp down weight: too.tall: found [4, 5], wanted [5, 3]");
    op.down = NULL;
    assert_refused(mlp_check(&op, &err), &err, "mlp down");
    op.gate = NULL;
    assert_refused(mlp_check(&op, &err), &err, "no gate");
    op = s.op;
    op.T = -1;
    assert_refused(mlp_check(&op, &err), &err, "T = -1");
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(mlp_ref(&op, &run, &err), &err, "T = -1");
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_ref__equals_transformers__in_float64),
        cmocka_unit_test(mlp_ref__equals_transformers_bitwise__in_profile_hf),
        cmocka_unit_test(mlp_ref__tells_gate_from_up__when_the_gates_are_large),
        cmocka_unit_test(mlp_ref__is_finite__when_the_gates_are_huge),
        cmocka_unit_test(mlp_ref__gives_a_row_the_same_bits__alone_and_on_any_number_of_threads),
        cmocka_unit_test(mlp_ref__returns_its_scratch),
        cmocka_unit_test(mlp_check__refuses__when_shapes_do_not_chain),
    };
    return cmocka_run_group_tests_name("mlp", tests, NULL, NULL);
}
