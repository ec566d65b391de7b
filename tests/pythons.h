/* pythons.h: the pythons of this machine, for tests that run the extractor under each of them. */
#ifndef ASSAY_TESTS_PYTHONS_H
#define ASSAY_TESTS_PYTHONS_H

#include "core/file.h"

enum { PYTHONS = 24 };

struct pythons {
    char path[PYTHONS][FILE_PATH];
    int version[PYTHONS]; /* 309 for 3.9 */
    int count;
};

/* One python of each version 3.9 to 3.13 that can be started, out of ASSAY_TEST_PYTHONS (paths with
 * ':' between), python3.N of PATH, the versions of pyenv (PYENV_ROOT, else ~/.pyenv) and python3.
 * Which, and which versions are missing, is printed. */
void pythons_find(struct pythons *p);
/* Those older than 3.9, Python 2 among them, out of the same places. */
void pythons_find_old(struct pythons *p);

/* Runs a script with one argument under python3 (of ASSAY_PYTHON where that is set); its exit
 * status. */
int python_run(const char *script, const char *argument);

#endif
