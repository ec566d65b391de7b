/* inspect_samples_mask.c: loss masks, and what lies beside the samples and was counted from them;
 * see inspect_samples.h. A mask that is moved looks like a mask: only the counts of token_freq.pt
 * show it, which are taken over the masked positions of all samples. */
#include "harness/inspect_samples.h"

#include <stdlib.h>
#include <string.h>

/* How far a mask is looked for beside its place. */
enum { REACH = 2 };

/* ---- one mask ---- */

/* The fields of one mask: how many are 1, and the first that is neither 0 nor 1. */
static int64_t count_ones(const struct sample *s, int64_t *strange)
{
    int64_t ones = 0;
    *strange = -1;
    for (int64_t p = 0; p < s->rows; p++) {
        ones += s->mask[p] == 1;
        if ((s->mask[p] < 0 || s->mask[p] > 1) && *strange < 0) *strange = p;
    }
    return ones;
}

static void check_one(struct samples *w, const struct looked *k)
{
    const struct sample *s = &k->file.sample;
    int64_t strange;
    if (!s->mask) return;
    int64_t ones = count_ones(s, &strange);
    if (strange >= 0)
        samples_problem(w, "loss mask", k->name,
                        ins_text(w->s, "loss_mask[%lld] is %lld", (long long)strange,
                                 (long long)s->mask[strange]),
                        "write 0 and 1 only: trainers multiply the loss by it");
    if (ones == 0 && strange < 0)
        samples_problem(w, "loss mask", k->name,
                        ins_text(w->s, "loss_mask is 0 at all %lld tokens", (long long)s->rows),
                        "build it again with a tokenizer that gives offsets: this sample trains "
                        "nothing");
}

/* ---- token_freq.pt ---- */

/* {token id: count} as counts [vocab]; NULL where there is none, or it does not fit. */
static int64_t *read_freq(struct samples *w, int64_t vocab)
{
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    struct pt_file f = {0};
    if (file_join(w->set.folder, "token_freq.pt", path, &err) != ERR_OK || !file_exists(path))
        return NULL;
    int64_t *count = calloc((size_t)vocab, sizeof *count);
    bool good = pt_open(&f, path, &err) == ERR_OK && f.root.kind == PT_DICT && count;
    for (int64_t i = 0; good && i < f.root.count; i++) {
        const struct pt_value *key = &f.root.keys[i], *value = &f.root.items[i];
        good = key->kind == PT_INT && value->kind == PT_INT && key->whole >= 0 &&
               key->whole < vocab && value->whole >= 0;
        if (good) count[key->whole] = value->whole;
    }
    if (!good) {
        samples_problem(w, "token_freq.pt", path,
                        err.code != ERR_OK ? ins_text(w->s, "%s %s", err.what, err.found)
                                           : "no counts of token ids of the vocabulary",
                        "count the tokens of the samples again");
        free(count);
        count = NULL;
    }
    pt_close(&f);
    return count;
}

/* Adds `by` for each token at which the mask, moved by `shift`, is 1. */
static void add_counts(const struct sample *s, int64_t shift, int64_t by, int64_t *count,
                       int64_t vocab)
{
    for (int64_t p = 0; p < s->rows; p++) {
        int64_t from = p - shift, id = s->token[p];
        if (from >= 0 && from < s->rows && s->mask[from] == 1 && id >= 0 && id < vocab)
            count[id] += by;
    }
}

static bool all_zero(const int64_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (x[i]) return false;
    }
    return true;
}

/* Moves sample `only` (or all: -1) by `shift` in what is left of the counts. */
static void move(const struct samples *w, int64_t only, int64_t shift, int64_t by, int64_t *left,
                 int64_t vocab)
{
    for (int64_t i = 0; i < w->count; i++) {
        if (only >= 0 && i != only) continue;
        const struct sample *s = &w->looked[i].file.sample;
        add_counts(s, 0, by, left, vocab);
        add_counts(s, shift, -by, left, vocab);
    }
}

/* What fell off the mask's end when it was moved is not known: those tokens may count or not. */
static void free_edges(const struct samples *w, int64_t only, int64_t shift, int64_t *left,
                       int64_t vocab)
{
    for (int64_t i = 0; i < w->count; i++) {
        const struct sample *s = &w->looked[i].file.sample;
        if (only >= 0 && i != only) continue;
        for (int64_t k = 0; k < llabs(shift) && k < s->rows; k++) {
            int64_t id = s->token[shift < 0 ? s->rows - 1 - k : k];
            if (id >= 0 && id < vocab && left[id] > 0) left[id]--;
        }
    }
}

