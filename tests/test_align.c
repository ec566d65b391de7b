/* test_align.c: which rows of two dumps stand beside each other. */
#include "harness/align.h"
#include "tests/assert_array.h"
#include "tests/support.h"

#include <string.h>

/* A dump of `rows` rows of one tap, with the metadata given (pairs of texts, NULL at the end). */
static void open_dump(void **state, const char *name, int64_t rows, const char *const *meta,
                      struct dump *out)
{
    struct err err = ERR_INIT;
    struct st_meta m[4];
    int64_t n = 0;
    for (; meta && meta[2 * n]; n++) m[n] = (struct st_meta){meta[2 * n], meta[2 * n + 1]};
    const struct st_part parts[] = {
        {.name = "embed", .dtype = DT_F32, .dims = 2, .shape = {rows, 2}},
        {.name = "layers.1.routed", .dtype = DT_F32, .dims = 2, .shape = {rows, 2}}};
    const char *path = folder_path(state, name);
    write_safetensors(path, parts, 2, m, n);
    (void)!dump_open(out, path, &err);
    assert_ok(&err);
}

static void check(void **state, int64_t rows_s, const char *const *meta_s, int64_t rows_t,
                  const char *const *meta_t, const int64_t *want, const char *how)
{
    struct dump s, t;
    struct alignment a;
    struct err err = ERR_INIT;
    open_dump(state, "s.safetensors", rows_s, meta_s, &s);
    open_dump(state, "t.safetensors", rows_t, meta_t, &t);
    (void)!align_dumps(&s, &t, &a, &err);
    assert_ok(&err);
    assert_i64_equal(a.row, want, 1, rows_s);
    assert_non_null(strstr(a.how, how));
    assert_int_equal(a.count, 2);
    assert_true(a.pairs[1].moe && !a.pairs[0].moe);
    align_free(&a);
    dump_close(&s);
    dump_close(&t);
}

static void rows__match__by_count_without_metadata(void **state)
{
    static const int64_t want[] = {0, 1, 2};
    check(state, 3, NULL, 3, NULL, want, "equal count");
}

static void rows__match__leading_ones_of_a_longer_dump(void **state)
{
    static const char *const tokens[] = {"tokens", "[4, 5]", NULL};
    static const int64_t want[] = {0, 1}, back[] = {0, 1, -1, -1};
    check(state, 2, tokens, 4, NULL, want, "leading");
    check(state, 4, NULL, 2, tokens, back, "leading");
}

static void rows__match__the_last_ones_where_the_dump_says_so(void **state)
{
    static const char *const all[] = {"assay.tokens", "[1, 2, 3, 4, 5]", NULL};
    static const char *const last[] = {"rows", "last 2", NULL};
    static const int64_t want[] = {-1, -1, -1, 0, 1};
    check(state, 5, all, 2, last, want, "last rows");
}

static void rows__match__by_place_where_both_know_it(void **state)
{
    static const char *const few[] = {"assay.tokens", "[1, 2, 3, 4, 5]", "assay.rows", "[1, 4]",
                                      NULL};
    static const char *const other[] = {"assay.tokens", "[1, 2, 3, 4, 5]", "assay.rows",
                                        "[0, 1, 2]", NULL};
    static const int64_t want[] = {1, -1};
    check(state, 2, few, 3, other, want, "place");
}

/* A shorter text of one sequence is part of a longer one, also where both say that it is one; parts
 * of a batch are not. */
