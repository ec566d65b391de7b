/* mla_decode_merge.cu: the parts of a row put together, as gpu/mla_decode_wgmma.cu leaves them.
 * Contract: gpu/mla_decode_variants.cuh; how parts are added: gpu/mla_core.cuh. */
#include "gpu/launch.cuh"
#include "gpu/mla_decode.cuh"
#include "gpu/mla_decode_variants.cuh"

enum { THREADS = 128, PAIRS = LATENT / 16 };

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

__device__ static void add_loaded(struct head_sum (&s)[2], const struct loaded &l)
{
    add_part(&s[0], l.stat[0], l.x.x, l.x.y, l.y.x, l.y.y);
    add_part(&s[1], l.stat[1], l.x.z, l.x.w, l.y.z, l.y.w);
}

/* At most MLA_PARTS parts: all loads are on their way before the first is used. */
__device__ static void merge_few(struct head_sum (&s)[2], const struct places &p, int n)
{
    struct loaded l[MLA_PARTS];
#pragma unroll
    for (int i = 0; i < MLA_PARTS; i++)
        if (i < n) l[i] = load_part(p, i);
#pragma unroll
    for (int i = 0; i < MLA_PARTS; i++)
        for (int h = 0; h < 2 && i < n; h++) s[h].largest = fmaxf(s[h].largest, l[i].stat[h].x);
#pragma unroll
    for (int i = 0; i < MLA_PARTS; i++)
        if (i < n) add_loaded(s, l[i]);
}

__device__ static void merge_many(struct head_sum (&s)[2], const struct places &p, int n)
{
#pragma unroll 8
    for (int i = 0; i < n; i++)
        for (int h = 0; h < 2; h++)
            s[h].largest = fmaxf(s[h].largest, p.stat[i * p.heads + h * p.second].x);
#pragma unroll 4
    for (int i = 0; i < n; i++) add_loaded(s, load_part(p, i));
}

/* One block: sixteen columns of 64 heads of one row; a thread: four of two heads. */
__global__ static void __launch_bounds__(THREADS) merge_slots(struct mla_attend a)
{
    int blocks = ((int)a.heads + 63) / 64, row = blockIdx.y / blocks, th = threadIdx.x;
    int head = (int)blockIdx.y % blocks * 64 + th / 32 * 16 + th % 32 / 4;
    int n = (int)mla_parts(mla_seen(a, row)); /* rows were there before the parts' launch */
    /* Heads that there are none of take another's place, and are not put. */
    int from = min(head, (int)a.heads - 1), second = min(head + 8, (int)a.heads - 1) - from;
    struct head_sum s[2] = {{-INFINITY, 0, {}}, {-INFINITY, 0, {}}};
    let_next_launch();
    wait_for_launch_before();
    if (n == 1 || head / 16 * 16 >= a.heads) return;
    int64_t first = a.places ? row * a.places : a.first[row];
    const struct places p = {a.stat + first * a.heads + from,
                             part_slot(a, first, head) +
                                 slot_at(blockIdx.x / 8, blockIdx.x % 8 * 2, th),
                             a.heads, part_slot(a, 1, 0) - part_slot(a, 0, 0), second};
    if (n <= MLA_PARTS)
        merge_few(s, p, n);
    else
        merge_many(s, p, n);
    const struct decode_part all = {row, 0, 0, 0, 0, true};
    for (int h = 0; h < 2; h++)
        put_columns(a, all, head + 8 * h, (int)blockIdx.x * 16, n ? s[h].sum : 1, s[h].v[0],
                    s[h].v[1], s[h].v[2], s[h].v[3]);
}

enum err_code mla_decode_merge(struct gpu *g, const struct mla_attend *a, struct err *err)
{
    unsigned blocks = (unsigned)((a->heads + 63) / 64 * a->rows);
    const struct gpu_launch l = {"mla_merge", "", dim3(PAIRS, blocks), dim3(THREADS), 0, true};
    return gpu_launch(g, &l, err, merge_slots, *a);
}
