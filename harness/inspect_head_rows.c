/* inspect_head_rows.c: a head's weights against each other and against the target's: blocks of fc,
 * rows of lm_head and of the embedding; see inspect_head.h. */
#include "harness/inspect_head.h"

#include "core/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a table that stand for all where each is compared with the whole vocabulary. */
enum { PROBES = 16 };

static void read_row(const struct tensor *t, int64_t row, int64_t n, void *room, double *out)
{
    dtype_to_f64(t->dtype, tensor_elements(t, row * n, n, room), n, out);
}

static void problem(struct inspection *s, const char *what, const char *tensor, const char *cause,
                    const char *remedy)
{
    ins_problem(
        s, (struct ins_problem){
               .what = what, .where = s->path, .tensor = tensor, .found = cause, .remedy = remedy});
}

/* ---- fc ---- */

enum block { BLOCK_PLAIN, BLOCK_ZERO, BLOCK_IDENTITY };

static enum block block_kind(const double *w, int64_t H, int64_t in, int64_t width, int64_t j)
{
    bool zero = true, identity = H == width;
    for (int64_t i = 0; i < H; i++) {
        for (int64_t c = 0; c < width; c++) {
            double x = w[i * in + j * width + c];
            zero = zero && x == 0;
            identity = identity && x == (i == c);
        }
    }
    return zero ? BLOCK_ZERO : identity ? BLOCK_IDENTITY : BLOCK_PLAIN;
}

static void judge_blocks(struct inspection *s, const struct head *h, const double *w)
{
    int64_t H = h->fc.out, in = h->fc.in, width = h->config.target_hidden;
    int zeros = 0, identity = -1, n = h->config.aux_count;
    for (int j = 0; j < n; j++) {
        enum block b = block_kind(w, H, in, width, j);
        zeros += b == BLOCK_ZERO;
        identity = b == BLOCK_IDENTITY ? j : identity;
    }
    if (identity >= 0 && zeros == n - 1)
        problem(
            s, "fc skipped", h->fc.data.name,
            ins_text(s, "fc.weight passes aux state %d as it is and drops the others", identity),
            "train with fc over all aux states (EAGLE3, not EAGLE)");
    else if (zeros > 0)
        problem(s, "fc ignores states", h->fc.data.name,
                ins_text(s, "%d of fc.weight's %d column blocks are zero", zeros, n),
                "train with all aux states, or give the ids of those that are used");
}

static enum err_code check_fc(struct inspection *s, const struct head *h, struct err *err)
{
    int64_t H = h->fc.out, in = h->fc.in;
    if (h->fc.format != MATRIX_DENSE || !tensor_exists(&h->fc.data)) return ERR_OK;
    double *w = malloc((size_t)(H * in) * sizeof *w), *room = malloc((size_t)in * sizeof *room);
    if (!w || !room) err_set(err, ERR_MEMORY, "check fc|%s|no memory", s->path);
    for (int64_t i = 0; i < H && err->code == ERR_OK; i++)
        read_row(&h->fc.data, i, in, room, w + i * in);
    if (err->code == ERR_OK) judge_blocks(s, h, w);
    free(w);
    free(room);
    return err->code;
}

/* ---- numbers ---- */

static bool check_finite(struct inspection *s, const struct head *h)
{
    bool finite = true;
    for (int64_t i = 0; i < h->weights.index_count; i++) {
        const struct st_tensor *t = h->weights.index[i];
        double x;
        int64_t bad = 0, first = -1;
        for (int64_t j = 0; dtype_is_float(t->dtype) && j < t->count; j++) {
            dtype_to_f64(t->dtype, (const char *)t->data + j * dtype_size(t->dtype), 1, &x);
            if (isfinite(x)) continue;
            if (bad++ == 0) first = j;
        }
        finite = finite && bad == 0;
        if (bad > 0)
            problem(s, "no numbers", t->name,
                    ins_text(s, "%s holds %lld NaN or infinities, the first at element %lld",
                             t->name, (long long)bad, (long long)first),
                    "take an earlier checkpoint of the training");
    }
    return finite;
}

/* ---- rows of a table against the target's ---- */

/* A table of the head, rows [n, H], beside one of the target's, [V, H]. */
struct table {
    const char *name;
    const struct tensor *mine, *theirs;
    int64_t n, V, H;
    const int64_t *id; /* [n] row of theirs that row i should be */
    const char *remedy;
};

struct probe {
    int64_t row, nearest;
    double near2, next2, own2, apart2; /* |s-b|^2, of the runner-up, |s-id|^2, |b-id|^2 */
};

struct probing {
    const struct table *t;
    struct probe *probe;
    double *room; /* [threads][3 * H] */
};

