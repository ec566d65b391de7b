/* bench_ops.cu: the cases of `assay bench --on gpu`: dense ops and attention. Bytes count each
 * operand once, as stored; operations are the formula's. */
#include "core/check.h"
#include "gpu/bench_work.cuh"
#include "gpu/linear.cuh"
#include "gpu/mla.cuh"
#include "gpu/mlp.cuh"
#include "gpu/norm.cuh"
#include "gpu/rope.cuh"

#include "core/cache.h"
#include "core/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 64, LATENT = 512, ROPE = 64, NOPE = 128, VALUE = 128, BLOCK = 64 };

/* ---- memory ---- */

__global__ static void fill(bf16 *x, int64_t n, float scale, uint64_t seed)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint64_t z = (seed + (uint64_t)i) * 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        x[i] = __float2bfloat16(((float)(z >> 40) * 0x1p-23f - 1.0f) * scale);
    }
}

void *bench_room(struct bench_work *w, int64_t bytes, struct err *err)
{
    CHECK(w->keeps < BENCH_KEPT);
    void *p = gpu_keep(w->g, bytes, 1, "operands of a benchmark", err);
    if (p) w->kept[w->keeps++] = p;
    return p;
}

enum err_code bench_fill(struct bench_work *w, bf16 *x, int64_t n, double scale, struct err *err)
{
    static uint64_t seed;
    seed += 0x1000000000;
    (void)!GPU_LAUNCH(w->g, err, "bench_fill", "", dim3(2048), dim3(256), 0, fill, x, n,
                      (float)(scale * sqrt(3.0)), seed);
    w->g->fresh = true;
    return err->code;
}

bf16 *bench_values(struct bench_work *w, int64_t n, double scale, struct err *err)
{
    bf16 *x = (bf16 *)bench_room(w, n * (int64_t)sizeof(bf16), err);
    return x && bench_fill(w, x, n, scale, err) == ERR_OK ? x : NULL;
}

int bench_sets(const struct bench_work *w, double bytes, int most)
{
    double wanted = ceil(4.0 * (double)w->g->l2 / bytes);
    return wanted < 1 ? 1 : wanted > most ? most : (int)wanted;
}

void bench_close(struct bench_work *w)
{
    if (w->close) w->close(w);
    for (int i = 0; i < w->keeps; i++) gpu_drop(w->g, w->kept[i]);
    free(w->operands);
}

template <typename T> static T *operands(struct bench_work *w, struct err *err)
{
    w->operands = calloc(1, sizeof(T));
    if (!w->operands) (void)err_set(err, ERR_MEMORY, "bench||%zu bytes", sizeof(T));
    return (T *)w->operands;
}

static struct gpu_matrix dense(struct bench_work *w, int64_t out, int64_t in, struct err *err)
{
    struct gpu_matrix m = {};
    m.format = MATRIX_DENSE;
    m.out = out;
    m.in = in;
    m.data.dtype = DT_BF16;
    m.data.count = out * in;
    m.data.data = bench_values(w, out * in, 1 / sqrt((double)in), err);
    return m;
}

static struct gpu_tensor vector(struct bench_work *w, int64_t n, struct err *err)
{
    struct gpu_tensor t = {DT_BF16, n, bench_values(w, n, 1, err)};
    return t;
}

/* ---- norm and rope ---- */

struct rows_work {
    bf16 *x[SETS], *block[SETS], *y[SETS];
    struct gpu_tensor weight;
    struct gpu_rope table;
    int64_t *position;
};

static enum err_code launch_norm(struct bench_work *w, int set, struct err *err)
{
    struct rows_work *o = (struct rows_work *)w->operands;
    return gpu_norm_add(w->g, w->size.T, w->size.in, 1e-5, o->x[set], o->block[set], &o->weight,
                        o->y[set], err);
}

