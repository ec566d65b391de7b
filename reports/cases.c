/* cases.c: see cases.h. */
#include "reports/cases.h"

#include "reports/fields.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Suite of the cases that are added, and where they go. */
struct cases {
    json_t *list;
    const char *suite;
};

static bool is(const json_t *o, const char *key, const char *text)
{
    return strcmp(text_at(o, key), text) == 0;
}

/* Line breaks become blanks: a cause is one line. */
static json_t *one_line(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; p && *p; p++) {
        if (*p == '\n' || *p == '\r') *p = ' ';
    }
    json_t *line = json_string(copy ? copy : "");
    free(copy);
    return line;
}

static void add(const struct cases *c, const char *name, const char *state, const char *cause,
                const char *detail)
{
    json_array_append_new(c->list,
                          json_pack("{s:s, s:s, s:s, s:o, s:s}", "suite", c->suite, "name", name,
                                    "state", state, "cause", one_line(cause), "detail", detail));
}

/* The same of texts that are made for it, and released here. */
static void add_made(const struct cases *c, const char *name, const char *state, json_t *cause,
                     json_t *detail)
{
    add(c, name, state, json_is_string(cause) ? json_string_value(cause) : "",
        json_is_string(detail) ? json_string_value(detail) : "");
    json_decref(cause);
    json_decref(detail);
}

json_t *report_error_line(const json_t *e)
{
    const char *where = text_at(e, "where"), *wanted = text_at(e, "wanted");
    return json_sprintf("%s%s%s: found %s%s%s", text_at(e, "what"), where[0] ? ": " : "", where,
                        text_at(e, "found"), wanted[0] ? ", wanted " : "", wanted);
}

json_t *report_suite(const json_t *r)
{
    const char *verb = text_at(r, "verb"), *word = text_at(r, "word");
    if (!word[0] && strcmp(verb, "fault") == 0) word = "run";
    return json_sprintf("assay.%s%s%s", verb[0] ? verb : "result", word[0] ? "." : "", word);
}

/* ---- diff ---- */

/* A number, or the text that stands for one. */
static json_t *number_text(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v)) return json_string(json_string_value(v));
    return json_is_number(v) ? json_sprintf("%.7g", json_number_value(v)) : json_string("unknown");
}

static void add_tap(const struct cases *c, const json_t *tap)
{
    const char *verdict = text_at(tap, "verdict"), *why = text_at(tap, "why");
    json_t *detail;
    if (strcmp(verdict, "fail") != 0) {
        add(c, text_at(tap, "name"), strcmp(verdict, "pass") ? "skipped" : "pass",
            strcmp(verdict, "pass") == 0 ? ""
            : why[0]                     ? why
                                         : "unchecked",
            "");
        return;
    }
    const json_t *w = json_object_get(tap, "worst");
    json_t *subject = number_text(w, "subject"), *truth = number_text(w, "truth");
    detail = json_sprintf("op %s\nbound from %s\nworst element: row %lld, column %lld: subject %s, "
                          "truth %s",
                          text_at(tap, "op"), text_at(tap, "bound_from"), int_at(w, "row"),
                          int_at(w, "col"), json_string_value(subject), json_string_value(truth));
    json_decref(subject);
    json_decref(truth);
    add_made(c, text_at(tap, "name"), "fail", json_string(why[0] ? why : "past its bound"), detail);
}

static void add_absent(const struct cases *c, const json_t *names, const char *state,
                       const char *cause, const json_t *but)
{
    const json_t *name, *other;
    size_t i, k;
    json_array_foreach(names, i, name)
    {
        bool listed = false;
        json_array_foreach(but, k, other) listed |= json_equal(name, other);
        if (!listed) add(c, json_string_value(name), state, cause, "");
    }
}

static void add_diff(const struct cases *c, const json_t *r)
{
    const json_t *tap, *promised = json_object_get(r, "promised");
    size_t i;
    json_array_foreach(json_object_get(r, "taps"), i, tap) add_tap(c, tap);
    add_absent(c, promised, "fail", "promised or required, and absent", NULL);
    add_absent(c, json_object_get(r, "missing"), "skipped", "not in the subject", promised);
}

/* ---- op ---- */

static json_t *output_cause(const json_t *row)
{
    const json_t *o, *outputs = json_object_get(row, "outputs");
    size_t i;
    json_array_foreach(outputs, i, o)
    {
        if (!is(o, "verdict", "fail")) continue;
        const json_t *w = json_object_get(o, "worst");
        return json_sprintf("%s on %s at %lld,%lld: max abs %.6g, bound %.6g%s%s",
                            text_at(o, "name"), text_at(o, "on"), int_at(w, "row"),
                            int_at(w, "col"), json_number_value(json_object_get(o, "max_abs")),
                            json_number_value(json_object_get(o, "bound")),
                            text_at(o, "why")[0] ? ": " : "", text_at(o, "why"));
    }
    return json_string("nothing was compared");
}

