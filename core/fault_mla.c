/* fault_mla.c: attention with a wrong scale, wrong norms of the latents, wrong layout. What rows
 * see and what the cache holds: fault_mla_cache.c. Test: tests/test_fault_mla.c */
#include "core/fault_edits.h"
#include "core/linear.h"
#include "core/mla.h"
#include "core/norm.h"

#include <math.h>
#include <string.h>

/* ---- softmax scale ---- */

/* The scale without mscale. */
static double plain_scale(const struct mla_core *op)
{
    return 1 / sqrt((double)(op->P + op->R));
}

static enum err_code no_mscale(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    op.scale = plain_scale(&op);
    return fault_next(c, &op, run, err);
}

static enum err_code mscale_once(struct fault_call *c, const void *arg, struct run *run,
                                 struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    op.scale = sqrt(op.scale * plain_scale(&op));
    return fault_next(c, &op, run, err);
}

/* A stored multiplier that holds a tenth of what its reader takes it for: m = 0.1 (m0 / 10) ln f
 * + 1.
 */
static enum err_code mscale_tenth(struct fault_call *c, const void *arg, struct run *run,
                                  struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    double m = (sqrt(op.scale / plain_scale(&op)) - 1) / 10 + 1;
    op.scale = plain_scale(&op) * m * m;
    return fault_next(c, &op, run, err);
}

static enum err_code scale_cache_width(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    double plain = 1 / sqrt((double)(op.L + op.R));
    op.scale = fault_value(c->use, "mscale") != 0 ? op.scale / plain_scale(&op) * plain : plain;
    return fault_next(c, &op, run, err);
}

static enum err_code score_scaled(struct fault_call *c, const void *arg, struct run *run,
                                  struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    op.scale *= fault_value(c->use, "factor");
    return fault_next(c, &op, run, err);
}

static enum err_code value_scaled(struct fault_call *c, const void *arg, struct run *run,
                                  struct err *err)
{
    const struct mla_core *op = arg;
    int64_t n = op->rows->count * op->heads * op->V;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < n; i++) op->y[i] *= fault_value(c->use, "factor");
    run_round(run, RP_ATTN_CORE, op->y, n);
    return ERR_OK;
}

/* ---- norms of the latents ---- */

