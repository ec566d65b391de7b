/* findings.c: see findings.h. */
#include "reports/findings.h"

#include "reports/cases.h"
#include "reports/fields.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { SLUG = 160 };

struct findings {
    json_t *list;
    json_t *seen; /* identity -> index */
};

static bool is(const json_t *o, const char *key, const char *text)
{
    return strcmp(text_at(o, key), text) == 0;
}

/* "shape differs" -> "shape-differs"; runs of digits become '*'. */
static const char *slug(const char *text, char out[SLUG])
{
    size_t n = 0;
    while (*text && n + 1 < SLUG) {
        const bool digit = isdigit((unsigned char)*text) != 0;
        out[n++] = digit ? '*' : *text == ' ' ? '-' : *text;
        text += digit ? strspn(text, "0123456789") : 1;
    }
    if (*text) { /* no half of a character at the cut */
        while (n > 0 && ((unsigned char)out[n - 1] & 0xC0) == 0x80) n--;
        if (n > 0 && (unsigned char)out[n - 1] >= 0xC0) n--;
    }
    out[n] = '\0';
    return out;
}

/* A finding; its texts are taken over. */
struct finding {
    const char *level;
    json_t *rule, *message, *key;
    const char *file;
    long long line;
    json_t *logical; /* NULL: no logical place */
};

static void add(const struct findings *s, struct finding f)
{
    json_t *id = json_sprintf("%s\t%s\t%lld", json_string_value(f.key), f.file, f.line);
    const json_t *at = json_object_get(s->seen, json_string_value(id));
    if (at) {
        json_t *first = json_array_get(s->list, (size_t)json_integer_value(at));
        json_object_set_new(first, "count", json_integer(int_at(first, "count") + 1));
        json_decref(f.rule);
        json_decref(f.message);
        json_decref(f.key);
        json_decref(f.logical);
    } else {
        json_object_set_new(s->seen, json_string_value(id),
                            json_integer((json_int_t)json_array_size(s->list)));
        json_array_append_new(s->list, json_pack("{s:o, s:s, s:o, s:s, s:I, s:o, s:o, s:i}", "rule",
                                                 f.rule, "level", f.level, "message", f.message,
                                                 "file", f.file, "line", (json_int_t)f.line,
                                                 "logical", f.logical ? f.logical : json_array(),
                                                 "key", f.key, "count", 1));
    }
    json_decref(id);
}

static void place(json_t *logical, const char *kind, const char *name)
{
    if (name[0])
        json_array_append_new(logical, json_pack("{s:s, s:s}", "kind", kind, "name", name));
}

static void place_number(json_t *logical, const char *kind, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0) return;
    json_t *text = json_sprintf("%s %lld", kind, (long long)json_integer_value(v));
    place(logical, kind, json_string_value(text));
    json_decref(text);
}

/* Tap, op, layer, draft step, rank: of `first` and of `guilty`. */
static json_t *place_of(const json_t *at)
{
    json_t *list = json_array();
    place(list, "op", text_at(at, "op"));
    place_number(list, "layer", at, "layer");
    place_number(list, "draft step", at, "draft_step");
    place_number(list, "rank", at, "rank");
    place(list, "tap", text_at(at, "tap"));
    return list;
}

/* ---- diff ---- */

static const json_t *tap_named(const json_t *r, const char *name)
{
    const json_t *tap;
    size_t i;
    json_array_foreach(json_object_get(r, "taps"), i, tap)
    {
        if (is(tap, "name", name)) return tap;
    }
    return NULL;
}

/* The guilty op with its name, where there is one; else where the dumps first diverge. */
static void add_divergence(const struct findings *s, const json_t *r)
{
    const json_t *guilty = json_object_get(r, "guilty"), *named = json_object_get(r, "diagnosis");
    const bool found = json_is_object(guilty);
    const json_t *at = found ? guilty : json_object_get(r, "first");
    if (!json_is_object(at)) return;
    const char *fault =
        json_array_size(named) == 1 ? text_at(json_array_get(named, 0), "fault") : "";
    const char *rule = fault[0] ? fault : found ? "guilty-op" : "divergence";
    const char *why = text_at(tap_named(r, text_at(at, "tap")), "why");
    char kind[SLUG];
    struct finding f = {.level = "error", .file = "", .logical = place_of(at)};
    f.rule = json_sprintf("diff/%s", rule);
    f.key = json_sprintf("diff|%s|%s|%s", rule, text_at(at, "op"), slug(text_at(at, "tap"), kind));
    f.message = json_sprintf("%s: op %s, tap %s: %s%s%s",
                             found ? "wrong from the subject's own inputs" : "first divergence",
                             text_at(at, "op"), text_at(at, "tap"), why[0] ? why : "past its bound",
                             fault[0] ? "; explained by " : "", fault);
    add(s, f);
}

