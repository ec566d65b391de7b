/* verb_bench.c: `assay bench [OP...] [--on ref|gpu] [--against FILE]`: each op as a share of what
 * this machine's own ceilings, measured in the same run, allow, and beside a recorded run. It
 * reports and never judges: exit 0 says that it ran. Test: tests/test_bench.c */
#include "core/bench.h"
#include "core/ops.h"
#include "core/tactic.h"
#include "harness/bench_against.h"
#include "harness/bench_ranks.h"
#include "harness/bench_ref.h"
#include "harness/kernel_report.h"
#include "harness/shard_options.h"
#include "harness/tactic_options.h"
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

/* Everything that a row is made with. */
struct bench_run {
    const struct args *a;
    const struct bench_side *side;
    struct bench_ceilings ceilings;
    struct bench_against against; /* root NULL: no recorded run */
    json_t *rows;
};

static bool binds_memory(const struct bench_row *r, const struct bench_ceilings *c)
{
    return r->bytes / c->read > r->flops / c->matmul;
}

static json_t *row_json(const struct bench_run *o, const char *op, const struct bench_row *r,
                        const struct kernel_log *log)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:s, s:f, s:o}", "op", op, "case",
                     r->text, "on", o->side->name, "seconds", r->seconds, "spread", r->spread,
                     "rounds", (json_int_t)r->rounds, "gbps", r->bytes / r->seconds / 1e9, "tflops",
                     r->flops / r->seconds / 1e12, "ceiling",
                     binds_memory(r, &o->ceilings) ? "read" : "matmul", "share",
                     bench_share(r, &o->ceilings), "kernels", kernels_json(log));
}

static void row_text(const struct bench_run *o, const char *op, const struct bench_row *r,
                     const json_t *row)
{
    const json_t *old = json_object_get(row, "against");
    printf("%-12s %-84s %11.2f us  +-%4.1f %%  %8.1f GB/s %8.2f TFLOP/s  %5.1f %% of %s", op,
           r->text, r->seconds * 1e6, r->spread * 50, r->bytes / r->seconds / 1e9,
           r->flops / r->seconds / 1e12, bench_share(r, &o->ceilings) * 100,
           binds_memory(r, &o->ceilings) ? "read" : "matmul");
    if (json_object_get(old, "ratio"))
        printf("  x%.3f %s (noise %.1f %%)", json_number_value(json_object_get(old, "ratio")),
               json_string_value(json_object_get(old, "verdict")),
               100 * json_number_value(json_object_get(old, "noise")));
    else if (old)
        printf("  new");
    printf("\n");
    profile_print(r, stdout);
}