enum err_code bench_norm(struct bench_work *w, struct err *err)
{
    struct rows_work *o = operands<struct rows_work>(w, err);
    int64_t n = w->size.T * w->size.in;
    if (!o) return err->code;
    w->bytes = 4.0 * 2 * (double)n;
    w->flops = 5.0 * (double)n;
    w->sets = bench_sets(w, w->bytes, SETS);
    w->graph = true;
    w->launch = launch_norm;
    o->weight = vector(w, w->size.in, err);
    for (int s = 0; err->code == ERR_OK && s < w->sets; s++) {
        o->x[s] = bench_values(w, n, 1, err);
        o->block[s] = bench_values(w, n, 1, err);
        o->y[s] = bench_values(w, n, 1, err);
    }
    return err->code;
}

static enum err_code launch_rope(struct bench_work *w, int set, struct err *err)
{
    struct rows_work *o = (struct rows_work *)w->operands;
    return gpu_rope(w->g, w->size.T, w->size.heads, NOPE + ROPE, NOPE, o->position, &o->table, true,
                    false, o->x[set], err);
}

enum err_code bench_rope(struct bench_work *w, struct err *err)
{
    struct rows_work *o = operands<struct rows_work>(w, err);
    struct config config = {};
    struct rope_table table;
    int64_t n = w->size.T * w->size.heads * (NOPE + ROPE);
    if (!o) return err->code;
    int64_t *position = (int64_t *)malloc((size_t)w->size.T * sizeof *position);
    if (!position) return err_set(err, ERR_MEMORY, "bench||positions");
    for (int64_t t = 0; t < w->size.T; t++) position[t] = t;
    config.rope = ROPE;
    config.rope_theta = 50000;
    config.scaling.factor = 1;
    w->bytes = 2.0 * 2 * (double)(w->size.T * w->size.heads * ROPE);
    w->flops = 3.0 * (double)(w->size.T * w->size.heads * ROPE);
    w->sets = bench_sets(w, 2.0 * (double)n, 8);
    w->graph = true;
    w->launch = launch_rope;
    o->position = (int64_t *)bench_room(w, w->size.T * (int64_t)sizeof *position, err);
    if (o->position && rope_table_make(&config, &table, err) == ERR_OK &&
        gpu_send(w->g, o->position, position, (size_t)w->size.T * sizeof *position, "positions",
                 err) == ERR_OK)
        (void)!gpu_rope_send(w->g, &table, false, &o->table, err);
    for (int s = 0; err->code == ERR_OK && s < w->sets; s++) o->x[s] = bench_values(w, n, 1, err);
    free(position);
    return err->code;
}

/* ---- dense products ---- */

struct linear_work {
    struct gpu_matrix a[SETS], b[SETS], c[SETS];
    bf16 *x;
    void *y;
};

static enum err_code launch_linear(struct bench_work *w, int set, struct err *err)
{
    struct linear_work *o = (struct linear_work *)w->operands;
    return gpu_linear(w->g, w->size.T, o->x, &o->a[set], o->y, w->size.f32 ? DT_F32 : DT_BF16, err);
}

enum err_code bench_linear(struct bench_work *w, struct err *err)
{
    struct linear_work *o = operands<struct linear_work>(w, err);
    double weights = 2.0 * (double)(w->size.in * w->size.out);
    if (!o) return err->code;
    w->bytes = weights + 2.0 * (double)(w->size.T * w->size.in) +
               (w->size.f32 ? 4.0 : 2.0) * (double)(w->size.T * w->size.out);
    w->flops = 2.0 * (double)w->size.T * (double)(w->size.in * w->size.out);
    w->sets = bench_sets(w, weights, 16);
    w->graph = true;
    w->launch = launch_linear;
    o->x = bench_values(w, w->size.T * w->size.in, 1, err);
    o->y = bench_room(w, w->size.T * w->size.out * 4, err);
    for (int s = 0; err->code == ERR_OK && s < w->sets; s++)
        o->a[s] = dense(w, w->size.out, w->size.in, err);
    return err->code;
}

