/* align.h: which tap and row of one dump stands beside which of another. Test: tests/test_align.c
 */
#ifndef ASSAY_HARNESS_ALIGN_H
#define ASSAY_HARNESS_ALIGN_H

#include "core/dump.h"

struct pair {
    const struct dump_tap *subject, *truth;
    bool moe;    /* the layer has experts, as far as the dumps show */
    int64_t ops; /* since the recorded taps that it was computed from; 0: since the start */
    bool finer;  /* than one of those is stored */
};

struct alignment {
    struct pair *pairs; /* in the subject's execution order */
    int64_t count;
    const char **missing; /* in truth, not in subject */
    int64_t missing_count;
    const char **extra; /* in subject, not in truth */
    int64_t extra_count;
    int64_t *row;    /* [subject rows]: truth row, -1: none */
    int64_t rows;    /* of the subject; -1: cannot be told, only equal counts can be compared */
    int64_t matched; /* rows that have a partner */
    const char *how; /* what the rows were matched by, for the report */
    /* The same for the rows of draft taps. */
    int64_t *draft_row, draft_rows, draft_matched;
};

/* Rows are matched by their place in the token list where both dumps know it; else by equal count;
 * else a shorter dump is the leading rows (or, where it says rows "last N", the last ones) of the
 * longer. Dumps of different tokens are refused. */
enum err_code align_dumps(const struct dump *subject, const struct dump *truth,
                          struct alignment *out, struct err *err) ERR_USED;
/* Truth row of each row of this pair's subject; NULL: rows stand as they are. */
const int64_t *align_map(const struct alignment *a, const struct pair *p);
/* Rows that the subject of this pair must have; -1: as many as its truth. */
int64_t align_count(const struct alignment *a, const struct pair *p);
void align_free(struct alignment *a);

#endif
