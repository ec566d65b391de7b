/* check.c: see check.h. */
#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *text)
{
    fprintf(stderr, "assay: internal error: %s:%d: CHECK(%s) does not hold\n", file, line, text);
    abort();
}
