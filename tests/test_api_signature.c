/* test_api_signature.c: what a call binds against, written by somebody or by nobody. */
#include "compat/api_fields.h"
#include "compat/api_lookup.h"
#include "tests/surface.h"

#include <string.h>

static const char library[] =
    "{'lib': {'names': {"
    "  'W': {'bases': [], 'decorators': ['dataclasses.dataclass'], 'fields': ['x: int', 'y: int'],"
    "        'members': {'__init__': {'def': 'self; x'}}},"
    "  'N': {'bases': ['lib.W'], 'members': {'__new__': {'def': 'cls; *a; **k', 'binding': "
    "'class'}}},"
    "  'D': {'bases': [], 'decorators': ['dataclasses.dataclass(frozen=True)'], 'fields': ["
    "        'a: int', 'b: list = list # factory', 'c: int = 3 # ClassVar',"
    "        'd: int = 0 # init=False', 'e: str # InitVar', 'f: int # kw_only']},"
    "  'E': {'bases': ['lib.D'], 'decorators': ['dataclasses.dataclass'], 'fields': ["
    "        'g: int = 1', 'b: list']},"
    "  'F': {'bases': ['lib.E'], 'fields': ['h: int']},"
    "  'P1': {'bases': [], 'decorators': ['dataclasses.dataclass'], 'fields': ['v: int = 1']},"
    "  'P2': {'bases': ['lib.P1'], 'decorators': ['dataclasses.dataclass'], 'fields': ['v: int']},"
    "  'NoInit': {'bases': [], 'decorators': ['dataclasses.dataclass(init=False)'],"
    "        'fields': ['x: int']},"
    "  'config': {'def': 'cls', 'decorators': "
    "['typing.dataclass_transform(kw_only_default=True)']},"
    "  'T': {'bases': [], 'decorators': ['lib.config(x=1)'], 'fields': ['a: int', 'b: int = 2']},"
    "  'Model': {'bases': [], 'decorators': ['typing_extensions.dataclass_transform()']},"
    "  'M': {'bases': ['lib.Model'], 'fields': ['a: int']},"
    "  'Meta': {'bases': ['type'], 'decorators': ['typing.dataclass_transform()']},"
    "  'ByMeta': {'bases': [], 'keywords': {'metaclass': 'lib.Meta'}, 'fields': ['a: int']},"
    "  'At': {'bases': [], 'decorators': ['attrs.define'], 'fields': ['_a: int', 'b: int = 1']},"
    "  'S': {'bases': ['msgspec.Struct'], 'fields': ['n: int = 1', 'm: str']},"
    "  'Py': {'bases': ['pydantic.BaseModel'], 'fields': ['a: int', '_p: int', 'b: int = 1']},"
    "  'Strict': {'bases': ['lib.Py'], 'members': {'model_config': {'value': "
    "        'pydantic.ConfigDict(extra=`forbid`)'}}},"
    "  'Alias': {'bases': ['pydantic.BaseModel'], 'fields': ['a: int # alias=A']},"
    "  'Tup': {'bases': ['typing.NamedTuple'], 'fields': ['a: int', 'b: int = 2']},"
    "  'Dict': {'bases': ['typing.TypedDict'], 'fields': ['a: int', 'b: int # NotRequired']},"
    "  'Loose': {'bases': ['typing.TypedDict'], 'keywords': {'total': 'False'}, 'fields': ['a: "
    "int']},"
    "  'En': {'bases': ['enum.Enum'], 'members': {'A': {'value': '1'}}},"
    "  'Ex': {'bases': ['Exception']}, 'Sub': {'bases': ['dict']}, 'Bare': {'bases': []},"
    "  'Odd': {'bases': ['elsewhere.Base']}, 'Lay': {'bases': ['torch.nn.Module'],"
    "        'members': {'forward': {'def': 'self; x; y = None'}}},"
    "  'New': {'bases': [], 'members': {'__new__': {'def': 'cls; a', 'binding': 'class'}}},"
    "  'Deco': {'bases': [], 'decorators': ['outside.deco'], 'members': {'__init__': {'def': "
    "        'self; a'}}},"
    "  'Caller': {'bases': ['type'], 'members': {'__call__': {'def': 'cls; *a'}}},"
    "  'Called': {'bases': [], 'keywords': {'metaclass': 'lib.Caller'}},"
    "  'Over': {'bases': [], 'members': {'__init__': [{'def': 'self; a: int', 'overload': true},"
    "        {'def': 'self; *a'}]}},"
    "  'Fn': {'bases': [], 'members': {'__call__': {'def': 'self; z'}, 'm': {'def': 'self; p'},"
    "        's': {'def': 'q', 'binding': 'static'}, 'c': {'def': 'cls; r', 'binding': 'class'},"
    "        'wrapped': {'def': 'self; w', 'wraps': 'unknown'},"
    "        'prop': {'def': 'self', 'binding': 'property'}, 'v': {'value': '3'}}}}}}";

