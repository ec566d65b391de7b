/* linear.cu: which kernel makes a product, and op linear; see linear.cuh. Test: assay op linear
 * --sweep --on ref,gpu; each kernel: ci/gpu.sh --only tactics */
#include "gpu/linear.cuh"

#include "core/check.h"
#include "core/matrix.h"
#include "core/tactic.h"
#include "gpu/launch.cuh"
#include "gpu/ops.h"
#include "gpu/vector.cuh"

#include <math.h>

/* The largest power of two up to 16 that an address and a step in bytes divide by. */
static int64_t alignment(const void *data, int64_t step)
{
    int64_t a = 16;
    while (((uintptr_t)data | (uintptr_t)step) % (uintptr_t)a) a /= 2;
    return a;
}

static struct linear_size size_of(const struct gpu *g, int64_t T, const bf16 *x,
                                  const struct gpu_matrix *w)
{
    struct linear_size s = {};
    s.sms = g->sms;
    s.T = T;
    s.in = w->in;
    s.out = w->out;
    s.dense = w->format == MATRIX_DENSE && w->data.dtype == DT_BF16;
    s.aligned = vector_fits(w->data.data, w->in) && vector_fits(x, w->in);
    s.overlap = gpu_can_overlap(g);
    s.shared = (int64_t)g->shared_max;
    s.wgmma = linear_has_cluster(g);
    s.lt = true;
    return s;
}

const struct linear_variant *linear_few_variant(const struct gpu *g, int64_t T, const bf16 *x,
                                                const struct gpu_matrix *w, int64_t blocks)
{
    struct linear_size s = size_of(g, T, x, w);
    const char *why;
    s.blocks = blocks;
    const struct linear_variant *v = linear_choose(&s, tactic_forced("linear"), &why);
    return v && v->kernel == LINEAR_BY_FEW ? v : NULL;
}

static bool joins(const struct linear_variant *v)
{
    return v && (v->kernel == LINEAR_BY_FEW || v->kernel == LINEAR_BY_CLUSTER);
}

bool linear_joins(const struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w)
{
    struct linear_size s = size_of(g, T, x, w);
    const char *why;
    s.joint = true;
    return joins(linear_choose(&s, tactic_forced("linear"), &why));
}

/* Which of the two depends on nothing that differs between products that both serve. */
enum err_code linear_joined(struct gpu *g, int64_t T, const bf16 *x,
                            const struct gpu_product *products, int n, struct err *err)
{
    return linear_few_variant(g, T, x, products->w, 0) ? linear_few(g, T, x, products, n, err)
                                                       : linear_cluster(g, T, x, products, n, err);
}

/* NULL: the one that is forced cannot serve. */
static const struct linear_variant *variant_for(const struct linear_size *s, struct err *err)
{
    const char *why;
    const struct linear_variant *v = linear_choose(s, tactic_forced("linear"), &why);
    if (!v) (void)tactic_none("linear", why, err);
    return v;
}

enum err_code gpu_linear_lt(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                            void *y, enum dtype ytype, bool *done, struct err *err)
{
    struct lt_shape s = {};
    s.m = w->out;
    s.n = T;
    s.k = s.lda = s.ldb = w->in;
    s.ldc = w->out;
    s.batch = 1;
    s.align_a = alignment(w->data.data, w->in * (int64_t)sizeof(bf16));
    s.align_b = alignment(x, w->in * (int64_t)sizeof(bf16));
    s.align_c = alignment(y, w->out * dtype_size(ytype));
    s.transpose = 1;
    s.type = ytype;
    return linear_lt(g, &s, w->data.data, x, y, done, err);
}

enum err_code gpu_linear(struct gpu *g, int64_t T, const bf16 *x, const struct gpu_matrix *w,
                         void *y, enum dtype ytype, struct err *err)
{
    const struct gpu_product one = {w, NULL, y, ytype};
    struct linear_size s = size_of(g, T, x, w);
    if (T == 0) return ERR_OK;
    const struct linear_variant *v = variant_for(&s, err);
    if (!v) return err->code;
    if (joins(v)) return linear_joined(g, T, x, &one, 1, err);
    if (v->kernel == LINEAR_BY_LT) {
        if (gpu_linear_lt(g, T, x, w, y, ytype, &s.lt, err) != ERR_OK || s.lt) return err->code;
        v = variant_for(&s, err); /* without the library */
    }
    return v ? linear_any(g, T, x, w, y, ytype, err) : err->code;
}

