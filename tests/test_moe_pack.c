/* test_moe_pack.c: the packed layout of the experts and the cutting of rows into tiles, on the
 * host: every code has a place of its own and comes back, padding is the code of 0, and the words
 * give the operands that the multiplying instruction wants. */
#include "gpu/moe_pack.h"
#include "gpu/moe_tiles.h"

#include "tests/support.h"

#include "core/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 200, K = 136, STRIPS = 4, TILES_K = 3 };

static uint32_t code_of(int64_t r, int64_t k)
{
    return (uint32_t)(r * 7 + k * 5 + r / 9 + k / 11) % 16;
}

/* A matrix packed through the forward functions, as moe_unpack() reads it. */
static char *packed(void)
{
    char *data = malloc((size_t)moe_packed_bytes(ROWS, K));
    assert_non_null(data);
    for (int64_t i = 0; i < STRIPS * TILES_K; i++) {
        memset(data + i * MOE_TILE_BYTES, 0x88, MOE_CODE_BYTES);
        memset(data + i * MOE_TILE_BYTES + MOE_CODE_BYTES, 0, MOE_TILE_BYTES - MOE_CODE_BYTES);
    }
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t k = 0; k < K; k++) {
            uint32_t *word = (uint32_t *)(void *)(data + moe_word_at(r, k, TILES_K));
            int shift = 4 * moe_nibble_of(r, k);
            *word = (*word & ~(15u << shift)) | code_of(r, k) << shift;
        }
    }
    return data;
}

static void moe_pack__sizes_are_whole_tiles__at_every_edge(void **state)
{
    (void)state;
    assert_int_equal(moe_packed_bytes(1, 1), 2 * MOE_TILE_BYTES);
    assert_int_equal(moe_packed_bytes(128, 64), 2 * MOE_TILE_BYTES);
    assert_int_equal(moe_packed_bytes(129, 65), 4 * 2 * MOE_TILE_BYTES);
    assert_int_equal(moe_packed_bytes(ROWS, K), STRIPS * TILES_K * MOE_TILE_BYTES);
    /* Half a byte a weight and a scale of two bytes for 32: no room is lost at whole tiles. */
    assert_int_equal(moe_packed_bytes(4096, 7168), 4096 * 7168 / 2 + 4096 * 7168 / 32 * 2);
    assert_int_equal(moe_w13_rows(1), 128);
    assert_int_equal(moe_w13_rows(2048), 4096);
    assert_true(384 * moe_packed_bytes(4096, 7168) > INT64_C(6000000000));
}

static void moe_pack__every_nibble_is_used_once__in_a_matrix_of_whole_tiles(void **state)
{
    (void)state;
    enum { R = 128, C = 192 };
    int64_t bytes = moe_packed_bytes(R, C);
    char *used = calloc((size_t)(2 * bytes), 1);
    assert_non_null(used);
    for (int64_t r = 0; r < R; r++) {
        for (int64_t k = 0; k < C; k++) {
            int64_t at = moe_word_at(r, k, C / 64), nibble = 2 * at + moe_nibble_of(r, k);
            assert_int_equal(at % 4, 0);
            assert_in_range(at % MOE_TILE_BYTES, 0, MOE_CODE_BYTES - 4);
            assert_in_range(nibble, 0, 2 * bytes - 1);
            assert_int_equal(used[nibble]++, 0);
            if (k % MOE_SCALE_K) continue;
            int64_t scale = moe_scale_at(r, k, C / 64);
            assert_in_range(scale % MOE_TILE_BYTES, MOE_CODE_BYTES, MOE_TILE_BYTES - 2);
            for (int i = 0; i < 4; i++) assert_int_equal(used[2 * scale + i]++, 0);
            assert_int_equal(moe_scale_at(r, k + 31, C / 64), scale);
        }
    }
    for (int64_t i = 0; i < 2 * bytes; i++) assert_int_equal(used[i], 1);
    free(used);
}

static void moe_pack__reverse_functions_give_back_row_and_column__of_every_word(void **state)
{
    (void)state;
    for (int word = 0; word < MOE_TILE_WORDS; word++) {
        for (int nibble = 0; nibble < 8; nibble++) {
            int r = moe_word_row(word, nibble % 2),
                k = moe_word_k(word, nibble / 2 % 2) + nibble / 4;
            assert_in_range(r, 0, 63);
            assert_in_range(k, 0, 63);
            assert_int_equal(moe_word_at(r, k, 1), 4 * word);
            assert_int_equal(moe_nibble_of(r, k), nibble);
        }
    }
    for (int s = 0; s < MOE_TILE_SCALES; s++)
        assert_int_equal(moe_scale_at(moe_scale_row(s), moe_scale_k(s), 1), MOE_CODE_BYTES + 2 * s);
}

