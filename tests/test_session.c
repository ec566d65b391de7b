/* test_session.c: a row's bits depend on its own sequence alone: not on chunks, threads, block
 * sizes or the sequences beside it; prefill expanded, chunked, decode absorbed and paged agree to
 * 1e-12 in float64. */
#include "core/compare.h"
#include "tests/golden.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct view view_of(const struct dump_tap *t)
{
    return (struct view){t->tensor->dtype, t->tensor->data, t->rows, t->cols};
}

/* Every tap of `a`, rows mapped into `b`, within a relative bound a row (0: the same bits). */
static void check_same(const struct dump *a, const struct dump *b, const int64_t *row, double bound,
                       const char *what)
{
    assert_int_equal(a->count, b->count);
    assert_true(a->count > 10);
    for (int64_t i = 0; i < a->count; i++) {
        const struct dump_tap *s = &a->taps[i], *t = dump_find(b, s->name);
        struct measure m;
        assert_non_null(t);
        measure_views(view_of(s), view_of(t), row, &m, NULL, NULL, NULL);
        bool ints = dtype_is_int(s->tensor->dtype), exact = bound == 0 || ints;
        if (m.elements == 0 || m.special_mismatch ||
            (exact ? m.differing != 0 : judge_fails(m.worst_row_rel, bound)))
            fail_msg("%s: %s: %lld cells differ, worst row %g", what, s->name,
                     (long long)m.differing, m.worst_row_rel);
    }
}

static const char *const cases[] = {"tiny-k25", "tiny-dsv3", "tiny-k2-plainrope"};
enum { CASES = sizeof cases / sizeof cases[0] };

static void forward__has_the_same_bits__for_any_threads_chunks_and_blocks(void **state)
{
    (void)state;
    static const struct {
        int threads;
        int64_t chunk, block;
    } ways[] = {{1, 0, 64}, {3, 0, 64}, {2, 1, 64}, {2, 7, 5}, {1, 16, 1}, {2, 0, 1000}};
    for (int c = 0; c < CASES; c++) {
        for (int precision = 0; precision < 2; precision++) {
            struct golden g;
            struct dump whole, other;
            struct session_options o = session_defaults();
            golden_open(&g, cases[c]);
            o.precision = precision ? PRECISION_F64 : PRECISION_F32;
            golden_run(&g, NULL, &o, NULL, &whole);
            for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
                o.threads = ways[i].threads;
                o.chunk = ways[i].chunk;
                o.block = ways[i].block;
                golden_run(&g, NULL, &o, NULL, &other);
                check_same(&other, &whole, NULL, 0, cases[c]);
                dump_close(&other);
            }
            dump_close(&whole);
            golden_close(&g);
        }
    }
}

static void decode__agrees_with_prefill__to_1e_12_in_f64(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        struct golden g;
        struct dump whole, stepped;
        struct session_options o = session_defaults();
        golden_open(&g, cases[c]);
        o.precision = PRECISION_F64;
        golden_run(&g, NULL, &o, NULL, &whole);
        o.decode_last = g.tokens.count - 3;
        o.block = 4;
        golden_run(&g, NULL, &o, NULL, &stepped);
        check_same(&stepped, &whole, NULL, 1e-12, cases[c]);
        /* Another form of the same sums: were the bits equal, nothing would have been decoded. */
        struct measure m;
        const struct dump_tap *a = dump_find(&stepped, "layers.1.attn_core"),
                              *b = dump_find(&whole, "layers.1.attn_core");
        measure_views(view_of(a), view_of(b), NULL, &m, NULL, NULL, NULL);
        assert_true(m.differing > 0);
        dump_close(&whole);
        dump_close(&stepped);
        golden_close(&g);
    }
}

