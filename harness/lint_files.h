/* lint_files.h: which files `assay lint` looks at: .py, .sh, .bash and .zsh files, others whose
 * first line asks for sh, dash, bash or zsh, and those without an ending whose first line asks for
 * python. Test: tests/test_lint.c */
#ifndef ASSAY_HARNESS_LINT_FILES_H
#define ASSAY_HARNESS_LINT_FILES_H

#include "harness/lint.h"

/* Judges a file, or all of a folder's, hidden and linked ones left out. Errors: ERR_INPUT for a
 * file that is neither, or that is not there; those of facts_read() where there is Python in it. */
enum err_code lint_path(struct lint *l, const char *path) ERR_USED;

#endif
