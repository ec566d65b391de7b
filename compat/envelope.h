/* envelope.h: an error on its way from one process to another: the whole chain of core/error.h,
 * with who had it, where and when, as a byte string.
 *
 * Bytes, little-endian:
 *     head  magic "ASEV" u32 | version u16 | 0 u16 | bytes of the body u32 | CRC-32 of it u32
 *     body  i64 each: code, the error's own rank, rank, world, cause, pid, layer, batch, sample,
 *           time, clock, line, notes; then texts, each with its length u16 and without a NUL: host,
 *           op, samples, file, what, where, found, wanted, the notes
 *
 * An error that says nothing is a defect of its own: a text that is empty, or that only repeats the
 * sentence of its code, is refused here, at the boundary, with a message that says so. Test:
 * tests/test_envelope.c, tests/fuzz/fuzz_envelope.c */
#ifndef ASSAY_COMPAT_ENVELOPE_H
#define ASSAY_COMPAT_ENVELOPE_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    ENVELOPE_VERSION = 1,
    ENVELOPE_HEADER = 16,
    ENVELOPE_HOST = 64,
    ENVELOPE_OP = 48,
    ENVELOPE_SAMPLES = 96,
    ENVELOPE_FILE = 64,
    ENVELOPE_MOST = 4096 /* no envelope is longer */
};

struct envelope {
    struct err err; /* err.rank: whom the error blames; may differ from `rank` */
    int rank, world;
    int cause;                    /* the rank whose failure led to this one; -1: a first cause */
    int64_t pid;                  /* of the process that had the error */
    int64_t layer, batch, sample; /* -1: none */
    int64_t time_ns;              /* since 1970, for people */
    int64_t clock_ns;             /* of the host's monotonic clock, for the order of failures */
    int line;                     /* of `file`; 0: not known */
    char host[ENVELOPE_HOST];     /* "" only where it cannot be known */
    char op[ENVELOPE_OP]; /* what it was doing: "mla.core", "all_reduce_sum layers.3.attn" */
    char samples[ENVELOPE_SAMPLES]; /* "0-3": of the batch; "" for none */
    char file[ENVELOPE_FILE];       /* the call site: where the rank last said what it does */
};

/* An envelope about this process, now: host, pid and both clocks filled in, no place, no error. */
void envelope_now(struct envelope *e, int rank, int world);

/* The bytes of an envelope into out[ENVELOPE_MOST]; returns how many. Texts that do not fit their
 * field were cut when they were set. */
size_t envelope_encode(const struct envelope *e, unsigned char *out);

/* Reads bytes that another process sent; they may be anything. *e is whole or untouched. Errors
 * (ERR_PROCESS): no bytes, too few for a header, wrong magic, a version that is not ours, a length
 * that is not the one at hand or that no envelope has, a checksum that does not match, a field out
 * of its range, a text that is too long, no UTF-8, not one line, or empty; bytes after the last
 * text. */
enum err_code envelope_decode(struct envelope *e, const void *data, size_t size,
                              struct err *err) ERR_USED;

/* Sets err, which must be empty, to the error whole, and adds a note that says
 * "rank 2 of 4, host H, pid P, in mla.core, layer 3, batch 0 (samples 0-3), file:line, at TIME". */
enum err_code envelope_raise(const struct envelope *e, struct err *err);
/* That note's text into buf; returns buf. */
const char *envelope_place(const struct envelope *e, char *buf, size_t size);

#endif
