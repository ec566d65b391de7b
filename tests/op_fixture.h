/* op_fixture.h: what the op tests share: the stored outputs of outside implementations
 * (fixtures/STEM/cases.json and cases.safetensors, see fixtures/make_ops.py), hash-random inputs,
 * and a run to give to an op.
 *
 * Everything lives in an arena that the caller frees; whatever cannot be had fails the test. */
#ifndef ASSAY_TESTS_OP_FIXTURE_H
#define ASSAY_TESTS_OP_FIXTURE_H

#include "core/config.h"
#include "core/run.h"
#include "core/weights.h"
#include "tests/assert_array.h"
#include "tests/support.h"

#include <jansson.h>

/* What case_is() was asked, and whether any case was so. */
struct fixture_asked {
    const char *key, *text;
    bool met;
};

enum { FIXTURE_ASKED = 16 };

struct fixture {
    struct st_file file;
    json_t *json;
    const json_t *cases;
    struct arena arena;
    struct fixture_asked asked[FIXTURE_ASKED];
};

struct fixture_case {
    struct fixture *fixture;
    const json_t *json;
    const char *name;
};

void fixture_open(struct fixture *f, const char *stem);
/* Fails the test where case_is() was asked for what no case is: a loop that passes over all cases
 * has compared nothing. */
void fixture_close(struct fixture *f);
int fixture_count(const struct fixture *f);
struct fixture_case fixture_at(struct fixture *f, int i);

/* `key` and `text` live as long as the fixture is open. */
bool case_is(const struct fixture_case *c, const char *key, const char *text);
int64_t case_int(const struct fixture_case *c, const char *key);
double case_real(const struct fixture_case *c, const char *key);
bool case_true(const struct fixture_case *c, const char *key);

/* Tensor "CASE.WHAT"; with converted elements in the fixture's arena. */
bool case_has(const struct fixture_case *c, const char *what);
const struct st_tensor *case_stored(const struct fixture_case *c, const char *what);
struct tensor case_tensor(const struct fixture_case *c, const char *what);
struct matrix case_matrix(const struct fixture_case *c, const char *what);
double *case_f64(const struct fixture_case *c, const char *what);
float *case_f32(const struct fixture_case *c, const char *what);
int32_t *case_i32(const struct fixture_case *c, const char *what);
int64_t *case_i64(const struct fixture_case *c, const char *what);

/* A tensor of these elements; `name` is what messages show. */
struct tensor tensor_of(const char *name, enum dtype dtype, int dims, const int64_t *shape,
                        const void *data);
/* A DENSE matrix of these elements. */
struct matrix matrix_of(const char *name, enum dtype dtype, int64_t out, int64_t in,
                        const void *data);

/* n doubles that are NaN until an op writes them. */
double *space(struct arena *a, int64_t n);
/* n values in [-scale, scale), exact in float32, a function of (seed, name). */
double *random_f64(struct arena *a, uint64_t seed, const char *name, int64_t n, double scale);
struct tensor random_vector(struct arena *a, uint64_t seed, const char *name, enum dtype t,
                            int64_t n, double scale);
struct matrix random_matrix(struct arena *a, uint64_t seed, const char *name, enum dtype t,
                            int64_t out, int64_t in, double scale);
/* A draw from [low, high]. */
int64_t random_int(uint64_t seed, const char *name, int64_t i, int64_t low, int64_t high);
/* All elements of a dense matrix as float64. */
double *matrix_values(struct arena *a, const struct matrix *m);

/* One thread, own summation, activations of bf16. */
struct run op_run(struct arena *a, const char *profile, enum precision precision);

/* At least `share` of the cells are equal as values; prints how many are and the first that is not.
 *
 * The bf16 cases ask for all of them. Where a profile has every rounding point of the module, the
 * two sides differ by the module's float32 sums alone, some 2^-24 against a bf16 step of 2^-8, so
 * that a result crosses a rounding border once in ten thousand cells; in the few thousand that are
 * stored none does. Of larger cases that were tried once (hidden 512, 16 experts, norms of 7168)
 * these shares were equal: norm, linear, latents 1, mlp, moe and attention 0.9996 or more, a query
 * behind q_a, norm and q_b 0.997. */
#define assert_share(got, want, rows, cols, share)                                                 \
    op_assert_share(got, want, rows, cols, share, __FILE__, __LINE__)
void op_assert_share(const double *got, const double *want, int64_t rows, int64_t cols,
                     double share, const char *file, int line);

/* |got - want| <= bound, cell by cell, each with its own bound. */
#define assert_within(got, want, bound, rows, cols)                                                \
    op_assert_within(got, want, bound, rows, cols, __FILE__, __LINE__)
void op_assert_within(const double *got, const double *want, const double *bound, int64_t rows,
                      int64_t cols, const char *file, int line);

/* An input was refused: ERR_INPUT with what, found, wanted, and `text` somewhere in the line.
 * Empties the error for the next one. */
#define assert_refused(code, err, text) op_assert_refused(code, err, text, __FILE__, __LINE__)
void op_assert_refused(enum err_code code, struct err *err, const char *text, const char *file,
                       int line);

#endif
