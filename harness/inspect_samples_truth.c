/* inspect_samples_truth.c: the reference's residual stream of the samples' tokens at every entry
 * id, and the samples matched against it; see inspect_samples.h. */
#include "harness/inspect_samples.h"

#include "core/norm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference's side ---- */

static bool wants(void *ctx, const char *name)
{
    const struct truth *t = ctx;
    enum tap_kind kind;
    int64_t layer;
    return tap_parse(name, &kind, &layer) &&
           (kind == TAP_EMBED || kind == TAP_OUTPUT || (kind == TAP_LOGITS && t->keep));
}

static enum err_code take(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const double *data, struct err *err)
{
    struct truth *t = ctx;
    enum tap_kind kind;
    int64_t layer;
    (void)err;
    if (!wants(ctx, name) || !tap_parse(name, &kind, &layer)) return ERR_OK;
    if (kind == TAP_LOGITS) {
        for (int64_t i = 0; i < rows->count; i++) {
            float *out = t->logits + rows->dump_row[i] * t->kept;
            for (int64_t j = 0; j < t->kept; j++) out[j] = (float)data[i * cols + t->keep[j]];
        }
        return ERR_OK;
    }
    int64_t entry = kind == TAP_EMBED ? 0 : layer + 1;
    for (int64_t i = 0; i < rows->count; i++) {
        float *out = t->data + (entry * t->rows + rows->dump_row[i]) * t->hidden;
        for (int64_t j = 0; j < cols; j++) out[j] = (float)data[i * cols + j];
    }
    return ERR_OK;
}

static enum err_code take_ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                               const int32_t *data, struct err *err)
{
    (void)ctx, (void)name, (void)rows, (void)cols, (void)data, (void)err;
    return ERR_OK;
}

/* The final norm of one entry, row by row. */
static enum err_code add_normed(struct truth *t, struct session *s, int64_t candidate,
                                struct err *err)
{
    const struct model *m = &s->loaded->model;
    struct arena_block *mark = arena_mark(&s->arena);
    double *x = arena_alloc(&s->arena, t->hidden, sizeof *x, "row", err);
    for (int64_t r = 0; x && r < t->rows && err->code == ERR_OK; r++) {
        const float *from = truth_row(t, truth_entry(t, candidate), r);
        float *to = t->data + (candidate * t->rows + r) * t->hidden;
        for (int64_t j = 0; j < t->hidden; j++) x[j] = from[j];
        const struct norm op = {
            .T = 1, .H = t->hidden, .eps = m->config->norm_eps, .x = x, .w = &m->norm, .y = x};
        if (norm_ref(&op, &s->run, err) != ERR_OK) break;
        for (int64_t j = 0; j < t->hidden; j++) to[j] = (float)x[j];
    }
    arena_release(&s->arena, mark);
    return err->code;
}

enum err_code truth_make(struct truth *t, const struct loaded *l, const struct tokens *tokens,
                         const struct session_options *o, struct err *err)
{
    const struct config *c = l->model.config;
    struct session s = {0};
    *t = (struct truth){.layers = c->layers,
                        .rows = tokens->count,
                        .hidden = c->hidden,
                        .candidates = c->layers + 1 + TRUTH_NORMED,
                        .keep = t->keep,
                        .kept = t->kept};
    struct tap_sink sink = {.wants = wants, .reals = take, .ints = take_ints, .ctx = t};
    t->data = malloc((size_t)(t->candidates * t->rows * t->hidden) * sizeof *t->data);
    t->logits = malloc((size_t)(t->rows * t->kept + 1) * sizeof *t->logits);
    if (!t->data || !t->logits)
        return err_set(err, ERR_MEMORY, "states of all layers|%lld rows|no memory|fewer --rows",
                       (long long)t->rows);
    if (session_open(&s, l, o, tokens->sequences, tokens->length, err) == ERR_OK &&
        session_forward(&s, tokens, &sink, NULL, NULL, err) == ERR_OK) {
        for (int64_t k = 1; k <= TRUTH_NORMED && err->code == ERR_OK; k++)
            (void)!add_normed(t, &s, t->layers + k, err);
    }
    session_close(&s);
    return err->code;
}

void truth_free(struct truth *t)
{
    free(t->data);
    free(t->logits);
    *t = (struct truth){0};
}

/* ---- which rows ---- */

static bool can_run(const struct samples *w, const struct looked *k)
{
    const struct sample *s = &k->file.sample;
    if (!k->open || s->hidden != w->hidden || s->rows < 1) return false;
    for (int64_t p = 0; p < s->rows; p++) {
        if (s->token[p] < 0 || s->token[p] >= w->vocab) return false;
    }
    return true;
}

/* The budget is shared evenly: a sample that needs less leaves more to the others. A leading part
 * of a sample has the states that it has in the whole. */
static int64_t share_rows(struct samples *w)
{
    int64_t left = w->options.rows, open = 0, total = 0;
    for (int64_t i = 0; i < w->count; i++) open += can_run(w, &w->looked[i]);
    for (int64_t i = 0; i < w->count && open > 0 && left > 0; i++) {
        struct looked *k = &w->looked[i];
        if (!can_run(w, k)) continue;
        int64_t most = (left + open - 1) / open;
        k->first = total;
        k->rows = k->file.sample.rows < most ? k->file.sample.rows : most;
        total += k->rows;
        left -= k->rows;
        open--;
    }
    return total;
}

