/* verb_op.c: `assay op NAME [CASE] --on ref,gpu`: one op, one case line; the same line replays it.
 * With --sweep, many cases drawn at random from --seed. With `fault=ID@KEY=V` in the line every
 * side but the first runs with that fault: red, or the fault is none that this case can see. Case
 * lines: case.h; bounds: bound.h; judging: op_run.h. Test: tests/test_sweep.c */
#include "core/tactic.h"
#include "harness/kernel_report.h"
#include "harness/op_run.h"
#include "harness/report.h"
#include "harness/tactic_options.h"
#include "harness/verb.h"

#include "core/check.h"
#include "core/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct tally {
    int64_t passed, failed, not_implemented, compared;
};

/* The sides of --on, first one the truth. One side alone: itself at float64, then at float32. */
struct plan {
    struct op_subject subject[OP_SUBJECTS];
    int subjects;
    char on[64];
};

static const struct op_side *side_named(const char *name)
{
    const struct op_side *const side[] = {ref_side(), gpu_side(), naive_side()};
    for (size_t i = 0; i < sizeof side / sizeof side[0]; i++) {
        if (strcmp(side[i]->name, name) == 0) return side[i];
    }
    return NULL;
}

static enum err_code plan_add(struct plan *p, const char *name, struct err *err)
{
    const struct op_side *side = side_named(name);
    if (!side)
        return err_set(err, ERR_USAGE, "option --on||\"%s\"|ref, gpu or naive, joined by ','",
                       name);
    for (int i = 0; i < p->subjects; i++) {
        if (p->subject[i].side == side)
            return err_set(err, ERR_USAGE, "option --on||\"%s\" twice|each side once", name);
    }
    if (!side->available)
        return err_set(err, ERR_DEVICE, "run an op|side %s|%s|a build and a machine that have it",
                       name, side->why_not ? side->why_not : "not available");
    if (op_side_check(side, err) != ERR_OK) return err->code;
    CHECK(p->subjects < OP_SUBJECTS);
    p->subject[p->subjects++] = (struct op_subject){.side = side};
    return ERR_OK;
}

static enum err_code plan_make(struct plan *p, const char *on, struct err *err)
{
    *p = (struct plan){0};
    if (strlen(on) >= sizeof p->on)
        return err_set(err, ERR_USAGE, "option --on||%zu characters|a list of sides", strlen(on));
    snprintf(p->on, sizeof p->on, "%s", on);
    for (const char *at = on;;) {
        char name[sizeof p->on];
        size_t n = strcspn(at, ",");
        memcpy(name, at, n);
        name[n] = '\0';
        if (plan_add(p, name, err) != ERR_OK) return err->code;
        if (!at[n]) break;
        at += n + 1;
    }
    if (p->subjects > 1) return ERR_OK;
    p->subject[0].own_precision = true;
    p->subject[0].precision = PRECISION_F64;
    p->subject[1] = p->subject[0];
    p->subject[1].precision = PRECISION_F32;
    p->subjects = 2;
    return ERR_OK;
}

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null(); /* JSON has no NaN; the text line shows it */
}

static void row_json(json_t *rows, const char *line, const struct op_result *r)
{
    static const char *const verdict[] = {"pass", "fail", "not implemented", "error"};
    json_t *row =
        json_pack("{s:s, s:s, s:[]}", "case", line, "verdict", verdict[r->verdict], "outputs");
    for (int i = 0; i < r->outputs; i++) {
        const struct op_output *o = &r->output[i];
        json_t *worst = json_pack("{s:I, s:I, s:o, s:o}", "row", (json_int_t)o->worst.row, "col",
                                  (json_int_t)o->worst.col, "subject", number(o->worst.subject),
                                  "truth", number(o->worst.truth));
        json_t *out =
            json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:I, s:o}", "name", o->name, "on",
                      o->side, "verdict", o->failed ? "fail" : "pass", "rel_rms",
                      number(o->rel_rms), "max_abs", number(o->max_abs), "bound", number(o->bound),
                      "bound_from", o->from, "near_ties", (json_int_t)o->near_ties, "worst", worst);
        if (o->why[0]) json_object_set_new(out, "why", json_string(o->why));
        json_array_append_new(json_object_get(row, "outputs"), out);
    }
    if (r->fault_calls > 0)
        json_object_set_new(row, "fault",
                            json_pack("{s:I, s:I}", "calls", (json_int_t)r->fault_calls, "changed",
                                      (json_int_t)r->fault_changed));
    if (r->kernels.rows) json_object_set_new(row, "kernels", kernels_json(&r->kernels));
    if (r->verdict == OP_NOT_IMPLEMENTED) json_object_set_new(row, "on", json_string(r->side));
    if (r->verdict == OP_ERROR) {
        char text[ERR_LINE];
        json_object_set_new(row, "error", json_string(err_line(&r->err, text, sizeof text)));
    }
    json_array_append_new(rows, row);
}

