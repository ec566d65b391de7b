/* fault_view.c: rows of the attention that see other slots; see fault_edits.h. Test:
 * tests/test_fault_mla.c */
#include "core/fault_edits.h"
#include "core/mla.h"

enum err_code fault_view_make(struct fault_view *v, const struct rows *from, int64_t most,
                              struct run *run, struct err *err)
{
    v->rows = *from;
    v->span = arena_alloc(run->arena, from->count, sizeof *v->span, "spans", err);
    v->extra = arena_alloc(run->arena, from->count * most, sizeof *v->extra, "seen slots", err);
    if (!v->span || !v->extra) return err->code;
    for (int64_t i = 0; i < from->count; i++) {
        const int64_t *list = NULL;
        int64_t n = rows_extras(from, i, &list);
        v->span[i] = rows_span(from, i);
        for (int64_t k = 0; k < most; k++) v->extra[i * most + k] = k < n ? list[k] : -1;
    }
    if (!v->rows.slot) v->rows.slot = from->position;
    v->rows.span = v->span;
    v->rows.extra = v->extra;
    v->rows.extra_max = most;
    return ERR_OK;
}

int64_t fault_longest(const struct rows *rows)
{
    int64_t most = 1;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t n = rows_context(rows, i);
        if (n > most) most = n;
    }
    return most;
}

void fault_thin_out(const struct fault_call *c, const struct mla_core *op, struct fault_view *v,
                    fault_sees *sees)
{
    int64_t most = v->rows.extra_max;
    for (int64_t i = 0; i < op->rows->count; i++) {
        const int64_t *list = NULL;
        int64_t span = rows_span(op->rows, i), extras = rows_extras(op->rows, i, &list), n = 0;
        int64_t kept = 0, *out = v->extra + i * most;
        while (kept < span && sees(c, op, i, kept)) kept++;
        for (int64_t s = kept; s < span; s++) {
            if (sees(c, op, i, s)) out[n++] = s;
        }
        for (int64_t e = 0; e < extras; e++) {
            if (sees(c, op, i, list[e])) out[n++] = list[e];
        }
        if (kept + n == 0) { /* nothing left */
            kept = span;
            for (n = 0; n < extras; n++) out[n] = list[n];
        }
        v->span[i] = kept;
        for (; n < most; n++) out[n] = -1;
    }
}

int64_t fault_step_begins(const struct rows *rows, int64_t i)
{
    while (i > 0 && rows->sequence[i - 1] == rows->sequence[i]) i--;
    return rows_slot(rows, i);
}
