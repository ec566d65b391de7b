/* test_uses.c: the consumer's tree from JSON; each thing that is not as it must be is refused with
 * its module and line. The pool too. */
#include "compat/uses.h"
#include "core/json.h"
#include "tests/cli.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct uses uses;
static struct err err;

static enum err_code read_text(const char *text)
{
    struct pool pool = {.arena = &arena};
    json_t *json;
    err = (struct err)ERR_INIT;
    if (json_parse(text, (int64_t)strlen(text), "facts", &json, &err) != ERR_OK) assert_ok(&err);
    enum err_code rc = uses_read(json, "app.whl", &pool, &uses, &err);
    json_decref(json);
    return rc;
}

/* A module app whose body is that. */
static enum err_code read_body(const char *body)
{
    return read_text(textf("{\"facts\":1,\"kind\":\"uses\",\"consumer\":{\"name\":\"app\"},"
                           "\"modules\":{\"app\":{\"file\":\"app/__init__.py\",\"body\":[%s]}}}",
                           body));
}

#define EXPR(e) "{\"s\":\"expr\",\"line\":7,\"value\":" e "}"

static void tree__is_read_as_it_is_written(void **state)
{
    (void)state;
    assert_int_equal(
        read_body("{\"s\":\"from\",\"line\":1,\"module\":\"a.b\",\"level\":2,\"names\":[[\"c\","
                  "\"d\",2],[\"e\",null,3]],\"suppress_lines\":{\"3\":\"why\"}},"
                  "{\"s\":\"def\",\"line\":4,\"name\":\"f\",\"params\":[{\"name\":\"x\",\"kind\":"
                  "\"pos\"},{\"name\":\"y\",\"kind\":\"dstar\"}],\"decorators\":[],\"returns\":"
                  "null,\"async\":true,\"body\":[]},"
                  "{\"s\":\"class\",\"line\":5,\"name\":\"C\",\"bases\":[],\"keywords\":[],"
                  "\"decorators\":[],\"body\":[]}," EXPR(
                      "{\"e\":\"call\",\"line\":9,\"func\":{\"e\":\"name\",\"line\":9,\"id\":"
                      "\"f\"},\"args\":[{\"e\":\"const\",\"line\":9,\"v\":1.5}],\"kw\":[[null,"
                      "{\"e\":\"str\",\"line\":9,\"v\":\"s\"}]]}")),
        ERR_OK);
    const struct uses_module *m = uses_find(&uses, "app");
    assert_non_null(m);
    assert_null(uses_find(&uses, "ap"));
    assert_true(m->package);
    assert_int_equal(m->body.stmts, 4);
    const struct stmt *s = m->body.stmt;
    assert_int_equal(s[0].level, 2);
    assert_string_equal(s[0].import[0].as, "d");
    assert_null(s[0].import[1].as);
    assert_int_equal(s[0].import[1].line, 3);
    assert_int_equal(m->accept->line, 3);
    assert_string_equal(m->accept->text, "why");
    assert_true(s[1].async);
    assert_int_equal(s[1].param[0].kind, API_POS);
    assert_int_equal(s[1].param[1].kind, API_DSTAR);
    assert_int_equal(s[1].id, 0);
    assert_int_equal(s[2].id, 1);
    assert_int_equal(uses.defs, 2);
    const struct expr *call = s[3].value;
    assert_int_equal(call->line, 9);
    assert_true(call->item[0]->number == 1.5);
    assert_null(call->kw[0].name);
    assert_string_equal(call->kw[0].value->text, "s");
}