static void add_op(const struct cases *c, const json_t *r)
{
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(r, "rows"), i, row)
    {
        const char *name = text_at(row, "case");
        json_t *replay = json_sprintf("replay: assay op '%s'", name);
        if (is(row, "verdict", "pass"))
            add(c, name, "pass", "", "");
        else if (is(row, "verdict", "error"))
            add(c, name, "error", text_at(row, "error"), json_string_value(replay));
        else if (is(row, "verdict", "not implemented"))
            add_made(c, name, "fail", json_sprintf("not implemented on %s", text_at(row, "on")),
                     json_incref(replay));
        else
            add_made(c, name, "fail", output_cause(row), json_incref(replay));
        json_decref(replay);
    }
}

/* ---- fault run ---- */

/* Lists of a campaign's records, and what being on one means. */
static const struct {
    const char *key, *state, *cause;
} outcomes[] = {
    {"missed", "fail", "injected, and not caught"},
    {"misnamed", "fail", "a wrong name was claimed"},
    {"alarms", "fail", "a clean run was red"},
    {"errors", "error", "no outcome"},
    {"sub_threshold", "skipped", "changes less than the bound allows"},
    {"inert", "skipped", "changed no bit"},
    {"stopped", "skipped", "stopped before its outcome"},
    {"same_bits", "skipped", "the same bits as another fault"},
};

static void add_record(const struct cases *c, const json_t *record, int kind)
{
    const char *fault = text_at(record, "fault"), *on = text_at(record, "case"),
               *with = text_at(record, "with");
    json_t *name =
        json_sprintf("%s%s%s%s%s%s%s", fault[0] ? fault : text_at(record, "kind"),
                     with[0] ? " + " : "", with, on[0] ? " on " : "", on,
                     text_at(record, "draw")[0] ? " draw " : "", text_at(record, "draw"));
    const char *why = text_at(record, "why");
    add_made(
        c, json_string_value(name), outcomes[kind].state,
        json_sprintf("%s%s%s", outcomes[kind].cause, why[0] ? ": " : "", why),
        json_sprintf("profile %s, order %s", text_at(record, "profile"), text_at(record, "order")));
    json_decref(name);
}

static void add_fault(const struct cases *c, const json_t *r)
{
    const json_t *record, *n;
    const char *fault;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(r, "by_fault"), fault, n)
    {
        if (int_at(n, "caught") == int_at(n, "injected")) add(c, fault, "pass", "", "");
    }
    for (int k = 0; k < (int)(sizeof outcomes / sizeof outcomes[0]); k++) {
        json_array_foreach(json_object_get(r, outcomes[k].key), i, record) add_record(c, record, k);
    }
    json_array_foreach(json_object_get(r, "never"), i, record)
        add(c, json_string_value(record), "skipped", "changed something nowhere", "");
}

/* ---- findings: contract, lint, guard, preflight; problems of inspect ---- */

/* "message: why"; where there is no message, the error's type stands for it. */
static json_t *finding_cause(const json_t *f)
{
    const char *said = text_at(f, "message"), *why = text_at(f, "why");
    if (!said[0]) said = text_at(f, "type");
    if (!said[0] && !why[0]) said = text_at(f, "rule");
    return json_sprintf("%s%s%s", said, said[0] && why[0] ? ": " : "", why);
}

static json_t *finding_detail(const json_t *f)
{
    static const char *const keys[] = {"found", "wanted", "remedy"};
    json_t *detail = json_string("");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = text_at(f, keys[i]), *before = json_string_value(detail);
        if (!text[0]) continue;
        json_t *longer = json_sprintf("%s%s%s %s", before, before[0] ? "\n" : "", keys[i], text);
        json_decref(detail);
        detail = longer;
    }
    if (json_is_number(json_object_get(f, "minutes"))) {
        json_t *longer =
            json_sprintf("%s\ncosts %.1f min: it strikes %s", json_string_value(detail),
                         json_number_value(json_object_get(f, "minutes")), text_at(f, "strikes"));
        json_decref(detail);
        detail = longer;
    }
    return detail;
}

/* What is said, and no failure: accepted, harmless, a note, what cannot be told. */
static const char *excuse(const json_t *f)
{
    if (text_at(f, "accepted")[0]) return "accepted: ";
    if (text_at(f, "harmless")[0]) return "harmless: ";
    if (is(f, "verdict", "undecidable")) return "cannot tell: ";
    return is(f, "severity", "note") ? "note: " : NULL;
}

static void add_finding(const struct cases *c, const json_t *f)
{
    const char *file = text_at(f, "file"), *symbol = text_at(f, "symbol"), *excused = excuse(f),
               *reason =
                   text_at(f, "accepted")[0] ? text_at(f, "accepted") : text_at(f, "harmless");
    if (!symbol[0]) symbol = text_at(f, "rule");
    json_t *name = file[0] ? json_sprintf("%s:%lld %s", file, int_at(f, "line"), symbol)
                           : json_string(symbol),
           *cause = finding_cause(f);
    if (excused)
        add_made(c, json_string_value(name), "skipped",
                 json_sprintf("%s%s", excused, reason[0] ? reason : json_string_value(cause)),
                 NULL);
    else if (is(f, "verdict", "ok"))
        add(c, json_string_value(name), "pass", "", "");
    else
        add_made(c, json_string_value(name), "fail", json_incref(cause), finding_detail(f));
    json_decref(cause);
    json_decref(name);
}

