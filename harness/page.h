/* page.h: generated pages: each is rendered into memory and written all or nothing. Test:
 * tests/test_manual.c */
#ifndef ASSAY_HARNESS_PAGE_H
#define ASSAY_HARNESS_PAGE_H

#include "core/error.h"

#include <stdint.h>
#include <stdio.h>

/* Renders one page; `what` is the caller's. */
typedef void page_renderer(const void *what, FILE *out);

/* Writes folder/name, and makes the folder if need be; counts it in *pages. */
enum err_code page_write(const char *folder, const char *name, page_renderer *render,
                         const void *what, int64_t *pages, struct err *err) ERR_USED;

#endif