static void row_text(const char *line, const struct op_result *r, const struct plan *p)
{
    char text[ERR_LINE];
    printf("%s ", line);
    for (int i = 0; i < r->outputs; i++) {
        const struct op_output *o = &r->output[i];
        printf(" %s %.3g/%.3g", o->name, fabs(o->worst.subject - o->worst.truth), o->bound);
        if (o->near_ties) printf(" (%lld near ties)", (long long)o->near_ties);
    }
    if (r->fault_calls > 0 && r->fault_changed == 0)
        printf("  (the fault is inert: no bit changed)");
    if (r->verdict == OP_OK) printf("  ok\n");
    if (r->verdict == OP_NOT_IMPLEMENTED) printf(" side %s: NOT IMPLEMENTED\n", r->side);
    if (r->verdict == OP_ERROR) printf(" FAIL: %s\n", err_line(&r->err, text, sizeof text));
    if (r->verdict == OP_FAIL && r->compared == 0 && r->outputs == 0)
        printf(" FAIL: nothing was compared\n");
    for (int i = 0; i < r->outputs; i++) {
        const struct op_output *o = &r->output[i];
        if (!o->failed) continue;
        printf("  FAIL at %s %lld,%lld %s %.9g truth %.9g%s%s", o->name, (long long)o->worst.row,
               (long long)o->worst.col, o->side, o->worst.subject, o->worst.truth,
               o->why[0] ? ": " : "", o->why);
        printf("\n    bound from %s\n", o->from);
        break; /* the first output in order of computing is the cause */
    }
    if (r->verdict != OP_OK) {
        kernels_print(&r->kernels, stdout);
        printf("    replay: assay op %s --on %s\n", line, p->on);
    }
}

static void count(struct tally *t, const struct op_result *r)
{
    t->compared += r->compared;
    if (r->verdict == OP_OK)
        t->passed++;
    else if (r->verdict == OP_NOT_IMPLEMENTED)
        t->not_implemented++;
    else
        t->failed++;
}

static enum err_code one_case(const struct op_case *c, const struct plan *p, const struct args *a,
                              json_t *rows, struct tally *t, struct err *err)
{
    struct op_result r;
    char line[CASE_LINE];
    case_print(c, line);
    if (op_run_case(c, p->subject, p->subjects, &r, err) != ERR_OK)
        return err_note(err, "case %.100s", line);
    /* A case of one's own that the op refuses is the answer, with its message; in a sweep or a list
     * it is a failure. */
    if (r.verdict == OP_ERROR && !args_has(a, "--sweep") && !args_has(a, "--cases")) {
        *err = r.err;
        return err->code;
    }
    row_json(rows, line, &r);
    if (!a->json) row_text(line, &r, p);
    count(t, &r);
    return ERR_OK;
}

static bool plan_has(const struct plan *p, const struct op_side *side)
{
    for (int i = 0; i < p->subjects; i++) {
        if (p->subject[i].side == side) return true;
    }
    return false;
}

