/* sample.h: EAGLE-3 training samples on disk, one file a sample, in the layouts of three trainers.
 *
 *   format            file                  content
 *   speculators-v0.3  data_N.pt             {input_ids [S], hidden_states list of L [S, H],
 *                                           loss_mask [S]}
 *   vllm              hs_N.safetensors      hidden_states [S, L, H], token_ids [S]
 *                     (speculators >= 0.5)
 *   specforge         rows_A-B/data_N.ckpt  {input_ids [S], loss_mask [S], hidden_state [1, S, H]
 *                     (B = A + 2000)        after the final norm, aux_hidden_state [1, S, (L-1) H]}
 *
 * Ids and masks are i64, states bf16, f16 or f32. Further keys are ignored. In memory all are one
 * thing: L states a token, ascending by layer, the last one the last hidden.
 *
 * Beside the samples, in their folder (of specforge: above rows_A-B), each may be missing:
 *   manifest.json     of assay extract: "layer_ids" [ids, in the numbering], "numbering" "entry" or
 *                     "output"; further fields are for people
 *   data_config.json  of speculators: {"hidden_states": {"layer_ids": [ids]}}, numbering not said.
 *                     Where both are there, the manifest counts
 *   token_freq.pt     {id: count}
 *   d2t.npy, t2d.npy  i64 [draft_vocab]: target id - draft id; bool [vocab]: 1 where drafted; or
 *   vocab_mapping/vocab_mapping.pt  {d2t, t2d}, the same two (specforge)
 *
 * Source: the EAGLE-3 fact sheet, section 4, and files that torch wrote. Test: tests/test_sample.c,
 * tests/test_sample_set.c */
#ifndef ASSAY_HARNESS_SAMPLE_H
#define ASSAY_HARNESS_SAMPLE_H

#include "core/npy.h"
#include "core/pt.h"

enum sample_format { SAMPLE_V03, SAMPLE_VLLM, SAMPLE_SPECFORGE, SAMPLE_FORMATS };
enum { SAMPLE_STATES = 16 };

/* "speculators-v0.3", "vllm", "specforge"; NULL past the end. */
const char *sample_format_name(int format);

struct sample {
    int64_t rows, hidden;
    int states;       /* L */
    enum dtype dtype; /* of the states */
    /* Element [row][c] of state k is at state[k] + (row * stride[k] + c) * size of dtype, which may
     * be an odd address: read it through dtype.h. */
    const void *state[SAMPLE_STATES];
    int64_t stride[SAMPLE_STATES];
    bool last_normed;     /* the last state is after the final norm (specforge) */
    const int64_t *token; /* [rows] */
    const int64_t *mask;  /* [rows], or NULL: the file has none */
};

/* The path of sample N in its folder: "data_3.pt", "rows_0-2000/data_3.ckpt", ... */
enum err_code sample_path(enum sample_format f, const char *folder, int64_t n, char *out,
                          struct err *err) ERR_USED;
/* All or nothing; the folder of a specforge block is made. `mask` must be there but for vllm.
 * Memory: at most one copy of the states, where they do not lie as the file has them. */
enum err_code sample_write(enum sample_format f, const char *path, const struct sample *s,
                           struct err *err) ERR_USED;

/* A sample read back: the views point into what the file owns. */
struct sample_file {
    struct sample sample;
    enum sample_format format;
    void *owned;
};

/* By content. Also read: the older {input_ids, loss_mask, hidden_state [S, 3H], target [S, H]} as
 * speculators-v0.3, and ModelOpt's {input_ids, hidden_states [S, H] after the final norm,
 * aux_hidden_states [S, 3H]} as specforge without a mask. Refused: what pt.h and safetensors.h
 * refuse, missing keys, no rows, shapes that disagree, other dtypes; the message names file, key,
 * found, wanted. Values are not looked at. `hidden` as the model has it, 0: unknown; a flat aux
 * state is split by the width of the last state. */
enum err_code sample_open(struct sample_file *f, const char *path, int64_t hidden,
                          struct err *err) ERR_USED;
void sample_close(struct sample_file *f);

/* A folder of samples (or one file): what is there, and what lies beside it. */
struct sample_set {
    enum sample_format format;
    char folder[FILE_PATH];
    struct sample_entry {
        int64_t n; /* its number */
        char *path;
    } * entries; /* by number, ascending */
    int64_t count;
    int64_t *layer_ids; /* of data_config.json or the manifest, as stored there, or NULL */
    int layer_count;
    char numbering[16]; /* "entry", "output", or "": not said */
    int64_t *d2t, *t2d; /* offsets [draft_vocab]; 0/1 [vocab]; or NULL */
    int64_t draft_vocab, vocab;
};

/* Refused: no sample, several formats in one folder, one number twice, a sample packed with gzip,
 * and what lies beside them in another form. */
enum err_code sample_set_open(struct sample_set *s, const char *path, struct err *err) ERR_USED;
void sample_set_close(struct sample_set *s);
/* True where the folder or file looks like samples: cheap, for verbs that take anything. */
bool sample_is(const char *path);

/* Counts of token ids over positions with mask 1; token_freq.pt. */
enum err_code sample_write_freq(const char *path, const int64_t *count, int64_t vocab,
                                struct err *err) ERR_USED;
/* The draft_vocab most frequent ids (ties: the lower id), ascending, as d2t offsets and t2d flags;
 * padded with unused ids where fewer occur. Writes d2t.npy and t2d.npy, or
 * vocab_mapping/vocab_mapping.pt. */
enum err_code sample_write_maps(enum sample_format f, const char *folder, const int64_t *count,
                                int64_t vocab, int64_t draft_vocab, struct err *err) ERR_USED;

#endif
