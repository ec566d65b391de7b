/* test_extract_journal.c: the journal keeps what was settled in order, cuts off what is not whole,
 * and becomes the manifest; a folder of another request, or of somebody else, is left alone. */
#include "harness/extract_journal.h"
#include "tests/extracting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static json_t *request(const char *dtype)
{
    return json_pack("{s:s, s:[i, i]}", "dtype", dtype, "layer_ids", 1, 2);
}

static enum err_code open_as(struct extract_journal *j, const char *folder, const char *dtype,
                             bool resume, struct err *err)
{
    json_t *r = request(dtype);
    *err = (struct err)ERR_INIT;
    (void)!extract_journal_open(j, folder, r, resume, err);
    json_decref(r);
    return err->code;
}

/* Sample n: written with a file of n + 1 bytes, or skipped where n is odd. */
static struct extract_entry entry_of(int64_t n)
{
    struct extract_entry e = {.sample = n, .tokens = n + 7, .bytes = n + 1, .sha256 = SUM};
    if (n % 2 == 0) {
        snprintf(e.file, sizeof e.file, "hs_%lld.safetensors", (long long)n);
        return e;
    }
    return (struct extract_entry){.sample = n, .why = "a \"cause\" with\ta tab"};
}

static void add(struct extract_journal *j, int64_t n)
{
    struct err err = ERR_INIT;
    const struct extract_entry e = entry_of(n);
    if (e.file[0]) write_whole(textf("%s/%s", j->folder, e.file), "xxxxxxxxxxxx", (size_t)e.bytes);
    (void)!extract_journal_add(j, &e, &err);
    assert_ok(&err);
}

static void assert_entry(const struct extract_entry *a, int64_t n)
{
    const struct extract_entry b = entry_of(n);
    assert_int_equal(a->sample, b.sample);
    assert_string_equal(a->file, b.file);
    assert_string_equal(a->why, b.why);
    if (!b.file[0]) return;
    assert_int_equal(a->tokens, b.tokens);
    assert_int_equal(a->bytes, b.bytes);
    assert_string_equal(a->sha256, b.sha256);
}

/* Opens to go on: `first` samples stand. Closed again. */
static void assert_resumes(const char *folder, int64_t first)
{
    struct extract_journal j;
    struct extract_entry e;
    struct err err;
    (void)!open_as(&j, folder, "BF16", true, &err);
    assert_ok(&err);
    assert_int_equal(j.first, first);
    assert_int_equal(j.count, first);
    for (int64_t n = 0; n < first; n++) {
        assert_int_equal(extract_journal_next(&j, &e, &err), ERR_OK);
        assert_entry(&e, n);
    }
    extract_journal_close(&j);
}

static const char *half_done(void **state, int64_t samples)
{
    struct extract_journal j;
    struct err err;
    const char *folder = textf("%s/out", (const char *)*state);
    (void)!open_as(&j, folder, "BF16", false, &err);
    assert_ok(&err);
    for (int64_t n = 0; n < samples; n++) add(&j, n);
    extract_journal_close(&j);
    return folder;
}

static void journal__goes_on_where_it_ended(void **state)
{
    struct extract_journal j;
    struct extract_entry e;
    struct err err;
    const char *folder = half_done(state, 3);
    assert_resumes(folder, 3);
    (void)!open_as(&j, folder, "BF16", true, &err);
    assert_ok(&err);
    add(&j, 3);
    add(&j, 4);
    for (int i = 0; i < 3; i++) assert_int_equal(extract_journal_next(&j, &e, &err), ERR_OK);
    extract_journal_close(&j);
    assert_resumes(folder, 5);
}

