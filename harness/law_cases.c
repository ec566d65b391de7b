/* law_cases.c: the cases of law.h: small vocabularies on which every fault shows, and a model's own
 * laws at one place. */
#include "harness/law.h"

#include <stdlib.h>
#include <string.h>

/* ---- small vocabularies ---- */

static const double p3[] = {0.5, 0.3, 0.2}, q3[] = {0.2, 0.25, 0.55};
static const double p3_after[] = {0.1, 0.6, 0.3, 0.7, 0, 0.3, 0.25, 0.25, 0.5};
static const double q3_after[] = {0.5, 0.1, 0.4, 0.2, 0.5, 0.3, 0.6, 0.3, 0.1};
/* The draft knows the first three of four ids; the target never says one of them. */
static const double p4[] = {0.35, 0, 0.25, 0.4}, q4[] = {0.15, 0.3, 0.55, 0};
static const double p4_after[] = {0.6,  0.1, 0.1, 0.2,  0.25, 0.25, 0.25, 0.25,
                                  0.05, 0.7, 0,   0.25, 0.3,  0.3,  0.4,  0};
static const double q4_after[] = {0.1, 0.7, 0.2, 0, 0.5, 0.3,  0.2,  0,
                                  0.6, 0.1, 0.3, 0, 0.7, 0.15, 0.15, 0};

#define LAWS_OF(n)                                                                                 \
    .V = n, .p = p##n, .q = q##n, .p_after = p##n##_after, .q_after = q##n##_after, .context = true

static const struct law toys[] = {
    {.name = "chain of 1 draft, 3 ids", LAWS_OF(3), .nodes = 2},
    {.name = "chain of 2 drafts, 3 ids", LAWS_OF(3), .nodes = 3},
    {.name = "chain of 1 draft, 3 of 4 ids", LAWS_OF(4), .nodes = 2},
    {.name = "tree with children 1, 2 of 3 ids",
     LAWS_OF(3),
     .tree = true,
     .nodes = 3,
     .parent = {-1, 0, 0},
     .token = {0, 1, 2}},
    {.name = "tree of two levels, 4 ids",
     LAWS_OF(4),
     .tree = true,
     .nodes = 5,
     .parent = {-1, 0, 0, 1, 1},
     .token = {0, 2, 0, 1, 3}},
};

const struct law *law_toy(int i)
{
    return i >= 0 && i < (int)(sizeof toys / sizeof toys[0]) ? &toys[i] : NULL;
}

/* ---- a model's own ---- */

struct ranked {
    double key;
    int64_t id;
};

/* Descending keys; the lower id first where they tie. */
static int by_key(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* kept[i]: the id that the case calls i, likeliest first; the case's last id is all others. */
static int64_t keep_likeliest(int64_t V, const double *const p[2], const double *const q[2],
                              struct ranked *rank)
{
    for (int64_t x = 0; x < V; x++)
        rank[x] = (struct ranked){p[0][x] + q[0][x] + p[1][x] + q[1][x], x};
    qsort(rank, (size_t)V, sizeof *rank, by_key);
    return V > LAW_IDS ? LAW_IDS - 1 : V;
}

static void shrink(int64_t V, const struct ranked *rank, int64_t kept, const double *law,
                   double *out)
{
    memset(out, 0, LAW_IDS * sizeof *out);
    for (int64_t i = 0; i < V; i++) out[i < kept ? i : kept] += law[rank[i].id];
}

/* Ids by p / q, cut into buckets of about the same mass: faults move mass between ids of unlike
 * ratios. */
static void make_buckets(int64_t V, const double *p, const double *q, struct ranked *rank,
                         int32_t *bucket)
{
    double mass = 0;
    for (int64_t x = 0; x < V; x++) {
        double both = p[x] + q[x];
        rank[x] = (struct ranked){both > 0 ? p[x] / both : 0, x};
    }
    qsort(rank, (size_t)V, sizeof *rank, by_key);
    for (int64_t i = 0; i < V; i++) {
        int64_t x = rank[i].id;
        int b = (int)(mass * LAW_BUCKETS);
        bucket[x] = b < LAW_BUCKETS ? b : LAW_BUCKETS - 1;
        mass += (p[x] + q[x]) / 2;
    }
}

static void sum_buckets(int64_t V, const int32_t *bucket, double *law)
{
    double sum[LAW_BUCKETS] = {0};
    for (int64_t x = 0; x < V; x++) sum[bucket[x]] += law[x];
    memcpy(law, sum, sizeof sum);
}

static int64_t likeliest(int64_t V, const double *law, int64_t but)
{
    int64_t best = but == 0 ? 1 : 0;
    for (int64_t x = 0; x < V; x++) {
        if (x != but && law[x] > law[best]) best = x;
    }
    return best;
}

/* A tree of two children and one grandchild over the buckets as ids: faults between siblings are
 * of the order of their probabilities squared, which for single ids may be nothing. */
static void make_tree(struct law *l)
{
    const int32_t parent[] = {-1, 0, 0, 1};
    l->tree = true;
    l->nodes = 4;
    l->V = LAW_BUCKETS;
    l->bucket[0] = l->bucket[1] = NULL;
    memcpy(l->parent, parent, sizeof parent);
    l->token[1] = likeliest(l->V, l->p, -1);
    l->token[2] = likeliest(l->V, l->p, l->token[1]);
    l->token[3] = likeliest(l->V, l->p_after, -1);
}

enum err_code law_of_model(struct law *l, bool tree, int64_t V, const double *const p[2],
                           const double *const q[2], struct arena *arena, struct err *err)
{
    struct ranked *rank = arena_alloc(arena, V, sizeof *rank, "ids of a law", err);
    double *laws = arena_alloc(arena, (int64_t)4 * LAW_IDS, sizeof *laws, "a law's case", err);
    int32_t *bucket = arena_alloc(arena, (int64_t)2 * LAW_IDS, sizeof *bucket, "buckets", err);
    if (!rank || !laws || !bucket) return err->code;
    int64_t kept = keep_likeliest(V, p, q, rank);
    *l = (struct law){.V = kept < V ? kept + 1 : V,
                      .p = laws,
                      .q = laws + LAW_IDS,
                      .p_after = laws + 2 * LAW_IDS,
                      .q_after = laws + 3 * LAW_IDS,
                      .nodes = 2,
                      .bucket = {bucket, bucket + LAW_IDS},
                      .buckets = LAW_BUCKETS};
    for (int k = 0; k < 2; k++) {
        double *first = laws + 2 * k * LAW_IDS, *second = first + LAW_IDS;
        shrink(V, rank, kept, p[k], first);
        shrink(V, rank, kept, q[k], second);
    }
    for (int k = 0; k < 2; k++) {
        double *first = laws + 2 * k * LAW_IDS, *second = first + LAW_IDS;
        make_buckets(l->V, first, second, rank, bucket + k * LAW_IDS);
        if (tree) sum_buckets(l->V, bucket + k * LAW_IDS, first);
        if (tree) sum_buckets(l->V, bucket + k * LAW_IDS, second);
    }
    if (tree) make_tree(l);
    return ERR_OK;
}
