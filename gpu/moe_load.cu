/* moe_load.cu: experts to the device, INT4 ones into the layout of moe_pack.h; see moe.cuh.
 *
 * Codes and scales are sent as stored and repacked there, a thread a word. Then another kernel
 * reads every code and scale back through the layout's forward functions and compares it with what
 * was sent: an expert that is not the checkpoint's, byte for byte, is refused. So is one with a
 * scale that the products do not take. */
#include "gpu/moe_parts.cuh"
#include "gpu/moe_scale.h"

#include "core/check.h"

#include <stdlib.h>
#include <string.h>

/* One stored matrix and its rows in the packed one. */
struct pack_job {
    const uint32_t *codes;                 /* [rows, words] */
    const bf16 *scales;                    /* [rows, groups] */
    int64_t rows, K, words, groups, group; /* group 0: one scale a row */
    int part;                              /* PART_*: whose rows of the packed matrix these are */
    char *packed;
    int64_t tiles_k, strips;
};

enum { PART_GATE, PART_UP, PART_ALONE };

__device__ static inline int64_t packed_row(const struct pack_job &j, int64_t row)
{
    return j.part == PART_ALONE ? row : moe_w13_row(row, j.part == PART_UP);
}

/* The stored row of a packed one, -1: another matrix' row. */
__device__ static inline int64_t stored_row(const struct pack_job &j, int64_t row)
{
    bool up;
    if (j.part == PART_ALONE) return row;
    int64_t source = moe_w13_source(row, &up);
    return up == (j.part == PART_UP) ? source : -1;
}

__device__ static inline uint32_t stored_code(const struct pack_job &j, int64_t row, int64_t k)
{
    if (row >= j.rows || k >= j.K) return 8; /* padding: the code of 0 */
    return j.codes[row * j.words + k / 8] >> (k % 8 * 4) & 15;
}

__device__ static inline bf16 stored_scale(const struct pack_job &j, int64_t row, int64_t k)
{
    if (row >= j.rows || k >= j.K) return __float2bfloat16_rn(0.0f);
    return j.scales[row * j.groups + (j.group ? k / j.group : 0)];
}

/* The nibbles of word `word` of a tile that are this job's, and which they are. */
__device__ static inline uint32_t pack_word(const struct pack_job &j, int64_t strip, int64_t kt,
                                            int word, uint32_t *mask)
{
    uint32_t out = 0;
    *mask = 0;
    for (int nibble = 0; nibble < 8; nibble++) {
        int h = nibble % 2, p = nibble / 2 % 2, e = nibble / 4;
        int64_t row = stored_row(j, strip * MOE_TILE_ROWS + moe_word_row(word, h));
        if (row < 0) continue;
        out |= stored_code(j, row, kt * MOE_TILE_K + moe_word_k(word, p) + e) << (4 * nibble);
        *mask |= 15u << (4 * nibble);
    }
    return out;
}

/* gate comes before up: a word of w13 holds rows of both. */
__global__ static void moe_pack(const struct pack_job j)
{
    int64_t per_tile = MOE_TILE_WORDS + MOE_TILE_SCALES, n = j.strips * j.tiles_k * per_tile;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t tile = i / per_tile, strip = tile / j.tiles_k, kt = tile % j.tiles_k;
        int at = (int)(i % per_tile);
        char *to = j.packed + tile * MOE_TILE_BYTES;
        if (at < MOE_TILE_WORDS) {
            uint32_t mask, word = pack_word(j, strip, kt, at, &mask);
            uint32_t *out = (uint32_t *)to + at;
            if (mask) *out = j.part == PART_UP ? (*out & ~mask) | word : word;
        } else {
            at -= MOE_TILE_WORDS;
            int64_t row = stored_row(j, strip * MOE_TILE_ROWS + moe_scale_row(at));
            if (row >= 0)
                ((bf16 *)(to + MOE_CODE_BYTES))[at] =
                    stored_scale(j, row, kt * MOE_TILE_K + moe_scale_k(at));
        }
    }
}

__device__ static inline bool same_bits(bf16 a, bf16 b)
{
    return __bfloat16_as_ushort(a) == __bfloat16_as_ushort(b);
}

/* What is wrong with a packed matrix: codes and scales that it does not give back, scales that do
 * not fit. */
struct pack_faults {
    unsigned long long different, large;
};

