/* record.h: a verb's result on disk, once, for every renderer: FOLDER/STEM.json and
 * FOLDER/STEM.txt. */
#ifndef ASSAY_HARNESS_RECORD_H
#define ASSAY_HARNESS_RECORD_H

#include "core/error.h"
#include "reports/text.h"

/* Makes the folder if need be; each file is written all or nothing, the text with all its lines. */
enum err_code record_result(const json_t *result, const char *folder, const char *stem,
                            text_report *render, struct err *err) ERR_USED;

#endif
