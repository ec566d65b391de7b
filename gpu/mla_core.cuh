/* mla_core.cuh: what the kernels of mla.core share: the rows, where a slot's key lies, the parts of
 * a context and their merge. Private to gpu/mla*.cu.
 *
 * Scores are kept in base 2: t = scale * log2(e) * (q . k). A weight is 2^(t - m), m being a score
 * that no other of the part exceeds by more than MLA_SLACK. A part of a row and head leaves m, its
 * sum of weights and its weighted sum of values, all in float32. */
#ifndef ASSAY_GPU_MLA_CORE_CUH
#define ASSAY_GPU_MLA_CORE_CUH

#include "gpu/mla.cuh"
#include "gpu/mla_split.h"

/* Where the keys and values of a slot lie: in the paged cache (absorbed form) or in buffers that
 * hold one sequence, token by token (expanded form; table NULL). Steps in elements. */
struct mla_keys {
    const int32_t *table; /* [sequences][blocks_max] */
    int64_t blocks_max, block;
    const bf16 *key, *value, *rope;
    int64_t step, rope_step; /* from token to token */
    int64_t head;            /* from head to head, of key and value */
    int64_t entries;         /* of the paged cache, from `key` on */
};

/* y[row][head] = sum over the slots it sees of softmax(scale * (q . key + q_rope . rope)) value */
struct mla_attend {
    int64_t rows, heads, K, R, W; /* widths of key, roped key and value */
    float scale;                  /* times log2(e) */
    const int32_t *sequence;      /* device [rows] */
    const int64_t *span;          /* device [rows] */
    const int64_t *extra;         /* device [rows][extra_max], or NULL */
    int64_t extra_max;
    struct mla_keys keys;
    const bf16 *q, *q_rope; /* steps from row to row and from head to head: */
    int64_t q_row, q_head, rope_row, rope_head;
    bf16 *y;            /* [rows, heads, W] */
    struct mla_cut cut; /* into parts: the usual one, if the kernel does not choose another */
    const struct gpu_rows *all; /* host: its rows are these from `begin` on */
    int64_t begin;
    int64_t parts;   /* host: how many there are, or at most are */
    int64_t most;    /* host: parts of one row, at most */
    int64_t longest; /* host: tokens of one part, at most */
    int64_t seen;    /* host: tokens that one row sees, at most */
    int64_t tokens;  /* host: that all rows see, or at most see */
    bool overlap; /* host: what the cache and the rows hold was written before the launch before */
    float *part;  /* [parts, heads, W] weighted sums */
    float2 *stat; /* [parts, heads]: t that weights are relative to, sum of weights */
    int32_t *first; /* [rows]: the number of a row's first part; where places is not 0: */
    int64_t places; /* first part, or chunk, of row r is number r * places */
    uint32_t unit;  /* of chunks (gpu/mla_split.h) */
};

enum { MLA_ROWS = 256 }; /* rows of one launch: what a plan in shared memory has room for */

/* Of `left` rows, those of the next launch: launches of like size. */
static inline int64_t mla_rows_now(int64_t left)
{
    int64_t launches = (left + MLA_ROWS - 1) / MLA_ROWS;
    return (left + launches - 1) / launches;
}

/* A scale of scores in base 2. */
float mla_scale(double scale);
/* Rows [first, first + n) of op; widths K and W, keys, queries and y are the caller's to fill. */
void mla_attend_begin(const struct gpu_mla_core *op, int64_t first, int64_t n,
                      struct mla_attend *a);
/* Cuts the rows so: also a->parts, most, longest, seen and tokens. */
void mla_cut_rows(struct mla_attend *a, struct mla_cut cut);
/* The two forms. */
enum err_code mla_absorbed(struct gpu *g, const struct gpu_mla_core *op, struct err *err) ERR_USED;
enum err_code mla_expanded(struct gpu *g, const struct gpu_mla_core *op, struct err *err) ERR_USED;

/* Kernels; a->parts, most and rows <= MLA_ROWS are set, the buffers are theirs to take. */
enum err_code mla_any(struct gpu *g, struct mla_attend *a, struct err *err) ERR_USED;
/* K = W = 512, R = 64, keys of the paged cache whose value is the key. */
enum err_code mla_decode(struct gpu *g, struct mla_attend *a, struct err *err) ERR_USED;
/* The same on sm_90a; mla_decode() calls it where it can run. */
enum err_code mla_decode_wgmma(struct gpu *g, struct mla_attend *a, struct err *err) ERR_USED;
bool mla_decode_has_wgmma(const struct gpu *g);
/* q_latent [rows, heads, L] = U^T q_nope, rounded (RP_Q_LATENT); y [rows, heads, V] = G o_latent.
 */
