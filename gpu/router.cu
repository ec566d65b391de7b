/* router.cu: op router on the device; see router.cuh. Which kernels: router_choose.h; those of few
 * tokens: router_few.cu. Else logits are a linear in float32, and the choice is router_pick: a warp
 * a token, its keys in shared memory.
 *
 * NaN. A key that is NaN counts as the least of all, so ids are valid and distinct whatever the
 * logits hold; a weight is made from the score itself and stays NaN. */
#include "gpu/router_parts.cuh"

#include "core/matrix.h"
#include "core/tactic.h"
#include "gpu/linear.cuh"
#include "gpu/ops.h"
#include "gpu/vector.cuh"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { PICK_SHARED = 48 << 10 };

/* In place of the key of an expert that cannot be chosen (any more); no key is NaN. */
#define PICK_GONE __int_as_float(0x7fffffff)

/* A token's arrays in shared memory, [E], [E], [groups], [(E + 31) / 32], [top_k]. */
struct pick_row {
    float *score, *key, *group;
    uint32_t *taken;
    int32_t *chosen;
};

/* Of the lanes' (value, index) the index of the largest value; of equal values the lower. INT_MAX:
 * none. No value is NaN. */
__device__ static inline int pick_best(float value, int index)
{
    uint32_t bits = __float_as_uint(value + 0.0f); /* -0 and 0 are equal */
    uint32_t order = bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
    if (index == INT_MAX) order = 0; /* below that of -infinity */
    uint32_t most = __reduce_max_sync(~0u, order);
    return __reduce_min_sync(~0u, order == most ? index : INT_MAX);
}

/* This lane's best of value[0..n): indexes lane, lane + 32, .. */
__device__ static inline int pick_scan(const float *value, int n, float *best)
{
    int at = INT_MAX;
    *best = 0;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        float v = value[i];
        if (isnan(v) || (at != INT_MAX && v <= *best)) continue;
        *best = v;
        at = i;
    }
    return at;
}

/* The `count` largest of value[0..n) one after the other; each becomes PICK_GONE and is given to
 * take(). Only the lane that loses its best looks again. */
template <typename Take>
__device__ static inline void pick_largest(float *value, int n, int count, Take take)
{
    float most;
    int mine = pick_scan(value, n, &most);
    for (int k = 0; k < count; k++) {
        int best = pick_best(most, mine);
        if (best == INT_MAX) return;
        take(best);
        if (best == mine) {
            value[mine] = PICK_GONE;
            mine = pick_scan(value, n, &most);
        }
        __syncwarp();
    }
}

__device__ static inline float warp_sum(float x)
{
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/* NaN anywhere is the result. */
__device__ static inline float warp_max(float x)
{
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(~0u, x, step);
        x = isnan(x) || x > other ? x : other;
    }
    return x;
}

__device__ static inline float least_if_nan(float x)
{
    return isnan(x) ? -INFINITY : x;
}

/* Scores and keys of one row of logits. */
__device__ static void pick_keys(const struct gpu_router &r, const float *logits,
                                 const struct pick_row &s)
{
    int lane = threadIdx.x % 32, E = (int)r.E;
    float max = -INFINITY, sum = 0;
    if (r.scoring == SCORING_SOFTMAX) {
        for (int e = lane; e < E; e += 32) max = isnan(max) || max > logits[e] ? max : logits[e];
        max = warp_max(max);
        for (int e = lane; e < E; e += 32) sum += expf(logits[e] - max);
        sum = warp_sum(sum);
    }
    for (int e = lane; e < E; e += 32) {
        float score = r.scoring == SCORING_SIGMOID ? 1.0f / (1.0f + expf(-logits[e]))
                                                   : expf(logits[e] - max) / sum;
        s.score[e] = score;
        s.key[e] = least_if_nan(score + (r.bias ? r.bias[e] : 0.0f));
    }
    for (int i = lane; i < (E + 31) / 32; i += 32) s.taken[i] = 0;
    __syncwarp();
}

/* Score of group i: the sum of its two largest keys, or its largest. */
__device__ static float group_score(const struct gpu_router &r, const float *key)
{
    float best = -INFINITY, second = -INFINITY;
    for (int e = 0; e < (int)(r.E / r.groups); e++) {
        if (key[e] > best) {
            second = best;
            best = key[e];
        } else if (key[e] > second) {
            second = key[e];
        }
    }
    return least_if_nan(r.method == TOPK_NOAUX_TC ? best + second : best);
}

/* The experts of groups that are not kept cannot be chosen. A kept group's score becomes PICK_GONE.
 */
