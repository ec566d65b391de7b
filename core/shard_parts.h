/* shard_parts.h: which matrices of a layer are cut, and how; private to core/shard*.c and
 * core/fault_ranks.c. */
#ifndef ASSAY_CORE_SHARD_PARTS_H
#define ASSAY_CORE_SHARD_PARTS_H

#include "core/shard.h"

enum shard_cut { SHARD_WHOLE, SHARD_ROWS, SHARD_COLUMNS };

/* One matrix of a layer. */
struct shard_role {
    const char *name; /* behind the layer's prefix: "self_attn.o_proj" */
    size_t at;        /* in struct layer */
    enum shard_cut cut;
    int64_t out, in;    /* of the whole */
    int64_t unit;       /* rows or columns a thing that is cut */
    struct extent part; /* things of rank t: attention heads, or columns of the inner width */
    const char *sum;    /* the op whose sum over ranks a wrong part spoils; NULL: none */
};

enum { SHARD_ROLES = 9 };

/* The matrices of a layer of the whole model `c`, in the order of struct layer, with the parts of
 * shard s. Returns how many. */
int shard_roles(const struct shard *s, const struct config *c, bool moe,
                struct shard_role out[SHARD_ROLES]);
/* The three of an expert: gate, up, down; `at` is in struct expert. */
void shard_expert_roles(const struct shard *s, const struct config *c, struct shard_role out[3]);

/* The part of a routed expert's inner width that rank t of tp has: equal parts, or whole units of
 * the format that the config says. */
struct extent shard_expert_width(const struct config *c, int tp, int t);

/* The role's part of the whole matrix. */
enum err_code shard_cut_matrix(const struct shard_role *r, const struct matrix *whole,
                               struct matrix *out, struct err *err) ERR_USED;
/* The rank's parts of all of them, of a layer or an expert, which both are structs of matrices;
 * under s->fault perhaps another rank's (role[].part is changed then). */
enum err_code shard_cut_roles(const struct shard *s, int64_t layer, struct shard_role *role, int n,
                              const void *whole, void *out, struct err *err) ERR_USED;

/* ---- replicas: ranks of one t hold the same part on every e, and add the same to its sum ---- */

/* Hashes of what a rank added and of the sum that it got. */
struct shard_held {
    uint64_t part, sum;
};
uint64_t shard_hash(const double *x, int64_t n);
/* Whether all groups got one sum. Where not, ERR_DIFF says who spoiled it: those whose part comes
 * out otherwise when it is made anew (at->again); else those that most of their replicas
 * contradict, or, where there is no majority, all of them, and that nobody can say. err->rank is
 * the first. Every rank calls it, and all say the same. */
enum err_code shard_replicas_agree(const struct shard *s, const struct shard_site *at,
                                   const char *name, struct shard_held mine,
                                   struct err *err) ERR_USED;
/* Ranks that are not among the most of their replicas, by their parts or by their sums. *decided:
 * there is such a majority everywhere. Returns how many. */
int shard_outvoted(const struct shard_plan *p, const struct shard_held *all, bool sums,
                   int suspect[COLLECTIVE_RANKS], bool *decided);

#endif
