/* verb_bench.c: `assay bench [OP...] [--on ref|gpu]`: each op as a share of what this machine's own
 * ceilings, measured in the same run, allow. It reports and never judges: exit 0 says that it ran.
 * Test: tests/test_bench.c */
#include "core/bench.h"
#include "core/ops.h"
#include "harness/bench_ranks.h"
#include "harness/bench_ref.h"
#include "harness/kernel_report.h"
#include "harness/shard_options.h"
#include "harness/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wanted(const struct args *a, const char *op)
{
    for (int i = 0; i < a->words; i++) {
        if (strcmp(a->word[i], op) == 0) return true;
    }
    return a->words == 0;
}

static enum err_code words_known(const struct args *a, const struct bench_side *side,
                                 struct err *err)
{
    for (int w = 0; w < a->words; w++) {
        const char *op;
        int i = 0;
        while ((op = side->op(i)) && strcmp(op, a->word[w]) != 0) i++;
        if (!op && op_find(a->word[w]))
            return err_set(err, ERR_USAGE, "bench|side %s|no case of op %s|an op that has one",
                           side->name, a->word[w]);
        if (!op)
            return err_set(err, ERR_USAGE, "bench|side %s|\"%s\"|names of ops, see assay op --list",
                           side->name, a->word[w]);
    }
    return ERR_OK;
}

static enum err_code side_of(const struct args *a, const struct bench_side **out, struct err *err)
{
    static const char *const names[] = {"ref", "gpu", NULL};
    int chosen;
    if (args_choice(a, "--on", names, 0, &chosen, err) != ERR_OK) return err->code;
    const struct op_side *side = chosen ? gpu_side() : ref_side();
    if (!side->available)
        return err_set(err, ERR_DEVICE, "bench|side %s|%s|a build and a machine that have it",
                       side->name, side->why_not ? side->why_not : "not available");
    *out = chosen ? gpu_bench() : ref_bench();
    return ERR_OK;
}

static void row_text(const char *op, const struct bench_row *r, double share, bool memory)
{
    printf("%-12s %-84s %11.2f us  +-%4.1f %%  %8.1f GB/s %8.2f TFLOP/s  %5.1f %% of %s\n", op,
           r->text, r->seconds * 1e6, r->spread * 50, r->bytes / r->seconds / 1e9,
           r->flops / r->seconds / 1e12, share * 100, memory ? "read" : "matmul");
}

static enum err_code one_row(const struct args *a, const struct bench_side *side, int i,
                             const struct bench_ceilings *c, json_t *rows, struct err *err)
{
    struct bench_row r;
    struct kernel_log *log = calloc(1, sizeof *log);
    if (!log) return err_set(err, ERR_MEMORY, "bench||no memory");
    if (side->measure(i, &r, log, err) == ERR_OK) {
        bool memory = r.bytes / c->read > r.flops / c->matmul;
        double share = bench_share(&r, c);
        if (!a->json) row_text(side->op(i), &r, share, memory);
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:s, s:f, s:o}", "op", side->op(i),
                      "case", r.text, "on", side->name, "seconds", r.seconds, "spread", r.spread,
                      "rounds", (json_int_t)r.rounds, "gbps", r.bytes / r.seconds / 1e9, "tflops",
                      r.flops / r.seconds / 1e12, "ceiling", memory ? "read" : "matmul", "share",
                      share, "kernels", kernels_json(log)));
    } else {
        (void)err_note(err, "bench %s", side->op(i));
    }
    free(log);
    return err->code;
}

/* What ranks do together is nothing of one process's ceilings. */
static bool asks_for_ranks(const struct args *a)
{
    return a->words == 1 && strcmp(a->word[0], BENCH_COLLECTIVES) == 0;
}

static enum err_code run_ranks(const struct args *a, json_t *result, struct err *err)
{
    const struct bench_side *side = NULL;
    struct shard_plan plan;
    if (bench_ranks_plan(a, &plan, err) != ERR_OK || side_of(a, &side, err) != ERR_OK)
        return err->code;
    if (side != gpu_bench())
        return err_set(err, ERR_USAGE, "bench " BENCH_COLLECTIVES "|--on|%s|gpu", side->name);
    return bench_ranks(&plan, a->json, result, err);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    const struct bench_side *side = NULL;
    struct bench_ceilings c;
    if (asks_for_ranks(a)) return run_ranks(a, result, err);
    if (args_has(a, "--tp") || args_has(a, "--ep"))
        return err_set(err, ERR_USAGE, "bench|--tp, --ep|ops|" BENCH_COLLECTIVES ", alone");
    if (side_of(a, &side, err) != ERR_OK || words_known(a, side, err) != ERR_OK ||
        side->ceilings(&c, err) != ERR_OK)
        return err->code;
    json_t *rows = json_array();
    json_object_set_new(result, "rows", rows);
    json_object_set_new(result, "device", json_string(c.device));
    json_object_set_new(result, "ceilings",
                        json_pack("{s:f, s:f, s:f, s:s}", "read_gbps", c.read / 1e9, "copy_gbps",
                                  c.copy / 1e9, "matmul_tflops", c.matmul / 1e12, "matmul",
                                  c.matmul_what));
    if (!a->json)
        printf("%s\nread %.1f GB/s, copy %.1f GB/s, matmul %.2f TFLOP/s (%s)\n", c.device,
               c.read / 1e9, c.copy / 1e9, c.matmul / 1e12, c.matmul_what);
    for (int i = 0; side->op(i); i++) {
        if (wanted(a, side->op(i)) && one_row(a, side, i, &c, rows, err) != ERR_OK)
            return err->code;
    }
    return ERR_OK;
}

static const struct option_row options[] = {
    {"--on", "ref|gpu", "which side (ref)", false},
    SHARD_OPTION_ROWS,
    {0},
};

const struct verb verb_bench = {
    .name = "bench",
    .usage = "[OP...|" BENCH_COLLECTIVES "] [--on ref|gpu]",
    .about = "Measure this machine's ceilings (read, copy, dense product), then each op as a share "
             "of what they allow; or, over the ranks of --tp and --ep, what they do together. "
             "Reports; never judges.",
    .words_min = 0,
    .words_max = 16,
    .options = options,
    .run = run,
};
