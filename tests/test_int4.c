/* test_int4.c: op "int4" against compressed-tensors: the vector of the model math notes (6.1), its
 * own cases, and the six linears of fixtures/int4/linears.safetensors. Integers and values are
 * compared bit for bit. */
#include "core/cover.h"
#include "core/int4.h"

#include "core/linear.h"
#include "tests/op_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void unpack(const struct int4 *op, struct run *run)
{
    struct err err = ERR_INIT;
    if (int4_ref(op, run, &err) != ERR_OK) assert_ok(&err);
}

static int8_t *integers(struct arena *a, int64_t n)
{
    struct err err = ERR_INIT;
    int8_t *q = arena_alloc(a, n, 1, "integers", &err);
    assert_ok(&err);
    memset(q, 0x55, (size_t)n);
    return q;
}

static void assert_integers(const int8_t *got, const struct st_tensor *want)
{
    for (int64_t i = 0; i < want->count; i++) {
        int64_t w = dtype_int_at(want->dtype, want->data, i);
        if (got[i] != w)
            fail_msg("%s: integer %lld is %d, wanted %d", want->name, (long long)i, got[i], (int)w);
    }
}

static struct matrix packed_of(struct fixture_case *c)
{
    struct matrix m = {.format = MATRIX_PACKED,
                       .out = case_int(c, "out"),
                       .in = case_int(c, "in"),
                       .bits = (int)case_int(c, "bits"),
                       .group = case_int(c, "group"),
                       .data = case_tensor(c, "packed"),
                       .scale = case_tensor(c, "scale")};
    if (case_has(c, "zero")) m.zero = case_tensor(c, "zero");
    if (case_has(c, "g_idx")) m.g_idx = case_tensor(c, "g_idx");
    return m;
}

/* ---- golden ---- */

static void int4_ref__equals_compressed_tensors_bitwise__in_every_case(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "int4");
    int seen = 0, zeros = 0, indexed = 0;
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "int4")) continue;
        struct matrix m = packed_of(&c);
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct int4 op = {.w = &m,
                              .n = m.out,
                              .q = integers(&f.arena, m.out * m.in),
                              .y = space(&f.arena, m.out * m.in)};
            struct run run = op_run(&f.arena, "math", (enum precision)precision);
            unpack(&op, &run);
            assert_integers(op.q, case_stored(&c, "q"));
            assert_share(op.y, case_f64(&c, "w"), m.out, m.in, 1.0);
        }
        seen++;
        zeros += case_has(&c, "zero");
        indexed += case_has(&c, "g_idx");
    }
    assert_int_equal(seen, 11);
    assert_int_equal(zeros, 4);
    assert_int_equal(indexed, 2);
    fixture_close(&f);
}

static void int4_ref__equals_the_decompressed_weights_bitwise__of_all_six_linears(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = ERR_INIT;
    struct st_file linears;
    fixture_open(&f, "int4");
    if (st_open(&linears, ASSAY_SOURCE_DIR "/fixtures/int4/linears.safetensors", &err) != ERR_OK)
        assert_ok(&err);
    int seen = 0;
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "linears")) continue;
        struct matrix m = {.format = MATRIX_PACKED,
                           .out = case_int(&c, "out"),
                           .in = case_int(&c, "in"),
                           .bits = (int)case_int(&c, "bits"),
                           .group = case_int(&c, "group")};
        const char *const parts[] = {"weight_packed", "weight_scale", "weight_zero_point",
                                     "decompressed"};
        struct tensor tensors[4] = {0};
        for (int p = 0; p < 4; p++) {
            char name[NAME_MAX_BYTES];
            snprintf(name, sizeof name, "%s.%s", json_string_value(json_object_get(c.json, "of")),
                     parts[p]);
            const struct st_tensor *t = st_find(&linears, name);
            if (t) tensors[p] = tensor_of(name, t->dtype, t->dims, t->shape, t->data);
        }
        m.data = tensors[0];
        m.scale = tensors[1];
        m.zero = tensors[2];
        assert_int_equal(tensor_exists(&m.zero), !case_true(&c, "symmetric"));
        struct int4 op = {.w = &m,
                          .n = m.out,
                          .q = integers(&f.arena, m.out * m.in),
                          .y = space(&f.arena, m.out * m.in)};
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        unpack(&op, &run);
        assert_integers(op.q, case_stored(&c, "q"));
        double *want = space(&f.arena, m.out * m.in);
        assert_int_equal(tensors[3].dtype, DT_BF16);
        dtype_to_f64(DT_BF16, tensors[3].data, m.out * m.in, want);
        assert_share(op.y, want, m.out, m.in, 1.0);
        seen++;
    }
    assert_int_equal(seen, 6);
    st_close(&linears);
    fixture_close(&f);
    cover_note("int4", COVER_GOLDEN);
}

