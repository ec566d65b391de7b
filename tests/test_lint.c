/* test_lint.c: `assay lint` as its users meet it. For each rule, fixtures/lint/found/RULE.py or .sh
 * holds lines that must be found, marked "# found", and fixtures/lint/fine/RULE.* lines that must
 * not; fixtures/lint/clean/ holds whole scripts in which nothing may be found. */
#include "harness/lint.h"

#include "tests/cli.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fixtures/lint/KIND/RULE with its ending, or NULL. */
static const char *fixture_of(const char *kind, const char *rule)
{
    static const char *const ends[] = {".py", ".sh"};
    for (int i = 0; i < 2; i++) {
        const char *path = textf("%s%s/%s%s", FIXTURE("lint/"), kind, rule, ends[i]);
        if (file_exists(path)) return path;
    }
    return NULL;
}

static const json_t *findings_of(const json_t *result)
{
    const json_t *list = field(result, "findings");
    assert_true(json_is_array(list));
    assert_int_equal(json_array_size(field(result, "unread")), 0);
    return list;
}

static bool has_line(const json_t *findings, const char *rule, int64_t line)
{
    size_t i;
    const json_t *f;
    json_array_foreach(findings, i, f)
    {
        if (strcmp(field_text(f, "rule"), rule) == 0 && field_int(f, "line") == line) return true;
    }
    return false;
}

/* Every line marked "# found" is in the list, and nothing else is. */
static void assert_marked(const char *path, const char *rule, const json_t *findings)
{
    size_t size, marked = 0;
    char *text = read_whole(path, &size);
    int64_t line = 1;
    for (char *at = text; *at; line++) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        *end = '\0';
        if (strstr(at, "# found")) {
            marked++;
            if (!has_line(findings, rule, line))
                fail_msg("%s:%lld: %s was not found", path, (long long)line, rule);
        }
        at = end + 1;
    }
    free(text);
    assert_true(marked > 0);
    if (json_array_size(findings) != marked)
        fail_msg("%s: %zu findings, %zu lines marked", path, json_array_size(findings), marked);
}

static void rule__finds_the_marked_lines_and_no_others(void **state)
{
    (void)state;
    for (int i = 0; i < LINT_RULES; i++) {
        const struct lint_rule *rule = &lint_rules[i];
        const char *path = fixture_of("found", rule->id);
        if (!path) fail_msg("no fixture for %s", rule->id);
        struct cli r;
        cli(&r, "lint", path, "--json");
        assert_int_equal(r.status, rule->severity == LINT_NOTE ? 0 : 1);
        assert_non_null(r.json);
        assert_marked(path, rule->id, findings_of(r.json));
        cli_free(&r);
    }
}

static void rule__lets_pass_what_is_fine(void **state)
{
    (void)state;
    for (int i = 0; i < LINT_RULES; i++) {
        const char *path = fixture_of("fine", lint_rules[i].id);
        if (!path) fail_msg("no fixture for %s", lint_rules[i].id);
        struct cli r;
        size_t k;
        const json_t *f;
        cli(&r, "lint", path, "--json");
        assert_non_null(r.json);
        json_array_foreach(findings_of(r.json), k, f)
        {
            bool accepted = json_object_get(f, "accepted") != NULL;
            if (!accepted && strcmp(field_text(f, "rule"), lint_rules[i].id) == 0)
                fail_msg("%s:%lld: %s", path, (long long)field_int(f, "line"),
                         field_text(f, "message"));
        }
        cli_free(&r);
    }
}

static void clean_scripts__have_no_finding(void **state)
{
    (void)state;
    DIR *folder = opendir(FIXTURE("lint/clean"));
    int scripts = 0;
    assert_non_null(folder);
    for (const struct dirent *d; (d = readdir(folder));) {
        if (d->d_name[0] == '.') continue;
        json_t *result = cli_passes("lint", textf("%s/%s", FIXTURE("lint/clean"), d->d_name));
        assert_int_equal(json_array_size(findings_of(result)), 0);
        json_decref(result);
        scripts++;
    }
    closedir(folder);
    assert_int_equal(scripts, 10);
}

