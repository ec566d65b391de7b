/* inspect_samples_repeats.c: rows that stand twice, found without a model; see inspect_samples.h.
 *
 * Rows p of one and the same context (the tokens 0 .. p) are equal by right; so are rows behind any
 * number of equal tokens, whose attention averages one value. Equal rows of different contexts are
 * copies: always where their tokens differ; where the tokens are equal, unless the state is the
 * embedding, in which all rows of a token are equal. */
#include "harness/inspect_samples.h"

#include <stdlib.h>
#include <string.h>

struct key {
    uint64_t hash, context;
    int64_t token, sample, row;
    bool known; /* matched against the model already */
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15U;
    return h ^ h >> 29;
}

static uint64_t hash_bytes(const void *data, int64_t n)
{
    const unsigned char *p = data;
    uint64_t h = (uint64_t)n, x;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&x, p, 8);
        h = mix(h, x);
    }
    x = 0;
    memcpy(&x, p, (size_t)n);
    return mix(h, x);
}

static int64_t add_sample(const struct samples *w, int64_t sample, int state, struct key *out)
{
    const struct looked *k = &w->looked[sample];
    const struct sample *s = &k->file.sample;
    int64_t size = dtype_size(s->dtype);
    uint64_t context = 0;
    bool constant = true;
    for (int64_t p = 0; p < s->rows; p++) {
        constant = constant && s->token[p] == s->token[0];
        context = mix(context + 1, (uint64_t)s->token[p]);
        const char *row = (const char *)s->state[state] + p * s->stride[state] * size;
        out[p] = (struct key){.hash = hash_bytes(row, s->hidden * size),
                              .context = constant ? (uint64_t)s->token[0] : context,
                              .token = s->token[p],
                              .sample = sample,
                              .row = p,
                              .known = p < k->rows};
    }
    return s->rows;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_place(const struct key *x, const struct key *y)
{
    int order = compare((uint64_t)x->sample, (uint64_t)y->sample);
    return order ? order : compare((uint64_t)x->row, (uint64_t)y->row);
}

static int by_token(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = compare((uint64_t)x->token, (uint64_t)y->token);
    return order ? order : by_place(x, y);
}

static int by_hash(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = compare(x->hash, y->hash);
    return order ? order : by_place(x, y);
}

/* No token has two different rows. */
static bool is_embedding(struct key *keys, int64_t n)
{
    qsort(keys, (size_t)n, sizeof *keys, by_token);
    for (int64_t i = 1; i < n; i++) {
        if (keys[i].token == keys[i - 1].token && keys[i].hash != keys[i - 1].hash) return false;
    }
    return true;
}

static bool is_zero(const struct samples *w, const struct key *k, int state)
{
    const struct sample *s = &w->looked[k->sample].file.sample;
    int64_t size = dtype_size(s->dtype);
    const unsigned char *row =
        (const unsigned char *)s->state[state] + k->row * s->stride[state] * size;
    for (int64_t i = 0; i < s->hidden * size; i++) {
        if (row[i]) return false;
    }
    return true;
}

/* Reports the first copy of each sample, with how many there are. */
static void report(struct samples *w, int state, struct key *keys, int64_t n, bool embedding)
{
    const struct key *first = keys;
    int64_t count = 0;
    struct key copy = {0}, of = {0};
    for (int64_t i = 1; i <= n; i++) {
        const struct key *k = &keys[i];
        if (i < n && k->hash == first->hash) {
            bool wrong = k->context != first->context && !k->known &&
                         (k->token != first->token || !embedding) && !is_zero(w, k, state);
            if (wrong && count++ == 0) {
                copy = *k;
                of = *first;
            }
        } else if (i < n) {
            first = k;
        }
    }
    if (count == 0) return;
    samples_problem(
        w, "repeated rows", w->looked[copy.sample].name,
        ins_text(w->s,
                 "state %d: row %lld is the same as row %lld of %s, whose tokens differ (%lld such "
                 "rows in all)",
                 state, (long long)copy.row, (long long)of.row, w->looked[of.sample].name,
                 (long long)count),
        "extract again: a buffer was read before it was written, or a request got another's rows");
}

enum err_code samples_check_repeats(struct samples *w, struct err *err)
{
    int64_t total = 0;
    for (int64_t i = 0; i < w->count; i++)
        total += w->looked[i].open ? w->looked[i].file.sample.rows : 0;
    struct key *keys = malloc((size_t)(total + 1) * sizeof *keys);
    if (!keys) return err_set(err, ERR_MEMORY, "rows of samples|%s|no memory", w->s->path);
    for (int state = 0; state < w->states && total > 0; state++) {
        int64_t n = 0;
        for (int64_t i = 0; i < w->count; i++) {
            if (w->looked[i].open && state < w->looked[i].file.sample.states)
                n += add_sample(w, i, state, keys + n);
        }
        bool embedding = is_embedding(keys, n);
        qsort(keys, (size_t)n, sizeof *keys, by_hash);
        report(w, state, keys, n, embedding);
    }
    free(keys);
    return ERR_OK;
}
