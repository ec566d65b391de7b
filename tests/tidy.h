/* tidy.h: the house rules as functions: each reads one file's text and adds a complaint "PATH:LINE:
 * what" for every breach. Paths are relative to the tree and decide what applies. They read text,
 * they do not parse C: comments, strings and preprocessor lines are told apart, nothing more. Test:
 * tests/test_tidy.c, each rule going red. */
#ifndef ASSAY_TESTS_TIDY_H
#define ASSAY_TESTS_TIDY_H

#include "core/ops.h"

enum {
    TIDY_COLUMNS = 100,
    TIDY_FILE_LINES = 500,
    TIDY_TEST_LINES = 600,
    TIDY_FUNCTION_LINES = 70,
    TIDY_KERNEL_LINES = 150,
    TIDY_TEXT = 1 << 16,
};

struct tidy {
    int files; /* looked at */
    int complaints;
    char text[TIDY_TEXT]; /* one a line; cut where there are too many */
    size_t used;
};

/* One more complaint. */
__attribute__((format(printf, 4, 5))) void tidy_complain(struct tidy *t, const char *path, int line,
                                                         const char *format, ...);
/* A copy in which comments, strings and (where asked) preprocessor lines are spaces; newlines stay.
 * The caller's. */
char *tidy_code(const char *text, bool keep_directives);

/* Lines of more than TIDY_COLUMNS characters (UTF-8 counts once), tabs, spaces at the end. */
void tidy_width(struct tidy *t, const char *path, const char *text);
/* Files of more lines than the limit. */
void tidy_length(struct tidy *t, const char *path, const char *text);
/* Functions of more lines than the limit, signature and braces included; __global__ ones have the
 * kernel's. */
void tidy_functions(struct tidy *t, const char *path, const char *text);
/* Calls that nobody should write: unbounded copies, numbers without errors, unseeded randomness, a
 * shell. */
void tidy_calls(struct tidy *t, const char *path, const char *text);
/* Notes to oneself. */
void tidy_leftovers(struct tidy *t, const char *path, const char *text);
/* Absolute paths of somebody's machine. */
void tidy_paths(struct tidy *t, const char *path, const char *text);
/* A file of the tree that a comment names is there; a word in capitals stands for any. */
void tidy_named(struct tidy *t, const char *root, const char *path, const char *text);
/* Who includes whom: the arrows of README.md. */
void tidy_includes(struct tidy *t, const char *path, const char *text);

/* Every file that an op's row names exists below root; its fixture folder holds something. */
void tidy_op(struct tidy *t, const char *root, const struct op_row *op);

/* All rules that apply to the file at root/path. */
void tidy_file(struct tidy *t, const char *root, const char *path);
/* All files of a folder and those below it. */
void tidy_folder(struct tidy *t, const char *root, const char *folder);

#endif
