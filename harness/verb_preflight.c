/* verb_preflight.c: `assay preflight`: everything that can be known of a plan before the load.
 * Test: tests/test_preflight.c */
#include "harness/preflight.h"
#include "harness/report.h"
#include "harness/terminal.h"
#include "harness/verb.h"

enum { FINDINGS = 16 };

static const struct option_row options[] = {
    {"--rehearse", NULL,
     "also run the plan's own commands, under guard, on a shrunken checkpoint of its config",
     false},
    {"--all", NULL, "show all findings, notes too", false},
    REPORT_OPTION_ROW,
    {NULL, NULL, NULL, false},
};

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct plan plan;
    struct preflight p;
    if (plan_read(a->word[0], &arena, &plan, err) != ERR_OK) {
        arena_release(&arena, NULL);
        return err->code;
    }
    enum err_code rc = preflight_run(&p, &plan, args_has(a, "--rehearse"), &arena, err);
    progress_end();
    if (rc == ERR_OK) {
        preflight_json(&p, result);
        rc = preflight_verdict(&p, err);
        if (!a->json)
            report_preflight_text(result, stdout,
                                  terminal_view(args_has(a, "--all") ? 0 : FINDINGS));
    }
    preflight_free(&p);
    arena_release(&arena, NULL);
    return rc;
}

const struct verb verb_preflight = {
    .name = "preflight",
    .usage = "PLAN.yaml [--rehearse] [--all]",
    .about = "everything that can be known before the load, worst first, with what it would cost",
    .details =
        "Looks at what the key `preflight` of the plan names: the consumer against its library, "
        "scripts, the headers of all shards, the config, layer ids in both numberings, room for "
        "the samples, ranks, memory and devices, commands through their shells. --rehearse runs "
        "the plan's own commands under guard on a small checkpoint of the same config. Errors and "
        "warnings are exit 1; something that could not be checked is exit 3.",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