/* "(a, b = 1)" of each signature, then "?" where others may exist; "-" or "unknown". */
static const char *text_of(struct surface *s, const struct api_signatures *g)
{
    static char text[512];
    struct pool pool = {.arena = &s->arena};
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < g->sigs; i++) {
        struct api_texts t = api_params_texts(&g->sig[i].params, &pool, &s->err);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s(",
                              g->sig[i].overload ? "overload" : "");
        for (int k = 0; k < t.count; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k ? ", " : "", t.text[k]);
        n += (size_t)snprintf(text + n, sizeof text - n, ")");
    }
    const char *is[] = {"", "not callable", "unknown"};
    snprintf(text + n, sizeof text - n, "%s%s", is[g->is], g->open ? "?" : "");
    assert_true((g->is == API_CALLABLE && !g->open) || g->why);
    return text;
}

static const struct {
    const char *class_, *signature;
} constructors[] = {
    {"W", "(x)"}, /* what is written wins over the decorator */
    {"N", "(x)"}, /* and over __new__ */
    {"D", "(a: int, b: list = list(), e: str, *, f: int)"},
    {"E", "(a: int, b: list, e: str, g: int = 1, *, f: int)"}, /* a factory is no class attribute */
    {"F",
     "(a: int, b: list, e: str, g: int = 1, *, f: int)"}, /* no field of an undecorated class */
    {"P2", "(v: int = 1)"}, /* a plain default of the base is still there */
    {"NoInit", "()"},
    {"T", "(*, a: int, b: int = 2)"},
    {"M", "(a: int)"},
    {"ByMeta", "(a: int)"},
    {"At", "(a: int, b: int = 1)"},
    {"S", "(n: int = 1, m: str)"},
    {"Py", "(*, a: int, b: int = 1)"},
    {"Alias", "(*, A: int)?"},
    {"Tup", "(a: int, b: int = 2)"},
    {"Dict", "(*, a: int, b: int = ...)"},
    {"Loose", "(*, a: int = ...)"},
    {"En", "(value)"},
    {"Ex", "(*args)"},
    {"Sub", "(*args, **kwargs)"},
    {"Bare", "()"},
    {"Odd", "unknown"},
    {"Lay", "(*args, **kwargs)"},
    {"New", "(a)"},
    {"Deco", "(a)?"},
    {"Called", "()?"},
    {"Over", "(*a)overload(a: int)"},
};

static void constructor__is_what_python_makes(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct pool pool = {.arena = &s->arena};
    for (size_t i = 0; i < sizeof constructors / sizeof constructors[0]; i++) {
        char path[64];
        struct api_signatures g;
        snprintf(path, sizeof path, "lib:%s", constructors[i].class_);
        api_constructor(&s->api, surface_def(s, path), &pool, &g, &s->err);
        const char *text = text_of(s, &g);
        if (strcmp(text, constructors[i].signature) != 0)
            fail_msg("%s%s, wanted %s", path, text, constructors[i].signature);
    }
    struct api_signatures g;
    api_constructor(&s->api, surface_def(s, "lib:Py"), &pool, &g, &s->err);
    assert_true(g.sig[0].ignores_extra && g.sig[0].generated);
    api_constructor(&s->api, surface_def(s, "lib:Strict"), &pool, &g, &s->err);
    assert_false(g.sig[0].ignores_extra);
    assert_ok(&s->err);
    surface_free(s);
}

static void call__goes_to_call_or_forward(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct pool pool = {.arena = &s->arena};
    struct api_signatures g;
    api_instance_call(&s->api, surface_def(s, "lib:Lay"), &pool, &g, &s->err);
    assert_string_equal(g.name, "forward");
    assert_string_equal(text_of(s, &g), "(x, y = None)");
    api_instance_call(&s->api, surface_def(s, "lib:Fn"), &pool, &g, &s->err);
    assert_string_equal(text_of(s, &g), "(z)");
    api_instance_call(&s->api, surface_def(s, "lib:Bare"), &pool, &g, &s->err);
    assert_int_equal(g.is, API_NOT_CALLABLE);
    api_instance_call(&s->api, surface_def(s, "lib:Odd"), &pool, &g, &s->err);
    assert_int_equal(g.is, API_CALL_UNKNOWN);
    surface_free(s);
}

static void method__drops_its_receiver_as_it_binds(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool on_class;
        const char *signature;
    } methods[] = {
        {"m", false, "(p)"},        {"m", true, "(self, p)"},   {"s", false, "(q)"},
        {"s", true, "(q)"},         {"c", false, "(r)"},        {"c", true, "(r)"},
        {"wrapped", false, "(w)?"}, {"prop", false, "unknown"}, {"v", false, "unknown"},
    };
    struct surface *s = surface_make(library);
    struct pool pool = {.arena = &s->arena};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct api_attribute at;
        struct api_signatures g;
        api_attribute(&s->api, surface_def(s, "lib:Fn"), methods[i].name, methods[i].on_class, &at);
        api_signatures_of(&s->api, at.def, at.defs, true, methods[i].on_class, &pool, &g, &s->err);
        const char *text = text_of(s, &g);
        if (strcmp(text, methods[i].signature) != 0)
            fail_msg("%s%s, wanted %s", methods[i].name, text, methods[i].signature);
    }
    struct api_signatures none;
    api_signatures_of(&s->api, NULL, 0, false, false, &pool, &none, &s->err);
    assert_int_equal(none.is, API_CALL_UNKNOWN);
    surface_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructor__is_what_python_makes),
        cmocka_unit_test(call__goes_to_call_or_forward),
        cmocka_unit_test(method__drops_its_receiver_as_it_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
