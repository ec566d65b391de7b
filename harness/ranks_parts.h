/* ranks_parts.h: what the parent and the ranks of an engine say to each other; private to ranks*.c:
 *   ranks.c        the engine: opening, caches, closing, reports
 *   ranks_step.c   the parent's side of a step
 *   ranks_draft.c  ... of a draft step
 *   ranks_rank.c   a rank: opening, what it keeps, the tasks
 *   ranks_run.c    ... its steps
 *   ranks_pack.c   bytes
 * Both sides are the same program, which rendezvous.h sees to between hosts, so structs travel as
 * they are. Rank 0 is always on its parent's host, so what it hands over lies in shared memory. */
#ifndef ASSAY_HARNESS_RANKS_PARTS_H
#define ASSAY_HARNESS_RANKS_PARTS_H

#include "core/fault_shard.h"
#include "core/kernels.h"
#include "harness/load.h"
#include "harness/ranks.h"
#include "harness/workers.h"

/* ---- bytes: values one after the other, each at a multiple of 8 ---- */

struct pack {
    unsigned char *data; /* free() */
    int64_t bytes, room;
    bool failed; /* no memory */
};

void pack_begin(struct pack *p);
void pack_add(struct pack *p, const void *data, int64_t bytes);
/* NULL is kept apart from "". */
void pack_text(struct pack *p, const char *text);

struct unpack {
    const unsigned char *data;
    int64_t bytes, at;
    bool failed; /* the bytes end too early */
};

/* The next `bytes`, in place: for whole numbers and reals `data` must lie at a multiple of 8. NULL
 * past the end. */
const void *unpack_take(struct unpack *u, int64_t bytes);
/* The same as a copy, wherever `data` lies; false past the end. */
bool unpack_copy(struct unpack *u, void *out, int64_t bytes);
const char *unpack_text(struct unpack *u);

/* ---- task "shard.open": this, the model, the process's shard fault ---- */

struct ranks_open_head {
    struct shard_plan plan;
    bool gpu; /* else the reference */
    int64_t piece;
};

/* ---- tasks "shard.step", "shard.draft" ---- */

enum { RANKS_PROFILE = 16, RANKS_MOVE = 3 /* sequence, from, to */ };

/* What both begin with. After it: the numbers of caches to forget [drops], the table, the lengths,
 * moves [moves][RANKS_MOVE], then the rows' arrays, those that are there, in the order of struct
 * rows. */
struct ranks_head {
    int64_t cache; /* its number; a rank that has none makes it */
    int64_t layers, sequences, block, blocks, blocks_max, width;
    int64_t drops, moves, rows, extra_max;
    bool has_slot, has_span, has_extra;
    bool progress, kernels; /* somebody wants them */
    enum precision precision;
    enum linear_impl linear;
    enum dtype act;
    int threads;
    char profile[RANKS_PROFILE];
};

/* Behind it: wanted [taps of the model], a byte each; then `forced` times a layer i64 and its ids
 * [rows, top_k]. */
struct ranks_step_head {
    int64_t layer_end, taps, forced;
    bool decode, logits; /* logits: wanted, and not as a tap */
};

/* Behind it: the head's path. Segment 0 of the request: aux, or hidden. Replied as segments, those
 * that are wanted, in this order: fused, out, feed, logits. */
struct ranks_draft_head {
    int64_t number;
    bool aux, fused, out, feed, logits;
};

/* A piece: rows [first, first + count) of a tap, their cells in the segment; or how far it is. */
enum ranks_piece_kind { PIECE_REALS, PIECE_INTS, PIECE_LOGITS, PIECE_PROGRESS };
struct ranks_piece {
    enum ranks_piece_kind kind;
    int64_t tap, first, count, cols;
    bool loading; /* the stage is ENGINE_LOADING, else "layer" */
    int64_t done, total;
};

/* A reply: this, then kernel rows. */
struct ranks_reply {
    int64_t peak_bytes, kernels, lost;
    int64_t edits; /* of the shard fault, by this rank, so far */
};

/* ---- the parent ---- */

struct ranks {
    struct engine_kind kind;
    struct ranks_options o;
    const struct model *model;
    struct workers *workers;
    struct worker_replies replies;
    char *device;     /* NULL: none */
    struct tap *taps; /* of the whole model */
    int64_t tap_count;
    unsigned char *wanted; /* [tap_count] */
    int64_t caches;        /* numbers given out */
    int64_t *drop;         /* [drops] caches closed since the last step */
    int64_t drops, drop_room;
    struct pack pack;
    struct segment inputs; /* of a draft step */
    int64_t batch;
    char samples[WORKER_SAMPLES];
    int64_t peak_bytes, edits;
    json_t *failures;
};

/* What a cache of this engine keeps in cache->own: moves that the ranks have not made yet. */
struct ranks_cache {
    int64_t number;
    int64_t *move; /* [moves][RANKS_MOVE] */
    int64_t moves, room;
};

/* Begins r->pack with what every step says. */
void ranks_pack_head(struct ranks *r, const struct cache *c, const struct rows *rows,
                     const struct run *run);
/* The call itself: all ranks, or rank 0 alone. On success the cache's moves are made, kernels and
 * peaks are taken over; on an error the failures are kept and printed. */
enum err_code ranks_call(struct ranks *r, bool all, struct worker_request *q, struct cache *c,
                         struct run *run, struct err *err) ERR_USED;
enum err_code ranks_step(void *self, const struct step *s, struct run *run,
                         struct err *err) ERR_USED;
enum err_code ranks_draft(void *self, const struct draft_step *s, struct run *run,
                          struct err *err) ERR_USED;

/* ---- a rank ---- */

struct rank_cache {
    int64_t number;
    struct arena arena;
    struct cache cache;
    struct rank_cache *next;
};

struct rank_head {
    char path[FILE_PATH];
    struct head head;
    struct rank_head *next;
};

struct rank_state {
    struct weights weights;
    struct model whole;
    struct collective tensor;
    struct shard_fault fault;
    struct shard_model part;
    struct engine engine;
    struct tap *taps; /* of the whole model */
    int64_t tap_count;
    struct load *load; /* of the first pass over the layers */
    int64_t passes;
    struct rank_cache *caches;
    struct rank_head *heads;
    struct arena arena;
    struct kernel_log *kernels;
    struct segment piece;
    int64_t piece_most;  /* bytes of it */
    struct pack request; /* the request's bytes: a piece takes w->data away */
    int64_t base_bytes;
};

/* What a step of either kind says, read. */
struct rank_request {
    struct ranks_head head;
    struct rank_cache *cache;
    struct rows rows;
    struct profile profile;
    struct unpack rest;
};

/* Copies the request, forgets and makes caches, makes the moves. */
enum err_code rank_request_read(struct worker *w, struct rank_request *q, struct err *err) ERR_USED;
/* A run of this rank as the request wants it, without progress. */
struct run rank_run(struct worker *w, const struct rank_request *q);
/* Leaves the reply of a step. */
enum err_code rank_reply(struct worker *w, struct err *err) ERR_USED;

enum err_code rank_step_task(struct worker *w, struct err *err) ERR_USED;
enum err_code rank_draft_task(struct worker *w, struct err *err) ERR_USED;
enum err_code rank_open_task(struct worker *w, struct err *err) ERR_USED;

#endif
