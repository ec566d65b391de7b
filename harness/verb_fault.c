/* verb_fault.c: `assay fault list`, the known faults, and `assay fault run`, the campaign. The work
 * is in fault_WORD.c. */
#include "harness/fault_list.h"
#include "harness/fault_run.h"
#include "harness/report.h"
#include "harness/verb.h"

#include <string.h>

/* What may stand behind the verb. */
static const struct {
    const char *word;
    int words; /* at most, itself included */
    enum err_code (*run)(const struct args *a, json_t *result, struct err *err);
} words[] = {
    {"list", 1, fault_list},
    {"run", 2, fault_run},
};

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    char known[ERR_PART] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, a->word[0]) == 0) {
            if (a->words > words[i].words)
                return err_set(err, ERR_USAGE, "arguments|fault %s|\"%s\"|nothing behind it",
                               words[i].word, a->word[words[i].words]);
            return words[i].run(a, result, err);
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? " or " : "", words[i].word);
    }
    return err_set(err, ERR_USAGE, "arguments|fault|\"%s\"|%s", a->word[0], known);
}

static const struct option_row options[] = {
    {"--op", "NAME", "list: only faults that this op hosts", false},
    FAULT_RUN_OPTION_ROWS,
    REPORT_OPTION_ROW,
    {NULL, NULL, NULL, false},
};

const struct verb verb_fault = {
    .name = "fault",
    .usage = "list [--op NAME] | run [PLAN] [--fault GLOB] [--seed S] [--quick] [options]",
    .about = "named bugs that can be injected: the list; inject them and see what catches them",
    .details =
        "A job that has not ended after ten minutes hangs: its process is killed, it is listed "
        "as one without an outcome, and the campaign goes on (seconds: the environment's "
        "ASSAY_CAMPAIGN_JOB_S).",
    .words_min = 1,
    .words_max = 2,
    .options = options,
    .run = run,
};
