/* inspect_samples.h: what a folder of training samples was really wired to. The reference computes
 * the residual stream of some samples' tokens at every entry id, and each stored state is looked
 * for among them: which entry, before or after the final norm, which row of which sample, with
 * which scale.
 *
 * Nothing is judged by a fixed distance. A stored state s is taken for candidate b where, for
 * every other candidate c, the median over rows of
 *
 *     margin(s; b, c) = (|s - c|^2 - |s - b|^2) / |c - b|^2
 *
 * is above 1/2. It is 1 at b, 0 half-way, -1 at c; noise of an engine's arithmetic, which points
 * nowhere in particular, moves it little, however large it is beside |c - b|. The same measure
 * tells rows apart. What storage alone explains follows from the stored type's unit roundoff.
 *
 * Tests: tests/test_inspect_samples.c (files), tests/test_inspect_match.c (the measure) */
#ifndef ASSAY_HARNESS_INSPECT_SAMPLES_H
#define ASSAY_HARNESS_INSPECT_SAMPLES_H

#include "harness/inspect.h"
#include "harness/sample.h"
#include "harness/inspect_vocab.h"
#include "harness/session.h"

/* What the reference gives for the tokens that are looked at, of all samples in one list of rows.
 * Candidate c: entry id c for c <= layers; after them the final norm of the two last entries. */
struct truth {
    int64_t layers, rows, hidden, candidates;
    float *data;         /* [candidates][rows][hidden] */
    const int64_t *keep; /* NULL, or the target ids [kept] whose logits are wanted; the caller's */
    int64_t kept;
    float *logits; /* [rows][kept] */
};

enum { TRUTH_NORMED = 2 };

static inline const float *truth_row(const struct truth *t, int64_t candidate, int64_t row)
{
    return t->data + (candidate * t->rows + row) * t->hidden;
}

static inline int64_t truth_entry(const struct truth *t, int64_t candidate)
{
    return candidate <= t->layers ? candidate : candidate - TRUTH_NORMED;
}

static inline bool truth_normed(const struct truth *t, int64_t candidate)
{
    return candidate > t->layers;
}

/* Rows that the reference differs by from an outside float32 implementation (the bound of the
 * whole-model goldens): with the storage's unit roundoff, all that exact states may be off. */
#define MATCH_REFERENCE 2e-4

enum match_kind {
    MATCH_CLEAR,   /* candidate and rows are found */
    MATCH_UNCLEAR, /* candidate is the nearest, `next` nearly as near */
    MATCH_ROTATED, /* the scalar products between rows are the candidate's, the rows are not */
    MATCH_NONE
};

/* One stored state of one sample. */
struct match {
    enum match_kind kind;
    int64_t candidate, next;  /* next: the second nearest, or -1 */
    double error, next_error; /* medians over rows of |s - c| / |c| */
    int64_t rival;            /* the one that is told apart least, or -1 */
    double margin;            /* against it */
    double scale;             /* of the stored state: 1, or the factor that all its rows share */
    bool exact;               /* the median error is no more than storage explains */
    double flips;             /* the largest row error that an engine's rounding gives the reference
                                 itself, by experts that it flips; 0: exact, not looked for */
    int64_t *source;          /* [rows] row of `truth` that each stored row holds; -1: none of them;
                                 -2: not finite */
    double *row_error;        /* [rows] against its own row */
};

/* Stored state s [rows, hidden] against the truth of rows first, first + 1, ... `unit`: roundoff
 * of the stored type. `m` has room in source and row_error. */
struct match_job {
    const struct truth *truth;
    const double *s;
    int64_t rows, first;
    double unit;
    int threads;
};
enum err_code match_state(const struct match_job *job, struct match *m, struct err *err) ERR_USED;

/* inspect_samples_rows.c: which row each stored row holds, given the candidate and the scale;
 * rows that are -2 in source are left out. `gaps` has room for job->threads times the rows of the
 * truth. Returns how many rows hold a known row. */
int64_t match_rows(const struct match_job *job, int64_t candidate, double scale, double *gaps,
                   int64_t *source);
/* The middle of n values, which are reordered; NaN when there are none. */
double match_median(double *x, int64_t n);
/* What a share of them, 0 to 1, does not exceed; the same. */
double match_quantile(double *x, int64_t n, double share);

/* ---- the inspection of a folder ---- */

struct samples_options {
    int64_t count; /* samples that are read */
    int64_t rows;  /* tokens that are recomputed */
    int threads;
};

