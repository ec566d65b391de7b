/* kernel_report.c: see kernel_report.h. */
#include "harness/kernel_report.h"

#include <stdlib.h>
#include <string.h>

static json_t *row_json(const struct kernel_row *r)
{
    const struct kernel_facts *f = &r->facts;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:[I,I,I], s:[I,I,I], s:I, s:I}", "op", r->op, "kernel", r->kernel,
        "tactic", r->tactic, "grid", (json_int_t)r->grid[0], (json_int_t)r->grid[1],
        (json_int_t)r->grid[2], "block", (json_int_t)r->block[0], (json_int_t)r->block[1],
        (json_int_t)r->block[2], "shared", (json_int_t)r->shared, "calls", (json_int_t)r->calls);
    if (f->registers == 0) return row;
    json_object_update_new(row, json_pack("{s:I, s:I, s:I, s:I, s:f}", "registers",
                                          (json_int_t)f->registers, "local_bytes",
                                          (json_int_t)f->local, "static_shared",
                                          (json_int_t)f->static_shared, "blocks_per_multiprocessor",
                                          (json_int_t)f->blocks, "occupancy", f->occupancy));
    return row;
}

json_t *kernels_json(const struct kernel_log *log)
{
    json_t *rows = json_array();
    for (int i = 0; i < log->rows; i++) json_array_append_new(rows, row_json(&log->row[i]));
    if (log->lost)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I}", "op", "", "kernel", "(not listed)",
                                              "calls", (json_int_t)log->lost));
    return rows;
}

void kernels_print(const struct kernel_log *log, FILE *out)
{
    for (int i = 0; i < log->rows; i++) {
        const struct kernel_row *r = &log->row[i];
        const struct kernel_facts *f = &r->facts;
        fprintf(out, "  %-12s %-28s %6lld x", r->op, r->kernel, (long long)r->calls);
        if (r->grid[0])
            fprintf(out, "  grid %ux%ux%u block %u", r->grid[0], r->grid[1], r->grid[2],
                    r->block[0] * r->block[1] * r->block[2]);
        if (f->registers)
            fprintf(out, "  %lld registers, %lld spilled bytes, %lld resident (%.0f %%)",
                    (long long)f->registers, (long long)f->local, (long long)f->blocks,
                    100 * f->occupancy);
        fprintf(out, "%s%s\n", r->tactic[0] ? "  " : "", r->tactic);
    }
    if (log->lost)
        fprintf(out, "  %lld launches more than this list has room for\n", (long long)log->lost);
}

/* ---- where time went ---- */

static double gaps(const struct bench_row *r)
{
    return 1 - r->busy / r->span;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct bench_kernel *)a)->seconds,
           y = ((const struct bench_kernel *)b)->seconds;
    return (x < y) - (x > y);
}

static void slowest_first(const struct bench_row *r, struct bench_kernel out[BENCH_KERNELS])
{
    memcpy(out, r->kernel, (size_t)r->kernels * sizeof *out);
    qsort(out, (size_t)r->kernels, sizeof *out, by_seconds);
}

json_t *profile_json(const struct bench_row *r)
{
    struct bench_kernel kernel[BENCH_KERNELS];
    if (r->kernels == 0) return NULL;
    json_t *rows = json_array();
    slowest_first(r, kernel);
    for (int i = 0; i < r->kernels; i++)
        json_array_append_new(rows,
                              json_pack("{s:s, s:I, s:f}", "kernel", kernel[i].name, "calls",
                                        (json_int_t)kernel[i].calls, "seconds", kernel[i].seconds));
    json_t *out = json_pack("{s:f, s:f, s:f, s:f, s:o}", "seconds", r->whole, "busy_seconds",
                            r->busy, "gaps", gaps(r), "span_seconds", r->span, "kernels", rows);
    if (r->queued > 0)
        json_object_update_new(
            out, json_pack("{s:f, s:f}", "queued_seconds", r->queued, "launch_seconds", r->submit));
    return out;
}

void profile_print(const struct bench_row *r, FILE *out)
{
    struct bench_kernel kernel[BENCH_KERNELS];
    if (r->kernels == 0) return;
    slowest_first(r, kernel);
    fprintf(out,
            "  recorded: kernels run for %.2f of %.2f us, gaps %.1f %%; with its launch: %.2f us\n",
            r->busy * 1e6, r->span * 1e6, 100 * gaps(r), r->whole * 1e6);
    if (r->queued > 0)
        fprintf(out,
                "  one behind the other, with no wait for the host: %.2f us; the host's launch: "
                "%.2f us\n",
                r->queued * 1e6, r->submit * 1e6);
    for (int i = 0; i < r->kernels; i++)
        fprintf(out, "  %-36s %6lld x %10.2f us  %5.1f %%\n", kernel[i].name,
                (long long)kernel[i].calls, kernel[i].seconds * 1e6,
                100 * kernel[i].seconds / r->span);
}
