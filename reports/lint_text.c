/* lint_text.c: the findings of `lint` for people: the verdict, then by rule what is found, why, and
 * the remedy once. */
#include "reports/text.h"

#include "reports/fields.h"

#include <string.h>

static bool is_open(const json_t *f)
{
    return !text_at(f, "accepted")[0] && strcmp(text_at(f, "severity"), "note") != 0;
}

static bool is_red(const json_t *result)
{
    const json_t *n = json_object_get(result, "counts");
    return int_at(n, "open") > 0 || json_array_size(json_object_get(result, "unread")) > 0 ||
           int_at(n, "python") + int_at(n, "shell") == 0;
}

static void print_head(const json_t *result, FILE *out)
{
    const json_t *n = json_object_get(result, "counts");
    const size_t unread = json_array_size(json_object_get(result, "unread"));
    fprintf(out,
            ": %lld findings in %lld Python and %lld shell files (%lld handlers, %lld calls, %lld "
            "shell commands looked at)",
            int_at(n, "open"), int_at(n, "python"), int_at(n, "shell"), int_at(n, "handlers"),
            int_at(n, "calls"), int_at(n, "commands"));
    if (int_at(n, "accepted")) fprintf(out, ", %lld accepted", int_at(n, "accepted"));
    if (int_at(n, "notes")) fprintf(out, ", %lld notes", int_at(n, "notes"));
    if (unread) fprintf(out, ", %zu places could not be read", unread);
    fputc('\n', out);
}

static void print_place(const json_t *f, FILE *out)
{
    fprintf(out, "    %s:%lld%s%s: %.300s", text_at(f, "file"), int_at(f, "line"),
            text_at(f, "function")[0] ? " " : "", text_at(f, "function"), text_at(f, "message"));
    if (text_at(f, "accepted")[0]) fprintf(out, " (accepted: %.200s)", text_at(f, "accepted"));
    fputc('\n', out);
}

static bool shown(const json_t *f, bool all)
{
    return all || is_open(f);
}

/* An earlier finding has the same rule: it was shown with that. */
static bool seen(const json_t *findings, size_t i, bool all)
{
    const char *rule = text_at(json_array_get(findings, i), "rule");
    for (size_t k = 0; k < i; k++) {
        const json_t *f = json_array_get(findings, k);
        if (shown(f, all) && strcmp(text_at(f, "rule"), rule) == 0) return true;
    }
    return false;
}

/* All findings of the rule of findings[i], at most `most` lines (0: all). */
static void print_rule(const json_t *findings, size_t i, FILE *out, bool all, int most)
{
    const json_t *first = json_array_get(findings, i);
    int lines = 1, hidden = 0;
    fprintf(out, "  %s (%s): %s; remedy: %s\n", text_at(first, "rule"), text_at(first, "severity"),
            text_at(first, "why"), text_at(first, "remedy"));
    for (size_t k = i; k < json_array_size(findings); k++) {
        const json_t *f = json_array_get(findings, k);
        if (!shown(f, all) || strcmp(text_at(f, "rule"), text_at(first, "rule")) != 0) continue;
        if (most > 0 && lines >= most) {
            hidden++;
            continue;
        }
        print_place(f, out);
        lines++;
    }
    if (hidden) fprintf(out, "    and %d more: --all shows them\n", hidden);
}

static int rules_shown(const json_t *findings, bool all)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(findings); i++)
        n += shown(json_array_get(findings, i), all) && !seen(findings, i, all);
    return n;
}

static void print_rest(const json_t *result, FILE *out, struct text_view view)
{
    static const char *const order[] = {"error", "warning", "note"};
    const json_t *findings = json_object_get(result, "findings"), *u;
    bool all = view.most == 0;
    size_t i;
    int rules = rules_shown(findings, all);
    int most = all || rules == 0 ? 0 : view.most / rules < 3 ? 3 : view.most / rules;
    print_head(result, out);
    for (size_t s = 0; s < sizeof order / sizeof order[0]; s++) {
        for (i = 0; i < json_array_size(findings); i++) {
            const json_t *f = json_array_get(findings, i);
            if (strcmp(text_at(f, "severity"), order[s]) != 0 || !shown(f, all)) continue;
            if (!seen(findings, i, all)) print_rule(findings, i, out, all, most);
        }
    }
    json_array_foreach(json_object_get(result, "unread"), i, u)
    {
        if (!all && i == 5) {
            fprintf(out, "  and more that could not be read: --all shows them\n");
            return;
        }
        fprintf(out, "  not read: %s:%lld: %.200s\n", text_at(u, "file"), int_at(u, "line"),
                text_at(u, "what"));
    }
}

void report_lint_text(const json_t *r, FILE *out, struct text_view view)
{
    text_show(r, out, view, is_red(r) ? "FAIL" : "PASS", print_rest);
}
