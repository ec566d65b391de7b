/* forward.h: a model on a token list, its taps to a dump: what verb `forward` and a plan's step of
 * that name ask for. Test: tests/test_cli_forward.c, tests/test_plan_run.c */
#ifndef ASSAY_HARNESS_FORWARD_H
#define ASSAY_HARNESS_FORWARD_H

#include "core/head.h"
#include "harness/session.h"

/* Texts are borrowed and as on the command line; NULL: the default. */
struct forward_request {
    const char *model, *tokens, *out;
    const char *taps;    /* GLOB,...; NULL: all */
    const char *layers;  /* A:B; NULL: all */
    const char *rows;    /* A:B; NULL: all */
    const char *experts; /* a dump whose experts are forced */
    const char *draft;   /* HEAD; NULL: none */
    int64_t draft_steps; /* with draft */
    enum dtype reals;    /* DT_F32 or DT_F64; DT_BF16: the engine's own, dump.h */
    bool resume;         /* keep state layer by layer, and go on from what a killed run left */
    struct session_options options;
};

struct forward_result {
    int64_t taps, rows, forced_rows, peak_bytes;
    int64_t special; /* cells written that are NaN or infinite: the dump is whole, and no pass */
    char special_tap[TAP_NAME];
    int64_t special_row, special_col; /* the first of them */
    int64_t resumed_layer;            /* the layer that it went on at; 0: from the start */
    double seconds;
    struct head_config draft;   /* of the head, where there is one */
    int64_t draft_rows;         /* rows of its taps that were written */
    struct kernel_log *kernels; /* NULL, or what ran; forward_result_free() */
    json_t *ranks;              /* NULL, or ranks_json(), also after an error; likewise */
};

/* The options of the verb (SESSION_OPTION_ROWS and those of verb_forward.c). ERR_DEVICE where a
 * device is asked for that this build or machine lacks. */
enum err_code forward_request_read(const struct args *a, struct forward_request *r,
                                   struct err *err) ERR_USED;
/* Runs, and writes the dump, all or nothing. */
enum err_code forward_run(const struct forward_request *r, struct forward_result *out,
                          struct err *err) ERR_USED;
/* ERR_DIFF, naming tap, row and column, where the dump holds what is not finite; else ERR_OK. */
enum err_code forward_check(const struct forward_result *f, struct err *err) ERR_USED;
void forward_result_free(struct forward_result *f);
/* The result as the fields of the verb's JSON object. */
json_t *forward_json(const struct forward_request *r, const struct forward_result *f);
/* What a reader of the result must be told about the profile, or "". */
const char *forward_note(const struct forward_request *r);

#endif
