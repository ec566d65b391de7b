/* test_api_facts.c: the extractor's JSON is read strictly: every part that is wrong is refused with
 * its place. */
#include "compat/api_fields.h"
#include "tests/surface.h"

#include <stdlib.h>
#include <string.h>

static const char good[] =
    "{'lib': {'package': true, 'file': 'lib/__init__.py', 'all': ['f'], 'stars': ['os'],"
    "  'getattr': {'names': {'L': 'lib:f', 'not a name': null}, 'any': false, 'deprecated': 'x  "
    "y'},"
    "  'names': {'f': [{'def': 'a: int = 3; *; b', 'returns': 'int', 'decorators': ['deco(1)'],"
    "    'async': true, 'shapes': [{'shape': 'list', 'when': 'a', 'line': 4}],"
    "    'warnings': [{'text': 'goes', 'when': null, 'line': 5}], 'when': ['A'], 'line': 7}],"
    "  'C': [{'bases': ['lib.B[int]'], 'keywords': {'kw': 'True'}, 'line': 8,"
    "    'fields': ['x: int = 0 # factory'], 'members': {'m': {'def': 'self', 'line': 9}},"
    "    'attrs': {'y': {'line': 10, 'type': null, 'value': '3', 'in': 'm', 'call': 'lib.f'},"
    "    'bad name': {'line': 1}}}], 'v': [{'value': '3', 'line': 11}],"
    "  'a': [{'to': 'os:path', 'line': 12}]}}}";

static void facts__are_read_whole(void **state)
{
    (void)state;
    struct surface *s = surface_make(good);
    const struct api_module *m = api_module(&s->api, "lib", 3);
    assert_string_equal(s->api.library.version, "1.0");
    assert_true(m->package && m->has_all);
    assert_int_equal(m->lazies, 1); /* what is no name is left out */
    assert_string_equal(m->lazy[0].deprecated, "x y");
    const struct api_def *f = surface_def(s, "lib:f");
    assert_int_equal(f->kind, API_DEF);
    assert_true(f->function->async && !f->function->wrapped);
    assert_int_equal(f->line, 7);
    assert_string_equal(f->when.text[0], "A");
    assert_string_equal(f->function->params.param[0].fallback, "3");
    assert_int_equal(f->function->params.param[1].kind, API_KW);
    assert_string_equal(f->function->shape[0].when, "a");
    assert_string_equal(f->function->warning[0].text, "goes");
    const struct api_def *c = surface_def(s, "lib:C");
    assert_string_equal(c->path, "lib:C");
    assert_string_equal(c->class_->keyword[0].value, "True");
    assert_true(c->class_->field[0].factory);
    assert_int_equal(c->class_->attrs, 1);
    assert_string_equal(c->class_->attr[0].calls.text[0], "lib.f");
    const struct api_def *inner = surface_def(s, "lib:C.m");
    assert_ptr_equal(inner->owner, c);
    assert_ptr_equal(inner->module, m);
    assert_string_equal(surface_def(s, "lib:a")->to, "os:path");
    surface_free(s);
}

