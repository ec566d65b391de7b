/* test_api_prune.c: a contract for a consumer holds what the lookups touched, gives the same
 * answers to the same questions, and tells "nobody asked" from "not there". */
#include "compat/api_prune.h"
#include "compat/api_lookup.h"
#include "tests/surface.h"

#include <stdlib.h>
#include <string.h>

static const char library[] =
    "{'lib': {'package': true, 'all': ['Thing', 'other'], 'stars': ['lib.star'], 'names': {"
    "   'Thing': {'to': 'lib.core:Thing'}, 'other': {'value': '1'}},"
    "   'getattr': {'names': {'Lazy': 'lib.core:helper', 'Later': 'lib.core:helper'}, 'any': false,"
    "   'deprecated': null}},"
    " 'lib.star': {'names': {'starred': {'value': '1'}, 'unseen': {'value': '2'}}},"
    " 'lib.core': {'names': {"
    "   'Base': {'bases': ['abc.ABC'], 'members': {'todo': {'def': 'self', 'abstract': true},"
    "       'used': {'def': 'self', 'returns': 'lib.core.Made | None'}, 'unused': {'def': "
    "'self'}}},"
    "   'Thing': {'bases': ['lib.core.Base'], 'fields': ['f: int'], 'members': {"
    "       '__init__': {'def': 'self; x'}, 'todo': {'def': 'self'}, 'extra': {'def': 'self'}},"
    "       'attrs': {'a': {'line': 3}, 'b': {'line': 4}}},"
    "   'Made': {'bases': [], 'members': {'__init__': {'def': 'self; y'}}},"
    "   'Unseen': {'bases': []}, 'helper': {'def': 'x'}}},"
    " 'lib.far': {'names': {'Gone': {'bases': []}}}, 'lib.unused': {}}";

static const struct api_origin consumer = {"user", "2.0", "user.whl", "aa"};

static struct surface *reached(struct api_reach *reach, const char *const *names)
{
    struct surface *s = surface_make(library);
    struct api_result r;
    api_reach_begin(reach, &s->arena);
    s->api.reach = reach;
    for (int i = 0; names[i]; i++) api_find(&s->api, names[i], &r);
    return s;
}

/* The contract as a file would give it. */
static struct api cut(struct surface *s)
{
    struct api kept, again;
    char *text;
    int64_t size;
    if (api_prune(&s->api, &consumer, &s->arena, &kept, &s->err) != ERR_OK) assert_ok(&s->err);
    assert_int_equal(api_print(&kept, &text, &size, &s->err), ERR_OK);
    if (api_parse(&again, text, size, "c.yaml", &s->arena, &s->err) != ERR_OK) assert_ok(&s->err);
    free(text);
    return again;
}

static const char *const asked[] = {
    "lib.Thing",    "lib.Thing.used",  "lib.Thing.a",       "lib.starred",     "lib.Lazy",
    "lib.old.Gone", "lib.core.Thingy", "lib.Thing.missing", "lib.core.helper", NULL};

static void contract__gives_the_same_answers(void **state)
{
    (void)state;
    struct api_reach reach;
    struct surface *s = reached(&reach, asked);
    struct api kept = cut(s);
    s->api.reach = NULL;
    for (int i = 0; asked[i]; i++) {
        struct api_result whole, part;
        api_find(&s->api, asked[i], &whole);
        api_find(&kept, asked[i], &part);
        bool same = whole.found == part.found && whole.defs == part.defs &&
                    whole.nows == part.nows && whole.open == part.open &&
                    (!whole.nows || strcmp(whole.now[0], part.now[0]) == 0) &&
                    (!whole.defs || strcmp(whole.def[0]->path, part.def[0]->path) == 0);
        if (!same)
            fail_msg("%s: %d then %d, %d then %d suggestions", asked[i], whole.found, part.found,
                     whole.nows, part.nows);
    }
    surface_free(s);
}

static void contract__tells_unasked_from_absent(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum api_found found;
    } rows[] = {
        {"lib.Thing.extra", API_UNRECORDED}, /* listed among others */
        {"lib.Thing.b", API_UNRECORDED},
        {"lib.Thing.nothing", API_ABSENT}, /* a class lists all its names */
        {"lib.core.Unseen", API_UNRECORDED},
        {"lib.Later", API_UNRECORDED},
        {"lib.unused", API_UNRECORDED},
        {"lib.core.Thingy", API_ABSENT}, /* asked for, and not there */
        {"lib.core.Thingier", API_UNRECORDED},
        {"other.x", API_OUTSIDE},
    };
    struct api_reach reach;
    struct surface *s = reached(&reach, asked);
    struct api kept = cut(s);
    assert_string_equal(kept.consumer.name, "user");
    assert_null(api_module(&kept, "lib.unused", 10));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct api_result r;
        api_find(&kept, rows[i].name, &r);
        if (r.found != rows[i].found) fail_msg("%s: found %d", rows[i].name, r.found);
        assert_true(r.found != API_UNRECORDED || r.why);
    }
    surface_free(s);
}

