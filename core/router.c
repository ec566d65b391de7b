/* router.c: argument checks, keys and gaps of router.h; what both engines and the comparator must
 * agree on. */
#include "core/router.h"

#include "core/check.h"
#include "core/matrix.h"

#include <math.h>

static enum err_code check_forced(const struct router *op, struct err *err)
{
    for (int64_t t = 0; t < op->T; t++) {
        const int32_t *ids = op->forced + t * op->top_k;
        if (ids[0] < 0) continue;
        for (int64_t j = 0; j < op->top_k; j++) {
            if (ids[j] < 0 || ids[j] >= op->E || (j > 0 && ids[j] <= ids[j - 1]))
                return err_set(err, ERR_INPUT,
                               "forced expert|row %lld, slot %lld|%d%s|ascending ids of 0 to %lld",
                               (long long)t, (long long)j, ids[j],
                               j > 0 && ids[j] <= ids[j - 1] ? ", not above the one before" : "",
                               (long long)op->E - 1);
        }
    }
    return ERR_OK;
}

enum err_code router_check(const struct router *op, struct err *err)
{
    if (op->T < 0 || op->H < 1 || op->E < 1 || op->top_k < 1 || op->groups < 1 ||
        op->top_groups < 1)
        return err_set(
            err, ERR_INPUT,
            "router||T = %lld, H = %lld, E = %lld, k = %lld, groups %lld of %lld|positive sizes",
            (long long)op->T, (long long)op->H, (long long)op->E, (long long)op->top_k,
            (long long)op->top_groups, (long long)op->groups);
    if (op->E % op->groups || op->top_groups > op->groups || op->groups > ROUTER_GROUPS_MAX)
        return err_set(err, ERR_INPUT,
                       "router groups||%lld experts, %lld groups, %lld kept|groups that divide the "
                       "experts, and no more kept",
                       (long long)op->E, (long long)op->groups, (long long)op->top_groups);
    if (op->top_k > op->E / op->groups * op->top_groups)
        return err_set(err, ERR_INPUT,
                       "router||k = %lld|at most the %lld experts of the groups kept",
                       (long long)op->top_k, (long long)(op->E / op->groups * op->top_groups));
    if (op->groups > 1 && op->method == TOPK_GREEDY)
        return err_set(err, ERR_INPUT,
                       "router groups||%lld groups with method greedy|1: greedy knows no groups",
                       (long long)op->groups);
    if (op->groups > 1 && op->method == TOPK_NOAUX_TC && op->E / op->groups < 2)
        return err_set(
            err, ERR_INPUT,
            "router groups||groups of 1 expert|at least 2, the sum of the two best is the score");
    if (op->bias && (tensor_count(op->bias) != op->E || !dtype_is_float(op->bias->dtype)))
        return err_set(err, ERR_INPUT, "router bias|%s|%lld of %s|%lld floats", op->bias->name,
                       (long long)tensor_count(op->bias), dtype_name(op->bias->dtype),
                       (long long)op->E);
    if (matrix_want(op->w, "router", op->E, op->H, err) != ERR_OK) return err->code;
    return op->forced ? check_forced(op, err) : ERR_OK;
}

void router_keys(const struct router *op, const double *logits, double *scores, double *keys)
{
    double max = -INFINITY, sum = 0;
    for (int64_t e = 0; e < op->E; e++) max = fmax(max, logits[e]);
    for (int64_t e = 0; e < op->E; e++) {
        scores[e] =
            op->scoring == SCORING_SIGMOID ? 1 / (1 + exp(-logits[e])) : exp(logits[e] - max);
        sum += scores[e];
    }
    for (int64_t e = 0; e < op->E; e++) {
        float bias = 0;
        char raw[8];
        if (op->scoring == SCORING_SOFTMAX) scores[e] /= sum;
        if (op->bias) dtype_to_f32(op->bias->dtype, tensor_elements(op->bias, e, 1, raw), 1, &bias);
        keys[e] = scores[e] + (double)bias;
    }
}

void router_weigh(const struct router *op, const struct run *run, const double *scores,
                  const int32_t *ids, double *weights)
{
    double sum = 0;
    for (int64_t j = 0; j < op->top_k; j++) {
        weights[j] = scores[ids[j]];
        sum += weights[j];
    }
    for (int64_t j = 0; j < op->top_k; j++) {
        if (op->norm_topk && op->top_k > 1) weights[j] /= sum + 1e-20;
        weights[j] *= op->routed_scale;
        if (run->precision == PRECISION_F32) weights[j] = (double)(float)weights[j];
    }
}

double router_group_score(const struct router *op, const double *keys, int64_t group)
{
    int64_t n = op->E / op->groups;
    double best = -INFINITY, second = -INFINITY;
    for (int64_t e = group * n; e < (group + 1) * n; e++) {
        if (keys[e] > best) {
            second = best;
            best = keys[e];
        } else if (keys[e] > second) {
            second = keys[e];
        }
    }
    return op->method == TOPK_NOAUX_TC ? best + second : best;
}