static void batch__gives_each_sequence_its_own_bits__when_lengths_differ(void **state)
{
    (void)state;
    struct golden g;
    struct dump batch, single;
    struct session_options o = session_defaults();
    int64_t lengths[] = {5, 1, 17, 9}, begin = 0;
    golden_open(&g, "tiny-k25");
    struct golden all = g;
    all.tokens.count = 32;
    all.tokens.length = lengths;
    all.tokens.sequences = 4;
    o.chunk = 4;
    golden_run(&all, NULL, &o, NULL, &batch);
    for (int s = 0; s < 4; begin += lengths[s++]) {
        struct golden one = g;
        int64_t row[32];
        one.tokens = (struct tokens){
            .id = g.tokens.id + begin, .count = lengths[s], .length = &lengths[s], .sequences = 1};
        for (int64_t i = 0; i < lengths[s]; i++) row[i] = begin + i;
        o.chunk = 0;
        golden_run(&one, NULL, &o, NULL, &single);
        check_same(&single, &batch, row, 0, "batch");
        dump_close(&single);
    }
    dump_close(&batch);
    golden_close(&g);
}

static void linear_blas__agrees_with_own__as_far_as_sums_may_differ(void **state)
{
    (void)state;
    struct golden g;
    struct dump own, blas;
    struct session_options o = session_defaults();
    golden_open(&g, "tiny-k25");
    for (int precision = 0; precision < 2; precision++) {
        o.precision = precision ? PRECISION_F64 : PRECISION_F32;
        o.linear = LINEAR_OWN;
        golden_run(&g, NULL, &o, NULL, &own);
        o.linear = LINEAR_BLAS;
        golden_run(&g, NULL, &o, NULL, &blas);
        check_same(&blas, &own, NULL, precision ? 1e-12 : 1e-4, "blas");
        dump_close(&own);
        dump_close(&blas);
    }
    golden_close(&g);
}

static void session__refuses_tokens__outside_the_vocabulary(void **state)
{
    (void)state;
    struct golden g;
    struct loaded l;
    struct session s;
    struct err err = ERR_INIT;
    struct session_options o = session_defaults();
    golden_open(&g, "tiny-k25");
    g.tokens.id[3] = 512;
    (void)!loaded_open(&l, g.model, &err);
    (void)!session_open(&s, &l, &o, 1, g.tokens.length, &err);
    assert_ok(&err);
    assert_int_equal(session_forward(&s, &g.tokens, NULL, NULL, NULL, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "token id", "token 3", "512", "511");
    session_close(&s);
    loaded_close(&l);
    golden_close(&g);
}

static void forced__refuses_experts__that_no_router_could_choose(void **state)
{
    static const struct {
        int32_t ids[8];
        const char *found;
    } bad[] = {{{0, 1, 2, 3, 4, 5, 6, 16}, "16"},
               {{0, 1, 2, 3, 4, 4, 6, 7}, "expert 4 twice"},
               {{-1, 1, 2, 3, 4, 5, 6, 7}, "-1"}};
    struct golden g;
    struct loaded l;
    golden_open(&g, "tiny-k25");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        struct dump d;
        struct forced f;
        const struct st_part part = {.name = "layers.1.experts",
                                     .dtype = DT_I32,
                                     .dims = 2,
                                     .shape = {2, 4},
                                     .data = bad[i].ids};
        const char *path = folder_path(state, "bad.safetensors");
        write_safetensors(path, &part, 1, NULL, 0);
        (void)!loaded_open(&l, g.model, &err);
        (void)!dump_open(&d, path, &err);
        assert_ok(&err);
        assert_int_equal(forced_read(&f, l.model.config, &d, NULL, 2, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "force experts", "layers.1.experts", bad[i].found, NULL);
        forced_free(&f);
        dump_close(&d);
        loaded_close(&l);
    }
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward__has_the_same_bits__for_any_threads_chunks_and_blocks),
        cmocka_unit_test(decode__agrees_with_prefill__to_1e_12_in_f64),
        cmocka_unit_test(batch__gives_each_sequence_its_own_bits__when_lengths_differ),
        cmocka_unit_test(linear_blas__agrees_with_own__as_far_as_sums_may_differ),
        cmocka_unit_test(session__refuses_tokens__outside_the_vocabulary),
        cmocka_unit_test_setup_teardown(forced__refuses_experts__that_no_router_could_choose,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