/* One row of eight codes, one scale. */
static struct matrix row_of(const int32_t *word, const uint16_t *scale)
{
    struct matrix m = {.format = MATRIX_PACKED, .out = 1, .in = 8, .bits = 4, .group = 8};
    m.data = tensor_of("packed", DT_I32, 2, (const int64_t[]){1, 1}, word);
    m.scale = tensor_of("scale", DT_BF16, 2, (const int64_t[]){1, 1}, scale);
    return m;
}

static void int4_ref__puts_the_lowest_nibble_first_and_rounds_to_bf16__on_the_published_vector(
    void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    static const uint8_t bytes[4] = {0x10, 0x87, 0xA9, 0xFE}; /* 0xFEA98710 little-endian */
    static const int8_t want_q[8] = {-8, -7, -1, 0, 1, 2, 6, 7};
    const uint16_t scale = 0x3C8D; /* 0.0172119140625 */
    int32_t word;
    memcpy(&word, bytes, sizeof word);
    int8_t q[8];
    double y[8];
    struct matrix m = row_of(&word, &scale);
    struct int4 op = {.w = &m, .n = 1, .q = q, .y = y};
    struct run run = op_run(&a, "math", PRECISION_F64);
    unpack(&op, &run);
    assert_memory_equal(q, want_q, 8);
    const double s = 0.0172119140625;
    assert_f64_is(y[7], 0.12060546875); /* 0x3DF7, not 7 s = 0.1204833984375 */
    assert_f64_is(y[6], 0.103515625);   /* 0x3DD4 */
    assert_f64_is(y[1], -0.12060546875);
    assert_f64_is(y[5], 2 * s);
    assert_f64_is(y[4], s);
    assert_f64_is(y[2], -s);
    assert_f64_is(y[0], -8 * s);
    assert_true(y[3] == 0);
    arena_release(&a, NULL);
}

/* ---- properties ---- */

static void int4_ref__gives_the_same_rows__in_any_cut_of_them(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "int4");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "int4")) continue;
        struct matrix m = packed_of(&c);
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        run.threads = 3;
        struct int4 whole = {.w = &m, .n = m.out, .y = space(&f.arena, m.out * m.in)};
        unpack(&whole, &run);
        for (int64_t row = 0; row < m.out; row += 3) {
            int64_t n = m.out - row < 3 ? m.out - row : 3;
            struct int4 part = {.w = &m,
                                .row = row,
                                .n = n,
                                .q = integers(&f.arena, n * m.in),
                                .y = space(&f.arena, n * m.in)};
            unpack(&part, &run);
            assert_f64_bits(part.y, whole.y + row * m.in, n, m.in);
        }
    }
    fixture_close(&f);
}

static void int4_ref__ignores_the_group_index__when_it_is_minus_one_anywhere(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "int4");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "name", "actorder")) continue;
        struct matrix m = packed_of(&c), plain = m;
        int32_t *unused = case_i32(&c, "g_idx");
        unused[m.in - 1] = -1;
        m.g_idx.data = unused;
        plain.g_idx = (struct tensor){0};
        struct int4 op = {.w = &m, .n = m.out, .y = space(&f.arena, m.out * m.in)}, without = op;
        without.w = &plain;
        without.y = space(&f.arena, m.out * m.in);
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        unpack(&op, &run);
        unpack(&without, &run);
        assert_f64_bits(op.y, without.y, m.out, m.in);
    }
    fixture_close(&f);
}

