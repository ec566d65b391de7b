/* plan_run.c: see plan_run.h. */
#include "harness/plan_run.h"

#include "core/blas.h"
#include "core/json.h"
#include "core/ops.h"
#include "harness/plan_args.h"
#include "harness/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runner {
    const struct plan *plan;
    const char *folder;
    enum bless_mode mode;
    struct arena arena;
    json_t *steps, *why, *blessed;
    bool *skipped, *made; /* [steps]; made: its dump is there */
    struct bless *golden; /* [steps] */
    int64_t compared;
    int passed, failed, skips;
};

/* ---- before the first step ---- */

/* NULL: the machine has it. */
static const char *why_not(const char *what)
{
    static char text[ERR_PART];
    struct err err = ERR_INIT;
    const struct blas *blas;
    const struct op_side *side = strcmp(what, "gpu") == 0 ? gpu_side() : ref_side();
    if (strcmp(what, "blas") != 0 && side->available)
        return side->entries[0].name ? NULL : "none of its ops is implemented in this build";
    if (strcmp(what, "blas") != 0) return side->why_not;
    if (blas_open(&blas, &err) == ERR_OK) return NULL;
    snprintf(text, sizeof text, "%s", err.found);
    return text;
}

static bool condition_fails(const struct plan_step *s, char why[PLAN_WHY])
{
    const char *lacks = s->condition ? why_not(s->condition) : NULL;
    if (!s->condition || (lacks != NULL) == s->negated) return false;
    if (s->negated)
        snprintf(why, PLAN_WHY, "if: not %s: this machine has it", s->condition);
    else
        snprintf(why, PLAN_WHY, "if: %s: %s", s->condition, lacks ? lacks : "not there");
    return true;
}

static bool names_gpu(const char *sides)
{
    for (const char *at = sides; at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        if (strncmp(at, "gpu", 3) == 0 && (!at[3] || at[3] == ',')) return true;
    }
    return false;
}

static enum err_code check_text(const struct runner *r, const struct plan_text *t, struct err *err)
{
    char at[ERR_PART];
    if (!t->text || t->step < 0 || !r->skipped[t->step]) return ERR_OK;
    return err_set(err, ERR_INPUT, "plan|%s|the dump of \"%s\", a step that is skipped here|%s",
                   plan_where(r->plan, t->at, at, sizeof at), t->text,
                   "a step that runs, or the same `if`");
}

