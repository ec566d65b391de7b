/* model_pass.h: one step of the decoder on its way through the layers: its buffers, the calls of
 * its ops, and what makes their results whole on one rank of several; private to ref/model*.c. */
#ifndef ASSAY_REF_MODEL_PASS_H
#define ASSAY_REF_MODEL_PASS_H

#include "core/fault.h"
#include "core/shard.h"
#include "ref/model_taps.h"

/* Buffers of one step, [T, width] each. */
struct pass {
    const struct step *step;
    struct run *run;
    const struct config *c;
    const struct shard *shard; /* NULL: this rank has all of the model */
    struct model_taps taps;
    int64_t T, layer;
    double *x;     /* residual stream, rounded */
    double *sum;   /* the same before its last rounding: what some engines' norms read */
    double *h;     /* input of a block */
    double *block; /* its output */
    double *other; /* shared experts */
    double *q, *latent, *k_rope, *core, *router_logits, *weights;
    int32_t *ids, *forced;
    int32_t *own; /* ids of experts that this rank computes, -1 for the others; ids without shard */
};

/* Says what runs next; run->doing is set or not. */
void pass_say(const struct pass *s, const char *op);
enum err_code pass_call_faulted(const struct pass *s, const char *op, enum tap_kind kind,
                                const void *arg, struct err *err) ERR_USED;

/* Every op is called here: the one place where a fault can edit it. */
#define CALL(s, name, kind, stem, arg, err)                                                        \
    (pass_say(s, name), (s)->run->faults ? pass_call_faulted(s, name, kind, arg, err)              \
                                         : stem##_ref(arg, (s)->run, err))

/* A tap that is whole on this rank. */
enum err_code pass_emit(const struct pass *s, enum tap_kind kind, int64_t cols, double *data,
                        struct err *err) ERR_USED;

/* The linears of this model are cut along their sums. */
bool pass_is_cut(const struct pass *s);
/* Makes the partial output y [T, H] of an op whole. */
enum err_code pass_add_up(const struct pass *s, const char *op, double *y,
                          struct err *err) ERR_USED;
/* The same of a feed-forward's y, where linears are cut: its last rounding comes now. */
enum err_code pass_add_up_mlp(const struct pass *s, const char *op, const struct mlp *mlp,
                              struct err *err) ERR_USED;

/* The feed-forward of a layer with experts: block = routed + shared. */
enum err_code pass_experts(struct pass *s, const struct layer *l, struct err *err) ERR_USED;

#endif
