/* test_api_type.c: annotations as trees. */
#include "compat/api_type.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct err err;

static struct api_type *parsed(const char *text)
{
    struct pool pool = {.arena = &arena};
    struct api_type *t = api_type_parse(text, &pool, &err);
    assert_ok(&err);
    assert_non_null(t);
    return t;
}

/* The tree, each kind with its own mark. */
static size_t print(const struct api_type *t, char *out, size_t size)
{
    static const char *const open[] = {"", "[", "{", "None", "(", "...", "?"};
    static const char *const close[] = {"", "]", "}", "", ")", "", ""};
    size_t n = (size_t)snprintf(out, size, "%s%s", t->kind == API_TYPE_OTHER ? "?" : "",
                                t->name ? t->name : "");
    if (t->kind != API_TYPE_OTHER) n += (size_t)snprintf(out + n, size - n, "%s", open[t->kind]);
    for (const struct api_type *a = t->arg; a; a = a->next) {
        n += print(a, out + n, size - n);
        if (a->next) n += (size_t)snprintf(out + n, size - n, ",");
    }
    return n + (size_t)snprintf(out + n, size - n, "%s", close[t->kind]);
}

static const char *const trees[][2] = {
    {"int", "int"},
    {"pkg.mod.Cls", "pkg.mod.Cls"},
    {"None", "None"},
    {"list[int]", "list[int]"},
    {"dict[str, list[int]]", "dict[str,list[int]]"},
    {"int | None", "{int,None}"},
    {"(int | str) | None", "{int,str,None}"},
    {"Optional[int]", "{int,None}"},
    {"typing.Optional[int | str]", "{int,str,None}"},
    {"typing.Union[int, Optional[str]]", "{int,str,None}"},
    {"Annotated[int, Field(gt=0)]", "int"},
    {"pydantic.SkipValidation[list[int] | None]", "{list[int],None}"},
    {"Callable[[int, str], None]", "Callable[(int,str),None]"},
    {"tuple[int, ...]", "tuple[int,...]"},
    {"Literal['a, b]', 3]", "Literal[?'a, b]',?3]"},
    {"type[T]", "type[T]"},
    {"a.b(c, 1)", "?a.b(c, 1)"},
    {"a + b", "?a + b"},
    {"list[int", "?list[int"},
    {"", "?"},
    {"list[]", "list[]"},
};

static void type__is_parsed_into_a_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        char text[256] = "";
        print(parsed(trees[i][0]), text, sizeof text);
        assert_string_equal(text, trees[i][1]);
    }
    arena_release(&arena, NULL);
}

static void type__is_kept_as_text__when_too_deep(void **state)
{
    (void)state;
    char text[512] = "";
    for (int i = 0; i < 60; i++) strncat(text, "list[", sizeof text - strlen(text) - 1);
    strncat(text, "int", sizeof text - strlen(text) - 1);
    for (int i = 0; i < 60; i++) strncat(text, "]", sizeof text - strlen(text) - 1);
    assert_int_equal(parsed(text)->kind, API_TYPE_OTHER);
    assert_int_equal(parsed("list[list[int]]")->kind, API_TYPE_SUB);
    arena_release(&arena, NULL);
}

static void type__is_compared_by_what_it_allows(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is;
        bool same, narrows;
    } pairs[] = {
        {"int | None", "None | int", true, true},
        {"a.b.Cls", "a.c.Cls", true, false},
        {"Optional[int]", "int | None", true, true},
        {"int | None", "int", false, true},
        {"int | str | None", "str | None", false, true},
        {"int", "int | None", false, false},
        {"list[int]", "list[str]", false, false},
        {"typing.Any", "int", false, true},
        {"int", "typing.Any", false, false},
        {"dict[str, int]", "dict[str]", false, false},
        {"f(1)", "f(2)", false, false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct api_type *was = parsed(pairs[i].was), *is = parsed(pairs[i].is);
        if (api_type_same(was, is) != pairs[i].same || api_type_same(is, was) != pairs[i].same ||
            api_type_narrows(was, is) != pairs[i].narrows)
            fail_msg("%s -> %s", pairs[i].was, pairs[i].is);
    }
    arena_release(&arena, NULL);
}

static void type__tells_what_it_is(void **state)
{
    (void)state;
    struct pool pool = {.arena = &arena};
    assert_null(api_type_parse(NULL, &pool, &err));
    assert_true(api_type_optional(parsed("int | None")));
    assert_true(api_type_optional(parsed("None")));
    assert_false(api_type_optional(parsed("int")));
    assert_false(api_type_optional(NULL));
    assert_true(api_type_is(parsed("typing.Any"), "Any"));
    assert_false(api_type_is(parsed("a.Anything"), "Any"));
    assert_string_equal(api_type_arg(parsed("dict[str, int]"), 1)->name, "int");
    assert_null(api_type_arg(parsed("dict[str, int]"), 2));
    assert_null(api_type_arg(NULL, 0));
    arena_release(&arena, NULL);
}

static void scan__looks_outside_of_brackets_and_quotes(void **state)
{
    (void)state;
    const char *text = "a[' = '](\" = \") = b";
    assert_ptr_equal(api_scan(text, " = "), strstr(text, ") = ") + 1);
    assert_null(api_scan("f(a = 1)", " = "));
    assert_null(api_scan("a = (", " = ")); /* does not close */
    assert_null(api_scan("'a\\' = b'", " = "));
    assert_true(api_balanced("") && api_balanced("f([{}])") && api_balanced("'('"));
    assert_false(api_balanced("(]") || api_balanced(")") || api_balanced("'") ||
                 api_balanced("\"a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type__is_parsed_into_a_tree),
        cmocka_unit_test(type__is_kept_as_text__when_too_deep),
        cmocka_unit_test(type__is_compared_by_what_it_allows),
        cmocka_unit_test(type__tells_what_it_is),
        cmocka_unit_test(scan__looks_outside_of_brackets_and_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
