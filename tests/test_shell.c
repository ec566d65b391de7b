/* test_shell.c: words written for a shell, and lines read as each shell reads them. */
#include "compat/shell.h"

#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

struct scratch {
    struct arena arena;
    struct pool pool;
};

static int scratch_setup(void **state)
{
    struct scratch *s = calloc(1, sizeof *s);
    s->pool.arena = &s->arena;
    *state = s;
    return 0;
}

static int scratch_teardown(void **state)
{
    struct scratch *s = *state;
    arena_release(&s->arena, NULL);
    free(s);
    return 0;
}

static char *written(enum shell s, bool typed, const char *const *word, int n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    shell_write(f, s, typed, word, n);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void write__quotes_what_the_shell_would_read_otherwise__word_by_word(void **state)
{
    static const struct {
        enum shell shell;
        bool typed;
        const char *word[MOST];
        const char *line;
    } rows[] = {
        {SHELL_SH, false, {"echo", "a", "b-c_d.e/f:g@h%i,j+k"}, "echo a b-c_d.e/f:g@h%i,j+k"},
        {SHELL_SH, false, {"echo", "a b", ""}, "echo 'a b' ''"},
        {SHELL_BASH, false, {"echo", "$x", "`y`", "a;b"}, "echo '$x' '`y`' 'a;b'"},
        {SHELL_BASH, false, {"echo", "it's"}, "echo \"it's\""},
        {SHELL_BASH, true, {"echo", "it's!"}, "echo 'it'\\''s!'"},
        {SHELL_BASH, false, {"echo", "'$`\"\\"}, "echo ''\\''$`\"\\'"},
        {SHELL_BASH, false, {"echo", "a=b", "-x"}, "echo a=b -x"},
        {SHELL_BASH, false, {"a=b", "a=b"}, "'a=b' a=b"},
        {SHELL_BASH, false, {"-x", "-x"}, "'-x' -x"},
        {SHELL_BASH, false, {"if", "if"}, "'if' if"},
        {SHELL_ZSH, false, {"echo", "=ls", "{a,b}", "~"}, "echo '=ls' '{a,b}' '~'"},
        {SHELL_BASH, true, {"echo", "a\nb\x01!'\\"}, "echo $'a\\012b\\001\\041\\047\\134'"},
        {SHELL_BASH, false, {"echo", "a\nb"}, "echo 'a\nb'"},
        {SHELL_SH, true, {"echo", "a\nb"}, "echo 'a\nb'"},
        {SHELL_ZSH, true, {"echo", "\xc3\xa9"}, "echo '\xc3\xa9'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int n = 0;
        while (n < MOST && rows[i].word[n]) n++;
        char *line = written(rows[i].shell, rows[i].typed, rows[i].word, n);
        assert_string_equal(line, rows[i].line);
        free(line);
    }
}

/* A line, its words with '|' between, and the first event's effect (SHELL_EFFECTS: none). */
struct reading {
    enum shell shell;
    bool typed;
    const char *line, *words;
    enum shell_effect effect;
};

static void read_all(void **state, const struct reading *rows, size_t n)
{
    struct scratch *s = *state;
    for (size_t i = 0; i < n; i++) {
        struct shell_line out;
        struct err err = {0};
        char words[256] = "";
        size_t length = 0;
        (void)!shell_read(rows[i].shell, rows[i].typed, rows[i].line, &s->pool, &out, &err);
        assert_ok(&err);
        for (int w = 0; w < out.words && length < sizeof words; w++)
            length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", w ? "|" : "",
                                       out.word[w]);
        enum shell_effect got = out.events ? out.event[0].effect : SHELL_EFFECTS;
        if (strcmp(words, rows[i].words) != 0 || got != rows[i].effect)
            fail_msg("%s, line <%s>: words <%s>, wanted <%s>; effect %d, wanted %d",
                     shell_name(rows[i].shell), rows[i].line, words, rows[i].words, (int)got,
                     (int)rows[i].effect);
    }
}

static void read__gives_the_words__where_nothing_is_special(void **state)
{
    static const struct reading rows[] = {
        {SHELL_SH, false, "a b  c", "a|b|c", SHELL_EFFECTS},
        {SHELL_SH, false, " 'a b' \"c d\" e\\ f ", "a b|c d|e f", SHELL_EFFECTS},
        {SHELL_SH, false, "a'b'\"c\"d", "abcd", SHELL_EFFECTS},
        {SHELL_SH, false, "\"a\\\"b\\$c\\d\"", "a\"b$c\\d", SHELL_EFFECTS},
        {SHELL_SH, false, "a '' b", "a||b", SHELL_EFFECTS},
        {SHELL_SH, false, "a\\\nb c\n", "ab|c", SHELL_EFFECTS},
        {SHELL_SH, false, "a$ b#c d~e", "a$|b#c|d~e", SHELL_EFFECTS},
        {SHELL_BASH, false, "$'a\\n\\x41\\101\\''", "a\nAA'", SHELL_EFFECTS},
        {SHELL_DASH, false, "a$'b'", "a$b", SHELL_EFFECTS},
        {SHELL_DASH, false, "{a,b}", "{a,b}", SHELL_EFFECTS},
        {SHELL_BASH, false, "{} {a} { }", "{}|{a}|{|}", SHELL_EFFECTS},
        {SHELL_BASH, false, "a[b", "a[b", SHELL_EFFECTS},
        {SHELL_BASH, false, "echo !x", "echo|!x", SHELL_EFFECTS},
        {SHELL_BASH, true, "echo ! a!=b '!x' \"y!\"", "echo|!|a!=b|!x|y!", SHELL_EFFECTS},
        {SHELL_ZSH, true, "echo #a", "echo|#a", SHELL_EFFECTS},
        {SHELL_BASH, false, "=ls", "=ls", SHELL_EFFECTS},
    };
    read_all(state, rows, sizeof rows / sizeof rows[0]);
}

static void read__says_what_a_shell_would_do__for_each_effect(void **state)
{
    static const struct reading rows[] = {
        {SHELL_SH, false, "a 'b", "a|", SHELL_UNFINISHED},
        {SHELL_SH, false, "a \"b", "a|b", SHELL_UNFINISHED},
        {SHELL_SH, false, "a \\", "a", SHELL_UNFINISHED},
        {SHELL_SH, false, "a $(b", "a", SHELL_UNFINISHED},
        {SHELL_SH, false, "a `b", "a", SHELL_UNFINISHED},
        {SHELL_BASH, false, "print(x)", "print(x)", SHELL_SYNTAX},
        {SHELL_BASH, true, "echo \"!x\"", "echo|!x", SHELL_HISTORY},
        {SHELL_ZSH, true, "echo a!b", "echo|a!b", SHELL_HISTORY},
        {SHELL_BASH, true, "a #b", "a", SHELL_COMMENT},
        {SHELL_ZSH, false, "a #b", "a", SHELL_COMMENT},
        {SHELL_BASH, false, "a{b,c}", "a{b,c}", SHELL_BRACES},
        {SHELL_ZSH, false, "{1..3}", "{1..3}", SHELL_BRACES},
        {SHELL_ZSH, false, "=ls", "=ls", SHELL_EQUALS},
        {SHELL_SH, false, "a $(b c) d", "a|$(b c)|d", SHELL_SUBSTITUTION},
        {SHELL_SH, false, "a \"`b`\"", "a|`b`", SHELL_SUBSTITUTION},
        {SHELL_SH, false, "a $b ${c}", "a|$b|${c}", SHELL_VARIABLE},
        {SHELL_SH, false, "a \"$b\"", "a|$b", SHELL_VARIABLE},
        {SHELL_SH, false, "a *.c", "a|*.c", SHELL_GLOB},
        {SHELL_SH, false, "a [b]", "a|[b]", SHELL_GLOB},
        {SHELL_SH, false, "a ~/b", "a|~/b", SHELL_TILDE},
        {SHELL_SH, false, "$'a'", "$a", SHELL_ANSI},
        {SHELL_SH, false, "a | b", "a", SHELL_OPERATOR},
        {SHELL_SH, false, "a; b", "a", SHELL_OPERATOR},
        {SHELL_SH, false, "a\nb", "a", SHELL_OPERATOR},
        {SHELL_SH, false, "a b 2>/dev/null c", "a|b|c", SHELL_REDIRECTION},
        {SHELL_SH, false, "a 2 > b c", "a|2|c", SHELL_REDIRECTION},
        {SHELL_SH, false, "A=b c", "c", SHELL_ASSIGNMENT},
    };
    read_all(state, rows, sizeof rows / sizeof rows[0]);
}

static void read__takes_time_in_proportion__for_long_lines(void **state)
{
    struct scratch *s = *state;
    enum { SIZE = 1 << 20 };
    char *line = malloc(SIZE + 1);
    struct shell_line out;
    struct err err = {0};
    memset(line, 'a', SIZE);
    memcpy(line, "'", 1);
    memcpy(line + SIZE - 1, "'", 2);
    (void)!shell_read(SHELL_BASH, false, line, &s->pool, &out, &err);
    assert_ok(&err);
    assert_int_equal(out.words, 1);
    assert_int_equal(strlen(out.word[0]), SIZE - 2);
    free(line);
}

#define SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__quotes_what_the_shell_would_read_otherwise__word_by_word),
        SCRATCH(read__gives_the_words__where_nothing_is_special),
        SCRATCH(read__says_what_a_shell_would_do__for_each_effect),
        SCRATCH(read__takes_time_in_proportion__for_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