__device__ static void drop_groups(const struct gpu_router &r, const struct pick_row &s)
{
    int lane = threadIdx.x % 32, per_group = (int)(r.E / r.groups);
    for (int i = lane; i < (int)r.groups; i += 32)
        s.group[i] = group_score(r, s.key + i * per_group);
    __syncwarp();
    pick_largest(s.group, (int)r.groups, (int)r.top_groups, [](int) {});
    for (int e = lane; e < (int)r.E; e += 32) {
        if (!isnan(s.group[e / per_group])) s.key[e] = PICK_GONE;
    }
    __syncwarp();
}

/* The chosen in ascending id, from the bits of `taken`. */
__device__ static void list_taken(const struct gpu_router &r, const struct pick_row &s)
{
    int lane = threadIdx.x % 32, n = 0;
    for (int first = 0; first < (int)r.E; first += 32) {
        uint32_t bits = s.taken[first / 32];
        if (bits >> lane & 1) s.chosen[n + __popc(bits & ((1u << lane) - 1))] = first + lane;
        n += __popc(bits);
    }
}

/* An id that was given and is out of range reads nothing and becomes -1. */
__device__ static void copy_forced(const struct gpu_router &r, const int32_t *forced,
                                   int32_t *chosen)
{
    for (int j = threadIdx.x % 32; j < (int)r.top_k; j += 32)
        chosen[j] = forced[j] >= 0 && forced[j] < r.E ? forced[j] : -1;
}

/* Sums in ascending id, like the reference; every lane for itself. */
__device__ static void give_chosen(const struct gpu_router &r, const struct pick_row &s, int64_t t)
{
    float sum = 0;
    bool norm = r.norm_topk && r.top_k > 1;
    for (int j = 0; norm && j < (int)r.top_k; j++)
        sum += s.chosen[j] < 0 ? NAN : s.score[s.chosen[j]];
    for (int j = threadIdx.x % 32; j < (int)r.top_k; j += 32) {
        float w = s.chosen[j] < 0 ? NAN : s.score[s.chosen[j]];
        if (norm) w /= sum + 1e-20f;
        r.ids[t * r.top_k + j] = s.chosen[j];
        r.weights[t * r.top_k + j] = w * r.routed_scale;
    }
}

__device__ static struct pick_row pick_row_of(const struct gpu_router &r, char *memory)
{
    struct pick_row s;
    s.score = (float *)memory;
    s.key = s.score + r.E;
    s.group = s.key + r.E;
    s.taken = (uint32_t *)(s.group + r.groups);
    s.chosen = (int32_t *)(s.taken + (r.E + 31) / 32);
    return s;
}

/* One warp's work on one token. logits may be s.score. */
__device__ static void pick_token(const struct gpu_router &r, const struct pick_row &s, int64_t t,
                                  const float *logits)
{
    const int32_t *forced = r.forced ? r.forced + t * r.top_k : NULL;
    pick_keys(r, logits, s);
    if (forced && forced[0] >= 0) {
        copy_forced(r, forced, s.chosen);
    } else {
        if (r.groups > 1) drop_groups(r, s);
        uint32_t *taken = s.taken;
        pick_largest(s.key, (int)r.E, (int)r.top_k, [taken](int e) {
            if (threadIdx.x % 32 == 0) taken[e / 32] |= 1u << (e % 32);
        });
        __syncwarp();
        list_taken(r, s);
    }
    __syncwarp();
    give_chosen(r, s, t);
}

__global__ static void router_pick(const struct gpu_router r, int row_bytes)
{
    extern __shared__ __align__(16) char memory[];
    int64_t t = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (t >= r.T) return;
    pick_token(r, pick_row_of(r, memory + threadIdx.x / 32 * row_bytes), t, r.logits + t * r.E);
}

/* What the kernel relies on. */
static bool fits(const struct gpu_router *r)
{
    return r->E >= 1 && r->groups >= 1 && r->E % r->groups == 0 && r->top_groups >= 1 &&
           r->top_groups <= r->groups && r->top_k >= 1 &&
           r->top_k <= r->E / r->groups * r->top_groups;
}

/* By `warp`: logits of a linear, and a warp a token. */
static enum err_code by_warps(struct gpu *g, const struct gpu_router *op, struct err *err)
{
    int64_t row = (2 * op->E + op->groups + (op->E + 31) / 32 + op->top_k) * 4,
            warps = PICK_SHARED / row;
    if (!op->summed && gpu_linear(g, op->T, op->x, op->w, op->logits, DT_F32, err) != ERR_OK)
        return err->code;
    if (warps < 1)
        return err_set(err, ERR_INPUT, "choose experts|op router on gpu|%lld experts|at most %d",
                       (long long)op->E, PICK_SHARED / 16);
    if (warps > 4) warps = 4;
    return GPU_LAUNCH(g, err, "router_pick", "warp", dim3((unsigned)((op->T + warps - 1) / warps)),
                      dim3((unsigned)(32 * warps)), (size_t)(row * warps), router_pick, *op,
                      (int)row);
}