static enum err_code launch_mlp(struct bench_work *w, int set, struct err *err)
{
    struct linear_work *o = (struct linear_work *)w->operands;
    return gpu_mlp(w->g, w->size.T, o->x, &o->a[set], &o->b[set], &o->c[set], o->y, DT_BF16, err);
}

enum err_code bench_mlp(struct bench_work *w, struct err *err)
{
    struct linear_work *o = operands<struct linear_work>(w, err);
    double weights = 3 * 2.0 * (double)(w->size.in * w->size.out);
    if (!o) return err->code;
    w->bytes = weights + 2 * 2.0 * (double)(w->size.T * w->size.in);
    w->flops = 6.0 * (double)w->size.T * (double)(w->size.in * w->size.out);
    w->sets = bench_sets(w, weights, 16);
    w->graph = true;
    w->launch = launch_mlp;
    o->x = bench_values(w, w->size.T * w->size.in, 1, err);
    o->y = bench_room(w, w->size.T * w->size.in * 2, err);
    for (int s = 0; err->code == ERR_OK && s < w->sets; s++) {
        o->a[s] = dense(w, w->size.out, w->size.in, err);
        o->b[s] = dense(w, w->size.out, w->size.in, err);
        o->c[s] = dense(w, w->size.in, w->size.out, err);
    }
    return err->code;
}

/* ---- attention ---- */

struct core_work {
    struct gpu_cache cache;
    struct gpu_rows rows;
    struct rows host;
    struct gpu_matrix kv_b;
    struct gpu_mla_core core;
    bf16 *q_latent, *o_latent; /* of the attention alone */
    int32_t *sequence, *table;
    int64_t *position;
};

static void close_core(struct bench_work *w)
{
    struct core_work *o = (struct core_work *)w->operands;
    free(o->sequence);
    free(o->table);
    free(o->position);
}

static enum err_code launch_core(struct bench_work *w, int set, struct err *err)
{
    struct core_work *o = (struct core_work *)w->operands;
    o->core.layer = set; /* each set is a layer of the cache */
    return gpu_mla_core(w->g, &o->core, err);
}

/* `sequences` of `tokens` each; `rows` new ones a sequence, at its end. */
static enum err_code open_core(struct bench_work *w, int64_t sequences, int64_t tokens,
                               int64_t rows, struct err *err)
{
    struct core_work *o = operands<struct core_work>(w, err);
    if (!o) return err->code;
    w->close = close_core;
    int64_t a_sequence = (tokens + BLOCK - 1) / BLOCK, blocks = sequences * a_sequence;
    int64_t count = sequences * rows;
    o->sequence = (int32_t *)malloc((size_t)count * sizeof *o->sequence);
    o->position = (int64_t *)malloc((size_t)count * sizeof *o->position);
    o->table = (int32_t *)malloc((size_t)blocks * sizeof *o->table);
    if (!o->sequence || !o->position || !o->table)
        return err_set(err, ERR_MEMORY, "bench||rows of a step");
    for (int64_t i = 0; i < count; i++) {
        o->sequence[i] = (int32_t)(i / rows);
        o->position[i] = tokens - rows + i % rows;
    }
    /* An odd step through the blocks, so that neighbours in a sequence are none in memory. */
    int64_t step = 7919;
    while (blocks % step == 0 || (step % 2 == 0)) step++;
    for (int64_t b = 0; b < blocks; b++) o->table[b] = (int32_t)(b * step % blocks);
    o->host.count = count;
    o->host.sequence = o->sequence;
    o->host.position = o->position;
    o->cache.layers = w->sets;
    o->cache.sequences = sequences;
    o->cache.block = BLOCK;
    o->cache.blocks = blocks;
    o->cache.blocks_max = a_sequence;
    o->cache.width = LATENT + ROPE;
    o->cache.table = (int32_t *)bench_room(w, blocks * (int64_t)sizeof *o->table, err);
    o->cache.pool = bench_values(w, w->sets * blocks * BLOCK * (LATENT + ROPE), 1, err);
    o->kv_b = dense(w, w->size.heads * (NOPE + VALUE), LATENT, err);
    bf16 *q = bench_values(w, count * w->size.heads * (NOPE + ROPE), 1, err);
    bf16 *y = (bf16 *)bench_room(w, count * w->size.heads * VALUE * 2, err);
    if (err->code != ERR_OK ||
        gpu_send(w->g, o->cache.table, o->table, (size_t)blocks * sizeof *o->table, "block table",
                 err) != ERR_OK ||
        gpu_rows_send(w->g, &o->host, &o->rows, err) != ERR_OK)
        return err->code;
    o->core.heads = w->size.heads;
    o->core.P = NOPE;
    o->core.R = ROPE;
    o->core.V = VALUE;
    o->core.L = LATENT;
    o->core.scale = 1 / sqrt((double)(NOPE + ROPE));
    o->core.rows = &o->rows;
    o->core.q = q;
    o->core.kv_b = &o->kv_b;
    o->core.cache = &o->cache;
    o->core.y = y;
    w->launch = launch_core;
    return ERR_OK;
}

