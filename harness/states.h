/* states.h: the residual stream at chosen entry ids of a batch, from any engine behind one
 * interface. Entry id i is the stream as it enters layer i (0: the embedding); id n, of n layers,
 * the output of the last one before the final norm. Test: tests/test_states.c */
#ifndef ASSAY_HARNESS_STATES_H
#define ASSAY_HARNESS_STATES_H

#include "harness/session.h"

enum { STATES_MAX = 16 };

/* What is asked of an engine, and what it gives. */
struct states {
    int64_t id[STATES_MAX]; /* entry ids, ascending */
    int count;
    int64_t rows, hidden;
    double *data; /* [rows][count][hidden]; the owner's, room for `rows` */
    /* Each NULL, or the owner's too, and filled: */
    double *normed; /* [rows][hidden]: the output of the final norm */
    int32_t *bad;   /* [rows]: the first entry id at which the row is not finite; -1: none of them.
                       Ids between the captured ones are looked at too. */
    /* What the batch is called where it fails: its number, and "0-3". samples NULL: nothing. */
    int64_t batch;
    const char *samples;
    /* How far the batch has come, 0 to 1; may be NULL. */
    void (*progress)(void *ctx, double share);
    void *progress_ctx;
};

/* A sink for struct step that fills `s` at rows->dump_row; other taps are not wanted. Chained
 * behind it, where `next` is not NULL, is another sink. The result lives in `keep`. */
struct states_capture {
    struct states *states;
    struct tap_sink *next;
    struct tap_sink sink;
};
struct tap_sink *states_sink(struct states_capture *keep, struct states *s, struct tap_sink *next);

/* What gives states: the reference or the CUDA path; sharded runs take the same place. */
struct states_engine {
    const char *name;
    bool rows_alone; /* rows have the same bits in any batch and chunking */
    enum dtype act;  /* its activation type: what states are stored in unless asked otherwise */
    int64_t layers, hidden, vocab;
    const struct weights *weights; /* the checkpoint that it runs, and its config */
    void *ctx;
    /* Fills s->data for the batch, whose rows are those of `t`. NaN and infinity are values here:
     * the caller looks. */
    enum err_code (*run)(void *ctx, const struct tokens *t, struct states *s, struct err *err);
    void (*close)(void *ctx);
};

/* on: "ref" or "gpu"; ERR_DEVICE where that cannot run here. The model is opened here. Layers past
 * the last id that is asked for are not run, nor is the head. */
enum err_code states_engine_open(struct states_engine *e, const char *on, const char *model,
                                 const struct session_options *o, struct err *err) ERR_USED;
/* Safe on one that was not opened (all zero). */
void states_engine_close(struct states_engine *e);
/* The model behind an engine of engine.h; NULL for others. */
struct loaded *states_engine_loaded(const struct states_engine *e);

/* Reads "2,30,58,60" in a numbering ("entry": as above; "output": id i is the output of layer i,
 * one less than its entry id) into s->id as entry ids. Refused, never collapsed or sorted: ids out
 * of range, twice, or not ascending. */
enum err_code states_ids(struct states *s, const char *list, const char *numbering, int64_t layers,
                         struct err *err) ERR_USED;

#endif
