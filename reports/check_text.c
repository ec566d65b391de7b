/* check_text.c: a consumer judged against a library, for people: the verdict, what breaks with its
 * proof, what shifts or may be meant otherwise, then what cannot be told, by its reason. */
#include "reports/text.h"

#include "reports/fields.h"

#include <string.h>

static bool is(const json_t *f, const char *verdict)
{
    return strcmp(text_at(f, "verdict"), verdict) == 0 && !text_at(f, "accepted")[0];
}

/* An ok or undecidable one that has more to say than that. */
static bool warns(const json_t *f)
{
    const char *s = text_at(f, "severity");
    return !is(f, "broken") && !text_at(f, "accepted")[0] && strcmp(s, "none") != 0 &&
           strcmp(s, "cannot tell") != 0;
}

static void print_origin(const json_t *o, FILE *out)
{
    const char *name = text_at(o, "name"), *version = text_at(o, "version");
    fprintf(out, "%s%s%s", name[0] ? name : text_at(o, "source"), version[0] ? " " : "", version);
}

static void print_head(const json_t *result, FILE *out)
{
    const json_t *n = json_object_get(result, "counts");
    fputs(": ", out);
    print_origin(json_object_get(result, "consumer"), out);
    fprintf(out, " against ");
    print_origin(json_object_get(result, "library"), out);
    fprintf(out, ": %lld checked, %lld broken, %lld undecidable", int_at(n, "checked"),
            int_at(n, "broken"), int_at(n, "undecidable"));
    if (int_at(n, "warned")) fprintf(out, ", %lld with a warning", int_at(n, "warned"));
    if (int_at(n, "accepted")) fprintf(out, ", %lld accepted", int_at(n, "accepted"));
    fputc('\n', out);
}

static void print_line(const char *label, const char *text, FILE *out)
{
    if (text[0]) fprintf(out, "    %-8s %.300s\n", label, text);
}

static void print_finding(const json_t *f, FILE *out)
{
    const json_t *p = json_object_get(f, "provider"), *also = json_object_get(f, "also"), *line;
    size_t i;
    fprintf(out, "  %s:%lld %s\n    %s: %s\n", text_at(f, "file"), int_at(f, "line"),
            text_at(f, "symbol"), text_at(f, "severity"), text_at(f, "why"));
    print_line("found", text_at(f, "found"), out);
    print_line("wanted", text_at(f, "wanted"), out);
    if (text_at(p, "file")[0])
        fprintf(out, "    %-8s %s:%lld\n", "defined", text_at(p, "file"), int_at(p, "line"));
    print_line("remedy", text_at(f, "remedy"), out);
    if (json_array_size(also) == 0) return;
    fprintf(out, "    %-8s line", "also");
    json_array_foreach(also, i, line)
    {
        fprintf(out, " %lld", (long long)json_integer_value(line));
    }
    fputc('\n', out);
}

static void print_short(const json_t *f, FILE *out)
{
    fprintf(out, "  %s:%lld %s: %s%s%s\n", text_at(f, "file"), int_at(f, "line"),
            text_at(f, "symbol"), text_at(f, "why"),
            strcmp(text_at(f, "severity"), "cannot tell") == 0 ? "" : ", ",
            strcmp(text_at(f, "severity"), "cannot tell") == 0 ? "" : text_at(f, "severity"));
}

/* The next ones that say the same of the same file, as lines behind the first. */
static size_t same_again(const json_t *findings, size_t i, FILE *out)
{
    const json_t *f = json_array_get(findings, i), *n;
    const char *sep = "    the same at line";
    while ((n = json_array_get(findings, i + 1)) &&
           strcmp(text_at(n, "why"), text_at(f, "why")) == 0 &&
           strcmp(text_at(n, "file"), text_at(f, "file")) == 0) {
        fprintf(out, "%s %lld %s", sep, int_at(n, "line"), text_at(n, "symbol"));
        sep = ",";
        i++;
    }
    if (sep[0] == ',') fputc('\n', out);
    return i;
}

static void left_out(int n, FILE *out)
{
    if (n > 0) fprintf(out, "  ... and %d more (--all, --json)\n", n);
}

/* Lines of a group; each broken one takes about five. */
static int print_group(const json_t *findings, const char *verdict, const char *title, int most,
                       FILE *out)
{
    const json_t *f;
    size_t i;
    int shown = 0, left = 0;
    for (i = 0; (f = json_array_get(findings, i)); i++) {
        bool fits = verdict ? is(f, verdict) && !(warns(f)) : warns(f);
        if (!fits) continue;
        if (most > 0 && shown == most) {
            left++;
            continue;
        }
        if (shown++ == 0) fprintf(out, "%s\n", title);
        if (verdict && strcmp(verdict, "broken") == 0)
            print_finding(f, out);
        else {
            print_short(f, out);
            i = same_again(findings, i, out);
        }
    }
    left_out(left, out);
    return shown;
}

static void print_rest(const json_t *result, FILE *out, struct text_view view)
{
    const json_t *findings = json_object_get(result, "findings");
    int most = view.most / 5, rest = view.most;
    print_head(result, out);
    rest -= 5 * print_group(findings, "broken", "broken:", most, out);
    if (view.most > 0 && rest < 6) rest = 6;
    int warned = print_group(findings, NULL, "worth a look:", view.most > 0 ? rest / 2 : 0, out);
    if (view.most > 0) rest -= warned;
    print_group(findings, "undecidable", "cannot tell:", view.most > 0 ? (rest > 3 ? rest : 3) : 0,
                out);
}

void report_check_text(const json_t *r, FILE *out, struct text_view view)
{
    const bool red = int_at(json_object_get(r, "counts"), "broken") > 0;
    text_show(r, out, view, red ? "FAIL" : "PASS", print_rest);
}
