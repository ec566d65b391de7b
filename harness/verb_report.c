/* verb_report.c: `assay report RESULT.json --as FORMAT`: a kept result rendered again. */
#include "core/json.h"
#include "harness/report.h"

#include <string.h>

static const struct option_row options[] = {
    {"--as", "FORMAT", "junit, sarif, html, json or text (needed)", false},
    {"--out", "FILE", "write it there, all or nothing (default: standard output)", false},
    {NULL, NULL, NULL, false},
};

/* What `--json` printed, or what `--out DIR` of a verb kept. */
static enum err_code read_result(const char *path, json_t **out, struct err *err)
{
    if (json_read(path, out, err) != ERR_OK) return err->code;
    if (!json_is_object(*out) || !json_is_string(json_object_get(*out, "verdict")) ||
        !json_is_string(json_object_get(*out, "verb"))) {
        json_decref(*out);
        return err_set(err, ERR_INPUT, "read result|%s|no verb or no verdict|%s", path,
                       "what a verb prints with --json");
    }
    return ERR_OK;
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    const char *as = args_value(a, "--as"), *out = args_value(a, "--out");
    const struct report_format *format = as ? report_format_find(as, strlen(as)) : NULL;
    json_t *kept;
    if (!format)
        return err_set(err, ERR_USAGE, "option|--as|%s%s%s|%s", as ? "\"" : "", as ? as : "none",
                       as ? "\"" : "", report_format_names());
    if (a->json && !out)
        return err_set(err, ERR_USAGE, "option|--json|no --out|--out FILE with it, or no --json");
    if (read_result(a->word[0], &kept, err) != ERR_OK) return err->code;
    const enum err_code rc = report_render(format, kept, out, err);
    json_object_set(result, "of", json_object_get(kept, "verdict"));
    json_object_set_new(result, "as", json_string(format->name));
    if (out) json_object_set_new(result, "out", json_string(out));
    json_decref(kept);
    return rc;
}

const struct verb verb_report = {
    .name = "report",
    .usage = "RESULT.json --as junit|sarif|html|json|text [--out FILE]",
    .about = "render a kept result for CI, for a code scanner, or as a page",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
