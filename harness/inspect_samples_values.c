/* inspect_samples_values.c: what of a sample can be judged alone: its shapes beside the others',
 * numbers that are none, empty rows, tokens; see inspect_samples.h. */
#include "harness/inspect_samples.h"

#include <math.h>
#include <stdlib.h>

void sample_state_rows(const struct sample *s, int state, int64_t first, int64_t rows, double *out)
{
    int size = dtype_size(s->dtype);
    for (int64_t p = 0; p < rows; p++) {
        const char *from = (const char *)s->state[state] + (first + p) * s->stride[state] * size;
        dtype_to_f64(s->dtype, from, s->hidden, out + p * s->hidden);
    }
}

/* What is counted in one state of one sample. */
struct tally {
    int64_t nan, inf, zero;                   /* elements, elements, rows */
    int64_t nan_row, inf_row, zero_row, rows; /* the first of each; rows that hold a NaN or Inf */
};

static struct tally count_state(const struct sample *s, int state, double *row)
{
    struct tally t = {.nan_row = -1, .inf_row = -1, .zero_row = -1};
    for (int64_t p = 0; p < s->rows; p++) {
        int64_t nan = 0, inf = 0, zero = 0;
        sample_state_rows(s, state, p, 1, row);
        for (int64_t j = 0; j < s->hidden; j++) {
            nan += isnan(row[j]) != 0;
            inf += isinf(row[j]) != 0;
            zero += row[j] == 0;
        }
        if (nan && t.nan_row < 0) t.nan_row = p;
        if (inf && t.inf_row < 0) t.inf_row = p;
        if (zero == s->hidden && t.zero_row < 0) t.zero_row = p;
        t.nan += nan;
        t.inf += inf;
        t.zero += zero == s->hidden;
        t.rows += nan || inf;
    }
    return t;
}

static void check_numbers(struct samples *w, const struct looked *k, double *row)
{
    const struct sample *s = &k->file.sample;
    for (int i = 0; i < s->states; i++) {
        struct tally t = count_state(s, i, row);
        if (t.nan > 0)
            samples_problem(w, "NaN", k->name,
                            ins_text(w->s,
                                     "state %d holds %lld NaN in %lld rows, the first in row %lld",
                                     i, (long long)t.nan, (long long)t.rows, (long long)t.nan_row),
                            "leave the sample out: trainers refuse it, or the loss becomes NaN");
        if (t.inf > 0)
            samples_problem(w, "infinity", k->name,
                            ins_text(w->s, "state %d holds %lld infinities, the first in row %lld",
                                     i, (long long)t.inf, (long long)t.inf_row),
                            s->dtype == DT_F16
                                ? "store bfloat16: float16 ends at 65504"
                                : "leave the sample out, or look for the layer that overflows");
        if (t.zero > 0)
            samples_problem(
                w, "rows of zeros", k->name,
                ins_text(w->s, "state %d has %lld rows of nothing but zeros, the first is row %lld",
                         i, (long long)t.zero, (long long)t.zero_row),
                "extract the sample again: those rows were never written");
    }
}

static void check_tokens(struct samples *w, const struct looked *k)
{
    const struct sample *s = &k->file.sample;
    int64_t vocab = w->vocab ? w->vocab : INT64_MAX, wrong = 0, first = -1;
    for (int64_t p = 0; p < s->rows; p++) {
        if (s->token[p] >= 0 && s->token[p] < vocab) continue;
        if (wrong++ == 0) first = p;
    }
    if (wrong == 0) return;
    samples_problem(w, "tokens beyond the vocabulary", k->name,
                    ins_text(w->s, "%lld tokens outside 0..%lld, the first is %lld at row %lld",
                             (long long)wrong, (long long)vocab - 1, (long long)s->token[first],
                             (long long)first),
                    w->vocab ? "tokenise with the target's own tokenizer"
                             : "token ids are never negative: tokenise again");
}

/* All samples have as many states, of one width and type. */
static void check_form(struct samples *w, const struct looked *k, const struct looked *first)
{
    const struct sample *s = &k->file.sample, *f = &first->file.sample;
    if (w->loaded && s->hidden != w->hidden)
        samples_problem(w, "width", k->name,
                        ins_text(w->s, "states are %lld wide, the model %lld", (long long)s->hidden,
                                 (long long)w->hidden),
                        "name the model that the samples were extracted from");
    if (s->states != f->states || s->hidden != f->hidden)
        samples_problem(w, "states", k->name,
                        ins_text(w->s, "%d states of %lld columns, %d of %lld in %s", s->states,
                                 (long long)s->hidden, f->states, (long long)f->hidden,
                                 first->name),
                        "keep samples of different extractions in different folders");
    if (s->dtype != f->dtype)
        samples_problem(w, "dtype", k->name,
                        ins_text(w->s, "states are %s, %s in %s", dtype_name(s->dtype),
                                 dtype_name(f->dtype), first->name),
                        "store all samples in one type");
}

static const struct looked *first_open(const struct samples *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        if (w->looked[i].open) return &w->looked[i];
    }
    return NULL;
}

enum err_code samples_check_values(struct samples *w, struct err *err)
{
    const struct looked *first = first_open(w);
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        if (!k->open) continue;
        double *row = malloc((size_t)(k->file.sample.hidden + 1) * sizeof *row);
        if (!row) return err_set(err, ERR_MEMORY, "samples|%s|no memory", k->name);
        check_form(w, k, first);
        check_tokens(w, k);
        check_numbers(w, k, row);
        free(row);
    }
    if (first && w->loaded && first->file.sample.dtype != w->loaded->model.config->dtype)
        samples_note(w, ins_text(w->s, "states are stored as %s, the model computes in %s",
                                 dtype_name(first->file.sample.dtype),
                                 dtype_name(w->loaded->model.config->dtype)));
    return ERR_OK;
}
