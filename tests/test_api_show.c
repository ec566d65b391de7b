/* test_api_show.c: a symbol as a person would write it. */
#include "compat/api_show.h"
#include "tests/surface.h"

#include <stdlib.h>
#include <string.h>

static const char library[] =
    "{'lib': {'package': true, 'file': 'lib/__init__.py', 'names': {'f': {'to': 'lib.core:f'}},"
    "  'getattr': {'names': {'L': null}, 'any': false, 'deprecated': null}},"
    " 'lib.aa': {'names': {'zeta': {'to': 'lib.core:zeta'}}},"
    " 'lib.core': {'file': 'lib/core.py', 'names': {'zeta': {'value': '0', 'line': 1},"
    "  'f': [{'def': 'a; *; b: int = 3', 'returns': 'str', 'decorators': ['deco(1)'], 'line': 5,"
    "      'when': ['A'], 'deprecated': 'use g', 'wraps': 'unknown', 'async': true,"
    "      'shapes': [{'shape': 'list', 'when': 'a', 'line': 7}],"
    "      'warnings': [{'text': 'goes', 'when': 'b', 'line': 8}]}],"
    "  'long': {'def': 'first_parameter: dict[str, int]; second_parameter: list[str] | None = "
    "None', "
    "      'line': 9},"
    "  'C': [{'bases': ['dict'], 'keywords': {'k': '1'}, 'decorators': ['dataclasses.dataclass'],"
    "      'line': 20, 'fields': ['x: int = 0'], 'members': {'m': {'def': 'self'}},"
    "      'attrs': {'y': {'line': 3, 'type': 'int', 'value': '1', 'in': 'm'}}}],"
    "  'V': [{'value': '3', 'type': 'int', 'line': 30}], 'A': [{'to': 'os', 'line': 31}]}}}";

static char *shown(struct surface *s, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    struct pool pool = {.arena = &s->arena};
    FILE *f = open_memstream(&text, &size);
    api_show(&s->api, surface_def(s, path), f, &pool, &s->err);
    fclose(f);
    return text;
}

static void symbol__is_shown_as_written(void **state)
{
    (void)state;
    static const char *const wanted[][2] = {
        {"lib.core:f", "lib.core:f  (lib/core.py:5)\n"
                       "# only under: A\n"
                       "# deprecated: use g\n"
                       "@deco(1)\n"
                       "async def f(a, *, b: int = 3) -> str\n"
                       "    # line 7 returns list if a\n"
                       "    # line 8 warns: goes if b\n"
                       "    # a decorator may change this signature\n"},
        {"lib.core:long", "lib.core:long  (lib/core.py:9)\n"
                          "def long(\n"
                          "    first_parameter: dict[str, int],\n"
                          "    second_parameter: list[str] | None = None,\n"
                          ")\n"},
        {"lib.core:C", "lib.core:C  (lib/core.py:20)\n"
                       "@dataclasses.dataclass\n"
                       "class C(dict, k=1)\n"
                       "    # called as (nobody wrote it):\n"
                       "    C(x: int = 0)\n"
                       "    x: int = 0\n"
                       "    def m(self)\n"
                       "    self.y: int = 1 # in m\n"},
        {"lib.core:V", "lib.core:V  (lib/core.py:30)\nV: int = 3\n"},
        {"lib.core:A", "lib.core:A  (lib/core.py:31)\nA = os\n"},
    };
    struct surface *s = surface_make(library);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char *text = shown(s, wanted[i][0]);
        assert_string_equal(text, wanted[i][1]);
        free(text);
    }
    struct api_class *c = surface_def(s, "lib.core:C")->class_;
    c->others = (struct api_texts){(const char *[]){"p", "q"}, 2};
    char *text = shown(s, "lib.core:C");
    assert_non_null(strstr(text, "    # not recorded: p, q\n"));
    free(text);
    surface_free(s);
}

static void module__is_a_list_of_names(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct api_absent absent = {"gone", {0}};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    s->api.module[0].absent = &absent;
    s->api.module[0].absents = 1;
    s->api.module[0].partial = true;
    api_show_module(&s->api.module[0], f);
    fclose(f);
    assert_string_equal(text, "lib  (lib/__init__.py), recorded in part\n"
                              "    alias  f = lib.core:f\n"
                              "    lazy   L = ?\n"
                              "    absent gone\n");
    free(text);
    surface_free(s);
}

static void near__finds_what_was_meant(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    const char *near[5];
    assert_int_equal(api_show_near(&s->api, "lib.other.f", near, 5), 2);
    assert_string_equal(near[0], "lib.core:f"); /* the definition before its other name */
    assert_int_equal(api_show_near(&s->api, "zeta", near, 5), 2);
    assert_string_equal(near[0], "lib.core:zeta");
    assert_true(api_show_near(&s->api, "m", near, 5) >= 1);
    assert_string_equal(near[0], "lib.core:C.m");
    assert_int_equal(api_show_near(&s->api, "nothing_like_it", near, 5), 0);
    surface_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbol__is_shown_as_written),
        cmocka_unit_test(module__is_a_list_of_names),
        cmocka_unit_test(near__finds_what_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
