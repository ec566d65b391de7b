/* test_facts.c: the extractor of Python facts, under every python that is here, through the C side
 * that runs it. ASSAY_TEST_PYTHONS (paths with ':' between) adds pythons to those of PATH and of
 * pyenv; which were found is printed. Trees and archives come from
 * fixtures/contract/facts/archives.py. */
#include "harness/facts.h"

#include "core/json.h"
#include "tests/cli.h"
#include "tests/pythons.h"
#include "tests/support.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FACTS FIXTURE("contract/facts/")

static char made[FILE_PATH]; /* the folder that archives.py has filled */

static int make_all(void **state)
{
    if (folder_setup(state) != 0) return 1;
    snprintf(made, sizeof made, "%s", (const char *)*state);
    return python_run(FACTS "archives.py", made);
}

static const char *in_made(const char *name)
{
    return textf("%s/%s", made, name);
}

/* A run that must work. The object is the caller's. */
static json_t *facts_of(const char *mode, const char *path)
{
    json_t *out = NULL;
    struct err err = ERR_INIT;
    (void)!facts_read(mode, path, &out, &err);
    assert_ok(&err);
    assert_non_null(out);
    return out;
}

static const json_t *module_of(const json_t *facts, const char *name)
{
    return field(field(facts, "modules"), name);
}

static void assert_golden(const char *mode, const char *path, const char *golden)
{
    struct err err = ERR_INIT;
    json_t *want = NULL, *have = facts_of(mode, path);
    (void)!json_read(golden, &want, &err);
    assert_ok(&err);
    assert_true(json_equal(have, want));
    json_decref(have);
    json_decref(want);
}

static void surface__is_the_golden_one__under_every_python(void **state)
{
    (void)state;
    assert_golden("surface", FACTS "boat", FACTS "surface.json");
    assert_golden("uses", FACTS "consumer.py", FACTS "uses.json");
}

/* The same library, however it comes: its modules and its digest are the same. */
static void read__finds_the_same_library__in_any_form(void **state)
{
    (void)state;
    static const char *const forms[] = {"boat-1.2.3.tar.gz", "boat-1.2.3.tar.bz2", "boat-1.2.3.zip",
                                        "project"};
    json_t *want = facts_of("surface", FACTS "boat");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        json_t *have = facts_of("surface", in_made(forms[i]));
        const json_t *library = field(have, "library");
        assert_string_equal(field_text(library, "sha256"),
                            field_text(field(want, "library"), "sha256"));
        assert_string_equal(field_text(library, "name"), "boat");
        assert_string_equal(field_text(library, "version"), i < 3 ? "1.2.3" : "1.2.4");
        assert_string_equal(field_text(library, "source"), forms[i]);
        assert_int_equal(json_object_size(field(have, "modules")), 3);
        assert_int_equal(json_array_size(field(have, "problems")), 0);
        json_decref(have);
    }
    json_decref(want);
    assert_false(file_exists(in_made("ran")));
}

static void read__knows_a_wheels_compiled_and_stub_modules(void **state)
{
    (void)state;
    json_t *facts = facts_of("surface", in_made("boat-1.2.3-py3-none-any.whl"));
    const json_t *fast = module_of(facts, "boat._fast"), *typed = module_of(facts, "boat._typed");
    assert_true(json_is_true(field(fast, "compiled")));
    assert_true(json_is_true(field(field(fast, "getattr"), "any")));
    assert_true(json_is_true(field(typed, "stub")));
    assert_non_null(field(field(typed, "names"), "f"));
    assert_true(json_is_true(field(module_of(facts, "boat.data"), "namespace")));
    assert_non_null(module_of(facts, "oars")); /* of the folder .data/purelib */
    assert_int_equal(json_object_size(field(facts, "modules")), 8);
    json_decref(facts);
}

static void read__takes_scripts_and_tests_of_a_consumer(void **state)
{
    (void)state;
    json_t *facts = facts_of("uses", in_made("project"));
    assert_non_null(module_of(facts, "tests"));
    assert_non_null(module_of(facts, "setup"));
    assert_non_null(module_of(facts, "boat.rig"));
    json_decref(facts);
    facts = facts_of("uses", in_made("project/boat/rig.py"));
    assert_non_null(module_of(facts, "boat.rig"));
    assert_int_equal(json_object_size(field(facts, "modules")), 1);
    json_decref(facts);
}

