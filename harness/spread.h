/* spread.h: how the error of a tap lies over its tokens and channels. Test: tests/test_spread.c */
#ifndef ASSAY_HARNESS_SPREAD_H
#define ASSAY_HARNESS_SPREAD_H

#include "harness/align.h"

enum { SPREAD_WORST = 5 };

struct spread_line {
    int64_t at;
    double rms, rel; /* of the difference; over the truth's RMS in that line */
};

/* The rows (tokens) and columns (channels) with the largest RMS difference, worst first; a line
 * that holds a cell which is not finite on one side has an infinite one. */
struct spread {
    struct spread_line row[SPREAD_WORST], col[SPREAD_WORST];
    int rows, cols;
    double row_median, col_median; /* RMS difference of the middle line */
};

/* Subject row i beside truth row map[i] (NULL: i; -1: left out). Shapes agree in columns. */
enum err_code spread_find(const struct pair *p, const int64_t *map, struct spread *out,
                          struct err *err) ERR_USED;

#endif
