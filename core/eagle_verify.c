/* eagle_verify.c: argument checks of op eagle.verify; see eagle.h. */
#include "core/eagle.h"

#include <math.h>

/* Sums of probabilities are off by rounding alone: V terms of float64, or of float32 numbers. */
#define SUM_TOLERANCE 1e-4

static enum err_code check_tree(const struct eagle_verify *op, struct err *err)
{
    for (int64_t i = 0; i < op->nodes; i++) {
        bool root = i == 0;
        if (root ? op->parent[i] != -1 : op->parent[i] < 0 || op->parent[i] >= i)
            return err_set(err, ERR_INPUT, "eagle.verify|node %lld|parent %d|%s", (long long)i,
                           op->parent[i], root ? "-1: the root has none" : "an earlier node");
        if (!root && (op->token[i] < 0 || op->token[i] >= op->V))
            return err_set(err, ERR_INPUT, "eagle.verify|node %lld|token %lld|0 to %lld",
                           (long long)i, (long long)op->token[i], (long long)op->V - 1);
        if (op->draft && !root && op->parent[i] != i - 1)
            return err_set(err, ERR_INPUT,
                           "eagle.verify|node %lld|a branch, and probabilities of drawn drafts|a "
                           "chain: in a tree the drafts are a deterministic choice",
                           (long long)i);
        for (int64_t j = 1; j < i; j++) {
            if (op->parent[j] == op->parent[i] && op->token[j] == op->token[i])
                return err_set(err, ERR_INPUT,
                               "eagle.verify|nodes %lld and %lld|siblings with token %lld|"
                               "siblings that differ",
                               (long long)j, (long long)i, (long long)op->token[i]);
        }
    }
    return ERR_OK;
}

static enum err_code check_logits(const struct eagle_verify *op, struct err *err)
{
    for (int64_t i = 0; i < op->nodes * op->V; i++) {
        if (isnan(op->target[i]))
            return err_set(err, ERR_INPUT, "eagle.verify|node %lld, token %lld|NaN|logits",
                           (long long)(i / op->V), (long long)(i % op->V));
    }
    return ERR_OK;
}

/* Rows [first, nodes) are laws: nothing negative, NaN or infinite, and a sum of 1. */
static enum err_code check_laws(const struct eagle_verify *op, const char *name, const double *rows,
                                int64_t first, struct err *err)
{
    for (int64_t i = first; i < op->nodes; i++) {
        double sum = 0;
        for (int64_t x = 0; x < op->V; x++) {
            double v = rows[i * op->V + x];
            if (!(v >= 0 && v <= 1 + SUM_TOLERANCE))
                return err_set(err, ERR_INPUT,
                               "eagle.verify|node %lld, %s of token %lld|%g|a probability",
                               (long long)i, name, (long long)x, v);
            sum += v;
        }
        if (!(fabs(sum - 1) <= SUM_TOLERANCE))
            return err_set(err, ERR_INPUT, "eagle.verify|node %lld|%s that sums to %.9g|1",
                           (long long)i, name, sum);
    }
    return ERR_OK;
}

static enum err_code check_chances(const struct eagle_verify *op, const char *name,
                                   const double *chance, struct err *err)
{
    for (int64_t i = 0; i < op->nodes; i++) {
        if (!(chance[i] >= 0 && chance[i] < 1))
            return err_set(err, ERR_INPUT, "eagle.verify|node %lld|a %s of %g|inside [0, 1)",
                           (long long)i, name, chance[i]);
    }
    return ERR_OK;
}

/* A draft cannot have been drawn where its own law has nothing: then the law is another one. */
static enum err_code check_drawn(const struct eagle_verify *op, struct err *err)
{
    for (int64_t i = 1; i < op->nodes; i++) {
        if (!(op->draft[i * op->V + op->token[i]] > 0))
            return err_set(err, ERR_INPUT,
                           "eagle.verify|node %lld|token %lld, whose draft probability is 0|the "
                           "law that the token was drawn from",
                           (long long)i, (long long)op->token[i]);
    }
    return ERR_OK;
}

enum err_code eagle_verify_check(const struct eagle_verify *op, struct err *err)
{
    if (op->nodes < 1 || op->V < 1)
        return err_set(err, ERR_INPUT, "eagle.verify||nodes = %lld, V = %lld|a root, and 1 or more",
                       (long long)op->nodes, (long long)op->V);
    if (check_tree(op, err) != ERR_OK) return err->code;
    if (op->greedy) return check_logits(op, err);
    if (!op->coin || !op->draw)
        return err_set(err, ERR_INPUT, "eagle.verify||no %s|numbers in [0, 1) for every node",
                       op->coin ? "draw" : "coin");
    if (check_laws(op, "target probability", op->target, 0, err) != ERR_OK ||
        check_chances(op, "coin", op->coin, err) != ERR_OK ||
        check_chances(op, "draw", op->draw, err) != ERR_OK)
        return err->code;
    if (!op->draft) return ERR_OK;
    if (check_laws(op, "draft probability", op->draft, 1, err) != ERR_OK) return err->code;
    return check_drawn(op, err);
}
