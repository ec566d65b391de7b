/* model_taps.h: where the taps of a step go; private to ref/. Alone, to the step's sink. On one
 * rank of several every tap comes out whole on every rank, rank 0's sink alone is asked, and what
 * it replaces is replaced on all: what it wants is told once a step, so that all make the same
 * collective calls. */
#ifndef ASSAY_REF_MODEL_TAPS_H
#define ASSAY_REF_MODEL_TAPS_H

#include "core/model.h"
#include "core/shard.h"

struct model_taps {
    const struct step *step;
    struct run *run;
    const struct shard *shard;   /* NULL: this rank has all of the model */
    const struct tap_sink *sink; /* of this rank; NULL: not asked */
    bool replaces;               /* rank 0's sink may change what the run goes on with */
    unsigned char *wishes;       /* what rank 0 wants of what costs a collective, or a head */
};

/* On several ranks: all must be in the same step, else ERR_DIFF names one that is not. */
enum err_code model_taps_open(struct model_taps *t, const struct step *step, struct run *run,
                              struct err *err) ERR_USED;
/* Somebody looks at this tap of the head, or may change what it gives. */
bool model_taps_need(const struct model_taps *t, enum tap_kind kind);

/* A tap of [T, cols], the same on every rank. */
enum err_code model_taps_give(const struct model_taps *t, enum tap_kind kind, int64_t layer,
                              int64_t cols, double *data, struct err *err) ERR_USED;
/* A tap whose columns are cut over ranks: this rank's [T, width]. */
enum err_code model_taps_give_cut(const struct model_taps *t, enum tap_kind kind, int64_t layer,
                                  int64_t width, double *data, struct err *err) ERR_USED;
enum err_code model_taps_give_ids(const struct model_taps *t, int64_t layer, int64_t cols,
                                  const int32_t *data, struct err *err) ERR_USED;

#endif
