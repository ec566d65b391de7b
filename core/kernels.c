/* kernels.c: see kernels.h. */
#include "core/kernels.h"

#include <string.h>

static int same_row(const struct kernel_row *a, const struct kernel_row *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
           strcmp(a->tactic, b->tactic) == 0;
}

void kernel_log_add(struct kernel_log *log, const struct kernel_row *launch)
{
    for (int i = 0; i < log->rows; i++) {
        if (!same_row(&log->row[i], launch)) continue;
        int64_t calls = log->row[i].calls + 1;
        log->row[i] = *launch;
        log->row[i].calls = calls;
        return;
    }
    if (log->rows == KERNEL_ROWS) {
        log->lost++;
        return;
    }
    log->row[log->rows] = *launch;
    log->row[log->rows++].calls = 1;
}