static void rows__match__of_a_shorter_sequence_and_of_no_shorter_batch(void **state)
{
    static const char *const whole[] = {"assay.tokens", "[1, 2, 3]", "assay.lengths", "[3]", NULL};
    static const char *const part[] = {"assay.tokens", "[1, 2]", "assay.lengths", "[2]", NULL};
    static const char *const batch[] = {"assay.tokens", "[1, 2]", "assay.lengths", "[1, 1]", NULL};
    static const int64_t want[] = {0, 1};
    struct dump s, t;
    struct alignment a;
    struct err err = ERR_INIT;
    check(state, 2, part, 3, whole, want, "place");
    for (int turned = 0; turned < 2; turned++) {
        open_dump(state, "s.safetensors", turned ? 3 : 2, turned ? whole : batch, &s);
        open_dump(state, "t.safetensors", turned ? 2 : 3, turned ? batch : whole, &t);
        assert_int_equal(align_dumps(&s, &t, &a, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "align dumps", "s.safetensors and", "batches of",
                   "the same batch");
        err_clear(&err);
        align_free(&a);
        dump_close(&s);
        dump_close(&t);
    }
}

/* A dump of one draft tap, and of `plain` rows of a plain one. */
static void open_drafts(void **state, const char *name, int64_t plain, int64_t drafts,
                        const char *const *meta, struct dump *out)
{
    struct err err = ERR_INIT;
    struct st_meta m[4];
    int64_t n = 0;
    for (; meta && meta[2 * n]; n++) m[n] = (struct st_meta){meta[2 * n], meta[2 * n + 1]};
    const struct st_part parts[] = {
        {.name = "draft.0.hidden", .dtype = DT_F32, .dims = 2, .shape = {drafts, 2}},
        {.name = "embed", .dtype = DT_F32, .dims = 2, .shape = {plain, 2}}};
    const char *path = folder_path(state, name);
    write_safetensors(path, parts, plain ? 2 : 1, m, n);
    (void)!dump_open(out, path, &err);
    assert_ok(&err);
}

static void draft_rows__match__apart_from_the_others(void **state)
{
    static const char *const own[] = {"assay.tokens", "[1, 2, 3, 4, 5]", NULL};
    static const char *const last[] = {"rows", "last 2", NULL};
    static const char *const cut[] = {"assay.tokens", "[1, 2, 3, 4, 5]", "assay.rows", "[1, 2]",
                                      NULL};
    static const struct {
        int64_t rows, drafts, matched, want[4];
        const char *const *meta;
    } truths[] = {{0, 4, 4, {0, 1, 2, 3}, NULL},
                  {0, 2, 2, {-1, -1, 0, 1}, last},
                  {0, 2, 2, {-1, 0, 1, -1}, cut},
                  {5, 4, 4, {0, 1, 2, 3}, own}};
    for (size_t i = 0; i < sizeof truths / sizeof truths[0]; i++) {
        struct dump s, t;
        struct alignment a;
        struct err err = ERR_INIT;
        open_drafts(state, "s.safetensors", 5, 4, own, &s);
        open_drafts(state, "t.safetensors", truths[i].rows, truths[i].drafts, truths[i].meta, &t);
        (void)!align_dumps(&s, &t, &a, &err);
        assert_ok(&err);
        assert_int_equal(a.draft_matched, truths[i].matched);
        assert_i64_equal(a.draft_row, truths[i].want, 1, 4);
        if (truths[i].rows) assert_int_equal(a.matched, truths[i].rows);
        for (int64_t k = 0; k < a.count; k++) {
            bool draft = tap_is_draft(a.pairs[k].subject->kind);
            assert_ptr_equal(align_map(&a, &a.pairs[k]), draft ? a.draft_row : a.row);
            assert_int_equal(align_count(&a, &a.pairs[k]), draft ? 4 : 5);
            assert_false(a.pairs[k].moe);
        }
        align_free(&a);
        dump_close(&s);
        dump_close(&t);
    }
}

static void dumps__are_refused__when_tokens_differ_or_no_row_matches(void **state)
{
    static const char *const a[] = {"tokens", "[1, 2, 3]", NULL}, *const b[] = {"tokens",
                                                                                "[1, 9, 3]", NULL};
    static const char *const first[] = {"assay.tokens", "[1, 2, 3]", "assay.rows", "[0]", NULL};
    static const char *const third[] = {"assay.tokens", "[1, 2, 3]", "assay.rows", "[2]", NULL};
    struct dump s, t;
    struct alignment al;
    struct err err = ERR_INIT;
    open_dump(state, "s.safetensors", 3, a, &s);
    open_dump(state, "t.safetensors", 3, b, &t);
    assert_int_equal(align_dumps(&s, &t, &al, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "align dumps", "token 1", "2 and 9", "same tokens");
    align_free(&al);
    dump_close(&s);
    dump_close(&t);
    err_clear(&err);
    open_dump(state, "s.safetensors", 1, first, &s);
    open_dump(state, "t.safetensors", 1, third, &t);
    assert_int_equal(align_dumps(&s, &t, &al, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "align dumps", NULL, "no row of the same token", NULL);
    align_free(&al);
    dump_close(&s);
    dump_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows__match__by_count_without_metadata, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(rows__match__leading_ones_of_a_longer_dump, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(rows__match__the_last_ones_where_the_dump_says_so,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(rows__match__by_place_where_both_know_it, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(rows__match__of_a_shorter_sequence_and_of_no_shorter_batch,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(draft_rows__match__apart_from_the_others, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(dumps__are_refused__when_tokens_differ_or_no_row_matches,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
