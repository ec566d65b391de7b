/* plan_step.c: the body of a step. Its keys are the options of the verb that it runs, so that a new
 * option of a verb is a new key; see plan.h. */
#include "core/ops.h"
#include "core/text.h"
#include "harness/case.h"
#include "harness/plan_parse.h"
#include "harness/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the runner gives, or what makes no sense in a plan. */
static const char *const kept[] = {"--out", "--list", "--op", NULL};

static const struct option_row *find_row(const struct verb *v, const char *key)
{
    for (const struct option_row *o = v->options; o->name; o++) {
        const char *name = o->name + strspn(o->name, "-");
        size_t i = 0;
        while (key[i] && (key[i] == name[i] || (key[i] == '_' && name[i] == '-'))) i++;
        if (key[i] || name[i]) continue;
        for (int k = 0; kept[k]; k++) {
            if (strcmp(kept[k], o->name) == 0) return NULL;
        }
        return o;
    }
    return NULL;
}

static const struct plan_option *find_option(const struct plan_step *s, const char *name)
{
    for (int i = 0; i < s->options; i++) {
        if (strcmp(s->option[i].row->name, name) == 0) return &s->option[i];
    }
    return NULL;
}

/* A text that may be an earlier step's name. */
static enum err_code read_dump(struct plan_reader *r, const struct yaml_node *n,
                               struct plan_text *out)
{
    char found[128];
    const struct plan *p = r->plan;
    *out = (struct plan_text){plan_scalar(r, n), -1, plan_place_of(n)};
    if (!out->text) return r->err->code;
    for (int i = 0; i < p->steps; i++) {
        if (strcmp(p->step[i].name, out->text) != 0) continue;
        out->step = i;
        snprintf(found, sizeof found, "%s \"%s\" of line %d",
                 i == r->done  ? "the step itself,"
                 : i > r->done ? "the later step"
                               : "the step",
                 out->text, p->step[i].at.line);
        if (i >= r->done) return plan_bad(r, n, found, "a step above, or a path");
        if (p->step[i].kind != PLAN_FORWARD)
            return plan_bad(r, n, found, "a forward, which writes a dump");
    }
    return ERR_OK;
}

static enum err_code bad_value(struct plan_reader *r, const struct yaml_node *n, const char *text,
                               const char *wanted)
{
    char found[128];
    snprintf(found, sizeof found, "\"%.80s\"", text);
    return plan_bad(r, n, found, wanted);
}

static bool is_choice(const char *metavar, const char *text)
{
    size_t n = strlen(text);
    for (const char *at = metavar; at; at = strchr(at, '|'), at = at ? at + 1 : NULL) {
        if (strncmp(at, text, n) == 0 && (at[n] == '|' || !at[n])) return n > 0;
    }
    return false;
}

/* What the verb would refuse whatever the model is. Profiles and the schedule are read by the
 * verb's own reader. */
static enum err_code check_value(struct plan_reader *r, struct plan_step *s,
                                 const struct yaml_node *n, const struct option_row *row,
                                 const char *text)
{
    struct err e = ERR_INIT;
    struct session_options o;
    const struct args one = {
        .verb = plan_verb(s->kind), .given = {row}, .value = {text}, .givens = 1};
    const char *m = row->metavar;
    int64_t whole;
    double real;
    if (s->kind != PLAN_OP && session_options_read(&one, &o, &e) != ERR_OK)
        return plan_bad(r, n, e.found, e.wanted);
    if (strcmp(m, "N") == 0 && strcmp(row->name, "--decode-last") != 0)
        return plan_int(r, n, 1, INT32_MAX, &whole);
    if (strcmp(m, "S") == 0) return plan_int(r, n, 0, INT64_MAX, &whole);
    if (strcmp(m, "B") == 0 && (!text_double(text, &real) || !(real >= 0) || isinf(real)))
        return bad_value(r, n, text, "a number of 0 or more");
    if (strcmp(m, "A:B") == 0 && !strchr(text, ':')) return bad_value(r, n, text, "A:B");
    if (strchr(m, '|') && !is_choice(m, text)) return bad_value(r, n, text, m);
    return ERR_OK;
}

static enum err_code push(struct plan_reader *r, struct plan_step *s, const struct yaml_node *n,
                          const struct option_row *row, struct plan_text value)
{
    if (s->options == PLAN_OPTIONS) return plan_bad(r, n, "one value too many", "at most 40");
    s->option[s->options++] = (struct plan_option){row, value};
    return ERR_OK;
}

static bool takes_list(const struct option_row *row)
{
    return strcmp(row->metavar, "T") == 0 || strcmp(row->metavar, "GLOB,...") == 0 ||
           strcmp(row->metavar, "SIDES") == 0;
}

