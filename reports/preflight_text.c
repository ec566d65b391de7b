/* preflight_text.c: the page of `preflight`: the verdict, then what was found, worst first, with
 * its minutes, then what was looked at and what was not. */
#include "reports/text.h"

#include "reports/fields.h"

#include <string.h>

enum { WIDTH = 200 };

static bool is_red(const json_t *result)
{
    const json_t *n = json_object_get(result, "counts");
    return int_at(n, "errors") + int_at(n, "warnings") + int_at(n, "not_checked") > 0;
}

/* "18.0 min", "?" */
static const char *minutes_text(const json_t *v, char *buf, size_t size)
{
    if (!json_is_number(v))
        snprintf(buf, size, "? min");
    else
        snprintf(buf, size, "%.1f min", json_number_value(v));
    return buf;
}

static void print_head(const json_t *r, FILE *out)
{
    const json_t *n = json_object_get(r, "counts"), *load = json_object_get(r, "load");
    char minutes[32];
    fprintf(out, ": %s: ", text_at(r, "plan"));
    fprintf(out, "%lld errors, %lld warnings, %lld notes, %lld that cannot be told",
            int_at(n, "errors"), int_at(n, "warnings"), int_at(n, "notes"),
            int_at(n, "undecidable"));
    if (int_at(n, "not_checked")) fprintf(out, "; %lld NOT CHECKED", int_at(n, "not_checked"));
    fprintf(out, "\na load: %s (%s)", minutes_text(json_object_get(load, "minutes"), minutes, 32),
            text_at(load, "from"));
    if (int_at(n, "errors") > 0)
        fprintf(out, "; the errors, met one by one: at least %s",
                minutes_text(json_object_get(r, "minutes"), minutes, 32));
    fputc('\n', out);
}

static void print_line(FILE *out, const char *label, const char *text)
{
    if (text[0]) fprintf(out, "      %-7s %.*s\n", label, WIDTH, text);
}

/* "never: what is written is wrong" stands as "never". */
static const char *strikes_text(const json_t *f)
{
    const char *strikes = text_at(f, "strikes");
    return strncmp(strikes, "never", 5) == 0 ? "never" : strikes;
}

static void print_finding(const json_t *f, FILE *out)
{
    char minutes[32];
    const bool unknown = strcmp(text_at(f, "verdict"), "undecidable") == 0;
    fprintf(out, "  %-7s %9s  %-14.14s  %s  ", unknown ? "unknown" : text_at(f, "severity"),
            minutes_text(json_object_get(f, "minutes"), minutes, sizeof minutes), strikes_text(f),
            text_at(f, "rule"));
    fprintf(out, "%s", text_at(f, "file"));
    if (int_at(f, "line") > 0) fprintf(out, ":%lld", int_at(f, "line"));
    if (text_at(f, "function")[0]) fprintf(out, " %s", text_at(f, "function"));
    if (text_at(f, "symbol")[0]) fprintf(out, " %.200s", text_at(f, "symbol"));
    fprintf(out, "\n      %.*s\n", WIDTH, text_at(f, "message"));
    print_line(out, "found", text_at(f, "found"));
    print_line(out, "wanted", text_at(f, "wanted"));
    print_line(out, "remedy", text_at(f, "remedy"));
}

static void print_findings(const json_t *r, FILE *out, int most)
{
    const json_t *findings = json_object_get(r, "findings"), *f;
    size_t i;
    int shown = 0, hidden = 0;
    json_array_foreach(findings, i, f)
    {
        if (most > 0 && shown == most) {
            hidden++;
            continue;
        }
        print_finding(f, out);
        shown++;
    }
    if (hidden) fprintf(out, "  and %d more: --all shows them\n", hidden);
}

static void print_checks(const json_t *r, const char *state, const char *head, FILE *out)
{
    const json_t *c;
    size_t i;
    bool any = false;
    json_array_foreach(json_object_get(r, "checks"), i, c)
    {
        if (strcmp(text_at(c, "state"), state) != 0) continue;
        if (!any) fprintf(out, "%s\n", head);
        any = true;
        fprintf(out, "  %-11s %.*s\n", text_at(c, "check"), WIDTH, text_at(c, "about"));
    }
}

static void print_gaps(const json_t *r, FILE *out)
{
    const json_t *g, *gaps = json_object_get(r, "not_checked");
    size_t i;
    if (json_array_size(gaps)) fprintf(out, "NOT CHECKED\n");
    json_array_foreach(gaps, i, g)
    {
        fprintf(out, "  %-11s %.*s\n", text_at(g, "check"), WIDTH, text_at(g, "why"));
        print_line(out, "remedy", text_at(g, "remedy"));
    }
}

static void print_rest(const json_t *result, FILE *out, struct text_view view)
{
    print_head(result, out);
    print_findings(result, out, view.most);
    print_gaps(result, out);
    print_checks(result, "checked", "looked at", out);
    print_checks(result, "not asked", "not asked", out);
}

void report_preflight_text(const json_t *r, FILE *out, struct text_view view)
{
    text_show(r, out, view, is_red(r) ? "FAIL" : "PASS", print_rest);
}
