/* fault_edits.h: what the families of faults share; private to core/fault*.c. A family is a file
 * fault_NAME.c with its edits and, at its end, its rows; fault_table.c joins them. */
#ifndef ASSAY_CORE_FAULT_EDITS_H
#define ASSAY_CORE_FAULT_EDITS_H

#include "core/fault.h"
#include "core/mla.h"

/* Each ends with a NULL id. */
extern const struct fault_row fault_rows_int4[], fault_rows_rope[], fault_rows_mla[],
    fault_rows_mla_cache[], fault_rows_mla_merge[], fault_rows_router[], fault_rows_moe[],
    fault_rows_norm[], fault_rows_logits[], fault_rows_tp[], fault_rows_eagle[],
    fault_rows_eagle_verify[], fault_rows_any[], fault_rows_file[], fault_rows_env[],
    fault_rows_proc[];

/* ---- keys that several rows have ---- */

#define KEY_SITE(key, text)                                                                        \
    {                                                                                              \
        .name = key, .whole = true, .dflt = -1, .fit = FIT_SITE, .about = text                     \
    }
#define KEY_LAYER KEY_SITE("layer", "layer")
#define KEY_STEP KEY_SITE("draft_step", "step of the draft head; every one")
#define KEY_EXPERT KEY_SITE("expert", "one expert of those chosen; all of them where not given")
#define KEY_TRY(key, d, list, text)                                                                \
    {                                                                                              \
        .name = key, .whole = true, .dflt = d, .fit = FIT_TRY, .tries = list, .about = text        \
    }
/* For edits that go through fault_with_matrices(). It stands last: a diagnosis tries all of an op's
 * matrices first, and no single one where that changes nothing. */
#define KEY_MATRIX                                                                                 \
    {                                                                                              \
        .name = "matrix", .whole = true, .dflt = -1, .fit = FIT_WORD, .words = fault_matrix_words, \
        .about = "gate, up, down, gate_up, q_a or q_b alone"                                       \
    }
#define KEY_RANKS(d) KEY_TRY("ranks", d, fault_tries_ranks, "ranks that the work is cut over")
#define KEY_EPS                                                                                    \
    {                                                                                              \
        .name = "eps", .dflt = -1, .fit = FIT_TRY, .tries = fault_tries_eps,                       \
        .about = "eps; where it is not given: 1e-5 where the op has 1e-6, else 1e-6"               \
    }

extern const double fault_tries_ranks[]; /* 2, 4, 8, 16 */
extern const double fault_tries_eps[];   /* 1e-5, 1e-6 */
extern const char *const fault_matrix_words[];
/* What KEY_EPS means where the op has `eps`. */
double fault_eps(const struct fault_use *u, double eps);

/* ---- sites ---- */

/* A number that depends on the fault, the place and i alone: where no site is given. */
uint64_t fault_hash(const struct fault_call *c, int64_t i);
/* The op's own row that key `row` means, -1: it has no such row here. Not given: by hash, of T. */
int64_t fault_row_of(const struct fault_call *c, int64_t T);

/* The first of n things that rank r of `ranks` holds; one past its last: that of rank r + 1. */
static inline int64_t rank_begin(int64_t n, int64_t r, int64_t ranks)
{
    return n * r / ranks;
}

/* ---- outputs ---- */

/* Outputs as bytes, ids and codes too, as the op without its faults makes them. In the run's arena;
 * the op's own buffers are left as they were. */
struct fault_bits {
    int count;
    struct {
        void *data, *clean;
        size_t bytes;
    } part[3];
};
enum err_code fault_bits_clean(struct fault_bits *b, struct fault_call *c, const void *arg,
                               struct run *run, struct err *err) ERR_USED;
bool fault_bits_differ(const struct fault_bits *b);

/* A copy of n doubles in the run's arena, or NULL. */
double *fault_copy(struct run *run, const double *x, int64_t n, struct err *err);

/* ---- what rows of the attention see ---- */

struct fault_view {
    struct rows rows;
    int64_t *span, *extra; /* those of `rows`, to be written to */
};

/* A copy of the rows with `most` extras a row, in the run's arena. */
enum err_code fault_view_make(struct fault_view *v, const struct rows *from, int64_t most,
                              struct run *run, struct err *err) ERR_USED;
/* Most slots that a row sees. */
int64_t fault_longest(const struct rows *rows);
/* Whether row i still sees a slot that it saw. */
typedef bool fault_sees(const struct fault_call *c, const struct mla_core *op, int64_t i,
                        int64_t slot);
/* Leaves out of the op's view what `sees` refuses; a row that would see nothing keeps its view. */
void fault_thin_out(const struct fault_call *c, const struct mla_core *op, struct fault_view *v,
                    fault_sees *sees);
/* First slot of the rows that this step computes of row i's sequence. */
int64_t fault_step_begins(const struct rows *rows, int64_t i);

/* ---- matrices ---- */

/* Which of an op's matrices: in the order of its struct. Of moe, mlp: gate, up, down. */
enum fault_part { PART_FIRST, PART_SECOND, PART_DOWN };

/* Where an edited matrix comes from and what it may use. */
struct fault_stored {
    struct fault_call *call;
    struct run *run;
    struct arena *arena; /* lives until the op has ended, or the next expert is asked for */
    enum fault_part part;
    const struct moe *moe; /* NULL: no expert's matrix */
    int64_t expert;
    const void *ctx;
};

/* Edits *m, a copy of the struct whose tensors still lead to what is stored. */
typedef enum err_code fault_matrix_edit(const struct fault_stored *s, struct matrix *m,
                                        struct err *err);

/* Runs the op with every matrix edited; key `expert`, where the fault has it, narrows op moe to
 * that expert and leaves other ops out, and key `matrix` to the matrices of that name. One expert's
 * copies live at a time: a side that asks for several at once must not be given faults. */
enum err_code fault_with_matrices(struct fault_call *c, const void *arg, struct run *run,
                                  fault_matrix_edit *edit, const void *ctx,
                                  struct err *err) ERR_USED;

/* Elements of a tensor in memory of our own, to be written to; the tensor leads there from now on.
 * NULL: no memory. */
void *fault_own(struct arena *arena, struct tensor *t, struct err *err);
/* The matrix as a dense one of the same values, row i that of row map[i], or zeros where map[i] is
 * -1. */
enum err_code fault_matrix_rows(const struct fault_stored *s, struct matrix *m, const int64_t *map,
                                struct err *err) ERR_USED;

/* ---- edits that two families use ---- */

/* y = x W^T of the same side, rounded as a linear. */
enum err_code fault_linear(struct fault_call *c, int64_t T, const double *x, const struct matrix *w,
                           double *y, struct run *run, struct err *err) ERR_USED;

#endif
