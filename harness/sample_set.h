/* sample_set.h: between the files that read a sample_set; see sample.h. */
#ifndef ASSAY_HARNESS_SAMPLE_SET_H
#define ASSAY_HARNESS_SAMPLE_SET_H

#include "harness/sample.h"

/* Fills layer ids, numbering and maps from what lies in s->folder, or, where that is a block of
 * specforge, above it. What is not there stays NULL, 0 or "". */
enum err_code sample_read_beside(struct sample_set *s, struct err *err) ERR_USED;

#endif
