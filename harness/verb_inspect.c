/* verb_inspect.c: what a checkpoint, a draft head, a dump, training samples or a safetensors file
 * is, and all that is wrong with it. */
#include "core/dump.h"
#include "core/file.h"
#include "core/text.h"
#include "harness/foreign.h"
#include "harness/inspect_head.h"
#include "harness/inspect_samples.h"
#include "harness/session.h"
#include "harness/report.h"
#include "harness/terminal.h"
#include "harness/verb.h"

enum { LINES = 40 };

static const struct option_row options[] = {
    {"--model", "MODEL", "of a dump, a head, samples: the model that they belong to", false},
    {"--samples", "DIR", "of a head: samples that tell which wiring explains them best", false},
    {"--count", "N", "samples that are read (default 64)", false},
    {"--rows", "N", "tokens of them that are recomputed (default 1024)", false},
    {"--record", "FILE", "write the checkpoint's contract: a hash of every tensor", false},
    {"--against", "FILE", "what changed since the contract was recorded", false},
    {"--threads", "N", "threads that hash or compute (default: all)", false},
    {"--map", "MAP", "of another engine's dump: FILE, transformers, vllm or sglang", false},
    {"--dtype", "TYPE", "what void and unsigned integers of a .npy hold: bf16, f8_e4m3, ...",
     false},
    {"--step", "N", "which forward pass of a folder that holds several", false},
    REPORT_OPTION_ROW,
    {NULL, NULL, NULL, false},
};

/* ---- samples and heads ---- */

enum { COUNT = 64, ROWS = 1024 };

/* What may be asked of samples and heads. */
static enum err_code read_sampling(const struct args *a, struct samples_options *o, struct err *err)
{
    int64_t threads;
    *o = (struct samples_options){0};
    if (args_has(a, "--record") || args_has(a, "--against"))
        return err_set(err, ERR_USAGE,
                       "arguments|%s|--record or --against|the folder of a "
                       "checkpoint",
                       a->word[0]);
    if (!args_has(a, "--model") && args_has(a, "--rows"))
        return err_set(err, ERR_USAGE, "arguments|inspect|--rows alone|--model with it");
    if (args_int(a, "--count", 1, INT32_MAX, COUNT, &o->count, err) != ERR_OK ||
        args_int(a, "--rows", 1, INT32_MAX, ROWS, &o->rows, err) != ERR_OK ||
        args_int(a, "--threads", 1, SESSION_THREADS_MAX, session_defaults().threads, &threads,
                 err) != ERR_OK)
        return err->code;
    o->threads = (int)threads;
    return ERR_OK;
}

static enum err_code inspect_sampling(const struct args *a, struct inspection *s, bool head,
                                      json_t *result, struct err *err)
{
    struct samples_options o;
    const char *samples = args_value(a, "--samples"), *model = args_value(a, "--model");
    if (read_sampling(a, &o, err) != ERR_OK) return err->code;
    if (samples && !head)
        return err_set(err, ERR_USAGE, "arguments|%s|--samples with samples|a draft head",
                       a->word[0]);
    if (samples && !model)
        return err_set(err, ERR_USAGE, "arguments|inspect|--samples alone|--model with it");
    return head ? inspect_head(s, &o, model, samples, result, err)
                : inspect_samples(s, &o, model, result, err);
}

/* ---- checkpoints, dumps, files ---- */

static enum err_code check_options(const struct args *a, bool folder, bool dump, struct err *err)
{
    const char *record = args_value(a, "--record"), *against = args_value(a, "--against");
    if (args_has(a, "--samples") || args_has(a, "--count") || args_has(a, "--rows"))
        return err_set(err, ERR_USAGE,
                       "arguments|%s|--samples, --count or --rows|a draft head or samples",
                       a->word[0]);
    if (record && against)
        return err_set(err, ERR_USAGE, "arguments|inspect|--record and --against|one of them");
    if ((record || against) && !folder)
        return err_set(err, ERR_USAGE, "arguments|%s|a file with --%s|the folder of a checkpoint",
                       a->word[0], record ? "record" : "against");
    if (args_has(a, "--threads") && !record && !against)
        return err_set(err, ERR_USAGE,
                       "arguments|inspect|--threads alone|--record or --against with it");
    if (args_has(a, "--model") && !dump)
        return err_set(err, ERR_USAGE,
                       "arguments|%s|%s with --model|a dump, a draft head or samples", a->word[0],
                       folder ? "a folder" : "a file without taps");
    return ERR_OK;
}

