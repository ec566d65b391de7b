/* test_guard_ways.c: fixtures/guard/ under each python of the machine: in lost/ each script loses
 * one exception or exit status, and its first line says under which rule and in which line (0: none
 * is known); in clean/ nothing is lost. */
#include "tests/guarding.h"
#include "tests/pythons.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pythons pythons;

/* Calls each(state, path) for every script of a folder; how many. */
static int for_each(void **state, const char *folder, void (*each)(void **state, const char *path))
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || !strstr(e->d_name, ".py")) continue;
        each(state, textf("%s/%s", folder, e->d_name));
        count++;
    }
    closedir(d);
    return count;
}

/* "RULE", or "RULE|RULE" where versions of Python differ. */
static bool one_of(const char *rules, const char *rule)
{
    const char *at = strstr(rules, rule);
    size_t n = strlen(rule);
    return at && (at == rules || at[-1] == '|') && (at[n] == '\0' || at[n] == '|');
}

static void assert_loses(const char *program, const char *path, const char *rule, int line)
{
    struct cli r;
    cli(&r, "guard", "--json", "--", program, path);
    if (!r.json) fail_msg("%s: no JSON: %s", path, r.out);
    const json_t *list = field(r.json, "findings"), *one = json_array_get(list, 0);
    if (json_array_size(list) != 1 || r.status != 1 || !one_of(rule, field_text(one, "rule")) ||
        (line && field_int(one, "line") != line) || field_int(r.json, "own_errors") != 0)
        fail_msg("%s %s: exit %d: %s\n%s", program, path, r.status, r.out, r.err);
    if (line && !strstr(field_text(one, "file"), path)) fail_msg("%s: %s", path, r.out);
    cli_free(&r);
}

static void loses(void **state, const char *path)
{
    size_t size;
    char *text = read_whole(path, &size), rule[64];
    int line = -1, since = 0;
    (void)state;
    if (sscanf(text, "# lost: %63s %d since 3.%d", rule, &line, &since) < 2)
        fail_msg("%s does not say what it loses", path);
    free(text);
    for (int i = 0; i < pythons.count; i++) {
        if (pythons.version[i] >= 300 + since) assert_loses(pythons.path[i], path, rule, line);
    }
}

static void guard__names_what_is_lost__in_each_way_to_lose_it(void **state)
{
    pythons_find(&pythons);
    assert_true(pythons.count > 0);
    assert_true(for_each(state, FIXTURE("guard/lost"), loses) >= 30);
}

static void loses_nothing(void **state, const char *path)
{
    for (int i = 0; i < pythons.count; i++) guarding_left_alone(state, pythons.path[i], path);
}

static void guard__leaves_clean_scripts_alone__whatever_they_do(void **state)
{
    pythons_find(&pythons);
    assert_true(for_each(state, FIXTURE("guard/clean"), loses_nothing) >= 10);
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(guard__names_what_is_lost__in_each_way_to_lose_it),
        FOLDER(guard__leaves_clean_scripts_alone__whatever_they_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
