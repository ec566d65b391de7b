/* test_embed.c: op "embed" against torch.nn.Embedding, and what must hold for any table. */
#include "core/embed.h"

#include "tests/op_fixture.h"

#include <math.h>

static void embed_ref__equals_torch_bitwise__in_every_stored_dtype(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = ERR_INIT;
    fixture_open(&f, "embed");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        struct tensor table = case_tensor(&c, "table");
        struct embed op = {.T = case_int(&c, "T"),
                           .H = case_int(&c, "H"),
                           .V = case_int(&c, "V"),
                           .id = case_i64(&c, "id"),
                           .table = &table};
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct run run = op_run(&f.arena, "math", (enum precision)precision);
            op.y = space(&f.arena, op.T * op.H);
            if (embed_ref(&op, &run, &err) != ERR_OK) assert_ok(&err);
            assert_f64_bits(op.y, case_f64(&c, "y"), op.T, op.H);
        }
        if (table.dtype != DT_BF16) continue;
        struct run run =
            op_run(&f.arena, "hf", PRECISION_F64); /* a bf16 row has nothing left to round */
        op.y = space(&f.arena, op.T * op.H);
        if (embed_ref(&op, &run, &err) != ERR_OK) assert_ok(&err);
        assert_f64_bits(op.y, case_f64(&c, "y"), op.T, op.H);
    }
    fixture_close(&f);
}

static void embed_ref__rounds_the_row__when_the_profile_rounds_and_the_table_is_wider(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    enum { V = 3, H = 37 };
    struct matrix values = random_matrix(&a, 1, "table", DT_F32, V, H, 3.0);
    const int64_t id[] = {2, 0};
    struct embed op = {
        .T = 2, .H = H, .V = V, .id = id, .table = &values.data, .y = space(&a, 2 * H)};
    struct run run = op_run(&a, "hf", PRECISION_F64);
    assert_int_equal(embed_ref(&op, &run, &err), ERR_OK);
    double *all = matrix_values(&a, &values), *want = space(&a, 2 * H);
    for (int64_t j = 0; j < 2 * H; j++) want[j] = dtype_round(DT_BF16, all[id[j / H] * H + j % H]);
    assert_f64_bits(op.y, want, 2, H);
    arena_release(&a, NULL);
}

static void embed_ref__reads_the_rule__when_the_table_is_made_on_request(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    enum { V = 1000, H = 7 };
    struct tensor table = tensor_of("made", DT_BF16, 2, (const int64_t[]){V, H}, NULL);
    table.rule =
        (struct synth_rule){.kind = SYNTH_REAL, .base = synth_base(5, "made"), .scale = 0.5F};
    const int64_t id[] = {999, 0, 500};
    struct embed op = {.T = 3, .H = H, .V = V, .id = id, .table = &table, .y = space(&a, 3 * H)};
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_int_equal(embed_ref(&op, &run, &err), ERR_OK);
    double *want = space(&a, 3 * H);
    for (int t = 0; t < 3; t++) {
        uint16_t row[H];
        synth_fill(&table.rule, DT_BF16, id[t] * H, H, row);
        dtype_to_f64(DT_BF16, row, H, want + t * H);
    }
    assert_f64_bits(op.y, want, 3, H);
    arena_release(&a, NULL);
}

static void embed_ref__names_the_cell__when_a_stored_value_is_nan(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    const float values[6] = {0, 1, 2, 3, 4, NAN};
    struct tensor table =
        tensor_of("embed_tokens.weight", DT_F32, 2, (const int64_t[]){3, 2}, values);
    int64_t id[] = {1};
    struct embed op = {.T = 1, .H = 2, .V = 3, .id = id, .table = &table, .y = space(&a, 2)};
    struct run run = op_run(&a, "math", PRECISION_F64);
    if (embed_ref(&op, &run, &err) != ERR_OK)
        assert_ok(&err); /* a row that is not looked up is not read */
    id[0] = 2;
    assert_refused(embed_ref(&op, &run, &err), &err,
                   "embed_tokens.weight row 2, column 1: found NaN");
    arena_release(&a, NULL);
}

static void embed_check__names_row_id_and_range__when_an_id_is_outside(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    struct matrix table = random_matrix(&a, 1, "table", DT_F32, 4, 3, 1.0);
    int64_t id[] = {0, 3, 1};
    struct embed op = {.T = 3, .H = 3, .V = 4, .id = id, .table = &table.data, .y = space(&a, 9)};
    assert_int_equal(embed_check(&op, &err), ERR_OK);
    id[1] = 4;
    assert_refused(embed_check(&op, &err), &err, "found 4, wanted");
    id[1] = -1;
    assert_refused(embed_check(&op, &err), &err, "found -1, wanted");
    assert_refused(embed_check(&op, &err), &err, "1"); /* the row */
    id[1] = INT64_MIN;
    assert_refused(embed_check(&op, &err), &err, "-9223372036854775808");
    struct run run = op_run(&a, "math", PRECISION_F64);
    assert_refused(embed_ref(&op, &run, &err), &err, "-9223372036854775808");
    for (int i = 0; i < 9; i++) assert_true(isnan(op.y[i])); /* nothing was written */
    arena_release(&a, NULL);
}

static void embed_check__refuses_the_table__when_shape_or_dtype_is_wrong(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    const int64_t id[] = {0};
    const struct matrix good = random_matrix(&a, 1, "table", DT_F32, 4, 3, 1.0);
    struct tensor table = good.data;
    struct embed op = {.T = 1, .H = 3, .V = 4, .id = id, .table = &table, .y = space(&a, 3)};
    table.shape[0] = 5;
    assert_refused(embed_check(&op, &err), &err, "[5, 3]");
    table = good.data;
    table.dims = 1;
    assert_refused(embed_check(&op, &err), &err, "[4]");
    table = good.data;
    op.H = 0;
    assert_refused(embed_check(&op, &err), &err, "H = 0");
    op.H = 3;
    table = good.data;
    table.dtype = DT_I32;
    assert_refused(embed_check(&op, &err), &err, "I32");
    arena_release(&a, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_ref__equals_torch_bitwise__in_every_stored_dtype),
        cmocka_unit_test(embed_ref__rounds_the_row__when_the_profile_rounds_and_the_table_is_wider),
        cmocka_unit_test(embed_ref__reads_the_rule__when_the_table_is_made_on_request),
        cmocka_unit_test(embed_ref__names_the_cell__when_a_stored_value_is_nan),
        cmocka_unit_test(embed_check__names_row_id_and_range__when_an_id_is_outside),
        cmocka_unit_test(embed_check__refuses_the_table__when_shape_or_dtype_is_wrong),
    };
    return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
