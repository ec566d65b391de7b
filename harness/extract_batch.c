/* extract_batch.c: a batch of samples through the engine, judged, and written; see extract_job.h.
 */
#include "core/check.h"
#include "harness/extract_job.h"
#include "harness/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)STATES_MAX <= (int)SAMPLE_STATES, "a sample holds what is captured");

/* ---- gathering ---- */

bool extract_batch_full(const struct extract_job *j, const struct extract_sample *s)
{
    int64_t most = j->r->batch ? j->r->batch : EXTRACT_PENDING;
    bool tokens = j->pending_tokens > 0 && j->pending_tokens + s->count > j->r->batch_tokens;
    return j->pending_count >= most || j->pending_count == EXTRACT_PENDING || tokens;
}

enum err_code extract_batch_add(struct extract_job *j, struct extract_sample *s, struct err *err)
{
    CHECK(j->pending_count < EXTRACT_PENDING);
    if (j->pending_count == j->pending_room) {
        int64_t room = j->pending_room ? 2 * j->pending_room : 16;
        struct extract_sample *more = realloc(j->pending, (size_t)room * sizeof *more);
        if (!more) return err_set(err, ERR_MEMORY, "extract|a batch|no memory");
        j->pending = more;
        j->pending_room = room;
    }
    j->pending[j->pending_count++] = *s;
    j->pending_tokens += s->count;
    *s = (struct extract_sample){.bad = ERR_INIT};
    return ERR_OK;
}

/* ---- running ---- */

static enum err_code make_room(struct extract_job *j, int64_t rows, struct err *err)
{
    struct states *s = &j->states;
    size_t cells = (size_t)(rows * s->hidden), all = cells * (size_t)s->count;
    if (rows <= j->room) return ERR_OK;
    free(s->data);
    free(s->normed);
    free(s->bad);
    free(j->packed);
    s->data = malloc(all * sizeof *s->data);
    s->normed = j->r->format == SAMPLE_SPECFORGE ? malloc(cells * sizeof *s->normed) : NULL;
    s->bad = malloc((size_t)rows * sizeof *s->bad);
    j->packed = malloc(all * (size_t)dtype_size(j->dtype));
    bool normed = s->normed || j->r->format != SAMPLE_SPECFORGE;
    j->room = s->data && s->bad && j->packed && normed ? rows : 0;
    return j->room ? ERR_OK
                   : err_set(err, ERR_MEMORY, "extract|states of %lld tokens|no memory|%zu bytes",
                             (long long)rows, all * sizeof *s->data);
}

struct part {
    struct extract_job *job;
    int64_t samples, tokens; /* being run */
};

static void show(void *ctx, double share)
{
    const struct part *p = ctx;
    const struct extract_job *j = p->job;
    char rate[48];
    int64_t left = j->data.total - j->journal.first;
    double elapsed = clock_seconds() - j->began;
    double tokens = (double)j->result->tokens + share * (double)p->tokens;
    double done = (double)(j->journal.count - j->journal.first) + share * (double)p->samples;
    snprintf(rate, sizeof rate, "%.3g tokens a second", elapsed > 0 ? tokens / elapsed : 0);
    const struct progress now = {.stage = "sample",
                                 .done = j->journal.count,
                                 .total = j->data.total,
                                 .share = done / (double)left,
                                 .elapsed = elapsed,
                                 .rate = rate};
    progress_report(&now);
}

/* The good ones of samples [first, end) as one batch. */
static enum err_code gather(const struct extract_job *j, int64_t first, int64_t end,
                            struct tokens *t, struct err *err)
{
    int64_t count = 0, good = 0;
    for (int64_t i = first; i < end; i++) {
        count += j->pending[i].count;
        good += j->pending[i].count > 0;
    }
    *t = (struct tokens){.id = malloc((size_t)(count + 1) * sizeof *t->id),
                         .length = malloc((size_t)(good + 1) * sizeof *t->length)};
    if (!t->id || !t->length) return err_set(err, ERR_MEMORY, "extract|a batch|no memory");
    for (int64_t i = first; i < end; i++) {
        const struct extract_sample *s = &j->pending[i];
        if (s->count == 0) continue;
        memcpy(t->id + t->count, s->id, (size_t)s->count * sizeof *s->id);
        t->count += s->count;
        t->length[t->sequences++] = s->count;
    }
    return ERR_OK;
}

static void drop(struct extract_sample *s)
{
    extract_sample_free(s);
    CHECK(s->bad.code != ERR_OK);
}

/* What the engine says of a batch of one is that sample's fault, unless the machine is to blame, or
 * the ranks cannot be asked again. */
