/* test_api_class.c: the order of base classes, attributes and where they come from, abstract
 * methods. */
#include "compat/api_base.h"
#include "compat/api_lookup.h"
#include "compat/api_reach.h"
#include "tests/surface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char library[] =
    "{'lib': {'names': {"
    "    'O': {'bases': []}, 'A': {'bases': ['lib.O']}, 'B': {'bases': ['lib.O']},"
    "    'C': {'bases': ['lib.A', 'lib.B']}, 'X': {'bases': ['lib.A', 'lib.O']},"
    "    'Bad': {'bases': ['lib.O', 'lib.A']}, 'Loop': {'bases': ['lib.Loop']},"
    "    'Base': {'bases': ['abc.ABC'], 'members': {"
    "        'todo': {'def': 'self', 'abstract': true}, 'done': {'def': 'self', 'abstract': true},"
    "        'size': [{'def': 'self', 'binding': 'property', 'returns': 'int'},"
    "                 {'def': 'self; v', 'binding': 'property', 'setter': true}],"
    "        'fixed': {'def': 'self', 'binding': 'property', 'returns': 'str'},"
    "        'LIMIT': {'value': '3', 'type': 'int'}},"
    "        'fields': ['note: str', 'seed: int # InitVar', 'start: int = 0 # InitVar'],"
    "        'attrs': {'state': {'line': 9, 'type': 'dict', 'value': null, 'in': '__init__'}}},"
    "    'Half': {'bases': ['lib.Base'], 'members': {'done': {'def': 'self'}}},"
    "    'Plain': {'bases': [], 'members': {'todo': {'def': 'self', 'abstract': true}}},"
    "    'Layer': {'bases': ['torch.nn.Module'], 'members': {'forward': {'def': 'self; x'},"
    "        'embed_input_ids': {'def': 'self; ids'}}},"
    "    'Odd': {'bases': ['elsewhere.Base']},"
    "    'Magic': {'bases': [], 'members': {'__getattr__': {'def': 'self; name'}}},"
    "    'Sets': {'bases': [], 'dynamic': 'setattr'},"
    "    'Deco': {'bases': [], 'decorators': ['outside.deco']},"
    "    'Own': {'bases': [], 'decorators': ['lib.deco']},"
    "    'Meta': {'bases': [], 'keywords': {'metaclass': 'lib.M'}},"
    "    'Color': {'bases': ['enum.Enum'], 'members': {'RED': {'value': '1'}, 'mix': {'def': "
    "'self'}}},"
    "    'Pair': {'bases': ['typing.NamedTuple'], 'fields': ['a: int', 'b: int']},"
    "    'Oops': {'bases': ['ValueError']}, 'Io': {'bases': ['FileNotFoundError']},"
    "    'Box': {'bases': ['typing.Generic[T]']}, 'Boxed': {'bases': ['lib.Box[int]']},"
    "    'Data': {'bases': [], 'decorators': ['dataclasses.dataclass'], 'fields': ['x: int']},"
    "    'Renamed': {'bases': [], 'members': {'go': {'to': 'lib:helper'}}},"
    "    'helper': {'def': 'x'}}}}";