static void facts__are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *where, *found;
    } bad[] = {
        {"\"facts\": 1", "\"facts\": 2", "test", "another version"},
        {"\"surface\"", "\"uses\"", "test", "uses"},
        {"\"problems\"", "\"problem\"", "test", "problem"},
        {"\"extractor\": \"1\"", "\"extractor\": null", "test", "nothing"},
        {"\"source\": \"lib.whl\", ", "", "library", "a part is missing"},
        {"\"lib\": {\"package", "\"l:b\": {\"package", "modules.l:b", "l:b"},
        {"\"file\": \"lib/__init__.py\"", "\"file\": 3", "modules.lib.file", "integer"},
        {"\"package\": true", "\"package\": 1", "package", "integer"},
        {"\"package\": true", "\"packages\": true", "modules.lib", "packages"},
        {"\"all\": [\"f\"]", "\"all\": [3]", "all", "integer"},
        {"\"f\": [", "\"f g\": [", "f g", "f g"},
        {"\"kind\": \"function\"", "\"kind\": \"thing\"", "names.f", "thing"},
        {"\"line\": 7", "\"line\": -1", "names.f", "line"},
        {"\"line\": 7", "\"line\": 900000000", "names.f", "line"},
        {"\"a: int", "\"a: int", NULL, NULL}, /* as it is */
        {"\"default\": \"3\"", "\"default\": \"(3\"", "default", "(3"},
        {"\"default\": \"3\"", "\"default\": \"\"", "default", "source text"},
        {"\"default\": \"3\"", "\"default\": \"3 # x\"", "default", "3 # x"},
        {"\"type\": \"int\", \"default", "\"type\": \"a\\nb\", \"default", "type", "control"},
        {"\"kind\": \"kw\"", "\"kind\": \"word\"", "params", "word"},
        {"\"kind\": \"kw\"", "\"kind\": \"pos\"", "names.f", "order"},
        {"\"name\": \"b\"", "\"name\": \"b c\"", "params", "b c"},
        {"\"name\": \"b\", ", "", "params", "no name"},
        {"\"returns\": \"int\"", "\"returns\": []", "returns", "array"},
        {"\"shape\": \"list\"", "\"shape\": \"a list\"", "shapes", "a list"},
        {"\"text\": \"goes\"", "\"text\": null", "warnings", "no text"},
        {"\"decorators\": [", "\"decorators\": {\"a\": [", "", ""}, /* no JSON */
        {"\"keywords\": {\"kw\"", "\"keywords\": {\"k w\"", "keywords", "k w"},
        {"\"attrs\": {", "\"attrs\": 3, \"x\": {", "", "x"},
        {"\"to\": \"os:path\"", "\"to\": \"os path\"", "names.a", "os path"},
        {"\"members\": {", "\"members\": {\"n\": [], ", "members.n", "empty list"},
        {"\"binding\": \"instance\"", "\"binding\": \"loose\"", "members.m", "loose"},
        {"\"any\": false", "\"any\": false, \"some\": 1", "getattr", "some"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        struct api api;
        char *text = surface_text(good), *at = strstr(text, bad[i].from);
        if (!bad[i].where) { /* a row that only shows that nothing else is wrong */
            assert_int_equal(
                api_from_facts(&api, text, (int64_t)strlen(text), "test", &arena, &err), ERR_OK);
            free(text);
            arena_release(&arena, NULL);
            continue;
        }
        if (!at) fail_msg("%s is not in %s", bad[i].from, text);
        char *changed = replaced(text, bad[i].from, bad[i].to);
        if (api_from_facts(&api, changed, (int64_t)strlen(changed), "test", &arena, &err) == ERR_OK)
            fail_msg("taken: %s", bad[i].to);
        assert_int_equal(err.code, ERR_INPUT);
        if (bad[i].where[0])
            assert_err(&err, ERR_INPUT, "API facts", bad[i].where, bad[i].found, NULL);
        free(text);
        free(changed);
        arena_release(&arena, NULL);
    }
}

static void facts__are_refused__when_nested_too_deep(void **state)
{
    (void)state;
    char text[2048] = "{'lib': {'names': {'C': ";
    struct arena arena = ARENA_INIT;
    struct err err = ERR_INIT;
    struct api api;
    for (int i = 0; i < 12; i++)
        strncat(text, "{'bases': [], 'members': {'C': ", sizeof text - strlen(text) - 1);
    strncat(text, "{'value': '1'}", sizeof text - strlen(text) - 1);
    for (int i = 0; i < 12; i++) strncat(text, "}}", sizeof text - strlen(text) - 1);
    strncat(text, "}}}", sizeof text - strlen(text) - 1);
    char *json = surface_text(text);
    assert_int_equal(api_from_facts(&api, json, (int64_t)strlen(json), "test", &arena, &err),
                     ERR_INPUT);
    assert_err(&err, ERR_INPUT, NULL, NULL, "too deep", NULL);
    free(json);
    arena_release(&arena, NULL);
}

static void facts__are_refused__when_a_name_stands_twice(void **state)
{
    (void)state;
    struct surface *s =
        surface_make("{'lib': {'names': {'a': {'value': '1'}, 'b': {'value': '2'}}}}");
    s->api.module[0].names.name[1].name = "a";
    assert_int_equal(api_finish(&s->api, &s->err), ERR_INPUT);
    assert_err(&s->err, ERR_INPUT, NULL, "lib", "twice", NULL);
    surface_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts__are_read_whole),
        cmocka_unit_test(facts__are_refused_with_their_place),
        cmocka_unit_test(facts__are_refused__when_nested_too_deep),
        cmocka_unit_test(facts__are_refused__when_a_name_stands_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
