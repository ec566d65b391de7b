/* kernel_report.c: see kernel_report.h. */
#include "harness/kernel_report.h"

json_t *kernels_json(const struct kernel_log *log)
{
    json_t *rows = json_array();
    for (int i = 0; i < log->rows; i++) {
        const struct kernel_row *r = &log->row[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:s, s:[I,I,I], s:[I,I,I], s:I, s:I}", "op",
                                        r->op, "kernel", r->kernel, "tactic", r->tactic, "grid",
                                        (json_int_t)r->grid[0], (json_int_t)r->grid[1],
                                        (json_int_t)r->grid[2], "block", (json_int_t)r->block[0],
                                        (json_int_t)r->block[1], (json_int_t)r->block[2], "shared",
                                        (json_int_t)r->shared, "calls", (json_int_t)r->calls));
    }
    if (log->lost)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I}", "op", "", "kernel", "(not listed)",
                                              "calls", (json_int_t)log->lost));
    return rows;
}

void kernels_print(const struct kernel_log *log, FILE *out)
{
    for (int i = 0; i < log->rows; i++) {
        const struct kernel_row *r = &log->row[i];
        fprintf(out, "  %-12s %-28s %6lld x", r->op, r->kernel, (long long)r->calls);
        if (r->grid[0])
            fprintf(out, "  grid %ux%ux%u block %u", r->grid[0], r->grid[1], r->grid[2],
                    r->block[0] * r->block[1] * r->block[2]);
        fprintf(out, "%s%s\n", r->tactic[0] ? "  " : "", r->tactic);
    }
    if (log->lost)
        fprintf(out, "  %lld launches more than this list has room for\n", (long long)log->lost);
}
