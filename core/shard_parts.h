/* shard_parts.h: which matrices of a layer are cut, and how; private to core/shard*.c. */
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

#endif
