/* rerun.c: see rerun.h. */
#include "harness/rerun.h"

#include "core/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- what enters the first layer ---- */

enum err_code rerun_overlaid(const struct rerun *r, enum rerun_side side, enum tap_kind kind,
                             int64_t layer, double *out, struct err *err)
{
    char name[TAP_NAME];
    int64_t H = r->diff->loaded.model.config->hidden;
    const struct dump *run = side == RERUN_MATH ? &r->diff->math : &r->diff->profile_run;
    tap_format(kind, layer, name);
    const struct dump_tap *t = dump_find(run, name);
    if (!t || t->cols != H || t->rows != r->rows.count)
        return err_set(err, ERR_INPUT, "run again|%s: %s|no such tap|[%lld, %lld]", run->file.path,
                       name, (long long)r->rows.count, (long long)H);
    dtype_to_f64(t->tensor->dtype, t->tensor->data, t->rows * H, out);
    anchor_overlay(r->anchor, name, H, out);
    return ERR_OK;
}

/* The residual stream as layer `first` reads it, and its sum before the last rounding: what the
 * layer before added up, where that rounds to the stream. */
static enum err_code enter(struct rerun *r, enum rerun_side side, enum rerun_entry e,
                           struct err *err)
{
    struct session *s = &r->session[side];
    int64_t n = r->rows.count * s->loaded->model.config->hidden, last = r->entry[e].first - 1;
    double *x = malloc((size_t)n * sizeof *x), *sum = malloc((size_t)n * sizeof *sum),
           *part = malloc((size_t)n * sizeof *part);
    r->entry[e].x[side] = x;
    r->entry[e].sum[side] = sum;
    enum tap_kind before = last > 0 ? TAP_OUTPUT : TAP_EMBED;
    if (!x || !sum || !part) {
        err_set(err, ERR_MEMORY, "run again|residual stream|no memory");
    } else if (rerun_overlaid(r, side, TAP_OUTPUT, last, x, err) == ERR_OK &&
               rerun_overlaid(r, side, before, last > 0 ? last - 1 : -1, sum, err) == ERR_OK &&
               rerun_overlaid(r, side, TAP_ATTN, last, part, err) == ERR_OK) {
        for (int64_t i = 0; i < n; i++) sum[i] += part[i];
        run_round(&s->run, RP_RESIDUAL, sum, n);
        if (rerun_overlaid(r, side, TAP_MLP, last, part, err) == ERR_OK) {
            for (int64_t i = 0; i < n; i++) {
                sum[i] += part[i];
                if (run_round_one(&s->run, RP_RESIDUAL, sum[i]) != x[i]) sum[i] = x[i];
            }
        }
    }
    free(part);
    return err->code;
}

/* ---- opening ---- */

static enum err_code make_rows(struct rerun *r, struct err *err)
{
    const struct tokens *t = &r->diff->tokens;
    size_t n = (size_t)t->count + 1;
    r->sequence = malloc(n * sizeof *r->sequence);
    r->position = malloc(n * sizeof *r->position);
    r->dump_row = malloc(n * sizeof *r->dump_row);
    if (!r->sequence || !r->position || !r->dump_row)
        return err_set(err, ERR_MEMORY, "run again|rows|no memory");
    int64_t i = 0;
    r->tap_rows = t->count;
    for (int64_t q = 0; q < t->sequences; q++) {
        for (int64_t p = 0; p < t->length[q]; p++, i++) {
            r->sequence[i] = (int32_t)q;
            r->position[i] = p;
            r->dump_row[i] = i;
        }
    }
    r->rows = (struct rows){.count = i,
                            .sequence = r->sequence,
                            .position = r->position,
                            .token = t->id,
                            .dump_row = r->dump_row};
    return ERR_OK;
}

/* The guilty tap, and what the subject recorded after it in the same layer. */
static enum err_code choose_taps(struct rerun *r, struct err *err)
{
    const struct diff *d = r->diff;
    const struct dump_tap *guilty = d->guilty.pair->truth;
    r->taps = calloc((size_t)d->rows.count + 1, sizeof *r->taps);
    if (!r->taps) return err_set(err, ERR_MEMORY, "run again|taps|no memory");
    int64_t rank = tap_rank(guilty->kind, guilty->layer);
    for (const struct pair *p = d->rows.pairs; p < d->rows.pairs + d->rows.count; p++) {
        const struct dump_tap *t = p->truth;
        bool same = t->known && tap_is_draft(t->kind) == tap_is_draft(guilty->kind) &&
                    t->layer == guilty->layer &&
                    (t->kind == TAP_EMBED) == (guilty->kind == TAP_EMBED);
        if (!same || tap_rank(t->kind, t->layer) < rank || t->cols != p->subject->cols) continue;
        struct tap *tap = &r->taps[r->count++];
        *tap = (struct tap){.kind = t->kind,
                            .layer = t->layer,
                            .cols = t->cols,
                            .ints = t->kind == TAP_EXPERTS || t->kind == TAP_DRAFT_TOKENS};
        tap_format(t->kind, t->layer, tap->name);
    }
    CHECK(r->count > 0);
    return ERR_OK;
}

