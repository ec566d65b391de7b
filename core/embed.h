/* embed.h: token embedding, op "embed".
 *     y[t] = E[id[t]]                         no scale; model math 0, 8.2
 * id [T] in [0, V); E [V, H] bf16, f16 or f32; y [T, H]. Rounds at RP_EMBED.
 * Errors: an id outside the table names row, id and range. */
#ifndef ASSAY_CORE_EMBED_H
#define ASSAY_CORE_EMBED_H

#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

struct embed {
    int64_t T, H, V;
    const int64_t *id;          /* [T] */
    const struct tensor *table; /* [V, H], or [rows, H] */
    double *y;                  /* [T, H] */
    /* A table of some ids, first .. first + rows - 1: the others give zeros. rows 0: all V. */
    int64_t first, rows;
};

enum err_code embed_check(const struct embed *op, struct err *err) ERR_USED;
enum err_code embed_ref(const struct embed *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
