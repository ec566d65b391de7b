/* campaign_subject.c: see campaign_subject.h. */
#include "harness/campaign_subject.h"

#include "core/blas.h"
#include "core/check.h"
#include "harness/draft_hold.h"
#include "harness/taps_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 5, DECODE = 2, BLOCK = 4, METAS = 5 };

static enum dtype type_of(const struct tap *t)
{
    return t->ints ? DT_I32 : DT_BF16;
}

int64_t subject_tap_rows(const struct subject *s, int64_t i)
{
    return tap_is_draft(s->taps[i].kind) ? s->draft_rows : s->rows;
}

int64_t subject_tap_bytes(const struct subject *s, int64_t i)
{
    return subject_tap_rows(s, i) * s->taps[i].cols * dtype_size(type_of(&s->taps[i]));
}

static int64_t find(const struct subject *s, const char *name)
{
    for (int64_t i = 0; i < s->count; i++) {
        if (strcmp(s->taps[i].name, name) == 0) return i;
    }
    return -1;
}

static bool wants(void *ctx, const char *name)
{
    return find(ctx, name) >= 0;
}

static char *row_at(const struct subject *s, int64_t i, const struct rows *rows, int64_t row,
                    int64_t cols)
{
    CHECK(i >= 0 && cols == s->taps[i].cols && rows->dump_row[row] < s->rows);
    s->given[i] = true;
    int64_t at = rows->dump_row[row];
    if (tap_is_draft(s->taps[i].kind)) at = s->draft_row[at];
    CHECK(at >= 0);
    return (char *)s->data[i] + at * cols * dtype_size(type_of(&s->taps[i]));
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    const struct subject *s = ctx;
    int64_t i = find(s, name);
    for (int64_t r = 0; r < rows->count; r++)
        dtype_from_f64(DT_BF16, data + r * cols, cols, row_at(s, i, rows, r, cols));
    return err->code;
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    const struct subject *s = ctx;
    int64_t i = find(s, name);
    for (int64_t r = 0; r < rows->count; r++)
        memcpy(row_at(s, i, rows, r, cols), data + r * cols, (size_t)cols * sizeof *data);
    return err->code;
}

static enum err_code make(struct subject *s, const struct config *c, const struct tokens *t,
                          const struct forward_draft *draft, struct err *err)
{
    *s = (struct subject){.rows = t->count};
    s->draft_row = calloc((size_t)t->count + 1, sizeof *s->draft_row);
    if (!s->draft_row) return err_set(err, ERR_MEMORY, "run subject|rows|no memory");
    s->draft_rows = dump_draft_rows(t->count, t->length, t->sequences, s->draft_row);
    if (tap_list(c, 0, c->layers, &s->taps, &s->count, err) != ERR_OK ||
        (draft && forward_draft_taps(draft, &s->taps, &s->count, err) != ERR_OK))
        return err->code;
    s->data = calloc((size_t)s->count + 1, sizeof *s->data);
    s->given = calloc((size_t)s->count + 1, sizeof *s->given);
    bool made = s->data && s->given;
    for (int64_t i = 0; made && i < s->count; i++) {
        s->data[i] = calloc((size_t)subject_tap_bytes(s, i) + 1, 1);
        made = s->data[i] != NULL;
    }
    return made ? ERR_OK : err_set(err, ERR_MEMORY, "run subject|taps|no memory");
}

static enum err_code options_of(struct subject_how how, struct session_options *o, struct err *err)
{
    struct err none = ERR_INIT;
    const struct blas *blas;
    *o = session_defaults();
    if (profile_find(how.profile, &o->profile, err) != ERR_OK) return err->code;
    o->threads = how.threads;
    if (how.engine && !how.engine->imitates) {
        o->engine = how.engine;
        o->precision = PRECISION_F32;
        if (how.order == ORDER_CHUNKS) o->chunk = CHUNK;
        return ERR_OK;
    }
    if (how.order == ORDER_BLAS && blas_open(&blas, &none) == ERR_OK)
        o->linear = LINEAR_BLAS;
    else
        o->precision = PRECISION_F64;
    if (how.order == ORDER_CHUNKS) {
        o->chunk = CHUNK;
        o->block = BLOCK;
        /* An absorbed decode rounds elsewhere than the prefill that it is held against. */
        o->decode_last = o->profile.decode_absorbed ? 0 : DECODE;
    }
    return ERR_OK;
}

/* The target, and the head behind it; its aux states are those that the target had. */
static enum err_code run_all(struct session *session, const struct tokens *t, struct tap_sink *sink,
                             struct forward_draft *draft, struct err *err)
{
    struct tap_sink *all = draft ? forward_draft_sink(draft, sink) : sink;
    if (session_forward(session, t, all, NULL, NULL, err) != ERR_OK || !draft) return err->code;
    return forward_draft_run(draft, &session->run, t, sink, err);
}