static void linear_ref__multiplies_with_the_unpacked_values__when_the_weight_is_packed(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "int4");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "kind", "int4")) continue;
        struct matrix m = packed_of(&c), dense = case_matrix(&c, "w");
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            struct run run = op_run(&f.arena, "math", (enum precision)precision);
            struct linear op = {.T = 5,
                                .x = random_f64(&f.arena, 3, "x", 5 * m.in, 1.0),
                                .w = &m,
                                .y = space(&f.arena, 5 * m.out),
                                .point = RP_LINEAR},
                          other = op;
            other.w = &dense;
            other.y = space(&f.arena, 5 * m.out);
            struct err err = ERR_INIT;
            if (linear_ref(&op, &run, &err) != ERR_OK || linear_ref(&other, &run, &err) != ERR_OK)
                assert_ok(&err);
            assert_f64_bits(op.y, other.y, 5, m.out);
        }
    }
    fixture_close(&f);
}

/* ---- errors ---- */

static void int4_check__refuses__when_bits_rows_or_shapes_are_bad(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = ERR_INIT;
    fixture_open(&f, "int4");
    for (int i = 0; i < fixture_count(&f); i++) {
        struct fixture_case c = fixture_at(&f, i);
        if (!case_is(&c, "name", "actorder.asym")) continue;
        const struct matrix good = packed_of(&c);
        struct matrix m = good;
        double y = 0;
        struct int4 op = {.w = &m, .n = 1, .y = &y};
        assert_int_equal(int4_check(&op, &err), ERR_OK);
        m.bits = 3;
        assert_refused(int4_check(&op, &err), &err, "3 bits");
        m = good;
        m.format = MATRIX_DENSE;
        assert_refused(int4_check(&op, &err), &err, "not packed");
        m = good;
        m.group = 48;
        assert_refused(int4_check(&op, &err), &err, "scale");
        m.group = m.in + 1;
        assert_refused(int4_check(&op, &err), &err, "group size 65");
        m = good;
        m.out++; /* another row than the codes have */
        assert_refused(int4_check(&op, &err), &err, "actorder.asym.packed");
        struct tensor *const parts[] = {&m.data, &m.scale, &m.zero, &m.g_idx};
        const char *const names[] = {"packed", "scale", "zero", "g_idx"};
        for (int p = 0; p < 4; p++) {
            m = good;
            parts[p]->dtype = DT_I64;
            assert_refused(int4_check(&op, &err), &err, "I64");
            m = good;
            parts[p]->shape[0]++;
            assert_refused(int4_check(&op, &err), &err, names[p]);
        }
        m = good;
        int32_t *g = case_i32(&c, "g_idx");
        m.g_idx.data = g;
        g[5] = 4; /* of 4 groups */
        assert_refused(int4_check(&op, &err), &err, "[5]: found 4");
        g[5] = -2;
        assert_refused(int4_check(&op, &err), &err, "found -2");
        m = good;
        op.row = m.out;
        assert_refused(int4_check(&op, &err), &err, "inside 0 to 9");
        struct run run = op_run(&f.arena, "math", PRECISION_F64);
        assert_refused(int4_ref(&op, &run, &err), &err, "inside 0 to 9");
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int4_ref__equals_compressed_tensors_bitwise__in_every_case),
        cmocka_unit_test(int4_ref__equals_the_decompressed_weights_bitwise__of_all_six_linears),
        cmocka_unit_test(
            int4_ref__puts_the_lowest_nibble_first_and_rounds_to_bf16__on_the_published_vector),
        cmocka_unit_test(int4_ref__gives_the_same_rows__in_any_cut_of_them),
        cmocka_unit_test(int4_ref__ignores_the_group_index__when_it_is_minus_one_anywhere),
        cmocka_unit_test(
            linear_ref__multiplies_with_the_unpacked_values__when_the_weight_is_packed),
        cmocka_unit_test(int4_check__refuses__when_bits_rows_or_shapes_are_bad),
    };
    return cmocka_run_group_tests_name("int4", tests, NULL, NULL);
}
