/* dump.h: a file of taps. Safetensors with __metadata__:
 *
 *   assay.version, assay.engine, assay.engine_version, assay.profile, assay.precision, assay.model
 *   assay.config_sha256, assay.checkpoint: what it was computed from (checkpoint.h)
 *   assay.tokens     JSON array, the concatenated batch
 *   assay.lengths    JSON array, a sequence each
 *   assay.positions  JSON array, a row each
 *   assay.rows       JSON array: dump row -> row of the batch, where not all are kept
 *   assay.order      JSON array of tap names, execution order
 *   assay.draft, assay.draft_config_sha256, assay.draft_checkpoint, assay.aux (JSON array of entry
 *                    ids): the draft head, where there is one
 *
 * Taps of a draft head have no row for the last token of a sequence: their rows are those of the
 * others that have a token behind them.
 *
 * Dumps of others: `tokens` for assay.tokens, `rows` = "last N", `engine`; without an order, that
 * of tap.h. Test: tests/test_dump.c */
#ifndef ASSAY_CORE_DUMP_H
#define ASSAY_CORE_DUMP_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "core/tap.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */

struct dump_out {
    struct file_out file;
    struct st_entry *entries;
    int64_t count;
    int64_t header_bytes;
    int64_t batch_rows; /* rows of the whole batch */
    int64_t *keep;      /* [batch_rows]: row of the file, or -1 */
    int64_t kept;
    int64_t *draft_keep; /* the same for draft taps */
    int64_t draft_kept;
    int64_t *written; /* [count]: rows that each tap was given */
    enum dtype reals; /* DT_F32 or DT_F64; DT_BF16: tap_dtype() of it */
    unsigned char *row_buffer;
    int64_t special;         /* cells of kept rows that are NaN or infinite in the file */
    const char *special_tap; /* the first of them */
    int64_t special_row, special_col;
    struct tap_sink sink; /* give this to the forward pass */
};

/* Plans the file: these taps, of these rows (keep_first .. keep_end of the batch). The target's
 * name is written when dump_commit() succeeds, never before; it fails when a planned tap was not
 * given all its rows, which would read back as zeros. `reals`: the type of real taps, DT_F32 or
 * DT_F64; DT_BF16 stands for the types of an engine that computes in it (tap_dtype()). The names of
 * `taps` are borrowed, and `d` must not move. Where sequences end, for draft taps, is what
 * assay.lengths of `meta` says; without it there is one. A target that cannot seek is refused
 * unless it is a plain device. */
enum err_code dump_create(struct dump_out *d, const char *path, const struct tap *taps,
                          int64_t count, int64_t batch_rows, int64_t keep_first, int64_t keep_end,
                          enum dtype reals, const struct st_meta *meta, int64_t metas,
                          struct err *err) ERR_USED;
/* The same, in a file `kept` that survives a kill. *resumed: such a file of the same plan was
 * there; taps that it holds already are told with dump_assume(). One of another plan is an error.
 */
enum err_code dump_create_kept(struct dump_out *d, const char *path, const char *kept,
                               const struct tap *taps, int64_t count, int64_t batch_rows,
                               int64_t keep_first, int64_t keep_end, enum dtype reals,
                               const struct st_meta *meta, int64_t metas, bool *resumed,
                               struct err *err) ERR_USED;
/* The taps of layers below `layer`, and embed, are in the file already. */
void dump_assume(struct dump_out *d, int64_t layer);
enum err_code dump_commit(struct dump_out *d, struct err *err) ERR_USED;
/* Also after a commit; removes what was not committed. */
void dump_abandon(struct dump_out *d);

/* ---- reading ---- */

struct dump_tap {
    const char *name;
    const struct st_tensor *tensor;
    int64_t rows, cols;
    bool known; /* a tap of tap.h */
    enum tap_kind kind;
    int64_t layer;
    int64_t order; /* ascending in execution order */
};

struct dump {
    struct st_file file;
    struct dump_tap *taps; /* in execution order */
    const struct dump_tap **by_name;
    int64_t count;
    int64_t rows;    /* of its taps but draft taps; -1 where they disagree */
    int64_t *tokens; /* of the whole batch, or NULL */
    int64_t token_count;
    int64_t *lengths; /* sequences; NULL: one */
    int64_t sequences;
    int64_t *batch_row; /* [rows]: row of the batch that dump row i is, or NULL: unknown */
    int64_t draft_rows; /* of its draft taps; -1 where they disagree */
    /* All rows that such taps of the batch have, 0: unknown; which of them draft row i is, or NULL:
     * unknown. */
    int64_t draft_total, *draft_row;
    /* "" where the file does not say. */
    const char *engine, *profile, *config_sha256, *checkpoint;
    char **promised; /* assay.order, or NULL */
    int64_t promised_count;
};

/* Refused: what st_open() refuses, taps that are no matrices (a vector [T] counts as [T, 1]),
 * broken metadata. */
enum err_code dump_open(struct dump *d, const char *path, struct err *err) ERR_USED;
void dump_close(struct dump *d);
/* draft[r], of `rows` batch rows in sequences of these lengths (NULL: one of all): which row of a
 * draft tap stands for batch row r; -1: none, it ends its sequence. Returns how many there are. */
int64_t dump_draft_rows(int64_t rows, const int64_t *lengths, int64_t sequences, int64_t *draft);
const struct dump_tap *dump_find(const struct dump *d, const char *name);

#ifdef __cplusplus
}
#endif
#endif
