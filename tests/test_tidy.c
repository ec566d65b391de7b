/* test_tidy.c: the tree keeps the house rules, and each rule goes red on what it forbids.
 * Snippets split the forbidden words in two, so that this file passes its own test. */
#include "tests/support.h"
#include "tests/tidy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void rule_function(struct tidy *t, const char *path, const char *text);

/* Complaints of one rule on one text; what it said goes to `said`. */
static int complaints(rule_function *rule, const char *path, const char *text, char said[TIDY_TEXT])
{
    struct tidy *t = calloc(1, sizeof *t);
    assert_non_null(t);
    rule(t, path, text);
    int n = t->complaints;
    memcpy(said, t->text, TIDY_TEXT);
    free(t);
    return n;
}

static char said[TIDY_TEXT];

#define assert_red(rule, path, text, words)                                                        \
    do {                                                                                           \
        assert_int_equal(complaints(rule, path, text, said), 1);                                   \
        assert_non_null(strstr(said, words));                                                      \
    } while (0)
#define assert_green(rule, path, text) assert_int_equal(complaints(rule, path, text, said), 0)

/* `head`, then `lines` times `line`, then `tail`. */
static const char *many(const char *head, const char *line, int lines, const char *tail)
{
    static char text[1 << 16];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", head);
    for (int i = 0; i < lines; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", line);
    }
    snprintf(text + n, sizeof text - n, "%s", tail);
    return text;
}

static void width__counts_characters_up_to_the_limit(void **state)
{
    (void)state;
    assert_green(tidy_width, "core/a.c", many("", "x", TIDY_COLUMNS, "\n"));
    assert_green(tidy_width, "core/a.c", many("", "\xC3\xA9", TIDY_COLUMNS, "\n"));
    assert_red(tidy_width, "core/a.c", many("\n", "x", TIDY_COLUMNS + 1, "\n"),
               "core/a.c:2: 101 columns");
    assert_red(tidy_width, "core/a.c", "\tint x;\n", "a tab");
    assert_red(tidy_width, "core/a.c", "int x; \n", "spaces at the end");
    assert_red(tidy_width, "core/a.c", "int x;", "no newline");
    assert_green(tidy_width, "core/a.c", "int x;\n\nint y;\n");
}

static void length__allows_tests_more(void **state)
{
    (void)state;
    assert_green(tidy_length, "core/a.c", many("", "\n", TIDY_FILE_LINES, ""));
    assert_red(tidy_length, "core/a.c", many("", "\n", TIDY_FILE_LINES + 1, ""),
               "501 lines, at most 500");
    assert_green(tidy_length, "tests/test_a.c", many("", "\n", TIDY_TEST_LINES, ""));
    assert_red(tidy_length, "tests/test_a.c", many("", "\n", TIDY_TEST_LINES + 1, ""), "601 lines");
}

static void functions__are_measured_from_signature_to_brace(void **state)
{
    (void)state;
    int most = TIDY_FUNCTION_LINES;
    assert_green(tidy_functions, "core/a.c", many("int f(void)\n{\n", "x;\n", most - 3, "}\n"));
    assert_red(tidy_functions, "core/a.c",
               many("int y;\n\nint f(void)\n{\n", "x;\n", most - 2, "}\n"),
               "core/a.c:3: a function of 71 lines");
    assert_red(tidy_functions, "core/a.c",
               many("int f(int a,\n      int b)\n{\n", "x;\n", most, "}\n"), "of 74");
    assert_red(tidy_functions, "core/a.c",
               many("int f(void) {\n", "if (x) { y(); }\n", most, "}\n"), "of 72");
}

