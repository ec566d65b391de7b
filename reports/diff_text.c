/* diff_text.c: see text.h. */
#include "reports/text.h"

#include "reports/fields.h"

#include <string.h>

enum { FLIPS = 8 };

/* A number, or the text that stands for one that JSON cannot hold. */
static const char *number_at(const json_t *o, const char *key, const char *format, char *buf,
                             size_t size)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v)) return json_string_value(v);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(buf, size, format, json_number_value(v));
#pragma GCC diagnostic pop
    return buf;
}

static void print_first(const json_t *r, FILE *out)
{
    const json_t *f = json_object_get(r, "first"), *tap;
    size_t i;
    if (!json_is_object(f)) return;
    fprintf(out, "first divergence: %s (op %s", text_at(f, "tap"), text_at(f, "op"));
    if (int_at(f, "layer") >= 0) fprintf(out, ", layer %lld", int_at(f, "layer"));
    if (int_at(f, "row") >= 0) fprintf(out, ", row %lld", int_at(f, "row"));
    if (int_at(f, "col") >= 0) fprintf(out, ", column %lld", int_at(f, "col"));
    fprintf(out, ")\n");
    json_array_foreach(json_object_get(r, "taps"), i, tap)
    {
        const json_t *w = json_object_get(tap, "worst");
        char a[32], b[32];
        if (strcmp(text_at(tap, "name"), text_at(f, "tap")) != 0) continue;
        fprintf(out, "  %s\n  bound: %s\n", text_at(tap, "why"), text_at(tap, "bound_from"));
        if (json_is_object(w))
            fprintf(out, "  worst element: row %lld, column %lld: subject %s, truth %s\n",
                    int_at(w, "row"), int_at(w, "col"),
                    number_at(w, "subject", "%.7g", a, sizeof a),
                    number_at(w, "truth", "%.7g", b, sizeof b));
    }
}

static void print_list(const json_t *list, const char *lead, FILE *out)
{
    const json_t *name;
    size_t i;
    json_array_foreach(list, i, name)
        fprintf(out, "%s%s", i ? ", " : lead, json_string_value(name));
}

/* The op that is wrong on its own inputs. */
static void print_guilty(const json_t *r, FILE *out)
{
    const json_t *g = json_object_get(r, "guilty"), *span = json_object_get(g, "span"),
                 *step = json_object_get(g, "draft_step");
    if (!json_is_object(g)) return;
    fprintf(out, "guilty: op %s", text_at(g, "op"));
    if (int_at(g, "layer") >= 0) fprintf(out, ", layer %lld", int_at(g, "layer"));
    if (json_is_integer(step) && int_at(g, "draft_step") >= 0)
        fprintf(out, ", draft step %lld", int_at(g, "draft_step"));
    if (json_is_integer(json_object_get(g, "rank"))) fprintf(out, ", rank %lld", int_at(g, "rank"));
    fprintf(out, ", from the subject's own inputs\n");
    if (!json_is_true(json_object_get(g, "rebuilt"))) return;
    fprintf(out, "  inputs that were not dumped were rebuilt");
    print_list(json_object_get(g, "rebuilt_from"), ": from ", out);
    print_list(span, "; over ops ", out);
    fprintf(out, "\n");
}

static void print_claim(const json_t *claim, FILE *out)
{
    const json_t *with = json_object_get(claim, "with"), *ranks = json_object_get(claim, "ranks");
    char a[32];
    fprintf(out, "%s%s%s", text_at(claim, "fault"), text_at(claim, "site")[0] ? "@" : "",
            text_at(claim, "site"));
    if (json_array_size(ranks) == 2) /* one fault of both: no sum tells which had the other's */
        fprintf(out, " (ranks %lld and %lld)",
                (long long)json_integer_value(json_array_get(ranks, 0)),
                (long long)json_integer_value(json_array_get(ranks, 1)));
    if (json_is_object(with))
        fprintf(out, " and %s%s%s", text_at(with, "fault"), text_at(with, "site")[0] ? "@" : "",
                text_at(with, "site"));
    fprintf(out, ", explains %s of the squared error\n",
            number_at(claim, "explains", "%.6g", a, sizeof a));
}

/* What is named, or why nothing is. */
static void print_diagnosis(const json_t *r, FILE *out)
{
    const json_t *named = json_object_get(r, "diagnosis"), *claim,
                 *all = json_object_get(r, "hypotheses"), *best = json_array_get(all, 0);
    size_t i, n = json_array_size(named);
    char a[32];
    if (!json_is_string(json_object_get(r, "replay"))) return;
    if (n > 1) fprintf(out, "diagnosis: one of %zu that cannot be told apart here:\n", n);
    json_array_foreach(named, i, claim)
    {
        fprintf(out, n > 1 ? "  " : "diagnosis: ");
        print_claim(claim, out);
    }
    if (n == 0) {
        fprintf(out, "diagnosis: none of %zu known faults explains it", json_array_size(all));
        if (json_is_object(best) && json_number_value(json_object_get(best, "explains")) > 0)
            fprintf(out, "; the nearest, %s, %s of the squared error", text_at(best, "fault"),
                    number_at(best, "explains", "%.3g", a, sizeof a));
        fprintf(out, "\n");
    }
    const char *shape = text_at(json_object_get(r, "shape"), "text");
    if (n == 0 && shape[0]) fprintf(out, "  shape: %s\n", shape);
    if (text_at(r, "replay")[0]) fprintf(out, "replay: %s\n", text_at(r, "replay"));
    print_list(json_object_get(r, "inject"), "inject: ", out);
    if (n > 0) fprintf(out, "\n");
}