/* Counts them; scales are looked at once a k32 group. */
__global__ static void moe_unpack(const struct pack_job j, struct pack_faults *faults)
{
    int64_t n = j.rows * j.K, step = (int64_t)gridDim.x * blockDim.x;
    struct pack_faults mine = {};
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i / j.K, k = i % j.K, at = packed_row(j, row);
        uint32_t word = *(const uint32_t *)(j.packed + moe_word_at(at, k, j.tiles_k));
        mine.different += (word >> (4 * moe_nibble_of(at, k)) & 15) != stored_code(j, row, k);
        if (k % MOE_SCALE_K) continue;
        bf16 scale = *(const bf16 *)(j.packed + moe_scale_at(at, k, j.tiles_k));
        mine.different += !same_bits(scale, stored_scale(j, row, k));
        mine.large += !moe_scale_fits(__bfloat162float(scale));
    }
    if (mine.different) atomicAdd(&faults->different, mine.different);
    if (mine.large) atomicAdd(&faults->large, mine.large);
}

/* ---- one matrix ---- */

static bool matrix_packs(const struct matrix *m)
{
    return m->format == MATRIX_PACKED && m->bits == 4 && m->group % MOE_SCALE_K == 0 &&
           m->scale.dtype == DT_BF16 && !tensor_exists(&m->zero) && !tensor_exists(&m->g_idx);
}

bool gpu_expert_packs(const struct expert *x)
{
    return matrix_packs(&x->gate) && matrix_packs(&x->up) && matrix_packs(&x->down);
}

static unsigned blocks_for(const struct gpu *g, int64_t n)
{
    int64_t blocks = (n + 255) / 256, most = (int64_t)g->sms * 16;
    return (unsigned)(blocks < most ? blocks : most);
}

/* Sends m and packs it, then looks whether it can be read back; *faults is on the device. */
static enum err_code pack_matrix(struct gpu *g, const struct matrix *m, int part, char *packed,
                                 struct pack_faults *faults, struct err *err)
{
    struct gpu_tensor codes, scales;
    if (gpu_tensor_send(g, &m->data, false, &codes, err) != ERR_OK ||
        gpu_tensor_send(g, &m->scale, false, &scales, err) != ERR_OK)
        return err->code;
    int64_t rows = part == PART_ALONE ? m->out : moe_w13_rows(m->out);
    struct pack_job j = {};
    j.codes = (const uint32_t *)codes.data;
    j.scales = (const bf16 *)scales.data;
    j.rows = m->out;
    j.K = m->in;
    j.words = ceil_div(m->in, 8);
    j.groups = m->group ? m->in / m->group : 1;
    j.group = m->group;
    j.part = part;
    j.packed = packed;
    j.tiles_k = moe_tiles_k(m->in);
    j.strips = moe_strips(rows);
    int64_t words = j.strips * j.tiles_k * (MOE_TILE_WORDS + MOE_TILE_SCALES);
    if (GPU_LAUNCH(g, err, "moe_pack", "", dim3(blocks_for(g, words)), dim3(256), 0, moe_pack, j) !=
        ERR_OK)
        return err->code;
    return GPU_LAUNCH(g, err, "moe_unpack", "", dim3(blocks_for(g, j.rows * j.K)), dim3(256), 0,
                      moe_unpack, j, faults);
}

/* ERR_OK where nothing is wrong with expert `x`. */
static enum err_code judge_faults(const struct pack_faults *found, const struct expert *x,
                                  struct err *err)
{
    const char *name = x->gate.data.name;
    if (found->different)
        return err_set(err, ERR_DEVICE,
                       "repack expert|%s|%llu codes or scales that are not the checkpoint's|the "
                       "same bytes after a round trip",
                       name, found->different);
    if (!found->large) return ERR_OK;
    if (moe_scales_check(&x->gate, err) != ERR_OK || moe_scales_check(&x->up, err) != ERR_OK ||
        moe_scales_check(&x->down, err) != ERR_OK)
        return err->code;
    return err_set(err, ERR_DEVICE,
                   "repack expert|%s|%llu scales too large on the device|none, as in the "
                   "checkpoint",
                   name, found->large);
}

