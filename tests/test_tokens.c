/* test_tokens.c: token lists of every form, and what is refused. */
#include "harness/tokens.h"
#include "tests/assert_array.h"
#include "tests/support.h"

#include <string.h>

static void check(const char *spec, const int64_t *id, int64_t count, const int64_t *length,
                  int64_t sequences)
{
    struct tokens t;
    struct err err = ERR_INIT;
    (void)!tokens_read(spec, &t, &err);
    assert_ok(&err);
    assert_int_equal(t.count, count);
    assert_int_equal(t.sequences, sequences);
    assert_i64_equal(t.id, id, 1, count);
    assert_i64_equal(t.length, length, 1, sequences);
    tokens_free(&t);
}

static const int64_t ids[] = {1, 5, 9, 7}, three[] = {3}, four[] = {4}, batch[] = {3, 1};

static void tokens__are_read__from_a_list(void **state)
{
    (void)state;
    check("1,5,9", ids, 3, three, 1);
}

static void tokens__are_read__from_json_files(void **state)
{
    const char *path = folder_path(state, "t.json");
    write_text(path, "[1, 5, 9]");
    check(path, ids, 3, three, 1);
    write_text(path, "[[1, 5, 9], [7]]");
    check(path, ids, 4, batch, 2);
    write_text(path, "{\"seed\": 3, \"tokens\": [1, 5, 9, 7]}");
    char at[FILE_PATH] = "@";
    strncat(at, path, sizeof at - 2);
    check(at, ids, 4, four, 1);
    path = folder_path(state, "t.jsonl");
    write_text(path, "{\"input_ids\": [1, 5, 9]}\n\n{\"input_ids\": [7], \"loss_mask\": [1]}\n");
    check(path, ids, 4, batch, 2);
}

static void tokens__are_read__from_safetensors(void **state)
{
    static const int32_t one[] = {1, 5, 9};
    static const int64_t two[] = {1, 5, 9, 7}, lengths[] = {2, 2};
    const char *path = folder_path(state, "t.safetensors");
    const struct st_part row = {
        .name = "input_ids", .dtype = DT_I32, .dims = 1, .shape = {3}, .data = one};
    write_safetensors(path, &row, 1, NULL, 0);
    check(path, ids, 3, three, 1);
    const struct st_part rows = {
        .name = "input_ids", .dtype = DT_I64, .dims = 2, .shape = {2, 2}, .data = two};
    write_safetensors(path, &rows, 1, NULL, 0);
    check(path, ids, 4, lengths, 2);
}

static void tokens__are_refused__with_the_place(void **state)
{
    static const struct {
        const char *text, *where, *found;
    } bad[] = {
        {"[]", "sequence 0", "no tokens"},
        {"[1, -5]", "token 1", "-5"},
        {"[1, 2.5]", "entry 1", "a fraction"},
        {"[[1], []]", "sequence 1", "no tokens"},
        {"[[1], 2]", "sequence 1", "an integer"},
        {"{\"ids\": [1]}", NULL, "an object without them"},
        {"\"1,2\"", "line 1", NULL},
        {"[1, 2", "line 1", NULL},
        {"", "line 1", NULL},
    };
    const char *path = folder_path(state, "bad.json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tokens t;
        struct err err = ERR_INIT;
        write_text(path, bad[i].text);
        assert_int_equal(tokens_read(path, &t, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, NULL, bad[i].where, bad[i].found, NULL);
        tokens_free(&t);
    }
    static const char *const lists[] = {"1,,2", "1,x2", "1,2,", "-3", "99999999999999999999"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct tokens t;
        struct err err = ERR_INIT;
        assert_int_equal(tokens_read(lists[i], &t, &err), ERR_INPUT);
        assert_true(err.what[0] && err.where[0]);
        tokens_free(&t);
    }
}

static void tokens_check__names_the_token__outside_the_vocabulary(void **state)
{
    (void)state;
    int64_t id[] = {0, 511, 512}, length[] = {3};
    const struct tokens t = {id, 3, length, 1};
    struct err err = ERR_INIT;
    assert_int_equal(tokens_check(&t, 513, &err), ERR_OK);
    assert_int_equal(tokens_check(&t, 512, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "token id", "token 2", "512", "0 to 511");
}

static void tokens_copy__refuses_lengths__that_do_not_sum(void **state)
{
    (void)state;
    static const int64_t id[] = {1, 2, 3}, good[] = {2, 1}, many[] = {2, 2}, few[] = {1, 1};
    struct tokens t;
    struct err err = ERR_INIT;
    assert_int_equal(tokens_copy(id, 3, good, 2, &t, &err), ERR_OK);
    assert_int_equal(t.sequences, 2);
    tokens_free(&t);
    assert_int_equal(tokens_copy(id, 3, many, 2, &t, &err), ERR_INPUT);
    tokens_free(&t);
    err_clear(&err);
    assert_int_equal(tokens_copy(id, 3, few, 2, &t, &err), ERR_INPUT);
    tokens_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens__are_read__from_a_list),
        cmocka_unit_test_setup_teardown(tokens__are_read__from_json_files, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(tokens__are_read__from_safetensors, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(tokens__are_refused__with_the_place, folder_setup,
                                        folder_teardown),
        cmocka_unit_test(tokens_check__names_the_token__outside_the_vocabulary),
        cmocka_unit_test(tokens_copy__refuses_lengths__that_do_not_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
