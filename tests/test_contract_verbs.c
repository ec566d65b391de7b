/* test_contract_verbs.c: `contract record`, `diff` and `show` as a user meets them. `check` has
 * tests of its own. */
#include "tests/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char library[] = "class Thing:\n"
                              "    def __init__(self, a, b=1):\n"
                              "        self.state = a\n"
                              "    def run(self):\n"
                              "        return 1\n"
                              "    def unused(self):\n"
                              "        return 2\n"
                              "def helper(x: int) -> Thing:\n"
                              "    return Thing(x)\n"
                              "class Alone:\n"
                              "    pass\n";
static const char newer[] = "class Thing:\n"
                            "    def __init__(self, a, c, b=2):\n"
                            "        self.state = a\n"
                            "    def run(self):\n"
                            "        return 1\n"
                            "def helper(x: int) -> Thing:\n"
                            "    return Thing(x, 3)\n";
static const char consumer[] = "from lib.core import Thing, missing\n"
                               "Thing(1).run()\n";

/* A library in folder/NAME, of one package with one module. */
static const char *library_in(void **state, const char *name, const char *text)
{
    struct err err = ERR_INIT;
    const char *package = textf("%s/lib", folder_path(state, name));
    assert_int_equal(file_make_folder(package, &err), ERR_OK);
    write_text(textf("%s/__init__.py", package), "__version__ = '1'\n");
    write_text(textf("%s/core.py", package), text);
    return textf("%s", folder_path(state, name));
}

static const char *consumer_in(void **state)
{
    const char *path = textf("%s", folder_path(state, "user.py"));
    write_text(path, consumer);
    return path;
}

static void record__keeps_all_or_what_a_consumer_reaches(void **state)
{
    const char *lib = library_in(state, "old", library), *user = consumer_in(state);
    const char *all = textf("%s", folder_path(state, "all.yaml"));
    const char *some = textf("%s", folder_path(state, "some.yaml"));
    json_t *r = cli_passes("contract", "record", lib, "--out", all);
    assert_int_equal(field_int(r, "modules"), 2);
    assert_true(json_is_null(field(r, "for")));
    json_decref(r);
    /* From the library, and from its contract: the same but for where it was read from. */
    r = cli_passes("contract", "record", all, "--out", some, "--for", user);
    assert_string_equal(field_text(field(r, "for"), "name"), "user");
    json_decref(r);
    size_t size;
    char *text = read_whole(some, &size);
    assert_non_null(strstr(text, "lib.core:Thing.run:"));
    assert_non_null(strstr(text, "others: [state, unused]"));
    assert_non_null(strstr(text, "      missing: []"));
    assert_null(strstr(text, "Alone"));
    free(text);
    r = cli_passes("contract", "record", lib, "--out", some, "--also", "lib.core.Alone");
    assert_string_equal(field_text(field(r, "for"), "name"), "--also");
    json_decref(r);
    text = read_whole(some, &size);
    assert_non_null(strstr(text, "lib.core:Alone:"));
    assert_null(strstr(text, "Thing"));
    free(text);
}

static void record__is_refused__when_it_cannot_be_used(void **state)
{
    const char *lib = library_in(state, "old", library), *user = consumer_in(state);
    const char *out = textf("%s", folder_path(state, "c.yaml"));
    const char *idle = textf("%s", folder_path(state, "idle.py"));
    write_text(idle, "import os\n");
    write_text(out, "kept");
    cli_refuses(state, ((struct refusal){2, "arguments", "contract record", "no --out", NULL}),
                "contract", "record", lib);
    cli_refuses(state, ((struct refusal){2, "arguments", NULL, "--receiver alone", NULL}),
                "contract", "record", lib, "--out", out, "--receiver", "x=lib.core.Thing");
    cli_refuses(state, ((struct refusal){2, "record contract", "--also", "lib.core.No", NULL}),
                "contract", "record", lib, "--out", out, "--also", "lib.core.No");
    cli_refuses(state, ((struct refusal){2, "record contract", "idle", "nothing of", NULL}),
                "contract", "record", lib, "--out", out, "--for", idle);
    cli_refuses(state, ((struct refusal){2, NULL, NULL, NULL, NULL}), "contract", "record",
                textf("%s/none", lib), "--out", out);
    /* A library that no syntax of this Python fits: that is the cause, not the consumer. */
    const char *torn = textf("%s", folder_path(state, "torn"));
    assert_int_equal(mkdir(torn, 0700), 0);
    write_text(textf("%s/__init__.py", torn), "def f(:\n    pass\n");
    cli_refuses(
        state, ((struct refusal){2, "contract check", "__init__.py, line 1", "syntax error", NULL}),
        "contract", "check", idle, "--against", torn);
    const char *part = textf("%s", folder_path(state, "part.yaml"));
    json_decref(cli_passes("contract", "record", lib, "--out", part, "--for", user));
    cli_refuses(state, ((struct refusal){2, "record contract", NULL, "recorded for user", NULL}),
                "contract", "record", part, "--out", out, "--for", user);
}

