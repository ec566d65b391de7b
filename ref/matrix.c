/* matrix.c: see matrix.h. */
#include "ref/matrix.h"

#include "core/check.h"
#include "core/blas.h"
#include "core/matrix.h"
#include "ref/fp8.h"
#include "ref/int4.h"
#include "ref/kernel.h"

#include <math.h>
#include <string.h>

enum { PANEL_BYTES = 384 * 1024 }; /* of float32 weights: stays in a second-level cache */

int64_t matrix_pad(int64_t K)
{
    return (K + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
}

int64_t matrix_scratch(const struct matrix *m, int64_t n)
{
    if (m->format == MATRIX_PACKED) return int4_scratch(m, n);
    return n * m->in * 8 + m->scale.shape[1] * 8;
}

static void dense_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out,
                       int64_t ld)
{
    const struct kernel *k = kernel_best();
    for (int64_t r = 0; r < n; r++) {
        const void *x = tensor_elements(&m->data, (row + r) * m->in, m->in, scratch);
        if (m->data.dtype == DT_BF16)
            k->bf16_to_f32(m->in, x, out + r * ld);
        else
            dtype_to_f32(m->data.dtype, x, m->in, out + r * ld);
    }
}

void matrix_rows(const struct matrix *m, int64_t row, int64_t n, void *scratch, float *out,
                 int8_t *q)
{
    CHECK(row >= 0 && n >= 0 && row + n <= m->out);
    int64_t ld = matrix_pad(m->in);
    switch (m->format) {
    case MATRIX_DENSE:
        dense_rows(m, row, n, scratch, out, ld);
        break;
    case MATRIX_PACKED:
        int4_rows(m, row, n, scratch, out, ld, q);
        break;
    case MATRIX_FP8_BLOCK:
        fp8_rows(m, row, n, scratch, out, ld);
        break;
    }
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = m->in; c < ld; c++) out[r * ld + c] = 0;
    }
}

int64_t matrix_packed_bytes(const struct run *run, int64_t T, int64_t K)
{
    return T * matrix_pad(K) *
           (int64_t)(run->precision == PRECISION_F32 ? sizeof(float) : sizeof(double));
}

void matrix_pack(const struct run *run, int64_t T, int64_t K, const double *x, void *out)
{
    int64_t ld = matrix_pad(K);
    for (int64_t t = 0; t < T; t++) {
        if (run->precision == PRECISION_F32) {
            float *y = (float *)out + t * ld;
            for (int64_t k = 0; k < K; k++) y[k] = (float)x[t * K + k];
            for (int64_t k = K; k < ld; k++) y[k] = 0;
        } else {
            double *y = (double *)out + t * ld;
            memcpy(y, x + t * K, (size_t)K * sizeof *y);
            for (int64_t k = K; k < ld; k++) y[k] = 0;
        }
    }
}

static int64_t panel_rows(const struct matrix *m)
{
    int64_t rows = PANEL_BYTES / (matrix_pad(m->in) * (int64_t)sizeof(float)) / 4 * 4;
    return rows < 8 ? 8 : rows > 64 ? 64 : rows;
}

struct panel *matrix_panels(const struct run *run, int count, const struct matrix *const *m, int n,
                            struct err *err)
{
    int64_t rows = 8, width = 1, scratch = 1;
    bool wide = run->linear == LINEAR_BLAS && run->precision == PRECISION_F64;
    for (int i = 0; i < n; i++) {
        if (panel_rows(m[i]) > rows) rows = panel_rows(m[i]);
        if (matrix_pad(m[i]->in) > width) width = matrix_pad(m[i]->in);
    }
    for (int i = 0; i < n; i++) {
        if (matrix_scratch(m[i], rows) > scratch) scratch = matrix_scratch(m[i], rows);
    }
    const struct blas *blas = NULL;
    if (run->linear == LINEAR_BLAS && blas_open(&blas, err) != ERR_OK) return NULL;
    struct panel *p = arena_alloc(run->arena, count, sizeof *p, "weight panels", err);
    for (int i = 0; p && i < count; i++) {
        p[i] = (struct panel){.rows = rows, .blas = blas};
        p[i].w = arena_alloc(run->arena, rows * width, sizeof(float), "weight panel", err);
        p[i].scratch = arena_alloc(run->arena, scratch, 1, "stored weights", err);
        if (wide)
            p[i].wide =
                arena_alloc(run->arena, rows * width, sizeof(double), "wide weight panel", err);
        if (err->code != ERR_OK) return NULL;
    }
    return p;
}

