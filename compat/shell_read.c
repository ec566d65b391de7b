/* shell_read.c: a line as a shell splits it, without running anything; see shell.h. */
#include "compat/shell.h"

#include "core/check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096 };

struct reader {
    enum shell shell;
    bool typed;
    const char *line;
    size_t size, at;
    struct shell_line *out;
    char *word; /* being made; as long as the line at most, and a NUL */
    size_t length;
    size_t begin;      /* of the word */
    bool open, quoted; /* there is a word, with a quote in it */
    bool redirected;   /* the next word is a file's name */
    bool over;         /* the command has ended */
    struct pool *pool;
    struct err *err;
};

static char next(const struct reader *r, size_t ahead)
{
    return ahead < r->size - r->at ? r->line[r->at + ahead] : '\0';
}

static void event(struct reader *r, enum shell_effect e, size_t at, size_t length)
{
    struct shell_line *o = r->out;
    if (o->events == SHELL_EVENTS) return;
    o->event[o->events++] = (struct shell_event){e, (int)at, (int)length};
}

static void add(struct reader *r, char c)
{
    if (!r->open) r->begin = r->at;
    r->open = true;
    r->word[r->length++] = c;
}

/* Text that this shell would replace: it stands as written. */
static void add_span(struct reader *r, size_t length)
{
    for (size_t i = 0; i < length; i++) add(r, r->line[r->at + i]);
    r->at += length;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* NAME= at the begin of an unquoted word that stands before the command. */
static bool is_assignment(const struct reader *r)
{
    size_t i = 0;
    if (r->out->words || isdigit((unsigned char)r->word[0])) return false;
    while (i < r->length && is_name(r->word[i])) i++;
    return i > 0 && i < r->length && r->word[i] == '=' &&
           strncmp(r->line + r->begin, r->word, i + 1) == 0;
}

static void end_word(struct reader *r)
{
    if (!r->open) return;
    r->open = false;
    if (r->redirected) {
        r->redirected = false;
    } else if (is_assignment(r)) {
        event(r, SHELL_ASSIGNMENT, r->begin, r->at - r->begin);
    } else if (r->out->words < WORDS) {
        char *text = pool_text(r->pool, r->word, r->length, r->err);
        if (!text) return;
        r->out->word[r->out->words++] = text;
    }
    r->length = 0;
    r->quoted = false;
}

/* Bytes up to the end of what opens at `from` with `open`, quotes inside passed over; 0: no end. */
static size_t balanced(const char *from, char open, char close)
{
    int depth = 0;
    char quote = '\0';
    for (const char *c = from; *c; c++) {
        if (*c == '\\' && quote != '\'' && c[1]) {
            c++;
        } else if (quote) {
            if (*c == quote) quote = '\0';
        } else if (*c == '\'' || *c == '"') {
            quote = *c;
        } else if (*c == open) {
            depth++;
        } else if (*c == close && --depth == 0) {
            return (size_t)(c - from) + 1;
        }
    }
    return 0;
}

static void unfinished(struct reader *r, size_t at)
{
    event(r, SHELL_UNFINISHED, at, r->size - at);
    r->at = r->size;
}

/* One escape of $'...' at line[at] == '\\'. */
static void ansi_escape(struct reader *r)
{
    static const char from[] = "abeEfnrtv\\'\"?", to[] = "\a\b\033\033\f\n\r\t\v\\'\"?";
    char c = next(r, 1);
    const char *known = c ? strchr(from, c) : NULL;
    char digits[4] = "";
    size_t first = c == 'x' ? 2 : 1, most = c == 'x' ? 2 : 3, n = 0;
    if (known) {
        add(r, to[known - from]);
        r->at += 2;
        return;
    }
    while (n < most && (c == 'x' ? isxdigit((unsigned char)next(r, first + n)) != 0
                                 : next(r, first + n) >= '0' && next(r, first + n) <= '7')) {
        digits[n] = next(r, first + n);
        n++;
    }
    if (n == 0) {
        add_span(r, c ? 2 : 1);
        return;
    }
    long value = strtol(digits, NULL, c == 'x' ? 16 : 8);
    add(r, (char)(value & 0xff));
    r->at += first + n;
}

static void read_ansi(struct reader *r)
{
    size_t begin = r->at;
    if (r->shell == SHELL_SH || r->shell == SHELL_DASH) {
        if (r->shell == SHELL_SH) event(r, SHELL_ANSI, r->at, 2);
        add_span(r, 1); /* a dollar sign, and then a quote like any other */
        return;
    }
    r->at += 2;
    r->open = r->quoted = true;
    while (next(r, 0) && next(r, 0) != '\'') {
        if (next(r, 0) == '\\')
            ansi_escape(r);
        else
            add_span(r, 1);
    }
    if (!next(r, 0))
        unfinished(r, begin);
    else
        r->at++;
}

static void read_dollar(struct reader *r, bool in_quotes)
{
    char c = next(r, 1);
    size_t length = 0;
    enum shell_effect e = SHELL_VARIABLE;
    if (c == '\'' && !in_quotes) {
        read_ansi(r);
        return;
    }
    if (c == '(' || c == '{') {
        length = balanced(r->line + r->at + 1, c, c == '(' ? ')' : '}');
        e = c == '(' ? SHELL_SUBSTITUTION : SHELL_VARIABLE;
        if (length == 0) {
            unfinished(r, r->at);
            return;
        }
        length += 1;
    } else if (isalpha((unsigned char)c) || c == '_') {
        for (length = 2; is_name(next(r, length)); length++) continue;
    } else if (c && strchr("0123456789@*#?$!-", c)) {
        length = 2;
    }
    if (length) event(r, e, r->at, length);
    add_span(r, length ? length : 1);
}

static void read_backquote(struct reader *r)
{
    size_t length = 1;
    while (next(r, length) && next(r, length) != '`') length += next(r, length) == '\\' ? 2 : 1;
    if (next(r, length) != '`') {
        unfinished(r, r->at);
        return;
    }
    event(r, SHELL_SUBSTITUTION, r->at, length + 1);
    add_span(r, length + 1);
}

/* `!x` at a prompt; not before a blank, the end, = or (; bash leaves it before a closing quote. */
static bool is_history(const struct reader *r, bool in_quotes)
{
    char c = next(r, 1);
    return r->typed && (r->shell == SHELL_BASH || r->shell == SHELL_ZSH) && c &&
           !strchr(" \t\n=(", c) && !(in_quotes && c == '"');
}

static void read_mark(struct reader *r, bool in_quotes)
{
    if (is_history(r, in_quotes)) event(r, SHELL_HISTORY, r->at, 2);
    add_span(r, 1);
}

static void read_single(struct reader *r)
{
    size_t begin = r->at;
    const char *end = strchr(r->line + r->at + 1, '\'');
    if (!r->open) r->begin = r->at;
    r->open = r->quoted = true;
    if (!end) {
        unfinished(r, begin);
        return;
    }
    r->at++;
    add_span(r, (size_t)(end - (r->line + r->at)));
    r->at++;
}

static void read_double(struct reader *r)
{
    size_t begin = r->at++;
    if (!r->open) r->begin = begin;
    r->open = r->quoted = true;
    while (next(r, 0) && next(r, 0) != '"') {
        char c = next(r, 0);
        if (c == '\\' && next(r, 1) == '\n') {
            r->at += 2;
        } else if (c == '\\' && next(r, 1) && strchr("$`\"\\", next(r, 1))) {
            r->at++;
            add_span(r, 1);
        } else if (c == '$') {
            read_dollar(r, true);
        } else if (c == '`') {
            read_backquote(r);
        } else if (c == '!') {
            read_mark(r, true);
        } else {
            add_span(r, 1);
        }
    }
    if (next(r, 0))
        r->at++;
    else if (r->out->events == 0 || r->out->event[r->out->events - 1].effect != SHELL_UNFINISHED)
        unfinished(r, begin);
}

static void read_escape(struct reader *r)
{
    if (!next(r, 1)) {
        unfinished(r, r->at);
        return;
    }
    if (!r->open && next(r, 1) != '\n') r->begin = r->at;
    r->at++;
    if (next(r, 0) == '\n') {
        r->at++;
        return;
    }
    r->quoted = true;
    add_span(r, 1);
}

/* {a,b} or {1..3}, unquoted, in a shell that has it. */
static void read_brace(struct reader *r)
{
    size_t length = balanced(r->line + r->at, '{', '}');
    bool several = false;
    for (size_t i = 1; i + 1 < length; i++) {
        char c = next(r, i);
        several = several || c == ',' || (c == '.' && next(r, i + 1) == '.');
        if (strchr(" \t\n", c)) {
            several = false;
            break;
        }
    }
    if (several && r->shell != SHELL_DASH) event(r, SHELL_BRACES, r->at, length);
    add_span(r, 1);
}

static void read_pattern(struct reader *r)
{
    if (next(r, 0) != '[' || strchr(r->line + r->at + 1, ']') || r->shell == SHELL_ZSH)
        event(r, SHELL_GLOB, r->at, 1);
    add_span(r, 1);
}

/* The command ends here: blank lines and blanks at the very end say nothing. */
static void read_end(struct reader *r)
{
    size_t begin = r->at;
    end_word(r);
    size_t rest = begin + strspn(r->line + begin, " \t\n");
    r->at = r->size;
    r->over = true;
    if (r->line[rest]) event(r, SHELL_OPERATOR, begin, r->at - begin);
}

/* `2>`: the number belongs to the sign. */
static void read_redirection(struct reader *r)
{
    size_t length = strspn(r->line + r->at, "<>&|");
    r->word[r->length] = '\0';
    if (r->open && !r->quoted && r->word[strspn(r->word, "0123456789")] == '\0') {
        r->open = false;
        r->length = 0;
    }
    end_word(r);
    event(r, SHELL_REDIRECTION, r->at, length);
    r->at += length;
    r->redirected = true;
}

/* What begins a word means more than inside one. False: nothing special. */
static bool read_first(struct reader *r)
{
    char c = next(r, 0);
    if (r->open) return false;
    if (c == '#' && !(r->typed && r->shell == SHELL_ZSH)) {
        event(r, SHELL_COMMENT, r->at, r->size - r->at);
        r->at = r->size;
        return true;
    }
    if (c == '~') event(r, SHELL_TILDE, r->at, 1);
    if (c == '=' && r->shell == SHELL_ZSH && next(r, 1) && !strchr(" \t\n;|&", next(r, 1)))
        event(r, SHELL_EQUALS, r->at, 1);
    if (c == '~' || c == '=') {
        add_span(r, 1);
        return true;
    }
    return false;
}

static void read_plain(struct reader *r)
{
    char c = next(r, 0);
    if (c == '&' && next(r, 1) == '>') {
        read_redirection(r);
    } else if (c == '\n' || strchr("|&;", c)) {
        read_end(r);
    } else if (strchr("<>", c)) {
        read_redirection(r);
    } else if (strchr("()", c)) {
        event(r, SHELL_SYNTAX, r->at, 1);
        add_span(r, 1);
    } else if (strchr("*?[", c)) {
        read_pattern(r);
    } else if (c == '{') {
        read_brace(r);
    } else if (c == '!') {
        read_mark(r, false);
    } else {
        add_span(r, 1);
    }
}

static void read_one(struct reader *r)
{
    switch (next(r, 0)) {
    case ' ':
    case '\t':
        end_word(r);
        r->at++;
        break;
    case '\\':
        read_escape(r);
        break;
    case '\'':
        read_single(r);
        break;
    case '"':
        read_double(r);
        break;
    case '$':
        read_dollar(r, false);
        break;
    case '`':
        read_backquote(r);
        break;
    default:
        if (!read_first(r)) read_plain(r);
    }
}

enum err_code shell_read(enum shell s, bool typed, const char *line, struct pool *pool,
                         struct shell_line *out, struct err *err)
{
    struct reader r = {
        .shell = s, .typed = typed, .line = line, .out = out, .pool = pool, .err = err};
    *out = (struct shell_line){0};
    r.size = strlen(line);
    r.word = pool_take(pool, r.size + 1, 1, err);
    out->word = pool_take(pool, WORDS + 1, sizeof *out->word, err);
    if (!r.word || !out->word) return err->code;
    while (line[r.at] && !r.over && err->code == ERR_OK) read_one(&r);
    end_word(&r);
    return err->code;
}
