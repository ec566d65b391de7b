/* session.h: an engine on one batch of sequences: a loaded model, a run, a paged cache, steps.
 * Test: tests/test_session.c */
#ifndef ASSAY_HARNESS_SESSION_H
#define ASSAY_HARNESS_SESSION_H

#include "core/dump.h"
#include "core/engine.h"
#include "core/kernels.h"
#include "core/model.h"
#include "core/run.h"
#include "harness/load.h"
#include "harness/ranks.h"
#include "harness/resume.h"
#include "harness/tokens.h"
#include "harness/verb.h"

/* A checkpoint, opened and bound, and what runs it. */
struct loaded {
    struct weights weights;
    struct model model;
    struct engine engine;
    struct kernel_log *kernels; /* NULL, or what an engine that has kernels launched so far */
};

/* On the reference. */
enum err_code loaded_open(struct loaded *l, const char *model, struct err *err) ERR_USED;
enum err_code loaded_open_on(struct loaded *l, const char *model, const struct engine_kind *engine,
                             struct err *err) ERR_USED;
/* On o->engine, in one process or over ranks as o->ranks says. */
struct session_options;
enum err_code loaded_open_by(struct loaded *l, const char *model, const struct session_options *o,
                             struct err *err) ERR_USED;
void loaded_close(struct loaded *l);
/* The log for a report that outlives the model; the caller's (free()), or NULL. */
struct kernel_log *loaded_take_kernels(struct loaded *l);

/* How to run. */
struct session_options {
    const struct engine_kind *engine; /* for those who open the model by these options */
    struct profile profile;
    enum precision precision;
    enum linear_impl linear;
    int threads;
    int64_t block;              /* tokens of a cache block */
    int64_t chunk;              /* tokens of a sequence in one prefill step; 0: all */
    int64_t decode_last;        /* this many last tokens of each sequence go one a step */
    int64_t layer_end;          /* layers to run; -1: all, and the head */
    struct ranks_options ranks; /* for those who open the model by these options */
};

#define SESSION_THREADS_MAX 256

/* Defaults: the reference, math, f32, own, as many threads as this process may use, blocks of 64.
 */
struct session_options session_defaults(void);
/* Reads --on --profile --precision --linear --threads --block-size --prefill-chunk --decode-last,
 * and those of ranks.h. Refused: rounding that is asked of an engine which rounds in its own way.
 * Whether the engine can run here is engine_usable()'s to say. */
enum err_code session_options_read(const struct args *a, struct session_options *o,
                                   struct err *err) ERR_USED;
/* "f32", "f64"; of an engine that has no choice, "bf16". */
const char *session_precision_name(const struct session_options *o);
/* The rows of these options for a verb's table. */
#define SESSION_OPTION_ROWS                                                                        \
    {"--on", "ref|gpu", "the engine (default ref)", false},                                        \
        {"--profile", "NAME", "math, hf, hf4, vllm, sgl, gpu, or NAME+exact (default math; gpu)",  \
         false},                                                                                   \
        {"--precision", "f32|f64", "arithmetic of the reference (default f32)", false},            \
        {"--linear", "own|blas", "order of summation: fixed, or OpenBLAS's (default own)", false}, \
        {"--threads", "N", "threads; never changes a bit (default: all)", false},                  \
        {"--block-size", "N", "tokens of a cache block (default 64)", false},                      \
        {"--prefill-chunk", "N", "prefill in steps of N tokens a sequence", false},                \
    {                                                                                              \
        "--decode-last", "N", "the last N tokens of each sequence one a step", false               \
    }

/* Experts forced on the router, taken from a dump's layers.N.experts. Ids are sorted; rows or
 * layers that the dump lacks stay free. */
struct forced {
    int64_t layers, rows, top_k;
    int32_t *ids;  /* [layers][rows][top_k], -1: free */
    int64_t count; /* rows that are forced, over all layers */
};

enum err_code forced_make(struct forced *f, const struct config *c, int64_t batch_rows,
                          struct err *err) ERR_USED;
/* From a dump; batch_row[i] says which row of the batch dump row i is. Errors: another k, ids out
 * of range or twice. */
enum err_code forced_read(struct forced *f, const struct config *c, const struct dump *d,
                          const int64_t *batch_row, int64_t batch_rows, struct err *err) ERR_USED;
void forced_free(struct forced *f);
/* Fits struct step's `forced`. */
bool forced_give(void *ctx, int64_t layer, const struct rows *rows, int32_t *ids);

struct session {
    const struct loaded *loaded;
    struct session_options options;
    struct arena arena;
    struct run run;
    struct cache cache;
    struct load *load;     /* watches the reading of a real checkpoint; NULL: there is none */
    struct resume *resume; /* NULL, or where one whole prefill keeps its state */
    int64_t base_bytes;    /* anonymous memory when the session began */
};

/* Cache room for lengths_max[s] tokens of each sequence. */
enum err_code session_open(struct session *s, const struct loaded *l,
                           const struct session_options *o, int64_t sequences,
                           const int64_t *lengths_max, struct err *err) ERR_USED;
void session_close(struct session *s);
/* Layers that its steps run. */
int64_t session_layers(const struct session *s);

/* Runs the batch by the schedule of the options. Taps go to `sink`; `forced` may be NULL; `last`
 * (NULL or [sequences, V]) receives the logits of each sequence's last row. */
enum err_code session_forward(struct session *s, const struct tokens *t, struct tap_sink *sink,
                              struct forced *forced, double *last, struct err *err) ERR_USED;
/* One more token of each sequence (token[s]; -1: the sequence has ended) as a decode step; logits
 * [sequences, V]. */
enum err_code session_decode(struct session *s, const int64_t *token, double *logits,
                             struct err *err) ERR_USED;

/* Most anonymous and shared memory that the process, and its ranks, held during the session, in
 * bytes. */
int64_t session_peak_bytes(const struct session *s);
/* Anonymous and shared resident memory now. */
int64_t memory_anonymous(void);
double clock_seconds(void);

#endif