static bool is_environment(const struct extract_job *j, enum err_code code)
{
    const struct loaded *l = states_engine_loaded(&j->engine);
    bool usable = !l || ranks_usable(&l->engine);
    return code == ERR_MEMORY || code == ERR_IO || code == ERR_DEVICE || !usable;
}

/* "0-3, 7": the numbers of the good ones of samples [first, end). Returns text. */
static const char *samples_text(const struct extract_job *j, int64_t first, int64_t end, char *text,
                                size_t size)
{
    size_t n = 0;
    int64_t from = -1, last = -1;
    text[0] = '\0';
    for (int64_t i = first; i <= end && n < size; i++) {
        bool good = i < end && j->pending[i].count > 0;
        int64_t number = good ? j->pending[i].number : -1;
        if (from >= 0 && (!good || number != last + 1)) {
            n += (size_t)snprintf(text + n, size - n, "%s%lld", n ? ", " : "", (long long)from);
            if (last > from && n < size)
                n += (size_t)snprintf(text + n, size - n, "-%lld", (long long)last);
            from = -1;
        }
        if (good && from < 0) from = number;
        if (good) last = number;
    }
    return text;
}

static void blame(struct extract_sample *s, const struct err *why)
{
    err_set(&s->bad, ERR_DIFF, "%s|sample %lld: %s|%s|%s", why->what, (long long)s->number,
            why->where, why->found, why->wanted);
    for (int i = 0; i < why->notes; i++) err_note(&s->bad, "%s", why->note[i]);
    drop(s);
}

/* ---- judging ---- */

/* The first place where the stream of rows [first, first + s->count) is not finite. */
static void judge_stream(const struct extract_job *j, struct extract_sample *s, int64_t first)
{
    int64_t row = -1;
    const int32_t *bad = j->states.bad + first;
    for (int64_t i = 0; i < s->count; i++) {
        if (bad[i] >= 0 && (row < 0 || bad[i] < bad[row])) row = i;
    }
    if (row < 0) return;
    char place[64] = "embedding";
    if (bad[row] > 0) snprintf(place, sizeof place, "output of layer %d", (int)bad[row] - 1);
    err_set(&s->bad, ERR_DIFF, "extract|sample %lld: %s (entry id %d), row %lld|%s|%s",
            (long long)s->number, place, (int)bad[row], (long long)row, "NaN or infinity",
            "finite numbers; no earlier layer has any other");
}

/* The largest magnitude of a row's state; NaN where it holds one. */
static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(x[i]) <= most)) most = fabs(x[i]);
        if (isnan(most)) break;
    }
    return most;
}

static const double *state_at(const struct states *s, int64_t row, int k)
{
    bool normed = s->normed && k == s->count - 1;
    return normed ? s->normed + row * s->hidden : s->data + (row * s->count + k) * s->hidden;
}

/* Finite in the run, and still so in the type on disk. */
static void judge_range(const struct extract_job *j, struct extract_sample *s, int64_t first)
{
    const struct states *st = &j->states;
    for (int64_t i = 0; i < s->count && s->bad.code == ERR_OK; i++) {
        for (int k = 0; k < st->count && s->bad.code == ERR_OK; k++) {
            double most = largest(state_at(st, first + i, k), st->hidden);
            if (isfinite(dtype_round(j->dtype, most))) continue;
            bool normed = st->normed && k == st->count - 1;
            err_set(&s->bad, ERR_DIFF,
                    "extract|sample %lld: %s entry id %lld, row %lld|%g|a number that %s holds",
                    (long long)s->number, normed ? "final norm of" : "state at",
                    (long long)st->id[k], (long long)i, most, dtype_name(j->dtype));
        }
    }
}

/* ---- writing ---- */

/* Rows as the file will hold them: [rows][count][hidden] in its type, one rounding each. */
static void pack(const struct extract_job *j, int64_t first, int64_t rows, struct sample *out)
{
    const struct states *s = &j->states;
    int64_t bytes = s->hidden * dtype_size(j->dtype);
    for (int64_t i = 0; i < rows; i++) {
        for (int k = 0; k < s->count; k++)
            dtype_from_f64(j->dtype, state_at(s, first + i, k), s->hidden,
                           (char *)j->packed + (i * s->count + k) * bytes);
    }
    for (int k = 0; k < s->count; k++) {
        out->state[k] = (const char *)j->packed + k * bytes;
        out->stride[k] = s->count * s->hidden;
    }
}

static enum err_code measure(const char *path, struct extract_entry *e, struct err *err)
{
    struct file_map m;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    e->bytes = m.size;
    (void)!digest_sha256(m.data, m.size, path, e->sha256, err);
    file_unmap(&m);
    return err->code;
}