static enum err_code one_row(struct bench_run *o, int i, struct err *err)
{
    const char *op = o->side->op(i);
    struct bench_row r;
    struct kernel_log *log = calloc(1, sizeof *log);
    if (!log) return err_set(err, ERR_MEMORY, "bench||no memory");
    if (o->side->measure(i, &r, log, err) == ERR_OK) {
        json_t *row = row_json(o, op, &r, log);
        json_t *profile = profile_json(&r);
        if (profile) json_object_set_new(row, "profile", profile);
        if (!row || json_array_append_new(o->rows, row) != 0)
            err_set(err, ERR_MEMORY, "bench||no memory");
        else if (!o->against.root || bench_against_row(&o->against, row, err) == ERR_OK)
            if (!o->a->json) row_text(o, op, &r, row);
    } else {
        (void)err_note(err, "bench %s", op);
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
    if (args_has(a, "--against"))
        return err_set(err, ERR_USAGE, "bench " BENCH_COLLECTIVES "|--against|ranks|ops");
    if (bench_ranks_plan(a, &plan, err) != ERR_OK || side_of(a, &side, err) != ERR_OK)
        return err->code;
    if (side != gpu_bench())
        return err_set(err, ERR_USAGE, "bench " BENCH_COLLECTIVES "|--on|%s|gpu", side->name);
    return bench_ranks(&plan, a->json, result, err);
}

static bool wanted_op(const void *ctx, const char *op)
{
    return wanted(ctx, op);
}

static void say_against(const struct bench_run *o, json_t *result)
{
    json_t *said = bench_against_json(&o->against, wanted_op, o->a);
    const json_t *missing = json_object_get(said, "missing"), *row;
    size_t i;
    json_object_set_new(result, "against", said);
    if (o->a->json) return;
    printf("beside %s (%s): %d faster, %d slower, %d within noise, %d new, %zu missing\n",
           o->against.file, o->against.device[0] ? o->against.device : "no device named",
           o->against.faster, o->against.slower, o->against.noise, o->against.fresh,
           json_array_size(missing));
    json_array_foreach(missing, i, row) printf("missing here: %s\n", json_string_value(row));
}

static void say_ceilings(const struct bench_run *o, json_t *result)
{
    const struct bench_ceilings *c = &o->ceilings;
    json_object_set(result, "rows", o->rows);
    json_object_set_new(result, "device", json_string(c->device));
    json_object_set_new(result, "ceilings",
                        json_pack("{s:f, s:f, s:f, s:s}", "read_gbps", c->read / 1e9, "copy_gbps",
                                  c->copy / 1e9, "matmul_tflops", c->matmul / 1e12, "matmul",
                                  c->matmul_what));
    if (!o->a->json)
        printf("%s\nread %.1f GB/s, copy %.1f GB/s, matmul %.2f TFLOP/s (%s)\n", c->device,
               c->read / 1e9, c->copy / 1e9, c->matmul / 1e12, c->matmul_what);
}

static enum err_code measure_all(struct bench_run *o, json_t *result, struct err *err)
{
    if (o->side->ceilings(&o->ceilings, err) != ERR_OK) return err->code;
    say_ceilings(o, result);
    for (int i = 0; o->side->op(i); i++) {
        if (wanted(o->a, o->side->op(i)) && one_row(o, i, err) != ERR_OK) return err->code;
    }
    if (o->against.root) say_against(o, result);
    return tactic_check(err);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct bench_run o = {.a = a};
    const char *against = args_value(a, "--against");
    if (asks_for_ranks(a)) return run_ranks(a, result, err);
    if (args_has(a, "--tp") || args_has(a, "--ep"))
        return err_set(err, ERR_USAGE, "bench|--tp, --ep|ops|" BENCH_COLLECTIVES ", alone");
    if ((against && bench_against_open(&o.against, against, err) != ERR_OK) ||
        side_of(a, &o.side, err) != ERR_OK || words_known(a, o.side, err) != ERR_OK ||
        tactic_options_read(a, err) != ERR_OK) {
        bench_against_close(&o.against);
        return err->code;
    }
    o.rows = json_array();
    (void)!measure_all(&o, result, err);
    json_decref(o.rows);
    bench_against_close(&o.against);
    return err->code;
}

static const struct option_row options[] = {
    {"--on", "ref|gpu", "which side (ref)", false},
    {"--against", "FILE", "a recorded run (what --json printed): ratios, and what is only noise",
     false},
    TACTIC_OPTION_ROW,
    SHARD_OPTION_ROWS,
    {0},
};

const struct verb verb_bench = {
    .name = "bench",
    .usage = "[OP...|layer|step|" BENCH_COLLECTIVES "] [--on ref|gpu] [--against FILE]",
    .about = "each op as a share of what this machine reads, copies and multiplies",
    .details =
        "On gpu also decode layers (layer) and a whole decode step of a rank's part (step), "
        "with where their time goes. Over the ranks of --tp and --ep, with " BENCH_COLLECTIVES
        " as the only word: what they do together. It reports and never judges.",
    .words_min = 0,
    .words_max = 16,
    .options = options,
    .run = run,
};
