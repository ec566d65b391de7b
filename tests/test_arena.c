/* test_arena.c: alignment, marks, limits, and in guard builds the poison and the guard bands. */
#include "tests/support.h"

#include "core/arena.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void alloc__gives_aligned_disjoint_bytes(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    unsigned char *p[10];
    for (int i = 0; i < 10; i++) {
        p[i] = arena_alloc(&a, i * 7, 1, "bytes", &err);
        assert_ok(&err);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        memset(p[i], i, (size_t)i * 7);
    }
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < i * 7; k++) assert_int_equal(p[i][k], i);
    }
    arena_release(&a, NULL);
    assert_int_equal(a.bytes, 0);
    assert_null(a.top);
}

static void release__goes_back_to_the_mark_and_keeps_the_peak(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    double *x = arena_alloc(&a, 8, sizeof *x, "x", &err);
    assert_non_null(x);
    for (int i = 0; i < 8; i++) x[i] = i;
    struct arena_block *mark = arena_mark(&a);
    size_t before = a.bytes;
    assert_int_equal(before, 64);
    assert_non_null(arena_alloc(&a, 1000, sizeof(double), "y", &err));
    assert_non_null(arena_alloc(&a, 3, 1, "z", &err));
    assert_true(a.bytes >= before + 8000 + 3);
    size_t peak = a.bytes;
    arena_release(&a, mark);
    assert_int_equal(a.bytes, before);
    assert_int_equal(a.bytes_peak, peak);
    for (int i = 0; i < 8; i++) assert_int_equal((int)x[i], i);
    arena_release(&a, mark); /* nothing above it: nothing to do */
    assert_int_equal(a.bytes, before);
    arena_release(&a, NULL);
}

static void alloc__fails_with_sizes__when_the_product_overflows(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    assert_null(arena_alloc(&a, INT64_MAX, 16, "scores", &err));
    assert_err(&err, ERR_MEMORY, "allocate memory", "scores", "9223372036854775807 x 16",
               "enough memory");
    err_clear(&err);
    assert_null(arena_alloc(&a, INT64_MAX, 1, "codes", &err));
    assert_err(&err, ERR_MEMORY, NULL, "codes", NULL, NULL);
    assert_int_equal(a.bytes, 0);
    assert_null(a.top);
}

static void alloc__fails__when_the_limit_is_reached(void **state)
{
    (void)state;
    struct arena a = {.bytes_max = 256};
    struct err err = ERR_INIT;
    assert_non_null(arena_alloc(&a, 192, 1, "first", &err));
    assert_null(arena_alloc(&a, 65, 1, "second", &err));
    assert_err(&err, ERR_MEMORY, "allocate memory", "second",
               "65 x 1 bytes refused with 192 bytes live", "limit");
    err_clear(&err);
    assert_non_null(arena_alloc(&a, 64, 1, "third", &err));
    assert_null(arena_alloc(&a, 1, 1, "fourth", &err));
    assert_int_equal(err.code, ERR_MEMORY);
    err_clear(&err);
    a.bytes_max = 64; /* already over it */
    assert_null(arena_alloc(&a, 1, 1, "fifth", &err));
    assert_int_equal(err.code, ERR_MEMORY);
    arena_release(&a, NULL);
}

#ifdef ASSAY_GUARD
static void alloc__starts_as_poison(void **state)
{
    (void)state;
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    double *x = arena_alloc(&a, 5, sizeof *x, "x", &err);
    for (int i = 0; i < 5; i++) assert_true(x[i] != x[i]);
    arena_release(&a, NULL);
}

/* Writes one byte `at` of a block of 64, then releases it. */
static void write_and_release(void *ctx)
{
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    unsigned char *x = arena_alloc(&a, 64, 1, "panel", &err);
    volatile unsigned char *at = x + *(int *)ctx;
    *at = 1;
    arena_release(&a, NULL);
}

static void release__aborts_with_the_name__when_a_guard_band_was_written(void **state)
{
    (void)state;
    static const struct {
        int at;
        const char *word;
    } rows[] = {{64, "past"}, {127, "past"}, {-1, "before"}, {-64, "before"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text;
        assert_int_equal(signal_of(write_and_release, (void *)(uintptr_t)&rows[i].at, &text),
                         SIGABRT);
        assert_non_null(strstr(text, "'panel'"));
        assert_non_null(strstr(text, rows[i].word));
        free(text);
    }
}

static void release__is_quiet__when_the_block_was_written_to_its_edges(void **state)
{
    (void)state;
    int first = 0, last = 63;
    assert_int_equal(signal_of(write_and_release, &first, NULL), 0);
    assert_int_equal(signal_of(write_and_release, &last, NULL), 0);
}
#endif

static void release_foreign_mark(void *ctx)
{
    struct arena a = ARENA_INIT;
    struct err err = ERR_INIT;
    if (arena_alloc(&a, 1, 1, "x", &err)) arena_release(&a, ctx);
}

static void release__aborts__when_the_mark_is_of_another_arena(void **state)
{
    (void)state;
    struct arena other = ARENA_INIT;
    struct err err = ERR_INIT;
    assert_non_null(arena_alloc(&other, 1, 1, "y", &err));
    assert_int_equal(signal_of(release_foreign_mark, arena_mark(&other), NULL), SIGABRT);
    arena_release(&other, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__gives_aligned_disjoint_bytes),
        cmocka_unit_test(release__goes_back_to_the_mark_and_keeps_the_peak),
        cmocka_unit_test(alloc__fails_with_sizes__when_the_product_overflows),
        cmocka_unit_test(alloc__fails__when_the_limit_is_reached),
#ifdef ASSAY_GUARD
        cmocka_unit_test(alloc__starts_as_poison),
        cmocka_unit_test(release__aborts_with_the_name__when_a_guard_band_was_written),
        cmocka_unit_test(release__is_quiet__when_the_block_was_written_to_its_edges),
#endif
        cmocka_unit_test(release__aborts__when_the_mark_is_of_another_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
