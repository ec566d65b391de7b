/* resume.h: a forward pass that survives a kill, layer by layer.
 *
 * Beside the dump OUT lie OUT.partial, the taps so far, and OUT.state, a safetensors file of the
 * residual stream after the last whole layer. After each layer the taps are synced, then the state
 * is replaced. A run that finds both goes on where they end, and gives the same bits: a layer reads
 * nothing else. Both are removed when the dump is committed. Only for one whole prefill.
 * Test: tests/test_resume.c */
#ifndef ASSAY_HARNESS_RESUME_H
#define ASSAY_HARNESS_RESUME_H

#include "core/dump.h"
#include "core/error.h"

#include <stdint.h>

struct resume {
    char partial[FILE_PATH], state[FILE_PATH];
    const char *request; /* what else decides the bits; compared with the state's */
    struct dump_out *out;
    int64_t rows, hidden;
    int64_t next;        /* first layer to run; 0: from the start */
    struct st_file file; /* the state that was found */
    const double *x, *sum;
};

/* Names of the two files of dump `path`. */
enum err_code resume_name(struct resume *r, const char *path, struct err *err) ERR_USED;
/* Reads the state, if there is one, for a batch of `rows` rows. A state of another request or shape
 * is an error; one without its OUT.partial (`resumed` false) is not looked at. */
enum err_code resume_read(struct resume *r, struct dump_out *out, bool resumed, const char *request,
                          int64_t rows, int64_t hidden, struct err *err) ERR_USED;
/* Fits struct step's after_layer; ctx is the struct resume. */
enum err_code resume_after_layer(void *ctx, int64_t layer, const double *x, const double *sum,
                                 struct err *err) ERR_USED;
/* Removes the state; after the commit. */
void resume_done(struct resume *r);
void resume_close(struct resume *r);

#endif
