/* bench_work.cuh: what `assay bench --on gpu` times: operands of one case and the launch of one
 * set. Private to gpu/bench*.cu. */
#ifndef ASSAY_GPU_BENCH_WORK_CUH
#define ASSAY_GPU_BENCH_WORK_CUH

#include "core/bench.h"
#include "core/shard.h"
#include "gpu/context.cuh"

enum { BENCH_KEPT = 512 };

struct bench_size {
    int64_t T, in, out, heads, context;
    bool f32; /* of the output */
};

struct bench_work {
    struct gpu *g;
    const struct shard *shard; /* of what ranks run together: this one's groups; NULL: one card */
    struct bench_size size;
    int sets;
    int units;           /* what is timed are so many of a set's equal parts; 0: one */
    bool graph;          /* may be captured */
    bool kernels;        /* the times of its kernels are wanted too */
    double bytes, flops; /* of one set */
    double bus;          /* as in struct bench_row */
    enum err_code (*launch)(struct bench_work *w, int set, struct err *err);
    void *operands;                      /* of the case; malloc */
    void (*close)(struct bench_work *w); /* NULL, or what bench_close() calls first */
    void *kept[BENCH_KEPT];              /* device memory of this case */
    int keeps;
    int number; /* of the case, from 1: its launches may be counted; 0: never */
};

typedef enum err_code bench_open(struct bench_work *w, struct err *err);

struct bench_case {
    const char *op, *text;
    bench_open *open;
    struct bench_size size;
};

bench_open bench_norm, bench_rope, bench_linear, bench_mlp, bench_router, bench_decode,
    bench_attend, bench_prefill, bench_moe, bench_layer, bench_layer_prefill, bench_step;
/* Frees everything of a case; safe after a failed open. */
void bench_close(struct bench_work *w);

/* One case, timed; of several ranks with all of them at once. `shard`, `number`: as in struct
 * bench_work. */
enum err_code bench_measure(struct gpu *g, const struct bench_case *c, const struct shard *shard,
                            int number, struct bench_row *out, struct kernel_log *log,
                            struct err *err) ERR_USED;

/* A layer of Kimi-K2.5 that several ranks share, as one card runs it whole in the same cases of
 * `assay bench layer`: case i, or NULL past the last. */
const struct bench_case *bench_layer_case(int i);

enum err_code bench_ceilings_gpu(struct bench_ceilings *out, struct err *err);

/* ---- for bench_*.cu ---- */

/* Device memory until bench_close(), hash-random bf16 of root mean square `scale`. */
bf16 *bench_values(struct bench_work *w, int64_t n, double scale, struct err *err);
/* The same in memory that is there. */
enum err_code bench_fill(struct bench_work *w, bf16 *x, int64_t n, double scale,
                         struct err *err) ERR_USED;
/* Device memory, as it comes. */
void *bench_room(struct bench_work *w, int64_t bytes, struct err *err);
/* How many sets of this size exceed the second-level cache four times: 1 to most. */
int bench_sets(const struct bench_work *w, double bytes, int most);

#endif