static enum err_code read_option(struct plan_reader *r, struct plan_step *s,
                                 const struct yaml_node *n, const struct option_row *row)
{
    struct plan_text v = {"", -1, plan_place_of(n)};
    bool set = true;
    if (!row->metavar) {
        if (plan_bool(r, n, &set) != ERR_OK || !set) return r->err->code;
        return push(r, s, n, row, v);
    }
    if (row->repeat && n->kind == YAML_LIST) {
        if (plan_want(r, n, YAML_LIST) != ERR_OK) return r->err->code;
        for (const struct yaml_node *c = n->child; c; c = c->next) {
            if (read_option(r, s, c, row) != ERR_OK) return r->err->code;
        }
        return ERR_OK;
    }
    if (strcmp(row->metavar, "DUMP") == 0) {
        if (read_dump(r, n, &v) != ERR_OK) return r->err->code;
    } else if (takes_list(row)) {
        if (plan_joined(r, n, &v.text) != ERR_OK) return r->err->code;
    } else if (!(v.text = plan_scalar(r, n))) {
        return r->err->code;
    }
    if (check_value(r, s, n, row, v.text) != ERR_OK) return r->err->code;
    return push(r, s, n, row, v);
}

/* "1,2,3" of a list, or "@file". */
static enum err_code read_equals(struct plan_reader *r, struct plan_step *s,
                                 const struct yaml_node *n)
{
    int64_t id;
    s->equals = (struct plan_text){NULL, -1, plan_place_of(n)};
    if (n->kind == YAML_LIST) {
        for (const struct yaml_node *c = n->child; c; c = c->next) {
            if (plan_int(r, c, 0, INT32_MAX, &id) != ERR_OK) return r->err->code;
        }
        return plan_joined(r, n, &s->equals.text);
    }
    s->equals.text = plan_scalar(r, n);
    if (s->equals.text && (s->equals.text[0] != '@' || !s->equals.text[1]))
        return bad_value(r, n, s->equals.text, "a list of ids, or \"@golden.json\"");
    return r->err->code;
}

/* Keys that are no option of the verb. *taken: it was one of them. */
static enum err_code read_own(struct plan_reader *r, struct plan_step *s, const struct yaml_node *n,
                              bool *taken)
{
    static const char *const words[PLAN_KINDS][2] = {
        [PLAN_DIFF] = {"subject", "truth"}, [PLAN_OP] = {"name", "case"}};
    *taken = true;
    for (int i = 0; i < 2; i++) {
        if (!words[s->kind][i] || strcmp(words[s->kind][i], n->key) != 0) continue;
        if (s->kind == PLAN_DIFF) return read_dump(r, n, &s->word[i]);
        s->word[i] = (struct plan_text){plan_scalar(r, n), -1, plan_place_of(n)};
        return r->err->code;
    }
    if (s->kind == PLAN_GENERATE && strcmp(n->key, "equals") == 0) return read_equals(r, s, n);
    if (s->kind != PLAN_OP && strcmp(n->key, "model") == 0) {
        s->model = (struct plan_text){plan_scalar(r, n), -1, plan_place_of(n)};
        return r->err->code;
    }
    if (s->kind == PLAN_DIFF && strcmp(n->key, "bless") == 0) return plan_bool(r, n, &s->bless);
    *taken = false;
    return ERR_OK;
}

static enum err_code unknown_key(struct plan_reader *r, const struct plan_step *s,
                                 const struct yaml_node *n)
{
    static const char *const own[PLAN_KINDS] = {[PLAN_FORWARD] = "model",
                                                [PLAN_DIFF] = "subject, truth, bless",
                                                [PLAN_GENERATE] = "model, equals",
                                                [PLAN_OP] = "name, case"};
    char wanted[ERR_PART] = "";
    size_t used = (size_t)snprintf(wanted, sizeof wanted, "%s", own[s->kind]);
    for (const struct option_row *o = plan_verb(s->kind)->options; o->name; o++) {
        const char *key = o->name + strspn(o->name, "-");
        if (find_row(plan_verb(s->kind), key) && used < sizeof wanted)
            used += (size_t)snprintf(wanted + used, sizeof wanted - used, ", %s", key);
    }
    return plan_bad_key(r, n, wanted);
}

