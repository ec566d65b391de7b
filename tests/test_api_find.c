/* test_api_find.c: what a name of a library means, and the three ways of not being there. */
#include "compat/api_find.h"
#include "tests/surface.h"

#include <string.h>

static const char library[] =
    "{'lib': {'package': true, 'all': ['Thing', 'gone'], 'stars': ['lib.open'], 'names': {"
    "    'Thing': {'to': 'lib.core:Thing'}, 'sub': {'to': 'lib:sub'}, 'nosub': {'to': "
    "'lib:nosub'}, 'mix': [{'to': 'lib:mix', 'when': ['try']}, {'value': 'None', 'when': "
    "['except']}], 'open': [{'to': 'lib:open', 'when': ['try']}, {'value': 'None', 'when': "
    "['except']}], 'os': {'to': 'os'},"
    "    'Typed': {'to': 'lib.core:Thing', 'when': ['TYPE_CHECKING']},"
    "    'Lazy': {'to': 'lib.core:Thing', 'when': ['TYPE_CHECKING']}},"
    "    'getattr': {'names': {'Lazy': 'lib.core:Thing', 'Old': 'lib.core:f', 'Any': null}, 'any': "
    "false, 'deprecated': null, 'notices': {'Old': 'Old goes in 2.0'}}},"
    " 'lib.core': {'names': {"
    "    'Thing': {'bases': [], 'members': {'run': {'def': 'self; x'}, 'Inner': {'bases': [],"
    "        'members': {'deep': {'def': 'self'}}}}},"
    "    'f': [{'def': 'x', 'when': ['sys.version_info >= (3, 12)']},"
    "          {'def': 'x; y', 'when': ['not sys.version_info >= (3, 12)']}],"
    "    'g': [{'def': 'old'}, {'def': 'x: int', 'overload': true},"
    "          {'def': 'x: str', 'overload': true}, {'def': 'x'}],"
    "    'loop': {'to': 'lib.core:pool'}, 'pool': {'to': 'lib.core:loop'},"
    "    'either': [{'to': 'lib.core:f', 'when': ['try']}, {'to': 'torch:f', 'when': ['except']}],"
    "    'nowhere': {'to': 'lib.core:missing'}}},"
    " 'lib.open': {'all': ['shown'], 'names': {'shown': {'value': '1'}, 'hidden': {'value': '2'}}},"
    " 'lib.plain': {'names': {'shown': {'value': '1'}, '_own': {'value': '2'}}},"
    " 'lib.sub': {'package': true, 'stars': ['lib.plain']},"
    " 'lib.far': {'stars': ['numpy']},"
    " 'lib.any': {'getattr': {'names': {}, 'any': true, 'deprecated': null}},"
    " 'lib._C': {'compiled': true, 'file': 'lib/_C.so'},"
    " 'lib.new.place': {'names': {'Moved': {'bases': []}}},"
    " 'lib.user': {'names': {'Moved': {'to': 'lib.new.place:Moved'}}}}";

struct row {
    const char *name;
    enum api_found found;
    const char *first; /* path of the first definition, name of the module, or outside, or why */
    int defs;
};

static const struct row rows[] = {
    {"lib.Thing", API_FOUND, "lib.core:Thing", 1},
    {"lib:Thing", API_FOUND, "lib.core:Thing", 1},
    {"lib.core", API_FOUND, "lib.core", 0},
    {"lib.sub", API_FOUND, "lib.sub", 0}, /* from . import sub */
    {"lib:sub", API_FOUND, "lib.sub", 0},
    {"lib:nosub", API_ABSENT, NULL, 0},     /* there is none */
    {"lib.open", API_FOUND, "lib.open", 0}, /* a submodule nobody imports by name */
    {"lib.shown", API_FOUND, "lib.open:shown", 1},
    {"lib.hidden", API_ABSENT, NULL, 0}, /* not in __all__ of the star's module */
    {"lib.sub.shown", API_FOUND, "lib.plain:shown", 1},
    {"lib.sub._own", API_ABSENT, NULL, 0}, /* a star takes no name with an underscore */
    {"lib.Lazy", API_FOUND, "lib.core:Thing", 1},
    {"lib.Old", API_FOUND, "lib.core:f", 2},
    {"lib.Any", API_FOUND, NULL, 0},
    {"lib.Typed", API_FOUND, "lib.core:Thing", 1},
    {"lib.__file__", API_FOUND, NULL, 0},
    {"lib.__all__", API_FOUND, NULL, 0},
    {"lib.core.__all__", API_ABSENT, NULL, 0},
    {"lib.core.f", API_FOUND, "lib.core:f", 2},
    {"lib.core.g", API_FOUND, "lib.core:g", 3}, /* the first is replaced, overloads are not */
    {"lib.core.either", API_FOUND, "lib.core:f", 2},
    {"lib.core.loop", API_UNKNOWN, "circle", 0},
    {"lib.core.nowhere", API_ABSENT, NULL, 0},
    {"lib.Thing.run", API_FOUND, "lib.core:Thing.run", 1},
    {"lib.Thing.Inner.deep", API_FOUND, "lib.core:Thing.Inner.deep", 1},
    {"lib.Thing.stop", API_ABSENT, NULL, 0},
    {"lib.core.f.attribute", API_UNKNOWN, "no class", 0},
    {"lib.far.anything", API_UNKNOWN, "star import", 0},
    {"lib.any.thing", API_UNKNOWN, "__getattr__", 0},
    {"lib._C.op", API_UNKNOWN, "compiled", 0},
    {"lib.os.path", API_OUTSIDE, "os", 0},
    {"torch.nn.Module", API_OUTSIDE, "torch.nn.Module", 0},
    {"library.x", API_OUTSIDE, "library.x", 0}, /* not a part of lib */
    {"lib.gone.deep", API_ABSENT, NULL, 0},
};