/* The journal without its last bytes, for every number of them. */
static void journal__drops_what_is_not_whole__wherever_it_was_cut(void **state)
{
    const char *folder = half_done(state, 3), *path = textf("%s/extract.journal", folder);
    size_t size;
    char *all = read_whole(path, &size);
    size_t lines[4] = {0}, n = 0;
    for (size_t i = 0; i < size; i++) {
        if (all[i] == '\n') lines[n++] = i + 1;
    }
    assert_int_equal(n, 4);
    for (size_t cut = lines[0]; cut <= size; cut++) {
        int64_t stand = (cut >= lines[1]) + (cut >= lines[2]) + (cut >= lines[3]);
        write_whole(path, all, cut);
        assert_resumes(folder, stand);
        write_whole(path, all, cut);
        struct extract_journal j;
        struct err err;
        assert_int_equal(open_as(&j, folder, "BF16", true, &err), ERR_OK);
        for (int64_t k = stand; k < 3; k++) add(&j, k);
        extract_journal_close(&j);
        size_t now;
        char *again = read_whole(path, &now);
        assert_int_equal(now, size);
        assert_memory_equal(again, all, size);
        free(again);
    }
    free(all);
}

static void journal__drops_an_entry__whose_file_is_gone_or_other(void **state)
{
    static const char *const lines[] = {
        "{\"sample\":5,\"why\":\"x\"}\n",
        "{\"sample\":3,\"why\":\"x\",\"file\":\"hs_0.safetensors\"}\n",
        "{\"sample\":3}\n",
        "{\"sample\":3,\"file\":\"hs_0.safetensors\",\"bytes\":1,\"sha256\":\"12\"}\n",
        "{\"sample\":\"3\",\"why\":\"x\"}\n",
        "[3]\n",
    };
    const char *folder = half_done(state, 3), *path = textf("%s/extract.journal", folder);
    char *all = read_whole(path, NULL);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        write_text(path, textf("%s%s", all, lines[i]));
        assert_resumes(folder, 3);
        char *now = read_whole(path, NULL);
        assert_string_equal(now, all);
        free(now);
    }
    write_text(path, all);
    write_text(textf("%s/hs_2.safetensors", folder), "xx");
    assert_resumes(folder, 2);
    write_text(path, all);
    assert_int_equal(unlink(textf("%s/hs_0.safetensors", folder)), 0);
    assert_resumes(folder, 0);
    free(all);
}

static void finish(const char *folder)
{
    struct extract_journal j;
    struct err err;
    json_t *head = request("BF16");
    (void)!open_as(&j, folder, "BF16", true, &err);
    assert_ok(&err);
    json_object_set_new(head, "written", json_integer(2));
    (void)!extract_journal_finish(&j, head, &err);
    assert_ok(&err);
    extract_journal_close(&j);
    json_decref(head);
}

static void manifest__holds_every_entry__and_opens_again(void **state)
{
    const char *folder = half_done(state, 3);
    finish(folder);
    assert_false(file_exists(textf("%s/extract.journal", folder)));
    json_t *m = extract_manifest(folder);
    assert_int_equal(field_int(m, "written"), 2);
    assert_int_equal(json_array_size(field(m, "samples")), 2);
    assert_int_equal(json_array_size(field(m, "skipped")), 1);
    assert_int_equal(field_int(json_array_get(field(m, "skipped"), 0), "sample"), 1);
    assert_string_equal(field_text(json_array_get(field(m, "samples"), 1), "sha256"), SUM);
    json_decref(m);
    uint64_t print = extract_print(folder);
    assert_resumes(folder, 3);
    assert_false(file_exists(textf("%s/manifest.json", folder)));
    finish(folder);
    assert_true(print == extract_print(folder));
    /* One file gone: everything from it on is to be made again. */
    assert_int_equal(unlink(textf("%s/hs_2.safetensors", folder)), 0);
    assert_resumes(folder, 2);
}

static void manifest__is_written__for_no_sample_at_all(void **state)
{
    const char *folder = half_done(state, 0);
    finish(folder);
    json_t *m = extract_manifest(folder);
    assert_int_equal(json_array_size(field(m, "samples")), 0);
    assert_int_equal(json_array_size(field(m, "skipped")), 0);
    json_decref(m);
}

/* A run killed between manifest and journal leaves both. */
static void journal__wins__where_both_are_there(void **state)
{
    const char *folder = half_done(state, 3), *path = textf("%s/extract.journal", folder);
    char *journal = read_whole(path, NULL);
    finish(folder);
    uint64_t print = extract_print(folder);
    write_text(path, journal);
    assert_resumes(folder, 3);
    finish(folder);
    assert_true(print == extract_print(folder));
    free(journal);
}

