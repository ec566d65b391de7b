/* linear_choose.h: which kernel makes a product y = x W^T: the variants as data, and the choice.
 * Plain C, shared by the choice and its test. Rows' bits differ between the kernels, within
 * the op's bound; of linear_few they depend on the number of warps alone. Test:
 * tests/test_linear_choose.c */
#ifndef ASSAY_GPU_LINEAR_CHOOSE_H
#define ASSAY_GPU_LINEAR_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*     linear_few.cu      dense bf16 for few rows: reads W once
 *     linear_cluster.cu  dense bf16 for some rows, by wgmma: reads W once
 *     linear_lt.cu       dense bf16: cuBLASLt, by an algorithm that it chooses itself
 *     linear_any.cu      every stored format and shape; slow */
enum linear_kernel { LINEAR_BY_FEW, LINEAR_BY_CLUSTER, LINEAR_BY_LT, LINEAR_BY_ANY };
enum {
    LINEAR_FEW = 8,          /* rows: the columns of one m16n8k16 product */
    LINEAR_WHOLE = 40 << 10, /* bytes of shared memory for all of x: with the rest no more
                                than needs no asking, and four blocks a multiprocessor */
    LINEAR_PAD = 64,         /* bytes between rows of it, so that two lie in different banks */
    LINEAR_IN_MOST = INT32_MAX / 2, /* columns that linear_few counts */
    LINEAR_AT_ONCE = 4,             /* blocks a multiprocessor that copy x whole */
    LINEAR_ALWAYS = 2,              /* rows that are copied whole however many blocks there are */
    LINEAR_RING_CHUNK = 512,        /* columns that the warps of linear_ring share */
    LINEAR_RING_STAGES = 16,        /* of its ring, at most */
    LINEAR_RING_BYTES = 100 << 10,  /* of its ring, about */
    LINEAR_RING_BESIDE = 8 << 10,   /* of a block, beside ring and x */
    LINEAR_SOME = 128,              /* rows of linear_cluster.cu: the columns of one wgmma */
    LINEAR_STRIP = 64,              /* outputs of a cluster */
    LINEAR_CLUSTER = 8,             /* blocks of one, at most: all cards have so many */
    LINEAR_CLUSTER_AT_ONCE = 3,     /* blocks a multiprocessor */
    LINEAR_CLUSTER_STEPS = 4,       /* of 64 columns, that a block has at least */
    LINEAR_ALONE_ROWS = 64,         /* of x, up to which it is chosen for one product */
    LINEAR_ALONE_MOST = 16 << 20    /* and elements of W */
};

/* Of a product, what the choice depends on. */
struct linear_size {
    int64_t T, in, out;
    int64_t blocks, sms; /* of a launch of linear_few; multiprocessors */
    int64_t shared;      /* bytes of shared memory that a block may ask for */
    bool dense;          /* W is bf16 as stored */
    bool aligned;        /* rows of x and of W begin at multiples of 16 bytes */
    bool heads;          /* a batch over heads, each with its part of W */
    bool joint;          /* with others of the same x, in one launch if there is a kernel */
    bool overlap;        /* the build and the card know the copy engine of compute capability 9.0 */
    bool wgmma;          /* and 9.0's own products */
    bool lt;             /* cuBLASLt has an algorithm, as far as is known */
};

/* It is chosen for more than `over` and up to `upto` columns. `ring` only where some multiprocessor
 * has more than eight outputs to make. `whole` of several rows only where all blocks run at once:
 * one that comes later waits for its x before its first product. */
struct linear_variant {
    const char *name; /* of --tactic linear=NAME */
    enum linear_kernel kernel;
    int32_t warps; /* of linear_few: that share a row's columns */
    bool whole;    /* x lies in shared memory whole */
    bool ring;     /* by linear_ring.cu, where it does so too */
    int64_t over, upto;
};