static const char *order_of(const struct surface *s, const char *name)
{
    static char text[512];
    struct api_mro m;
    size_t n = 0;
    api_mro(&s->api, surface_def(s, name), &m);
    text[0] = '\0';
    for (int i = 0; i < m.classes; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s ", m.class_[i]->name);
    for (int i = 0; i < m.outsides; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "[%s] ", m.outside[i]);
    snprintf(text + n, sizeof text - n, "%s%s", m.broken ? "broken " : "",
             m.traits & API_TRAIT_UNKNOWN ? "unknown" : "");
    return text;
}

static void mro__is_the_order_of_c3(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    assert_string_equal(order_of(s, "lib:C"), "C A B O ");
    assert_string_equal(order_of(s, "lib:X"), "X A O ");
    assert_string_equal(order_of(s, "lib:Bad"), "Bad O A broken unknown"); /* Python refuses it */
    assert_non_null(strstr(order_of(s, "lib:Loop"), "broken unknown"));
    assert_string_equal(order_of(s, "lib:Boxed"), "Boxed Box [typing.Generic[T]] ");
    assert_string_equal(order_of(s, "lib:Odd"), "Odd [elsewhere.Base] unknown");
    assert_string_equal(order_of(s, "lib:Layer"), "Layer [torch.nn.Module] ");
    assert_true(api_inherits(&s->api, surface_def(s, "lib:C"), "lib:O"));
    assert_true(api_inherits(&s->api, surface_def(s, "lib:Boxed"), "typing.Generic"));
    assert_false(api_inherits(&s->api, surface_def(s, "lib:A"), "lib:B"));
    const struct api_def *below[8];
    assert_int_equal(api_subclasses(&s->api, surface_def(s, "lib:A"), below, 8), 3);
    surface_free(s);
}

/* A(i)(B(i), A(i-1)), B(i)(A(i-1)): 2^levels ways lead to A0. */
static struct surface *diamonds(int levels)
{
    size_t room = (size_t)levels * 80 + 80, n = 0;
    char *text = malloc(room);
    assert_non_null(text);
    n += (size_t)snprintf(text + n, room - n,
                          "{'lib': {'names': {'A0': {'bases': [], 'members': "
                          "{'root': {'def': 'self'}}}");
    for (int i = 1; i <= levels; i++)
        n += (size_t)snprintf(text + n, room - n,
                              ",'B%d': {'bases': ['lib.A%d']},'A%d': {'bases': ['lib.B%d', "
                              "'lib.A%d']}",
                              i, i - 1, i, i, i - 1);
    snprintf(text + n, room - n, "}}}");
    struct surface *s = surface_make(text);
    free(text);
    return s;
}

static void mro__of_diamonds_on_diamonds_takes_each_class_once(void **state)
{
    (void)state;
    struct api_mro m;
    struct surface *s = diamonds(60);
    assert_string_equal(order_of(s, "lib:A3"), "A3 B3 A2 B2 A1 B1 A0 ");
    api_mro(&s->api, surface_def(s, "lib:A31"), &m);
    assert_int_equal(m.classes, 63);
    assert_false(m.broken);
    api_mro(&s->api, surface_def(s, "lib:A60"), &m); /* 121 classes: more than are held */
    assert_true(m.broken && m.traits & API_TRAIT_UNKNOWN);
    surface_free(s);
    s = diamonds(400);
    api_mro(&s->api, surface_def(s, "lib:A400"), &m);
    assert_true(m.broken && m.traits & API_TRAIT_UNKNOWN && m.classes > 1);
    api_mro(&s->api, surface_def(s, "lib:A60"), &m);
    api_mro(&s->api, surface_def(s, "lib:B29"), &m); /* who asked before does not matter */
    assert_int_equal(m.classes, 58);
    assert_false(m.broken);
    surface_free(s);
}

static void mro__of_bases_in_a_circle_has_each_once(void **state)
{
    (void)state;
    struct surface *s = surface_make(
        "{'lib': {'names': {'P': {'bases': ['lib.Q', 'lib.R']}, 'Q': {'bases': ['lib.R', 'lib.P']},"
        "'R': {'bases': ['lib.P', 'lib.Q']}, 'S': {'bases': ['lib.P', 'out.T']},"
        "'V': {'bases': []}, 'W': {'bases': ['lib.V']}, 'X': {'bases': ['lib.V', 'lib.W']},"
        "'Y': {'bases': ['lib.X']}}}}");
    assert_string_equal(order_of(s, "lib:Y"), "Y X V W broken unknown");
    assert_string_equal(order_of(s, "lib:S"), "S P Q R [out.T] broken unknown");
    assert_string_equal(order_of(s, "lib:P"), "P Q R broken unknown");
    assert_string_equal(order_of(s, "lib:Q"), "Q R P broken unknown");
    assert_string_equal(order_of(s, "lib:P"), "P Q R broken unknown");
    surface_free(s);
}

/* What is kept from a look without notes is looked for again once they are taken. */
static void mro__is_noted_each_time_that_notes_are_taken(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct api_mro m;
    const struct api_def *c = surface_def(s, "lib:C"), *base = surface_def(s, "lib:O");
    api_mro(&s->api, c, &m);
    for (int i = 0; i < 2; i++) {
        struct api_reach reach;
        api_reach_begin(&reach, &s->arena);
        s->api.reach = &reach;
        api_mro(&s->api, c, &m);
        assert_true(api_reached(&reach, base));
        api_mro(&s->api, c, &m);
        assert_int_equal(m.classes, 4);
    }
    s->api.reach = NULL;
    surface_free(s);
}

struct row {
    const char *class_, *name;
    bool on_class;
    enum api_found found;
    enum api_origin_kind origin;
    const char *type; /* or a part of why */
};

static const struct row rows[] = {
    {"Half", "todo", false, API_FOUND, API_FROM_MEMBER, NULL},
    {"Half", "note", false, API_FOUND, API_FROM_FIELD, "str"},
    {"Half", "state", false, API_FOUND, API_FROM_INSTANCE, "dict"},
    {"Half", "size", false, API_FOUND, API_FROM_MEMBER, "int"},
    {"Half", "LIMIT", true, API_FOUND, API_FROM_MEMBER, "int"},
    {"Half", "seed", false, API_ABSENT, API_FROM_MEMBER, NULL}, /* InitVar: no attribute */
    {"Half", "start", false, API_FOUND, API_FROM_FIELD, "int"}, /* but its default is one */
    {"Half", "missing", false, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Half", "__class__", false, API_FOUND, API_FROM_BASE, NULL},
    {"Half", "__name__", false, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Half", "__name__", true, API_FOUND, API_FROM_BASE, NULL},
    {"Layer", "parameters", false, API_FOUND, API_FROM_BASE, NULL},
    {"Layer", "layers", false, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Odd", "anything", false, API_UNKNOWN, API_FROM_MEMBER, "base class"},
    {"Magic", "anything", false, API_UNKNOWN, API_FROM_MEMBER, "__getattr__"},
    {"Sets", "anything", false, API_UNKNOWN, API_FROM_MEMBER, "computed"},
    {"Deco", "anything", false, API_UNKNOWN, API_FROM_MEMBER, "decorator"},
    {"Own", "anything", false, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Meta", "anything", true, API_UNKNOWN, API_FROM_MEMBER, "metaclass"},
    {"Meta", "anything", false, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Color", "RED", true, API_FOUND, API_FROM_MEMBER, NULL},
    {"Color", "value", false, API_FOUND, API_FROM_BASE, NULL},
    {"Color", "__members__", true, API_FOUND, API_FROM_GENERATED, NULL},
    {"Color", "BLUE", true, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Pair", "_asdict", false, API_FOUND, API_FROM_BASE, NULL},
    {"Pair", "__getitem__", false, API_FOUND, API_FROM_BASE, NULL},
    {"Oops", "args", false, API_FOUND, API_FROM_BASE, NULL},
    {"Oops", "errno", false, API_ABSENT, API_FROM_MEMBER, NULL},
    {"Io", "errno", false, API_FOUND, API_FROM_BASE, NULL},
    {"Data", "__dataclass_fields__", true, API_FOUND, API_FROM_GENERATED, NULL},
    {"Renamed", "go", false, API_FOUND, API_FROM_MEMBER, NULL},
};

static void attribute__comes_from_where_python_finds_it(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct api_attribute at;
        char path[64];
        snprintf(path, sizeof path, "lib:%s", r->class_);
        api_attribute(&s->api, surface_def(s, path), r->name, r->on_class, &at);
        const char *said = at.type ? at.type : at.why;
        bool same = at.found == r->found && (at.found != API_FOUND || at.origin == r->origin) &&
                    (!r->type || (said && strstr(said, r->type)));
        if (!same)
            fail_msg("%s.%s: found %d from %d, %s", r->class_, r->name, at.found, at.origin,
                     said ? said : "nothing");
    }
    surface_free(s);
}

static void attribute__tells_what_it_is(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    struct api_attribute at;
    api_attribute(&s->api, surface_def(s, "lib:Half"), "done", false, &at);
    assert_string_equal(at.class_->path, "lib:Half");
    assert_string_equal(at.def[0]->path, "lib:Half.done");
    api_attribute_after(&s->api, surface_def(s, "lib:Half"), surface_def(s, "lib:Half"), "done",
                        &at);
    assert_string_equal(at.class_->path, "lib:Base");
    api_attribute(&s->api, surface_def(s, "lib:Half"), "size", false, &at);
    assert_false(at.read_only);
    assert_int_equal(at.defs, 1); /* the setter is none of them */
    api_attribute(&s->api, surface_def(s, "lib:Half"), "fixed", false, &at);
    assert_true(at.read_only);
    api_attribute(&s->api, surface_def(s, "lib:Half"), "seed", false, &at);
    assert_true(at.only_init);
    api_attribute(&s->api, surface_def(s, "lib:Color"), "RED", true, &at);
    assert_true(at.member);
    api_attribute(&s->api, surface_def(s, "lib:Color"), "mix", true, &at);
    assert_false(at.member);
    api_attribute(&s->api, surface_def(s, "lib:Renamed"), "go", false, &at);
    assert_string_equal(at.def[0]->path, "lib:helper");
    api_attribute(&s->api, surface_def(s, "lib:Layer"), "get_input_embeddings", false, &at);
    assert_int_equal(at.nows, 1);
    assert_string_equal(at.now[0], "embed_input_ids");
    surface_free(s);
}

static void abstract__counts_what_nobody_implements(void **state)
{
    (void)state;
    struct surface *s = surface_make(library);
    const struct api_def *left[API_MRO];
    bool open;
    assert_int_equal(api_abstract(&s->api, surface_def(s, "lib:Base"), left, &open), 2);
    assert_int_equal(api_abstract(&s->api, surface_def(s, "lib:Half"), left, &open), 1);
    assert_string_equal(left[0]->path, "lib:Base.todo");
    assert_false(open);
    /* Without the metaclass nobody looks. */
    assert_int_equal(api_abstract(&s->api, surface_def(s, "lib:Plain"), left, &open), 0);
    (void)api_abstract(&s->api, surface_def(s, "lib:Odd"), left, &open);
    assert_true(open);
    surface_free(s);
}

static void decorator__says_its_settings(void **state)
{
    (void)state;
    assert_true(api_says("d(kw_only=True)", "kw_only", false));
    assert_false(api_says("d(x=1, init = False)", "init", true));
    assert_true(api_says("d(my_init=False)", "init", true)); /* another word */
    assert_true(api_says("d", "init", true));
    assert_int_equal(api_decorator_of("dataclasses.dataclass(frozen=True)"),
                     API_DECORATOR_DATACLASS);
    assert_int_equal(api_decorator_of("typing.final"), API_DECORATOR_PLAIN);
    assert_int_equal(api_decorator_of("dataclass"), API_DECORATOR_UNKNOWN);
    assert_true(api_has_word("one two", "two"));
    assert_false(api_has_word("one two", "tw"));
    assert_false(api_has_word("one two", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mro__is_the_order_of_c3),
        cmocka_unit_test(mro__of_diamonds_on_diamonds_takes_each_class_once),
        cmocka_unit_test(mro__of_bases_in_a_circle_has_each_once),
        cmocka_unit_test(mro__is_noted_each_time_that_notes_are_taken),
        cmocka_unit_test(attribute__comes_from_where_python_finds_it),
        cmocka_unit_test(attribute__tells_what_it_is),
        cmocka_unit_test(abstract__counts_what_nobody_implements),
        cmocka_unit_test(decorator__says_its_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