/* OpenBLAS on one thread a panel: the panels are what runs in parallel. Its result is float32 or
 * float64. */
static void blas_product(const struct run *run, int64_t T, int64_t n, int64_t K, const void *x,
                         struct panel *p, double *y, int64_t ldy)
{
    const struct blas *blas = p->blas;
    if (run->precision == PRECISION_F64) {
        for (int64_t i = 0; i < n * K; i++) p->wide[i] = (double)p->w[i];
        blas->dgemm(BLAS_ROW_MAJOR, BLAS_PLAIN, BLAS_TRANSPOSED, (int)T, (int)n, (int)K, 1, x,
                    (int)K, p->wide, (int)K, 0, y, (int)ldy);
        return;
    }
    enum { ROWS = 64 };
    float out[ROWS * 64];
    CHECK(n <= 64);
    for (int64_t t = 0; t < T; t += ROWS) {
        int64_t m = T - t < ROWS ? T - t : ROWS;
        blas->sgemm(BLAS_ROW_MAJOR, BLAS_PLAIN, BLAS_TRANSPOSED, (int)m, (int)n, (int)K, 1,
                    (const float *)x + t * K, (int)K, p->w, (int)K, 0, out, (int)n);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) y[(t + i) * ldy + j] = (double)out[i * n + j];
        }
    }
}

void matrix_product(const struct run *run, const struct matrix *m, int64_t row, int64_t n,
                    int64_t T, const void *x, struct panel *p, double *y, int64_t ldy)
{
    CHECK(n <= p->rows);
    int64_t K = matrix_pad(m->in);
    const struct kernel *k = kernel_best();
    matrix_rows(m, row, n, p->scratch, p->w, NULL);
    if (run->linear == LINEAR_BLAS)
        blas_product(run, T, n, K, x, p, y, ldy);
    else if (run->precision == PRECISION_F32)
        k->product_f32(T, n, K, x, p->w, y, ldy);
    else
        k->product_f64(T, n, K, x, p->w, y, ldy);
}

struct multiply {
    const struct run *run;
    const struct matrix *m;
    int64_t T;
    const void *x;
    struct panel *panels;
    double *y;
};

static void multiply_panel(void *ctx, int64_t i, int worker)
{
    const struct multiply *job = ctx;
    struct panel *p = &job->panels[worker];
    int64_t row = i * p->rows, n = job->m->out - row < p->rows ? job->m->out - row : p->rows;
    matrix_product(job->run, job->m, row, n, job->T, job->x, p, job->y + row, job->m->out);
}

static bool all_finite(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return false;
    }
    return true;
}

/* A result that is not finite from finite inputs is an overflow, which is a value, or a stored NaN,
 * which is an unusable file. */
static enum err_code explain_special(const struct run *run, const struct matrix *m, int64_t T,
                                     const void *x, struct err *err)
{
    int64_t n = T * matrix_pad(m->in);
    for (int64_t i = 0; i < n; i++) {
        double v = run->precision == PRECISION_F32 ? (double)((const float *)x)[i]
                                                   : ((const double *)x)[i];
        if (!isfinite(v)) return ERR_OK;
    }
    return matrix_find_bad(m, err);
}

enum err_code matrix_multiply(struct run *run, const struct matrix *m, int64_t T, const void *x,
                              double *y, enum round_point point, struct err *err)
{
    struct arena_block *mark = arena_mark(run->arena);
    struct multiply job = {.run = run, .m = m, .T = T, .x = x, .y = y};
    int workers = (double)T * (double)m->out * (double)m->in < 2e5 ? 1 : run->threads;
    job.panels = matrix_panels(run, workers, &m, 1, err);
    if (job.panels && T > 0) {
        struct run limited = *run;
        limited.threads = workers;
        run_parallel(&limited, (m->out + job.panels->rows - 1) / job.panels->rows, multiply_panel,
                     &job);
        if (!all_finite(y, T * m->out)) (void)!explain_special(run, m, T, x, err);
        run_round(run, point, y, T * m->out);
    }
    arena_release(run->arena, mark);
    return err->code;
}