/* `include` is --fault, as often as it has patterns; the other keys are the options. */
static enum err_code read_fault(struct plan_reader *r, struct plan_step *s,
                                const struct yaml_node *n)
{
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        bool include = strcmp(c->key, "include") == 0;
        const struct option_row *row = find_row(&verb_fault, include ? "fault" : c->key);
        if (!row || (row->repeat && !include))
            return plan_bad_key(r, c, "include, seed, seeds, quick, clean, bound or threads");
        if (find_option(s, row->name)) return plan_bad_key(r, c, "each key once");
        if (include && c->kind != YAML_LIST) return plan_want(r, c, YAML_LIST);
        if (read_option(r, s, c, row) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

enum err_code plan_body(struct plan_reader *r, struct plan_step *s, const struct yaml_node *n)
{
    if (plan_want(r, n, YAML_MAP) != ERR_OK) return r->err->code;
    if (s->kind == PLAN_FAULT) return read_fault(r, s, n);
    for (const struct yaml_node *c = n->child; c; c = c->next) {
        bool taken;
        if (read_own(r, s, c, &taken) != ERR_OK) return r->err->code;
        if (taken) continue;
        const struct option_row *row = find_row(plan_verb(s->kind), c->key);
        if (!row) return unknown_key(r, s, c);
        if (find_option(s, row->name)) return plan_bad_key(r, c, "each key once, with - or with _");
        if (read_option(r, s, c, row) != ERR_OK) return r->err->code;
    }
    return ERR_OK;
}

/* ---- what can only be said once all keys are read ---- */

static enum err_code no_key(struct plan_reader *r, const struct yaml_node *n, const char *key,
                            const char *wanted)
{
    char found[96];
    snprintf(found, sizeof found, "no %s", key);
    return plan_bad(r, n, found, wanted);
}

static enum err_code take_defaults(struct plan_reader *r, struct plan_step *s,
                                   const struct yaml_node *n)
{
    const struct option_row *tokens = find_row(plan_verb(s->kind), "tokens");
    if (!s->model.text) s->model = r->model;
    if (!s->model.text) return no_key(r, n, "model", "model: MODEL, here or for the whole plan");
    if (find_option(s, tokens->name)) return ERR_OK;
    if (!r->tokens.text) return no_key(r, n, "tokens", "tokens: T, here or for the whole plan");
    return push(r, s, n, tokens, r->tokens);
}

static enum err_code check_bless(struct plan_reader *r, const struct plan_step *s,
                                 const struct yaml_node *n)
{
    static const char wanted[] = "a path of one's own: relative, below the plan's folder";
    const char *path = s->word[1].text;
    if (!path || s->word[1].step >= 0)
        return no_key(r, n, "path as truth", "the golden that bless records");
    for (const char *at = path; at; at = strchr(at, '/'), at = at ? at + 1 : NULL) {
        size_t part = strcspn(at, "/");
        if (part == 0 || (part == 2 && strncmp(at, "..", 2) == 0))
            return bad_value(r, n, path, wanted);
    }
    return ERR_OK;
}

static enum err_code check_diff(struct plan_reader *r, struct plan_step *s,
                                const struct yaml_node *n)
{
    bool runs = !s->word[1].text || find_option(s, "--anchor") || find_option(s, "--diagnose") ||
                (find_option(s, "--profile") && !find_option(s, "--profile-run"));
    if (!s->word[0].text) return no_key(r, n, "subject", "subject: a step or a path");
    if (s->bless && check_bless(r, s, n) != ERR_OK) return r->err->code;
    if (find_option(s, "--profile-run") &&
        (find_option(s, "--anchor") || find_option(s, "--diagnose")))
        return plan_bad(r, n, "anchor or diagnose beside profile-run",
                        "profile: NAME: the run is made anchored");
    if (!s->model.text && runs) {
        s->model = r->model;
        if (!s->model.text)
            return no_key(r, n, s->word[1].text ? "model for profile" : "truth and no model",
                          "truth: a step or a path, or model: MODEL");
    }
    return ERR_OK;
}

static enum err_code check_op(struct plan_reader *r, const struct plan_step *s,
                              const struct yaml_node *n)
{
    char line[CASE_INPUT], found[2 * ERR_PART + 8];
    struct op_case c;
    struct err e = ERR_INIT;
    bool sweep = find_option(s, "--sweep") != NULL;
    const char *name = s->word[0].text, *more = s->word[1].text;
    if (!name && !sweep) return no_key(r, n, "name", "name: OP, or sweep: true");
    if (sweep && more) return plan_bad(r, n, "case and sweep", "one of the two");
    if (more && !name) return no_key(r, n, "name beside case", "name: OP");
    if (!sweep && (find_option(s, "--count") || find_option(s, "--seed")))
        return plan_bad(r, n, "count or seed without sweep", "sweep: true beside it");
    if (!name) return ERR_OK;
    if (sweep && strchr(name, ' ')) return bad_value(r, n, name, "the name of an op alone");
    int length = snprintf(line, sizeof line, "%s%s%s", name, more ? " " : "", more ? more : "");
    if (length >= (int)sizeof line) return plan_bad(r, n, "a case too long", "a shorter one");
    if (case_parse(&c, line, &e) == ERR_OK) return ERR_OK;
    snprintf(found, sizeof found, "%s: %s", e.where[0] ? e.where : "case line", e.found);
    return plan_bad(r, n, found, e.wanted);
}

enum err_code plan_step_check(struct plan_reader *r, struct plan_step *s, const struct yaml_node *n)
{
    const struct plan_expect *x = &s->expect;
    if (s->bless && x->given)
        return plan_bad(r, n, "bless and expect", "one of the two: a golden is what is right");
    if (x->diagnosis && !find_option(s, "--diagnose"))
        return plan_bad(r, n, "expect: diagnosis without diagnose", "diagnose: true in the diff");
    switch (s->kind) {
    case PLAN_FORWARD:
    case PLAN_GENERATE:
    case PLAN_FAULT:
        return take_defaults(r, s, n);
    case PLAN_DIFF:
        return check_diff(r, s, n);
    case PLAN_OP:
        return check_op(r, s, n);
    default:
        return ERR_OK;
    }
}