static void add_flips(const struct findings *s, const json_t *r)
{
    const json_t *flip;
    size_t i;
    json_array_foreach(json_object_get(r, "flips"), i, flip)
    {
        if (json_is_true(json_object_get(flip, "certified"))) continue;
        add(s, (struct finding){
                   .level = "warning",
                   .file = "",
                   .rule = json_string("diff/router-flip"),
                   .key = json_string("diff|router-flip"),
                   .message = json_sprintf("other experts than the reference, and no near tie: "
                                           "layer %lld, row %lld",
                                           int_at(flip, "layer"), int_at(flip, "row")),
                   .logical = place_of(flip)});
    }
}

static void add_diff(const struct findings *s, const json_t *r)
{
    const json_t *name;
    size_t i;
    add_divergence(s, r);
    if (is(r, "verdict", "fail")) add_flips(s, r);
    json_array_foreach(json_object_get(r, "promised"), i, name)
    {
        char kind[SLUG];
        json_t *logical = json_array();
        place(logical, "tap", json_string_value(name));
        add(s, (struct finding){
                   .level = "error",
                   .file = "",
                   .rule = json_string("diff/absent"),
                   .key = json_sprintf("diff|absent|%s", slug(json_string_value(name), kind)),
                   .message = json_sprintf("promised or required, and absent: %s",
                                           json_string_value(name)),
                   .logical = logical});
    }
}

/* ---- op, fault run ---- */

static void add_op(const struct findings *s, const json_t *r)
{
    const json_t *row, *o;
    size_t i, k;
    json_array_foreach(json_object_get(r, "rows"), i, row)
    {
        const char *line = text_at(row, "case"), *output = "";
        if (is(row, "verdict", "pass")) continue;
        json_array_foreach(json_object_get(row, "outputs"), k, o)
        {
            if (!output[0] && is(o, "verdict", "fail")) output = text_at(o, "name");
        }
        json_t *logical = json_array(), *op = json_sprintf("%.*s", (int)strcspn(line, " "), line);
        char state[SLUG];
        place(logical, "op", json_string_value(op));
        place(logical, "output", output);
        add(s, (struct finding){.level = "error",
                                .file = "",
                                .rule = json_sprintf("op/%s", slug(text_at(row, "verdict"), state)),
                                .key = json_sprintf("op|%s|%s|%s", text_at(row, "verdict"),
                                                    json_string_value(op), output),
                                .message = json_sprintf("replay: assay op '%s'", line),
                                .logical = logical});
        json_decref(op);
    }
}

static void add_fault(const struct findings *s, const json_t *r)
{
    static const char *const lists[] = {"missed", "misnamed", "alarms", "errors"};
    const json_t *record;
    size_t i;
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        json_array_foreach(json_object_get(r, lists[k]), i, record)
        {
            const char *fault = text_at(record, "fault");
            const int bare = (int)strcspn(fault, "@"); /* a site is drawn from the seed */
            json_t *logical = json_array();
            place(logical, "fault", fault);
            place(logical, "case", text_at(record, "case"));
            add(s, (struct finding){.level = "error",
                                    .file = "",
                                    .rule = json_sprintf("fault/%s", lists[k]),
                                    .key = json_sprintf("fault|%s|%s|%.*s", lists[k],
                                                        text_at(record, "kind"), bare, fault),
                                    .message = json_sprintf("%s: %s %s", lists[k], fault,
                                                            text_at(record, "why")),
                                    .logical = logical});
        }
    }
}

/* ---- findings of contract, lint, guard, preflight; problems of inspect ---- */

/* Of the two words that a finding may have: its verdict, then its severity. */
static const struct {
    const char *word, *level;
} levels[] = {
    {"undecidable", "note"},
    {"ok", "warning"},
    {"note", "note"},
    {"warning", "warning"},
};

static const char *level_of(const json_t *f)
{
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (is(f, "verdict", levels[i].word) || is(f, "severity", levels[i].word))
            return levels[i].level;
    }
    return "error";
}

/* Of an ok one, only what warns; of an accepted or harmless one, nothing. */
static bool is_silent(const json_t *f)
{
    return text_at(f, "accepted")[0] || text_at(f, "harmless")[0] ||
           (is(f, "verdict", "ok") && is(f, "severity", "none"));
}

/* "symbol: message: why", of what there is; an error's type stands for a message that is empty. */
static json_t *message_of(const json_t *f, const char *rule)
{
    const char *parts[] = {text_at(f, "symbol"), text_at(f, "message"), text_at(f, "why")};
    json_t *text = json_string("");
    if (!parts[1][0]) parts[1] = text_at(f, "type");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *before = json_string_value(text);
        if (!parts[i][0]) continue;
        json_t *longer = json_sprintf("%s%s%s", before, before[0] ? ": " : "", parts[i]);
        json_decref(text);
        text = longer;
    }
    if (json_string_length(text) == 0) json_string_set(text, rule);
    return text;
}