static double far2(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static void look_up(void *ctx, int64_t i, int worker)
{
    const struct probing *k = ctx;
    const struct table *t = k->t;
    struct probe *p = &k->probe[i];
    double *raw = k->room + worker * 3 * t->H, *mine = raw + t->H, *theirs = mine + t->H;
    read_row(t->mine, p->row, t->H, raw, mine);
    p->near2 = p->next2 = INFINITY;
    for (int64_t v = 0; v < t->V; v++) {
        read_row(t->theirs, v, t->H, raw, theirs);
        double d = far2(mine, theirs, t->H);
        if (v == t->id[p->row]) p->own2 = d;
        if (d < p->near2) {
            p->next2 = p->near2;
            p->near2 = d;
            p->nearest = v;
        } else if (d < p->next2) {
            p->next2 = d;
        }
    }
    read_row(t->theirs, p->nearest, t->H, raw, mine);
    read_row(t->theirs, t->id[p->row], t->H, raw, theirs);
    p->apart2 = far2(mine, theirs, t->H);
}

/* A row is known where its nearest one is twice as near as the next: the target's row, trained on
 * or not. Rows of a head that was not made from the target have none. */
static bool is_known(const struct probe *p)
{
    return p->near2 < 0.25 * p->next2;
}

static bool is_elsewhere(const struct probe *p, const struct table *t)
{
    return is_known(p) && p->nearest != t->id[p->row] && p->own2 - p->near2 > 0.5 * p->apart2 &&
           p->own2 > 0;
}

static void report_table(struct inspection *s, const struct table *t, const struct probe *probe,
                         int n, json_t *notes)
{
    int known = 0, elsewhere = 0, equal = 0, same = 0;
    const struct probe *first = NULL;
    for (int i = 0; i < n; i++) {
        const struct probe *p = &probe[i];
        known += is_known(p);
        equal += p->own2 == 0;
        same += is_known(p) && p->nearest == p->row;
        if (!is_elsewhere(p, t)) continue;
        if (elsewhere++ == 0) first = p;
    }
    if (elsewhere > 0)
        problem(s, "rows of other tokens", t->name,
                ins_text(s,
                         "%s[%lld] is the target's row %lld, not %lld as the map says (%d of %d "
                         "rows that were looked at%s)",
                         t->name, (long long)first->row, (long long)first->nearest,
                         (long long)t->id[first->row], elsewhere, n,
                         same == known ? "; they fit the identity" : ""),
                t->remedy);
    const char *text = equal == n ? ins_text(s, "%s: rows are the target's (fresh)", t->name)
                       : known - elsewhere > 0
                           ? ins_text(s,
                                      "%s: %d of %d rows that were looked at are nearest to "
                                      "their token's row of the target",
                                      t->name, known - elsewhere, n)
                           : ins_text(s, "%s: rows are not like the target's", t->name);
    if (json_array_append_new(notes, ins_json(text)) != 0) s->broken = true;
}

static enum err_code probe_table(const struct table *t, int threads, struct probe *probe, int *n,
                                 struct err *err)
{
    const struct run run = {.threads = threads};
    *n = t->n < PROBES ? (int)t->n : PROBES;
    struct probing k = {t, probe, malloc((size_t)(threads * 3 * t->H) * sizeof(double))};
    if (!k.room) return err_set(err, ERR_MEMORY, "compare rows|%s|no memory", t->name);
    for (int i = 0; i < *n; i++) probe[i].row = *n > 1 ? i * (t->n - 1) / (*n - 1) : 0;
    run_parallel(&run, *n, look_up, &k);
    free(k.room);
    return ERR_OK;
}

static bool is_table(const struct matrix *m)
{
    return m->format == MATRIX_DENSE && tensor_exists(&m->data);
}

static struct table head_table(const struct head *h, const struct model *target, const int64_t *id)
{
    const struct head_config *c = &h->config;
    return (struct table){.name = "lm_head.weight",
                          .mine = &h->lm_head.data,
                          .theirs = &target->head.data,
                          .n = c->draft_vocab,
                          .V = c->base.vocab,
                          .H = c->base.hidden,
                          .id = id,
                          .remedy =
                              "keep a head with the vocabulary map that it was made with: d2t "
                              "or the rows are of another build"};
}

static bool can_compare(const struct head *h, const struct model *target)
{
    return target && h->own_lm_head && h->config.base.hidden == target->config->hidden &&
           is_table(&h->lm_head) && is_table(&target->head);
}

enum err_code head_rows_agree(const struct head *h, const struct model *target, const int64_t *id,
                              int threads, int *agree, struct err *err)
{
    struct probe probe[PROBES] = {0};
    int n = 0;
    *agree = 0;
    if (!can_compare(h, target)) return ERR_OK;
    const struct table t = head_table(h, target, id);
    if (probe_table(&t, threads, probe, &n, err) != ERR_OK) return err->code;
    for (int i = 0; i < n; i++)
        *agree += is_known(&probe[i]) && probe[i].nearest == id[probe[i].row];
    return ERR_OK;
}

static enum err_code check_table(struct inspection *s, const struct table *t, int threads,
                                 json_t *notes, struct err *err)
{
    struct probe probe[PROBES] = {0};
    int n = 0;
    if (probe_table(t, threads, probe, &n, err) == ERR_OK) report_table(s, t, probe, n, notes);
    return err->code;
}

static enum err_code check_embedding(struct inspection *s, const struct head *h,
                                     const struct model *target, int threads, json_t *notes,
                                     struct err *err)
{
    int64_t V = h->config.base.vocab, *same = malloc((size_t)V * sizeof *same);
    if (!same) return err_set(err, ERR_MEMORY, "compare rows|%s|no memory", s->path);
    for (int64_t i = 0; i < V; i++) same[i] = i;
    const struct table t = {.name = "embed_tokens.weight",
                            .mine = &h->embed,
                            .theirs = &target->embed,
                            .n = V,
                            .V = V,
                            .H = h->config.base.hidden,
                            .id = same,
                            .remedy = "store the target's own embedding, or leave it out: engines "
                                      "share it"};
    (void)!check_table(s, &t, threads, notes, err);
    free(same);
    return err->code;
}

enum err_code head_check_rows(struct inspection *s, const struct head *h,
                              const struct model *target, const int64_t *id, int threads,
                              json_t *notes, bool *finite, struct err *err)
{
    *finite = check_finite(s, h);
    if (check_fc(s, h, err) != ERR_OK) return err->code;
    if (id && can_compare(h, target)) {
        const struct table t = head_table(h, target, id);
        if (check_table(s, &t, threads, notes, err) != ERR_OK) return err->code;
    }
    if (h->own_embed && target && h->config.base.hidden == target->config->hidden)
        return check_embedding(s, h, target, threads, notes, err);
    return ERR_OK;
}