static enum err_code no_q_norm(struct fault_call *c, const void *arg, struct run *run,
                               struct err *err)
{
    const struct mla_q *op = arg;
    if (!op->a) return fault_next(c, op, run, err);
    struct arena_block *mark = arena_mark(run->arena);
    double *latent =
        arena_alloc(run->arena, op->T * op->a->out, sizeof *latent, "query latent", err);
    if (latent && fault_linear(c, op->T, op->x, op->a, latent, run, err) == ERR_OK)
        (void)!fault_linear(c, op->T, latent, op->b, op->q, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* [T, L + R]: what kv_a_proj gives, before norm and rotation. */
static double *down_projection(struct fault_call *c, const struct mla_kv *op, struct run *run,
                               struct err *err)
{
    double *a = arena_alloc(run->arena, op->T * (op->L + op->R), sizeof *a, "latent and key", err);
    return a && fault_linear(c, op->T, op->x, op->a, a, run, err) == ERR_OK ? a : NULL;
}

static enum err_code no_kv_norm(struct fault_call *c, const void *arg, struct run *run,
                                struct err *err)
{
    const struct mla_kv *op = arg;
    struct arena_block *mark = arena_mark(run->arena);
    const double *a = NULL;
    if (fault_next(c, op, run, err) == ERR_OK) a = down_projection(c, op, run, err);
    for (int64_t t = 0; a && t < op->T; t++)
        memcpy(op->latent + t * op->L, a + t * (op->L + op->R), (size_t)op->L * sizeof *a);
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code kv_norm_twice(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    const struct mla_kv *op = arg;
    const struct norm again = {
        .T = op->T, .H = op->L, .eps = op->eps, .x = op->latent, .w = op->norm, .y = op->latent};
    return fault_next(c, op, run, err) == ERR_OK ? fault_other(c, "norm", &again, run, err)
                                                 : err->code;
}

static double mean_square(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum / (double)n;
}

static enum err_code kv_norm_too_wide(struct fault_call *c, const void *arg, struct run *run,
                                      struct err *err)
{
    const struct mla_kv *op = arg;
    int64_t width = op->L + op->R;
    struct arena_block *mark = arena_mark(run->arena);
    const double *a = NULL;
    if (fault_next(c, op, run, err) == ERR_OK) a = down_projection(c, op, run, err);
    for (int64_t t = 0; a && t < op->T; t++) {
        double right = mean_square(a + t * width, op->L) + op->eps;
        double wide = mean_square(a + t * width, width) + op->eps;
        for (int64_t l = 0; l < op->L; l++) op->latent[t * op->L + l] *= sqrt(right / wide);
    }
    if (a) run_round(run, RP_NORM, op->latent, op->T * op->L);
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code latent_scaled(struct fault_call *c, const void *arg, struct run *run,
                                   struct err *err)
{
    const struct mla_kv *op = arg;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < op->T * op->L; i++) op->latent[i] *= fault_value(c->use, "factor");
    run_round(run, RP_NORM, op->latent, op->T * op->L);
    return ERR_OK;
}

/* An entry's scale was made from its latent alone: what is larger saturates. */
static enum err_code rope_key_saturates(struct fault_call *c, const void *arg, struct run *run,
                                        struct err *err)
{
    const struct mla_kv *op = arg;
    double most = 0;
    if (fault_next(c, op, run, err) != ERR_OK) return err->code;
    for (int64_t i = 0; i < op->T * op->L; i++) most = fmax(most, fabs(op->latent[i]));
    for (int64_t i = 0; i < op->T * op->R; i++) {
        if (fabs(op->k_rope[i]) > most) op->k_rope[i] = copysign(most, op->k_rope[i]);
    }
    return ERR_OK;
}

static enum err_code norm_eps(struct fault_call *c, const void *arg, struct run *run,
                              struct err *err)
{
    if (strcmp(c->place->op, "mla.q") == 0) {
        struct mla_q op = *(const struct mla_q *)arg;
        op.eps = fault_eps(c->use, op.eps);
        return fault_next(c, &op, run, err);
    }
    struct mla_kv op = *(const struct mla_kv *)arg;
    op.eps = fault_eps(c->use, op.eps);
    return fault_next(c, &op, run, err);
}

/* ---- layout ---- */

static enum err_code value_heads_transposed(struct fault_call *c, const void *arg, struct run *run,
                                            struct err *err)
{
    const struct mla_core *op = arg;
    int64_t width = op->heads * op->V;
    struct arena_block *mark = arena_mark(run->arena);
    double *right = NULL;
    if (fault_next(c, op, run, err) == ERR_OK)
        right = fault_copy(run, op->y, op->rows->count * width, err);
    for (int64_t i = 0; right && i < op->rows->count * width; i++) {
        int64_t row = i / width, head = i % width / op->V, v = i % op->V;
        op->y[row * width + v * op->heads + head] = right[i];
    }
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code rope_part_dropped(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    int64_t qk = op.P + op.R, n = op.rows->count * op.heads * qk;
    struct arena_block *mark = arena_mark(run->arena);
    double *q = fault_copy(run, op.q, n, err);
    for (int64_t i = 0; q && i < n; i++) {
        if (i % qk >= op.P) q[i] = 0;
    }
    op.q = q;
    if (q) (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* Row of kv_b that row i of head h is read from; k: inside the head. */
typedef int64_t kv_row(const struct mla_core *op, int64_t h, int64_t k);

static enum err_code with_kv_rows(struct fault_call *c, const void *arg, struct run *run,
                                  kv_row *from, struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    struct matrix kv_b = *op.kv_b;
    struct arena_block *mark = arena_mark(run->arena);
    const struct fault_stored s = {.call = c, .run = run, .arena = run->arena, .expert = -1};
    int64_t width = op.P + op.V;
    int64_t *map = arena_alloc(run->arena, kv_b.out, sizeof *map, "rows of kv_b", err);
    for (int64_t i = 0; map && i < kv_b.out; i++) map[i] = from(&op, i / width, i % width);
    op.kv_b = &kv_b;
    if (map && fault_matrix_rows(&s, &kv_b, map, err) == ERR_OK)
        (void)!fault_next(c, &op, run, err);
    arena_release(run->arena, mark);
    return err->code;
}

/* All keys first, then all values. */
static int64_t split_by_kind(const struct mla_core *op, int64_t h, int64_t k)
{
    return k < op->P ? h * op->P + k : op->heads * op->P + h * op->V + k - op->P;
}

/* Keys of the head after this one. */
static int64_t key_of_next_head(const struct mla_core *op, int64_t h, int64_t k)
{
    return (k < op->P ? (h + 1) % op->heads : h) * (op->P + op->V) + k;
}

static enum err_code kv_b_split_wrong(struct fault_call *c, const void *arg, struct run *run,
                                      struct err *err)
{
    return with_kv_rows(c, arg, run, split_by_kind, err);
}

static enum err_code absorb_mismatch(struct fault_call *c, const void *arg, struct run *run,
                                     struct err *err)
{
    const struct mla_core *op = arg;
    if (op->form != MLA_ABSORBED) return fault_next(c, op, run, err);
    return with_kv_rows(c, op, run, key_of_next_head, err);
}

static const double tries_mscale[] = {1, 0, NAN};
static const double tries_score[] = {0.0625, 0.25, 0.5, 2, 4, 16, NAN};

#define CORE .hosts = {"mla.core"}, .detector = "diff"

const struct fault_row fault_rows_mla[] = {
    {.id = "mla.no_mscale",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = no_mscale,
     .edit = "the softmax scale lacks YaRN's mscale squared",
     .source = "B025, B163"},
    {.id = "mla.mscale_once",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = mscale_once,
     .edit = "the softmax scale has mscale once, not squared",
     .source = "model math 11.25"},
    {.id = "mla.mscale_tenth",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = mscale_tenth,
     .edit = "mscale_all_dim counts a tenth: two meanings of one stored factor",
     .source = "B027"},
    {.id = "mla.scale_cache_width",
     CORE,
     .wrap = scale_cache_width,
     .keys = {KEY_LAYER,
              {.name = "mscale",
               .dflt = 1,
               .fit = FIT_TRY,
               .tries = tries_mscale,
               .about = "0: the mscale factor is missing as well"}},
     .edit = "the softmax scale comes from the width of a cache entry",
     .source = "B024"},
    {.id = "mla.score_scaled",
     CORE,
     .wrap = score_scaled,
     .keys = {KEY_LAYER,
              {.name = "factor",
               .dflt = 0.0625,
               .fit = FIT_TRY,
               .tries = tries_score,
               .about = "of the scores"}},
     .edit = "a scale of the key cache multiplies the scores though nothing was quantised",
     .source = "B030"},
    {.id = "mla.value_scaled",
     CORE,
     .wrap = value_scaled,
     .keys = {KEY_LAYER,
              {.name = "factor", .dflt = 2, .fit = FIT_LINEAR, .about = "of the values"}},
     .edit = "values are read with the keys' scale",
     .source = "B029"},
    {.id = "mla.no_q_norm",
     .hosts = {"mla.q"},
     .keys = {KEY_LAYER},
     .wrap = no_q_norm,
     .edit = "the query latent is not normed",
     .source = "our own",
     .detector = "diff"},
    {.id = "mla.no_kv_norm",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = no_kv_norm,
     .edit = "the latent is cached before its norm",
     .source = "model math 11.30",
     .detector = "diff"},
    {.id = "mla.kv_norm_twice",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = kv_norm_twice,
     .edit = "the latent is normed twice",
     .source = "model math 11.30",
     .detector = "diff"},
    {.id = "mla.kv_norm_too_wide",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = kv_norm_too_wide,
     .edit = "the latent's norm counts the rope key's columns too",
     .source = "model math 11.29",
     .detector = "diff"},
    {.id = "mla.latent_scaled",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER,
              {.name = "factor", .dflt = 2, .fit = FIT_LINEAR, .about = "of the latents"}},
     .wrap = latent_scaled,
     .edit = "latents are written with one scale and read with another",
     .source = "B029",
     .detector = "diff"},
    {.id = "mla.rope_key_saturates",
     .hosts = {"mla.kv"},
     .keys = {KEY_LAYER},
     .wrap = rope_key_saturates,
     .edit = "the rope key is cut off at the largest latent: one scale for both, from one",
     .source = "B032",
     .detector = "diff"},
    {.id = "mla.norm_eps",
     .hosts = {"mla.q", "mla.kv"},
     .wrap = norm_eps,
     .keys = {KEY_LAYER, KEY_EPS},
     .edit = "another eps in the latents' norms",
     .source = "model math 8.4",
     .detector = "diff"},
    {.id = "mla.value_heads_transposed",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = value_heads_transposed,
     .edit = "the values of a row are written as [V, heads]",
     .source = "B023"},
    {.id = "mla.kv_b_split_wrong",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = kv_b_split_wrong,
     .edit = "kv_b is read as all keys, then all values",
     .source = "model math 11.28"},
    {.id = "mla.rope_part_dropped",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = rope_part_dropped,
     .edit = "scores lack the rope part",
     .source = "our own"},
    {.id = "mla.absorb_mismatch",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = absorb_mismatch,
     .edit = "the absorbed form meets a query with the next head's keys",
     .source = "our own"},
    {0},
};
