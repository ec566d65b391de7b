/* test_api_diff.c: what changed between two surfaces, in the words and the category of each change.
 */
#include "compat/api_diff.h"
#include "tests/surface.h"

#include <string.h>

/* The changes of one pair of libraries, a line each: "CATEGORY SYMBOL WHAT[: WAS -> IS]". */
static const char *changes(const char *old, const char *new, bool reached)
{
    static char text[4096];
    struct surface *a = surface_make(old), *b = surface_make(new);
    struct pool pool = {.arena = &a->arena};
    struct api_diff d;
    size_t n = 0;
    text[0] = '\0';
    if (reached) a->api.consumer = (struct api_origin){"user", NULL, "u", "s"};
    if (api_diff(&a->api, &b->api, &pool, &d, &a->err) != ERR_OK) assert_ok(&a->err);
    for (int i = 0; i < d.changes; i++) {
        const struct api_change *c = &d.change[i];
        n += (size_t)snprintf(
            text + n, sizeof text - n, "%s%c %s %s", i ? "\n" : "", "BSDH"[c->category],
            strchr(c->symbol, ':') ? strchr(c->symbol, ':') + 1 : c->symbol, c->what);
        if (c->was || c->is)
            n += (size_t)snprintf(text + n, sizeof text - n, ": %s -> %s", c->was ? c->was : "",
                                  c->is ? c->is : "");
    }
    surface_free(a);
    surface_free(b);
    return text;
}

#define NAMES(x) "{'lib': {'file': 'lib.py', 'names': {" x "}}}"

static const struct {
    const char *old, *new, *changes;
} rows[] = {
    {"'f': {'def': 'a; b'}", "'f': {'def': 'a'}", "B f parameter b removed"},
    {"'f': {'def': 'a'}", "'f': {'def': 'a; b: int'}", "B f parameter b added, required:  -> int"},
    {"'f': {'def': 'a'}", "'f': {'def': 'a; b = 1'}", "H f parameter b added, optional:  -> 1"},
    {"'f': {'def': 'a = 1'}", "'f': {'def': 'a = 2'}", "D f parameter a: default: 1 -> 2"},
    {"'f': {'def': 'a = 1'}", "'f': {'def': 'a'}", "B f parameter a is required now: 1 -> "},
    {"'f': {'def': 'a'}", "'f': {'def': 'a = 1'}", "H f parameter a is optional now:  -> 1"},
    {"'f': {'def': 'a'}", "'f': {'def': '*; a'}",
     "B f parameter a: kind: positional or keyword -> keyword-only"},
    {"'f': {'def': '*; a'}", "'f': {'def': 'a'}",
     "H f parameter a: kind: keyword-only -> positional or keyword"},
    {"'f': {'def': 'a: int'}", "'f': {'def': 'b: int'}", "B f parameter a renamed b"},
    {"'f': {'def': 'a: int; /'}", "'f': {'def': 'b: int; /'}", "H f parameter a renamed b"},
    {"'f': {'def': 'a; b: str'}", "'f': {'def': 'a; x: int = 1; b: str'}",
     "S f positional argument 2 goes elsewhere: b -> x\nH f parameter x added, optional:  -> 1"},
    {"'f': {'def': 'a; b'}", "'f': {'def': 'b; a'}",
     "S f positional argument 1 goes elsewhere: a -> b"},
    {"'f': {'def': 'a; b'}", "'f': {'def': 'a; **kw'}", "H f parameter b taken by **kw now"},
    {"'f': {'def': '*args; **kw'}", "'f': {'def': ''}", "B f **kw removed\nB f *args removed"},
    {"'f': {'def': 'a: int'}", "'f': {'def': 'a: str'}", "H f parameter a: type: int -> str"},
    {"'f': {'def': '', 'returns': 'list[int]'}", "'f': {'def': '', 'returns': 'typing.Any'}",
     "S f return type: list[int] -> typing.Any"},
    {"'f': {'def': '', 'returns': 'int | None'}", "'f': {'def': '', 'returns': 'int'}",
     "H f return type: int | None -> int"},
    {"'f': {'def': '', 'returns': 'a.X | None'}", "'f': {'def': '', 'returns': 'None | b.X'}", ""},
    {"'f': {'def': '', 'returns': 'int'}", "'f': {'def': ''}",
     "S f return type: int -> nothing said"},
    {"'f': {'def': '', 'shapes': [{'shape': 'list', 'line': 1}]}",
     "'f': {'def': '', 'shapes': [{'shape': 'value', 'when': 'x', 'line': 9}]}",
     "S f return shape: list -> value if x"},
    {"'f': {'def': ''}", "'f': {'def': '', 'async': true}", "B f kind: not async -> async"},
    {"'f': {'def': ''}", "'f': {'def': '', 'deprecated': 'gone in 3'}",
     "H f deprecated:  -> gone in 3"},
    {"'f': {'def': ''}", "'g': {'value': '1'}", "B f removed\nH g added"},
    {"'load_it': {'def': ''}", "'load_its': {'def': ''}",
     "B load_it removed; like it: lib:load_its\nH load_its added"},
    {"'_f': {'def': 'a'}", "'_f': {'def': ''}", "H _f parameter a removed"},
    {"'f': {'def': ''}", "'f': {'bases': []}", "S f kind: a function -> a class"},
    {"'v': {'value': '1', 'type': 'int'}", "'v': {'value': '2', 'type': 'str'}",
     "S v type: int -> str\nH v value: 1 -> 2"},
    {"'os': {'to': 'os'}", "'x': {'value': '1'}", "H x added"}, /* an import is no promise */
    {"'C': {'bases': ['lib.B']}, 'B': {'bases': []}", "'C': {'bases': []}, 'B': {'bases': []}",
     "B C base lib:B removed"},
    {"'C': {'bases': ['dict']}", "'C': {'bases': []}",
     "B C **kwargs removed\nB C *args removed\nB C base dict removed"},
    {"'C': {'bases': ['abc.ABC']}",
     "'C': {'bases': ['abc.ABC'], 'members': {'m': {'def': 'self', 'abstract': true}}}",
     "B C abstract m added\nH C.m added"},
    {"'C': {'bases': [], 'members': {'m': {'def': 'self; a'}}}",
     "'C': {'bases': [], 'members': {'m': {'def': 'self'}}}", "B C.m parameter a removed"},
    {"'C': {'bases': [], 'members': {'m': {'def': 'self'}}}", /* it moved to a base */
     "'B': {'bases': [], 'members': {'m': {'def': 'self'}}}, 'C': {'bases': ['lib.B']}",
     "H B added"},
    {"'C': {'bases': [], 'members': {'m': {'def': 'self'}}}",
     "'C': {'bases': [], 'members': {'m': {'def': 'self', 'binding': 'property'}}}",
     "B C.m kind: a method -> a property"},
    {"'C': {'bases': [], 'members': {'m': {'def': 'self'}}}",
     "'C': {'bases': [], 'fields': ['m: int']}", "B C.m kind: a function -> an attribute"},
    {"'C': {'bases': [], 'members': {'__init__': {'def': 'self; a'}}}",
     "'C': {'bases': [], 'members': {'__init__': {'def': 'self; a; b'}}}",
     "B C parameter b added, required"},
    {"'C': {'bases': [], 'decorators': ['dataclasses.dataclass'], 'fields': ['a: int', 'b: int']}",
     "'C': {'bases': [], 'decorators': ['dataclasses.dataclass'], 'fields': ['a: str']}",
     "B C parameter b removed\nS C.a attribute type: int -> str\nH C parameter a: type: int -> "
     "str"},
    {"'C': {'bases': [], 'fields': ['a: int']}",
     "'C': {'bases': [], 'fields': ['a: int # InitVar']}",
     "B C.a removed; a parameter of the constructor only"},
    {"'C': {'bases': [], 'attrs': {'s': {'line': 3, 'type': 'int'}}}",
     "'C': {'bases': [], 'attrs': {'s': {'line': 3, 'type': 'int | None'}}}",
     "S C.s attribute type: int -> int | None"},
    {"'C': {'bases': []}", "'C': {'bases': [], 'members': {'m': {'def': 'self'}}}", "H C.m added"},
    {"'C': {'bases': [], 'members': {'m': {'def': 'self'}}}", "'C': {'bases': ['far.B']}", ""},
};

