/* api_diff_parts.h: what the parts of api_diff.c share. */
#ifndef ASSAY_COMPAT_API_DIFF_PARTS_H
#define ASSAY_COMPAT_API_DIFF_PARTS_H

#include "compat/api_diff.h"

struct api_differ {
    const struct api *old, *new;
    struct pool *pool;
    struct err *err;
    struct api_diff *out;
    int room;
    const char *symbol;             /* of what is being compared */
    const struct api_def *was, *is; /* where it is written; either may be NULL */
    int line[2]; /* of a field or attribute in was and is; 0: of the definition */
    bool private;
};

/* Adds a change of differ->symbol. The text parts may be NULL; `what` is a format. */
void api_diff_add(struct api_differ *d, enum api_category category, const char *was, const char *is,
                  const char *what, ...) ERR_PRINTF(5, 6);
/* What is taken, name by name and place by place. */
void api_diff_params(struct api_differ *d, const struct api_params *was,
                     const struct api_params *is);
/* Returns, shapes, binding, async of two functions, and their parameters. */
void api_diff_functions(struct api_differ *d, const struct api_def *was, const struct api_def *is);
/* Types of a result or an attribute; `of` names it. */
void api_diff_types(struct api_differ *d, const char *of, const char *was, const char *is);
void api_diff_classes(struct api_differ *d, const struct api_def *was, const struct api_def *is);

#endif
