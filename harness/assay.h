/* assay.h: the library for other C programs: write the taps of your engine to a dump, compare two
 * dumps.
 *
 *     #include <assay.h>
 *
 *     char line[ERR_LINE];
 *     struct err err = ERR_INIT;
 *     const struct assay_tap taps[] = {
 *         {.name = "layers.0.attn", .dtype = DT_BF16, .rows = 2, .cols = 7168, .data = attn},
 *     };
 *     if (assay_dump_write("mine.safetensors", taps, 1, "[1, 5]", "my engine 1.2", &err) != ERR_OK)
 *         puts(err_line(&err, line, sizeof line));
 *
 *     struct assay_verdict v;
 *     enum err_code rc = assay_compare("mine.safetensors", "truth.safetensors", 1e-3, &v, &err);
 *     if (rc == ERR_DIFF) printf("%s row %lld: %s\n", v.tap, (long long)v.row, v.why);
 *     else if (rc != ERR_OK) puts(err_line(&err, line, sizeof line));
 *
 * Names of taps: core/tap.h. Errors: core/error.h. Everything else under core/ may be used too and
 * may change before version 1. Test: tests/test_assay.c and ci/test_install.sh */
#ifndef ASSAY_H
#define ASSAY_H

#include "core/dtype.h"
#include "core/error.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One named tensor [rows, cols], row-major, a row a token. */
struct assay_tap {
    const char *name;
    enum dtype dtype;
    int64_t rows, cols;
    const void *data;
};

/* Writes a dump, all or nothing, with the taps' order as execution order. `tokens`: JSON array of
 * the token ids (what rows are aligned by), or NULL; `engine`: who you are, or NULL. Errors: a name
 * that is no UTF-8 or stands twice, sizes below 0, what writing a file can say. */
enum err_code assay_dump_write(const char *path, const struct assay_tap *taps, int64_t count,
                               const char *tokens, const char *engine, struct err *err) ERR_USED;

struct assay_verdict {
    int64_t compared, failed; /* taps */
    char tap[64], op[16];     /* the first that diverges, in execution order; "" where none does */
    int64_t layer, row, col;  /* -1: none */
    double rel_rms, bound;    /* of that tap */
    char why[160];
};

/* Compares two dumps as `assay diff SUBJECT TRUTH` does. bound: largest relative RMS of a tap (a
 * row may have four times that); NaN takes the derived bound. ERR_OK: everything compared holds.
 * ERR_DIFF: a difference, or nothing was compared. Else an error. */
enum err_code assay_compare(const char *subject, const char *truth, double bound,
                            struct assay_verdict *out, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
