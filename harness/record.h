/* record.h: a verb's result on disk, once, for every renderer: FOLDER/STEM.json and
 * FOLDER/STEM.txt. */
#ifndef ASSAY_HARNESS_RECORD_H
#define ASSAY_HARNESS_RECORD_H

#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A renderer of reports/: no colour, every row. */
typedef void record_renderer(const json_t *result, FILE *out, bool colour, int rows_max);

/* Makes the folder if need be; each file is written all or nothing. */
enum err_code record_result(const json_t *result, const char *folder, const char *stem,
                            record_renderer *render, struct err *err) ERR_USED;

#endif
