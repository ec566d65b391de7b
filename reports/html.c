/* html.c: see html.h. */
#include "reports/html.h"

#include "reports/fields.h"
#include "reports/html_parts.h"
#include "reports/markup.h"

#include <string.h>

static bool is(const json_t *o, const char *key, const char *text)
{
    return strcmp(text_at(o, key), text) == 0;
}

static bool is_diff(const json_t *r)
{
    return json_is_array(json_object_get(r, "taps")) && json_object_get(r, "compared");
}

/* ---- verdict ---- */

/* What was counted, by the fields that a result has. */
static void put_counts(const json_t *r, FILE *out)
{
    static const char *const counts[] = {"compared", "failed", "passed",  "skipped",
                                         "injected", "caught", "tensors", "not_implemented"};
    const char *sep = "";
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (!json_is_integer(json_object_get(r, counts[i]))) continue;
        fprintf(out, "%s%lld %s", sep, int_at(r, counts[i]),
                strcmp(counts[i], "not_implemented") == 0 ? "not implemented" : counts[i]);
        sep = ", ";
    }
    if (json_is_array(json_object_get(r, "unchecked")))
        fprintf(out, "%s%zu unchecked", sep, json_array_size(json_object_get(r, "unchecked")));
    if (json_is_array(json_object_get(r, "problems")))
        fprintf(out, "%s%zu problems", sep, json_array_size(json_object_get(r, "problems")));
}

static void put_verdict(const json_t *r, FILE *out)
{
    const char *verdict = text_at(r, "verdict");
    const bool pass = strcmp(verdict, "pass") == 0;
    const json_t *error = json_object_get(r, "error"), *why;
    size_t i;
    fprintf(out, "<section class=\"verdict%s\"><h1><b class=word>%s</b> assay ",
            pass ? " pass" : "",
            pass                            ? "PASS"
            : strcmp(verdict, "error") == 0 ? "ERROR"
                                            : "FAIL");
    markup_short(out, text_at(r, "verb"), 40);
    fputs("</h1>\n<p>", out);
    put_counts(r, out);
    fputs("</p>\n", out);
    if (json_is_object(error)) {
        fputs("<p class=error>", out);
        markup_text(out, text_at(error, "what"));
        fputs(": ", out);
        markup_text(out, text_at(error, "where"));
        fputs(": found ", out);
        markup_text(out, text_at(error, "found"));
        fputs(", wanted ", out);
        markup_text(out, text_at(error, "wanted"));
        fputs("</p>\n", out);
    }
    json_array_foreach(json_object_get(r, "why"), i, why)
    {
        if (json_is_string(why) && i < 20) html_element(out, "p", json_string_value(why));
    }
    if (is_diff(r) && int_at(r, "compared") == 0)
        fputs("<p class=error>nothing was compared: that is never a pass</p>\n", out);
    if (text_at(r, "note")[0]) html_element(out, "p class=dim", text_at(r, "note"));
    fputs("</section>\n", out);
}

/* ---- a diff ---- */

static void put_pair(FILE *out, const char *term, const char *text)
{
    if (!text[0]) return;
    fprintf(out, "<dt>%s</dt>", term);
    html_element(out, "dd", text);
    fputc('\n', out);
}

static void put_place(FILE *out, const json_t *at, const char *key, const char *label)
{
    const json_t *v = json_object_get(at, key);
    if (json_is_integer(v) && json_integer_value(v) >= 0)
        fprintf(out, ", %s %lld", label, (long long)json_integer_value(v));
}

/* "op moe, layer 1, rank 3, row 0, column 1" of `guilty` or `first`. */
static void put_where(FILE *out, const char *term, const json_t *at)
{
    if (!json_is_object(at)) return;
    fprintf(out, "<dt>%s</dt><dd>op ", term);
    markup_short(out, text_at(at, "op"), 60);
    put_place(out, at, "layer", "layer");
    put_place(out, at, "draft_step", "draft step");
    put_place(out, at, "rank", "rank");
    put_place(out, at, "row", "row");
    put_place(out, at, "col", "column");
    fputs("; tap ", out);
    markup_short(out, text_at(at, "tap"), 200);
    fputs("</dd>\n", out);
}

static void put_claims(const json_t *r, FILE *out)
{
    const json_t *list = json_object_get(r, "diagnosis"), *claim;
    const size_t n = json_array_size(list);
    size_t i;
    char text[32];
    json_array_foreach(list, i, claim)
    {
        const json_t *with = json_object_get(claim, "with");
        fprintf(out, "<dt>%s</dt><dd><b>", n > 1 ? "one of" : "bug");
        markup_short(out, text_at(claim, "fault"), 120);
        fputs("</b> at ", out);
        markup_short(out, text_at(claim, "site")[0] ? text_at(claim, "site") : "everywhere", 200);
        if (json_is_object(with)) {
            fputs(", and <b>", out);
            markup_short(out, text_at(with, "fault"), 120);
            fputs("</b>", out);
        }
        fprintf(out, ": explains %s of the squared error</dd>\n",
                html_number(claim, "explains", text));
    }
    if (n == 0 && json_is_string(json_object_get(r, "replay")))
        fprintf(out, "<dt>bug</dt><dd>none of %zu known faults explains it</dd>\n",
                json_array_size(json_object_get(r, "hypotheses")));
    put_pair(out, "shape", text_at(json_object_get(r, "shape"), "text"));
}