enum err_code rerun_open(struct rerun *r, const struct diff *d, int threads, struct err *err)
{
    const struct config *c = d->loaded.model.config;
    const struct span *span = &d->guilty.span;
    struct profile p[RERUN_SIDES];
    *r = (struct rerun){.diff = d, .anchor = &d->anchor};
    bool head = d->guilty.layer < 0 && d->guilty.pair->truth->kind != TAP_EMBED;
    bool draft = tap_is_draft(d->guilty.pair->truth->kind);
    r->end = draft ? 0 : head ? c->layers : span->end_layer;
    int64_t first = draft ? 0 : span->first_layer >= 0 ? span->first_layer : r->end;
    r->entry[RERUN_FIRST].first = first;
    r->entry[RERUN_LEAD].first = first > 0 ? first - 1 : 0;
    if (profile_find("math", &p[RERUN_MATH], err) != ERR_OK ||
        profile_find(d->profile_name, &p[RERUN_PROFILE], err) != ERR_OK ||
        profile_find(d->profile_name, &p[RERUN_WIDE], err) != ERR_OK ||
        make_rows(r, err) != ERR_OK || choose_taps(r, err) != ERR_OK)
        return err->code;
    for (int i = 0; i < RERUN_SIDES; i++) {
        const struct session_options o =
            diff_options(&p[i], i == RERUN_PROFILE ? PRECISION_F32 : PRECISION_F64, threads);
        if (session_open(&r->session[i], &d->loaded, &o, d->tokens.sequences, d->tokens.length,
                         err) != ERR_OK)
            return err->code;
        for (int e = 0; e < RERUN_ENTRIES; e++) {
            if (r->entry[e].first > 0 &&
                enter(r, (enum rerun_side)i, (enum rerun_entry)e, err) != ERR_OK)
                return err->code;
        }
        r->session[i].run.progress = NULL; /* many short runs: the caller tells of them */
    }
    return draft ? rerun_draft_open(r, err) : ERR_OK;
}

void rerun_close(struct rerun *r)
{
    for (int i = 0; i < RERUN_SIDES; i++) {
        session_close(&r->session[i]);
        for (int e = 0; e < RERUN_ENTRIES; e++) {
            free(r->entry[e].x[i]);
            free(r->entry[e].sum[i]);
        }
    }
    rerun_draft_close(r);
    free(r->sequence);
    free(r->position);
    free(r->dump_row);
    free(r->taps);
    *r = (struct rerun){0};
}

/* ---- its taps ---- */

enum err_code rerun_taps_make(struct rerun_taps *t, const struct rerun *r, struct err *err)
{
    int64_t reals = 0, ids = 0, T = r->tap_rows;
    for (int64_t i = 0; i < r->count; i++)
        *(r->taps[i].ints ? &ids : &reals) += T * r->taps[i].cols;
    *t = (struct rerun_taps){.tensors = calloc((size_t)r->count, sizeof *t->tensors),
                             .data = calloc((size_t)reals + 1, sizeof *t->data),
                             .ids = calloc((size_t)ids + 1, sizeof *t->ids)};
    t->dump.taps = calloc((size_t)r->count, sizeof *t->dump.taps);
    if (!t->tensors || !t->data || !t->ids || !t->dump.taps)
        return err_set(err, ERR_MEMORY, "run again|taps|no memory");
    t->dump.count = r->count;
    t->dump.rows = T;
    reals = ids = 0;
    for (int64_t i = 0; i < r->count; i++) {
        const struct tap *tap = &r->taps[i];
        int64_t n = T * tap->cols;
        t->tensors[i] = (struct st_tensor){.name = tap->name,
                                           .dtype = tap->ints ? DT_I32 : DT_F64,
                                           .dims = 2,
                                           .shape = {T, tap->cols},
                                           .count = n};
        t->tensors[i].data = tap->ints ? (void *)(t->ids + ids) : (void *)(t->data + reals);
        *(tap->ints ? &ids : &reals) += n;
        t->dump.taps[i] = (struct dump_tap){.name = tap->name,
                                            .tensor = &t->tensors[i],
                                            .rows = T,
                                            .cols = tap->cols,
                                            .known = true,
                                            .kind = tap->kind,
                                            .layer = tap->layer,
                                            .order = i};
    }
    return ERR_OK;
}

