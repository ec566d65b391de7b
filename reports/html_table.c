/* html_table.c: see html_parts.h. */
#include "reports/html_parts.h"

#include "reports/cases.h"
#include "reports/fields.h"
#include "reports/markup.h"

#include <string.h>

/* With these a page stays below 5 MB whatever the result holds. */
enum { ROWS_MAX = 4000, FLIPS_MAX = 1000, NAMES_MAX = 200, TEXT_MAX = 240 };

void html_element(FILE *out, const char *element, const char *text)
{
    fprintf(out, "<%s>", element);
    markup_short(out, text, TEXT_MAX);
    fprintf(out, "</%.*s>", (int)strcspn(element, " "), element);
}

const char *html_number(const json_t *o, const char *key, char buf[32])
{
    const json_t *v = json_object_get(o, key);
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    const bool known = strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0 ||
                       strcmp(text, "-inf") == 0; /* any other text is not written as it is */
    snprintf(buf, 32, "%s", known ? text : text[0] ? "?" : "");
    if (json_is_number(v)) snprintf(buf, 32, "%.4g", json_number_value(v));
    return buf;
}

/* A column's name begins with '#' where it holds numbers. */
static void put_head(FILE *out, const char *title, const char *const *columns)
{
    fprintf(out, "<h3>%s</h3>\n<div class=scroll><table class=tool><thead><tr>", title);
    for (int i = 0; columns[i]; i++) {
        const bool number = columns[i][0] == '#';
        fprintf(out, "<th%s>%s", number ? " class=n" : "", columns[i] + number);
    }
    fputs("</thead><tbody>\n", out);
}

/* Of n rows `most` were shown at the most. */
static void put_end(FILE *out, size_t n, size_t most)
{
    fputs("</tbody></table></div>\n", out);
    if (n > most) fprintf(out, "<p class=dim>... and %zu more: the JSON has all.</p>\n", n - most);
}

/* A cell with a word that is also its class; only words of ours become one. */
static void put_state(FILE *out, const char *state)
{
    static const char *const known[] = {"pass", "fail", "error", "skipped", "unchecked"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], state) != 0) continue;
        fprintf(out, "<td class=\"s %s\">%s</td>", state, state);
        return;
    }
    html_element(out, "td class=s", state);
}

static void put_tap(const json_t *tap, FILE *out)
{
    static const char *const numbers[] = {"rel_rms", "bound", "profile_rel", "max_abs"};
    const json_t *w = json_object_get(tap, "worst");
    char text[32];
    fputs("<tr>", out);
    html_element(out, "td", text_at(tap, "name"));
    html_element(out, "td", text_at(tap, "op"));
    put_state(out, text_at(tap, "verdict"));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        html_element(out, "td class=n", html_number(tap, numbers[i], text));
    if (json_is_object(w))
        fprintf(out, "<td class=s>%lld, %lld</td>", int_at(w, "row"), int_at(w, "col"));
    else
        fputs("<td></td>", out);
    fputs("<td>", out);
    markup_short(out, text_at(tap, "why"), TEXT_MAX);
    fputs(text_at(tap, "why")[0] && text_at(tap, "bound_from")[0] ? "; bound " : "", out);
    markup_short(out, text_at(tap, "bound_from"), TEXT_MAX);
    fputs("</td></tr>\n", out);
}

void html_taps(const json_t *r, bool brief, FILE *out)
{
    static const char *const columns[] = {"tap",    "op",       "verdict",  "#rel RMS",
                                          "#bound", "#profile", "#max abs", "worst cell",
                                          "why",    NULL};
    const json_t *taps = json_object_get(r, "taps"), *tap;
    size_t i, n = 0;
    if (json_array_size(taps) == 0) return;
    put_head(out, brief ? "Taps that do not pass" : "Taps", columns);
    json_array_foreach(taps, i, tap)
    {
        if (brief && strcmp(text_at(tap, "verdict"), "pass") == 0) continue;
        if (n++ < ROWS_MAX) put_tap(tap, out);
    }
    put_end(out, n, ROWS_MAX);
}