static enum err_code sweep(const struct args *a, const struct plan *p, json_t *rows,
                           struct tally *t, struct err *err)
{
    const struct case_op *op;
    int64_t n, seed;
    if (a->words > 1)
        return err_set(err, ERR_USAGE, "option --sweep||a case line beside it|one of the two");
    if (args_int(a, "--count", 1, 1000000, 40, &n, err) != ERR_OK) return err->code;
    if (args_int(a, "--seed", 0, INT64_MAX, 1, &seed, err) != ERR_OK) return err->code;
    if (a->words == 1 && !case_op_find(a->word[0])) {
        struct op_case ignored;
        return case_parse(&ignored, a->word[0], err); /* its message lists the names */
    }
    for (int i = 0; (op = case_op_at(i)); i++) {
        if (a->words == 1 && strcmp(op->name, a->word[0]) != 0) continue;
        for (int64_t k = 0; k < n; k++) {
            struct op_case c;
            case_draw(&c, op, (uint64_t)seed, k);
            if (plan_has(p, gpu_side())) case_fit_device(&c);
            if (one_case(&c, p, a, rows, t, err) != ERR_OK) return err->code;
        }
    }
    return ERR_OK;
}

/* A file of case lines; empty ones and those that begin with # are skipped. */
static enum err_code run_list(const struct args *a, const struct plan *p, json_t *rows,
                              struct tally *t, struct err *err)
{
    const char *path = args_value(a, "--cases");
    char line[CASE_INPUT];
    struct file_map map;
    int64_t number = 0;
    if (a->words > 0 || args_has(a, "--sweep"))
        return err_set(err, ERR_USAGE, "option --cases||a case or --sweep beside it|one of them");
    if (file_map(path, &map, err) != ERR_OK) return err->code;
    for (int64_t at = 0; err->code == ERR_OK && at < map.size;) {
        const char *text = (const char *)map.data + at;
        const char *end = memchr(text, '\n', (size_t)(map.size - at));
        size_t n = end ? (size_t)(end - text) : (size_t)(map.size - at);
        struct op_case c;
        at += (int64_t)n + 1;
        number++;
        if (n == 0 || text[0] == '#') continue;
        if (n >= sizeof line) {
            (void)err_set(err, ERR_INPUT, "case line|%s:%lld|%zu characters|fewer than %d", path,
                          (long long)number, n, CASE_INPUT);
            break;
        }
        memcpy(line, text, n);
        line[n] = '\0';
        if (case_parse(&c, line, err) != ERR_OK || one_case(&c, p, a, rows, t, err) != ERR_OK)
            (void)err_note(err, "%s:%lld", path, (long long)number);
    }
    file_unmap(&map);
    return err->code;
}

static enum err_code replay(const struct args *a, const struct plan *p, json_t *rows,
                            struct tally *t, struct err *err)
{
    struct op_case c;
    char line[CASE_INPUT];
    static const char *const only_sweep[] = {"--count", "--seed"};
    for (size_t i = 0; i < sizeof only_sweep / sizeof only_sweep[0]; i++) {
        if (args_has(a, only_sweep[i]))
            return err_set(err, ERR_USAGE, "option %s||no --sweep|--sweep beside it",
                           only_sweep[i]);
    }
    if (a->words == 0)
        return err_set(err, ERR_USAGE,
                       "op||no name|NAME [CASE], NAME --sweep, --sweep, --cases FILE or --list");
    int n = snprintf(line, sizeof line, "%s%s%s", a->word[0], a->words > 1 ? " " : "",
                     a->words > 1 ? a->word[1] : "");
    if (n >= (int)sizeof line)
        return err_set(err, ERR_USAGE, "case line||%d characters|fewer than %d", n, CASE_INPUT);
    if (case_parse(&c, line, err) != ERR_OK) return err->code;
    return one_case(&c, p, a, rows, t, err);
}

/* ---- --list ---- */

