/* rerun_draft.c: a draft head's steps again, held at the subject's own inputs, under faults; see
 * rerun.h. */
#include "harness/rerun.h"

#include "core/check.h"

#include <stdlib.h>
#include <string.h>

/* The states of these entry ids as the comparison's run on this side had them, under what the
 * subject recorded. */
static enum err_code gather(const struct rerun *r, enum rerun_side side, const struct states *s,
                            double **out, struct err *err)
{
    int64_t H = s->hidden, n = r->rows.count;
    double *x = malloc((size_t)(n * H) * sizeof *x + 1);
    *out = malloc((size_t)(n * s->count * H) * sizeof *x + 1);
    if (!x || !*out) (void)!err_set(err, ERR_MEMORY, "run again|aux states|no memory");
    for (int k = 0; k < s->count && err->code == ERR_OK; k++) {
        if (rerun_overlaid(r, side, s->id[k] ? TAP_OUTPUT : TAP_EMBED, s->id[k] - 1, x, err) !=
            ERR_OK)
            break;
        for (int64_t i = 0; i < n; i++)
            memcpy(*out + (i * s->count + k) * H, x + i * H, (size_t)H * sizeof *x);
    }
    free(x);
    return err->code;
}

enum err_code rerun_draft_open(struct rerun *r, struct err *err)
{
    const struct forward_draft *d = &r->diff->draft;
    r->batch_row = draft_hold_rows(&r->diff->tokens);
    r->tap_rows = r->diff->tokens.count - r->diff->tokens.sequences;
    if (!r->batch_row) return err_set(err, ERR_MEMORY, "run again|draft rows|no memory");
    for (int i = 0; i < RERUN_SIDES; i++) {
        if (gather(r, (enum rerun_side)i, &d->states, &r->aux[i], err) != ERR_OK ||
            (d->near[0] && gather(r, (enum rerun_side)i, &d->around, &r->around[i], err) != ERR_OK))
            return err->code;
    }
    return ERR_OK;
}

void rerun_draft_close(struct rerun *r)
{
    for (int i = 0; i < RERUN_SIDES; i++) {
        free(r->aux[i]);
        free(r->around[i]);
    }
    free(r->batch_row);
}

/* ---- running ---- */

struct catcher {
    const struct rerun *r;
    struct rerun_taps *out;
    int64_t taps;   /* of them, those that are kept */
    int64_t *place; /* [batch rows]: row of a draft tap */
};

static int64_t find(const struct catcher *c, const char *name)
{
    for (int64_t i = 0; i < c->taps; i++) {
        if (strcmp(c->r->taps[i].name, name) == 0) return i;
    }
    return -1;
}

static bool wants(void *ctx, const char *name)
{
    return find(ctx, name) >= 0;
}

static void keep(const struct catcher *c, const char *name, const struct rows *rows, int64_t cols,
                 const void *data, size_t size)
{
    char *to = (char *)(uintptr_t)c->out->tensors[find(c, name)].data;
    size_t bytes = (size_t)cols * size;
    for (int64_t i = 0; i < rows->count; i++)
        memcpy(to + (size_t)c->place[rows->dump_row[i]] * bytes,
               (const char *)data + (size_t)i * bytes, bytes);
}

static enum err_code reals(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                           const double *data, struct err *err)
{
    keep(ctx, name, rows, cols, data, sizeof *data);
    return err->code;
}

static enum err_code ints(void *ctx, const char *name, const struct rows *rows, int64_t cols,
                          const int32_t *data, struct err *err)
{
    keep(ctx, name, rows, cols, data, sizeof *data);
    return err->code;
}

static void store_all(const struct catcher *c)
{
    for (int64_t i = 0; i < c->taps; i++) {
        const struct st_tensor *t = &c->out->tensors[i];
        if (t->dtype == DT_F64) rerun_store(c->r, t->name, (double *)(uintptr_t)t->data, t->count);
    }
}

enum err_code rerun_draft_go(struct rerun *r, struct rerun_how how, struct rerun_taps *out,
                             struct err *err)
{
    struct catcher c = {.r = r, .out = out, .taps = how.taps};
    struct tap_sink sink = {.wants = wants, .reals = reals, .ints = ints, .ctx = &c};
    struct forward_draft draft = r->diff->draft; /* borrowed: not closed */
    struct run run = r->session[how.side].run;
    draft.states.data = r->aux[how.side];
    draft.around.data = r->around[how.side];
    draft.steps = r->diff->guilty.layer + 1;
    CHECK(draft.steps <= r->diff->draft.steps);
    c.place = calloc((size_t)r->rows.count + 1, sizeof *c.place);
    if (!c.place) return err_set(err, ERR_MEMORY, "run again|draft rows|no memory");
    for (int64_t i = 0; i < r->tap_rows; i++) c.place[r->batch_row[i]] = i;
    run.faults = how.faults;
    r->runs++;
    if (forward_draft_run(&draft, &run, &r->diff->tokens, &sink, err) == ERR_OK &&
        how.side != RERUN_MATH)
        store_all(&c);
    free(c.place);
    return err->code;
}
