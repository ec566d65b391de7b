/* reference.h: pages of docs/reference that are made of the program's own tables: what they say
 * cannot differ from what the program does. The committed pages are these, byte for byte. Test:
 * tests/test_reference.c */
#ifndef ASSAY_HARNESS_REFERENCE_H
#define ASSAY_HARNESS_REFERENCE_H

#include "core/error.h"

#include <stdint.h>

/* Writes every page to folder/NAME.md; counts them in *pages. */
enum err_code reference_write(const char *folder, int64_t *pages, struct err *err) ERR_USED;
/* Name of page i, "taps.md", or NULL past the end. */
const char *reference_page(int i);

#endif
