/* shell.h: how sh, dash, bash and zsh read a line: words quoted so that they arrive byte for byte,
 * and a line read without being run. Sources: POSIX.1-2017 Shell Command Language 2.2 to 2.6, the
 * manuals of bash 5 (3.1.2, 3.5, 9.3) and zsh 5 (14, "Expansion").
 *
 * `sh` is whatever a machine calls so, dash or bash: what the two read differently is unknown.
 * Test: tests/test_shell.c, by running the shells: tests/test_quote_arrives.c */
#ifndef ASSAY_COMPAT_SHELL_H
#define ASSAY_COMPAT_SHELL_H

#include "compat/pool.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdio.h>

enum shell { SHELL_SH, SHELL_DASH, SHELL_BASH, SHELL_ZSH, SHELLS };

/* "bash"; NULL past the last. */
const char *shell_name(enum shell s);
bool shell_find(const char *name, size_t length, enum shell *out);

/* Writes the line whose words are word[0..n) for this shell. `typed`: by a person at its prompt:
 * then control characters and line ends are written as escapes where the shell has them ($'...':
 * bash and zsh), and what a history could expand is hidden. The first word is never taken for a
 * reserved word, an assignment or an option of the shell that reads the line. */
void shell_write(FILE *f, enum shell s, bool typed, const char *const *word, int n);

/* What a part of a line does other than standing for itself. */
enum shell_effect {
    SHELL_UNFINISHED,   /* a quote or an expansion that does not end */
    SHELL_SYNTAX,       /* a parenthesis where none can be */
    SHELL_HISTORY,      /* !x at the prompt of bash or zsh */
    SHELL_COMMENT,      /* # and the rest of the line */
    SHELL_BRACES,       /* {a,b}: several words */
    SHELL_EQUALS,       /* =name in zsh: a path, or an error */
    SHELL_SUBSTITUTION, /* $(...) or `...` */
    SHELL_VARIABLE,     /* $x */
    SHELL_GLOB,         /* *, ?, [...] */
    SHELL_TILDE,        /* ~ */
    SHELL_ANSI,         /* $'...' where the shell may not know it */
    SHELL_OPERATOR,     /* | & ; a second line: where the command ends */
    SHELL_REDIRECTION,  /* < > */
    SHELL_ASSIGNMENT,   /* A=b before the command */
    SHELL_EFFECTS
};

/* How bad that is for a line that should carry words from hop to hop. */
enum shell_verdict {
    SHELL_DONE_HERE, /* this shell does it; the words that go on are known */
    SHELL_UNKNOWN,   /* what goes on cannot be known without running something */
    SHELL_BREAKS     /* an error, or text that is lost */
};

enum shell_verdict shell_effect_verdict(enum shell_effect e);
const char *shell_effect_text(enum shell_effect e); /* "an unquoted parenthesis" */

struct shell_event {
    enum shell_effect effect;
    int at, length; /* bytes of the line */
};

enum { SHELL_EVENTS = 64 };

struct shell_line {
    const char **word; /* [words] of the first command, as the program gets them; what is unknown
                          stands as it was written */
    int words;
    struct shell_event event[SHELL_EVENTS];
    int events; /* the first SHELL_EVENTS of them */
};

/* Never runs anything, looks at no file and no variable. ERR_MEMORY only: a line that the shell
 * would refuse is an event. */
enum err_code shell_read(enum shell s, bool typed, const char *line, struct pool *pool,
                         struct shell_line *out, struct err *err) ERR_USED;

#endif