static enum err_code write_sample(struct extract_job *j, const struct extract_sample *s,
                                  int64_t first, struct extract_entry *e, struct err *err)
{
    char path[FILE_PATH];
    struct sample f = {.rows = s->count,
                       .hidden = j->states.hidden,
                       .states = j->states.count,
                       .dtype = j->dtype,
                       .last_normed = j->states.normed != NULL,
                       .token = s->id,
                       .mask = j->r->format == SAMPLE_VLLM ? NULL : s->mask};
    pack(j, first, s->count, &f);
    if (sample_path(j->r->format, j->journal.folder, s->number, path, err) != ERR_OK ||
        sample_write(j->r->format, path, &f, err) != ERR_OK || measure(path, e, err) != ERR_OK)
        return err_note(err, "sample %lld", (long long)s->number);
    e->tokens = s->count;
    snprintf(e->file, sizeof e->file, "%s", path + strlen(j->journal.folder) + 1);
    return ERR_OK;
}

void extract_settle(struct extract_job *j, const struct extract_sample *s,
                    const struct extract_entry *e, int64_t batch)
{
    struct extract_result *out = j->result;
    if (!e->file[0]) {
        json_t *v = json_pack("{s:I, s:s}", "sample", (json_int_t)e->sample, "why", e->why);
        if (batch >= 0) json_object_set_new(v, "batch", json_integer(batch));
        json_array_append_new(out->skipped, v);
        return;
    }
    for (int64_t i = 0; i < s->count; i++) j->freq[s->id[i]] += s->mask[i];
    j->unmasked += !s->masked;
    if (batch < 0) {
        out->resumed++;
    } else {
        out->written++;
        out->tokens += s->count;
    }
}

static enum err_code settle(struct extract_job *j, struct extract_sample *s, int64_t first,
                            struct err *err)
{
    struct extract_entry e = {.sample = s->number};
    if (s->bad.code == ERR_OK) {
        judge_stream(j, s, first);
        judge_range(j, s, first);
    }
    if (s->bad.code != ERR_OK && !j->r->skip_bad) {
        *err = s->bad;
        return err_note(err, "batch %lld", (long long)j->batch);
    }
    if (s->bad.code != ERR_OK)
        err_line(&s->bad, e.why, sizeof e.why);
    else if (write_sample(j, s, first, &e, err) != ERR_OK)
        return err->code;
    if (extract_journal_add(&j->journal, &e, err) != ERR_OK) return err->code;
    extract_settle(j, s, &e, j->batch);
    return ERR_OK;
}

/* The states of samples [first, end) into the job's buffers. What the engine says goes to `why`. */
static enum err_code run_engine(struct extract_job *j, int64_t first, int64_t end, struct err *why,
                                struct err *err)
{
    struct tokens t;
    if (gather(j, first, end, &t, err) == ERR_OK && make_room(j, t.count, err) == ERR_OK &&
        t.count > 0) {
        struct part part = {j, t.sequences, t.count};
        char samples[WORKER_SAMPLES];
        j->states.batch = j->batch;
        j->states.samples = samples_text(j, first, end, samples, sizeof samples);
        j->states.rows = t.count;
        j->states.progress = show;
        j->states.progress_ctx = &part;
        (void)!j->engine.run(j->engine.ctx, &t, &j->states, why);
        j->states.progress_ctx = NULL;
        j->states.samples = NULL;
    }
    tokens_free(&t);
    if (err->code == ERR_OK && is_environment(j, why->code)) *err = *why;
    return err_note(err, "batch %lld", (long long)j->batch);
}

/* Samples [first, end): as one batch, and where that fails each alone, so that the one at fault is
 * known and the others are not lost. */
static enum err_code run(struct extract_job *j, int64_t first, int64_t end, struct err *err)
{
    struct err why = ERR_INIT;
    if (run_engine(j, first, end, &why, err) != ERR_OK) return err->code;
    if (why.code != ERR_OK && end - first > 1) {
        for (int64_t i = first; i < end && err->code == ERR_OK; i++) (void)!run(j, i, i + 1, err);
        return err->code;
    }
    if (why.code != ERR_OK) blame(&j->pending[first], &why);
    for (int64_t i = first, row = 0; i < end && err->code == ERR_OK; i++) {
        int64_t rows = j->pending[i].count;
        (void)!settle(j, &j->pending[i], row, err);
        row += rows;
    }
    return err->code;
}

enum err_code extract_batch_flush(struct extract_job *j, struct err *err)
{
    if (j->pending_count > 0) {
        (void)!run(j, 0, j->pending_count, err);
        j->batch++;
    }
    for (int64_t i = 0; i < j->pending_count; i++) extract_sample_free(&j->pending[i]);
    j->pending_count = j->pending_tokens = 0;
    return err->code;
}
