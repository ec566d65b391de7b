/* test_guard_fold.c: the guard's log as it is read back, and findings joined from lines, exceptions
 * and processes. */
#include "harness/guard_fold.h"
#include "tests/cli.h"

#include <string.h>

/* A log of these records; its findings are read into l. */
static void read_log(void **state, struct guard_log *l, const char *text)
{
    struct err err = ERR_INIT;
    const char *path = folder_path(state, "log");
    write_text(path, text);
    assert_int_equal(guard_log_read(l, path, 0, &err), ERR_OK);
}

static void log__folds_counts__and_drops_what_was_withdrawn(void **state)
{
    struct guard_log l;
    read_log(state, &l,
             "{\"k\": \"hello\"}\n{\"k\": \"finding\", \"id\": \"1-1\", \"count\": 1}\n"
             "{\"k\": \"finding\", \"id\": \"1-2\", \"count\": 1}\n"
             "{\"k\": \"count\", \"id\": \"1-1\", \"count\": 0}\n"
             "{\"k\": \"count\", \"id\": \"1-2\", \"count\": 9}\n"
             "{\"k\": \"count\", \"id\": \"none\", \"count\": 9}\n{\"k\": \"own\"}\n{\"torn");
    assert_int_equal(l.pythons, 1);
    assert_int_equal(l.broken, 1);
    assert_int_equal(json_array_size(l.own), 1);
    assert_int_equal(json_array_size(l.findings), 1);
    assert_int_equal(field_int(json_array_get(l.findings, 0), "count"), 9);
    guard_log_free(&l);
}

static void log__is_read_from_where_this_run_began__and_may_be_missing(void **state)
{
    struct guard_log l;
    struct err err = ERR_INIT;
    const char *path = folder_path(state, "log");
    write_text(path, "{\"k\": \"hello\"}\n");
    json_t *record = json_pack("{s:s}", "k", "hello");
    guard_log_append(path, record, 1);
    json_decref(record);
    assert_int_equal(guard_log_read(&l, path, 15, &err), ERR_OK);
    assert_int_equal(l.pythons, 1);
    guard_log_free(&l);
    assert_int_equal(guard_log_read(&l, folder_path(state, "none"), 0, &err), ERR_OK);
    assert_int_equal(json_array_size(l.findings), 0);
    guard_log_free(&l);
}

static struct guard_lines lines;

static void see(const char *text)
{
    lines = (struct guard_lines){0};
    guard_lines_feed(&lines, text, strlen(text), 5);
    guard_lines_end(&lines, 5);
}

static const char *rule_at(const struct guard_log *l, size_t i)
{
    return field_text(json_array_get(l->findings, i), "rule");
}

static void lines__join_the_exception_with_an_empty_text__nearest_in_time(void **state)
{
    struct guard_log l;
    int others = 0;
    read_log(
        state, &l,
        "{\"k\": \"finding\", \"rule\": \"empty_text\", \"count\": 1, \"time\": 90, \"message\": "
        "\"\"}\n{\"k\": \"finding\", \"rule\": \"empty_text\", \"count\": 1, \"time\": 4.9, "
        "\"message\": \"\"}\n");
    see("ERROR in batch 0-3: \n");
    guard_fold_lines(&l, &lines, "stdout", &others, true);
    assert_int_equal(json_array_size(l.findings), 2);
    assert_null(json_object_get(json_array_get(l.findings, 0), "said"));
    assert_string_equal(field_text(json_array_get(l.findings, 1), "said"), "ERROR in batch 0-3: ");
    see("ERROR: \nERROR: \n"); /* one is the other's, for the last there is none */
    guard_fold_lines(&l, &lines, "stderr", &others, true);
    assert_int_equal(json_array_size(l.findings), 3);
    assert_string_equal(rule_at(&l, 2), "empty_line");
    assert_string_equal(field_text(json_array_get(l.findings, 2), "file"), "stderr");
    assert_int_equal(field_int(json_array_get(l.findings, 2), "line"), 2);
    guard_log_free(&l);
}

static void lines__that_say_something__count_only_where_all_seemed_well(void **state)
{
    struct guard_log l;
    int others = 0;
    read_log(state, &l,
             "{\"k\": \"note\", \"rule\": \"text_only\", \"message\": \"no room\", \"type\": "
             "\"OSError\"}\n");
    see("ERROR: no room\nERROR: other\n");
    guard_fold_lines(&l, &lines, "stdout", &others, false);
    assert_int_equal(json_array_size(l.findings), 0);
    guard_fold_lines(&l, &lines, "stdout", &others, true);
    assert_int_equal(json_array_size(l.findings), 2);
    assert_string_equal(field_text(json_array_get(l.findings, 0), "type"), "OSError");
    assert_string_equal(rule_at(&l, 0), "error_line");
    guard_log_free(&l);
}

static void lines__are_explained_by_a_trace_of_another_stream__once(void **state)
{
    struct guard_log l;
    int others = 1;
    read_log(state, &l, "");
    see("ERROR: a\nERROR: b\n");
    guard_fold_lines(&l, &lines, "stdout", &others, true);
    assert_int_equal(json_array_size(l.findings), 1);
    assert_int_equal(others, 0);
    guard_log_free(&l);
}

static void children__take_the_trace_of_their_error(void **state)
{
    struct guard_log l;
    read_log(
        state, &l,
        "{\"k\": \"note\", \"rule\": \"worker_error\", \"pid\": 7, \"type\": \"ValueError\", "
        "\"line\": 3}\n{\"k\": \"finding\", \"rule\": \"child_status\", \"child\": 7, \"type\": "
        "null}\n{\"k\": \"finding\", \"rule\": \"child_status\", \"child\": 8, \"type\": null}\n");
    guard_fold_children(&l);
    assert_string_equal(field_text(json_array_get(l.findings, 0), "type"), "ValueError");
    assert_int_equal(field_int(json_array_get(l.findings, 0), "line"), 3);
    assert_true(json_is_null(field(json_array_get(l.findings, 1), "type")));
    guard_log_free(&l);
}

static void harmless__is_marked_with_the_first_reason_that_fits(void **state)
{
    struct guard_log l;
    read_log(state, &l,
             "{\"k\": \"finding\", \"message\": \"no kernel\"}\n{\"k\": \"finding\", \"message\": "
             "\"else\"}\n");
    json_t *patterns = json_loads("[{\"text\": \"*kernel*\", \"reason\": \"one\"}, {\"text\": "
                                  "\"no*\", \"reason\": \"two\"}, {\"text\": \"\", \"reason\": "
                                  "\"three\"}]",
                                  0, NULL);
    guard_fold_harmless(&l, patterns);
    json_decref(patterns);
    assert_string_equal(field_text(json_array_get(l.findings, 0), "harmless"), "one");
    assert_null(json_object_get(json_array_get(l.findings, 1), "harmless"));
    guard_log_free(&l);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(log__folds_counts__and_drops_what_was_withdrawn),
        FOLDER(log__is_read_from_where_this_run_began__and_may_be_missing),
        FOLDER(lines__join_the_exception_with_an_empty_text__nearest_in_time),
        FOLDER(lines__that_say_something__count_only_where_all_seemed_well),
        FOLDER(lines__are_explained_by_a_trace_of_another_stream__once),
        FOLDER(children__take_the_trace_of_their_error),
        FOLDER(harmless__is_marked_with_the_first_reason_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
