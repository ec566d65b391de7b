/* diagnose_say.h: what a diagnosis says besides names: the shape of the error, the line that
 * replays the guilty op alone; private to diagnose*.c. */
#ifndef ASSAY_HARNESS_DIAGNOSE_SAY_H
#define ASSAY_HARNESS_DIAGNOSE_SAY_H

#include "harness/diagnose_fit.h"

/* Fills shape and replay of `out`; its claims are made. `part`: of diagnose_part.h. */
enum err_code diagnose_describe(const struct diff *d, const struct fitter *f,
                                const struct hypothesis *part, struct diagnosis *out,
                                struct err *err) ERR_USED;

#endif
