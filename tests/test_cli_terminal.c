/* test_cli_terminal.c: the text of the program on terminals and in locales: colours only where a
 * person sees them, the same bytes in every locale, nothing but ASCII of our own. */
#include "tests/cli.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHOWN = 1 << 16 };

/* What the program prints on a terminal of that many columns. `setting` is "NAME=VALUE" for its
 * environment, or NULL. The caller's. */
static char *shown(const char *const *argv, unsigned short columns, const char *setting)
{
    const struct winsize size = {.ws_row = 24, .ws_col = columns};
    int leader, status;
    char *text = calloc(1, SHOWN + 1);
    const char *words[CLI_ARGS] = {ASSAY_PROGRAM};
    assert_non_null(text);
    for (int i = 0; argv[i]; i++) words[i + 1] = argv[i];
    const pid_t child = forkpty(&leader, NULL, NULL, &size);
    assert_true(child >= 0);
    if (child == 0) {
        unsetenv("NO_COLOR");
        if (setting) putenv(strdup(setting));
        execv(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    for (size_t n = 0; n < SHOWN;) {
        const ssize_t got = read(leader, text + n, SHOWN - n);
        if (got <= 0) break; /* a terminal that is gone is an error on Linux */
        n += (size_t)got;
    }
    close(leader);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return text;
}

static const char *const red_diff[] = {"diff", FIXTURE("bugs/nibble.safetensors"),
                                       FIXTURE("tiny-k25/golden.safetensors"), NULL};

static void colour__is_for_a_terminal_alone(void **state)
{
    (void)state;
    char *text = shown(red_diff, 80, NULL);
    assert_non_null(strstr(text, "\x1b[31mFAIL\x1b[0m: 71 taps compared"));
    free(text);
    text = shown(red_diff, 80, "NO_COLOR=1");
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "FAIL: 71 taps compared"));
    free(text);
    struct cli r;
    cli_run(&r, red_diff);
    assert_null(strchr(r.out, '\x1b'));
    cli_free(&r);
}

/* The verdict and where it lies are on the first screen, however narrow; --help fits in it. */
static void text__works__on_a_narrow_terminal(void **state)
{
    (void)state;
    char *text = shown(red_diff, 40, "NO_COLOR=1");
    const char *first = strstr(text, "first divergence: layers.1");
    assert_int_equal(strncmp(text, "FAIL: 71 taps", 13), 0);
    assert_non_null(first);
    assert_in_range(first - text, 1, 40 * 12);
    free(text);
    text = shown(red_diff, 80, "NO_COLOR=1");
    assert_non_null(strstr(text, "0.756    0.0841      5.67 fail\r\n    relative RMS 0.756 above"));
    free(text);
    text = shown((const char *const[]){"forward", "--help", NULL}, 40, NULL);
    assert_non_null(strstr(text, "--dump-dtype f32|f64\r\n        type of real taps"));
    free(text);
    text = shown((const char *const[]){"help", NULL}, 40, NULL);
    for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] != '\0'))
        assert_in_range(strcspn(p, "\r\n"), 0, 40);
    free(text);
}

/* A comma for the point of a number, or a name cut at its first accent, would be another text. */
static void text__is_the_same__in_every_locale(void **state)
{
    static const char *const locales[] = {"C", "POSIX", "C.UTF-8", "de_DE.UTF-8",
                                          "tr_TR.ISO-8859-9"};
    const float one[4] = {1, 2, 3, 4}, other[4] = {1, 2, 3, 5};
    const struct st_part a = {"couche.\xC3\xA9t\xC3\xA9", DT_F32, 2, {1, 4}, one},
                         b = {"couche.\xC3\xA9t\xC3\xA9", DT_F32, 2, {1, 4}, other};
    const char *left = textf("%s/a.safetensors", (const char *)*state),
               *right = textf("%s/b.safetensors", (const char *)*state);
    char *first = NULL;
    write_safetensors(left, &a, 1, NULL, 0);
    write_safetensors(right, &b, 1, NULL, 0);
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        const char *was = getenv("LC_ALL");
        char *kept = was ? strdup(was) : NULL;
        struct cli r, again;
        setenv("LC_ALL", locales[i], 1);
        cli(&r, "diff", left, right, "--bound", "1e-3");
        cli_run(&again, red_diff);
        if (kept) setenv("LC_ALL", kept, 1);
        if (!kept) unsetenv("LC_ALL");
        free(kept);
        assert_int_equal(r.status, 1);
        assert_non_null(strstr(r.out, "couche.\xC3\xA9t\xC3\xA9"));
        for (const char *p = again.out; *p; p++)
            assert_true((unsigned char)*p < 0x7f && (*p >= ' ' || *p == '\n'));
        char *both = NULL;
        assert_true(asprintf(&both, "%s%s", r.out, again.out) > 0);
        if (!first) first = strdup(both);
        assert_string_equal(both, first);
        free(both);
        cli_free(&again);
        cli_free(&r);
    }
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colour__is_for_a_terminal_alone),
        cmocka_unit_test(text__works__on_a_narrow_terminal),
        cmocka_unit_test_setup_teardown(text__is_the_same__in_every_locale, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
