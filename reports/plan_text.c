/* plan_text.c: see text.h. */
#include "reports/text.h"

#include "reports/fields.h"

#include <string.h>

enum { TAPS_SHOWN = 12 };

/* What a step did, in a few words; false: its result does not say. */
static bool print_detail(const json_t *step, FILE *out)
{
    const json_t *r = json_object_get(step, "result"), *first = json_object_get(r, "first");
    const char *kind = text_at(step, "kind");
    bool said = true;
    if (!r) return false;
    if (strcmp(kind, "forward") == 0 && json_object_get(r, "taps"))
        fprintf(out, "%lld taps of %lld rows, profile %s", int_at(r, "taps"), int_at(r, "rows"),
                text_at(r, "profile"));
    else if (json_object_get(r, "bless"))
        fprintf(out, "golden %s", text_at(json_object_get(r, "bless"), "golden"));
    else if (strcmp(kind, "diff") == 0 && json_object_get(r, "taps"))
        fprintf(out, "%lld taps compared, %lld differ, %zu unchecked", int_at(r, "compared"),
                int_at(r, "failed"), json_array_size(json_object_get(r, "unchecked")));
    else if (strcmp(kind, "generate") == 0)
        fprintf(out, "%zu tokens", json_array_size(json_object_get(r, "tokens")));
    else if (strcmp(kind, "op") == 0)
        fprintf(out, "%lld cases passed, %lld failed, %lld not implemented", int_at(r, "passed"),
                int_at(r, "failed"), int_at(r, "not_implemented"));
    else
        said = false;
    if (json_is_object(first)) {
        fprintf(out, "; first: %s (op %s", text_at(first, "tap"), text_at(first, "op"));
        if (int_at(first, "layer") >= 0) fprintf(out, ", layer %lld", int_at(first, "layer"));
        if (int_at(first, "row") >= 0) fprintf(out, ", row %lld", int_at(first, "row"));
        fprintf(out, ")");
    }
    return said;
}

static void print_step(const json_t *step, FILE *out)
{
    const char *verdict = text_at(step, "verdict"), *expected = text_at(step, "expected");
    const bool bad = strcmp(verdict, "fail") == 0 || strcmp(verdict, "error") == 0;
    const char *word = strcmp(verdict, "pass") == 0      ? "ok"
                       : strcmp(verdict, "skipped") == 0 ? "skip"
                       : strcmp(verdict, "fail") == 0    ? "FAIL"
                       : strcmp(verdict, "error") == 0   ? "ERROR"
                                                         : "-";
    const json_t *error = json_object_get(step, "error");
    fprintf(out, "  %-5s %-16s %-8s ", word, text_at(step, "name"), text_at(step, "kind"));
    const bool said = print_detail(step, out);
    if (expected[0]) fprintf(out, "; %sexpected: %s", bad ? "" : "as ", expected);
    if (bad || !json_object_get(step, "result"))
        fprintf(out, "%s%s", said || expected[0] ? "; " : "", text_at(step, "why"));
    if (bad && error) fprintf(out, " [%s: %s]", text_at(error, "what"), text_at(error, "where"));
    fprintf(out, "\n");
    if (text_at(step, "note")[0]) fprintf(out, "        note: %s\n", text_at(step, "note"));
}

static void print_golden(const json_t *b, FILE *out, bool all)
{
    const json_t *one;
    size_t i;
    fprintf(out, "golden %s: %s%zu taps differ, %zu facts of its origin: %s\n",
            text_at(b, "golden"), json_is_true(json_object_get(b, "fresh")) ? "new, " : "",
            json_array_size(json_object_get(b, "taps")),
            json_array_size(json_object_get(b, "meta")),
            json_is_true(json_object_get(b, "written")) ? "recorded"
            : int_at(b, "changes") == 0                 ? "as it is"
                                                        : "not recorded");
    json_array_foreach(json_object_get(b, "meta"), i, one)
        fprintf(out, "  %s: \"%.40s\" -> \"%.40s\"\n", text_at(one, "key"), text_at(one, "old"),
                text_at(one, "new"));
    json_array_foreach(json_object_get(b, "taps"), i, one)
    {
        const json_t *rel = json_object_get(one, "rel_rms");
        if (i == TAPS_SHOWN && !all) {
            fprintf(out, "  ... and %zu more\n", json_array_size(json_object_get(b, "taps")) - i);
            break;
        }
        fprintf(out, "  %-30s %s", text_at(one, "name"), text_at(one, "change"));
        if (json_is_number(rel)) fprintf(out, ", rel RMS %.3g", json_number_value(rel));
        if (json_is_string(rel)) fprintf(out, ", rel RMS %s", json_string_value(rel));
        fprintf(out, "\n");
    }
}

static void print_rest(const json_t *r, FILE *out, struct text_view view)
{
    const json_t *one, *steps = json_object_get(r, "steps");
    size_t i, left = 0;
    fprintf(out, ": %s: %lld of %zu steps as expected, %lld not, %lld skipped; %lld compared",
            text_at(r, "plan"), int_at(r, "passed"), json_array_size(steps), int_at(r, "failed"),
            int_at(r, "skipped"), int_at(r, "compared"));
    fprintf(out, " (at least %lld wanted)\n", int_at(r, "compared_at_least"));
    json_array_foreach(json_object_get(r, "why"), i, one)
        fprintf(out, "%s\n", json_string_value(one));
    if (text_at(r, "preflight")[0]) fprintf(out, "preflight: %s\n", text_at(r, "preflight"));
    /* What went as it should is left out first, where the screen is too short. */
    const bool brief = view.most > 0 && json_array_size(steps) > (size_t)view.most;
    json_array_foreach(steps, i, one)
    {
        bool dull = strcmp(text_at(one, "verdict"), "pass") == 0;
        left += brief && dull;
        if (!brief || !dull) print_step(one, out);
    }
    if (left) fprintf(out, "  ... and %zu as expected\n", left);
    json_array_foreach(json_object_get(r, "blessed"), i, one)
        print_golden(one, out, view.most == 0);
}

void report_plan_text(const json_t *r, FILE *out, struct text_view view)
{
    const char *verdict = text_at(r, "verdict");
    const bool pass = strcmp(verdict, "pass") == 0, error = strcmp(verdict, "error") == 0;
    text_show(r, out, view, pass ? "PASS" : error ? "ERROR" : "FAIL", print_rest);
}
