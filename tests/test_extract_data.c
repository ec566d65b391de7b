/* test_extract_data.c: samples are read one at a time from every kind of data; a bad one is told by
 * number, line, place and cause, and the next one is read all the same. */
#include "harness/extract_data.h"
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>

static struct extract_data opened(const char *spec, int64_t length_max)
{
    struct extract_data d;
    struct err err = ERR_INIT;
    (void)!extract_data_open(&d, spec, &err);
    assert_ok(&err);
    d.limits = (struct extract_limits){.vocab = 100, .length_max = length_max};
    return d;
}

static struct extract_sample next(struct extract_data *d)
{
    struct extract_sample s;
    struct err err = ERR_INIT;
    bool more;
    (void)!extract_data_next(d, &s, &more, &err);
    assert_ok(&err);
    assert_true(more);
    return s;
}

static void assert_end(struct extract_data *d)
{
    struct extract_sample s;
    struct err err = ERR_INIT;
    bool more;
    assert_int_equal(extract_data_next(d, &s, &more, &err), ERR_OK);
    assert_false(more);
}

static void assert_good(struct extract_sample *s, int64_t number, const char *ids, const char *mask)
{
    char *text = NULL;
    size_t size = 0;
    assert_ok(&s->bad);
    assert_int_equal(s->number, number);
    for (int which = 0; which < 2; which++) {
        FILE *f = open_memstream(&text, &size);
        assert_non_null(f);
        for (int64_t i = 0; i < s->count; i++)
            fprintf(f, "%s%lld", i ? "," : "", (long long)(which ? s->mask : s->id)[i]);
        fclose(f);
        assert_string_equal(text, which ? mask : ids);
        free(text);
    }
    extract_sample_free(s);
}

static void lines__are_samples__whatever_their_form(void **state)
{
    const char *path = folder_path(state, "d.jsonl");
    write_text(path, "{\"input_ids\": [1, 2, 3], \"loss_mask\": [0, 1, 1]}\n"
                     "\n \t\r\n"
                     "[4]\r\n"
                     "{\"tokens\": [5, 6], \"loss_mask\": null, \"more\": {}}\n"
                     "{\"input_ids\": [99], \"tokens\": [1]}");
    struct extract_data d = opened(path, 10);
    assert_int_equal(d.total, 4);
    struct extract_sample s = next(&d);
    assert_true(s.masked);
    assert_good(&s, 0, "1,2,3", "0,1,1");
    s = next(&d);
    assert_false(s.masked);
    assert_good(&s, 1, "4", "1");
    s = next(&d);
    assert_good(&s, 2, "5,6", "1,1");
    s = next(&d);
    assert_good(&s, 3, "99", "1");
    assert_end(&d);
    extract_data_close(&d);
}

static void sample__is_bad__and_the_next_one_is_read(void **state)
{
    static const struct {
        const char *line, *what, *where, *found, *wanted;
    } rows[] = {
        {"[1, 2", "parse JSON", "sample 1 (line 3): line 1", NULL, "valid JSON"},
        {"nonsense", "parse JSON", "sample 1 (line 3)", NULL, "valid JSON"},
        {"{\"input_ids\": []}", "read sample", "sample 1 (line 3)", "no tokens", "at least one"},
        {"[1, 2, 3, 4, 5]", "read sample", "sample 1 (line 3)", "5 tokens", "at most 4"},
        {"[1, -4]", "read sample", "sample 1 (line 3): input_ids[1]", "-4", "0 to 99"},
        {"[1, 100]", "read sample", "sample 1 (line 3): input_ids[1]", "100",
         "0 to 99, the vocabulary"},
        {"[1, 2.0]", "read sample", "input_ids[1]", "a fraction", "0 to 99"},
        {"[1, \"2\"]", "read sample", "input_ids[1]", "a string", NULL},
        {"[[1], [2]]", "read sample", "input_ids[0]", "an array", NULL},
        {"[99999999999999999999]", "parse JSON", "sample 1 (line 3)", "too big", NULL},
        {"{}", "read sample", "sample 1 (line 3)", "an object without them", "input_ids"},
        {"{\"input_ids\": 5}", "read sample", "sample 1 (line 3)", "an integer", NULL},
        {"7", "parse JSON", "sample 1 (line 3)", NULL, NULL},
        {"{\"input_ids\": [1, 2], \"loss_mask\": [1]}", "read sample", "loss_mask", "1 entries",
         "2, as input_ids has"},
        {"{\"input_ids\": [1, 2], \"loss_mask\": [1, 2]}", "read sample", "loss_mask[1]", "2",
         "0 to 1"},
        {"{\"input_ids\": [1], \"loss_mask\": [true]}", "read sample", "loss_mask[0]", "true",
         "0 to 1"},
        {"{\"input_ids\": [1], \"loss_mask\": \"1\"}", "read sample", "loss_mask", "a string",
         "an array"},
        {"{\"input_ids\": [1], \"input_ids\": [2]}", "parse JSON", "sample 1 (line 3)", "duplicate",
         NULL},
        {"\xff", "parse JSON", "sample 1 (line 3)", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = folder_path(state, "d.jsonl");
        write_text(path, textf("[1]\n\n%s\n[2]\n", rows[i].line));
        struct extract_data d = opened(path, 4);
        struct extract_sample s = next(&d);
        assert_good(&s, 0, "1", "1");
        s = next(&d);
        assert_err(&s.bad, ERR_INPUT, rows[i].what, rows[i].where, rows[i].found, rows[i].wanted);
        assert_int_equal(s.count, 0);
        assert_null(s.id);
        s = next(&d);
        assert_good(&s, 2, "2", "1");
        assert_end(&d);
        extract_data_close(&d);
    }
}

static void json__holds_one_sample_or_many(void **state)
{
    static const struct {
        const char *text;
        int64_t total;
        const char *first, *mask;
    } rows[] = {
        {"[1, 2]", 1, "1,2", "1,1"},
        {"[[1, 2], [3]]", 2, "1,2", "1,1"},
        {"[{\"input_ids\": [1, 2], \"loss_mask\": [1, 0]}, [3]]", 2, "1,2", "1,0"},
        {"{\"tokens\": [1, 2]}", 1, "1,2", "1,1"},
        {"{\"input_ids\": [1, 2], \"loss_mask\": [0, 1]}", 1, "1,2", "0,1"},
        {"{\"input_ids\": [[1, 2], [3], [4]]}", 3, "1,2", "1,1"},
    };
    const char *path = textf("%s/d.json", (const char *)*state);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int at = 0; at < 2; at++) {
            write_text(path, rows[i].text);
            struct extract_data d = opened(textf("%s%s", at ? "@" : "", path), 10);
            assert_int_equal(d.total, rows[i].total);
            struct extract_sample s = next(&d);
            assert_good(&s, 0, rows[i].first, rows[i].mask);
            for (int64_t k = 1; k < d.total; k++) {
                s = next(&d);
                assert_ok(&s.bad);
                extract_sample_free(&s);
            }
            assert_end(&d);
            extract_data_close(&d);
        }
    }
}

