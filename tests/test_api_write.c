/* test_api_write.c: the contract file: the same bytes again after it was read, for surfaces drawn
 * at random too; and what a reviewer sees. */
#include "compat/api_lookup.h"
#include "tests/surface.h"

#include <stdlib.h>
#include <string.h>

static char *printed(const struct api *a)
{
    struct err err = ERR_INIT;
    char *text;
    int64_t size;
    if (api_print(a, &text, &size, &err) != ERR_OK) assert_ok(&err);
    assert_int_equal(strlen(text), size);
    return text;
}

/* What is read back prints the same. */
static void assert_round_trip(const struct api *a)
{
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct api again;
    char *text = printed(a), *text_again;
    if (api_parse(&again, text, (int64_t)strlen(text), "x.yaml", &arena, &err) != ERR_OK) {
        fprintf(stderr, "%s\n", text);
        assert_ok(&err);
    }
    text_again = printed(&again);
    if (strcmp(text, text_again) != 0) fail_msg("%s\n--- became\n%s", text, text_again);
    free(text);
    free(text_again);
    arena_release(&arena, NULL);
}

static const char library[] =
    "{'lib': {'package': true, 'file': 'lib/__init__.py', 'all': ['f'], 'stars': ['lib.mod'],"
    "  'getattr': {'names': {'L': 'lib:f', 'M': null}, 'any': true, 'deprecated': 'L goes',"
    "  'notices': {'L': 'L: goes in 2.0'}}, 'names': {"
    "  'f': [{'def': 'a; /; b: int = 3; *args; c: str = `x # y`; **kw', 'when': ['try']},"
    "        {'def': '', 'when': ['except ImportError'], 'wraps': 'unknown', 'deprecated': 'no: "
    "3'}],"
    "  'C': [{'bases': [], 'members': {'m': {'def': 'self', 'abstract': true}}},"
    "        {'bases': ['lib.B[int]', 'C'], 'members': {'n': {'def': 'cls', 'binding': 'class'}}}],"
    "  'D': {'bases': [], 'keywords': {'a': '1', '**': 'kw'}, 'fields': ['x: int', 'y = 3 # "
    "kw_only'],"
    "        'members': {'E': {'bases': [], 'members': {'deep': {'def': 'self; q: `a b`'}}}},"
    "        'attrs': {'z': {'line': 9, 'type': 'list[int]', 'value': '[]', 'in': 'm', 'calls': "
    "        ['a.b', null]}}, 'dynamic': 'setattr'},"
    "  'true': {'value': '1', 'type': 'int', 'call': 'f.g'}, 'a': {'to': 'os'}}},"
    " 'lib._C': {'compiled': true}, 'lib.space': {'namespace': true, 'package': true},"
    " 'lib.mod': {'all_unknown': true}}";

static void contract__is_the_same_again(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct api_problem problem = {"lib/x.py", "it: \"broke\"\\ \xc2\x85 \xe2\x80\xa8 \xef\xbb\xbf#",
                                  3};
    struct api_texts now = {(const char *[]){"lib.mod:x", "lib:y"}, 2};
    struct api_absent absent[] = {{"lib.gone", now}, {"lib.none", {0}}};
    assert_round_trip(&s->api);
    s->api.problem = &problem;
    s->api.problems = 1;
    s->api.absent = absent;
    s->api.absents = 2;
    s->api.consumer = (struct api_origin){"user", NULL, "user.whl", "abc"};
    s->api.module[0].absent = absent;
    s->api.module[0].absents = 2;
    s->api.module[0].partial = true;
    s->api.module[0].names.name[1].def[0].class_->partial = true;
    assert_round_trip(&s->api);
    char *text = printed(&s->api); /* what other readers take for a line break is escaped */
    assert_non_null(strstr(text, "\\x85 \\u2028 \\ufeff#"));
    free(text);
    surface_free(s);
}

