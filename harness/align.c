/* align.c: see align.h. */
#include "harness/align.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batch row of each row of a dump that does not know it itself. NULL: cannot be told. */
static const char *guess_place(const struct dump *d, const struct dump *other, int64_t *place)
{
    const char *rows = st_meta(&d->file, "rows");
    int64_t total = other->token_count ? other->token_count : other->rows, last = 0;
    bool tail = rows && text_starts(rows, "last ") && text_int(rows + 5, &last) &&
                last == d->rows && total >= d->rows;
    for (int64_t i = 0; i < d->rows; i++) place[i] = tail ? total - d->rows + i : i;
    if (tail) return "the metadata \"rows\": last rows of the batch";
    return d->rows == total ? "equal count" : "leading rows";
}

/* Where both token lists are known, one must begin the other. */
static enum err_code check_tokens(const struct dump *s, const struct dump *t, struct err *err)
{
    int64_t n = s->token_count < t->token_count ? s->token_count : t->token_count;
    for (int64_t i = 0; s->tokens && t->tokens && i < n; i++) {
        if (s->tokens[i] != t->tokens[i])
            return err_set(
                err, ERR_INPUT,
                "align dumps|%s and %s: token %lld|%lld and %lld|dumps of the same tokens",
                s->file.path, t->file.path, (long long)i, (long long)s->tokens[i],
                (long long)t->tokens[i]);
    }
    bool batches = s->sequences > 1 || t->sequences > 1;
    if (batches && s->token_count != t->token_count && s->tokens && t->tokens)
        return err_set(
            err, ERR_INPUT, "align dumps|%s and %s|batches of %lld and %lld tokens|the same batch",
            s->file.path, t->file.path, (long long)s->token_count, (long long)t->token_count);
    return ERR_OK;
}

static enum err_code align_rows(const struct dump *s, const struct dump *t, struct alignment *a,
                                struct err *err)
{
    a->rows = s->rows;
    a->how = "equal count";
    a->row = calloc((size_t)(s->rows > 0 ? s->rows : 0) + 1, sizeof *a->row);
    int64_t *places =
        calloc((size_t)(s->rows > 0 ? s->rows : 0) + (size_t)(t->rows > 0 ? t->rows : 0) + 1,
               sizeof *places);
    if (!a->row || !places) {
        free(places);
        return err_set(err, ERR_MEMORY, "align dumps|%s|no memory", s->file.path);
    }
    if (s->rows < 0 ||
        t->rows < 0) { /* taps of different row counts: only equal ones can be compared */
        free(places);
        a->rows = -1;
        return ERR_OK;
    }
    const int64_t *sp = s->batch_row, *tp = t->batch_row;
    if (!sp) a->how = guess_place(s, t, places);
    if (!tp) {
        const char *how = guess_place(t, s, places + s->rows);
        if (sp) a->how = how;
    }
    if (sp && tp) a->how = "place in the token list";
    if (!sp) sp = places;
    if (!tp) tp = places + s->rows;
    for (int64_t i = 0, j = 0; i < s->rows; i++) {
        while (j < t->rows && tp[j] < sp[i]) j++; /* both ascend */
        a->row[i] = j < t->rows && tp[j] == sp[i] ? j : -1;
        a->matched += a->row[i] >= 0;
    }
    free(places);
    if (a->matched == 0)
        return err_set(err, ERR_INPUT,
                       "align dumps|%s and %s|no row of the same token|at least one", s->file.path,
                       t->file.path);
    return ERR_OK;
}

static bool layer_is_moe(const struct dump *d, int64_t layer)
{
    static const enum tap_kind signs[] = {TAP_ROUTER_LOGITS, TAP_EXPERTS, TAP_EXPERT_WEIGHTS,
                                          TAP_ROUTED, TAP_SHARED};
    char name[TAP_NAME];
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        tap_format(signs[i], layer, name);
        if (dump_find(d, name)) return true;
    }
    return false;
}

enum err_code align_dumps(const struct dump *subject, const struct dump *truth, struct alignment *a,
                          struct err *err)
{
    *a = (struct alignment){0};
    a->pairs = calloc((size_t)subject->count + 1, sizeof *a->pairs);
    a->extra = calloc((size_t)subject->count + 1, sizeof *a->extra);
    a->missing = calloc((size_t)truth->count + 1, sizeof *a->missing);
    if (!a->pairs || !a->extra || !a->missing)
        return err_set(err, ERR_MEMORY, "align dumps|%s|no memory", subject->file.path);
    if (check_tokens(subject, truth, err) != ERR_OK || align_rows(subject, truth, a, err) != ERR_OK)
        return err->code;
    for (int64_t i = 0; i < subject->count; i++) {
        const struct dump_tap *s = &subject->taps[i], *t = dump_find(truth, s->name);
        if (!t) {
            a->extra[a->extra_count++] = s->name;
            continue;
        }
        bool moe = s->known && s->layer >= 0 &&
                   (layer_is_moe(subject, s->layer) || layer_is_moe(truth, s->layer));
        a->pairs[a->count++] = (struct pair){s, t, moe};
    }
    for (int64_t i = 0; i < truth->count; i++) {
        if (!dump_find(subject, truth->taps[i].name))
            a->missing[a->missing_count++] = truth->taps[i].name;
    }
    return ERR_OK;
}

void align_free(struct alignment *a)
{
    free(a->pairs);
    free(a->missing);
    free(a->extra);
    free(a->row);
    *a = (struct alignment){0};
}
