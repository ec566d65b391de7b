/* error.h: the one error object that every function which can fail takes.
 *
 * Owned by the caller, of fixed size, never allocates. The first cause wins: once set, a later
 * err_set() is ignored. Context is added on the way up with err_note(). The text is never empty: a
 * missing part falls back to the sentence of the code.
 *
 * A message has four parts, written in one format string and separated by '|':
 *     err_set(err, ERR_INPUT, "tensor offsets|%s: %s|[0, %lld)|inside 0..%lld", path, name, e, n);
 * what, where, found, wanted; shown as
 *     assay: error: tensor offsets: m.safetensors: norm.weight: found [0, 9), wanted inside 0..8
 * Trailing parts may be left out. Test: tests/test_error.c */
#ifndef ASSAY_CORE_ERROR_H
#define ASSAY_CORE_ERROR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum err_code {
    ERR_OK = 0,
    ERR_DIFF,   /* a difference or a violation was found: exit 1 */
    ERR_USAGE,  /* the command line cannot be used: exit 2 */
    ERR_INPUT,  /* a file, model, token list or plan cannot be used: exit 2 */
    ERR_MEMORY, /* an allocation failed: exit 3 */
    ERR_IO,     /* a read, write, map, rename failed (disk full, no permission): exit 3 */
    ERR_DEVICE, /* no device, or a side that is not built in: exit 3 */
    ERR_FAULT,  /* a fault's outcome was not the expected one: exit 4 */
    /* A rank of a run died, hangs, or sent what nobody can read; a launcher or a rendezvous failed:
       exit 3 */
    ERR_PROCESS,
    ERR_COUNT
};

enum { ERR_PART = 224, ERR_NOTE = 128, ERR_NOTES = 8, ERR_LINE = 2048 };

struct err {
    enum err_code code;
    int rank;              /* -1 when the failure belongs to no rank */
    char what[ERR_PART];   /* doing what */
    char where[ERR_PART];  /* to which thing */
    char found[ERR_PART];  /* what was there */
    char wanted[ERR_PART]; /* what should have been */
    int notes;             /* context added on the way up, innermost first */
    char note[ERR_NOTES][ERR_NOTE];
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .code = ERR_OK, .rank = -1                                                                 \
    }

#if defined(__GNUC__)
#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ERR_USED __attribute__((warn_unused_result))
#else
#define ERR_PRINTF(f, a)
#define ERR_USED
#endif

/* Empties `e` for reuse. */
void err_clear(struct err *e);

/* Sets `e` unless it is set already; returns the code that `e` holds. `fmt`:
 * "what|where|found|wanted". */
enum err_code err_set(struct err *e, enum err_code code, const char *fmt, ...) ERR_PRINTF(3, 4);

/* As err_set, and appends the text of errno value `num` to the part found; an empty part wanted
 * is filled. */
enum err_code err_sys(struct err *e, int num, const char *fmt, ...) ERR_PRINTF(3, 4);

/* Adds context to a set error ("layer 3", "expert 17"); does nothing on an empty one. Returns
 * e->code. */
enum err_code err_note(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Writes the one line "WHAT: WHERE: found X, wanted Y (NOTE; NOTE)" into buf (at least ERR_LINE for
 * no cut); returns buf. */
const char *err_line(const struct err *e, char *buf, size_t size);

/* The sentence of a code; never empty. */
const char *err_sentence(enum err_code code);

/* The exit status of a code (cli table: 0 pass, 1 difference, 2 input, 3 environment, 4 fault). */
int err_exit(enum err_code code);

#ifdef __cplusplus
}
#endif
#endif