/* Adds the best groups to `kept` until top_groups are in; ties go to the lower index. */
static void keep_best_groups(const struct router *op, const double *score, bool *kept)
{
    int64_t n = 0;
    for (int64_t g = 0; g < op->groups; g++) n += kept[g];
    for (; n < op->top_groups; n++) {
        int64_t best = -1;
        for (int64_t g = 0; g < op->groups; g++) {
            if (!kept[g] && (best < 0 || score[g] > score[best])) best = g;
        }
        kept[best] = true;
    }
}

void router_choose(const struct router *op, const double *keys, bool *kept, double *group_score,
                   int32_t *ids)
{
    int64_t per_group = op->E / op->groups, n = 0;
    for (int64_t g = 0; g < op->groups; g++) {
        group_score[g] = op->groups > 1 ? router_group_score(op, keys, g) : 0;
        kept[g] = false;
    }
    keep_best_groups(op, group_score, kept);
    for (int64_t e = 0; e < op->E; e++) {
        if (!kept[e / per_group]) continue;
        /* Insertion by key, descending; an equal key goes behind: the lower id stays in front. */
        int64_t at = n < op->top_k ? n++ : op->top_k;
        if (at == op->top_k && !(keys[e] > keys[ids[at - 1]])) continue;
        if (at == op->top_k) at--;
        for (; at > 0 && keys[e] > keys[ids[at - 1]]; at--) ids[at] = ids[at - 1];
        ids[at] = (int32_t)e;
    }
    for (int64_t i = 1; i < op->top_k; i++) { /* ascending ids */
        int32_t v = ids[i];
        int64_t at = i;
        for (; at > 0 && ids[at - 1] > v; at--) ids[at] = ids[at - 1];
        ids[at] = v;
    }
}

/* What a set of experts says of each group. */
struct group_fit {
    double score[ROUTER_GROUPS_MAX];
    double hurt[ROUTER_GROUPS_MAX]; /* where it is kept: its best rejected key over the worst chosen
                                       one, at least 0 */
    bool used[ROUTER_GROUPS_MAX];   /* experts of the set lie in it: it was kept */
};

static void fit_groups(const struct router *op, const double *keys, const int32_t *ids,
                       struct group_fit *f)
{
    int64_t per_group = op->E / op->groups;
    double worst_chosen = INFINITY;
    for (int64_t j = 0; j < op->top_k; j++) worst_chosen = fmin(worst_chosen, keys[ids[j]]);
    for (int64_t g = 0; g < op->groups; g++) {
        f->score[g] = op->groups > 1 ? router_group_score(op, keys, g) : 0;
        f->hurt[g] = 0;
        f->used[g] = false;
    }
    for (int64_t e = 0, j = 0; e < op->E; e++) {
        int64_t g = e / per_group;
        if (j < op->top_k && ids[j] == e) {
            f->used[g] = true;
            j++;
        } else {
            f->hurt[g] = fmax(f->hurt[g], keys[e] - worst_chosen);
        }
    }
}

/* The gap where these groups were kept. */
static double gap_of_kept(const struct router *op, const struct group_fit *f, const bool *kept,
                          bool *by_group)
{
    double expert_gap = 0, worst_kept = INFINITY, best_left = -INFINITY;
    for (int64_t g = 0; g < op->groups; g++) {
        if (kept[g]) {
            worst_kept = fmin(worst_kept, f->score[g]);
            expert_gap = fmax(expert_gap, f->hurt[g]);
        } else {
            best_left = fmax(best_left, f->score[g]);
        }
    }
    double group_gap = fmax(best_left - worst_kept, 0);
    if (op->method == TOPK_NOAUX_TC) group_gap /= 2; /* a group's score is a sum of two keys */
    *by_group = group_gap > expert_gap;
    return fmax(expert_gap, group_gap);
}

/* The set may leave groups unused that were kept all the same: those that make the least of it are
 * found by a limit on what they hurt, the best scores among those within it. */
double router_gap(const struct router *op, const double *keys, const int32_t *ids, bool *by_group)
{
    CHECK(op->groups >= 1 && op->groups <= ROUTER_GROUPS_MAX);
    struct group_fit f;
    double least = INFINITY, score[ROUTER_GROUPS_MAX];
    int64_t used = 0;
    fit_groups(op, keys, ids, &f);
    for (int64_t g = 0; g < op->groups; g++) used += f.used[g];
    *by_group = true; /* more groups than any choice can keep: no change of keys explains it */
    for (int64_t limit = 0; limit < op->groups && used <= op->top_groups; limit++) {
        bool kept[ROUTER_GROUPS_MAX], grouped;
        int64_t within = used;
        for (int64_t g = 0; g < op->groups; g++) {
            bool allowed = f.used[g] || f.hurt[g] <= f.hurt[limit];
            kept[g] = f.used[g];
            score[g] = allowed ? f.score[g] : -INFINITY;
            within += allowed && !f.used[g];
        }
        if (within < op->top_groups) continue;
        keep_best_groups(op, score, kept);
        double gap = gap_of_kept(op, &f, kept, &grouped);
        if (!(gap < least)) continue;
        least = gap;
        *by_group = grouped;
    }
    return least;
}