static void functions__are_found_after_what_is_no_function(void **state)
{
    (void)state;
    int most = TIDY_FUNCTION_LINES;
    assert_green(tidy_functions, "core/a.c",
                 many("static const int a[] = {\n", "1,\n", most, "};\n"));
    assert_green(tidy_functions, "core/a.h", many("struct a {\n", "int x;\n", most, "};\n"));
    assert_green(tidy_functions, "core/a.h", many("enum a {\n", "/* ) */\n", most, "};\n"));
    const char *scope =
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\nstruct s {int a;};\nint f(void)\n{\n";
    assert_red(tidy_functions, "core/a.h", many(scope, "x;\n", most, "}\n}\n"),
               "core/a.h:5: a function of 73");
    assert_red(tidy_functions, "gpu/a.cu",
               many("namespace {\nint f(void)\n{\n", "x;\n", most, "}\n}\n"), "of 73");
}

static void functions__do_not_count_braces_in_text(void **state)
{
    (void)state;
    const char *head =
        "#define M(x) { \\\n    {\nint f(void)\n{\n    a(\"}\\\"}\"); /* } */ b('}'); // }\n";
    assert_red(tidy_functions, "core/a.c", many(head, "x;\n", TIDY_FUNCTION_LINES, "}\n"),
               "core/a.c:3: a function");
}

static void functions__on_the_device_may_be_longer(void **state)
{
    (void)state;
    const char *head = "__global__ void f(void)\n{\n";
    assert_green(tidy_functions, "gpu/a.cu", many(head, "x;\n", TIDY_KERNEL_LINES - 3, "}\n"));
    assert_red(tidy_functions, "gpu/a.cu", many(head, "x;\n", TIDY_KERNEL_LINES, "}\n"),
               "at most 150");
}

static void calls__are_whole_words_in_code(void **state)
{
    (void)state;
    static const char *const banned[] = {"strcpy", "strcat", "sprintf", "gets",  "atoi",
                                         "atof",   "strtok", "rand",    "system"};
    for (size_t i = 0; i < sizeof banned / sizeof banned[0]; i++) {
        char text[64], words[64];
        snprintf(text, sizeof text, "int x;\nx = %s (y);\n", banned[i]);
        snprintf(words, sizeof words, "core/a.c:2: a call of %s()", banned[i]);
        assert_red(tidy_calls, "core/a.c", text, words);
    }
    assert_red(tidy_calls, "core/a.h", "#define CALL(x) atoi(x)\n", "atoi");
    assert_green(tidy_calls, "core/a.c",
                 "snprintf(a, n, b); fgets(a, n, f); int system; my_rand();\n");
    assert_green(tidy_calls, "core/a.c", "/* atoi(x) takes 12x */ puts(\"atoi(x)\"); // atoi(x)\n");
}

static void leftovers__go_red_anywhere(void **state)
{
    (void)state;
    assert_red(tidy_leftovers, "core/a.c",
               "\n/* TO"
               "DO: later */\n",
               "core/a.c:2: a leftover");
    assert_red(tidy_leftovers, "ci/a.sh",
               "# FIX"
               "ME\n",
               "a leftover");
    assert_red(tidy_leftovers, "README.md",
               "XX"
               "X\n",
               "a leftover");
    assert_red(tidy_leftovers, "core/a.c",
               "int x; // HA"
               "CK\n",
               "a leftover");
    assert_green(tidy_leftovers, "core/a.c",
                 "mkstemp(\"a.XX"
                 "XXXX\"); int TO"
                 "DOS;\n");
}

static void paths__of_a_machine_go_red(void **state)
{
    (void)state;
    assert_red(tidy_paths, "ci/a.sh",
               "cd /ho"
               "me/somebody\n",
               "ci/a.sh:1: a path of one machine");
    assert_red(tidy_paths, "core/a.c",
               "open(\"/ro"
               "ot/x\");\n",
               "one machine");
    assert_red(tidy_paths, "core/a.c",
               "x=/wo"
               "rk/x\n",
               "one machine");
    assert_green(tidy_paths, "ci/a.sh",
                 "build/wo"
                 "rk/x ${a}/ho"
                 "me/x http://a/ho"
                 "me/ /usr/bin/env\n");
}

static void includes__follow_the_arrows(void **state)
{
    (void)state;
    static const char *const red[][2] = {
        {"core/a.c", "ref/b.h"},
        {"core/a.c", "harness/b.h"},
        {"core/a.c", "tests/b.h"},
        {"ref/a.c", "gpu/b.h"},
        {"ref/a.c", "compat/b.h"},
        {"gpu/a.cu", "ref/b.h"},
        {"reports/a.c", "harness/b.h"},
        {"compat/a.c", "reports/b.h"},
        {"harness/a.c", "ref/b.h"},
        {"harness/a.c", "gpu/b.h"},
        {"harness/a.c", "tests/b.h"},
        {"tests/naive/a.c", "ref/b.h"},
        {"tests/install/a.c", "harness/b.h"},
        {"tests/a.c", "gpu/b.h"},
        {"core/a.c", "b.h"},
        {"core/a.c", "../core/b.h"},
    };
    for (size_t i = 0; i < sizeof red / sizeof red[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "\n  #  include  \"%s\"\n", red[i][1]);
        assert_red(tidy_includes, red[i][0], text, red[i][1]);
    }
    static const char *const green[][2] = {
        {"core/a.c", "core/b.h"},       {"ref/a.c", "core/b.h"},
        {"ref/a.c", "ref/b.h"},         {"gpu/a.cu", "gpu/b.cuh"},
        {"reports/a.c", "core/b.h"},    {"compat/a.c", "core/b.h"},
        {"harness/a.c", "compat/b.h"},  {"harness/a.c", "reports/b.h"},
        {"tests/a.c", "harness/b.h"},   {"tests/naive/a.c", "core/b.h"},
        {"tests/fuzz/a.c", "core/b.h"},
    };
    for (size_t i = 0; i < sizeof green / sizeof green[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "#include \"%s\"\n#include <stdio.h>\n", green[i][1]);
        assert_green(tidy_includes, green[i][0], text);
    }
    assert_red(tidy_includes, "core/a.c", "#include <core/b.h>\n", "is ours");
    assert_red(tidy_includes, "other/a.c", "#include \"core/b.h\"\n", "outside the folders");
}

static void op__goes_red_for_each_place_that_is_empty(void **state)
{
    static const char *const folders[] = {"core",  "ref",      "gpu",       "compat",
                                          "tests", "fixtures", "fixtures/a"};
    static const char *const files[] = {"core/a.h",       "ref/a.c",
                                        "gpu/a.cu",       "compat/a.yaml",
                                        "tests/test_a.c", "fixtures/a/b.safetensors"};
    const struct op_row op = {"a", files[0], files[1], files[2], files[3], files[4], "fixtures/a"};
    struct err err = ERR_INIT;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        assert_int_equal(file_make_folder(folder_path(state, folders[i]), &err), ERR_OK);
    }
    struct tidy t = {0};
    for (size_t missing = 0; missing <= sizeof files / sizeof files[0]; missing++) {
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            const char *path = folder_path(state, files[i]);
            if (i != missing) write_text(path, "x");
            if (i == missing) remove(path);
        }
        t = (struct tidy){0};
        tidy_op(&t, *state, &op);
        bool none = missing == sizeof files / sizeof files[0];
        assert_int_equal(t.complaints, none ? 0 : 1);
        if (!none) assert_non_null(strstr(t.text, missing == 5 ? "no fixtures" : files[missing]));
    }
    struct op_row without = op;
    without.gpu = NULL;
    remove(folder_path(state, "gpu/a.cu"));
    t = (struct tidy){0};
    tidy_op(&t, *state, &without);
    assert_int_equal(t.complaints, 0);
}

