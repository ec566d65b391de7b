/* format.c: see format.h. */
#include "reports/format.h"

#include "reports/cases.h"
#include "reports/fields.h"
#include "reports/html.h"
#include "reports/junit.h"
#include "reports/sarif.h"
#include "reports/text.h"

#include <stdbool.h>
#include <string.h>

static void render_json(const json_t *result, FILE *out)
{
    json_dumpf(result, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    fputc('\n', out);
}

/* Of a verb without a text of its own: its cases, a line each, those that passed counted only. */
static void print_cases(const json_t *result, FILE *out, struct text_view view)
{
    json_t *cases = report_cases(result), *c;
    size_t i, passed = 0;
    (void)view;
    fprintf(out, ": %zu cases\n", json_array_size(cases));
    json_array_foreach(cases, i, c)
    {
        bool pass = strcmp(text_at(c, "state"), "pass") == 0;
        passed += pass;
        if (!pass)
            fprintf(out, "  %-7s %s: %s\n", text_at(c, "state"), text_at(c, "name"),
                    text_at(c, "cause"));
    }
    fprintf(out, "  %zu passed\n", passed);
    json_decref(cases);
}

/* The texts that verbs print. `word`: NULL, or the result's. */
static const struct {
    const char *verb, *word;
    text_report *render;
} texts[] = {
    {"diff", NULL, report_diff_text},       {"run", NULL, report_plan_text},
    {"inspect", NULL, report_inspect_text}, {"contract", "check", report_check_text},
    {"lint", NULL, report_lint_text},       {"preflight", NULL, report_preflight_text},
};

static void render_text(const json_t *result, FILE *out)
{
    bool error = strcmp(text_at(result, "verdict"), "error") == 0;
    for (size_t i = 0; !error && i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].verb, text_at(result, "verb")) != 0 ||
            (texts[i].word && strcmp(texts[i].word, text_at(result, "word")) != 0))
            continue;
        texts[i].render(result, out, (struct text_view){0});
        return;
    }
    text_show(result, out, (struct text_view){0}, text_at(result, "verdict"), print_cases);
}

static const struct report_format formats[] = {
    {"junit", report_junit}, {"sarif", report_sarif}, {"html", report_html},
    {"json", render_json},   {"text", render_text},
};

const struct report_format *report_format_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strlen(formats[i].name) == length && strncmp(formats[i].name, name, length) == 0)
            return &formats[i];
    }
    return NULL;
}

const char *report_format_names(void)
{
    return "junit, sarif, html, json or text";
}