static void contract__is_what_a_reviewer_wants(void **state)
{
    (void)state;
    static const char wanted[] =
        "assay: 1\n"
        "kind: api\n"
        "library: {name: lib, version: \"1.0\", source: lib.whl, sha256: \"00ff\"}\n"
        "extractor: \"1\"\n"
        "modules:\n"
        "  lib:\n"
        "    file: lib.py\n"
        "lib:C:\n"
        "  class: [lib.Base]\n"
        "  fields:\n"
        "    - \"x: int = 0\"\n"
        "lib:C.run:\n"
        "  def: [self, \"n: int\"]\n"
        "  returns: list[str]\n"
        "lib:f:\n"
        "  def:\n"
        "    - \"first_of_many_parameters: dict[str, list[int]]\"\n"
        "    - \"*\"\n"
        "    - \"second_of_many_parameters: str = 'a'\"\n"
        "    - \"third: int\"\n"
        "lines:\n"
        "  lib:\n"
        "    C: [1, 2]\n"
        "    C.run: [3]\n"
        "    f: [4]\n";
    struct surface *s = surface_make(
        "{'lib': {'names': {'C': {'bases': ['lib.Base'], 'fields': ['x: int = 0'], 'members': {"
        "'run': {'def': 'self; n: int', 'returns': 'list[str]'}}},"
        "'f': {'def': 'first_of_many_parameters: dict[str, list[int]]; *; "
        "second_of_many_parameters: str = `a`; third: int'}}}}");
    char *text = printed(&s->api);
    assert_string_equal(text, wanted);
    free(text);
    surface_free(s);
}

/* Numbers in [0, n). */
static unsigned draw(uint64_t *seed, unsigned n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 40) % n;
}

static const char *word(uint64_t *seed)
{
    static const char *const words[] = {"a", "null", "On", "_x", "Cls", "\xc3\xa9", "y2", "no"};
    return words[draw(seed, 8)];
}

static const char *source(uint64_t *seed)
{
    static const char *const texts[] = {"int",         "`it: s`",
                                        "f(a, b)[0]",  "{1: 2}",
                                        "- 1",         "*a",
                                        "&b",          "a if b else `c # d`",
                                        "...",         "`\xe2\x80\xa9`",
                                        "true",        "0x1F",
                                        "lambda x: x", "[]",
                                        "!x",          "@y",
                                        "%z",          "a: b",
                                        "x#y"};
    return texts[draw(seed, sizeof texts / sizeof texts[0])];
}

/* A module with names of all kinds, made from a seed. */
static char *random_library(uint64_t seed)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fputs("{", f);
    for (int m = 0; m < 3; m++) {
        fprintf(f, "%s'lib.m%d': {'names': {", m ? ", " : "", m);
        for (int n = 0; n < 6; n++) {
            fprintf(f, "%s'%s%d': ", n ? ", " : "", word(&seed), n);
            unsigned kind = draw(&seed, 4);
            if (kind == 0)
                fprintf(f, "{'def': '%s1; %s2 = %s; *; %s3: %s', 'returns': '%s'}", word(&seed),
                        word(&seed), source(&seed), word(&seed), source(&seed), source(&seed));
            if (kind == 1)
                fprintf(f,
                        "[{'bases': ['%s'], 'fields': ['%s1: %s = %s']}, {'bases': [], 'when': "
                        "['%s'], 'members': {'%s': {'value': '%s', 'deprecated': '%s: '}}}]",
                        source(&seed), word(&seed), source(&seed), source(&seed), source(&seed),
                        word(&seed), source(&seed), source(&seed));
            if (kind == 2) fprintf(f, "{'to': 'lib.m%u:%s'}", draw(&seed, 3), word(&seed));
            if (kind == 3)
                fprintf(f, "{'value': '%s', 'type': '%s'}", source(&seed), source(&seed));
        }
        fputs("}}", f);
    }
    fputs("}", f);
    fclose(f);
    return text;
}

static void contract__is_the_same_again__whatever_it_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        char *text = random_library(seed);
        struct surface *s = surface_make(text);
        assert_round_trip(&s->api);
        surface_free(s);
        free(text);
    }
}

static void contract__is_written_whole_or_not(void **state)
{
    struct surface *s = surface_make(library);
    struct api again;
    const char *path = folder_path(state, "c.yaml");
    assert_int_equal(api_write(&s->api, path, &s->err), ERR_OK);
    assert_int_equal(api_read(&again, path, &s->arena, &s->err), ERR_OK);
    assert_int_equal(api_write(&s->api, folder_path(state, "no/c.yaml"), &s->err), ERR_INPUT);
    assert_int_equal(folder_count(*state), 1);
    surface_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract__is_the_same_again),
        cmocka_unit_test(contract__is_what_a_reviewer_wants),
        cmocka_unit_test(contract__is_the_same_again__whatever_it_holds),
        cmocka_unit_test_setup_teardown(contract__is_written_whole_or_not, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
