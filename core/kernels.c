/* kernels.c: see kernels.h. */
#include "core/kernels.h"

#include <stddef.h>
#include <string.h>

static int same_row(const struct kernel_row *a, const struct kernel_row *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
           strcmp(a->tactic, b->tactic) == 0;
}

struct kernel_row *kernel_log_add(struct kernel_log *log, const struct kernel_row *launch)
{
    struct kernel_row *row = log->row, *end = log->row + log->rows;
    while (row < end && !same_row(row, launch)) row++;
    if (row == log->row + KERNEL_ROWS) {
        log->lost++;
        return NULL;
    }
    const struct kernel_row before = row < end ? *row : (struct kernel_row){0};
    if (row == end) log->rows++;
    *row = *launch;
    row->calls = before.calls + 1;
    if (row->facts.registers == 0) row->facts = before.facts;
    return row;
}