static void moe_pack__gate_and_up_share_an_m16_block__and_come_back(void **state)
{
    (void)state;
    char used[256] = {0};
    for (int64_t i = 0; i < 128; i++) {
        for (int up = 0; up < 2; up++) {
            bool found;
            int64_t row = moe_w13_row(i, up != 0);
            assert_in_range(row, 0, 255);
            assert_int_equal(used[row]++, 0);
            assert_int_equal(moe_w13_source(row, &found), i);
            assert_int_equal(found, up);
        }
        assert_int_equal(moe_w13_row(i, true), moe_w13_row(i, false) + 8);
        assert_int_equal(moe_w13_row(i, false) % 16, i % 8);
    }
}

/* Operand A of mma.m16n8k16, from the PTX manual: lane 4g + t holds in register 0 (g, 2t + e), in 1
 * (g + 8, 2t + e), in 2 (g, 2t + 8 + e), in 3 (g + 8, 2t + 8 + e), e = 0 in the low half. What the
 * kernels do: the word shifted by 4 i, and the low nibble of both halves. */
static void moe_pack__words_hold_the_operands_of_the_instruction__in_every_lane(void **state)
{
    (void)state;
    char *data = packed();
    for (int64_t strip = 0; strip < STRIPS; strip++) {
        for (int64_t kt = 0; kt < TILES_K; kt++) {
            for (int w = 0; w < 4; w++) {
                for (int lane = 0; lane < 32; lane++) {
                    const uint32_t *four =
                        (const uint32_t *)(const void *)(data +
                                                         (strip * TILES_K + kt) * MOE_TILE_BYTES +
                                                         512 * w + 16 * lane);
                    for (int j = 0; j < 16; j++) { /* register j % 4 of step j / 4 */
                        uint32_t pair = four[j / 4] >> (4 * (j % 4)) & 0x000f000f;
                        int64_t r = strip * 64 + 16 * w + lane / 4 + 8 * (j % 2);
                        int64_t k = kt * 64 + 16 * (j / 4) + 8 * (j % 4 / 2) + 2 * (lane % 4);
                        for (int e = 0; e < 2; e++) {
                            uint32_t want = r < ROWS && k + e < K ? code_of(r, k + e) : 8;
                            assert_int_equal(pair >> (16 * e) & 15, want);
                        }
                    }
                }
            }
        }
    }
    free(data);
}

/* A lane's eight bytes of scales: groups of 32 in order, in each rows g and g + 8. */
static void moe_pack__scales_of_a_lane_are_eight_bytes__in_the_order_it_needs(void **state)
{
    (void)state;
    for (int w = 0; w < 4; w++) {
        for (int g = 0; g < 8; g++) {
            for (int i = 0; i < 4; i++)
                assert_int_equal(moe_scale_at(16 * w + g + 8 * (i % 2), 32 * (i / 2), 1),
                                 MOE_CODE_BYTES + 64 * w + 8 * g + 2 * i);
        }
    }
}

/* One fused operation of bf16, as weigh() of gpu/moe_mma.cuh: all of it is exact in float64. */
static float fused(uint16_t codes, float times, float less)
{
    double a = bf16_to_f32(codes), b = bf16_to_f32(bf16_from_f32(times));
    return bf16_to_f32(bf16_from_f32((float)(a * b + bf16_to_f32(bf16_from_f32(less)))));
}

static void moe_pack__one_fused_operation_is_the_value__of_every_code_and_scale(void **state)
{
    (void)state;
    int64_t scales = 0;
    for (uint16_t bits = bf16_from_f32(0x1p-94f); bf16_to_f32(bits) < MOE_SCALE_END; bits++) {
        float scale = bf16_to_f32(bits), less = scale * MOE_LESS;
        for (uint16_t u = 0; u < 16; u++) {
            float want = bf16_to_f32(bf16_from_f32((float)(u - 8) * scale));
            assert_true(fused(u, scale * MOE_TIMES_LOW, less) * MOE_UNIT == want);
            assert_true(fused((uint16_t)(u << 4), scale * MOE_TIMES_HIGH, less) * MOE_UNIT == want);
        }
        scales++;
    }
    assert_int_equal(scales, 121 * 128);
    assert_true(fused(8, 0.0f, 0.0f) == 0);
}

static void moe_tiles__cover_every_row_once__whatever_the_count(void **state)
{
    (void)state;
    static const int32_t caps[] = {8, 16, 32, 64, 128};
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        for (int32_t rows = 0; rows < 5000; rows++) {
            int32_t parts = moe_parts(rows, caps[c]), next = 1000;
            assert_int_equal(parts, rows / caps[c] + (rows % caps[c] != 0));
            for (int32_t i = 0; i < parts; i++) {
                struct moe_tile t = moe_part(7, 1000, rows, caps[c], i);
                assert_int_equal(t.expert, 7);
                assert_int_equal(t.first, next);
                assert_in_range(t.rows, 1, caps[c]);
                if (i + 1 < parts) assert_int_equal(t.rows % 8, 0);
                next += t.rows;
            }
            assert_int_equal(next, 1000 + rows);
        }
    }
}