static enum err_code inspect(const struct args *a, struct inspection *s, json_t *result,
                             struct err *err)
{
    const char *record = args_value(a, "--record"), *against = args_value(a, "--against");
    bool folder = file_is_folder(s->path), dump = false;
    int64_t threads;
    if (args_int(a, "--threads", 1, SESSION_THREADS_MAX, session_defaults().threads, &threads,
                 err) != ERR_OK)
        return err->code;
    if (folder && check_options(a, folder, dump, err) != ERR_OK) return err->code;
    if ((folder ? inspect_folder(s, err) : inspect_file(s, &dump, err)) != ERR_OK ||
        check_options(a, folder, dump, err) != ERR_OK)
        return err->code;
    if (dump && ins_dump(s, args_value(a, "--model"), result, err) != ERR_OK) return err->code;
    if (record && ins_record(s, record, (int)threads, result, err) != ERR_OK) return err->code;
    if (against && ins_against(s, against, (int)threads, result, err) != ERR_OK) return err->code;
    return inspect_json(s, folder ? "checkpoint" : dump ? "dump" : "safetensors", result, err);
}

/* ---- files and folders of others ---- */

/* A folder with a config.json is a checkpoint; a map makes any file another engine's dump. */
static bool is_foreign(const struct args *a)
{
    struct err ignored = ERR_INIT;
    char config[FILE_PATH];
    if (args_has(a, "--map")) return true;
    if (!foreign_is(a->word[0])) return false;
    return !file_is_folder(a->word[0]) ||
           file_join(a->word[0], "config.json", config, &ignored) != ERR_OK || !file_exists(config);
}

static enum err_code inspect_foreign(const struct args *a, struct inspection *s, json_t *result,
                                     struct err *err)
{
    struct foreign_options o;
    struct dump d = {0};
    bool taps = false;
    if (foreign_read_options(a, &o, err) != ERR_OK) return err->code;
    if (foreign_open(&d, s->path, &o, err) == ERR_OK) {
        for (int64_t i = 0; i < d.count; i++) taps |= d.taps[i].known;
        if (check_options(a, false, taps, err) == ERR_OK && ins_foreign(s, &d, err) == ERR_OK &&
            ins_dump_open(s, &d, args_value(a, "--model"), result, err) == ERR_OK)
            (void)!inspect_json(s, taps ? "dump" : "tensors", result, err);
    }
    dump_close(&d);
    return err->code;
}

static bool is_sampling(const struct args *a, bool *head)
{
    *head = head_is(a->word[0]);
    return *head || (!args_has(a, "--map") && sample_is(a->word[0]));
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct inspection s;
    bool head;
    inspection_open(&s, a->word[0]);
    enum err_code rc = is_sampling(a, &head) ? inspect_sampling(a, &s, head, result, err)
                       : is_foreign(a)       ? inspect_foreign(a, &s, result, err)
                                             : inspect(a, &s, result, err);
    progress_end();
    if (rc == ERR_OK && json_array_size(s.problems) > 0) rc = ERR_DIFF;
    if (!a->json && (rc == ERR_OK || rc == ERR_DIFF))
        report_inspect_text(result, stdout, terminal_view(LINES));
    inspection_close(&s);
    return rc;
}

const struct verb verb_inspect = {
    .name = "inspect",
    .usage = "PATH [--model MODEL] [--samples DIR] [--record FILE | --against FILE]",
    .about = "what a checkpoint, head, dump or sample is, what is wrong with it, what changed",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