static void contract__holds_what_is_not_there_alone(void **state)
{
    (void)state;
    static const char *const none[] = {"lib.gone", NULL};
    struct api_reach reach;
    struct surface *s = surface_make("{'lib.a': {}}");
    struct api_result r;
    api_reach_begin(&reach, &s->arena);
    s->api.reach = &reach;
    api_find(&s->api, none[0], &r);
    struct api kept = cut(s);
    assert_int_equal(kept.modules, 0);
    assert_string_equal(kept.absent[0].name, "lib.gone");
    surface_free(s);
}

/* A name for the type checker only, which __getattr__ makes at run time. */
static void contract__keeps_a_lazy_name_lazy(void **state)
{
    (void)state;
    struct api_reach reach;
    struct surface *s = surface_make(
        "{'lib': {'package': true, 'names': {'L': {'to': 'lib.a:L', 'when': ['TYPE_CHECKING']}},"
        " 'getattr': {'names': {'L': 'lib.a:L'}, 'any': false, 'deprecated': null}},"
        " 'lib.a': {'names': {'L': {'bases': []}}}}");
    struct api_result r;
    api_reach_begin(&reach, &s->arena);
    s->api.reach = &reach;
    api_find(&s->api, "lib.L", &r);
    assert_false(r.typing_only);
    struct api kept = cut(s);
    api_find(&kept, "lib.L", &r);
    assert_int_equal(r.found, API_FOUND);
    assert_false(r.typing_only);
    surface_free(s);
}

static void closure__takes_one_step_more(void **state)
{
    (void)state;
    static const char *const few[] = {"lib.Thing.used", NULL};
    struct api_reach reach;
    struct surface *s = reached(&reach, few);
    struct pool pool = {.arena = &s->arena};
    const struct api_def *left[API_MRO];
    struct api_signatures g;
    struct api_result r;
    bool open;
    api_reach_close(&s->api, &s->err);
    struct api kept = cut(s);
    api_find(&kept, "lib.core.Made", &r); /* what the method returns */
    assert_int_equal(r.found, API_FOUND);
    api_find(&kept, "lib.Thing", &r);
    api_constructor(&kept, api_class_of(&r), &pool, &g, &s->err);
    assert_int_equal(g.is, API_CALLABLE);
    assert_string_equal(g.sig[0].params.param[0].name, "x");
    assert_int_equal(api_abstract(&kept, api_class_of(&r), left, &open), 0);
    api_find(&kept, "lib.core.Base", &r);
    assert_int_equal(api_abstract(&kept, api_class_of(&r), left, &open), 1);
    surface_free(s);
}

static void name__asked_for_by_hand__must_be_there(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    struct api_reach reach;
    struct surface *s = reached(&reach, none);
    struct api_result r;
    assert_int_equal(api_reach_name(&s->api, "lib.core.Unseen", &s->err), ERR_OK);
    struct api kept = cut(s);
    api_find(&kept, "lib.core.Unseen", &r);
    assert_int_equal(r.found, API_FOUND);
    assert_int_equal(api_reach_name(&s->api, "lib.core.Nope", &s->err), ERR_INPUT);
    assert_err(&s->err, ERR_INPUT, NULL, "--also", "lib.core.Nope", NULL);
    surface_free(s);
}

static void reach__holds_many_things_once(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct api_reach reach;
    static const char object[5000];
    const char *const now[] = {"x"};
    api_reach_begin(&reach, &arena);
    struct api a = {.reach = &reach};
    assert_false(api_reached(&reach, object));
    for (int i = 0; i < 5000; i++) api_note(&a, &object[i]);
    for (int i = 0; i < 5000; i++) api_note(&a, &object[i]);
    api_note(&a, NULL);
    assert_int_equal(reach.used, 5000);
    assert_true(api_reached(&reach, &object[4999]));
    for (int i = 0; i < 300; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%d", i % 150);
        api_note_miss(&a, NULL, name, now, 1);
    }
    assert_int_equal(reach.misses, 150);
    arena_release(&arena, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract__gives_the_same_answers),
        cmocka_unit_test(contract__tells_unasked_from_absent),
        cmocka_unit_test(contract__holds_what_is_not_there_alone),
        cmocka_unit_test(contract__keeps_a_lazy_name_lazy),
        cmocka_unit_test(closure__takes_one_step_more),
        cmocka_unit_test(name__asked_for_by_hand__must_be_there),
        cmocka_unit_test(reach__holds_many_things_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
