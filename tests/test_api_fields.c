/* test_api_fields.c: parameters, fields and attributes as lines of text, there and back. */
#include "compat/api_fields.h"
#include "tests/support.h"

#include <string.h>

static struct arena arena;
static struct pool pool = {.arena = &arena};
static struct err err;

static const char *const good_fields[] = {
    "x",
    "x: int",
    "x = 3",
    "x: dict[str, int] = {'a = b': 1}",
    "x: T = list # factory",
    "x: int # InitVar",
    "x: int = 0 # kw_only init=False ClassVar NotRequired",
    "x: int # factory alias=y",
    "x: str = ' # '",
    "f = lambda x: x",
};
static const char *const bad_fields[] = {
    "",
    "3x: int",
    "x:int",
    "x: ",
    "x = ",
    "x: (",
    "x: int = 'a",
    "x: int # what",
    "x: int # alias=3",
    "x: int # alias=y factory",
    "x : int",
    "x: a = b = c",
    "x: int  = 3",
};
static const char *const good_attrs[] = {
    "x",
    "x: int = 3 # in __init__",
    "x # in run calls pkg.C - pkg.D",
    "x = C() # calls pkg.C",
};
static const char *const bad_attrs[] = {
    "", "x # in", "x # calls", "x # of y", "x # in run called C", "x: [ # in run",
};

static void field__is_the_same_text_again(void **state)
{
    (void)state;
    struct api_field f;
    for (size_t i = 0; i < sizeof good_fields / sizeof good_fields[0]; i++) {
        const char *wrong = api_field_from(good_fields[i], &f, &pool, &err);
        if (wrong) fail_msg("%s: %s", good_fields[i], wrong);
        assert_string_equal(api_field_text(&f, &pool, &err), good_fields[i]);
    }
    for (size_t i = 0; i < sizeof bad_fields / sizeof bad_fields[0]; i++) {
        if (!api_field_from(bad_fields[i], &f, &pool, &err)) fail_msg("taken: %s", bad_fields[i]);
    }
    assert_null(api_field_from("x: int = 0 # kw_only init=False", &f, &pool, &err));
    assert_true(f.kw_only && !f.init && !f.factory);
    arena_release(&arena, NULL);
    pool = (struct pool){.arena = &arena};
}

static void attribute__is_the_same_text_again(void **state)
{
    (void)state;
    struct api_attr d;
    for (size_t i = 0; i < sizeof good_attrs / sizeof good_attrs[0]; i++) {
        const char *wrong = api_attr_from(good_attrs[i], &d, &pool, &err);
        if (wrong) fail_msg("%s: %s", good_attrs[i], wrong);
        assert_string_equal(api_attr_text(&d, &pool, &err), good_attrs[i]);
    }
    for (size_t i = 0; i < sizeof bad_attrs / sizeof bad_attrs[0]; i++) {
        if (!api_attr_from(bad_attrs[i], &d, &pool, &err)) fail_msg("taken: %s", bad_attrs[i]);
    }
    assert_null(api_attr_from("x # in run calls pkg.C - pkg.D", &d, &pool, &err));
    assert_int_equal(d.calls.count, 3);
    assert_string_equal(d.calls.text[1], "");
    arena_release(&arena, NULL);
    pool = (struct pool){.arena = &arena};
}

/* Parameters parted by "; ". */
static const char *params_of(const char *text, struct api_params *out)
{
    const char *part[16];
    struct api_texts t = {part, 0};
    char *copy = pool_text(&pool, text, strlen(text), &err);
    for (char *rest = copy, *end; rest && *rest; rest = end) {
        if ((end = strstr(rest, "; "))) {
            *end = '\0';
            end += 2;
        }
        part[t.count++] = rest;
    }
    return api_params_from(&t, out, &pool, &err);
}

static void parameters__are_the_same_texts_again(void **state)
{
    (void)state;
    static const char *const good[] = {
        "",
        "self",
        "a; b: int = 3",
        "a; /; b",
        "a; /",
        "a; *; b",
        "*args; b: int",
        "a; /; b; *; c = 1; **kw: int",
        "*args: int; **kw",
    };
    static const char *const bad[] = {
        "/",      "a; /; /",  "*; a; /", "*",     "a; *",    "*; **kw", "*; *args",    "*a; *b",
        "**k; a", "**k; **j", "***a",    "a # x", "a; *; *", "a b",     "*args; *; b",
    };
    struct api_params p;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[128] = "";
        const char *wrong = params_of(good[i], &p);
        if (wrong) fail_msg("%s: %s", good[i], wrong);
        struct api_texts t = api_params_texts(&p, &pool, &err);
        for (int k = 0; k < t.count; k++) {
            strncat(text, k ? "; " : "", sizeof text - strlen(text) - 1);
            strncat(text, t.text[k], sizeof text - strlen(text) - 1);
        }
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (!params_of(bad[i], &p)) fail_msg("taken: %s", bad[i]);
    }
    assert_null(params_of("a; /; b; *; c; **d", &p));
    assert_int_equal(p.param[0].kind, API_POS);
    assert_int_equal(p.param[1].kind, API_ANY);
    assert_int_equal(p.param[2].kind, API_KW);
    assert_int_equal(p.param[3].kind, API_DSTAR);
    arena_release(&arena, NULL);
    pool = (struct pool){.arena = &arena};
}

static void names__are_what_source_can_hold(void **state)
{
    (void)state;
    char long_name[300];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_true(api_is_identifier("_a1") && api_is_identifier("\xc3\xa9t\xc3\xa9"));
    assert_false(api_is_identifier("") || api_is_identifier("1a") || api_is_identifier("a.b") ||
                 api_is_identifier("a b") || api_is_identifier(long_name));
    assert_true(api_is_module_name("a.b-c.d"));
    assert_false(api_is_module_name("") || api_is_module_name(".a") || api_is_module_name("a.") ||
                 api_is_module_name("a..b") || api_is_module_name("a:b") ||
                 api_is_module_name("a b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(field__is_the_same_text_again),
        cmocka_unit_test(attribute__is_the_same_text_again),
        cmocka_unit_test(parameters__are_the_same_texts_again),
        cmocka_unit_test(names__are_what_source_can_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