/* What is wrong stands below the row where it would not fit behind it. */
static void print_tap(const json_t *tap, FILE *out, int columns)
{
    const char *why = text_at(tap, "why");
    char a[32], b[32], c[32];
    const int n = fprintf(out, "%-24s %-10s %9s %9s %9s %s", text_at(tap, "name"),
                          text_at(tap, "op"), number_at(tap, "rel_rms", "%.3g", a, sizeof a),
                          number_at(tap, "bound", "%.3g", b, sizeof b),
                          number_at(tap, "max_abs", "%.3g", c, sizeof c), text_at(tap, "verdict"));
    const bool fits = columns == 0 || n + (int)strlen(": ") + (int)strlen(why) <= columns;
    fprintf(out, "%s%s\n", !why[0] ? "" : fits ? ": " : "\n    ", why);
}

static void print_table(const json_t *r, FILE *out, struct text_view view)
{
    const json_t *tap;
    size_t i;
    int shown = 0;
    fprintf(out, "\n%-24s %-10s %9s %9s %9s %s\n", "tap", "op", "rel RMS", "bound", "max abs",
            "verdict");
    json_array_foreach(json_object_get(r, "taps"), i, tap)
    {
        const bool fails = strcmp(text_at(tap, "verdict"), "pass") != 0;
        if (view.most > 0 && (!fails || shown >= view.most)) continue;
        shown++;
        print_tap(tap, out, view.columns);
    }
    long long failed = int_at(r, "failed");
    if (view.most > 0 && failed > shown) fprintf(out, "... and %lld more\n", failed - shown);
}

/* Flips that no near tie excuses; of more than FLIPS the first, where the whole is not asked for.
 */
static void print_flips(const json_t *r, FILE *out, int rows_max)
{
    const json_t *flip, *list = json_object_get(r, "flips");
    size_t i, certified = 0, shown = 0;
    json_array_foreach(list, i, flip) certified += json_is_true(json_object_get(flip, "certified"));
    if (json_array_size(list) == 0) return;
    const size_t others = json_array_size(list) - certified;
    fprintf(out, "router: %zu rows chose other experts, %zu certified as near ties\n",
            json_array_size(list), certified);
    json_array_foreach(list, i, flip)
    {
        char a[32], b[32];
        if (json_is_true(json_object_get(flip, "certified"))) continue;
        if (rows_max > 0 && shown == FLIPS) break;
        shown++;
        fprintf(out, "  layer %lld, row %lld: gap %s, score errors allow %s\n",
                int_at(flip, "layer"), int_at(flip, "row"),
                number_at(flip, "gap", "%.3g", a, sizeof a),
                number_at(flip, "allowed", "%.3g", b, sizeof b));
    }
    if (others > shown) fprintf(out, "  ... and %zu more\n", others - shown);
}

/* Rows past their bound that no op is to blame for. */
static void print_amplified(const json_t *r, FILE *out)
{
    const json_t *taps = json_object_get(r, "taps"), *tap;
    size_t i;
    json_array_foreach(taps, i, tap)
    {
        long long rows = int_at(tap, "amplified_rows");
        char a[32], b[32];
        if (rows <= 0) continue;
        fprintf(out,
                "amplified: %s: %lld rows past their bound (worst %s of %s), right from the "
                "subject's own inputs\n",
                text_at(tap, "name"), rows,
                number_at(json_object_get(tap, "worst_row"), "rel", "%.3g", a, sizeof a),
                number_at(json_object_get(tap, "worst_row"), "bound", "%.3g", b, sizeof b));
    }
}

static void print_names(const json_t *r, const char *key, const char *what, FILE *out)
{
    const json_t *list = json_object_get(r, key), *name;
    size_t i;
    if (json_array_size(list) == 0) return;
    fprintf(out, "%s (%zu):", what, json_array_size(list));
    json_array_foreach(list, i, name)
    {
        if (i == 6) {
            fprintf(out, " ...");
            break;
        }
        fprintf(out, " %s", json_string_value(name));
    }
    fprintf(out, "\n");
}

static void print_rest(const json_t *r, FILE *out, struct text_view view)
{
    fprintf(out, ": %lld taps compared, %lld differ, %zu unchecked", int_at(r, "compared"),
            int_at(r, "failed"), json_array_size(json_object_get(r, "unchecked")));
    if (text_at(r, "profile")[0])
        fprintf(out, "; profile %s%s%s", text_at(r, "profile"),
                text_at(r, "profile_how")[0] ? ", " : "", text_at(r, "profile_how"));
    fprintf(out, "\n");
    if (int_at(r, "compared") == 0) fprintf(out, "nothing was compared: that is never a pass\n");
    print_guilty(r, out);
    print_first(r, out);
    print_diagnosis(r, out);
    print_flips(r, out, view.most);
    print_amplified(r, out);
    print_names(r, "promised", "promised or required, and absent", out);
    print_names(r, "missing", "not in the subject", out);
    print_names(r, "extra", "only in the subject", out);
    if (text_at(r, "note")[0]) fprintf(out, "note: %s\n", text_at(r, "note"));
    if (int_at(r, "failed") > 0 || view.most == 0) print_table(r, out, view);
}

void report_diff_text(const json_t *r, FILE *out, struct text_view view)
{
    const bool pass = strcmp(text_at(r, "verdict"), "pass") == 0;
    text_show(r, out, view, pass ? "PASS" : "FAIL", print_rest);
}