static enum err_code open_engine(struct loaded *on, const struct subject_how *how, struct err *err)
{
    const struct engine_kind *kind = how->engine ? how->engine : ref_engine();
    if (how->ranks) return ranks_engine_open(&on->engine, kind, &on->model, how->ranks, err);
    return how->engine ? engine_open(&on->engine, kind, &on->model, err) : err->code;
}

enum err_code subject_run(struct subject *s, const struct loaded *l, const struct tokens *t,
                          struct subject_how how, struct faults *faults, struct err *err)
{
    struct session session = {0};
    struct session_options o;
    struct loaded on = *l; /* the same model, on the engine that is asked for */
    struct tap_sink sink = {.wants = wants, .reals = reals, .ints = ints, .ctx = s};
    struct forward_draft draft = {0}, *head = how.head ? &draft : NULL;
    *s = (struct subject){0};
    if (head && (forward_draft_open(head, how.head, SUBJECT_STEPS, &l->model, t, err) != ERR_OK ||
                 forward_draft_around(head, l->model.config->layers, err) != ERR_OK)) {
        forward_draft_close(head);
        return err->code;
    }
    if (make(s, l->model.config, t, head, err) == ERR_OK && options_of(how, &o, err) == ERR_OK &&
        open_engine(&on, &how, err) == ERR_OK &&
        session_open(&session, &on, &o, t->sequences, t->length, err) == ERR_OK) {
        session.run.faults = faults && faults->count ? faults : NULL;
        session.run.progress = NULL;
        (void)!run_all(&session, t, &sink, head, err);
    }
    session_close(&session);
    s->cut = how.ranks != NULL;
    if (how.ranks) s->plan = how.ranks->plan;
    if (how.edits) *how.edits = ranks_edits(&on.engine);
    if (how.engine || how.ranks) engine_close(&on.engine);
    forward_draft_close(&draft);
    return err->code;
}

void subject_free(struct subject *s)
{
    for (int64_t i = 0; s->data && i < s->count; i++) free(s->data[i]);
    free(s->draft_row);
    free(s->data);
    free(s->given);
    free(s->taps);
    *s = (struct subject){0};
}

static bool is_nan(uint16_t bf16)
{
    return (bf16 & 0x7FFF) > 0x7F80;
}

/* Which of its bits a NaN carries is the machine's choice: a comparison sees that it is one. */
static bool tap_differs(const struct subject *a, const struct subject *b, int64_t i)
{
    int64_t bytes = subject_tap_bytes(a, i);
    const uint16_t *x = a->data[i], *y = b->data[i];
    if (memcmp(x, y, (size_t)bytes) == 0) return false;
    if (a->taps[i].ints) return true;
    for (int64_t k = 0; k < bytes / 2; k++) {
        if (x[k] != y[k] && !(is_nan(x[k]) && is_nan(y[k]))) return true;
    }
    return false;
}

int64_t subject_differ(const struct subject *a, const struct subject *b, int64_t from)
{
    CHECK(a->count == b->count && a->rows == b->rows);
    for (int64_t i = from; i < a->count; i++) {
        if (tap_differs(a, b, i)) return i;
    }
    return -1;
}

/* "[1, 2]"; the caller's. */
static char *list_text(const int64_t *list, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(array, json_integer(list[i]));
    char *text = json_dumps(array, JSON_COMPACT);
    json_decref(array);
    return text;
}

static char *order_text(const struct subject *s)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < s->count; i++) {
        if (s->given[i]) json_array_append_new(array, json_string(s->taps[i].name));
    }
    char *text = json_dumps(array, JSON_COMPACT);
    json_decref(array);
    return text;
}

enum err_code subject_write(const struct subject *s, const struct tokens *t, const char *profile,
                            const char *path, struct err *err)
{
    struct assay_tap *taps = calloc((size_t)s->count + 1, sizeof *taps);
    char *tokens = list_text(t->id, t->count), *lengths = list_text(t->length, t->sequences),
         *order = order_text(s);
    int64_t n = 0;
    for (int64_t i = 0; taps && i < s->count; i++) {
        const struct tap *tap = &s->taps[i];
        if (!s->given[i]) continue;
        taps[n++] = (struct assay_tap){tap->name, type_of(tap), subject_tap_rows(s, i), tap->cols,
                                       s->data[i]};
    }
    struct shard_meta_room room;
    struct st_meta meta[METAS + SHARD_METAS] = {{"assay.tokens", tokens},
                                                {"assay.lengths", lengths},
                                                {"assay.order", order},
                                                {"assay.profile", profile},
                                                {"assay.engine", "fault campaign"}};
    if (s->cut) shard_plan_meta(&s->plan, &room, meta + METAS);
    if (!taps || !tokens || !lengths || !order)
        err_set(err, ERR_MEMORY, "write subject|%s|no memory", path);
    else
        (void)!taps_write(path, taps, n, meta, METAS + (s->cut ? SHARD_METAS : 0), err);
    free(taps);
    free(tokens);
    free(lengths);
    free(order);
    return err->code;
}
