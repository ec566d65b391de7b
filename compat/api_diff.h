/* api_diff.h: what changed between two surfaces of a library, in words that say what it does to a
 * caller. Names are looked up in the newer one as a consumer would, so that a member that moved to
 * a base class, or a function that is re-exported now, is no change. Test: tests/test_api_diff.c */
#ifndef ASSAY_COMPAT_API_DIFF_H
#define ASSAY_COMPAT_API_DIFF_H

#include "compat/api_lookup.h"

enum api_category {
    API_BREAKS,  /* some call, import or read that was right is an error now */
    API_SHIFTS,  /* it goes through and means something else */
    API_DEFAULT, /* the same, for those who leave an argument out */
    API_HARMLESS,
    API_CATEGORIES
};

struct api_change {
    enum api_category category;
    const char *symbol;   /* "pkg.mod:Class.method", of the older surface; of the newer if added */
    const char *what;     /* "parameter x removed" */
    const char *was, *is; /* either may be NULL */
    const char *file[2];  /* where it is written, older and newer; NULL: nowhere */
    int line[2];
};

struct api_diff {
    struct api_change *change; /* by category, symbol and text */
    int changes;
    int compared;   /* names of the older surface that were looked at in the newer one */
    int uncompared; /* and those that the newer contract does not record, or cannot know */
    int count[API_CATEGORIES];
};

/* Texts come from the pool. Names that begin with an underscore count as harmless, unless `old` was
 * recorded for a consumer: there everything in it is reached. */
enum err_code api_diff(const struct api *old, const struct api *new, struct pool *p,
                       struct api_diff *out, struct err *err) ERR_USED;

/* "breaks", "shifts silently", "default changed", "harmless". */
const char *api_category_name(enum api_category c);

#endif