/* In order of preference. How many warps is a matter of `in` alone, so that a row's bits are; 16
 * for long rows were 3 to 5 us slower for the shared expert of Kimi-K2.5. `whole` changes no bit.
 * us on an H200, graphs of many products, in -> out:
 *     rows                        1                                  8
 *     variant             whole8 parts8 parts4 cublaslt    whole8 parts8 parts4 cublaslt
 *      256 ->  7168          5.8    5.7    3.5      3.8       7.3    5.9    4.4      3.5
 *     1024 ->  7168          7.7    7.1    7.5      6.6      11.4    8.8   10.5      6.1
 *     1536 ->  1536          3.4    4.5    4.4      6.5       4.5    5.5    5.7      5.1
 *     1536 -> 12288         14.3   14.1   11.8     12.4      22.5   17.5   19.3     12.3
 *     7168 ->  2112         10.3   10.9   13.2     12.7               14.8   20.3     12.7
 *     8192 ->  7168         34.2   32.8   32.5     36.1               50.3   53.8     35.5
 * One row of the shared expert, gate and up `whole8` and down behind them: 30.3 with down `whole8`
 * too, 32.2 with `parts8`; so of one or two rows it is not mixed. Of several rows cuBLASLt makes
 * wide products faster, but with other bits for a row than it has alone: up to LINEAR_FEW rows, as
 * those who verify drafts have, it is not asked.
 *
 * More rows, the same measure; joint: gate, up and router in one launch, which cuBLASLt makes in
 * three and a SwiGLU, q_a and kv_a in one or two:
 *     rows                             16                64               128
 *     variant                    cluster cublaslt  cluster cublaslt  cluster cublaslt
 *     7168 -> 2 x 2048 + 384        20.2     32.6     22.5     34.4     27.6     38.3
 *     7168 -> 2 x 256 + 384          7.0     21.4      8.0     22.2     10.2     23.0
 *     7168 -> 1536 + 576            10.9     17.3     13.3     18.6     17.8     20.5
 *     7168 ->   384                  5.4      6.9      6.8      7.4      9.2      7.4
 *      256 ->  7168                  2.8      3.8      3.9      4.1      6.2      4.1
 *     1024 ->  7168                  6.4      6.3      8.5      6.8     11.1      6.7
 *     2048 ->  7168                 10.4     10.2     12.8     10.7     16.5     10.3
 *     1536 -> 12288                 11.9     12.5     14.1     12.8     16.6     13.2
 *     8192 ->  7168                 34.8     33.8     35.3     32.1     46.9     34.5
 * In a step `cluster` begins early, which those of cuBLASLt do not, and so pays for one product of
 * up to LINEAR_ALONE_MOST weights too: 61 layers of a shard, 64 rows, 22.3 ms instead of 22.6. */
static const struct linear_variant linear_variants[] = {
    {"ring8", LINEAR_BY_FEW, 8, false, true, 1023, INT64_MAX},
    {"whole8", LINEAR_BY_FEW, 8, true, false, 1023, INT64_MAX},
    {"whole4", LINEAR_BY_FEW, 4, true, false, 0, 1023},
    {"parts8", LINEAR_BY_FEW, 8, false, false, 1023, INT64_MAX},
    {"parts4", LINEAR_BY_FEW, 4, false, false, 0, 1023},
    {"cluster", LINEAR_BY_CLUSTER, 0, false, false, 0, INT64_MAX},
    {"cublaslt", LINEAR_BY_LT, 0, false, false, 0, INT64_MAX},
    {"any", LINEAR_BY_ANY, 0, false, false, 0, INT64_MAX},
};

enum { LINEAR_VARIANTS = sizeof linear_variants / sizeof linear_variants[0] };

/* Bytes of shared memory that all of x takes. */
static inline int64_t linear_whole_bytes(int64_t T, int64_t in)
{
    return T * (2 * in + LINEAR_PAD);
}

/* What a block of linear_ring.cu has in shared memory: a stage is eight rows of W, whole where they
 * are short, LINEAR_PAD apart. stages 0: x leaves no room for two. */
struct linear_ring {
    int64_t columns, row, stage; /* of a stage: columns, bytes of a row, bytes */
    int64_t stages, bytes;       /* of the ring; of all */
};