static void add_findings(const struct cases *c, const json_t *r)
{
    const json_t *f;
    size_t i;
    json_array_foreach(json_object_get(r, "findings"), i, f) add_finding(c, f);
}

/* Families of checks: one without a finding is a case that passed; one that could not be looked at
 * is an error. */
static void add_checks(const struct cases *c, const json_t *r)
{
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(r, "checks"), i, one)
    {
        const bool asked = !is(one, "state", "not asked");
        if (asked && (is(one, "state", "not checked") || int_at(one, "findings") > 0)) continue;
        add(c, text_at(one, "check"), asked ? "pass" : "skipped",
            asked ? "" : text_at(one, "about"), "");
    }
    json_array_foreach(json_object_get(r, "not_checked"), i, one) add_made(
        c, text_at(one, "check"), "error", json_sprintf("not checked: %s", text_at(one, "why")),
        json_string(text_at(one, "remedy")));
}

static void add_problems(const struct cases *c, const json_t *r)
{
    const json_t *p;
    size_t i;
    json_array_foreach(json_object_get(r, "problems"), i, p)
    {
        const char *tensor = text_at(p, "tensor");
        json_t *name = json_sprintf("%s%s%s: %s", text_at(p, "where"), tensor[0] ? ": " : "",
                                    tensor, text_at(p, "what"));
        add_made(c, json_string_value(name), "fail", report_error_line(p),
                 json_string(text_at(p, "remedy")));
        json_decref(name);
    }
}

/* ---- plans, and the table ---- */

static void add_steps(const struct cases *c, const json_t *r);

/* By the list that results of that kind have, and a second field where others have such a list. */
static const struct {
    const char *list, *also;
    void (*add)(const struct cases *c, const json_t *r);
} kinds[] = {
    {"taps", "compared", add_diff},         {"rows", "not_implemented", add_op},
    {"never", "injected", add_fault},       {"findings", "findings", add_findings},
    {"problems", "problems", add_problems}, {"steps", "steps", add_steps},
    {"checks", "not_checked", add_checks},
};

static void add_all(const struct cases *c, const json_t *r)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (json_is_array(json_object_get(r, kinds[i].list)) && json_object_get(r, kinds[i].also))
            kinds[i].add(c, r);
    }
}

/* A step is a case; what it checked are cases too where its own outcome is what counts: not those
 * of a bug that was planted to be found. */
static void add_steps(const struct cases *c, const json_t *r)
{
    const json_t *step;
    size_t i;
    json_array_foreach(json_object_get(r, "steps"), i, step)
    {
        const char *verdict = text_at(step, "verdict"), *why = text_at(step, "why");
        bool skipped = strcmp(verdict, "skipped") == 0 || strcmp(verdict, "not run") == 0;
        add(c, text_at(step, "name"), skipped ? "skipped" : verdict, why, text_at(step, "note"));
        if (is(step, "outcome", "fail") && is(step, "verdict", "pass")) continue;
        json_t *suite = json_sprintf("%s.%s", c->suite, text_at(step, "name"));
        const struct cases inner = {c->list, json_string_value(suite)};
        add_all(&inner, json_object_get(step, "result"));
        json_decref(suite);
    }
}

/* The worst state that a case has, as a verdict has it. */
static const char *worst(const json_t *list)
{
    const json_t *one;
    size_t i;
    const char *state = "pass";
    json_array_foreach(list, i, one)
    {
        if (is(one, "state", "error")) return "error";
        if (is(one, "state", "fail")) state = "fail";
    }
    return state;
}

/* The cause of a verdict that no case accounts for. */
static json_t *left_over(const json_t *r)
{
    const char *said = json_string_value(json_array_get(json_object_get(r, "why"), 0));
    if (said) return json_string(said);
    if (int_at(r, "command_exit") != 0)
        return json_sprintf("the command ended with %lld", int_at(r, "command_exit"));
    return json_string("the verdict is not a pass, and no case says why: nothing was compared");
}

json_t *report_cases(const json_t *r)
{
    json_t *suite = report_suite(r);
    const struct cases c = {json_array(), json_string_value(suite)};
    const json_t *error = json_object_get(r, "error");
    const char *verdict = text_at(r, "verdict"),
               *verb = text_at(r, "verb")[0] ? text_at(r, "verb") : "result";
    const bool pass = strcmp(verdict, "pass") == 0;
    add_all(&c, r);
    if (json_is_object(error))
        add_made(&c, verb, strcmp(verdict, "fail") ? "error" : "fail", report_error_line(error),
                 NULL);
    else if (pass && json_array_size(c.list) == 0)
        add(&c, verb, "pass", "", "");
    else if (!pass && strcmp(worst(c.list), "pass") == 0)
        add_made(&c, verb, strcmp(verdict, "error") ? "fail" : "error", left_over(r), NULL);
    json_decref(suite);
    return c.list;
}