static void put_first_tap(const json_t *r, FILE *out)
{
    const json_t *first = json_object_get(r, "first"), *tap;
    size_t i;
    char a[32], b[32];
    json_array_foreach(json_object_get(r, "taps"), i, tap)
    {
        const json_t *w = json_object_get(tap, "worst");
        if (!json_is_object(first) || strcmp(text_at(tap, "name"), text_at(first, "tap")) != 0)
            continue;
        put_pair(out, "why", text_at(tap, "why"));
        put_pair(out, "bound", text_at(tap, "bound_from"));
        if (json_is_object(w))
            fprintf(out,
                    "<dt>worst element</dt><dd>row %lld, column %lld: subject %s, reference "
                    "%s</dd>\n",
                    int_at(w, "row"), int_at(w, "col"), html_number(w, "subject", a),
                    html_number(w, "truth", b));
        return;
    }
}

static void put_line(FILE *out, const char *label, const char *text)
{
    if (!text[0]) return;
    fprintf(out, "<p>%s</p>\n<pre><code>", label);
    markup_short(out, text, 4000);
    fputs("</code></pre>\n", out);
}

static void put_diff(const json_t *r, int number, bool brief, FILE *out)
{
    const json_t *inject;
    size_t i;
    fputs("<dl>\n", out);
    put_where(out, "guilty", json_object_get(r, "guilty"));
    put_claims(r, out);
    put_where(out, "first divergence", json_object_get(r, "first"));
    put_first_tap(r, out);
    put_pair(out, "profile", text_at(r, "profile"));
    put_pair(out, "chosen as", text_at(r, "profile_how"));
    put_pair(out, "subject", text_at(r, "subject"));
    fputs("</dl>\n", out);
    put_line(out, "Replay the op with the bug:", text_at(r, "replay"));
    json_array_foreach(json_object_get(r, "inject"), i, inject)
    {
        if (i < 8 && json_is_string(inject))
            put_line(out, "Inject the bug into the reference:", json_string_value(inject));
    }
    html_plot(r, out);
    html_map(r, number, out);
    html_hypotheses(r, out);
    html_flips(r, out);
    html_taps(r, brief, out);
    html_names(r, "promised", "Promised or required, and absent", out);
    html_names(r, "missing", "Not in the subject", out);
    html_names(r, "extra", "Only in the subject", out);
}

/* ---- a plan ---- */

/* The diffs of steps that are not as expected are shown whole, up to so many. */
enum { DIFFS_MAX = 8 };

static void put_steps(const json_t *r, FILE *out)
{
    const json_t *step;
    size_t i;
    int shown = 0;
    json_array_foreach(json_object_get(r, "steps"), i, step)
    {
        const json_t *inner = json_object_get(step, "result");
        const bool red = is(step, "verdict", "fail") || is(step, "verdict", "error");
        if (!is_diff(inner) || (!red && is(step, "outcome", "pass"))) continue;
        if (shown == DIFFS_MAX) {
            fputs("<p class=dim>More steps differ: the JSON has all.</p>\n", out);
            break;
        }
        fprintf(out, "<details%s><summary><b class=%s>%s</b> step ", red ? " open" : "",
                red ? "fail" : "pass", red ? "not as expected" : "as expected");
        markup_short(out, text_at(step, "name"), 120);
        fputs(", which differs</summary>\n", out);
        put_diff(inner, ++shown, true, out);
        fputs("</details>\n", out);
    }
}

/* ---- where it comes from ---- */

/* As a shell takes it: a quote inside leaves the quotes. */
static void put_word(FILE *out, const char *text)
{
    static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_-./=,:@%+";
    if (text[0] && text[strspn(text, bare)] == '\0') {
        fputs(text, out);
        return;
    }
    fputs("&#39;", out);
    for (const char *quote; (quote = strchr(text, '\'')); text = quote + 1) {
        markup_bytes(out, text, (size_t)(quote - text));
        fputs("&#39;\\&#39;&#39;", out);
    }
    markup_text(out, text);
    fputs("&#39;", out);
}

static void put_command(const json_t *r, FILE *out)
{
    const json_t *word;
    size_t i;
    if (json_array_size(json_object_get(r, "command")) == 0) return;
    fputs("<dt>command</dt><dd><code>", out);
    json_array_foreach(json_object_get(r, "command"), i, word)
    {
        if (i) fputc(' ', out);
        put_word(out, json_is_string(word) ? json_string_value(word) : "");
    }
    fputs("</code></dd>\n", out);
}

static void put_origin(const json_t *r, FILE *out)
{
    const json_t *m = json_object_get(r, "machine");
    fputs("<h2>Where this comes from</h2>\n<dl>\n", out);
    put_command(r, out);
    put_pair(out, "assay", text_at(r, "assay"));
    put_pair(out, "plan", text_at(r, "plan"));
    put_pair(out, "system", text_at(m, "system"));
    put_pair(out, "kernel", text_at(m, "release"));
    put_pair(out, "machine", text_at(m, "arch"));
    if (int_at(m, "processors") > 0)
        fprintf(out, "<dt>processors</dt><dd>%lld</dd>\n", int_at(m, "processors"));
    fputs("</dl>\n", out);
}

void report_html(const json_t *r, FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
          "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
          "<title>",
          out);
    markup_short(out, text_at(r, "verdict"), 16);
    fputs(": assay ", out);
    markup_short(out, text_at(r, "verb"), 40);
    fprintf(out, "</title>\n<style>\n%s</style></head>\n<body><main>\n", html_style);
    put_verdict(r, out);
    if (is_diff(r)) {
        put_diff(r, 0, false, out);
    } else {
        html_cases(r, out);
        put_steps(r, out);
    }
    put_origin(r, out);
    fprintf(out, "</main>\n<script>\n%s</script></body></html>\n", html_script);
}