/* True where the counts are right once the masks are moved. */
static bool fits_moved(const struct samples *w, int64_t only, int64_t shift, const int64_t *left,
                       int64_t *room, int64_t vocab)
{
    memcpy(room, left, (size_t)vocab * sizeof *room);
    move(w, only, shift, 1, room, vocab);
    free_edges(w, only, shift, room, vocab);
    return all_zero(room, vocab);
}

static void report_shift(struct samples *w, int64_t only, int64_t shift)
{
    /* Moving the mask by `shift` sets it right, so it lies the other way. */
    samples_problem(w, "loss mask shifted", only >= 0 ? w->looked[only].name : w->set.folder,
                    ins_text(w->s,
                             "loss masks lie %lld token%s %s: moved back they give the counts of "
                             "token_freq.pt, as they are they do not",
                             (long long)llabs(shift), llabs(shift) == 1 ? "" : "s",
                             shift > 0 ? "early" : "late"),
                    "store loss_mask[p] for token p: readers shift it themselves");
}

/* `left`: token_freq.pt less the counts of the masks. */
static bool find_shift(struct samples *w, const int64_t *left, int64_t vocab)
{
    int64_t *room = malloc((size_t)vocab * sizeof *room);
    bool found = false;
    w->s->broken |= !room;
    for (int64_t only = -1; room && !found && only < (w->count > 1 ? w->count : 0); only++) {
        for (int64_t shift = -REACH; shift <= REACH && !found; shift++) {
            found = shift != 0 && fits_moved(w, only, shift, left, room, vocab);
            if (found) report_shift(w, only, shift);
        }
    }
    free(room);
    return found;
}

static bool all_masked(const struct samples *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        if (!w->looked[i].open || !w->looked[i].file.sample.mask) return false;
    }
    return w->count == w->set.count;
}

static void check_freq(struct samples *w, int64_t vocab)
{
    int64_t *left = all_masked(w) ? read_freq(w, vocab) : NULL, over = 0, under = 0;
    if (!left) return;
    for (int64_t i = 0; i < w->count; i++)
        add_counts(&w->looked[i].file.sample, 0, -1, left, vocab);
    for (int64_t id = 0; id < vocab; id++) {
        over += left[id] > 0 ? left[id] : 0;
        under += left[id] < 0 ? -left[id] : 0;
    }
    /* Counts of more samples than lie here are no fault; counts that these exceed are one. */
    if (over + under > 0 && !find_shift(w, left, vocab)) {
        if (under > 0)
            samples_problem(w, "token_freq.pt", w->set.folder,
                            ins_text(w->s,
                                     "the masks hold %lld tokens that it does not count, "
                                     "and it counts %lld that they do not hold",
                                     (long long)under, (long long)over),
                            "count again over the masked tokens: masks or samples have changed");
        else
            samples_note(w, ins_text(w->s,
                                     "token_freq.pt counts %lld tokens more than the "
                                     "samples here hold",
                                     (long long)over));
    }
    free(left);
}

/* ---- maps ---- */

/* d2t.npy and t2d.npy of the folder (fact sheet 2.2). */
static void check_maps(struct samples *w)
{
    const struct sample_set *s = &w->set;
    if (!s->d2t) return;
    const struct vocab_view map = {.where = s->folder,
                                   .d2t = s->d2t,
                                   .t2d = s->t2d,
                                   .draft_vocab = s->draft_vocab,
                                   .vocab = w->vocab ? w->vocab : s->vocab};
    if (s->t2d && w->vocab && s->vocab != w->vocab)
        samples_problem(w, "vocabulary map", s->folder,
                        ins_text(w->s, "t2d marks %lld tokens, the model has %lld",
                                 (long long)s->vocab, (long long)w->vocab),
                        "build d2t and t2d again for this model");
    else if (map.vocab > 0)
        (void)vocab_check(w->s, &map);
}

static int64_t vocab_seen(const struct samples *w)
{
    int64_t most = w->set.vocab > w->vocab ? w->set.vocab : w->vocab;
    for (int64_t i = 0; i < w->count && w->vocab == 0; i++) {
        const struct sample *s = &w->looked[i].file.sample;
        for (int64_t p = 0; w->looked[i].open && p < s->rows; p++) {
            if (s->token[p] >= most && s->token[p] < INT32_MAX) most = s->token[p] + 1;
        }
    }
    return most;
}

enum err_code samples_check_masks(struct samples *w, struct err *err)
{
    int64_t vocab = vocab_seen(w);
    (void)err;
    for (int64_t i = 0; i < w->count; i++) {
        if (w->looked[i].open) check_one(w, &w->looked[i]);
    }
    if (vocab > 0) check_freq(w, vocab);
    check_maps(w);
    return ERR_OK;
}
