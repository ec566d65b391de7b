/* test_moe_scale.c: which scales of an expert the CUDA path takes, and what it says of the first
 * one that it does not. */
#include "gpu/moe_scale.h"

#include "tests/support.h"

#include <math.h>
#include <stdio.h>

static void fits__ends_at_two_to_the_27__of_either_sign(void **state)
{
    (void)state;
    const float below = bf16_to_f32((uint16_t)(bf16_from_f32(0x1p27f) - 1));
    assert_true(below == 0x1.fep26f);
    for (int sign = -1; sign <= 1; sign += 2) {
        const float s = (float)sign;
        assert_false(moe_scale_fits(s * 0x1p27f));
        assert_true(moe_scale_fits(s * below));
        assert_true(moe_scale_fits(s * nextafterf(0x1p27f, 0)));
        assert_true(moe_scale_fits(s * 0.0f));
        assert_true(moe_scale_fits(s * 0x1p-133f));
        assert_false(moe_scale_fits(s * 0x1.02p27f));
        assert_false(moe_scale_fits(s * bf16_to_f32(0x7f7f))); /* the largest that is finite */
        assert_true(moe_scale_fits(s * INFINITY));
    }
    assert_true(moe_scale_fits(NAN));
    assert_true(moe_scale_fits(-NAN));
}

/* What is refused and what is exact meet: no finite scale is neither. */
static void fits__is_true__of_every_scale_whose_products_are_finite(void **state)
{
    (void)state;
    int64_t refused = 0;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        float scale = bf16_to_f32((uint16_t)bits), times = scale * MOE_TIMES_LOW;
        if (!isfinite(scale)) continue;
        bool fits = moe_scale_fits(scale);
        assert_int_equal(fits, isfinite(bf16_to_f32(bf16_from_f32(times))));
        refused += !fits;
    }
    assert_int_equal(refused, 2 * 101 * 128); /* 2^27 to 2^127 */
}

enum { ROWS = 3, IN = 96, GROUP = 32, GROUPS = IN / GROUP };

static struct matrix scaled(const uint16_t *scales, int64_t group)
{
    struct matrix m = {.format = MATRIX_PACKED, .bits = 4, .out = ROWS, .in = IN, .group = group};
    snprintf(m.scale.name, sizeof m.scale.name, "experts.7.up_proj.weight_scale");
    m.scale.dtype = DT_BF16;
    m.scale.dims = 2;
    m.scale.shape[0] = ROWS;
    m.scale.shape[1] = group ? GROUPS : 1;
    m.scale.data = scales;
    return m;
}

static void check__names_tensor_row_columns_and_value__of_the_first_that_does_not_fit(void **state)
{
    struct err err = ERR_INIT;
    uint16_t scales[ROWS * GROUPS];
    (void)state;
    for (int i = 0; i < ROWS * GROUPS; i++) scales[i] = bf16_from_f32(0.5f);
    scales[0] = bf16_from_f32(INFINITY);
    scales[1] = bf16_from_f32(NAN);
    scales[2] = (uint16_t)(bf16_from_f32(-0x1p27f) - 1);
    struct matrix m = scaled(scales, GROUP);
    assert_int_equal(moe_scales_check(&m, &err), ERR_OK);
    assert_ok(&err);
    scales[5] = bf16_from_f32(-0x1p27f);
    scales[8] = bf16_from_f32(0x1p40f);
    assert_int_equal(moe_scales_check(&m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "repack expert",
               "experts.7.up_proj.weight_scale, row 1, columns 64 to 95", "scale -1.34218e+08",
               "one of size below 1.34218e+08, the end of what the products take");
    err_clear(&err);
    scales[5] = scales[6]; /* the last of all */
    assert_int_equal(moe_scales_check(&m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "experts.7.up_proj.weight_scale, row 2, columns 64 to 95",
               "scale 1.09951e+12", NULL);
}

static void check__names_the_whole_row__where_it_has_one_scale(void **state)
{
    struct err err = ERR_INIT;
    const uint16_t scales[ROWS] = {0, 0x4d00, 0}; /* 2^27 */
    (void)state;
    struct matrix m = scaled(scales, 0);
    assert_int_equal(moe_scales_check(&m, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, "experts.7.up_proj.weight_scale, row 1, columns 0 to 95",
               "scale 1.34218e+08", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits__ends_at_two_to_the_27__of_either_sign),
        cmocka_unit_test(fits__is_true__of_every_scale_whose_products_are_finite),
        cmocka_unit_test(check__names_tensor_row_columns_and_value__of_the_first_that_does_not_fit),
        cmocka_unit_test(check__names_the_whole_row__where_it_has_one_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
