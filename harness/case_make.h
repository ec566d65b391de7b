/* case_make.h: the pieces that the files case_GROUP.c share: tables of words, hash-random buffers,
 * weights in every stored format, and the draws of the sweep. Internal to the cases. */
#ifndef ASSAY_HARNESS_CASE_MAKE_H
#define ASSAY_HARNESS_CASE_MAKE_H

#include "core/config.h"
#include "core/rope.h"
#include "core/weights.h"
#include "core/cache.h"
#include "harness/case.h"

/* The groups, joined by case.c. Each ends with a NULL name. */
extern const struct case_op case_ops_simple[], case_ops_mla[], case_ops_moe[], case_ops_eagle[],
    case_ops_verify[];

extern const char *const words_format[], *const words_dense[], *const words_float[];

/* Rows of schemas, and those that several use. */
/* clang-format off: one row, one line */
#define INT_ROW(key, min, max, dflt, help)                                                         \
    {                                                                                              \
        key, PARAM_INT, min, max, dflt, NULL, help, false                                          \
    }
#define REAL_ROW(key, min, max, dflt, help)                                                        \
    {                                                                                              \
        key, PARAM_REAL, min, max, dflt, NULL, help, false                                         \
    }
#define LIST_ROW(key, min, max, dflt, help)                                                        \
    {                                                                                              \
        key, PARAM_LIST, min, max, dflt, NULL, help, false                                         \
    }
#define WORD_ROW(key, dflt, words, help)                                                           \
    {                                                                                              \
        key, PARAM_WORD, 0, 0, dflt, words, help, false                                            \
    }
#define PARAM_T INT_ROW("T", 1, 1 << 20, "2", "tokens (rows)")
#define PARAM_H(dflt) INT_ROW("H", 1, 1 << 20, dflt, "hidden width")
#define PARAM_FORMAT WORD_ROW("format", "bf16", words_format, "stored format of the weights")
#define PARAM_GROUP                                                                                \
    INT_ROW("group", 0, 1 << 20, "32", "columns a scale (packed), 0: one a row; fp8: its block")
#define PARAM_ORDER                                                                                \
    INT_ROW("order", 0, 2, "0", "packed: 1: g_idx gives a column's group; 2: it holds a -1, unused")
#define PARAM_GAIN(help) REAL_ROW("gain", 0, 1e6, "1", help)
#define PARAM_END                                                                                  \
    {                                                                                              \
        NULL, PARAM_INT, 0, 0, NULL, NULL, NULL, false                                             \
    }
/* clang-format on */

/* What a case is made from: its seed and the arena that the buffers come from. */
struct make {
    const struct op_case *c;
    struct arena *arena;
    uint64_t seed;
    bool x_bf16;
    struct err *err;
};

struct make make_begin(const struct op_case *c, struct arena *a, struct err *err);

/* n zero bytes, or NULL with the error set. */
void *make_zeroed(struct make *m, int64_t n, size_t size, const char *what);
/* u(i) * scale of tensor `name`, rounded to bf16 or float32 as x= says. */
double *make_values(struct make *m, const char *name, int64_t n, double scale);
/* NaN: what an op does not write must show. */
double *make_output(struct make *m, struct case_data *d, const char *name, int64_t rows,
                    int64_t cols);
void *make_output_of(struct make *m, struct case_data *d, const char *name, enum dtype t,
                     int64_t rows, int64_t cols);

/* A float tensor by rule; shape [rows] where cols is 0, else [rows, cols]. */
struct tensor make_tensor(const struct make *m, const char *name, enum dtype t, int64_t rows,
                          int64_t cols, double scale, double offset);
/* A linear's weight in the format that the case asks for; its values have variance gain^2/in. */
enum err_code make_matrix(struct make *m, const char *name, int64_t out, int64_t in, double gain,
                          struct matrix *w);
/* The same in a given dense type. */
struct matrix make_dense(const struct make *m, const char *name, enum dtype t, int64_t out,
                         int64_t in, double gain);
/* Packed codes of `bits` bits with scales of type `scale`, zero points and g_idx on demand. */
enum err_code make_packed(struct make *m, const char *name, int64_t out, int64_t in, int bits,
                          int64_t group, enum dtype scale, bool zero, int64_t order,
                          struct matrix *w);

/* count[s] rows of each of n sequences, at the positions from context[s] on; token ids are 0. */
enum err_code make_rows(struct make *m, const int64_t *context, const int64_t *count, int n,
                        struct rows *out) ERR_USED;

enum dtype make_dtype(const char *word);

/* Row `row` of a matrix as values, decoded here (the bounds need magnitudes; nothing is compared
 * with it). */
void case_matrix_row(const struct matrix *w, int64_t row, double *out);
double case_tensor_value(const struct tensor *t, int64_t i);

/* The expert whose row expert e of a router case repeats (ties=); itself where it repeats none. */
int64_t case_router_twin(const struct op_case *c, int64_t e);

/* ---- draws ---- */

struct draw {
    uint64_t base;
    int64_t used;
};

int64_t draw_int(struct draw *d, int64_t min, int64_t max);
/* A size from 1 to max: 1, 2, 3, primes, powers of two and their neighbours, or anything. */
int64_t draw_size(struct draw *d, int64_t max);
/* One of a NULL-terminated list of texts. */
const char *draw_word(struct draw *d, const char *const *words);
/* True once in n. */
bool draw_one_in(struct draw *d, int64_t n);
/* format, group and order for a linear of `in` columns. */
void draw_format(struct op_case *c, struct draw *d, int64_t in);
/* A power of ten between 10^min and 10^max, as text of few digits. */
void draw_real(struct op_case *c, struct draw *d, const char *key, int min, int max);

#endif