static json_t *param_json(const struct param_row *row)
{
    static const char *const kind[] = {
        "whole number", "number", "word", "whole numbers joined by ':'", "profile", "fault"};
    json_t *out = json_pack("{s:s, s:s, s:s, s:s}", "key", row->key, "kind", kind[row->kind],
                            "default", row->dflt, "help", row->help);
    if (row->kind == PARAM_WORD) {
        json_t *words = json_array();
        for (int i = 0; row->words[i]; i++)
            json_array_append_new(words, json_string(row->words[i]));
        json_object_set_new(out, "words", words);
    } else if (row->kind != PARAM_PROFILE && row->kind != PARAM_FAULT) {
        json_object_set_new(out, "min", json_real(row->min));
        json_object_set_new(out, "max", json_real(row->max));
    }
    return out;
}

static void list(const struct args *a, json_t *result)
{
    json_t *ops = json_array();
    const struct case_op *op;
    for (int i = 0; (op = case_op_at(i)); i++) {
        json_t *params = json_array();
        const struct param_row *row;
        if (!a->json) printf("%s\n", op->name);
        for (int k = 0; (row = case_param(op, k)); k++) {
            json_array_append_new(params, param_json(row));
            if (a->json) continue;
            printf("    %-16s %-12s %s", row->key, row->dflt, row->help);
            for (int w = 0; row->kind == PARAM_WORD && row->words[w]; w++)
                printf("%s%s", w ? "|" : ": ", row->words[w]);
            if (row->kind < PARAM_WORD || row->kind == PARAM_LIST)
                printf(row->kind == PARAM_REAL ? ": %g to %g" : ": %.0f to %.0f", row->min,
                       row->max);
            printf("\n");
        }
        json_array_append_new(ops, json_pack("{s:s, s:o}", "name", op->name, "params", params));
    }
    json_object_set_new(result, "ops", ops);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct plan p;
    struct tally t = {0};
    if (args_has(a, "--list")) {
        list(a, result);
        return ERR_OK;
    }
    const char *on = args_value(a, "--on");
    if (plan_make(&p, on ? on : "ref,naive", err) != ERR_OK ||
        tactic_options_read(a, err) != ERR_OK)
        return err->code;
    json_t *rows = json_array();
    json_object_set_new(result, "rows", rows);
    enum err_code rc = args_has(a, "--sweep")   ? sweep(a, &p, rows, &t, err)
                       : args_has(a, "--cases") ? run_list(a, &p, rows, &t, err)
                                                : replay(a, &p, rows, &t, err);
    if (rc == ERR_OK) rc = tactic_check(err);
    json_object_set_new(result, "passed", json_integer(t.passed));
    json_object_set_new(result, "failed", json_integer(t.failed));
    json_object_set_new(result, "not_implemented", json_integer(t.not_implemented));
    json_object_set_new(result, "compared", json_integer(t.compared));
    if (rc != ERR_OK) return rc;
    if (!a->json)
        printf("%lld passed, %lld failed, %lld not implemented\n", (long long)t.passed,
               (long long)t.failed, (long long)t.not_implemented);
    return t.failed || t.not_implemented || t.passed == 0 || t.compared == 0 ? ERR_DIFF : ERR_OK;
}

static const struct option_row options[] = {
    {"--on", "SIDES",
     "ref, gpu, naive, joined by ',': the first is the truth (ref,naive); one alone: f32 against "
     "f64",
     false},
    {"--sweep", NULL, "random cases, of every op where no NAME is given", false},
    {"--count", "N", "cases an op of the sweep (40)", false},
    {"--seed", "S", "of the sweep (1)", false},
    {"--cases", "FILE", "the case lines of a file, one a line; # begins a comment", false},
    {"--list", NULL, "the ops and their parameters", false},
    REPORT_OPTION_ROW,
    TACTIC_OPTION_ROW,
    {0},
};

const struct verb verb_op = {
    .name = "op",
    .usage = "NAME [CASE] [--on SIDES] [--sweep [--count N] [--seed S]] [--cases FILE] [--list]",
    .about = "run one op on several sides and hold them against each other",
    .details = "Each case prints as one line of text, and the same line as CASE replays it. With "
               "fault=ID@KEY=V:KEY=V in CASE every side but the first runs with that fault; "
               "`assay fault list` names them.",
    .words_min = 0,
    .words_max = 2,
    .options = options,
    .run = run,
};
