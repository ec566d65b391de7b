/* verb_diff.c: two dumps beside each other. */
#include "core/file.h"
#include "harness/diff.h"
#include "harness/record.h"
#include "harness/report.h"
#include "harness/terminal.h"
#include "harness/verb.h"

#include <math.h>
#include <string.h>

enum { REQUIRE_MAX = 64 /* as many options as a line may have */, TABLE_ROWS = 12 };

static const struct option_row options[] = {
    {"--bound", "B", "largest relative RMS of a tap; a row may have 4 B", false},
    {"--profile", "NAME", "where the subject rounds (default: as it says, else by fit)", false},
    {"--profile-run", "DUMP", "the reference's own run in that profile", false},
    {"--model", "MODEL", "re-run the reference: equal routing, measured bounds, margins", false},
    {"--draft", "HEAD", "with --model: also re-run the draft head that made the draft taps", false},
    {"--tokens", "T", "tokens of the subject (default: its own metadata)", false},
    {"--map", "MAP", "names and layouts of another engine: FILE, transformers, vllm or sglang",
     false},
    {"--dtype", "TYPE", "what void and unsigned integers of a .npy hold: bf16, f8_e4m3, ...",
     false},
    {"--step", "N", "which forward pass of a folder that holds several", false},
    {"--anchor", NULL, "run each op from the subject's own inputs: names the guilty op", false},
    {"--diagnose", NULL, "also name the fault that explains it; implies --anchor", false},
    {"--require", "GLOB", "taps that must be there (may be repeated)", true},
    {"--threads", "N", "threads of the reference", false},
    SHARD_OPTION_ROWS,
    {"--out", "DIR", "also write diff.json and diff.txt there", false},
    REPORT_OPTION_ROW,
    {NULL, NULL, NULL, false},
};

static enum err_code read_request(const struct args *a, struct diff_request *r,
                                  const char **require, struct shard_plan *plan, struct err *err)
{
    int64_t threads;
    *r = (struct diff_request){.subject = a->word[0],
                               .truth = a->words > 1 ? a->word[1] : NULL,
                               .model = args_value(a, "--model"),
                               .draft = args_value(a, "--draft"),
                               .tokens = args_value(a, "--tokens"),
                               .profile = args_value(a, "--profile"),
                               .profile_run = args_value(a, "--profile-run"),
                               .require = require,
                               .anchor = args_has(a, "--anchor"),
                               .diagnose = args_has(a, "--diagnose")};
    if (foreign_read_options(a, &r->foreign, err) != ERR_OK) return err->code;
    if (args_double(a, "--bound", 0, INFINITY, NAN, &r->bound, err) != ERR_OK ||
        args_int(a, "--threads", 1, SESSION_THREADS_MAX, 0, &threads, err) != ERR_OK)
        return err->code;
    r->threads = (int)threads;
    if (shard_options_read(a, PRECISION_F32, plan, err) != ERR_OK) return err->code;
    if (shard_options_given(a)) r->plan = plan;
    for (int i = 0; i < REQUIRE_MAX; i++) require[i] = args_value_at(a, "--require", i);
    if (!r->truth && !r->model)
        return err_set(err, ERR_USAGE, "arguments|diff|one dump|SUBJECT TRUTH, or --model MODEL");
    if (!r->model && (r->tokens || r->threads || r->draft))
        return err_set(err, ERR_USAGE, "arguments|diff|%s without --model|--model MODEL with it",
                       r->draft    ? "--draft"
                       : r->tokens ? "--tokens"
                                   : "--threads");
    if (r->profile && !r->model && !r->profile_run)
        return err_set(
            err, ERR_USAGE,
            "arguments|diff|--profile alone|--model MODEL or --profile-run DUMP with it");
    return ERR_OK;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct diff d = {0};
    struct diff_request r;
    struct shard_plan plan;
    const char *require[REQUIRE_MAX + 1] = {NULL};
    if (read_request(a, &r, require, &plan, err) != ERR_OK) return err->code;
    enum err_code rc = diff_run(&d, &r, err);
    progress_end();
    if ((rc == ERR_OK || rc == ERR_DIFF) && err->code == ERR_OK) {
        const char *folder = args_value(a, "--out");
        json_object_set_new(result, "verdict", json_string(rc == ERR_OK ? "pass" : "fail"));
        if (diff_json(&d, result, err) != ERR_OK ||
            (folder && record_result(result, folder, "diff", report_diff_text, err) != ERR_OK)) {
            rc = err->code;
        } else if (!a->json) {
            report_diff_text(result, stdout, terminal_view(TABLE_ROWS));
            if (folder) printf("report: %s/diff.txt\n", folder);
        }
    }
    diff_close(&d);
    return rc;
}

const struct verb verb_diff = {
    .name = "diff",
    .usage = "SUBJECT TRUTH [--bound B] [--model MODEL [--profile P]] [options]",
    .about = "compare two dumps and say where they first diverge",
    .words_min = 1,
    .words_max = 2,
    .options = options,
    .run = run,
};