static void folder__finds_a_bad_file_below(void **state)
{
    struct err err = ERR_INIT;
    struct tidy t = {0};
    assert_int_equal(file_make_folder(folder_path(state, "core/deep"), &err), ERR_OK);
    write_text(folder_path(state, "core/good.c"), "int x;\n");
    write_text(folder_path(state, "core/data.bin"), "\t");
    write_text(folder_path(state, "core/deep/bad.c"), "\tx = atoi(y);\n#include \"ref/x.h\"\n");
    tidy_folder(&t, *state, "core");
    assert_int_equal(t.files, 2);
    assert_int_equal(t.complaints, 3);
    assert_non_null(strstr(t.text, "core/deep/bad.c:1: a tab"));
    assert_non_null(strstr(t.text, "core/deep/bad.c:2: \"ref/x.h\": no arrow"));
    t = (struct tidy){0};
    tidy_folder(&t, *state, "absent");
    assert_int_equal(t.complaints, 1);
}

static void named__files_are_there(void **state)
{
    static const struct {
        const char *text;
        int complaints;
    } rows[] = {
        {"/* See core/a.h, core/a.h. */ int core;\n", 0},
        {"/* See core/b.h. */\n", 1},
        {"int x; // core/b.h and core/c.cu\n", 2},
        {"/* tests/test_NAME.c, core/OP.h, core/x*.c, ../core/b.h, my/core/b.h, core/ */\n", 0},
        {"const char *p = \"core/b.h\";\n", 0},
    };
    struct err err = ERR_INIT;
    assert_int_equal(file_make_folder(folder_path(state, "core"), &err), ERR_OK);
    write_text(folder_path(state, "core/a.h"), "int x;\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tidy *t = calloc(1, sizeof *t);
        assert_non_null(t);
        tidy_named(t, *state, "ref/z.c", rows[i].text);
        assert_int_equal(t->complaints, rows[i].complaints);
        if (t->complaints) assert_non_null(strstr(t->text, "ref/z.c:1: names core/b.h, which"));
        free(t);
    }
}