static enum err_code check_step(const struct runner *r, const struct plan_step *s, struct err *err)
{
    char at[ERR_PART];
    const char *no_gpu = why_not("gpu");
    for (int i = 0; i < s->options; i++) {
        const struct plan_option *o = &s->option[i];
        if (strcmp(o->row->name, "--on") == 0 && names_gpu(o->value.text) && no_gpu)
            return err_set(err, ERR_DEVICE, "plan|%s|on: gpu, and %s|a device, or if: gpu",
                           plan_where(r->plan, o->value.at, at, sizeof at), no_gpu);
        if (check_text(r, &o->value, err) != ERR_OK) return err->code;
    }
    for (int w = 0; w < 2; w++) {
        if (check_text(r, &s->word[w], err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}

static enum err_code check_all(struct runner *r, struct err *err)
{
    const struct plan *p = r->plan;
    char why[PLAN_WHY];
    int goldens = 0;
    if (p->steps == 0)
        return err_set(err, ERR_INPUT, "plan|%s|no key \"steps\"|a list of steps", p->path);
    for (int i = 0; i < p->steps; i++) {
        r->skipped[i] = condition_fails(&p->step[i], why);
        goldens += p->step[i].bless && !r->skipped[i];
        if (!r->skipped[i] && check_step(r, &p->step[i], err) != ERR_OK)
            return err_note(err, "step %s", p->step[i].name);
    }
    if (r->mode != BLESS_NO && goldens == 0)
        return err_set(err, ERR_INPUT, "run --bless|%s|no step to record|a diff with bless: true",
                       p->path);
    return ERR_OK;
}

/* ---- one step ---- */

/* The ids of `equals`: [first, first + count) of *out. */
static enum err_code read_equals(struct runner *r, const struct plan_step *s, json_t **out,
                                 struct err *err)
{
    const char *text = s->equals.text;
    *out = NULL;
    if (text[0] == '@') {
        json_t *root;
        const char *path = plan_path(r->plan, text, &r->arena, err);
        if (!path || json_read(path + 1, &root, err) != ERR_OK) return err->code;
        *out = json_incref(json_object_get(root, "greedy"));
        json_decref(root);
        if (!json_is_array(*out) || json_array_size(*out) == 0)
            return err_set(err, ERR_INPUT, "equals|%s: greedy|%s|a list of token ids", path + 1,
                           json_kind(*out));
        return ERR_OK;
    }
    *out = json_array();
    for (const char *at = text; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        json_array_append_new(*out, json_integer(strtoll(at, NULL, 10)));
    return ERR_OK;
}

/* The tokens that a generate gave, against those that it should. */
static bool tokens_equal(const json_t *got, const json_t *wanted, char why[PLAN_WHY])
{
    size_t n = json_array_size(got), most = json_array_size(wanted);
    for (size_t i = 0; i < n && i < most; i++) {
        json_int_t is = json_integer_value(json_array_get(got, i));
        json_int_t was = json_integer_value(json_array_get(wanted, i));
        if (is == was) continue;
        snprintf(why, PLAN_WHY, "token %zu is %lld, not %lld", i, (long long)is, (long long)was);
        return false;
    }
    if (n > 0 && n <= most) return true;
    snprintf(why, PLAN_WHY, "%zu tokens, and %zu to compare with", n, most);
    return false;
}

static int64_t count_of(const struct plan_step *s, const json_t *result)
{
    if (s->kind == PLAN_DIFF) return json_integer_value(json_object_get(result, "compared"));
    if (s->kind == PLAN_GENERATE) return s->equals.text != NULL;
    if (s->kind == PLAN_FAULT)
        return json_integer_value(json_object_get(result, "injected")) +
               json_integer_value(json_object_get(result, "clean_runs"));
    if (s->kind != PLAN_OP) return 0;
    return json_integer_value(json_object_get(result, "passed")) +
           json_integer_value(json_object_get(result, "failed"));
}

static enum err_code run_generate(struct runner *r, int i, struct args *a, json_t *result,
                                  char why[PLAN_WHY], struct err *err)
{
    const struct plan_step *s = &r->plan->step[i];
    json_t *wanted = NULL;
    char n[24];
    bool said = false;
    for (int k = 0; k < s->options; k++) said |= strcmp(s->option[k].row->name, "-n") == 0;
    if (s->equals.text && read_equals(r, s, &wanted, err) != ERR_OK) goto done;
    snprintf(n, sizeof n, "%zu", json_array_size(wanted));
    if (plan_args(r->plan, i, r->folder, wanted && !said ? n : NULL, &r->arena, a, err) != ERR_OK ||
        verb_generate.run(a, result, err) != ERR_OK || !wanted)
        goto done;
    if (!tokens_equal(json_object_get(result, "tokens"), wanted, why)) err->code = ERR_DIFF;
done:
    json_decref(wanted);
    return err->code;
}

static enum err_code show_bless(struct runner *r, int i, json_t *result, struct err *err)
{
    const struct plan *p = r->plan;
    const struct plan_step *s = &p->step[i];
    struct bless *b = &r->golden[i];
    const char *model = s->model.text ? s->model.text : p->model.text;
    const char *subject = plan_dump(p, &s->word[0], r->folder, &r->arena, err);
    char golden[FILE_PATH];
    if (model) model = plan_path(p, model, &r->arena, err);
    if (err->code != ERR_OK || file_join(p->folder, s->word[1].text, golden, err) != ERR_OK ||
        bless_open(b, subject, golden, model, err) != ERR_OK)
        return err->code;
    json_object_set(result, "bless", b->report);
    json_object_set_new(result, "compared", json_integer(b->compared));
    return ERR_OK;
}

/* `judge`: a step with bless is run as the diff that it is. */
static enum err_code run_verb(struct runner *r, int i, bool judge, json_t *result,
                              char why[PLAN_WHY], struct err *err)
{
    const struct plan_step *s = &r->plan->step[i];
    char at[ERR_PART];
    struct args a;
    enum err_code rc;
    for (int k = 0; k < 2 + s->options; k++) {
        const struct plan_text *t = k < 2 ? &s->word[k] : &s->option[k - 2].value;
        if (t->text && t->step >= 0 && !r->made[t->step])
            return err_set(err, ERR_INPUT, "plan|%s|step \"%s\", which wrote no dump|its dump",
                           plan_where(r->plan, t->at, at, sizeof at), t->text);
    }
    if (s->bless && r->mode != BLESS_NO && !judge) return show_bless(r, i, result, err);
    if (s->kind == PLAN_GENERATE) return run_generate(r, i, &a, result, why, err);
    if (plan_args(r->plan, i, r->folder, NULL, &r->arena, &a, err) != ERR_OK) return err->code;
    if (s->bless) { /* below the plan's folder, there or not */
        char *golden = arena_alloc(&r->arena, FILE_PATH, 1, "path", err);
        if (!golden || file_join(r->plan->folder, s->word[1].text, golden, err) != ERR_OK)
            return err->code;
        a.word[1] = golden;
        if (!file_exists(golden))
            return err_set(err, ERR_INPUT, "compare dumps|%s|no golden yet|run with --bless",
                           golden);
    }
    rc = plan_verb(s->kind)->run(&a, result, err);
    r->made[i] = s->kind == PLAN_FORWARD && rc == ERR_OK;
    return rc;
}

static const char *verdict_of(enum err_code rc)
{
    return rc == ERR_OK ? "pass" : rc == ERR_DIFF ? "fail" : "error";
}

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text[0]) json_object_set_new(o, key, json_string(text));
}

/* Runs step i and fills its object. An error that was not expected is returned. */
static enum err_code run_step(struct runner *r, int i, bool judge, json_t *step, struct err *err)
{
    const struct plan_step *s = &r->plan->step[i];
    struct err e = ERR_INIT;
    char why[PLAN_WHY] = "", detail[PLAN_WHY] = "", note[PLAN_WHY], text[PLAN_WHY];
    json_t *result = json_object();
    double began = clock_seconds();
    enum err_code rc = run_verb(r, i, judge, result, detail, &e);
    progress_end();
    const struct plan_outcome outcome = {verdict_of(rc), err_exit(rc), result};
    bool good = plan_as_expected(&s->expect, &outcome, why, note);
    bool stops = !good && rc != ERR_OK && rc != ERR_DIFF;
    if (!why[0] && !good) snprintf(why, sizeof why, "%s", detail[0] ? detail : e.found);
    int64_t compared = rc == ERR_OK || rc == ERR_DIFF ? count_of(s, result) : 0;
    r->compared += compared;
    json_object_set_new(step, "verdict", json_string(stops ? "error" : good ? "pass" : "fail"));
    json_object_set_new(step, "outcome", json_string(outcome.verdict));
    json_object_set_new(step, "compared", json_integer(compared));
    json_object_set_new(step, "seconds", json_real(clock_seconds() - began));
    if (s->expect.given) set_text(step, "expected", plan_expect_text(&s->expect, text, PLAN_WHY));
    set_text(step, "why", why);
    set_text(step, "note", note);
    json_object_set_new(step, "result", result);
    if (rc != ERR_OK && e.found[0]) json_object_set_new(step, "error", json_err(&e));
    r->passed += good;
    r->failed += !good;
    if (!stops) return ERR_OK;
    *err = e;
    return err_note(err, "step %s, line %d", s->name, s->at.line);
}

static enum err_code run_all(struct runner *r, struct err *err)
{
    const struct plan *p = r->plan;
    for (int i = 0; i < p->steps; i++) {
        const struct plan_step *s = &p->step[i];
        char why[PLAN_WHY] = "an earlier step stopped the plan";
        json_t *step =
            json_pack("{s:s, s:s, s:i, s:b}", "name", s->name, "kind", plan_kind_name(s->kind),
                      "line", s->at.line, "skipped", r->skipped[i]);
        if (!step) return err_set(err, ERR_MEMORY, "record step|%s|no memory", s->name);
        json_array_append_new(r->steps, step);
        if (err->code == ERR_OK && !r->skipped[i]) {
            (void)!run_step(r, i, false, step, err);
            continue;
        }
        if (r->skipped[i]) (void)condition_fails(s, why);
        r->skips += r->skipped[i];
        json_object_set_new(step, "verdict", json_string(r->skipped[i] ? "skipped" : "not run"));
        json_object_set_new(step, "why", json_string(why));
    }
    return err->code;
}

/* ---- the end ---- */

static void complain(struct runner *r, const char *format, long long a, long long b)
{
    char text[160];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, a, b);
#pragma GCC diagnostic pop
    json_array_append_new(r->why, json_string(text));
}

/* Writes what may be written, and runs each such step again as a diff, against the file. */
static enum err_code record_goldens(struct runner *r, struct err *err)
{
    char command[FILE_PATH + 32];
    const struct plan *p = r->plan;
    bool write = r->mode == BLESS_WRITE && r->failed == 0;
    snprintf(command, sizeof command, "assay run %s --bless", p->path);
    for (int i = 0; i < p->steps && err->code == ERR_OK; i++) {
        struct bless *b = &r->golden[i];
        json_t *step = json_array_get(r->steps, (size_t)i);
        if (!b->report) continue;
        json_t *entry =
            json_pack("{s:s, s:b}", "step", p->step[i].name, "written", write && b->changes > 0);
        json_object_update(entry, b->report);
        json_array_append_new(r->blessed, entry);
        if (b->changes == 0) continue;
        if (!write) {
            complain(r,
                     r->failed ? "a golden was not recorded: the plan is red"
                               : "a golden would change, and was not recorded",
                     0, 0);
            continue;
        }
        if (bless_write(b, command, err) != ERR_OK) {
            json_object_set_new(entry, "written", json_false());
            return err_note(err, "step %s", p->step[i].name);
        }
        r->compared -= b->compared; /* counted again, against the new file */
        r->passed--;
        (void)!run_step(r, i, true, step, err);
    }
    return err->code;
}

static enum err_code verdict(struct runner *r)
{
    const struct plan *p = r->plan;
    if (r->failed > 0) complain(r, "%lld of %lld steps not as expected", r->failed, p->steps);
    if (r->compared == 0)
        complain(r, "nothing was compared: that is never a pass", 0, 0);
    else if (r->compared < p->compared_at_least)
        complain(r, "%lld compared, at least %lld wanted", r->compared, p->compared_at_least);
    return json_array_size(r->why) > 0 ? ERR_DIFF : ERR_OK;
}

static enum err_code execute(struct runner *r, struct err *err)
{
    size_t n = (size_t)r->plan->steps + 1;
    r->skipped = calloc(n, sizeof *r->skipped);
    r->made = calloc(n, sizeof *r->made);
    r->golden = calloc(n, sizeof *r->golden);
    if (!r->skipped || !r->made || !r->golden || !r->steps || !r->why || !r->blessed)
        return err_set(err, ERR_MEMORY, "run plan|%s|no memory", r->plan->path);
    if (check_all(r, err) != ERR_OK || file_make_folder(r->folder, err) != ERR_OK ||
        run_all(r, err) != ERR_OK)
        return err->code;
    if (r->mode != BLESS_NO && record_goldens(r, err) != ERR_OK) return err->code;
    return verdict(r);
}

enum err_code plan_run(const struct plan *p, const char *folder, enum bless_mode bless,
                       json_t *result, struct err *err)
{
    struct runner r = {.plan = p,
                       .folder = folder,
                       .mode = bless,
                       .arena = ARENA_INIT,
                       .steps = json_array(),
                       .why = json_array(),
                       .blessed = json_array()};
    enum err_code rc = execute(&r, err);
    json_t *fields = json_pack(
        "{s:s, s:s, s:s, s:s, s:O, s:I, s:I, s:i, s:i, s:i, s:O, s:O, s:s, s:i}", "assay",
        ASSAY_VERSION, "verb", "run", "plan", p->path, "out", folder, "steps", r.steps, "compared",
        (json_int_t)r.compared, "compared_at_least", (json_int_t)p->compared_at_least, "passed",
        r.passed, "failed", r.failed, "skipped", r.skips, "why", r.why, "blessed", r.blessed,
        "verdict", verdict_of(rc), "exit", err_exit(rc));
    if (!fields || json_object_update(result, fields) != 0)
        rc = err_set(err, ERR_MEMORY, "record result|%s|no memory", p->path);
    if (err->code != ERR_OK) json_object_set_new(result, "error", json_err(err));
    if (p->preflight.line)
        json_object_set_new(result, "preflight",
                            json_sprintf("not run: assay preflight %s", p->path));
    json_decref(fields);
    json_decref(r.steps);
    json_decref(r.why);
    json_decref(r.blessed);
    for (int i = 0; r.golden && i < p->steps; i++) bless_close(&r.golden[i]);
    free(r.golden);
    free(r.made);
    free(r.skipped);
    arena_release(&r.arena, NULL);
    return rc;
}