static const struct router_variant *variant_for(const struct gpu_router *r, bool summed,
                                                const char **why)
{
    struct router_size s = {};
    s.summed = summed;
    s.T = r->T;
    s.E = r->E;
    s.top_k = r->top_k;
    s.groups = r->groups;
    s.sigmoid = r->scoring == SCORING_SIGMOID;
    s.forced = r->forced != NULL;
    s.dense = r->w->format == MATRIX_DENSE && r->w->data.dtype == DT_BF16 &&
              vector_fits(r->w->data.data, r->w->in) && vector_fits(r->x, r->w->in);
    return router_variant_for(&s, tactic_forced("router"), why);
}

bool gpu_router_by_linear(const struct gpu_router *op)
{
    const char *why;
    const struct router_variant *v = variant_for(op, true, &why);
    return v && !v->sums;
}

enum err_code gpu_router(struct gpu *g, const struct gpu_router *op, struct err *err)
{
    if (!fits(op))
        return err_set(err, ERR_INPUT,
                       "choose experts|op router on gpu|%lld of %lld experts in %lld of %lld "
                       "groups|equal groups, and experts enough in those kept",
                       (long long)op->top_k, (long long)op->E, (long long)op->top_groups,
                       (long long)op->groups);
    if (op->T == 0) return ERR_OK;
    const char *why;
    const struct router_variant *v = variant_for(op, op->summed, &why);
    if (!v) return tactic_none("router", why, err);
    return v->block ? router_few(g, op, v, err) : by_warps(g, op, err);
}

/* ---- the op's adapter ---- */

struct gpu_router gpu_router_of(const struct router *op)
{
    struct gpu_router r = {};
    r.T = op->T;
    r.H = op->H;
    r.E = op->E;
    r.top_k = op->top_k;
    r.groups = op->groups;
    r.top_groups = op->top_groups;
    r.scoring = op->scoring;
    r.method = op->method;
    r.norm_topk = op->norm_topk;
    r.routed_scale = (float)op->routed_scale;
    return r;
}

/* The bias as float32 scratch; values of any float type are exact in it. */
static float *send_bias(struct gpu *g, const struct tensor *bias, struct err *err)
{
    double *wide = (double *)malloc((size_t)tensor_count(bias) * sizeof *wide);
    float *out = NULL;
    if (!wide) {
        (void)!err_set(err, ERR_MEMORY, "send the router's bias|%s|no memory|a copy on the host",
                       bias->name);
        return NULL;
    }
    for (int64_t e = 0; e < tensor_count(bias); e++) {
        char raw[8];
        float value;
        dtype_to_f32(bias->dtype, tensor_elements(bias, e, 1, raw), 1, &value);
        wide[e] = (double)value;
    }
    if (tensor_find_bad(bias, 0, tensor_count(bias), err) == ERR_OK)
        out = gpu_send_f32(g, wide, tensor_count(bias), bias->name, err);
    free(wide);
    return out;
}

static enum err_code send_router(struct gpu *g, const struct router *op, struct gpu_matrix *w,
                                 struct gpu_router *r, struct err *err)
{
    int64_t chosen = op->T * op->top_k;
    *r = gpu_router_of(op);
    r->x = gpu_send_act(g, op->x, op->T, op->H, "the rows", err);
    if (!r->x || gpu_matrix_send(g, op->w, false, w, err) != ERR_OK) return err->code;
    r->w = w;
    r->bias = op->bias ? send_bias(g, op->bias, err) : NULL;
    r->logits = gpu_new<float>(g, op->T * op->E, "logits", err);
    r->ids = gpu_new<int32_t>(g, chosen, "expert ids", err);
    r->weights = gpu_new<float>(g, chosen, "expert weights", err);
    int32_t *forced = op->forced ? gpu_new<int32_t>(g, chosen, "forced ids", err) : NULL;
    r->forced = forced;
    if (err->code != ERR_OK || !op->forced) return err->code;
    return gpu_send(g, forced, op->forced, (size_t)chosen * sizeof *forced, "forced ids", err);
}

enum err_code router_gpu(const struct router *op, struct run *run, struct err *err)
{
    if (router_check(op, err) != ERR_OK || op->T == 0) return err->code;
    struct gpu *g = gpu_enter("router", run, err);
    if (!g) return err->code;
    struct gpu_mark mark = gpu_mark(g);
    struct gpu_matrix w;
    struct gpu_router r;
    int64_t chosen = op->T * op->top_k;
    if (send_router(g, op, &w, &r, err) == ERR_OK && gpu_router(g, &r, err) == ERR_OK &&
        gpu_fetch_f32(g, op->logits, r.logits, op->T * op->E, "logits", err) == ERR_OK &&
        gpu_fetch(g, op->ids, r.ids, (size_t)chosen * sizeof *r.ids, "expert ids", err) == ERR_OK)
        (void)!gpu_fetch_f32(g, op->weights, r.weights, chosen, "expert weights", err);
    return gpu_leave(g, mark, err);
}
