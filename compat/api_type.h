/* api_type.h: the text of an annotation as a small tree. "Optional[X]" and "Union[X, Y]" are the
 * same as "X | None" and "X | Y"; Annotated[X, ...], Required[X], Final[X] are X. What is no type
 * expression is API_TYPE_OTHER with its text, never an error: annotations may be anything. Test:
 * tests/test_api_type.c */
#ifndef ASSAY_COMPAT_API_TYPE_H
#define ASSAY_COMPAT_API_TYPE_H

#include "compat/api.h"

enum api_type_kind {
    API_TYPE_NAME,  /* name: "list", "pkg.mod.Cls", "Any" of typing as "typing.Any" */
    API_TYPE_SUB,   /* name[arg, ...]: "list[int]" */
    API_TYPE_UNION, /* arg | arg | ..., flattened; None is an API_TYPE_NONE among them */
    API_TYPE_NONE,  /* None */
    API_TYPE_LIST,  /* [arg, ...] as in Callable[[int], str] */
    API_TYPE_ELLIPSIS,
    API_TYPE_OTHER /* name: the text */
};

struct api_type {
    enum api_type_kind kind;
    const char *name;
    struct api_type *arg; /* the first */
    int args;
    struct api_type *next;
};

enum { API_TYPE_DEPTH = 32 };

/* NULL text: NULL without an error (no annotation). NULL with `err` set: memory. Deeper than
 * API_TYPE_DEPTH: API_TYPE_OTHER. */
struct api_type *api_type_parse(const char *text, struct pool *p, struct err *err);
/* The i-th argument, or NULL. */
const struct api_type *api_type_arg(const struct api_type *t, int i);
/* A union with None in it, or None itself. */
bool api_type_optional(const struct api_type *t);
/* Parts of dotted names are compared from the end: "Any" names "typing.Any" and "Any". */
bool api_type_is(const struct api_type *t, const char *last);

/* The same type: members of unions in any order, dotted names by their last part (a class that only
 * moved is the same). */
bool api_type_same(const struct api_type *x, const struct api_type *y);
/* All that `is` allows, `was` allowed: a part of a union, or anything after Any. */
bool api_type_narrows(const struct api_type *was, const struct api_type *is);

/* First byte outside of brackets and quotes where `mark` stands, or NULL (also where brackets or
 * quotes do not close). For texts that the extractor prints. */
const char *api_scan(const char *text, const char *mark);
/* Brackets and quotes close. */
bool api_balanced(const char *text);

#endif
