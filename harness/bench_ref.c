/* bench_ref.c: see bench_ref.h. All threads that the process may use; operands of a case are made
 * once and stay as warm as its size lets them. */
#include "harness/bench_ref.h"

#include "core/blas.h"
#include "core/ops.h"
#include "core/synth.h"
#include "harness/case.h"
#include "harness/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, READ_BYTES = 1 << 28, SQUARE = 1536 };

/* A case line, and the cost of one call: stored weights and cache read once, activations as the
 * reference keeps them (8 bytes). */
static const struct {
    const char *line;
    double bytes, flops;
} rows[] = {
    {"norm T=64,H=7168", 2.0 * 64 * 7168 * 8, 4.0 * 64 * 7168},
    {"linear T=1,in=7168,out=2048", 2.0 * 7168 * 2048, 2.0 * 7168 * 2048},
    {"linear T=64,in=7168,out=2048", 2.0 * 7168 * 2048, 2.0 * 64 * 7168 * 2048},
    {"linear T=1,in=7168,out=2048,format=int4", 0.5625 * 7168 * 2048, 2.0 * 7168 * 2048},
    {"router T=16,H=7168,E=384,k=8", 2.0 * 7168 * 384, 2.0 * 16 * 7168 * 384},
    {"mla.core heads=16,P=128,R=64,V=128,L=512,context=4095,rows=1,block=64,form=absorbed",
     8.0 * 4096 * 576 + 2.0 * 16 * 256 * 512, 2.0 * 16 * 4096 * (576 + 512)},
    {"mla.core heads=4,P=128,R=64,V=128,L=512,context=0,rows=512,block=64,form=expanded",
     8.0 * 512 * 576, 2.0 * 4 * 512 * (256 * 512 + 256.0 * 320)},
    {"moe T=1,H=7168,I=2048,E=8,k=8,format=int4", 8.0 * 3 * 0.5625 * 7168 * 2048,
     8.0 * 6 * 7168 * 2048},
    {"logits T=1,H=7168,V=8192", 2.0 * 7168 * 8192, 2.0 * 7168 * 8192},
};

enum { CASES = sizeof rows / sizeof rows[0] };

static const char *op_of(int i)
{
    struct op_case c;
    struct err ignored = ERR_INIT;
    if (i < 0 || i >= CASES) return NULL;
    return case_parse(&c, rows[i].line, &ignored) == ERR_OK ? c.op->name : "?";
}

static enum err_code time_case(const struct op_case *c, struct bench_row *out, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct case_data data;
    struct run run;
    double seconds[ROUNDS];
    op_function *function = op_side_find(ref_side(), c->op->name);
    enum err_code rc = case_make(c, &arena, &data, err);
    if (rc == ERR_OK) rc = case_run(c, &arena, &run, err);
    run.threads = session_defaults().threads;
    for (int i = -1; rc == ERR_OK && i < ROUNDS; i++) {
        double begun = clock_seconds();
        rc = function(data.op, &run, err);
        if (i >= 0) seconds[i] = clock_seconds() - begun;
    }
    arena_release(&arena, NULL);
    if (rc == ERR_OK) bench_median(seconds, ROUNDS, out);
    return rc;
}

static enum err_code measure(int i, struct bench_row *out, struct kernel_log *log, struct err *err)
{
    struct op_case c;
    (void)log;
    *out = (struct bench_row){.bytes = rows[i].bytes, .flops = rows[i].flops};
    snprintf(out->text, sizeof out->text, "%s", rows[i].line + strcspn(rows[i].line, " ") + 1);
    if (case_parse(&c, rows[i].line, err) != ERR_OK) return err->code;
    return time_case(&c, out, err);
}

/* ---- ceilings ---- */

struct block {
    uint64_t *from, *to;
    int64_t words, parts;
    uint64_t sum[SESSION_THREADS_MAX];
};

static void read_part(void *ctx, int64_t i, int worker)
{
    struct block *b = ctx;
    uint64_t sum = 0;
    for (int64_t k = i * b->words / b->parts; k < (i + 1) * b->words / b->parts; k++)
        sum += b->from[k];
    b->sum[worker] += sum;
}

static void copy_part(void *ctx, int64_t i, int worker)
{
    struct block *b = ctx;
    int64_t first = i * b->words / b->parts, end = (i + 1) * b->words / b->parts;
    (void)worker;
    memcpy(b->to + first, b->from + first, (size_t)(end - first) * sizeof *b->to);
}

static double fastest(const struct run *run, struct block *b,
                      void (*body)(void *ctx, int64_t i, int worker))
{
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double begun = clock_seconds();
        run_parallel(run, b->parts, body, b);
        double took = clock_seconds() - begun;
        if (i == 0 || took < best) best = took;
    }
    return best;
}

/* One thread's product, times the threads: what the reference could reach if it scaled. */
static enum err_code product_rate(int threads, struct bench_ceilings *out, struct err *err)
{
    const struct blas *blas;
    int64_t n = (int64_t)SQUARE * SQUARE;
    if (blas_open(&blas, err) != ERR_OK) return err->code;
    float *m = malloc((size_t)(3 * n) * sizeof *m);
    if (!m) return err_set(err, ERR_MEMORY, "measure a product||%lld bytes", (long long)(12 * n));
    for (int64_t i = 0; i < 3 * n; i++) m[i] = (float)synth_u(synth_base(1, "bench"), i);
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double begun = clock_seconds();
        blas->sgemm(BLAS_ROW_MAJOR, BLAS_PLAIN, BLAS_TRANSPOSED, SQUARE, SQUARE, SQUARE, 1, m,
                    SQUARE, m + n, SQUARE, 0, m + 2 * n, SQUARE);
        double took = clock_seconds() - begun;
        if (i == 0 || took < best) best = took;
    }
    free(m);
    out->matmul = 2.0 * SQUARE * SQUARE * SQUARE / best * threads;
    snprintf(out->matmul_what, sizeof out->matmul_what, "f32 %d^3, OpenBLAS, 1 thread x %d", SQUARE,
             threads);
    return ERR_OK;
}

static void host_name(char *out, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "host");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f) fclose(f);
}

static enum err_code ceilings(struct bench_ceilings *out, struct err *err)
{
    char name[120];
    struct run run = {.threads = session_defaults().threads};
    struct block b = {.words = READ_BYTES / 8, .parts = run.threads};
    b.from = malloc(READ_BYTES);
    b.to = malloc(READ_BYTES);
    enum err_code rc = ERR_OK;
    *out = (struct bench_ceilings){0};
    host_name(name, sizeof name);
    snprintf(out->device, sizeof out->device, "%s, %d threads", name, run.threads);
    if (!b.from || !b.to) {
        rc = err_set(err, ERR_MEMORY, "measure the host's memory||2 x %d bytes", READ_BYTES);
    } else {
        for (int64_t i = 0; i < b.words; i++) b.from[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
        memset(b.to, 1, READ_BYTES);
        out->read = READ_BYTES / fastest(&run, &b, read_part);
        out->copy = 2.0 * READ_BYTES / fastest(&run, &b, copy_part);
        rc = product_rate(run.threads, out, err);
    }
    free(b.from);
    free(b.to);
    return rc;
}

const struct bench_side *ref_bench(void)
{
    static const struct bench_side side = {"ref", ceilings, op_of, measure};
    return &side;
}
