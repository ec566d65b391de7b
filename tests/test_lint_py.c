/* test_lint_py.c: Python handlers in the forms that a rule's fixture does not show: each text is
 * one function body, judged by the program; what counts is the set of rules that it names. */
#include "tests/cli.h"

#include <stdio.h>
#include <string.h>

/* The rules found in a text, in order of lines, with ' ' between. */
static const char *rules_of(void **state, const char *text)
{
    static char out[512];
    struct cli r;
    size_t i;
    const json_t *f;
    const char *path = folder_path(state, "case.py");
    write_text(path, text);
    cli(&r, "lint", path, "--json");
    assert_non_null(r.json);
    assert_in_range(r.status, 0, 1);
    out[0] = '\0';
    json_array_foreach(field(r.json, "findings"), i, f)
    {
        if (strcmp(field_text(f, "severity"), "note") == 0) continue;
        size_t n = strlen(out);
        snprintf(out + n, sizeof out - n, "%s%s", n ? " " : "", field_text(f, "rule"));
    }
    cli_free(&r);
    return out;
}

/* A handler's body, indented by eight, in a loop in a function. */
static const char *handled(void **state, const char *type, const char *body)
{
    return rules_of(state, textf("import logging, sys, os, traceback\n"
                                 "def run(items, work):\n    for item in items:\n"
                                 "        try:\n            work(item)\n"
                                 "        except %s:\n            %s\n",
                                 type, body));
}

struct row {
    const char *type, *body, *rules;
};

static void assert_rows(void **state, const struct row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *rules = handled(state, row[i].type, row[i].body);
        if (strcmp(rules, row[i].rules) != 0)
            fail_msg("except %s: %s: found \"%s\", wanted \"%s\"", row[i].type, row[i].body, rules,
                     row[i].rules);
    }
}
#define assert_table(state, table) assert_rows(state, table, sizeof table / sizeof table[0])

static void text_of_an_error__is_not_its_type(void **state)
{
    static const struct row table[] = {
        {"Exception as e", "print(e)", "handler.message"},
        {"Exception as e", "print('failed', item, str(e))", "handler.message"},
        {"Exception as e", "logging.error('x: ' + str(e))", "handler.message"},
        {"Exception as e", "sys.stderr.write(f'{e}')", "handler.message"},
        {"Exception as e", "message = '{}'.format(e)", "handler.message"},
        {"Exception as e", "return {'ok': False, 'text': str(e)}", "handler.message"},
        {"Exception as e", "yield 'error', e.args", "handler.message"},
        {"(OSError, Exception) as e", "print(f'{e}')", "handler.message"},
        {"TimeoutError as e", "print(f'{e}')", "handler.message"},
        {"Exception as e", "print(f'{e}'); raise", ""},
        {"Exception as e", "print(repr(e))", ""},
        {"Exception as e", "print('%r' % e)", ""},
        {"Exception as e", "print('{!r}'.format(e))", ""},
        {"Exception as e", "print(f'{e=}')", ""},
        {"Exception as e", "print(e.__class__.__name__, e)", ""},
        {"Exception as e", "print(type(e), e)", ""},
        {"Exception as e", "print(e, traceback.format_exc())", ""},
        {"Exception as e", "logging.error('%s', e, exc_info=e)", ""},
        {"Exception as e", "note(item, e)", ""},
        {"Exception as e", "items[item] = e", ""},
        {"Exception as e", "return e", ""},
        {"Exception as e", "known = 'memory' in str(e)", ""},
        {"KeyError as e", "print(f'{e}')", ""},
        {"ValueError as e", "print(f'{e}')", ""},
    };
    assert_table(state, table);
}

static void error_that_ends_in_a_handler__is_found(void **state)
{
    static const struct row table[] = {
        {"Exception", "pass", "handler.swallow"},
        {"Exception", "...", "handler.swallow"},
        {"Exception as e", "del e", "handler.swallow"},
        {"Exception", "break", "handler.swallow"},
        {"Exception", "return", "handler.swallow"},
        {"Exception", "return []", "handler.swallow"},
        {"Exception", "item = None", "handler.swallow"},
        {"BaseException", "if item: raise", ""}, /* in a loop: a retry */
        {"Exception", "with item: pass", "handler.swallow"},
        {"Exception", "logging.debug('no')", "handler.log"},
        {"Exception", "return False", ""},
        {"Exception", "return -1", ""},
        {"Exception", "failures += 1", ""},
        {"Exception", "bad.append(item)", ""},
        {"Exception", "mark_failed(item)", ""},
        {"Exception", "sys.exit(3)", ""},
        {"Exception", "os.abort()", ""},
        {"Exception", "assert False", ""},
        {"Exception", "raise ValueError('x')", ""},
        {"ValueError", "pass", ""},
        {"Exception", "sys.exit()", "handler.exit-zero"},
        {"Exception", "sys.exit(None)", "handler.exit-zero"},
        {"ImportError", "sys.exit(0)", ""},
        {"Exception", "processed += 1", "handler.counted"},
        {"Exception as e", "logging.exception('x'); num_done += 1", "handler.counted"},
        {"Exception", "errors_count += 1", ""},
    };
    assert_table(state, table);
}

static void handler__is_fine_where_what_follows_raises(void **state)
{
    static const char text[] = "def f(work):\n    try:\n        return work()\n"
                               "    except Exception:\n        pass\n    %s\n";
    assert_string_equal(rules_of(state, textf(text, "raise ValueError('x')")), "");
    assert_string_equal(rules_of(state, textf(text, "return None")), "handler.swallow");
    assert_string_equal(
        rules_of(state, "def f(work):\n    for i in range(3):\n        try:\n            work()\n"
                        "        except Exception:\n            continue\n        break\n"
                        "    else:\n        raise ValueError('x')\n"),
        "");
}

static void names__are_those_of_the_imports(void **state)
{
    assert_string_equal(rules_of(state, "from os import system as s\ns('x')\n"),
                        "status.os-system");
    assert_string_equal(rules_of(state, "import subprocess as p\np.run(['x'])\n"),
                        "status.subprocess");
    assert_string_equal(rules_of(state, "from x import run\nrun(['x'])\n"), "");
    assert_string_equal(rules_of(state, "from x import system\nsystem('x')\n"), "");
    assert_string_equal(rules_of(state, "def f():\n    import os\n    os.system('x')\n"),
                        "status.os-system");
}

static void value__that_a_nested_function_looks_at_is_looked_at(void **state)
{
    assert_string_equal(rules_of(state, "import subprocess\ndef f():\n"
                                        "    done = subprocess.run(['x'])\n"
                                        "    return lambda: done.returncode\n"),
                        "");
    assert_string_equal(rules_of(state, "import subprocess\ndef f():\n"
                                        "    done = subprocess.run(['x'])\n"
                                        "    return lambda: done.stdout\n"),
                        "status.subprocess");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)
        IN_FOLDER(text_of_an_error__is_not_its_type),
        IN_FOLDER(error_that_ends_in_a_handler__is_found),
        IN_FOLDER(handler__is_fine_where_what_follows_raises),
        IN_FOLDER(names__are_those_of_the_imports),
        IN_FOLDER(value__that_a_nested_function_looks_at_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
