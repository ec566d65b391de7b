/* diagnose_shape.h: what an error looks like that no known fault explains: where it concentrates,
 * and whether it is a scale, an offset, a permutation or a missing term, fitted by least squares.
 * Test: tests/test_diagnose_shape.c */
#ifndef ASSAY_HARNESS_DIAGNOSE_SHAPE_H
#define ASSAY_HARNESS_DIAGNOSE_SHAPE_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { SHAPE_PLACES = 4, SHAPE_PARTS = 8, SHAPE_TERMS = 3, SHAPE_TEXT = 480, SHAPE_NAME = 64 };

/* A cut of the rows or columns, of which few may carry the whole error. */
struct shape_part {
    char what[24];            /* "row", "column", "head", "group of 32", "rank of 4", "expert" */
    int64_t parts;            /* how many there are */
    int64_t at[SHAPE_PLACES]; /* the fewest that carry 90 % of the squared error, ascending */
    int64_t places;           /* 0: it takes more than SHAPE_PLACES, or half of all */
    double share;             /* of the squared error in them */
};

struct shape_term {
    const char *name;
    double factor; /* in the subject, where the reference has 1 */
};

/* What was found by running again: a part of what the tap is computed from, with a factor. */
struct shape_weighed {
    char name[SHAPE_NAME]; /* "expert 11 of moe, layer 5"; "": none was looked for */
    double factor, explains;
};

/* A fit's value: the share of |s - c|^2 that goes when c is fitted so; at most 1. */
struct error_shape {
    bool made;
    double relative; /* |s - c| / |c| */
    struct shape_part part[SHAPE_PARTS];
    int parts;
    double scale, scale_explains; /* s = scale c */
    double row_scale_explains;    /* s = c times a factor for each row */
    double column_scale_explains; /* ... for each column */
    double offset_explains;       /* s = c plus a value for each column */
    double permutation_explains;  /* s = the columns of c in another order; 0: not looked for */
    struct shape_term term[SHAPE_TERMS]; /* s = factors times the terms of a sum */
    int terms;
    double terms_explain;
    struct shape_weighed weighed;
    char text[SHAPE_TEXT]; /* the same in words */
};

/* What the shape is looked for in: subject s and reference c. */
struct shape_input {
    int64_t rows, cols;
    const double *subject, *clean; /* [rows, cols], finite */
    int64_t heads;                 /* that the columns hold; 0: none */
    const int32_t *ids;            /* [rows, top_k] experts of the rows, or NULL */
    int64_t top_k, experts;
    const char *term_name[SHAPE_TERMS]; /* where c is a sum: its terms; NULL at the end */
    const double *term[SHAPE_TERMS];    /* [rows, cols] */
    struct shape_weighed weighed;
};

enum err_code error_shape_find(const struct shape_input *in, struct error_shape *out,
                               struct err *err) ERR_USED;

#endif
