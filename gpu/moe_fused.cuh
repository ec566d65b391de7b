/* moe_fused.cuh: what a block of moe_fused.cu knows, what passes between blocks, which tasks warps
 * take, and how they ask for their weights. Private to it. */
#ifndef ASSAY_GPU_MOE_FUSED_CUH
#define ASSAY_GPU_MOE_FUSED_CUH

#include "gpu/moe_barrier.cuh"
#include "gpu/moe_fused.h"
#include "gpu/moe_mma.cuh"

/* A divisor and 2^32 / it, rounded up: exact for n < 2^32 / it. */
struct fused_by {
    uint32_t n, times;
};

/* Units whose sums are added up together; tasks of one; steps of such a batch, in each of which
 * every warp has a task. */
struct fused_batch {
    struct fused_by units, tasks, steps;
};

/* One of the two products, as the host knows it. */
struct fused_matrix {
    const char *weights; /* [E] x step bytes */
    int64_t step;
    int32_t tiles, row_bytes; /* of k; of a token's row of them in shared memory */
    struct fused_by chunks;   /* of a row */
    struct fused_by blocks;   /* of 16 rows */
};

struct fused_job {
    struct fused_matrix m[2];                  /* w13, w2 */
    struct fused_batch batch[FUSED_PAIRS + 1]; /* of w13; of w2 where so many experts are chosen */
    struct fused_by blocks;                    /* of the launch */
    struct fused_size size;
    struct fused_by pieces;       /* of four columns, of a row of activations */
    int32_t E, top_k, sums, rows; /* floats of a set of sums; bytes of rows */
    const bf16 *x;                /* [T, H] */
    const int32_t *ids;           /* [T, top_k] */
    const float *weight;          /* [T, top_k] */
    bool wide;                    /* x can be read 16 bytes at a time */
    bool planned;                 /* see moe_parts.cuh */
    float sum_scale;
    const bf16 *shared;
    bf16 *routed, *y;
    float *partial;
};

/* What this block has to do of a product: units [unit, end), steps for all of them. */
struct fused_phase {
    uint32_t unit, end, all, tasks; /* tasks of a unit */
    struct fused_batch batch;
};

/* What the block knows, in shared memory. */
struct fused_lists {
    struct fused_phase phase[2];
    uint32_t experts;                        /* that one token or more chose */
    uint32_t pairs;                          /* bit i: pair i has an expert */
    uint32_t launch;                         /* the number of this one */
    int32_t expert[FUSED_PAIRS];             /* ascending */
    int32_t pair[FUSED_PAIRS][FUSED_TOKENS]; /* -1: the token did not choose it */
    float weight[FUSED_PAIRS][FUSED_TOKENS];
    uint4 zeros[2];
};
static_assert(sizeof(struct fused_lists) <= FUSED_LISTS, "room");

/* Activations on their way from block to block: the low half two values, the high half the number
 * of the launch that made them. */
__device__ static __align__(16) unsigned long long fused_word[FUSED_WORDS];
/* Launches so far; blocks of this launch that have read that. */
__device__ static uint32_t fused_launches, fused_readers;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ static inline uint32_t divided(uint32_t n, const struct fused_by &by)
{
    return by.n == 1 ? n : __umulhi(n, by.times);
}

/* ---- what passes between blocks ---- */

__device__ static inline void post_word(uint32_t at, uint32_t launch, uint32_t bits)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(fused_word + at),
                 "l"((unsigned long long)launch << 32 | bits)
                 : "memory");
}

__device__ static inline ulonglong2 look_at_words(uint32_t at)
{
    ulonglong2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(v.x), "=l"(v.y)
                 : "l"(fused_word + at)
                 : "memory");
    return v;
}

/* ---- what there is to do ---- */

__device__ static inline struct fused_phase phase_of(const struct fused_job &job, uint32_t which,
                                                     uint32_t experts)
{
    struct fused_phase p;
    uint32_t units = job.m[which].blocks.n * (which ? 1 : experts);
    p.tasks = job.m[which].chunks.n * (which ? experts : 1);
    p.batch = job.batch[which ? max(1u, experts) : 0];
    p.unit = divided(units * blockIdx.x, job.blocks);
    p.end = divided(units * (blockIdx.x + 1), job.blocks);
    uint32_t full = divided(p.end - p.unit, p.batch.units);
    uint32_t rest = p.end - p.unit - full * p.batch.units.n;
    p.all = full * p.batch.steps.n + (rest ? fused_steps(rest * p.tasks) : 0);
    return p;
}

/* By one warp: who chose whom. */
__device__ static inline void list_chosen(const struct fused_job &job, struct fused_lists &l)
{
    int lane = threadIdx.x % 32, rank = 0, token = 0;
    int32_t id = lane < job.size.pairs ? job.ids[lane] : -1;
    float weight = lane < job.size.pairs ? job.weight[lane] : 0.0f;
    if (job.size.T > 1) token = lane / job.top_k;
#pragma unroll
    for (int t = 0; t < FUSED_TOKENS; t++) l.pair[lane][t] = -1;
    __syncwarp();
    if (id >= job.E) id = -1;
    unsigned same = __match_any_sync(~0u, id < 0 ? -1 : id), below = (1u << lane) - 1;
    unsigned first = __ballot_sync(~0u, id >= 0 && (same & below) == 0);
    unsigned all = __ballot_sync(~0u, id >= 0);
    if (job.size.T == 1) { /* ids ascend in a row */
        rank = __popc(first & below);
    } else {
#pragma unroll 1
        for (unsigned left = first; left; left &= left - 1)
            rank += __shfl_sync(~0u, id, __ffs((int)left) - 1) < id;
    }
    if (id >= 0) {
        l.expert[rank] = id;
        l.pair[rank][token] = lane;
        l.weight[rank][token] = weight;
    }
    if (lane == 0) {
        l.experts = __popc(first);
        l.pairs = all;
    }
    if (lane < 2) {
        l.phase[lane] = phase_of(job, lane, __popc(first));
        l.zeros[lane] = make_uint4(0, 0, 0, 0);
    }
}