static enum err_code gather(const struct samples *w, int64_t total, struct tokens *t,
                            struct err *err)
{
    int64_t *id = malloc((size_t)total * sizeof *id), n = 0, sequences = 0;
    int64_t *length = malloc((size_t)w->count * sizeof *length);
    if (!id || !length) err_set(err, ERR_MEMORY, "tokens of samples|%s|no memory", w->path);
    for (int64_t i = 0; i < w->count && err->code == ERR_OK; i++) {
        const struct looked *k = &w->looked[i];
        if (k->rows == 0) continue;
        memcpy(id + n, k->file.sample.token, (size_t)k->rows * sizeof *id);
        n += k->rows;
        length[sequences++] = k->rows;
    }
    if (err->code == ERR_OK) (void)!tokens_copy(id, n, length, sequences, t, err);
    free(id);
    free(length);
    return err->code;
}

/* ---- matching ---- */

static enum err_code match_sample(struct samples *w, struct looked *k, struct err *err)
{
    const struct sample *f = &k->file.sample;
    double *s = malloc((size_t)(k->rows * w->hidden) * sizeof *s);
    if (!s) return err_set(err, ERR_MEMORY, "states|%s|no memory", k->name);
    for (int i = 0; i < f->states && err->code == ERR_OK; i++) {
        struct match *m = &k->match[i];
        const struct match_job job = {.truth = &w->truth,
                                      .s = s,
                                      .rows = k->rows,
                                      .first = k->first,
                                      .unit = dtype_unit(f->dtype),
                                      .threads = w->options.threads};
        m->source = malloc((size_t)k->rows * sizeof *m->source);
        m->row_error = malloc((size_t)k->rows * sizeof *m->row_error);
        sample_state_rows(f, i, 0, k->rows, s);
        if (!m->source || !m->row_error)
            err_set(err, ERR_MEMORY, "states|%s|no memory", k->name);
        else
            (void)!match_state(&job, m, err);
    }
    free(s);
    return err->code;
}

/* ---- conventions ---- */

/* What one convention gives; moved in and out of w. */
struct attempt {
    struct truth truth;
    struct match (*match)[SAMPLE_STATES]; /* [count] */
};

static void move_out(struct samples *w, struct attempt *a)
{
    a->truth = w->truth;
    for (int64_t i = 0; i < w->count; i++) {
        memcpy(a->match[i], w->looked[i].match, sizeof a->match[i]);
        memset(w->looked[i].match, 0, sizeof w->looked[i].match);
    }
    w->truth = (struct truth){.keep = a->truth.keep, .kept = a->truth.kept};
}

static void move_in(struct samples *w, struct attempt *a)
{
    w->truth = a->truth;
    for (int64_t i = 0; i < w->count; i++)
        memcpy(w->looked[i].match, a->match[i], sizeof a->match[i]);
    a->truth = (struct truth){0};
    memset(a->match, 0, (size_t)w->count * sizeof *a->match);
}

static void attempt_free(struct attempt *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        for (int s = 0; s < SAMPLE_STATES; s++) {
            free(a->match[i][s].source);
            free(a->match[i][s].row_error);
        }
    }
    truth_free(&a->truth);
    free(a->match);
}

static enum err_code match_under(struct samples *w, const struct tokens *t, const char *profile,
                                 struct err *err)
{
    struct session_options o = session_defaults();
    o.threads = w->options.threads;
    if (profile_find(profile, &o.profile, err) != ERR_OK ||
        truth_make(&w->truth, w->loaded, t, &o, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < w->count && err->code == ERR_OK; i++) {
        if (w->looked[i].rows > 0) (void)!match_sample(w, &w->looked[i], err);
    }
    return err->code;
}

/* The mean logarithm of the errors of all states; *exact: storage explains all of them. */
static double misfit(const struct samples *w, bool *exact)
{
    double sum = 0;
    int64_t n = 0;
    *exact = true;
    for (int64_t i = 0; i < w->count; i++) {
        const struct looked *k = &w->looked[i];
        for (int s = 0; k->rows > 0 && s < k->file.sample.states; s++, n++) {
            *exact = *exact && k->match[s].exact;
            sum += log(fmax(k->match[s].error, 1e-12));
        }
    }
    return n ? sum / (double)n : 0;
}

/* Engines differ in the eps of the latent norms (core/profile.h): where the config's is another
 * than theirs, states that do not fit one convention are held against the other. */
static enum err_code match_conventions(struct samples *w, const struct tokens *t, struct err *err)
{
    struct attempt math = {.match = calloc((size_t)w->count + 1, sizeof *math.match)};
    bool exact;
    if (!math.match) return err_set(err, ERR_MEMORY, "samples|%s|no memory", w->path);
    w->engine = "hf";
    if (match_under(w, t, "math", err) == ERR_OK) {
        double first = misfit(w, &exact);
        if (!exact && w->loaded->model.config->norm_eps != 1e-6) {
            move_out(w, &math);
            if (match_under(w, t, "vllm+exact", err) == ERR_OK && misfit(w, &exact) < first) {
                w->engine = "vllm";
            } else if (err->code == ERR_OK) {
                struct attempt other = {.match = calloc((size_t)w->count + 1, sizeof *other.match)};
                if (!other.match) err_set(err, ERR_MEMORY, "samples|%s|no memory", w->path);
                if (other.match) {
                    move_out(w, &other);
                    move_in(w, &math);
                    attempt_free(&other, w->count);
                }
            }
        }
    }
    attempt_free(&math, w->count);
    return err->code;
}

enum err_code samples_match(struct samples *w, struct err *err)
{
    struct tokens t = {0};
    int64_t total = share_rows(w);
    if (total == 0) return ERR_OK;
    if (gather(w, total, &t, err) == ERR_OK && match_conventions(w, &t, err) == ERR_OK)
        (void)!samples_check_noise(w, &t, err);
    tokens_free(&t);
    return err->code;
}
