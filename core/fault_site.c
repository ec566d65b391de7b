/* fault_site.c: where a fault strikes when its site leaves that open; see fault_edits.h. Test:
 * tests/test_fault.c */
#include "core/eagle.h"
#include "core/fault_edits.h"
#include "core/synth.h"

uint64_t fault_hash(const struct fault_call *c, int64_t i)
{
    uint64_t place = synth_base((uint64_t)(c->place->layer + 1), c->place->op);
    return synth_x(synth_base(place, c->use->row->id), i);
}

int64_t fault_row_of(const struct fault_call *c, int64_t T)
{
    double row = fault_value(c->use, "row");
    const struct fault_place *p = c->place;
    const struct rows *rows = p->step ? p->step->rows : p->draft ? p->draft->rows : NULL;
    if (T < 1) return -1;
    if (row < 0) return (int64_t)(fault_hash(c, 0) % (uint64_t)T);
    if (!rows) return row < (double)T ? (int64_t)row : -1;
    for (int64_t i = 0; i < T && i < rows->count; i++) {
        if (rows->dump_row[i] == (int64_t)row) return i;
    }
    return -1;
}

double fault_eps(const struct fault_use *u, double eps)
{
    double given = fault_value(u, "eps");
    return given >= 0 ? given : eps == 1e-6 ? 1e-5 : 1e-6;
}