static void read__finds_an_installed_distribution__and_runs_nothing_of_it(void **state)
{
    (void)state;
    setenv("PYTHONPATH", in_made("site"), 1);
    json_t *facts = facts_of("surface", "Boat");
    assert_string_equal(field_text(field(facts, "library"), "version"), "1.2.3");
    assert_int_equal(json_object_size(field(facts, "modules")), 3); /* row.py is not its own */
    json_decref(facts);
    facts = facts_of("surface", "inplace");
    assert_string_equal(field_text(field(facts, "library"), "name"), "inplace");
    assert_non_null(module_of(facts, "boat.hull"));
    json_decref(facts);
    json_t *out = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(facts_read("surface", "empty", &out, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "find distribution", "empty", "no Python files", "list");
    unsetenv("PYTHONPATH");
    assert_false(file_exists(in_made("ran")));
}

static void read__finds_what_is_installed_in_an_environment(void **state)
{
    (void)state;
    const char *before = getenv("ASSAY_PYTHON"), *kept = before ? textf("%s", before) : NULL;
    setenv("ASSAY_PYTHON", in_made("venv/bin/python3"), 1);
    json_t *facts = facts_of("surface", "boat");
    assert_string_equal(field_text(field(facts, "library"), "version"), "1.2.3");
    json_decref(facts);
    if (kept)
        setenv("ASSAY_PYTHON", kept, 1);
    else
        unsetenv("ASSAY_PYTHON");
    assert_false(file_exists(in_made("ran")));
}

struct refused {
    const char *path, *what, *found, *wanted;
};

static const struct refused refusals[] = {
    {"up.whl", "read archive", "boat/../../evil.py", "inside the archive"},
    {"root.whl", "read archive", "named /evil.py", "inside the archive"},
    {"drive.whl", "read archive", "c:\\evil.py", "inside the archive"},
    {"back.whl", "read archive", "boat\\..\\..\\evil.py", "inside the archive"},
    {"up.tar.gz", "read archive", "boat-1/../../evil.py", "inside the archive"},
    {"root.tar.gz", "read archive", "named /evil.py", "inside the archive"},
    {"bomb.whl", "read archive", "boat/bomb.py, 50331648 bytes packed", "at most 200 times"},
    {"bomb.tar.gz", "read archive", "contents", "at most 200 times"},
    {"directory.whl", "read archive", "a directory of more than", "less"},
    {"cut.whl", "read archive", NULL, "a wheel (.whl), or an sdist"},
    {"cut.tar.gz", "read archive", NULL, "a wheel (.whl), or an sdist"},
    {"crc.whl", "read archive", "boat/__init__.py, which cannot be unpacked", "undamaged"},
    {"meta.whl", "read archive", "METADATA, which cannot be unpacked", "undamaged"},
    {"more.whl", "read archive", "6 bytes where 7 are said", "an undamaged archive"},
    {"less.whl", "read archive", "boat/__init__.py, which cannot be unpacked", "undamaged"},
    {"local.whl", "read archive", "boat/__init__.py, which cannot be unpacked", "undamaged"},
    {"crc.tar.gz", "read archive", NULL, "a wheel (.whl), or an sdist"},
    {"text.whl", "read archive", NULL, "a wheel (.whl), or an sdist"},
    {"none.whl", "read archive", NULL, "a wheel (.whl), or an sdist"},
    {"nothing.whl", "find modules", "no Python files", "at least one"},
    {"absent.whl", "find", "no such file", "a folder, a .py file, a wheel"},
    {"tree/pipe.py", "open", "no regular file", "a folder, a .py file"},
};

static void read__refuses_what_is_hostile_as_a_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refused *r = &refusals[i];
        json_t *out = NULL;
        struct err err = ERR_INIT;
        assert_int_equal(facts_read("surface", in_made(r->path), &out, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, r->what, r->path, r->found, r->wanted);
        assert_null(out);
    }
    json_t *none = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(facts_read("surface", "/proc/self/mem", &none, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "open", "/proc/self/mem", NULL, "a readable input");
    assert_int_equal(facts_read("guess", made, &(json_t *){NULL}, &(struct err)ERR_INIT),
                     ERR_INPUT);
}

/* What the row about a file says, NULL where there is none. */
static const char *problem_of(const json_t *facts, const char *file, int64_t *line)
{
    size_t i;
    json_t *row;
    json_array_foreach(field(facts, "problems"), i, row)
    {
        if (strcmp(field_text(row, "file"), file) != 0) continue;
        *line = field_int(row, "line");
        return field_text(row, "what");
    }
    return NULL;
}

struct problem {
    const char *file, *what;
    int64_t line;
    const char *module; /* not among the modules; or, where `what` is NULL, among them */
};

static const struct problem in_tree[] = {
    {"syntax.py", "syntax error", 1, "tree.syntax"},
    {"latin.py", "not utf-8", 2, "tree.latin"},
    {"nul.py", "a NUL byte", 2, "tree.nul"},
    {"punny.py", "the coding punycode", 1, "tree.punny"},
    {"nowhere.py", "no coding that is known", 1, "tree.nowhere"},
    {"huge.py", "a file of more than", 0, "tree.huge"},
    {"nots.py", "nested too deeply", 0, "tree.nots"},
    {"parens.py", "too many nested parentheses", 1, "tree.parens"},
    {"elifs.py", "nested too deeply", 0, "tree.elifs"},
    {"out.py", "a link out of the tree", 0, "tree.out"},
    {"outdir", "a link out of the tree", 0, "tree.outdir"},
    {"loop", "a link to a folder of the tree", 0, "tree.loop"},
    {"dangling.py", "a link to nothing", 0, "tree.dangling"},
    {"pipe.py", "no regular file", 0, "tree.pipe"},
    {"__init__.py", NULL, 0, "tree"},
    {"coded.py", NULL, 0, "tree.coded"},
    {"inside.py", NULL, 0, "tree.inside"},
    {"blocks.py", NULL, 0, "tree.blocks"},
    {"lone.py", NULL, 0, "tree.lone"},
};
static const struct problem in_wheel[] = {
    {"boat/link.py", "a link in an archive", 0, "boat.link"},
    {"boat/twice.py", "a second member", 0, NULL},
    {"boat/huge.py", "a file of more than", 0, "boat.huge"},
};
static const struct problem in_sdist[] = {
    {"boat-1/boat/soft.py", "a link in an archive", 0, "boat.soft"},
    {"boat-1/boat/hard.py", "a link in an archive", 0, "boat.hard"},
    {"boat-1/boat/pipe.py", "no regular file", 0, "boat.pipe"},
    {"boat-1/boat/huge.py", "a file of more than", 0, "boat.huge"},
};

static void assert_problems(const char *mode, const char *path, const struct problem *rows,
                            size_t count)
{
    json_t *facts = facts_of(mode, in_made(path));
    for (size_t i = 0; i < count; i++) {
        int64_t line = 0;
        const char *what = problem_of(facts, rows[i].file, &line);
        const char *module = rows[i].module;
        bool there = module && json_object_get(field(facts, "modules"), module);
        print_message("%s %s: %s\n", mode, rows[i].file, what ? what : "read");
        if (!rows[i].what) assert_true(!what && there);
        if (!rows[i].what) continue;
        assert_non_null(what);
        assert_non_null(strstr(what, rows[i].what));
        assert_int_equal(line, rows[i].line);
        assert_false(there);
    }
    json_decref(facts);
}

#define assert_problem_rows(mode, path, rows)                                                      \
    assert_problems(mode, path, rows, sizeof rows / sizeof rows[0])

static void read__lists_what_is_wrong_with_single_files(void **state)
{
    (void)state;
    assert_problem_rows("surface", "tree", in_tree);
    assert_problem_rows("uses", "tree", in_tree);
    assert_problem_rows("surface", "odd.whl", in_wheel);
    assert_problem_rows("surface", "odd.tar.gz", in_sdist);
}

/* Chains of a hundred thousand links: some pythons refuse them, others read them; none falls. */
static void read__survives_what_is_nested_without_end(void **state)
{
    (void)state;
    static const char *const names[] = {"plus", "dots", "calls"};
    for (int mode = 0; mode < 2; mode++) {
        json_t *facts = facts_of(mode ? "uses" : "surface", in_made("tree"));
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            int64_t line;
            bool there = json_object_get(field(facts, "modules"), textf("tree.%s", names[i]));
            bool said = problem_of(facts, textf("%s.py", names[i]), &line);
            assert_true(there || said);
            assert_true(said || mode == 0); /* a tree cut short is said */
        }
        json_decref(facts);
    }
}

static int under(const char *python)
{
    setenv("ASSAY_PYTHON", python, 1);
    print_message("-- %s\n", python);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(surface__is_the_golden_one__under_every_python),
        cmocka_unit_test(read__finds_the_same_library__in_any_form),
        cmocka_unit_test(read__knows_a_wheels_compiled_and_stub_modules),
        cmocka_unit_test(read__takes_scripts_and_tests_of_a_consumer),
        cmocka_unit_test(read__finds_an_installed_distribution__and_runs_nothing_of_it),
        cmocka_unit_test(read__finds_what_is_installed_in_an_environment),
        cmocka_unit_test(read__refuses_what_is_hostile_as_a_whole),
        cmocka_unit_test(read__lists_what_is_wrong_with_single_files),
        cmocka_unit_test(read__survives_what_is_nested_without_end),
    };
    return cmocka_run_group_tests_name(python, tests, make_all, folder_teardown);
}

int main(void)
{
    int failed = 0;
    struct pythons p;
    pythons_find(&p);
    for (int i = 0; i < p.count; i++) failed += under(p.path[i]);
    return failed || p.count == 0;
}
