/* verb_bench.c: `assay bench [OP...] [--on ref|gpu] [--against FILE]`: each op as a share of what
 * this machine's own ceilings, measured in the same run, allow, and beside a recorded run. It
 * reports and never judges: exit 0 says that it ran. Test: tests/test_bench.c */
#include "core/bench.h"
#include "core/ops.h"
#include "core/tactic.h"
#include "harness/bench_against.h"
#include "harness/bench_counters.h"
#include "harness/bench_ranks.h"
#include "harness/bench_ref.h"
#include "harness/bench_row.h"
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
    struct bench_against against;   /* root NULL: no recorded run */
    struct bench_counters counters; /* file NULL: none */
    json_t *rows, *refused; /* measured; not, for the kernel that --tactic forces cannot serve */
};

static void row_text(const struct bench_row *r, const json_t *row)
{
    bench_row_print(row, stdout);
    profile_print(r, stdout);
    bench_counters_print(row, stdout);
}

/* A row that the forced kernel cannot serve is said, and the others go on. */
static enum err_code refuse_row(struct bench_run *o, const char *op, const struct bench_row *r,
                                struct err *err)
{
    char why[ERR_LINE];
    err_line(err, why, sizeof why);
    err_clear(err);
    if (!o->a->json) printf("%s %s: refused: %s\n", op, r->text, why);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "op", op, "case", r->text, "on", o->side->name,
                            "why", why);
    if (!row || json_array_append_new(o->refused, row) != 0)
        return err_set(err, ERR_MEMORY, "bench||no memory");
    return ERR_OK;
}

static enum err_code one_row(struct bench_run *o, int i, struct err *err)
{
    const char *op = o->side->op(i);
    struct bench_row r;
    struct kernel_log *log = calloc(1, sizeof *log);
    if (!log) return err_set(err, ERR_MEMORY, "bench||no memory");
    if (o->side->measure(i, &r, log, err) == ERR_OK) {
        json_t *row = bench_row_json(op, o->side->name, &r, &o->ceilings, log);
        if (row && o->counters.file) bench_counters_row(&o->counters, i + 1, &o->ceilings, row);
        if (!row || json_array_append_new(o->rows, row) != 0)
            err_set(err, ERR_MEMORY, "bench||no memory");
        else if (!o->against.root || bench_against_row(&o->against, row, err) == ERR_OK)
            if (!o->a->json) row_text(&r, row);
    } else if (err->code != ERR_USAGE || !args_has(o->a, "--tactic")) {
        (void)err_note(err, "bench %s", op);
    } else {
        (void)!refuse_row(o, op, &r, err);
    }
    free(log);
    return err->code;
}

static bool has_ranks(const struct args *a)
{
    return args_has(a, "--tp") || args_has(a, "--ep");
}

/* What only ranks can do, and what they can do as well as one card. */
static bool asks_for_ranks(const struct args *a)
{
    return a->words == 1 && (strcmp(a->word[0], BENCH_COLLECTIVES) == 0 ||
                             (strcmp(a->word[0], BENCH_LAYER) == 0 && has_ranks(a)));
}

static enum err_code run_ranks(const struct args *a, json_t *result, struct err *err)
{
    const struct bench_side *side = NULL;
    const char *against = args_value(a, "--against");
    struct bench_against old = {0};
    struct bench_ranks_request q = {.layers = strcmp(a->word[0], BENCH_LAYER) == 0};
    if (against && !q.layers)
        return err_set(err, ERR_USAGE, "bench " BENCH_COLLECTIVES "|--against|ranks|ops");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "--tactic" : "--counters";
        if (args_has(a, name))
            return err_set(err, ERR_USAGE, "bench %s|%s|ranks|ops", a->word[0], name);
    }
    if (bench_ranks_plan(a, &q.plan, err) != ERR_OK || side_of(a, &side, err) != ERR_OK)
        return err->code;
    if (side != gpu_bench())
        return err_set(err, ERR_USAGE, "bench %s|--on|%s|gpu", a->word[0], side->name);
    if (!against || bench_against_open(&old, against, err) == ERR_OK)
        (void)!bench_ranks(&q, against ? &old : NULL, a->json, result, err);
    bench_against_close(&old);
    return err->code;
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
    json_object_set_new(result, "ceilings", bench_ceilings_json(c));
    if (!o->a->json) bench_ceilings_print(c, stdout);
}

static enum err_code measure_all(struct bench_run *o, json_t *result, struct err *err)
{
    if (o->side->ceilings(&o->ceilings, err) != ERR_OK) return err->code;
    say_ceilings(o, result);
    for (int i = 0; o->side->op(i); i++) {
        if (wanted(o->a, o->side->op(i)) && one_row(o, i, err) != ERR_OK) return err->code;
    }
    if (o->against.root) say_against(o, result);
    if (o->counters.file)
        json_object_set_new(result, "counters", bench_counters_json(&o->counters));
    if (json_array_size(o->refused)) json_object_set(result, "refused", o->refused);
    if (json_array_size(o->refused) && !json_array_size(o->rows))
        return err_set(err, ERR_USAGE,
                       "bench|--tactic|every case is refused|a case that it serves");
    return tactic_check(err);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct bench_run o = {.a = a};
    const char *against = args_value(a, "--against"), *counters = args_value(a, "--counters");
    if (asks_for_ranks(a)) return run_ranks(a, result, err);
    if (has_ranks(a))
        return err_set(err, ERR_USAGE,
                       "bench|--tp, --ep|ops|" BENCH_COLLECTIVES " or " BENCH_LAYER ", alone");
    if ((!against || bench_against_open(&o.against, against, err) == ERR_OK) &&
        (!counters || bench_counters_open(&o.counters, counters, err) == ERR_OK) &&
        side_of(a, &o.side, err) == ERR_OK && words_known(a, o.side, err) == ERR_OK &&
        tactic_options_read(a, err) == ERR_OK) {
        o.rows = json_array();
        o.refused = json_array();
        (void)!measure_all(&o, result, err);
        json_decref(o.rows);
        json_decref(o.refused);
    }
    bench_against_close(&o.against);
    bench_counters_close(&o.counters);
    return err->code;
}

static const struct option_row options[] = {
    {"--on", "ref|gpu", "which side (ref)", false},
    {"--against", "FILE", "a recorded run (what --json printed): ratios, and what is only noise",
     false},
    {"--counters", "FILE",
     "on gpu: what ncu --csv --page raw wrote of the same cases: memory traffic and tensor cores "
     "of each kernel",
     false},
    TACTIC_OPTION_ROW,
    SHARD_OPTION_ROWS,
    {0},
};

const struct verb verb_bench = {
    .name = "bench",
    .usage = "[OP...|layer|step|" BENCH_COLLECTIVES
             "] [--on ref|gpu] [--against FILE] [--counters FILE]",
    .about = "each op as a share of what this machine reads, copies and multiplies",
    .details =
        "On gpu also layers of Kimi-K2.5 (layer) and a whole decode step of a rank's part (step), "
        "with where their time goes. Over the ranks of --tp and --ep one word "
        "alone: " BENCH_COLLECTIVES ", what they do together, or " BENCH_LAYER
        ", those layers cut over them; --against a run of one card then says what ranks gain. It "
        "reports and never judges.",
    .words_min = 0,
    .words_max = 16,
    .options = options,
    .run = run,
};
