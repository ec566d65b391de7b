/* test_verb_quote.c: `assay quote` as a user meets it. */
#include "tests/cli.h"
#include "tests/outside.h"

#include <stdlib.h>
#include <string.h>

static void quote__prints_the_line_and_nothing_else__plainly(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "quote", "--through", "zsh,ssh:gpu1,bash", "--", "python3", "-c", "print(f\"{x!r}\")");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "ssh gpu1 'python3 -c '\\''print(f\"{x!r}\")'\\'''\n");
    assert_string_equal(r.err, "");
    cli_free(&r);
}

static void quote__takes_any_bytes_and_options__after_two_dashes(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "quote", "--through", "bash", "--", "show", "--json", "--through", "\xff\x01");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "show --json --through $'\xff\\001'\n");
    cli_free(&r);
}

static void line__is_whole_in_json__where_it_is_no_utf8_and_long(void **state)
{
    enum { LONG = 9000 };
    static char word[LONG + 1];
    (void)state;
    memset(word, 'a', LONG);
    word[0] = '\xff';
    struct cli r;
    cli(&r, "quote", "--json", "--through", "bash", "--", "show", word);
    assert_int_equal(r.status, 0);
    const char *line = field_text(r.json, "line");
    assert_int_equal(strlen(line), strlen("show '\\xff'") + LONG - 1);
    assert_non_null(strstr(line, "'\\xffaaa"));
    cli_free(&r);
}

static void quote__says_on_stderr_that_a_host_is_missing__and_prints_the_line(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "quote", "--through", "zsh,ssh,bash", "--", "uptime");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "ssh HOST uptime\n");
    assert_non_null(strstr(r.err, "HOST stands for the host"));
    cli_free(&r);
}

static void check__names_the_hop_that_breaks_a_line__in_json(void **state)
{
    (void)state;
    json_t *o = cli_fails("quote", "--through", "zsh,ssh:h,bash", "--check",
                          "ssh h python3 -c 'print(f\"{x}\")'");
    const json_t *breaks = field(o, "breaks");
    assert_int_equal(field_int(breaks, "index"), 2);
    assert_string_equal(field_text(breaks, "hop"), "bash");
    assert_string_equal(field_text(breaks, "found"), "(");
    assert_int_equal(json_array_size(field(o, "hops")), 3);
    assert_false(json_is_true(field(o, "undecidable")));
    json_decref(o);
    o = cli_fails("quote", "--through", "bash", "--check", "echo $(touch never)");
    assert_true(json_is_null(field(o, "breaks")));
    assert_true(json_is_true(field(o, "undecidable")));
    json_decref(o);
    o = cli_passes("quote", "--through", "bash,ssh", "--check", "ssh h \"echo 'a b'\"");
    assert_int_equal(json_array_size(field(o, "argv")), 2);
    json_decref(o);
}

static void quote__is_refused_in_one_line__when_it_cannot_be_meant(void **state)
{
    cli_refuses(state, ((struct refusal){2, "quote", "--through", "none", NULL}), "quote", "--",
                "a");
    cli_refuses(state, ((struct refusal){2, "quote", "command", "none", NULL}), "quote",
                "--through", "bash");
    cli_refuses(state, ((struct refusal){2, "quote", "command", "none", NULL}), "quote",
                "--through", "bash", "--");
    cli_refuses(state, ((struct refusal){2, "quote", "--check", "a command too", NULL}), "quote",
                "--through", "bash", "--check", "x", "--", "a");
    cli_refuses(state, ((struct refusal){2, "hop", "--through", "fish", "bash"}), "quote",
                "--through", "fish", "--", "a");
}

/* The steps are run by a real shell, with stand-ins for ssh: what arrives is what was given. */
static void as_file__carries_checks_and_runs_the_command__when_its_steps_are_run(void **state)
{
    static const char *const words[] = {"a b\n'\"$x", "\x01\xff"};
    for (int i = 0; i < 2; i++) {
        struct cli r;
        const char *out = folder_path(state, "out"), *script = folder_path(state, "steps");
        write_text(folder_path(state, "ssh"),
                   "#!/bin/sh\nshift\nmkdir -p far\ncd far\nexec sh -c \"$*\"\n");
        cli(&r, "quote", "--through", "sh,ssh:h,sh", "--as-file", "--", "printf", "<%s>", words[i]);
        assert_int_equal(r.status, 0);
        write_text(script, r.out);
        cli_free(&r);
        char command[2048], wanted[64];
        snprintf(command, sizeof command, "cd %s && chmod +x ssh && PATH=$PWD:$PATH sh steps > %s",
                 (const char *)*state, out);
        assert_int_equal(outside_sh(command), 0);
        size_t size;
        char *text = read_whole(out, &size);
        snprintf(wanted, sizeof wanted, "<%s>", words[i]);
        assert_non_null(strstr(text, ": OK\n"));
        assert_non_null(strstr(text, wanted));
        free(text);
    }
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quote__prints_the_line_and_nothing_else__plainly),
        cmocka_unit_test(quote__takes_any_bytes_and_options__after_two_dashes),
        cmocka_unit_test(line__is_whole_in_json__where_it_is_no_utf8_and_long),
        cmocka_unit_test(quote__says_on_stderr_that_a_host_is_missing__and_prints_the_line),
        cmocka_unit_test(check__names_the_hop_that_breaks_a_line__in_json),
        FOLDER(quote__is_refused_in_one_line__when_it_cannot_be_meant),
        FOLDER(as_file__carries_checks_and_runs_the_command__when_its_steps_are_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