static void change__has_its_word_and_category(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char old[1024], new[1024];
        snprintf(old, sizeof old, NAMES("%s"), rows[i].old);
        snprintf(new, sizeof new, NAMES("%s"), rows[i].new);
        const char *text = changes(old, new, false);
        if (strcmp(text, rows[i].changes) != 0)
            fail_msg("%s -> %s:\n%s\nwanted\n%s", rows[i].old, rows[i].new, text, rows[i].changes);
    }
}

static void surface__is_the_same__as_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char old[1024];
        snprintf(old, sizeof old, NAMES("%s"), rows[i].old);
        assert_string_equal(changes(old, old, false), "");
    }
}

static void module__is_followed(void **state)
{
    (void)state;
    const char *old = "{'lib': {'package': true, 'names': {'f': {'to': 'lib.a:f'}}},"
                      " 'lib.a': {'names': {'f': {'def': 'x'}}}}";
    const char *moved = "{'lib': {'package': true, 'names': {'f': {'to': 'lib.b.a:f'}}},"
                        " 'lib.b.a': {'names': {'f': {'def': 'x'}}}}";
    assert_string_equal(changes(old, moved, false), "B lib.a moved:  -> lib.b.a\nH lib.b.a added");
    /* What a consumer reached counts, private or an import. */
    assert_string_equal(changes(NAMES("'_f': {'def': 'a'}"), NAMES("'_f': {'def': ''}"), true),
                        "B _f parameter a removed");
    assert_string_equal(changes(NAMES("'os': {'to': 'os'}"), NAMES("'x': {'value': '1'}"), true),
                        "B os removed\nH x added");
    assert_string_equal(api_category_name(API_SHIFTS), "shifts silently");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(change__has_its_word_and_category),
        cmocka_unit_test(surface__is_the_same__as_itself),
        cmocka_unit_test(module__is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
