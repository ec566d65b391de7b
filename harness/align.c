/* align.c: see align.h. */
#include "harness/align.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rows of one class of taps of a dump, draft taps or all others. */
struct side {
    const struct dump *dump;
    int64_t rows, total; /* total: all that the batch has; 0: unknown */
    const int64_t *place;
};

/* Place in the batch of each row of a dump that does not know it itself. */
static const char *guess_place(const struct side *d, const struct side *other, int64_t *place)
{
    const char *rows = st_meta(&d->dump->file, "rows");
    int64_t total = other->total ? other->total : other->rows, last = 0;
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

/* Fills row [s->rows] and says by what; both dumps' rows ascend. */
static const char *match(const struct side *s, const struct side *t, int64_t *places, int64_t *row,
                         int64_t *matched)
{
    const char *how = "place in the token list";
    const int64_t *sp = s->place, *tp = t->place;
    if (!sp) how = guess_place(s, t, places);
    if (!tp) {
        const char *truth_how = guess_place(t, s, places + s->rows);
        if (sp) how = truth_how;
    }
    if (!sp) sp = places;
    if (!tp) tp = places + s->rows;
    for (int64_t i = 0, j = 0; i < s->rows; i++) {
        while (j < t->rows && tp[j] < sp[i]) j++;
        row[i] = j < t->rows && tp[j] == sp[i] ? j : -1;
        *matched += row[i] >= 0;
    }
    return how;
}

/* One class of taps. *how stays where neither dump has such rows. */
static enum err_code align_side(const struct side *s, const struct side *t, int64_t **row,
                                int64_t *rows, int64_t *matched, const char **how, struct err *err)
{
    size_t n = (size_t)(s->rows > 0 ? s->rows : 0), m = (size_t)(t->rows > 0 ? t->rows : 0);
    *rows = s->rows;
    *row = calloc(n + 1, sizeof **row);
    int64_t *places = calloc(n + m + 1, sizeof *places);
    if (!*row || !places) {
        err_set(err, ERR_MEMORY, "align dumps|%s|no memory", s->dump->file.path);
    } else if (s->rows < 0 || t->rows < 0) {
        *rows = -1; /* taps of different row counts: only equal ones can be compared */
    } else {
        const char *by = match(s, t, places, *row, matched);
        if (*matched > 0) *how = by;
    }
    free(places);
    return err->code;
}

static enum err_code align_rows(const struct dump *s, const struct dump *t, struct alignment *a,
                                struct err *err)
{
    const struct side plain[] = {{s, s->rows, s->token_count, s->batch_row},
                                 {t, t->rows, t->token_count, t->batch_row}};
    const struct side draft[] = {{s, s->draft_rows, s->draft_total, s->draft_row},
                                 {t, t->draft_rows, t->draft_total, t->draft_row}};
    a->how = "equal count";
    if (align_side(&draft[0], &draft[1], &a->draft_row, &a->draft_rows, &a->draft_matched, &a->how,
                   err) != ERR_OK ||
        align_side(&plain[0], &plain[1], &a->row, &a->rows, &a->matched, &a->how, err) != ERR_OK)
        return err->code;
    bool untold = a->rows < 0 || a->draft_rows < 0, none = a->matched + a->draft_matched == 0;
    bool apart = (a->matched == 0 && s->rows > 0 && t->rows > 0) ||
                 (a->draft_matched == 0 && s->draft_rows > 0 && t->draft_rows > 0);
    if ((none && !untold) || apart)
        return err_set(err, ERR_INPUT,
                       "align dumps|%s and %s|no row of the same token|at least one", s->file.path,
                       t->file.path);
    return ERR_OK;
}

static bool is_draft(const struct pair *p)
{
    return p->subject->known && tap_is_draft(p->subject->kind);
}

const int64_t *align_map(const struct alignment *a, const struct pair *p)
{
    if (align_count(a, p) < 0) return NULL;
    return is_draft(p) ? a->draft_row : a->row;
}

int64_t align_count(const struct alignment *a, const struct pair *p)
{
    return is_draft(p) ? a->draft_rows : a->rows;
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
        bool moe = s->known && s->layer >= 0 && !tap_is_draft(s->kind) &&
                   (layer_is_moe(subject, s->layer) || layer_is_moe(truth, s->layer));
        a->pairs[a->count++] = (struct pair){.subject = s, .truth = t, .moe = moe};
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
    free(a->draft_row);
    *a = (struct alignment){0};
}
