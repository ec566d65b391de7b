/* extract.h: EAGLE-3 training samples from a model: what verb `extract` asks for.
 *
 * Samples of --data are read one at a time, run through an engine in batches, and written a file a
 * sample in a trainer's layout (sample.h), each all or nothing; beside them what that trainer
 * wants, and manifest.json with everything that decides the bytes. What a row holds does not depend
 * on the batch, the chunks or the threads; so a run that was killed can be taken up again
 * (extract_journal.h) and gives the same bytes. Test: tests/test_extract.c,
 * tests/test_cli_extract.c */
#ifndef ASSAY_HARNESS_EXTRACT_H
#define ASSAY_HARNESS_EXTRACT_H

#include "harness/sample.h"
#include "harness/states.h"

/* Texts are borrowed and as on the command line. */
struct extract_request {
    const char *model, *data, *layers, *numbering, *on, *out;
    enum sample_format format;
    enum dtype dtype;     /* of the states; DT_COUNT: the engine's */
    bool resume;          /* go on with what a killed run left */
    bool skip_bad;        /* a bad sample is listed, and the run goes on */
    int64_t batch;        /* samples of a batch at most; 0: any number */
    int64_t batch_tokens; /* tokens of a batch at most; a longer sample goes alone */
    int64_t length_max;   /* tokens of a sample; 0: what the model's positions allow */
    int64_t draft_vocab;  /* of d2t and t2d; 0: none are written */
    struct session_options options;
};

struct extract_result {
    int64_t written; /* samples, by this run */
    int64_t resumed; /* samples that an earlier run had written */
    int64_t tokens;  /* of those written */
    double seconds;
    json_t *skipped;            /* [{sample, why}], by either; those of this run also `batch` */
    json_t *warnings;           /* [text] */
    struct kernel_log *kernels; /* NULL, or what ran */
    json_t *ranks;              /* NULL, or ranks_json() */
};

/* The options of verb_extract.c. */
enum err_code extract_request_read(const struct args *a, struct extract_request *r,
                                   struct err *err) ERR_USED;
/* ERR_OK: every sample of the data lies in the folder. ERR_DIFF: some were skipped, none was
 * written, or a NaN or infinity arose. ERR_INPUT: a bad sample without skip_bad, or what the parts
 * refuse. After an error the result holds what was done until then. */
enum err_code extract_run(const struct extract_request *r, struct extract_result *out,
                          struct err *err) ERR_USED;
/* The result as the fields of the verb's JSON object. */
json_t *extract_json(const struct extract_request *r, const struct extract_result *f);
void extract_result_free(struct extract_result *f);

#endif