static void lists_and_tensors__are_samples_too(void **state)
{
    struct extract_data d = opened("7,8,9", 10);
    struct extract_sample s = next(&d);
    assert_false(s.masked);
    assert_good(&s, 0, "7,8,9", "1,1,1");
    assert_end(&d);
    extract_data_close(&d);
    static const int64_t ids[] = {1, 2, 3, 4, 100, 6};
    const struct st_part part = {"input_ids", DT_I64, 2, {3, 2}, ids};
    const char *path = textf("%s/d.safetensors", (const char *)*state);
    write_safetensors(path, &part, 1, NULL, 0);
    d = opened(path, 10);
    assert_int_equal(d.total, 3);
    s = next(&d);
    assert_good(&s, 0, "1,2", "1,1");
    s = next(&d);
    assert_good(&s, 1, "3,4", "1,1");
    s = next(&d);
    assert_err(&s.bad, ERR_INPUT, "read sample", "sample 2: input_ids[0]", "100", "0 to 99");
    assert_end(&d);
    extract_data_close(&d);
    d = opened(path, 1);
    s = next(&d);
    assert_err(&s.bad, ERR_INPUT, "read sample", "sample 0", "2 tokens", "at most 1");
    extract_data_close(&d);
}

static void data__has_a_hash__that_follows_its_bytes(void **state)
{
    const char *path = textf("%s/d.jsonl", (const char *)*state);
    char first[DIGEST_TEXT];
    write_text(path, "[1]\n");
    struct extract_data d = opened(path, 4);
    memcpy(first, d.sha256, sizeof first);
    assert_int_equal(strlen(first), 64);
    extract_data_close(&d);
    write_text(path, "[1]\n\n");
    d = opened(path, 4);
    assert_string_not_equal(first, d.sha256);
    extract_data_close(&d);
}

static void data__is_refused__when_it_holds_nothing(void **state)
{
    static const struct {
        const char *name, *text;
        const char *what, *found;
    } rows[] = {
        {"d.jsonl", "", "read samples", "none"},      {"d.jsonl", "\n \n", "read samples", "none"},
        {"d.json", "[]", "read samples", "none"},     {"d.json", "", "parse JSON", NULL},
        {"d.json", "[1", "parse JSON", NULL},         {"d.txt", "hello", "parse JSON", NULL},
        {"d.safetensors", "no", "safetensors", NULL},
    };
    struct extract_data d;
    struct err err = ERR_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = textf("%s/%s", (const char *)*state, rows[i].name);
        write_text(path, rows[i].text);
        err_clear(&err);
        assert_int_equal(extract_data_open(&d, path, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, rows[i].what, rows[i].name, rows[i].found, NULL);
        extract_data_close(&d);
    }
    static const char *const specs[] = {"nowhere.jsonl", "nowhere.json", "1,,2", "", "."};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        err_clear(&err);
        assert_int_equal(extract_data_open(&d, specs[i], &err), ERR_INPUT);
        assert_true(err.what[0] && err.found[0]);
        extract_data_close(&d);
    }
    char *path = calloc(1, FILE_PATH + 8);
    assert_non_null(path);
    memset(path, 'x', FILE_PATH + 1);
    err_clear(&err);
    assert_int_equal(extract_data_open(&d, path, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "path", "--data", NULL, "fewer than");
    free(path);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(lines__are_samples__whatever_their_form),
        TEST(sample__is_bad__and_the_next_one_is_read),
        TEST(json__holds_one_sample_or_many),
        TEST(lists_and_tensors__are_samples_too),
        TEST(data__has_a_hash__that_follows_its_bytes),
        TEST(data__is_refused__when_it_holds_nothing),
    };
    return cmocka_run_group_tests_name("extract_data", tests, NULL, NULL);
}
