/* mla_decode_merge.cu: the parts of a row put together, as gpu/mla_decode_wgmma.cu leaves them.
 * Contract: gpu/mla_decode_variants.cuh; how parts are added: gpu/mla_core.cuh. A row has the same
 * bits whatever other rows are merged beside it. */
#include "gpu/launch.cuh"
#include "gpu/mla_decode.cuh"
#include "gpu/mla_decode_variants.cuh"

enum {
    GROUP = 128, /* threads that have all heads and columns of a block between them */
    GROUPS = 4,  /* that share the parts of a row, where there are more than FEW */
    FEW = 16,
    BLOCKS = 6,  /* of one group, on a multiprocessor: seven leave too few registers */
    AT_ONCE = 4, /* parts of which all loads are on their way before the first is used */
    PAIRS = LATENT / 16,
};

/* What is added up for one head: its statistics, and two columns in each of two chunks. */
struct head_sum {
    float largest, sum, v[4];
};

__device__ static void add_part(struct head_sum *s, float2 stat, float a, float b, float c, float d)
{
    float weight = mla_exp2(stat.x - s->largest);
    s->sum = fmaf(weight, stat.y, s->sum);
    s->v[0] = fmaf(weight, a, s->v[0]), s->v[1] = fmaf(weight, b, s->v[1]);
    s->v[2] = fmaf(weight, c, s->v[2]), s->v[3] = fmaf(weight, d, s->v[3]);
}

/* What was added up so far becomes relative to a score that is as large or larger. */
__device__ static void raise_sum(struct head_sum *s, float largest)
{
    float keep = mla_exp2(s->largest - largest);
    s->largest = largest;
    s->sum *= keep;
    for (int i = 0; i < 4; i++) s->v[i] *= keep;
}

/* What a thread has of one part: statistics of its two heads, two chunks of both. */
struct loaded {
    float2 stat[2];
    float4 x, y;
};

/* Where a thread's parts begin. */
struct places {
    const float2 *stat;
    const float *part;
    int64_t heads, slot; /* from part to part */
    int second;          /* from the first to the second head */
};

__device__ static struct loaded load_part(const struct places &p, int i)
{
    const float *part = p.part + i * p.slot;
    return {{p.stat[i * p.heads], p.stat[i * p.heads + p.second]},
            *(const float4 *)part,
            *(const float4 *)(part + slot_at(0, 1, 0))};
}

/* Adds parts [from, to). */
__device__ static void add_parts(struct head_sum (&s)[2], const struct places &p, int from, int to)
{
#pragma unroll 1
    for (; from < to; from += AT_ONCE) {
        struct loaded l[AT_ONCE];
        float largest[2] = {s[0].largest, s[1].largest};
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (from + i < to) l[i] = load_part(p, from + i);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            for (int h = 0; h < 2 && from + i < to; h++)
                largest[h] = fmaxf(largest[h], l[i].stat[h].x);
        for (int h = 0; h < 2; h++) raise_sum(&s[h], largest[h]);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (from + i >= to) continue;
            add_part(&s[0], l[i].stat[0], l[i].x.x, l[i].x.y, l[i].y.x, l[i].y.y);
            add_part(&s[1], l[i].stat[1], l[i].x.z, l[i].x.w, l[i].y.z, l[i].y.w);
        }
    }
}

/* What N groups have added up, in the first one's s. All threads. */
template <int N> __device__ static void join_groups(struct head_sum (&s)[2])
{
    __shared__ struct head_sum all[N][2][GROUP];
    int group = threadIdx.x / GROUP, th = threadIdx.x % GROUP;
    for (int h = 0; h < 2; h++) all[group][h][th] = s[h];
    __syncthreads();
    for (int i = 1; i < N && group == 0; i++) {
        for (int h = 0; h < 2; h++) {
            const struct head_sum *x = &all[i][h][th];
            raise_sum(&s[h], fmaxf(s[h].largest, x->largest));
            add_part(&s[h], make_float2(x->largest, x->sum), x->v[0], x->v[1], x->v[2], x->v[3]);
        }
    }
}

/* One block: sixteen columns of 64 heads of one row; a thread: four of two heads. Up to FEW parts
 * are the first group's; of more, each of N groups has a share. */
template <int N>
__global__ static void __launch_bounds__(GROUP *N, N == 1 ? BLOCKS : 1)
    merge_slots(struct mla_attend a)
{
    int blocks = ((int)a.heads + 63) / 64, row = blockIdx.y / blocks, th = threadIdx.x % GROUP;
    int head = (int)blockIdx.y % blocks * 64 + th / 32 * 16 + th % 32 / 4;
    int n = (int)mla_parts(a.cut, mla_seen(a, row)); /* rows were there before the parts' launch */
    int groups = n <= FEW ? 1 : N, group = threadIdx.x / GROUP;
    /* Heads that there are none of take another's place, and are not put. */
    int from = min(head, (int)a.heads - 1), second = min(head + 8, (int)a.heads - 1) - from;
    struct head_sum s[2] = {{-INFINITY, 0, {}}, {-INFINITY, 0, {}}};
    let_next_launch();
    wait_for_launch_before();
    if (n <= 1) return;
    int64_t first = a.places ? row * a.places : a.first[row];
    const struct places p = {a.stat + first * a.heads + from,
                             part_slot(a, first, head) +
                                 slot_at(blockIdx.x / 8, blockIdx.x % 8 * 2, th),
                             a.heads, part_slot(a, 1, 0) - part_slot(a, 0, 0), second};
    bool any = head / 16 * 16 < a.heads && group < groups; /* the warp's heads have sums */
    if (any) add_parts(s, p, n * group / groups, n * (group + 1) / groups);
    if (groups > 1) join_groups<N>(s);
    if (!any || group > 0) return;
    const struct decode_part all = {row, 0, 0, 0, 0, 0, true};
    for (int h = 0; h < 2; h++)
        put_columns(a, all, head + 8 * h, (int)blockIdx.x * 16, s[h].sum, s[h].v[0], s[h].v[1],
                    s[h].v[2], s[h].v[3]);
}

enum err_code mla_decode_merge(struct gpu *g, const struct mla_attend *a, struct err *err)
{
    dim3 grid(PAIRS, (unsigned)((a->heads + 63) / 64 * a->rows));
    bool many = a->most > FEW;
    const struct gpu_launch l = {"mla_merge", "",  grid, dim3(many ? GROUP * GROUPS : GROUP),
                                 0,           true};
    return gpu_launch(g, &l, err, many ? merge_slots<GROUPS> : merge_slots<1>, *a);
}