/* Column blocks of 64 of a whole tile are one piece of memory, a row 128 bytes in it; the eight
 * rows that the instruction reads at once have their piece k in eight places of 16 bytes. */
static void moe_tiles__swizzled_rows_are_bulk_blocks__and_every_element_has_its_place(void **state)
{
    (void)state;
    enum { LD = 192, FIRST = 40, ROWS_MAX = 128 };
    static const int32_t rows[] = {1, 7, 8, 85, ROWS_MAX};
    static char used[ROWS_MAX * LD];
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        struct moe_tile tile = {3, FIRST, rows[n], 0};
        memset(used, 0, sizeof used);
        for (int32_t r = 0; r < tile.rows; r++) {
            for (int64_t k = 0; k < LD; k += 8) {
                int64_t at = moe_swizzle_at(tile, LD, r, k) - FIRST * LD;
                int64_t row = k / 64 * tile.rows + r;
                assert_in_range(at, 64 * row, 64 * row + 56);
                assert_int_equal(at % 64 / 8, (k % 64 / 8) ^ (r % 8));
                for (int i = 0; i < 8; i++) assert_int_equal(used[at + i]++, 0);
            }
        }
        for (int64_t i = 0; i < tile.rows * LD; i++) assert_int_equal(used[i], 1);
    }
}

static void moe_tiles__size_classes_fall_with_the_rows__and_fit_their_number(void **state)
{
    (void)state;
    enum { CAP = 8 * MOE_SIZES };
    assert_int_equal(moe_size_class(CAP, CAP), 0);
    assert_int_equal(moe_size_class(1, CAP), MOE_SIZES - 1);
    for (int32_t rows = 2; rows <= CAP; rows++)
        assert_int_equal(moe_size_class(rows - 1, CAP) - moe_size_class(rows, CAP), rows % 8 == 1);
}

static void moe_tiles__lists_have_room__for_the_worst_choice(void **state)
{
    (void)state;
    static const int64_t pairs[] = {1, 7, 8, 9, 512, 4099 * 8}, experts[] = {1, 3, 384, 1024};
    for (size_t p = 0; p < 6; p++) {
        for (size_t x = 0; x < 4; x++) {
            for (int32_t cap = 8; cap <= 128; cap *= 2) {
                int64_t E = experts[x], few = E < pairs[p] ? E : pairs[p], worst = 0;
                /* All but one expert have as many rows as begin a tile of their own; the last has
                 * the rest. */
                for (int32_t each = 1; each * (few - 1) < pairs[p] && each <= 2 * cap + 1; each++) {
                    int64_t sum = (few - 1) * moe_parts(each, cap) +
                                  moe_parts((int32_t)(pairs[p] - each * (few - 1)), cap);
                    if (sum > worst) worst = sum;
                }
                assert_true(worst >= 1 && worst <= moe_tiles_max(pairs[p], E, cap));
            }
        }
    }
}

static void moe_tiles__chunks_are_whole_warps_and_few__however_many_pairs(void **state)
{
    (void)state;
    static const int64_t pairs[] = {1, 4099 * 8, 131072, 131073, 8000003, INT32_MAX};
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        int64_t chunk = moe_chunk(pairs[p]);
        assert_int_equal(chunk % 32, 0);
        assert_true(chunk >= MOE_CHUNK_MIN && chunk * MOE_CHUNKS_MAX >= pairs[p]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moe_pack__sizes_are_whole_tiles__at_every_edge),
        cmocka_unit_test(moe_pack__every_nibble_is_used_once__in_a_matrix_of_whole_tiles),
        cmocka_unit_test(moe_pack__reverse_functions_give_back_row_and_column__of_every_word),
        cmocka_unit_test(moe_pack__gate_and_up_share_an_m16_block__and_come_back),
        cmocka_unit_test(moe_pack__words_hold_the_operands_of_the_instruction__in_every_lane),
        cmocka_unit_test(moe_pack__scales_of_a_lane_are_eight_bytes__in_the_order_it_needs),
        cmocka_unit_test(moe_pack__one_fused_operation_is_the_value__of_every_code_and_scale),
        cmocka_unit_test(moe_tiles__cover_every_row_once__whatever_the_count),
        cmocka_unit_test(moe_tiles__size_classes_fall_with_the_rows__and_fit_their_number),
        cmocka_unit_test(moe_tiles__swizzled_rows_are_bulk_blocks__and_every_element_has_its_place),
        cmocka_unit_test(moe_tiles__lists_have_room__for_the_worst_choice),
        cmocka_unit_test(moe_tiles__chunks_are_whole_warps_and_few__however_many_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