static inline struct linear_ring linear_ring_of(int64_t T, int64_t in, int64_t shared)
{
    struct linear_ring r;
    int64_t chunks = (in + LINEAR_RING_CHUNK - 1) / LINEAR_RING_CHUNK;
    int64_t x = linear_whole_bytes(T, in), room = shared - LINEAR_RING_BESIDE - x;
    r.columns = (chunks <= 4 ? chunks : 2) * LINEAR_RING_CHUNK;
    r.row = 2 * r.columns + LINEAR_PAD;
    r.stage = 8 * r.row;
    r.stages = (room < LINEAR_RING_BYTES ? room : LINEAR_RING_BYTES) / r.stage;
    if (r.stages > LINEAR_RING_STAGES) r.stages = LINEAR_RING_STAGES;
    if (r.stages < 2) r.stages = 0;
    r.bytes = r.stages * r.stage + x;
    if (r.bytes <= shared / 2) r.bytes = shared / 2 + 16; /* no other beside it */
    return r;
}

static inline const char *linear_few_refuses(const struct linear_variant *v,
                                             const struct linear_size *s)
{
    if (s->heads) return "a batch over heads, which it does not serve";
    if (s->T > LINEAR_FEW) return "more than 8 rows, which it does not serve";
    if (!s->aligned || s->in > LINEAR_IN_MOST)
        return "columns that are no multiple of 8, or too many, which it does not serve";
    if (!v->whole && !v->ring) return NULL;
    if (!s->overlap) return "this card has no such copies";
    if (v->ring)
        return linear_ring_of(s->T, s->in, s->shared).stages
                   ? NULL
                   : "rows that leave no room for the ring";
    return linear_whole_bytes(s->T, s->in) <= LINEAR_WHOLE
               ? NULL
               : "rows that do not fit into 40 KB of shared memory";
}

static inline const char *linear_cluster_refuses(const struct linear_size *s)
{
    if (s->heads) return "a batch over heads, which it does not serve";
    if (s->T > LINEAR_SOME) return "more than 128 rows, which it does not serve";
    if (!s->aligned || s->in > LINEAR_IN_MOST)
        return "columns that are no multiple of 8, or too many, which it does not serve";
    return s->wgmma ? NULL : "this card has no such products";
}

/* Blocks that share the columns of `strips` times LINEAR_STRIP outputs: 1, 2, 4 or 8, as many as
 * run at once. */
static inline int64_t linear_cluster_of(int64_t strips, int64_t in, int64_t sms)
{
    int64_t blocks = 1, steps = (in + 63) / 64;
    while (blocks < LINEAR_CLUSTER && 2 * blocks * strips <= LINEAR_CLUSTER_AT_ONCE * sms &&
           steps >= 2 * blocks * LINEAR_CLUSTER_STEPS)
        blocks *= 2;
    return blocks;
}

/* NULL where the variant can make the product, else why it cannot. */
static inline const char *linear_refuses(const struct linear_variant *v,
                                         const struct linear_size *s)
{
    if (v->kernel == LINEAR_BY_ANY) return NULL;
    if (!s->dense) return "a matrix that is not dense bf16, which it does not serve";
    if (v->kernel == LINEAR_BY_FEW) return linear_few_refuses(v, s);
    if (v->kernel == LINEAR_BY_CLUSTER) return linear_cluster_refuses(s);
    return s->lt ? NULL : "a product that the library has no algorithm for";
}

static inline bool linear_is_for(const struct linear_variant *v, const struct linear_size *s)
{
    bool whole = s->T <= LINEAR_ALWAYS || s->blocks <= LINEAR_AT_ONCE * s->sms;
    bool many = s->blocks > s->sms;
    bool large = s->T > LINEAR_ALONE_ROWS || s->out * s->in > LINEAR_ALONE_MOST;
    if (v->kernel == LINEAR_BY_CLUSTER && !s->joint && large) return false;
    return s->in > v->over && s->in <= v->upto && (!v->whole || whole) && (!v->ring || many);
}

/* The variant for a product; `forced`: NULL, or the name of the one to take whatever its limits.
 * NULL: it is refused, *why says for what. Without `forced` there is always one. */
static inline const struct linear_variant *linear_choose(const struct linear_size *s,
                                                         const char *forced, const char **why)
{
    *why = "no such kernel";
    for (int i = 0; i < LINEAR_VARIANTS; i++) {
        const struct linear_variant *v = &linear_variants[i];
        if (forced ? strcmp(forced, v->name) != 0 : !linear_is_for(v, s)) continue;
        *why = linear_refuses(v, s);
        if (!*why) return v;
    }
    return NULL;
}

#endif
