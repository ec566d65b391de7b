/* error_map.h: where in a tap its error lies: rows by blocks of columns, few enough for a picture.
 * Test: tests/test_error_map.c */
#ifndef ASSAY_HARNESS_ERROR_MAP_H
#define ASSAY_HARNESS_ERROR_MAP_H

#include "harness/align.h"

#include <jansson.h>

enum { ERROR_MAP_SIDE = 64 /* cells of a side at most */ };

/* The fewest of `n` lines that make a step for at most ERROR_MAP_SIDE cells; a power of two, or a
 * multiple of 32, so that groups of 32 begin where a cell does. */
int64_t error_map_step(int64_t n);

/* *out: {tap, rows, cols, row_step, col_step, levels: [[level]], divisions: [{what, size}]}, the
 * caller's. A level is 100 log10(RMS of the difference in the cell / RMS of the whole truth),
 * rounded; null where nothing differs, "inf" where that is not finite. Subject row i stands beside
 * truth row map[i] (NULL: i; -1: left out, and counted as equal). `heads`: that the columns hold,
 * or 0; `ranks`: that made equal parts of the columns each, or 0. */
enum err_code error_map_make(const struct pair *p, const int64_t *map, int64_t heads, int64_t ranks,
                             json_t **out, struct err *err) ERR_USED;

#endif
