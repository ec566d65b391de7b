/* test_check_text.c: a judged consumer on one screen: the verdict first, proof of what breaks, the
 * rest by its reason. */
#include "reports/text.h"
#include "tests/support.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    int line;
    const char *symbol, *verdict, *severity, *why;
    const char *found, *wanted, *remedy, *accepted, *provider;
    int also;
};

static json_t *finding(const struct row *r)
{
    json_t *f = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:[]}", "symbol", r->symbol, "file",
                          "a.py", "line", r->line, "verdict", r->verdict, "severity", r->severity,
                          "why", r->why, "also");
    const char *const key[] = {"found", "wanted", "remedy", "accepted"};
    const char *const text[] = {r->found, r->wanted, r->remedy, r->accepted};
    for (int i = 0; i < 4; i++) {
        if (text[i]) json_object_set_new(f, key[i], json_string(text[i]));
    }
    if (r->provider)
        json_object_set_new(f, "provider", json_pack("{s:s, s:i}", "file", r->provider, "line", 2));
    if (r->also) json_array_append_new(json_object_get(f, "also"), json_integer(r->also));
    return f;
}

static json_t *result_of(const struct row *rows, int n, int broken)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, finding(&rows[i]));
    return json_pack("{s:o, s:{s:i, s:i, s:i, s:i, s:i}, s:{s:n, s:s}, s:{s:s, s:s}}", "findings",
                     list, "counts", "checked", 9, "broken", broken, "undecidable", 3, "warned", 1,
                     "accepted", 1, "consumer", "name", "source", "app.whl", "library", "name",
                     "lib", "version", "2.0");
}

static char *shown(json_t *result, bool colour, int lines)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    report_check_text(result, f, (struct text_view){.colour = colour, .most = lines});
    fclose(f);
    json_decref(result);
    return text;
}

static void breaks__come_first_with_their_proof(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {3, "lib.dim", "undecidable", "cannot tell", "untyped", .also = 0},
        {4, "lib.cut", "broken", "breaks now", "missing part", "()", "(part)", "pass part",
         .provider = "lib.py", .also = 7},
        {5, "lib.old", "ok", "deprecated until 3", "use cut", .also = 0},
        {6, "lib.fine", "ok", "none", "as recorded", .also = 0},
        {8, "lib.known", "broken", "breaks now", "gone", .accepted = "soon"},
    };
    char *text = shown(result_of(rows, 5, 1), false, 40);
    assert_string_equal(
        text, "FAIL: app.whl against lib 2.0: 9 checked, 1 broken, 3 undecidable, 1 with a "
              "warning, 1 accepted\n"
              "broken:\n"
              "  a.py:4 lib.cut\n"
              "    breaks now: missing part\n"
              "    found    ()\n"
              "    wanted   (part)\n"
              "    defined  lib.py:2\n"
              "    remedy   pass part\n"
              "    also     line 7\n"
              "worth a look:\n"
              "  a.py:5 lib.old: use cut, deprecated until 3\n"
              "cannot tell:\n"
              "  a.py:3 lib.dim: untyped\n");
    free(text);
}

static void same_reasons__stand_behind_the_first(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {3, "s.a", "undecidable", "cannot tell", "untyped", .also = 0},
        {5, "s.b", "undecidable", "cannot tell", "untyped", .also = 0},
        {6, "s.c", "undecidable", "cannot tell", "other", .also = 0},
    };
    char *text = shown(result_of(rows, 3, 0), true, 0);
    assert_non_null(strstr(text, "\033[32mPASS\033[0m: "));
    assert_non_null(strstr(text, "  a.py:3 s.a: untyped\n    the same at line 5 s.b\n  a.py:6"));
    free(text);
}

static void lines__are_cut_with_a_count(void **state)
{
    (void)state;
    struct row rows[12];
    for (int i = 0; i < 12; i++) {
        rows[i] = (struct row){i, "s.x", "broken", "breaks now", "gone", .also = 0};
    }
    char *text = shown(result_of(rows, 12, 12), false, 20);
    assert_non_null(strstr(text, "a.py:3 s.x"));
    assert_null(strstr(text, "a.py:4 s.x"));
    assert_non_null(strstr(text, "... and 8 more"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breaks__come_first_with_their_proof),
        cmocka_unit_test(same_reasons__stand_behind_the_first),
        cmocka_unit_test(lines__are_cut_with_a_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