static void report(const struct tidy *t)
{
    if (t->complaints == 0) return;
    fputs(t->text, stderr); /* cmocka cuts at 1024 bytes */
    fail_msg("%d complaints", t->complaints);
}

static void tree__keeps_the_rules(void **state)
{
    (void)state;
    static const char *const folders[] = {".ci",     "ci",     "core",  "ref",      "gpu",
                                          "harness", "compat", "tests", "fixtures", "reports"};
    static const char *const files[] = {"README.md", "CONTRIBUTING.md", "CMakeLists.txt",
                                        "CMakePresets.json"};
    struct tidy t = {0};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        tidy_folder(&t, ASSAY_SOURCE_DIR, folders[i]);
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        tidy_file(&t, ASSAY_SOURCE_DIR, files[i]);
    }
    print_message("%d files\n", t.files);
    assert_in_range(t.files, 100, 10000);
    report(&t);
}

static void tree__has_every_place_of_every_op(void **state)
{
    (void)state;
    struct tidy t = {0};
    assert_in_range(op_count, 1, 1000);
    for (int i = 0; i < op_count; i++) {
        tidy_op(&t, ASSAY_SOURCE_DIR, &op_rows[i]);
    }
    report(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(width__counts_characters_up_to_the_limit),
        cmocka_unit_test(length__allows_tests_more),
        cmocka_unit_test(functions__are_measured_from_signature_to_brace),
        cmocka_unit_test(functions__are_found_after_what_is_no_function),
        cmocka_unit_test(functions__do_not_count_braces_in_text),
        cmocka_unit_test(functions__on_the_device_may_be_longer),
        cmocka_unit_test(calls__are_whole_words_in_code),
        cmocka_unit_test(leftovers__go_red_anywhere),
        cmocka_unit_test(paths__of_a_machine_go_red),
        cmocka_unit_test(includes__follow_the_arrows),
        cmocka_unit_test_setup_teardown(op__goes_red_for_each_place_that_is_empty, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(folder__finds_a_bad_file_below, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(named__files_are_there, folder_setup, folder_teardown),
        cmocka_unit_test(tree__keeps_the_rules),
        cmocka_unit_test(tree__has_every_place_of_every_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