static void find__tells_what_a_name_means(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct api_result r;
        api_find(&s->api, rows[i].name, &r);
        const char *first = r.defs     ? r.def[0]->path
                            : r.module ? r.module->name
                            : r.why    ? r.why
                                       : r.outside;
        bool same = r.found == rows[i].found && r.defs == rows[i].defs &&
                    (!rows[i].first || (first && strstr(first, rows[i].first)));
        if (!same)
            fail_msg("%s: found %d, %d definitions, %s", rows[i].name, r.found, r.defs,
                     first ? first : "nothing");
        assert_true(r.found != API_ABSENT || (r.holder && r.missing));
    }
    surface_free(s);
}

static void find__says_what_the_way_was(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct api_result r;
    api_find(&s->api, "lib.Thing", &r);
    assert_string_equal(r.via->path, "lib:Thing");
    assert_false(r.typing_only || r.open);
    assert_string_equal(api_class_of(&r)->path, "lib.core:Thing");
    api_find(&s->api, "lib.Typed", &r);
    assert_true(r.typing_only);
    api_find(&s->api, "lib.Lazy", &r);
    assert_false(r.typing_only); /* __getattr__ makes it at run time */
    api_find(&s->api, "lib.Old", &r);
    assert_string_equal(r.deprecated, "Old goes in 2.0");
    assert_null(api_class_of(&r));
    api_find(&s->api, "lib:mix", &r); /* no such submodule: only the other branch is left */
    assert_true(r.defs == 1 && !r.open);
    api_find(&s->api, "lib:open", &r);
    assert_true(r.defs == 1 && r.open);
    api_find(&s->api, "lib.core.either", &r);
    assert_true(r.open);
    assert_string_equal(r.outside, "torch:f");
    surface_free(s);
}

static void find__tells_where_it_is_now(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct api_result r;
    api_find(&s->api, "lib.old.place.Moved", &r);
    assert_int_equal(r.found, API_ABSENT);
    assert_string_equal(r.holder, "lib");
    assert_string_equal(r.missing, "old.place.Moved");
    assert_true(r.nows >= 2);
    assert_string_equal(r.now[0], "lib.new.place:Moved"); /* the definition before the re-export */
    api_find(&s->api, "lib.core.Thingy", &r);
    assert_string_equal(r.now[0], "lib.core:Thing");
    surface_free(s);
}

static void find__calls_a_problem_file_unknown(void **state)
{
    (void)state;
    struct surface *s = surface_make("{'lib': {'package': true, 'file': 'lib/__init__.py'}}");
    struct api_problem problem = {"lib/bad.py", "invalid syntax", 3};
    struct api_result r;
    s->api.problem = &problem;
    s->api.problems = 1;
    api_find(&s->api, "lib.bad", &r);
    assert_int_equal(r.found, API_UNKNOWN);
    api_find(&s->api, "lib.bad.thing", &r);
    assert_int_equal(r.found, API_UNKNOWN);
    api_find(&s->api, "lib.notbad", &r);
    assert_int_equal(r.found, API_ABSENT);
    problem.file = "bad.py"; /* the package's own folder was read */
    api_find(&s->api, "lib.bad.thing", &r);
    assert_int_equal(r.found, API_UNKNOWN);
    api_find(&s->api, "lib.sub.other", &r);
    assert_int_equal(r.found, API_ABSENT);
    problem.file = "src/lib/__init__.py"; /* the package itself, below another root */
    assert_int_equal(api_finish(&s->api, &s->err), ERR_OK);
    api_find(&s->api, "lib.x", &r);
    assert_int_equal(r.found, API_UNKNOWN);
    surface_free(s);
}

static void star__gives_what_it_binds(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct pool pool = {.arena = &s->arena};
    bool open;
    struct api_texts t =
        api_star_names(&s->api, api_module(&s->api, "lib.sub", 7), &open, &pool, &s->err);
    assert_int_equal(t.count, 1);
    assert_string_equal(t.text[0], "shown");
    assert_false(open);
    t = api_star_names(&s->api, api_module(&s->api, "lib", 3), &open, &pool, &s->err);
    assert_int_equal(t.count, 2);
    (void)api_star_names(&s->api, api_module(&s->api, "lib.far", 7), &open, &pool, &s->err);
    assert_true(open);
    surface_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find__tells_what_a_name_means),
        cmocka_unit_test(find__says_what_the_way_was),
        cmocka_unit_test(find__tells_where_it_is_now),
        cmocka_unit_test(find__calls_a_problem_file_unknown),
        cmocka_unit_test(star__gives_what_it_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