/* Words (column / 2) of a token's row of 8 columns that lie together. */
__device__ static inline void put_words(uint32_t *row, uint32_t column, const uint4 &v)
{
    uint32_t *to = row + fused_word_at(column / 2);
    to[0] = v.x;
    to[8] = v.y;
    to[16] = v.z;
    to[24] = v.w;
}

/* The tokens to shared memory: by all warps but the first. */
__device__ static inline void load_tokens(const struct fused_job &job, char *rows)
{
    uint32_t thread = threadIdx.x - 32, wide_H = job.m[0].tiles * MOE_TILE_K;
    const uint32_t H = job.size.H;
#pragma unroll 1
    for (int32_t t = 0; t < job.size.T; t++) {
        const bf16 *x = job.x + (int64_t)t * job.size.H;
        char *row = rows + t * job.m[0].row_bytes;
        if (job.wide) {
#pragma unroll 2
            for (uint32_t c = thread * 8; c < wide_H; c += (FUSED_THREADS - 32) * 8)
                put_words((uint32_t *)row, c, load_or_zero(x + c, c < H));
        } else {
#pragma unroll 1
            for (uint32_t c = thread; c < wide_H; c += FUSED_THREADS - 32)
                ((bf16 *)row)[fused_word_at(c / 2) * 2 + c % 2] =
                    c < H ? x[c] : __float2bfloat16_rn(0.0f);
        }
    }
}

/* ---- tasks ---- */

/* What a warp has to know of a task, in one word: tiles of k (0: it has none in this step), whether
 * the batch ends with it, the product, the expert's place in the list, the task's number in the
 * batch, which quarter of the strip, the first tile. */
enum { NOTE_LAST = 8, NOTE_PHASE = 16 };

__device__ static inline uint32_t note_of(uint32_t tiles, bool last, uint32_t phase,
                                          uint32_t expert, uint32_t task, uint32_t quarter,
                                          uint32_t tile)
{
    return tiles | (last ? NOTE_LAST : 0) | phase * NOTE_PHASE | expert << 5 | task << 10 |
           quarter << 18 | tile << 20;
}

/* A lane's: where its weights begin, and the note. */
struct fused_task {
    const char *from;
    uint32_t note;
};

/* This warp's task of step n: 16 rows of an expert by a chunk of k. Every lane another step: what
 * it takes to find a task is then paid for 32 of them at once. */
__device__ static inline struct fused_task task_of(const struct fused_job &job,
                                                   const struct fused_lists &l, uint32_t n)
{
    uint32_t phase = n >= l.phase[0].all, warp = threadIdx.x / 32;
    const struct fused_phase &p = l.phase[phase];
    const struct fused_matrix &m = job.m[phase];
    if (phase) n -= l.phase[0].all;
    uint32_t batch = divided(n, p.batch.steps), step = n - batch * p.batch.steps.n;
    uint32_t first = p.unit + batch * p.batch.units.n, task = step * FUSED_WARPS + warp;
    uint32_t tasks = min(p.batch.units.n, p.end - first) * p.tasks;
    bool last = step + 1 == fused_steps(tasks);
    if (n >= p.all || task >= tasks) return {NULL, note_of(0, last, phase, 0, 0, 0, 0)};
    uint32_t unit = divided(task, p.batch.tasks), at = task - unit * p.tasks;
    uint32_t expert = divided(at, m.chunks), over = divided(first + unit, m.blocks);
    uint32_t tile = (at - expert * m.chunks.n) * FUSED_TILES,
             block = first + unit - over * m.blocks.n;
    expert += over;
    return {m.weights + l.expert[expert] * m.step +
                ((int64_t)(block / 4) * m.tiles + tile) * MOE_TILE_BYTES + block % 4 * 512,
            note_of(min((uint32_t)FUSED_TILES, m.tiles - tile), last, phase, expert, task,
                    block % 4, tile)};
}

/* Asks for the weights of lane `which`'s task: codes of its tiles, then their scales. */
__device__ static inline void load_chunk(const struct fused_task &mine, int which, uint32_t to,
                                         uint32_t note_to)
{
    int lane = threadIdx.x % 32;
    uint32_t note = __shfl_sync(~0u, mine.note, which), tiles = note % NOTE_LAST;
    const char *from = (const char *)__shfl_sync(~0u, (unsigned long long)mine.from, which);
    if (lane == 0) store_4(note_to, note);
    if (tiles == 0) return;
    const char *codes = from + lane * 16;
#pragma unroll
    for (uint32_t i = 0; i < FUSED_TILES; i++)
        copy16(to + i * 512 + lane * 16, codes + i * MOE_TILE_BYTES, i < tiles);
    const char *scales = from + MOE_CODE_BYTES - (note >> 18) % 4 * 448;
    if (lane < 4 * FUSED_TILES)
        copy16(to + FUSED_TILES * 512 + lane * 16,
               scales + lane / 4 * MOE_TILE_BYTES + lane % 4 * 16, lane / 4 < tiles);
}

#endif

#endif
