/* api_find.h: parts of api_find.c that the class side needs too. Test: tests/test_api_find.c */
#ifndef ASSAY_COMPAT_API_FIND_H
#define ASSAY_COMPAT_API_FIND_H

#include "compat/api_lookup.h"

/* The first part of the dotted name is a package of the library. */
bool api_is_inside(const struct api *a, const char *name);
/* Index of the first definition that no later unconditional one replaces (overloads and setters
 * replace nothing). */
int api_first_live(const struct api_name *n);

/* Nothing in the module makes the name, a whole text: why, and where it may be. `open`: a star
 * import leads where nothing was recorded. */
void api_explain_missing(const struct api *a, const struct api_module *m, const char *name,
                         bool open, struct api_result *out);
/* No module of the library has this name. */
void api_missing_module(const struct api *a, const char *name, struct api_result *out);
/* A package on the way is gone: the whole name says more than its first missing part. */
void api_refine_now(const struct api *a, const char *name, struct api_result *out);

#endif
