/* router.h: which experts, with which weights, op "router". Model math 5.
 *     z = W_g x;  s = sigmoid(z) or softmax(z);  key = s + bias
 *     groups > 1: a group's score is the sum of its two largest keys (noaux_tc) or its largest key
 *     (group_limited); the top_groups best groups stay, the others cannot be chosen
 *     chosen = the top_k largest keys; ties go to the lower id (groups too)
 *     weight = s of the chosen (never the key); / (sum + 1e-20) where norm_topk and top_k > 1;
 *              * routed_scale
 *
 * x [T, H], W_g [E, H], bias [E] float32 kept exact. Logits are summed as a linear and
 * rounded at RP_ROUTER_LOGITS. ids ascend in every row; weights follow them. With `forced` ids the
 * choice is theirs, the weights still ours. Errors: E not divisible by groups, top_k > E of the
 * groups kept, a forced id outside [0, E) or twice in a row. */
#ifndef ASSAY_CORE_ROUTER_H
#define ASSAY_CORE_ROUTER_H

#include "core/config.h"
#include "core/run.h"
#include "core/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ROUTER_GROUPS_MAX = 1024 };

struct router {
    int64_t T, H, E, top_k, groups, top_groups;
    enum scoring scoring;
    enum topk_method method;
    bool norm_topk;
    double routed_scale;       /* 1 where the engine scales the sum instead */
    const double *x;           /* [T, H] */
    const struct matrix *w;    /* [E, H] */
    const struct tensor *bias; /* [E] or NULL */
    const int32_t *forced;     /* [T, top_k] or NULL; a row that begins with -1 is not forced */
    double *logits;            /* [T, E] */
    int32_t *ids;              /* [T, top_k] ascending */
    double *weights;           /* [T, top_k] */
};

/* The keys of one row (s + bias) from its logits; for margins. */
void router_keys(const struct router *op, const double *logits, double *scores, double *keys);
/* The weights of one row's chosen experts from their scores: over their sum where norm_topk, times
 * routed_scale, to float32 under PRECISION_F32. */
void router_weigh(const struct router *op, const struct run *run, const double *scores,
                  const int32_t *ids, double *weights);
/* Score of a group from the keys: sum of its two largest (noaux_tc) or its largest. */
double router_group_score(const struct router *op, const double *keys, int64_t group);
/* The choice that the keys imply. kept and group_score: [groups], ids: [top_k] ascending. */
void router_choose(const struct router *op, const double *keys, bool *kept, double *group_score,
                   int32_t *ids);
/* How far the ascending set `ids` is from a choice that `keys` allow, in score units: the change
 * that each key must suffer for it, 0 where it is allowed. The larger of the expert gap (best
 * rejected minus worst chosen, among the groups that ids imply) and the group gap (best group left
 * minus worst kept; half of it where a group's score is a sum of two keys). *by_group says which.
 */
double router_gap(const struct router *op, const double *keys, const int32_t *ids, bool *by_group);

enum err_code router_check(const struct router *op, struct err *err) ERR_USED;
enum err_code router_ref(const struct router *op, struct run *run, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
