/* api_show.h: a symbol of a library as a person would write it. Test: tests/test_api_show.c */
#ifndef ASSAY_COMPAT_API_SHOW_H
#define ASSAY_COMPAT_API_SHOW_H

#include "compat/api_lookup.h"

#include <stdio.h>

/* One definition: decorators, signature (a parameter a line where it is long), what it returns, its
 * fields, members and attributes, where it stands. */
void api_show(const struct api *a, const struct api_def *d, FILE *out, struct pool *p,
              struct err *err);
/* A module: its names, a line each. */
void api_show_module(const struct api_module *m, FILE *out);
/* Names anywhere in the library that are like the last part of `name`, as "pkg.mod:Name"; count. */
int api_show_near(const struct api *a, const char *name, const char **out, int most);

#endif