/* One sample that was read. */
struct looked {
    struct sample_file file;
    const struct sample_entry *entry;
    const char *name; /* for messages */
    bool open;
    int64_t first, rows; /* in the truth; rows 0: not recomputed */
    struct match match[SAMPLE_STATES];
};

struct samples {
    struct inspection *s;
    const char *path;
    struct sample_set set;
    struct looked *looked;
    int64_t count, states, hidden, vocab; /* vocab, hidden 0: unknown */
    struct truth truth;
    const char *engine; /* the profile whose conventions the states follow: "hf" or "vllm" */
    const struct loaded *loaded; /* NULL: no model */
    json_t *notes, *found;       /* found: result "states" */
    struct samples_options options;
};

/* One finding: what is wrong and what to do about it. */
void samples_problem(struct samples *w, const char *what, const char *where, const char *cause,
                     const char *remedy);
void samples_note(struct samples *w, const char *text);

/* Kind `samples`. Fields of the result: kind, format, samples, looked_at, recomputed_rows, tensors,
 * missing, extra, problems, notes, states: [{stored, entry, norm, error, next_best, ...}]. `model`
 * NULL: only what needs none. Errors: no samples at all, a model that cannot be used. */
enum err_code inspect_samples(struct inspection *s, const struct samples_options *o,
                              const char *model, json_t *result, struct err *err) ERR_USED;

/* The same in steps, for the inspection of a head: problems go to `s`, notes and states to `w`;
 * afterwards w->truth holds the rows of each looked-at sample, with the logits of `keep`.
 * samples_close() frees, also after an error. */
enum err_code samples_open(struct samples *w, struct inspection *s, const char *path,
                           const struct samples_options *o, const struct loaded *l,
                           struct err *err) ERR_USED;
enum err_code samples_look(struct samples *w, struct err *err) ERR_USED;
void samples_close(struct samples *w);

/* ---- its parts ---- */

/* inspect_samples_values.c: what needs no model: shapes against each other, numbers, tokens. */
enum err_code samples_check_values(struct samples *w, struct err *err) ERR_USED;
/* inspect_samples_repeats.c: rows that stand twice, beyond those that the model was asked about. */
enum err_code samples_check_repeats(struct samples *w, struct err *err) ERR_USED;
/* inspect_samples_mask.c: loss masks, token_freq.pt, vocabulary maps beside the samples. */
enum err_code samples_check_masks(struct samples *w, struct err *err) ERR_USED;
/* inspect_samples_truth.c: the reference's states of tokens [count] in `t`, whose keep is set. */
enum err_code truth_make(struct truth *t, const struct loaded *l, const struct tokens *tokens,
                         const struct session_options *o, struct err *err) ERR_USED;
void truth_free(struct truth *t);
/* Chooses rows, computes, matches every state of every sample. */
enum err_code samples_match(struct samples *w, struct err *err) ERR_USED;
/* inspect_samples_noise.c: what is left beyond an engine's rounding; `t`: the tokens of the truth.
 * Runs the model once more where storage does not explain all. */
enum err_code samples_check_noise(struct samples *w, const struct tokens *t,
                                  struct err *err) ERR_USED;
/* inspect_samples_wiring.c: what the matches say against what the files claim. */
void samples_report_wiring(struct samples *w);
/* inspect_samples_claims.c. What the files claim as entry ids; without a word on the numbering,
 * that of the format holds: vLLM counts entries, the others outputs. */
struct samples_claim {
    int64_t entry[SAMPLE_STATES];
    int count;
    bool output;
    const char *from; /* the file that says so */
};
bool samples_claim(const struct samples *w, struct samples_claim *c);
const char *samples_norm_text(bool normed);
/* Sorts the entries; says what was out of order or there twice. */
void samples_check_order(struct samples *w, int64_t *entry, int n);
/* `candidate`: of the highest entry. */
void samples_check_last(struct samples *w, int64_t candidate, bool want_normed);
/* `aux`: the entries of all states but the last, ascending. */
void samples_check_claim(struct samples *w, const int64_t *aux, int n);
/* inspect_samples_manifest.c: files that are not what their manifest recorded. */
void samples_check_manifest(struct samples *w);
/* inspect_samples_moved.c: rows that are not where they belong. */
void samples_report_rows(struct samples *w);

/* Element rows of one state as doubles: [rows, hidden] from row `first`. */
void sample_state_rows(const struct sample *s, int state, int64_t first, int64_t rows, double *out);

#endif