static void finding__has_the_fields_of_the_command_line_page(void **state)
{
    const char *path = folder_path(state, "a.py");
    write_text(path, "class A:\n    def run(self, work):\n        try:\n            work()\n"
                     "        except Exception as e:\n            print(f'{e}')\n");
    json_t *result = cli_fails("lint", path);
    assert_int_equal(json_array_size(field(result, "findings")), 1);
    const json_t *f = json_array_get(field(result, "findings"), 0);
    assert_string_equal(field_text(f, "rule"), "handler.message");
    assert_string_equal(field_text(f, "file"), path);
    assert_int_equal(field_int(f, "line"), 5);
    assert_string_equal(field_text(f, "function"), "A.run");
    assert_string_equal(field_text(f, "type"), "Exception");
    assert_string_equal(field_text(f, "severity"), "warning");
    assert_non_null(strstr(field_text(f, "message"), "line 6"));
    assert_true(field_text(f, "why")[0] && field_text(f, "remedy")[0]);
    assert_true(json_is_array(field(f, "trace")));
    assert_int_equal(field_int(field(result, "counts"), "open"), 1);
    assert_int_equal(field_int(field(result, "counts"), "handlers"), 1);
    json_decref(result);
}

static void comment__accepts_with_a_reason_on_the_handler(void **state)
{
    static const char text[] = "try:\n    work()\nexcept Exception:%s\n    pass\n";
    const char *path = folder_path(state, "a.py");
    write_text(path, textf(text, "  # assay: ignore[handler.swallow probed on purpose]"));
    json_t *result = cli_passes("lint", path);
    const json_t *f = json_array_get(field(result, "findings"), 0);
    assert_string_equal(field_text(f, "accepted"), "probed on purpose");
    assert_int_equal(field_int(field(result, "counts"), "accepted"), 1);
    json_decref(result);
    static const char *const bad[] = {"  # assay: ignore[handler.swallow]",
                                      "  # assay: ignore[handler.message wrong rule]",
                                      "  # assay: ignore[handler.swalow no such]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text(path, textf(text, bad[i]));
        result = cli_fails("lint", path);
        assert_true(has_line(field(result, "findings"), "handler.swallow", 3));
        assert_true(has_line(field(result, "findings"), "lint.suppress", 3));
        json_decref(result);
    }
}

static void comment__in_a_string_accepts_nothing(void **state)
{
    const char *path = folder_path(state, "a.py");
    write_text(path, "try:\n    work('# assay: ignore[handler.swallow x]')\n"
                     "except Exception: x = '# assay: ignore[handler.swallow x]'\n");
    json_t *result = cli_fails("lint", path);
    assert_int_equal(field_int(field(result, "counts"), "open"), 1);
    json_decref(result);
}

static void folder__is_searched_for_all_kinds(void **state)
{
    struct err err = ERR_INIT;
    assert_int_equal(file_make_folder(folder_path(state, "d/sub"), &err), ERR_OK);
    assert_int_equal(file_make_folder(folder_path(state, "d/.hidden"), &err), ERR_OK);
    write_text(folder_path(state, "d/a.py"), "import os\nos.system('x')\n");
    write_text(folder_path(state, "d/sub/b.sh"), "set -e\nmake || true\n");
    write_text(folder_path(state, "d/tool"), "#!/usr/bin/env python3\nimport os\nos.system('x')\n");
    write_text(folder_path(state, "d/run"), "#!/bin/bash -e\nmake || true\n");
    write_text(folder_path(state, "d/data"), "make || true\n");
    write_text(folder_path(state, "d/.hidden/c.sh"), "make || true\n");
    json_t *result = cli_fails("lint", folder_path(state, "d/"));
    assert_int_equal(field_int(field(result, "counts"), "python"), 2);
    assert_int_equal(field_int(field(result, "counts"), "shell"), 2);
    assert_int_equal(field_int(field(result, "counts"), "open"), 4);
    json_decref(result);
}