enum err_code mla_project_queries(struct gpu *g, const struct gpu_mla_core *op, bf16 *q_latent,
                                  struct err *err) ERR_USED;
enum err_code mla_project_values(struct gpu *g, const struct gpu_mla_core *op, const bf16 *o_latent,
                                 struct err *err) ERR_USED;
/* Scratch for parts. */
enum err_code mla_parts_new(struct gpu *g, struct mla_attend *a, struct err *err) ERR_USED;
/* y from the parts, in ascending order; zeros where a row sees nothing. Rows of 1 to `done` parts
 * are in y already. */
enum err_code mla_merge(struct gpu *g, const struct mla_attend *a, int done,
                        struct err *err) ERR_USED;

/* One sequence of the expanded form with P = 128, R = 64, V = 128: rows [0, T) see [0, context - T
 * + 1), ..., [0, context). kv [context, heads, 256] (key, value), rope [context, 64], q [T, heads,
 * 192], y [T, heads, 128]. */
struct mla_prefill {
    int64_t T, heads, context;
    float scale; /* times log2(e) */
    const bf16 *q, *kv, *rope;
    bf16 *y;
};
enum err_code mla_prefill(struct gpu *g, const struct mla_prefill *p, struct err *err) ERR_USED;
enum err_code mla_prefill_wgmma(struct gpu *g, const struct mla_prefill *p,
                                struct err *err) ERR_USED;
bool mla_prefill_has_wgmma(const struct gpu *g);

#ifdef __CUDACC__

/* Tokens that a row sees: its span, then its extras. A padded row (span 0 or less) sees none. */
__device__ static inline int64_t mla_seen(const struct mla_attend &a, int64_t row)
{
    int64_t n = a.span[row] > 0 ? a.span[row] : 0;
    for (int64_t e = 0; a.extra && e < a.extra_max && a.extra[row * a.extra_max + e] >= 0; e++) n++;
    return n;
}

/* Slot of the j-th token that a row sees. */
__device__ static inline int64_t mla_slot(const struct mla_attend &a, int64_t row, int64_t j)
{
    int64_t span = a.span[row] > 0 ? a.span[row] : 0;
    return j < span ? j : a.extra[row * a.extra_max + j - span];
}

/* Number of the entry that holds a slot of a sequence. Slots and block sizes are below 2^31. */
__device__ static inline int64_t mla_entry(const struct mla_keys &k, int64_t sequence, int64_t slot)
{
    if (!k.table) return slot;
    uint32_t block = (uint32_t)k.block, at = (uint32_t)slot / block;
    return k.table[sequence * k.blocks_max + at] * k.block + ((uint32_t)slot - at * block);
}

/* The largest score so far, m, after a tile whose largest is `next`. Earlier results must be scaled
 * by 2^(old m - new m) where m moves, so it moves only where weights would grow past 2^MLA_SLACK:
 * bf16 and float32 are as exact there. */
enum { MLA_SLACK = 8 };
__device__ static inline float mla_raise(float m, float next)
{
    return next > m + MLA_SLACK ? next : m;
}

/* 2^x of a difference from the largest score: x <= 0, two units in the last place, denormals become
 * 0. */
__device__ static inline float mla_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Part after part is added to a row's result, in ascending order: every merge of parts adds up in
 * this way, so a row has the same bits from each. */
struct mla_sum {
    float sum, v[4];
};

__device__ static inline void mla_add_part(struct mla_sum *s, float2 stat, float largest, float4 x)
{
    float weight = mla_exp2(stat.x - largest);
    s->sum = fmaf(weight, stat.y, s->sum);
    s->v[0] = fmaf(weight, x.x, s->v[0]);
    s->v[1] = fmaf(weight, x.y, s->v[1]);
    s->v[2] = fmaf(weight, x.z, s->v[2]);
    s->v[3] = fmaf(weight, x.w, s->v[3]);
}

/* Four columns; zeros where there was no part. */
__device__ static inline void mla_put_sum(const struct mla_sum *s, int n, bf16 *y)
{
    __nv_bfloat162 out[2] = {};
    if (n) {
        out[0] = __floats2bfloat162_rn(s->v[0] / s->sum, s->v[1] / s->sum);
        out[1] = __floats2bfloat162_rn(s->v[2] / s->sum, s->v[3] / s->sum);
    }
    *(uint2 *)y = make_uint2(*(uint32_t *)&out[0], *(uint32_t *)&out[1]);
}

#endif
#endif
