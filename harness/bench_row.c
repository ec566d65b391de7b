/* bench_row.c: see bench_row.h. */
#include "harness/bench_row.h"

#include "harness/kernel_report.h"

static bool binds_memory(const struct bench_row *r, const struct bench_ceilings *c)
{
    return r->bytes / c->read > r->flops / c->matmul;
}

json_t *bench_row_json(const char *op, const char *on, const struct bench_row *r,
                       const struct bench_ceilings *c, const struct kernel_log *log)
{
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:f, s:f}", "op", op, "case", r->text, "on", on,
                  "seconds", r->seconds, "spread", r->spread, "rounds", (json_int_t)r->rounds,
                  "gbps", r->bytes / r->seconds / 1e9, "tflops", r->flops / r->seconds / 1e12);
    json_t *profile = profile_json(r);
    if (c) {
        json_object_set_new(row, "ceiling", json_string(binds_memory(r, c) ? "read" : "matmul"));
        json_object_set_new(row, "share", json_real(bench_share(r, c)));
    }
    if (r->bus > 0) {
        json_object_set_new(row, "bytes", json_real(r->bytes));
        json_object_set_new(row, "busbw_gbps", json_real(r->bus / r->seconds / 1e9));
    }
    json_object_set_new(row, "kernels", kernels_json(log));
    if (profile) json_object_set_new(row, "profile", profile);
    return row;
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

void bench_row_print(const json_t *row, FILE *out)
{
    const json_t *old = json_object_get(row, "against");
    fprintf(out, "%-12s %-84s %11.2f us  +-%4.1f %%  %8.1f GB/s", text(row, "op"),
            text(row, "case"), number(row, "seconds") * 1e6, number(row, "spread") * 50,
            number(row, "gbps"));
    if (json_object_get(row, "ceiling"))
        fprintf(out, " %8.2f TFLOP/s  %5.1f %% of %s", number(row, "tflops"),
                number(row, "share") * 100, text(row, "ceiling"));
    if (json_object_get(row, "busbw_gbps"))
        fprintf(out, "  bus %8.1f GB/s", number(row, "busbw_gbps"));
    if (json_object_get(old, "ratio"))
        fprintf(out, "  x%.3f %s (noise %.1f %%)", number(old, "ratio"), text(old, "verdict"),
                100 * number(old, "noise"));
    else if (old)
        fprintf(out, "  new");
    fprintf(out, "\n");
}

void bench_ceilings_print(const struct bench_ceilings *c, FILE *out)
{
    fprintf(out, "%s\nread %.1f GB/s, copy %.1f GB/s, matmul %.2f TFLOP/s (%s)\n", c->device,
            c->read / 1e9, c->copy / 1e9, c->matmul / 1e12, c->matmul_what);
}

json_t *bench_ceilings_json(const struct bench_ceilings *c)
{
    return json_pack("{s:f, s:f, s:f, s:s}", "read_gbps", c->read / 1e9, "copy_gbps", c->copy / 1e9,
                     "matmul_tflops", c->matmul / 1e12, "matmul", c->matmul_what);
}