static void nothing_to_look_at__is_not_green(void **state)
{
    struct err err = ERR_INIT;
    assert_int_equal(file_make_folder(folder_path(state, "empty"), &err), ERR_OK);
    struct refusal none = {2, "lint", "files", "neither", "at least one"};
    cli_refuses(state, none, "lint", folder_path(state, "empty"));
    write_text(folder_path(state, "notes.txt"), "make || true\n");
    struct refusal other = {2, "lint", "notes.txt", "neither", "Python"};
    cli_refuses(state, other, "lint", folder_path(state, "notes.txt"));
    struct refusal gone = {2, NULL, "gone.sh", NULL, NULL};
    cli_refuses(state, gone, "lint", folder_path(state, "gone.sh"));
}

static void unreadable_source__is_not_green(void **state)
{
    write_text(folder_path(state, "bad.py"), "def f(:\n");
    struct refusal python = {2, "lint", "bad.py:1", "syntax error", NULL};
    cli_refuses(state, python, "lint", folder_path(state, "bad.py"));
    write_text(folder_path(state, "bad.sh"), "set -e\necho 'it\n");
    struct refusal shell = {2, "lint", "bad.sh:2", "a quote", NULL};
    cli_refuses(state, shell, "lint", folder_path(state, "bad.sh"));
}

static void without_python__shell_is_judged_and_python_is_one_line(void **state)
{
    write_text(folder_path(state, "a.sh"), "set -e\nmake\n");
    write_text(folder_path(state, "a.py"), "x = 1\n");
    setenv("ASSAY_PYTHON", "/nonexistent/python3", 1);
    json_t *result = cli_passes("lint", folder_path(state, "a.sh"));
    json_decref(result);
    struct refusal python = {3, "run the extractor", "python3", NULL, "python 3.9"};
    cli_refuses(state, python, "lint", folder_path(state, "a.py"));
    unsetenv("ASSAY_PYTHON");
}

static void text__says_the_verdict_first_and_the_remedy_once(void **state)
{
    struct cli r;
    char text[4096] = "set -e\n";
    for (int i = 0; i < 100; i++) strncat(text, "make || true\n", sizeof text - strlen(text) - 1);
    const char *path = folder_path(state, "a.sh");
    write_text(path, text);
    cli(&r, "lint", path);
    assert_int_equal(r.status, 1);
    assert_int_equal(strncmp(r.out, "FAIL: 100 findings", 18), 0);
    assert_non_null(strstr(r.out, "remedy: "));
    assert_null(strstr(strstr(r.out, "remedy: ") + 1, "remedy: "));
    assert_non_null(strstr(r.out, "more: --all shows them"));
    size_t lines = 0;
    for (const char *c = r.out; *c; c++) lines += *c == '\n';
    assert_in_range(lines, 10, 50);
    cli_free(&r);
    cli(&r, "lint", path, "--all");
    assert_non_null(strstr(r.out, ":101: "));
    cli_free(&r);
    cli(&r, "lint", FIXTURE("lint/clean/retry.py"));
    assert_int_equal(r.status, 0);
    assert_int_equal(strncmp(r.out, "PASS: 0 findings", 16), 0);
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule__finds_the_marked_lines_and_no_others),
        cmocka_unit_test(rule__lets_pass_what_is_fine),
        cmocka_unit_test(clean_scripts__have_no_finding),
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)
        IN_FOLDER(finding__has_the_fields_of_the_command_line_page),
        IN_FOLDER(comment__accepts_with_a_reason_on_the_handler),
        IN_FOLDER(comment__in_a_string_accepts_nothing),
        IN_FOLDER(folder__is_searched_for_all_kinds),
        IN_FOLDER(nothing_to_look_at__is_not_green),
        IN_FOLDER(unreadable_source__is_not_green),
        IN_FOLDER(without_python__shell_is_judged_and_python_is_one_line),
        IN_FOLDER(text__says_the_verdict_first_and_the_remedy_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
