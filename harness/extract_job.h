/* extract_job.h: an extract at work: what its parts share. extract.c drives, extract_batch.c runs
 * and writes samples, extract_beside.c says what decides the bytes and writes what lies beside. */
#ifndef ASSAY_HARNESS_EXTRACT_JOB_H
#define ASSAY_HARNESS_EXTRACT_JOB_H

#include "core/checkpoint.h"
#include "harness/extract.h"
#include "harness/extract_data.h"
#include "harness/extract_journal.h"

struct extract_job {
    const struct extract_request *r;
    struct extract_result *result;
    struct states_engine engine;
    const struct config *config;
    char checkpoint[CHECKPOINT_TEXT];
    enum dtype dtype; /* of the states on disk */
    struct states states;
    int64_t room; /* rows that its buffers hold */
    void *packed; /* [room][count][hidden] of dtype */
    struct extract_data data;
    struct extract_journal journal;
    /* The batch being gathered: samples in order, bad ones among them. */
    struct extract_sample *pending;
    int64_t pending_count, pending_room, pending_tokens;
    int64_t batch;    /* its number in this run */
    int64_t *freq;    /* [vocab]: tokens with mask 1, of the samples written */
    int64_t unmasked; /* samples written without a mask of their own */
    double began;
};

/* ---- extract_batch.c ---- */

enum { EXTRACT_PENDING = 4096 }; /* samples of a batch at most, bad ones counted */

/* True where the batch has no room for this sample. */
bool extract_batch_full(const struct extract_job *j, const struct extract_sample *s);
/* Takes the sample over. */
enum err_code extract_batch_add(struct extract_job *j, struct extract_sample *s,
                                struct err *err) ERR_USED;
/* Runs what was gathered, and settles its samples in order. Without skip_bad it stops at the first
 * that is bad, with those before it written. */
enum err_code extract_batch_flush(struct extract_job *j, struct err *err) ERR_USED;
/* A sample is in the folder, or is skipped: into counts and lists. batch -1: an earlier run's. */
void extract_settle(struct extract_job *j, const struct extract_sample *s,
                    const struct extract_entry *e, int64_t batch);

/* ---- extract_beside.c ---- */

/* Everything that decides the bytes of the samples: what a resumed run must share. The caller's. */
json_t *extract_request_json(const struct extract_job *j);
/* What the trainer of the format wants beside the samples. */
enum err_code extract_beside_write(const struct extract_job *j, struct err *err) ERR_USED;
/* Refuses layer ids that the format cannot hold. */
enum err_code extract_ids_check(const struct extract_job *j, struct err *err) ERR_USED;
/* Says on stderr, and in the result, what a reader of the samples must know about their layers. */
void extract_ids_warn(struct extract_job *j);
void extract_warn(struct extract_job *j, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
