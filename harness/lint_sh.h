/* lint_sh.h: shell scripts as `assay lint` reads them: commands, pipelines, lists, loops,
 * functions, here-documents and comments of sh, dash, bash and zsh, by POSIX.1-2017 Shell Command
 * Language 2.3, 2.9 and 2.10 and the bash manual 3.2. What stands in $(...) is read as a script of
 * its own. Nothing is run and nothing is expanded. Test: tests/test_lint_sh.c */
#ifndef ASSAY_HARNESS_LINT_SH_H
#define ASSAY_HARNESS_LINT_SH_H

#include "compat/shell.h"
#include "harness/lint.h"

enum sh_kind {
    SH_SIMPLE,
    SH_GROUP,    /* { } */
    SH_SUBSHELL, /* ( ) */
    SH_IF,       /* test, body, other */
    SH_WHILE,    /* and until: test, body */
    SH_FOR,      /* and select: words, body */
    SH_CASE,     /* each branch is a pipeline of body, a group */
    SH_FUNCTION, /* words[0] is its name, body */
    SH_TEST      /* [[ ]] and (( )): one word */
};

enum sh_next { SH_THEN, SH_AND, SH_OR, SH_BACKGROUND, SH_END }; /* what follows a pipeline */

struct sh_list;

struct sh_word {
    const char *raw;   /* as written, quotes and all */
    const char *plain; /* without its quotes; expansions stand as written */
    int line;
};

struct sh_redirect {
    int fd;         /* -1: the operator's own */
    char op[4];     /* "<", ">", ">>", "<&", ">&", "&>", "<<", "<<<", ... */
    const char *to; /* plain */
};

struct sh_command {
    enum sh_kind kind;
    int line;
    const char *text;     /* of a simple command: from its first word to its end */
    struct sh_word *word; /* of a simple command: assignments before it are apart */
    struct sh_word *assign;
    struct sh_redirect *redirect;
    int words, assigns, redirects;
    struct sh_list *test, *body, *other;
    struct sh_command *next; /* of the pipeline */
};

struct sh_pipeline {
    bool negated;
    struct sh_command *first;
    int commands;
    enum sh_next after;
    struct sh_pipeline *next;
};

struct sh_list {
    struct sh_pipeline *first;
    int line;
};

struct sh_script {
    struct lint *l;
    const char *file;
    enum shell shell;
    bool errexit, pipefail;
    struct sh_list *list;
};

/* Reads `text`, whose first line is `line` of the file. Comments go to the lint; a part that is not
 * understood is told as unread, and what comes before it stands. NULL on errors of memory alone. */
struct sh_list *sh_read(struct lint *l, const char *file, const char *text, int line);

/* ---- the reader's parts ---- */

enum { SH_HERE = 8, SH_DEPTH = 100 };

struct sh_reader {
    struct lint *l;
    const char *file, *at;
    int line, depth;
    bool failed;
    struct {
        const char *end;
        bool strip;
    } here[SH_HERE]; /* documents that begin after this line */
    int heres;
};

void sh_fail(struct sh_reader *r, const char *what);
/* Blanks, continued lines and a comment; not the end of a line. */
void sh_blank(struct sh_reader *r);
/* The end of a line, and the here-documents that follow it. */
void sh_newline(struct sh_reader *r);
/* Blanks and ends of lines. */
void sh_gap(struct sh_reader *r);
/* A word, or false where there is none. */
bool sh_word(struct sh_reader *r, struct sh_word *out);
/* Text up to the bracket that closes the one before `at`, which is left after it. */
void sh_skip_to(struct sh_reader *r, char open, char close);

/* Zeroed room in the pool; NULL for none, and with the reader failed where memory is short. */
void *sh_made(struct sh_reader *r, size_t count, size_t size);
/* The redirections behind a compound command. */
void sh_redirects(struct sh_reader *r, struct sh_command *c);
/* Assignments, words and redirections up to the end of a simple command. */
void sh_simple(struct sh_reader *r, struct sh_command *c);

/* ---- the rules ---- */

/* Judges a script. */
void lint_sh(struct lint *l, const char *file, const char *text);

/* Where a list stands. */
struct sh_place {
    const struct sh_script *s;
    const char *function;
    bool tested;  /* its status decides something */
    bool kept;    /* within $( ): its status is all that is tested, what it loses is lost */
    bool returns; /* the status of the last command here is that of a function */
    bool reads;   /* a loop around it reads what its commands would eat */
    bool tidies;  /* in a function or a trap that clears up */
};

void sh_report(const struct sh_place *p, enum lint_id rule, int line, const char *message);
/* Name of the program behind sudo, env, timeout, nice ...; *at: the index of its word. "" for none.
 */
const char *sh_program(const struct sh_command *c, int *at);
bool sh_is_harmless(const struct sh_command *c);
bool sh_tidies(const struct sh_command *c);
bool sh_asks(const struct sh_command *c);
/* Rules on the words of a simple command. */
void sh_words(const struct sh_place *p, const struct sh_command *c);
/* Scripts within $( ). */
void sh_inner(const struct sh_place *p, const struct sh_command *c);
void sh_judge(const struct sh_place *p, const struct sh_list *list);

#endif