static void put_ids(FILE *out, const json_t *ids)
{
    const json_t *id;
    size_t i;
    fputs("<td>", out);
    json_array_foreach(ids, i, id)
    {
        if (i == 64) break;
        fprintf(out, "%s%lld", i ? ", " : "", (long long)json_integer_value(id));
    }
    fputs("</td>", out);
}

void html_flips(const json_t *r, FILE *out)
{
    static const char *const columns[] = {"#layer", "#row",     "subject",  "reference",
                                          "#gap",   "#allowed", "near tie", NULL};
    const json_t *flips = json_object_get(r, "flips"), *flip;
    const size_t n = json_array_size(flips);
    size_t i;
    char text[32];
    if (n == 0) return;
    put_head(out, "Router flips", columns);
    json_array_foreach(flips, i, flip)
    {
        if (i == FLIPS_MAX) break;
        fprintf(out, "<tr><td class=n>%lld</td><td class=n>%lld</td>", int_at(flip, "layer"),
                int_at(flip, "row"));
        put_ids(out, json_object_get(flip, "subject"));
        put_ids(out, json_object_get(flip, "truth"));
        html_element(out, "td class=n", html_number(flip, "gap", text));
        html_element(out, "td class=n", html_number(flip, "allowed", text));
        fprintf(out, "<td class=\"s %s</td></tr>\n",
                json_is_true(json_object_get(flip, "certified")) ? "pass\">certified"
                                                                 : "fail\">no");
    }
    put_end(out, n, FLIPS_MAX);
}

void html_hypotheses(const json_t *r, FILE *out)
{
    static const char *const columns[] = {"fault",     "site",  "op",    "#layer",
                                          "#explains", "share", "holds", NULL};
    const json_t *all = json_object_get(r, "hypotheses"), *h;
    const size_t n = json_array_size(all);
    size_t i;
    char text[32];
    if (n == 0) return;
    put_head(out, "Hypotheses, by the share of the squared error that each explains", columns);
    json_array_foreach(all, i, h)
    {
        if (i == NAMES_MAX) break;
        const double share = json_number_value(json_object_get(h, "explains"));
        fputs("<tr>", out);
        html_element(out, "td", text_at(h, "fault"));
        html_element(out, "td", text_at(h, "site"));
        html_element(out, "td", text_at(h, "op"));
        fprintf(out, "<td class=n>%lld</td>", int_at(h, "layer"));
        html_element(out, "td class=n", html_number(h, "explains", text));
        fprintf(out, "<td><meter min=0 max=1 value=%.4f></meter></td>",
                share > 0 ? (share < 1 ? share : 1) : 0);
        fputs(json_is_true(json_object_get(h, "holds")) ? "<td>yes</td></tr>\n"
                                                        : "<td>no</td></tr>\n",
              out);
    }
    put_end(out, n, NAMES_MAX);
}

void html_cases(const json_t *r, FILE *out)
{
    static const char *const columns[] = {"state", "suite", "case", "cause", NULL};
    json_t *cases = report_cases(r), *c;
    const size_t n = json_array_size(cases);
    size_t i;
    put_head(out, "Cases", columns);
    json_array_foreach(cases, i, c)
    {
        if (i == ROWS_MAX) break;
        fputs("<tr>", out);
        put_state(out, text_at(c, "state"));
        html_element(out, "td", text_at(c, "suite"));
        html_element(out, "td", text_at(c, "name"));
        html_element(out, "td", text_at(c, "cause"));
        fputs("</tr>\n", out);
    }
    put_end(out, n, ROWS_MAX);
    json_decref(cases);
}

void html_names(const json_t *r, const char *key, const char *title, FILE *out)
{
    const json_t *list = json_object_get(r, key), *name;
    const size_t n = json_array_size(list);
    size_t i;
    if (n == 0) return;
    fprintf(out, "<h3>%s (%zu)</h3>\n<p>", title, n);
    json_array_foreach(list, i, name)
    {
        if (i == NAMES_MAX) break;
        if (i) fputs(", ", out);
        html_element(out, "bdi", json_is_string(name) ? json_string_value(name) : "");
    }
    fprintf(out, "%s</p>\n", n > NAMES_MAX ? ", ..." : "");
}