static enum err_code load_packed(struct gpu *g, struct gpu_experts *x, int64_t e,
                                 const struct expert *from, struct err *err)
{
    struct pack_faults found = {};
    char *w13 = (char *)x->w13 + e * x->w13_step, *w2 = (char *)x->w2 + e * x->w2_step;
    struct pack_faults *faults = gpu_new<struct pack_faults>(g, 1, "round trip of an expert", err);
    if (!faults || gpu_send(g, faults, &found, sizeof found, "round trip", err) != ERR_OK ||
        pack_matrix(g, &from->gate, PART_GATE, w13, faults, err) != ERR_OK ||
        pack_matrix(g, &from->up, PART_UP, w13, faults, err) != ERR_OK ||
        pack_matrix(g, &from->down, PART_ALONE, w2, faults, err) != ERR_OK ||
        gpu_fetch(g, &found, faults, sizeof found, "round trip", err) != ERR_OK)
        return err->code;
    return judge_faults(&found, from, err);
}

/* ---- all ---- */

enum err_code gpu_experts_open(struct gpu *g, int64_t E, int64_t H, int64_t I, bool packed,
                               struct gpu_experts *out, struct err *err)
{
    struct gpu_experts x = {};
    x.E = x.all = E;
    x.H = H;
    x.I = I;
    x.packed = packed;
    x.present = (bool *)calloc((size_t)E, sizeof *x.present);
    if (packed) {
        x.w13_step = (size_t)moe_packed_bytes(moe_w13_rows(I), H);
        x.w2_step = (size_t)moe_packed_bytes(H, I);
        x.w13 = gpu_keep(g, E, x.w13_step, "experts' gate and up", err);
        x.w2 = x.w13 ? gpu_keep(g, E, x.w2_step, "experts' down", err) : NULL;
    } else {
        x.stored = (struct gpu_matrix *)calloc((size_t)(3 * E), sizeof *x.stored);
        x.view = (struct gpu_view *)gpu_keep(g, 3 * E, sizeof *x.view, "experts' addresses", err);
    }
    if (!x.present || (!packed && !x.stored))
        (void)!err_set(err, ERR_MEMORY, "load experts|op moe|%lld experts|memory for their list",
                       (long long)E);
    *out = x;
    if (err->code != ERR_OK) gpu_experts_close(g, out);
    return err->code;
}

static enum err_code load_stored(struct gpu *g, struct gpu_experts *x, int64_t e,
                                 const struct expert *from, struct err *err)
{
    struct gpu_view view[3];
    struct gpu_matrix *to = x->stored + 3 * e;
    const struct matrix *m[3] = {&from->gate, &from->up, &from->down};
    for (int i = 0; i < 3; i++) {
        gpu_matrix_drop(g, &to[i]);
        if (gpu_matrix_send(g, m[i], true, &to[i], err) != ERR_OK) return err->code;
        view[i] = gpu_view_of(&to[i]);
    }
    return gpu_send(g, x->view + 3 * e, view, sizeof view, "experts' addresses", err);
}

enum err_code gpu_experts_load(struct gpu *g, struct gpu_experts *x, int64_t e,
                               const struct expert *from, struct err *err)
{
    CHECK(e >= 0 && e < x->E && (!x->packed || gpu_expert_packs(from)));
    struct gpu_mark mark = gpu_mark(g);
    enum err_code code =
        x->packed ? load_packed(g, x, e, from, err) : load_stored(g, x, e, from, err);
    gpu_release(g, mark);
    if (code != ERR_OK) return code;
    x->present[e] = true;
    return ERR_OK;
}

void gpu_experts_close(struct gpu *g, struct gpu_experts *x)
{
    for (int64_t i = 0; x->stored && i < 3 * x->E; i++) gpu_matrix_drop(g, &x->stored[i]);
    free(x->stored);
    free(x->present);
    gpu_drop(g, x->view);
    gpu_drop(g, x->w13);
    gpu_drop(g, x->w2);
    *x = (struct gpu_experts){};
}

int64_t gpu_expert_bytes(int64_t H, int64_t I, bool packed, const struct expert *from)
{
    if (packed) return moe_packed_bytes(moe_w13_rows(I), H) + moe_packed_bytes(H, I);
    return gpu_matrix_bytes(&from->gate) + gpu_matrix_bytes(&from->up) +
           gpu_matrix_bytes(&from->down) + 3 * (int64_t)sizeof(struct gpu_view);
}
