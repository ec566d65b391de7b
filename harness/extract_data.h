/* extract_data.h: --data of verb extract, a sample at a time.
 *
 *   FILE.jsonl            a sample a line: {"input_ids": [...], "loss_mask": [...]} or [...]; blank
 *                         lines are passed over. The file is mapped, never read as a whole.
 *   any other file        what tokens.h reads: JSON (an array of samples, each as above, or one
 *                         sample), @golden.json, safetensors with input_ids
 *   1,5,9                 one sample
 *
 * Samples are numbered from 0 in the order of the data. Test: tests/test_extract_data.c */
#ifndef ASSAY_HARNESS_EXTRACT_DATA_H
#define ASSAY_HARNESS_EXTRACT_DATA_H

#include "core/digest.h"
#include "core/file.h"
#include "harness/tokens.h"

#include <jansson.h>
#include <stdbool.h>

/* What a sample must keep to. */
struct extract_limits {
    int64_t vocab;
    int64_t length_max; /* tokens of a sample */
};

struct extract_sample {
    int64_t number;
    int64_t count;  /* tokens */
    int64_t *id;    /* [count] */
    int64_t *mask;  /* [count], 0 or 1 */
    bool masked;    /* the data gave the mask; else it is ones */
    struct err bad; /* ERR_OK, or why it cannot be used (then there are no tokens) */
};

struct extract_data {
    struct extract_limits limits;
    char path[FILE_PATH];
    char sha256[DIGEST_TEXT]; /* of the file's bytes, or of the list's text */
    int64_t total;            /* samples */
    int64_t next;             /* number of the next one */
    struct file_map map;      /* JSONL */
    int64_t at, line;         /* the next byte and the number of its line */
    json_t *list;             /* JSON: its samples */
    struct tokens tokens;     /* the rest */
    int64_t token;
};

/* Errors: what tokens_read() refuses of the file as a whole, a file that holds no sample. A JSONL
 * file is gone through once, for its hash and the number of its samples. */
enum err_code extract_data_open(struct extract_data *d, const char *spec, struct err *err) ERR_USED;
void extract_data_close(struct extract_data *d);
/* The next sample, or *more false. One that is bad is no error: out->bad says why. Fails only
 * without memory. */
enum err_code extract_data_next(struct extract_data *d, struct extract_sample *out, bool *more,
                                struct err *err) ERR_USED;
void extract_sample_free(struct extract_sample *s);

#endif
