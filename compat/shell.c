/* shell.c: the shells by name, what an effect means, and words quoted; see shell.h. Reading:
 * shell_read.c. */
#include "compat/shell.h"

#include <string.h>

static const char *const names[SHELLS] = {"sh", "dash", "bash", "zsh"};

const char *shell_name(enum shell s)
{
    return s < SHELLS ? names[s] : NULL;
}

bool shell_find(const char *name, size_t length, enum shell *out)
{
    for (int s = 0; s < SHELLS; s++) {
        if (strlen(names[s]) != length || strncmp(names[s], name, length) != 0) continue;
        *out = (enum shell)s;
        return true;
    }
    return false;
}

static const struct {
    enum shell_verdict verdict;
    const char *text;
} effects[SHELL_EFFECTS] = {
    [SHELL_UNFINISHED] = {SHELL_BREAKS, "a quote or an expansion that does not end"},
    [SHELL_SYNTAX] = {SHELL_BREAKS, "an unquoted parenthesis"},
    [SHELL_HISTORY] = {SHELL_BREAKS, "a history mark"},
    [SHELL_COMMENT] = {SHELL_BREAKS, "a comment"},
    [SHELL_BRACES] = {SHELL_BREAKS, "braces that become several words"},
    [SHELL_EQUALS] = {SHELL_BREAKS, "=name, which zsh replaces by a path"},
    [SHELL_SUBSTITUTION] = {SHELL_UNKNOWN, "a command substitution"},
    [SHELL_VARIABLE] = {SHELL_UNKNOWN, "a variable of this shell"},
    [SHELL_GLOB] = {SHELL_UNKNOWN, "a pattern of file names"},
    [SHELL_TILDE] = {SHELL_UNKNOWN, "a home folder"},
    [SHELL_ANSI] = {SHELL_UNKNOWN, "$'...', which not every sh knows"},
    [SHELL_OPERATOR] = {SHELL_DONE_HERE, "the end of the command"},
    [SHELL_REDIRECTION] = {SHELL_DONE_HERE, "a redirection"},
    [SHELL_ASSIGNMENT] = {SHELL_DONE_HERE, "an assignment"},
};

enum shell_verdict shell_effect_verdict(enum shell_effect e)
{
    return effects[e].verdict;
}

const char *shell_effect_text(enum shell_effect e)
{
    return effects[e].text;
}

/* ---- writing ---- */

static bool knows_ansi(enum shell s)
{
    return s == SHELL_BASH || s == SHELL_ZSH;
}

/* Stands for itself anywhere in a word, in every shell here and in every locale. */
static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_@%+:,./-=", c));
}

static bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

static bool is_reserved(const char *word)
{
    static const char *const reserved[] = {
        "if",     "then",  "else",    "elif",   "fi",        "do",       "done",   "case",
        "esac",   "while", "until",   "for",    "in",        "function", "select", "time",
        "coproc", "end",   "foreach", "repeat", "nocorrect", NULL,
    };
    for (int i = 0; reserved[i]; i++) {
        if (strcmp(word, reserved[i]) == 0) return true;
    }
    return false;
}

static bool needs_quotes(const char *word, bool first)
{
    if (!*word || *word == '=') return true;
    if (first && (strchr("-+%", *word) || strchr(word, '=') || is_reserved(word))) return true;
    for (const char *c = word; *c; c++) {
        if (!is_plain((unsigned char)*c)) return true;
    }
    return false;
}

/* All bytes but the control ones, the mark and what ends the escape stand for themselves. Three
 * digits always: no digit that follows can be taken in. */
static void write_ansi(FILE *f, const char *word)
{
    fputs("$'", f);
    for (const char *c = word; *c; c++) {
        unsigned char b = (unsigned char)*c;
        if (is_control(b) || b == '\'' || b == '\\' || b == '!')
            fprintf(f, "\\%03o", b);
        else
            fputc(b, f);
    }
    fputc('\'', f);
}

static void write_single(FILE *f, const char *word)
{
    fputc('\'', f);
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            fputs("'\\''", f);
        else
            fputc(*c, f);
    }
    fputc('\'', f);
}

static void write_double(FILE *f, const char *word)
{
    fputc('"', f);
    for (const char *c = word; *c; c++) {
        if (strchr("$`\"\\", *c)) fputc('\\', f);
        fputc(*c, f);
    }
    fputc('"', f);
}

/* Quotes in quotes grow with every hop: the form that needs fewer escapes is taken. */
static bool double_is_shorter(const char *word)
{
    size_t single = 0, dbl = 0;
    for (const char *c = word; *c; c++) {
        if (*c == '!') return false; /* a prompt would look there */
        single += *c == '\'' ? 3 : 0;
        dbl += strchr("$`\"\\", *c) ? 1 : 0;
    }
    return dbl < single;
}

static bool has_control(const char *word)
{
    for (const char *c = word; *c; c++) {
        if (is_control((unsigned char)*c)) return true;
    }
    return false;
}

void shell_write(FILE *f, enum shell s, bool typed, const char *const *word, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) fputc(' ', f);
        if (!needs_quotes(word[i], i == 0))
            fputs(word[i], f);
        else if (typed && knows_ansi(s) && has_control(word[i]))
            write_ansi(f, word[i]);
        else if (double_is_shorter(word[i]))
            write_double(f, word[i]);
        else
            write_single(f, word[i]);
    }
}