void rerun_taps_free(struct rerun_taps *t)
{
    free(t->dump.taps);
    free(t->tensors);
    free(t->data);
    free(t->ids);
    *t = (struct rerun_taps){0};
}

/* ---- running ---- */

struct catcher {
    const struct rerun *r;
    struct rerun_taps *out;
    int64_t left;
    bool stored; /* rounded as the subject's dump rounds */
};

static int64_t find(const struct rerun *r, const char *name)
{
    for (int64_t i = 0; i < r->count; i++) {
        if (strcmp(r->taps[i].name, name) == 0) return i;
    }
    return -1;
}

static bool wants(void *ctx, const char *name)
{
    const struct catcher *c = ctx;
    return find(c->r, name) >= 0;
}

void rerun_store(const struct rerun *r, const char *name, double *x, int64_t n)
{
    enum dtype t = dump_find(&r->diff->subject, name)->tensor->dtype;
    if (!dtype_is_float(t) || dtype_unit(t) <= dtype_unit(DT_F32)) return;
    for (int64_t i = 0; i < n; i++) x[i] = dtype_round(t, x[i]);
}

/* The last tap that was asked for ends the run: an error that the caller knows. */
static enum err_code caught(struct catcher *c, const char *name, const void *data, size_t size,
                            struct err *err)
{
    const struct st_tensor *t = &c->out->tensors[find(c->r, name)];
    void *to = (void *)(uintptr_t)t->data;
    memcpy(to, data, (size_t)t->count * size);
    if (t->dtype == DT_F64 && c->stored) rerun_store(c->r, name, to, t->count);
    return --c->left > 0 ? ERR_OK : err_set(err, ERR_DIFF, "run again|all taps caught");
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    (void)rows;
    (void)cols;
    return caught(ctx, name, data, sizeof *data, err);
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    (void)rows;
    (void)cols;
    return caught(ctx, name, data, sizeof *data, err);
}

/* What a fault does to a term of a block's sum after it was recorded: the term is computed again,
 * with the fault, and not taken from the subject. */
static void let_flow(struct anchor *a, const struct faults *faults)
{
    for (int i = 0; faults && i < faults->count; i++) {
        const struct fault_row *row = faults->use[i].row;
        a->flows[TAP_ROUTED] |= row->added && fault_hosted_by(row, "moe");
        a->flows[TAP_SHARED] |= row->added && fault_hosted_by(row, "moe.shared");
    }
}

enum err_code rerun_go(struct rerun *r, struct rerun_how how, struct rerun_taps *out,
                       struct err *err)
{
    if (r->batch_row) return rerun_draft_go(r, how, out, err);
    struct session *s = &r->session[how.side];
    struct anchor anchor = *r->anchor;
    struct catcher c = {r, out, how.taps, how.side != RERUN_MATH};
    let_flow(&anchor, how.faults);
    const struct tap_sink sink = {.wants = wants, .reals = reals, .ints = ints, .ctx = &c};
    bool forced = r->diff->forced.count > 0 && !how.free_routing;
    const struct step step = {.model = &s->loaded->model,
                              .cache = &s->cache,
                              .rows = &r->rows,
                              .layer_end = r->end,
                              .sink = anchor_sink(&anchor, &sink),
                              .forced = forced ? forced_give : NULL,
                              .forced_ctx = (void *)(uintptr_t)&r->diff->forced,
                              .layer_first = r->entry[how.entry].first,
                              .x = r->entry[how.entry].x[how.side],
                              .sum = r->entry[how.entry].sum[how.side]};
    memset(s->cache.length, 0, (size_t)s->cache.sequences * sizeof *s->cache.length);
    s->run.faults = how.faults;
    r->runs++;
    struct err e = ERR_INIT;
    (void)!model_step_ref(&step, &s->run, &e);
    s->run.faults = NULL;
    if (c.left > 0 && e.code != ERR_OK) {
        *err = e;
        return err->code;
    }
    CHECK(c.left <= 0); /* every tap of the list is on the way */
    return ERR_OK;
}