static void word__takes_its_own_options_only(void **state)
{
    cli_refuses(state, ((struct refusal){2, "arguments", "contract", "\"copy\"", "record"}),
                "contract", "copy", "x");
    cli_refuses(state, ((struct refusal){2, "option", "--out", "given to contract show", NULL}),
                "contract", "show", "x", "--out", "y");
    cli_refuses(state, ((struct refusal){2, "arguments", "contract record", "0 words", "1"}),
                "contract", "record");
    cli_refuses(state, ((struct refusal){2, "arguments", "contract record", "2 words", "1"}),
                "contract", "record", "x", "y");
    cli_refuses(state, ((struct refusal){2, "arguments", "contract diff", NULL, NULL}), "contract",
                "diff", "x");
}

static void diff__shows_what_breaks_whom(void **state)
{
    const char *old = library_in(state, "old", library), *new = library_in(state, "new", newer);
    const char *user = consumer_in(state);
    json_t *r = cli_fails("contract", "diff", old, new);
    assert_int_equal(field_int(field(r, "counts"), "breaks"), 3); /* c, Alone, unused */
    assert_int_equal(field_int(field(r, "counts"), "default changed"), 1);
    assert_string_equal(field_text(json_array_get(field(r, "changes"), 0), "category"), "breaks");
    json_decref(r);
    r = cli_fails("contract", "diff", old, new, "--for", user);
    assert_int_equal(field_int(field(r, "counts"), "breaks"), 1); /* c alone */
    json_decref(r);
    r = cli_passes("contract", "diff", old, old);
    assert_true(field_int(r, "compared") > 5);
    json_decref(r);
    struct cli run;
    cli(&run, "contract", "diff", old, new);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "breaks: lib.core:Thing: parameter c added, required"));
    assert_null(strstr(run.out, "harmless: "));
    cli_free(&run);
    cli(&run, "contract", "diff", old, new, "--all");
    assert_non_null(strstr(run.out, "names compared"));
    cli_free(&run);
    const char *other = textf("%s", folder_path(state, "other.py"));
    write_text(other, "x = 1\n");
    cli_refuses(state, ((struct refusal){2, "contract diff", NULL, "nothing that", "one library"}),
                "contract", "diff", old, other);
}

static void show__prints_a_symbol_or_what_is_like_it(void **state)
{
    const char *lib = library_in(state, "old", library);
    struct cli run;
    cli(&run, "contract", "show", lib, "lib.core.Thing");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "def __init__(self, a, b = 1)"));
    assert_non_null(strstr(run.out, "lib/core.py:1"));
    cli_free(&run);
    cli(&run, "contract", "show", lib);
    assert_non_null(strstr(run.out, "2 modules"));
    cli_free(&run);
    json_t *r = cli_passes("contract", "show", lib, "lib.core");
    assert_non_null(strstr(field_text(r, "text"), "class  Alone"));
    json_decref(r);
    cli_refuses(state,
                ((struct refusal){2, "show contract", "lib.core.Thin", "no such name", "Thing"}),
                "contract", "show", lib, "lib.core.Thin");
    cli_refuses(state, ((struct refusal){2, "show contract", "os.path", "outside", NULL}),
                "contract", "show", lib, "os.path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(record__keeps_all_or_what_a_consumer_reaches, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(record__is_refused__when_it_cannot_be_used, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(word__takes_its_own_options_only, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(diff__shows_what_breaks_whom, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(show__prints_a_symbol_or_what_is_like_it, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