/* The cache is read once; the projections through kv_b are part of the op. */
enum err_code bench_decode(struct bench_work *w, struct err *err)
{
    double B = (double)w->size.T, context = (double)w->size.context, heads = (double)w->size.heads;
    double cache = B * context * (LATENT + ROPE) * 2;
    w->sets = bench_sets(w, cache, SETS);
    w->graph = true;
    w->bytes = cache + heads * (NOPE + VALUE) * LATENT * 2 + B * heads * (NOPE + ROPE + VALUE) * 2;
    w->flops = 2 * B * heads * (context * (2 * LATENT + ROPE) + (NOPE + VALUE) * LATENT);
    if (open_core(w, w->size.T, w->size.context, 1, err) != ERR_OK) return err->code;
    ((struct core_work *)w->operands)->core.absorbed = true;
    return ERR_OK;
}

static enum err_code launch_attend(struct bench_work *w, int set, struct err *err)
{
    struct core_work *o = (struct core_work *)w->operands;
    o->core.layer = set;
    return gpu_mla_attend(w->g, &o->core, o->q_latent, o->o_latent, err);
}

/* What other libraries' decode kernels do: latent queries in, latent results out. */
enum err_code bench_attend(struct bench_work *w, struct err *err)
{
    int64_t latents = w->size.T * w->size.heads * LATENT;
    double B = (double)w->size.T, context = (double)w->size.context, heads = (double)w->size.heads;
    if (bench_decode(w, err) != ERR_OK) return err->code;
    w->bytes = B * context * (LATENT + ROPE) * 2 + B * heads * (2 * LATENT + ROPE) * 2;
    w->flops = 2 * B * heads * context * (2 * LATENT + ROPE);
    w->launch = launch_attend;
    struct core_work *o = (struct core_work *)w->operands;
    o->q_latent = bench_values(w, latents, 1, err);
    o->o_latent = (bf16 *)bench_room(w, latents * 2, err);
    return err->code;
}

/* Operations: causal scores and values, and the up-projection of every latent. */
enum err_code bench_prefill(struct bench_work *w, struct err *err)
{
    double T = (double)w->size.T, heads = (double)w->size.heads;
    w->sets = 1;
    w->kernels = true;
    w->bytes = T * (LATENT + ROPE) * 2 + heads * (NOPE + VALUE) * LATENT * 2 +
               T * heads * (NOPE + ROPE + VALUE) * 2;
    w->flops =
        heads * T * (T + 1) * (NOPE + ROPE + VALUE) + 2 * T * heads * (NOPE + VALUE) * LATENT;
    return open_core(w, 1, w->size.T, w->size.T, err);
}