static void add_one_found(const struct findings *s, const json_t *r, const json_t *f)
{
    char rule[SLUG];
    const char *symbol = text_at(f, "symbol"), *verb = text_at(r, "verb");
    json_t *logical = json_array();
    place(logical, "function", text_at(f, "function"));
    place(logical, "member", symbol);
    slug(text_at(f, "rule")[0]       ? text_at(f, "rule")
         : text_at(f, "severity")[0] ? text_at(f, "severity")
                                     : "finding",
         rule);
    add(s, (struct finding){.level = level_of(f),
                            .file = text_at(f, "file"),
                            .line = int_at(f, "line"),
                            .rule = json_sprintf("%s/%s", verb, rule),
                            .key = json_sprintf("%s|%s|%s|%s|%s", verb, rule, text_at(f, "file"),
                                                symbol, text_at(f, "function")),
                            .message = message_of(f, rule),
                            .logical = logical});
}

static void add_found(const struct findings *s, const json_t *r)
{
    const json_t *f;
    size_t i;
    json_array_foreach(json_object_get(r, "findings"), i, f)
    {
        if (!is_silent(f)) add_one_found(s, r, f);
    }
}

/* What was asked for and could not be looked at. */
static void add_unchecked(const struct findings *s, const json_t *r)
{
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(r, "not_checked"), i, one)
    {
        json_t *logical = json_array();
        place(logical, "check", text_at(one, "check"));
        add(s, (struct finding){.level = "error",
                                .file = text_at(r, "plan"),
                                .rule = json_sprintf("%s/not-checked", text_at(r, "verb")),
                                .key = json_sprintf("%s|not-checked|%s", text_at(r, "verb"),
                                                    text_at(one, "check")),
                                .message = json_sprintf("%s: not checked: %s",
                                                        text_at(one, "check"), text_at(one, "why")),
                                .logical = logical});
    }
}

static void add_problems(const struct findings *s, const json_t *r)
{
    const json_t *p;
    size_t i;
    json_array_foreach(json_object_get(r, "problems"), i, p)
    {
        char what[SLUG], tensor[SLUG];
        json_t *logical = json_array();
        place(logical, "tensor", text_at(p, "tensor"));
        place(logical, "file", text_at(p, "where"));
        slug(text_at(p, "what"), what);
        add(s, (struct finding){
                   .level = "error",
                   .file = text_at(r, "path"),
                   .rule = json_sprintf("inspect/%s", what),
                   .key = json_sprintf("inspect|%s|%s", what, slug(text_at(p, "tensor"), tensor)),
                   .message = json_sprintf("%s: %s%s%s: found %s, wanted %s", text_at(p, "what"),
                                           text_at(p, "where"), text_at(p, "tensor")[0] ? ": " : "",
                                           text_at(p, "tensor"), text_at(p, "found"),
                                           text_at(p, "wanted")),
                   .logical = logical});
    }
}

/* ---- plans, and the table ---- */

static void add_all(const struct findings *s, const json_t *r);

/* Of steps that are not as expected. A step's result does not say its verb. */
static void add_steps(const struct findings *s, const json_t *r)
{
    const json_t *step;
    size_t i;
    json_array_foreach(json_object_get(r, "steps"), i, step)
    {
        const size_t before = json_array_size(s->list);
        if (!is(step, "verdict", "fail")) continue;
        add_all(s, json_object_get(step, "result"));
        if (json_array_size(s->list) > before) continue;
        json_t *logical = json_array();
        place(logical, "step", text_at(step, "name"));
        add(s,
            (struct finding){.level = "error",
                             .file = text_at(r, "plan"),
                             .line = int_at(step, "line"),
                             .rule = json_string("run/step"),
                             .key = json_sprintf("run|step|%s", text_at(step, "name")),
                             .message = json_sprintf("step %s is not as expected: %s",
                                                     text_at(step, "name"), text_at(step, "why")),
                             .logical = logical});
    }
}

static const struct {
    const char *list, *also;
    void (*add)(const struct findings *s, const json_t *r);
} kinds[] = {
    {"taps", "compared", add_diff},           {"rows", "not_implemented", add_op},
    {"never", "injected", add_fault},         {"findings", "findings", add_found},
    {"problems", "problems", add_problems},   {"steps", "steps", add_steps},
    {"checks", "not_checked", add_unchecked},
};

static void add_all(const struct findings *s, const json_t *r)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (json_is_array(json_object_get(r, kinds[i].list)) && json_object_get(r, kinds[i].also))
            kinds[i].add(s, r);
    }
}

/* Nothing says what failed: that must not look like nothing. */
static void add_verdict(const struct findings *s, const json_t *r)
{
    json_t *cases = report_cases(r);
    add(s, (struct finding){.level = "error",
                            .file = "",
                            .rule = json_sprintf("%s/verdict", text_at(r, "verb")),
                            .key = json_sprintf("%s|verdict", text_at(r, "verb")),
                            .message = json_string(text_at(json_array_get(cases, 0), "cause"))});
    json_decref(cases);
}

json_t *report_findings(const json_t *result)
{
    const struct findings s = {json_array(), json_object()};
    add_all(&s, result);
    if (json_array_size(s.list) == 0 && is(result, "verdict", "fail")) add_verdict(&s, result);
    json_decref(s.seen);
    return s.list;
}