enum err_code gpu_linear_same(struct gpu *g, int64_t T, const bf16 *x,
                              const struct gpu_product *products, int n, struct err *err)
{
    bool all = true;
    CHECK(n <= LINEAR_SAME);
    for (int i = 0; i < n; i++) all = all && linear_joins(g, T, x, products[i].w);
    if (T > 0 && all) return linear_joined(g, T, x, products, n, err);
    for (int i = 0; i < n && err->code == ERR_OK; i++) {
        CHECK(!products[i].up);
        (void)!gpu_linear(g, T, x, products[i].w, products[i].y, products[i].type, err);
    }
    return err->code;
}

static enum err_code batched_lt(struct gpu *g, const struct gpu_batched *b, bool *done,
                                struct err *err)
{
    const int64_t size = sizeof(bf16);
    struct lt_shape s = {};
    s.m = b->n;
    s.n = b->T;
    s.k = b->k;
    s.lda = b->ldw;
    s.ldb = b->ldx;
    s.ldc = b->ldy;
    s.batch = b->heads;
    s.step_a = b->w_step;
    s.step_b = b->x_step;
    s.step_c = b->y_step;
    s.align_a = alignment(b->w, (b->ldw | b->w_step) * size);
    s.align_b = alignment(b->x, (b->ldx | b->x_step) * size);
    s.align_c = alignment(b->y, (b->ldy | b->y_step) * size);
    s.transpose = b->transpose;
    s.type = DT_BF16;
    return linear_lt(g, &s, b->w, b->x, b->y, done, err);
}

enum err_code gpu_linear_batched(struct gpu *g, const struct gpu_batched *b, struct err *err)
{
    struct linear_size s = {};
    s.T = b->T;
    s.in = b->k;
    s.dense = s.heads = s.lt = true;
    if (b->T == 0 || b->heads == 0) return ERR_OK;
    const struct linear_variant *v = variant_for(&s, err);
    if (v && v->kernel == LINEAR_BY_LT) {
        if (batched_lt(g, b, &s.lt, err) != ERR_OK || s.lt) return err->code;
        v = variant_for(&s, err); /* without the library */
    }
    return v ? linear_any_batched(g, b, err) : err->code;
}

/* ---- adapters ---- */

static bool all_finite(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return false;
    }
    return true;
}

enum err_code gpu_linear_explain(const double *x, int64_t nx, const double *y, int64_t ny,
                                 const struct matrix *const *m, int count, struct err *err)
{
    if (all_finite(y, ny) || !all_finite(x, nx)) return ERR_OK;
    for (int i = 0; i < count && err->code == ERR_OK; i++) (void)!matrix_find_bad(m[i], err);
    return err->code;
}

enum err_code gpu_linear_run(const struct gpu_linear_op *op, struct run *run, struct err *err)
{
    struct profile own;
    if (profile_find("gpu", &own, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_enter(op->name, run, err);
    if (!g) return err->code;
    struct gpu_mark m = gpu_mark(g);
    struct gpu_matrix w;
    bool rounds = op->point != RP_NONE && own.rounds[op->point];
    enum dtype type = rounds ? DT_BF16 : DT_F32;
    bf16 *x = gpu_send_act(g, op->x, op->T, op->w->in, "linear input", err);
    void *y =
        x ? gpu_alloc(g, op->T * op->w->out, (size_t)dtype_size(type), "linear output", err) : NULL;
    if (y && gpu_matrix_send(g, op->w, false, &w, err) == ERR_OK &&
        gpu_linear(g, op->T, x, &w, y, type, err) == ERR_OK &&
        gpu_fetch_as(g, op->y, type, y, op->T * op->w->out, "linear output", err) == ERR_OK)
        (void)!gpu_linear_explain(op->x, op->T * op->w->in, op->y, op->T * op->w->out, &op->w, 1,
                                  err);
    return gpu_leave(g, m, err);
}

enum err_code linear_gpu(const struct linear *op, struct run *run, struct err *err)
{
    if (linear_check(op, err) != ERR_OK) return err->code;
    const struct gpu_linear_op linear = {"linear", op->T, op->x, op->w, op->y, op->point};
    return gpu_linear_run(&linear, run, err);
}