static void folder__is_refused__and_left_alone(void **state)
{
    struct extract_journal j;
    struct err err;
    const char *folder = half_done(state, 3), *path = textf("%s/extract.journal", folder);
    const char *temporary = textf("%s/hs_3.safetensors.tmp-77", folder);
    write_text(temporary, "half");
    uint64_t print = extract_print(folder);
    assert_int_equal(open_as(&j, folder, "BF16", false, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "extract", "out", "in it", "an empty folder, or --resume");
    extract_journal_close(&j);
    assert_int_equal(open_as(&j, folder, "F32", true, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "resume", "out: dtype", "\"F32\"", "\"BF16\"");
    extract_journal_close(&j);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_int_equal(open_as(&j, folder, "BF16", true, &err), ERR_IO);
    assert_err(&err, ERR_IO, "resume", "out", "another extract at work", "one at a time");
    extract_journal_close(&j);
    close(other);
    assert_true(print == extract_print(folder));
    assert_resumes(folder, 3);
    assert_false(file_exists(temporary));
    write_text(path, "no journal\n");
    assert_int_equal(open_as(&j, folder, "BF16", true, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "parse JSON", "extract.journal", NULL, NULL);
    extract_journal_close(&j);
    write_text(path, "{\"dtype\":\"BF16\"}\n");
    assert_int_equal(open_as(&j, folder, "BF16", true, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "resume", "layer_ids", "[1,2]", "nothing");
    extract_journal_close(&j);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_as(&j, folder, "BF16", true, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "resume", "out", "and no extract.journal", "an empty one");
    extract_journal_close(&j);
    assert_true(file_exists(textf("%s/hs_0.safetensors", folder)));
}

static void folder__goes__when_nothing_was_written_to_it(void **state)
{
    const char *made = half_done(state, 0);
    assert_false(file_exists(made));
    const char *there = textf("%s/there", (const char *)*state);
    assert_int_equal(mkdir(there, 0777), 0);
    struct extract_journal j;
    struct err err;
    assert_int_equal(open_as(&j, there, "BF16", false, &err), ERR_OK);
    extract_journal_close(&j);
    assert_int_equal(folder_count(there), 0);
    /* A file that is not settled yet keeps the journal: without it nobody could go on. */
    assert_int_equal(open_as(&j, there, "BF16", false, &err), ERR_OK);
    write_text(textf("%s/hs_0.safetensors", there), "x");
    extract_journal_close(&j);
    assert_int_equal(folder_count(there), 2);
    assert_resumes(there, 0);
}

static void temporaries__go__and_other_files_stay(void **state)
{
    static const struct {
        const char *name;
        bool ours;
    } rows[] = {
        {"data_12.pt.tmp-5", true},
        {"hs_1.safetensors.tmp-123456", true},
        {"manifest.json.tmp-1", true},
        {"extract.journal.tmp-1", true},
        {"rows_0-2000/data_1.ckpt.tmp-9", true},
        {"vocab_mapping/vocab_mapping.pt.tmp-9", true},
        {"data_12.pt", false},
        {"data_12.pt.tmp-", false},
        {"data_12.pt.tmp-5x", false},
        {"notes.tmp-5", false},
        {"other/data_1.pt.tmp-5", false},
    };
    const char *folder = *state;
    static const char *const folders[] = {"rows_0-2000", "vocab_mapping", "other"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(mkdir(textf("%s/%s", folder, folders[i]), 0777), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        write_text(textf("%s/%s", folder, rows[i].name), "x");
    extract_temporaries_remove(folder);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(file_exists(textf("%s/%s", folder, rows[i].name)), !rows[i].ours);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(journal__goes_on_where_it_ended),
        TEST(journal__drops_what_is_not_whole__wherever_it_was_cut),
        TEST(journal__drops_an_entry__whose_file_is_gone_or_other),
        TEST(manifest__holds_every_entry__and_opens_again),
        TEST(manifest__is_written__for_no_sample_at_all),
        TEST(journal__wins__where_both_are_there),
        TEST(folder__is_refused__and_left_alone),
        TEST(folder__goes__when_nothing_was_written_to_it),
        TEST(temporaries__go__and_other_files_stay),
    };
    return cmocka_run_group_tests_name("extract_journal", tests, NULL, NULL);
}