static void tree__refuses_what_is_not_in_the_form(void **state)
{
    (void)state;
    static const struct {
        const char *body, *what, *found;
    } bad[] = {
        {"{\"s\":\"goto\",\"line\":7}", "statement", "goto"},
        {"{\"line\":7}", "s", "nothing"},
        {"3", "statement", "integer"},
        {EXPR("{\"e\":\"spell\",\"line\":7}"), "expression", "spell"},
        {EXPR("{\"e\":\"name\",\"line\":7}"), "id", "nothing"},
        {EXPR("{\"e\":\"name\",\"line\":7,\"id\":3}"), "id", "integer"},
        {EXPR("{\"e\":\"attr\",\"line\":7,\"name\":\"x\"}"), "value", "nothing"},
        {EXPR("{\"e\":\"const\",\"line\":7,\"v\":[]}"), "constant", "array"},
        {EXPR("{\"e\":\"dict\",\"line\":7,\"keys\":[null],\"values\":[]}"), "dict", "keys"},
        {EXPR("{\"e\":\"compare\",\"line\":7,\"left\":{\"e\":\"name\",\"id\":\"a\",\"line\":7},"
              "\"ops\":[\"<\"],\"right\":[]}"),
         "compare", "ops"},
        {EXPR("{\"e\":\"call\",\"line\":7,\"func\":{\"e\":\"name\",\"id\":\"a\",\"line\":7},"
              "\"args\":[],\"kw\":[[3,4]]}"),
         "keyword", "another form"},
        {EXPR("{\"e\":\"list\",\"line\":7,\"items\":{}}"), "items", "object"},
        {"{\"s\":\"import\",\"line\":7,\"names\":[3]}", "import", "another form"},
        {"{\"s\":\"global\",\"line\":7,\"names\":[3]}", "names", "integer"},
        {"{\"s\":\"def\",\"line\":7,\"name\":\"f\",\"params\":[{\"name\":\"x\",\"kind\":\"odd\"}],"
         "\"body\":[]}",
         "parameter", "odd"},
        {"{\"s\":\"pass\",\"line\":7,\"suppress_lines\":{\"x\":\"y\"}}", "suppress_lines", "x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(read_body(bad[i].body), ERR_INPUT);
        assert_err(&err, ERR_INPUT, bad[i].what, "app.whl: app:", bad[i].found, NULL);
    }
}

static void tree__refuses_another_form_as_a_whole(void **state)
{
    (void)state;
    assert_int_equal(read_text("{\"facts\":2,\"kind\":\"uses\",\"modules\":{}}"), ERR_INPUT);
    assert_int_equal(read_text("{\"facts\":1,\"kind\":\"surface\",\"modules\":{}}"), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "kind", NULL, "surface", "uses");
    assert_int_equal(read_text("{\"facts\":1,\"kind\":\"uses\"}"), ERR_INPUT);
    assert_int_equal(read_text("{\"facts\":1,\"kind\":\"uses\",\"modules\":{\"a\":3}}"), ERR_INPUT);
    assert_int_equal(read_text("{\"facts\":1,\"kind\":\"uses\",\"modules\":{}}"), ERR_OK);
    assert_int_equal(uses.modules, 0);
}

static void tree__has_a_bounded_depth(void **state)
{
    (void)state;
    enum { DEEP = USES_DEPTH + 8 };
    const char *open = "{\"e\":\"not\",\"line\":7,\"value\":",
               *core = "{\"e\":\"name\",\"line\":7,\"id\":\"x\"}";
    char *text = calloc(DEEP * 64, 1);
    assert_non_null(text);
    for (int levels = USES_DEPTH - 2; levels <= USES_DEPTH; levels += 2) {
        text[0] = 0;
        char *at = text + snprintf(text, 64, "{\"s\":\"expr\",\"line\":7,\"value\":");
        for (int i = 0; i < levels; i++) at += snprintf(at, 64, "%s", open);
        at += snprintf(at, 64, "%s", core);
        for (int i = 0; i <= levels; i++) *at++ = '}';
        *at = 0;
        json_t *json = NULL;
        struct pool pool = {.arena = &arena};
        err = (struct err)ERR_INIT;
        char *whole = NULL;
        if (asprintf(&whole,
                     "{\"facts\":1,\"kind\":\"uses\",\"modules\":{\"app\":{\"file\":\"a.py\","
                     "\"body\":[%s]}}}",
                     text) < 0)
            fail();
        if (json_parse(whole, (int64_t)strlen(whole), "facts", &json, &err) != ERR_OK)
            assert_ok(&err);
        enum err_code rc = uses_read(json, "app.whl", &pool, &uses, &err);
        assert_int_equal(rc, levels < USES_DEPTH - 1 ? ERR_OK : ERR_INPUT);
        json_decref(json);
        free(whole);
    }
    assert_err(&err, ERR_INPUT, "expression", NULL, "deeper nesting", "levels");
    free(text);
}

static void problems__are_kept(void **state)
{
    (void)state;
    assert_int_equal(read_text("{\"facts\":1,\"kind\":\"uses\",\"modules\":{},\"problems\":[{"
                               "\"file\":\"a.py\",\"line\":3,\"what\":\"syntax\"}]}"),
                     ERR_OK);
    assert_int_equal(uses.problems, 1);
    assert_string_equal(uses.problem[0].what, "syntax");
    assert_int_equal(uses.problem[0].line, 3);
}

static void pool__gives_zeroed_pieces_of_any_size(void **state)
{
    (void)state;
    struct pool pool = {.arena = &arena};
    err = (struct err)ERR_INIT;
    unsigned char *before = NULL;
    for (size_t n = 1; n < 3 * POOL_BLOCK; n += n / 2 + 1) {
        unsigned char *p = pool_take(&pool, n, 1, &err);
        assert_non_null(p);
        assert_true(p != before && (uintptr_t)p % 16 == 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xAB, n);
        before = p;
    }
    assert_null(pool_take(&pool, SIZE_MAX / 2, 4, &err));
    assert_int_equal(err.code, ERR_MEMORY);
    err = (struct err)ERR_INIT;
    assert_string_equal(pool_text(&pool, "abcdef", 3, &err), "abc");
    assert_string_equal(pool_format(&pool, &err, "%d-%s", 4, "x"), "4-x");
}

static int release(void **state)
{
    (void)state;
    arena_release(&arena, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tree__is_read_as_it_is_written, release),
        cmocka_unit_test_teardown(tree__refuses_what_is_not_in_the_form, release),
        cmocka_unit_test_teardown(tree__refuses_another_form_as_a_whole, release),
        cmocka_unit_test_teardown(tree__has_a_bounded_depth, release),
        cmocka_unit_test_teardown(problems__are_kept, release),
        cmocka_unit_test_teardown(pool__gives_zeroed_pieces_of_any_size, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
