/* verb_run.c: `assay run PLAN.yaml`: a plan, its verdict, its reports. The work is in plan_run.c.
 */
#include "core/file.h"
#include "harness/plan_run.h"
#include "harness/record.h"
#include "harness/report.h"
#include "harness/terminal.h"
#include "harness/verb.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TABLE_ROWS = 40 };

static const struct option_row options[] = {
    {"--out", "DIR", "dumps, result.json and result.txt (default build/reports/PLAN)", false},
    REPORT_OPTION_ROW,
    {"--bless", "=show|write",
     "record goldens of your own engine after showing what would change; without a terminal, "
     "only show",
     false},
    {NULL, NULL, NULL, false},
};

static enum err_code read_bless(const struct args *a, enum bless_mode *out, struct err *err)
{
    static const char *const modes[] = {"show", "write", NULL};
    const char *text = args_value(a, "--bless");
    int mode;
    *out = BLESS_NO;
    if (!text) return ERR_OK;
    bool seen = isatty(STDIN_FILENO) && (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO));
    *out = seen ? BLESS_WRITE : BLESS_SHOW;
    if (!text[0]) return ERR_OK;
    if (args_choice(a, "--bless", modes, 0, &mode, err) != ERR_OK) return err->code;
    *out = mode ? BLESS_WRITE : BLESS_SHOW;
    return ERR_OK;
}

/* build/reports/NAME of PATH/NAME.yaml. */
static void default_folder(const char *plan, char *out, size_t size)
{
    const char *slash = strrchr(plan, '/'), *name = slash ? slash + 1 : plan;
    const char *dot = strrchr(name, '.');
    size_t length = dot && dot != name ? (size_t)(dot - name) : strlen(name);
    snprintf(out, size, "build/reports/%.*s", (int)length, name);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct arena arena = ARENA_INIT;
    struct plan plan;
    enum bless_mode bless;
    char folder[FILE_PATH];
    enum err_code rc;
    if (read_bless(a, &bless, err) != ERR_OK) return err->code;
    if (plan_read(a->word[0], &arena, &plan, err) != ERR_OK) {
        arena_release(&arena, NULL);
        return err->code;
    }
    default_folder(a->word[0], folder, sizeof folder);
    const char *out = args_value(a, "--out") ? args_value(a, "--out") : folder;
    rc = plan_run(&plan, out, bless, result, err);
    arena_release(&arena, NULL);
    /* Where nothing was run, nothing is recorded. */
    if (json_array_size(json_object_get(result, "steps")) == 0) return rc;
    struct err writing = ERR_INIT;
    if (record_result(result, out, "result", report_plan_text, &writing) != ERR_OK &&
        (rc == ERR_OK || rc == ERR_DIFF)) {
        *err = writing;
        rc = err->code;
    }
    if (!a->json) {
        report_plan_text(result, stdout, terminal_view(TABLE_ROWS));
        if (writing.code == ERR_OK) printf("report: %s/result.json\n", out);
    }
    return rc;
}

const struct verb verb_run = {
    .name = "run",
    .usage = "PLAN.yaml [--out DIR] [--bless[=show|write]]",
    .about = "run a plan: its steps in order, one verdict, all reports",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
