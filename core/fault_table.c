/* fault_table.c: the registry of fault.h, joined from the families' rows. */
#include "core/fault_edits.h"

#include <math.h>
#include <stddef.h>

const double fault_tries_ranks[] = {2, 4, 8, 16, NAN};
const double fault_tries_eps[] = {1e-5, 1e-6, NAN};

static const struct fault_row *const families[] = {
    fault_rows_int4,      fault_rows_rope,   fault_rows_mla,   fault_rows_mla_cache,
    fault_rows_mla_merge, fault_rows_router, fault_rows_moe,   fault_rows_norm,
    fault_rows_logits,    fault_rows_tp,     fault_rows_eagle, fault_rows_eagle_verify,
    fault_rows_any,       fault_rows_file,   fault_rows_env,   fault_rows_proc,
};

const struct fault_row *fault_at(int i)
{
    for (size_t f = 0; i >= 0 && f < sizeof families / sizeof families[0]; f++) {
        for (const struct fault_row *row = families[f]; row->id; row++) {
            if (i-- == 0) return row;
        }
    }
    return NULL;
}
