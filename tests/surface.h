/* surface.h: a library's surface for tests, from a short text: the modules of the extractor's JSON
 * with ' for ", and
 *     {'def': 'self, x: int = 0', ...}     for a function with parameters (api_fields.h; parted by
 *                                          "; "), 'self' first: bound as an instance method
 *     'fields': ['x: int # InitVar', ...]  for fields
 *     'NAME': {...}                        for a list of one definition
 * where the extractor says more. Lines are counted up, so that each is another one. */
#ifndef ASSAY_TESTS_SURFACE_H
#define ASSAY_TESTS_SURFACE_H

#include "compat/api.h"
#include "tests/support.h"

#include <jansson.h>

struct surface {
    struct api api;
    struct arena arena;
    struct err err;
};

/* "{'lib': {...modules...}}"; fails the test where it cannot be read. Freed by surface_free(). */
struct surface *surface_make(const char *modules);
void surface_free(struct surface *s);
/* The JSON text that surface_make() gives to api_from_facts(); the caller's. */
char *surface_text(const char *modules);
/* The definition of "pkg.mod:Name.part", or the test fails. */
const struct api_def *surface_def(const struct surface *s, const char *path);

#endif
