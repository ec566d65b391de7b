/* preflight.c: see preflight.h. */
#include "harness/preflight.h"

#include "core/json.h"
#include "core/text.h"
#include "harness/plan_args.h"
#include "harness/session.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first two leave what those behind them need. */
static const struct {
    const char *name;
    void (*run)(struct preflight *p);
} checks[] = {
    {"config", preflight_config},      {"checkpoint", preflight_checkpoint},
    {"contract", preflight_contract},  {"lint", preflight_lint},
    {"layers", preflight_layers},      {"disk", preflight_disk},
    {"ranks", preflight_ranks},        {"memory", preflight_memory},
    {"device", preflight_device},      {"commands", preflight_commands},
    {"rehearsal", preflight_rehearse},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

/* ---- what the families call ---- */

static struct preflight_check *now(struct preflight *p)
{
    return &p->check[p->checks - 1];
}

void preflight_add(struct preflight *p, struct preflight_finding f)
{
    if (p->err->code != ERR_OK) return;
    if (p->findings == p->room) {
        int room = p->room ? 2 * p->room : 64;
        struct preflight_finding *more = realloc(p->finding, (size_t)room * sizeof *more);
        if (!more) {
            (void)!err_set(p->err, ERR_MEMORY, "preflight|findings|no memory");
            return;
        }
        p->finding = more;
        p->room = room;
    }
    f.check = now(p)->name;
    now(p)->findings++;
    p->finding[p->findings++] = f;
}

static const char *format_list(struct preflight *p, const char *format, va_list list)
{
    char text[2048];
    vsnprintf(text, sizeof text, format, list);
    return pool_text(&p->pool, text, strlen(text), p->err);
}

const char *preflight_text(struct preflight *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = format_list(p, format, list);
    va_end(list);
    return text;
}

void preflight_about(struct preflight *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    now(p)->about = format_list(p, format, list);
    va_end(list);
    now(p)->state = PREFLIGHT_CHECKED;
}

void preflight_not_asked(struct preflight *p, const char *why)
{
    now(p)->state = PREFLIGHT_NOT_ASKED;
    now(p)->about = why;
}

void preflight_not_checked(struct preflight *p, const char *why, const char *remedy)
{
    if (p->gaps < PREFLIGHT_WHYS)
        p->gap[p->gaps++] = (struct preflight_gap){now(p)->name, why, remedy};
    now(p)->state = PREFLIGHT_NOT_CHECKED;
    now(p)->about = why;
}

void preflight_refused(struct preflight *p, struct preflight_finding like, struct err *e)
{
    switch (e->code) {
    case ERR_OK:
        break;
    case ERR_INPUT:
    case ERR_USAGE:
    case ERR_DIFF:
        like.message = preflight_text(p, "%s: %s", e->what, e->where);
        like.found = preflight_text(p, "%s", e->found);
        like.wanted = preflight_text(p, "%s", e->wanted);
        preflight_add(p, like);
        break;
    case ERR_DEVICE:
    case ERR_PROCESS:
        preflight_not_checked(p, preflight_text(p, "%s: %s: %s", e->what, e->where, e->found),
                              preflight_text(p, "%s", e->wanted));
        break;
    default:
        if (p->err->code == ERR_OK) *p->err = *e;
    }
    err_clear(e);
}

const char *preflight_path(struct preflight *p, const char *text)
{
    const char *path = plan_path(p->plan, text, p->arena, p->err);
    return path ? path : text;
}

const char *preflight_plan(const struct preflight *p)
{
    return p->plan->path;
}

/* ---- the order of things ---- */

static void run_check(struct preflight *p, int i)
{
    double began = clock_seconds();
    p->check[p->checks++] = (struct preflight_check){.name = checks[i].name, .about = ""};
    checks[i].run(p);
    now(p)->seconds = clock_seconds() - began;
}

/* How long the load takes, and who says so. */
static void find_load(struct preflight *p)
{
    static const double assumed = 1e9;
    const struct plan_preflight *k = p->keys;
    char bytes[32], rate[32];
    p->load_minutes = NAN;
    p->load_from = "not known: the plan gives neither load_minutes nor a model of known size";
    if (k->load_minutes > 0) {
        p->load_minutes = k->load_minutes;
        p->load_from = "load_minutes of the plan";
    } else if (p->bytes > 0) {
        double bandwidth = k->read_bandwidth > 0 ? k->read_bandwidth : assumed;
        p->load_minutes = (double)p->bytes / bandwidth / 60;
        p->load_from = preflight_text(p, "%s of the checkpoint at %s/s, %s",
                                      text_bytes((double)p->bytes, bytes, sizeof bytes),
                                      text_bytes(bandwidth, rate, sizeof rate),
                                      k->read_bandwidth > 0
                                          ? "read_bandwidth of the plan"
                                          : "assumed: load_minutes or read_bandwidth says better");
    }
}

static double minutes_of(const struct preflight *p, const struct preflight_finding *f)
{
    if (f->strikes == PREFLIGHT_AT_START) return 0;
    return f->strikes == PREFLIGHT_IN_LOAD ? f->share * p->load_minutes : p->load_minutes;
}

static int order_of(const struct preflight_finding *f)
{
    return f->undecidable ? PREFLIGHT_NOTE + 1 : (int)f->severity;
}

static int family_of(const struct preflight_finding *f)
{
    int i = 0;
    while (i < CHECKS && strcmp(checks[i].name, f->check) != 0) i++;
    return i;
}

/* Worst first: what ends a run before what may, the dearest before the cheapest. */
static int worst_first(const void *a, const void *b)
{
    const struct preflight_finding *x = a, *y = b;
    if (order_of(x) != order_of(y)) return order_of(x) - order_of(y);
    double mx = isnan(x->minutes) ? 0 : x->minutes, my = isnan(y->minutes) ? 0 : y->minutes;
    if (mx < my || mx > my) return mx < my ? 1 : -1;
    if (family_of(x) != family_of(y)) return family_of(x) - family_of(y);
    int file = strcmp(x->file ? x->file : "", y->file ? y->file : "");
    if (file) return file;
    if (x->line != y->line) return x->line - y->line;
    return strcmp(x->message, y->message);
}

static void settle(struct preflight *p)
{
    find_load(p);
    for (int i = 0; i < p->findings; i++) p->finding[i].minutes = minutes_of(p, &p->finding[i]);
    if (p->findings) qsort(p->finding, (size_t)p->findings, sizeof *p->finding, worst_first);
}

enum err_code preflight_run(struct preflight *p, const struct plan *plan, bool rehearse,
                            struct arena *a, struct err *err)
{
    *p = (struct preflight){.plan = plan,
                            .keys = &plan->preflight,
                            .arena = a,
                            .pool = {.arena = a},
                            .err = err,
                            .load_minutes = NAN,
                            .layers = json_array()};
    if (!plan->preflight.line)
        return err_set(err, ERR_INPUT,
                       "preflight|%s|no key \"preflight\"|what is going to be "
                       "loaded, and by what",
                       plan->path);
    if (rehearse && plan->preflight.run.count == 0)
        return err_set(err, ERR_INPUT, "preflight --rehearse|%s|no key \"rehearse\" in it|%s",
                       plan->path, "rehearse: {run: a command with {model}}");
    if (plan->model.text) p->model = preflight_path(p, plan->model.text);
    for (int i = 0; i < CHECKS && err->code == ERR_OK; i++) {
        if (checks[i].run != preflight_rehearse || rehearse) run_check(p, i);
    }
    if (err->code == ERR_OK) settle(p);
    return err->code;
}

void preflight_free(struct preflight *p)
{
    free(p->finding);
    json_decref(p->layers);
    json_decref(p->rehearsal);
    p->finding = NULL;
    p->layers = p->rehearsal = NULL;
}

/* ---- the result ---- */

static const char *const strikes_text[] = {
    [PREFLIGHT_AT_START] = "at the start",
    [PREFLIGHT_IN_LOAD] = "in the load",
    [PREFLIGHT_AFTER_LOAD] = "after the load",
    [PREFLIGHT_UNSEEN] = "never: what is written is wrong",
};

static json_t *number(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static json_t *finding_json(const struct preflight_finding *f)
{
    static const char *const severities[] = {"error", "warning", "note"};
    json_t *o = json_pack("{s:o, s:s, s:s, s:o, s:i, s:o, s:s, s:o, s:[], s:s, s:o}", "rule",
                          json_sprintf("%s.%s", f->check, f->rule), "check", f->check, "severity",
                          severities[f->severity], "file", json_any_text(f->file), "line", f->line,
                          "function", json_any_text(f->function), "type", "", "message",
                          json_any_text(f->message), "trace", "strikes", strikes_text[f->strikes],
                          "minutes", number(f->minutes));
    const struct {
        const char *key, *text;
    } more[] = {{"symbol", f->symbol},
                {"found", f->found},
                {"wanted", f->wanted},
                {"remedy", f->remedy},
                {"verdict", f->undecidable ? "undecidable" : NULL}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (more[i].text && more[i].text[0])
            json_object_set_new(o, more[i].key, json_any_text(more[i].text));
    }
    return o;
}

static json_t *checks_json(const struct preflight *p)
{
    static const char *const states[] = {"checked", "not asked", "not checked"};
    json_t *list = json_array();
    for (int i = 0; i < p->checks; i++) {
        const struct preflight_check *c = &p->check[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:i, s:f}", "check", c->name, "state",
                                        states[c->state], "about", json_any_text(c->about),
                                        "findings", c->findings, "seconds", c->seconds));
    }
    return list;
}

static json_t *gaps_json(const struct preflight *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->gaps; i++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "check", p->gap[i].check, "why",
                                              json_any_text(p->gap[i].why), "remedy",
                                              json_any_text(p->gap[i].remedy)));
    return list;
}

void preflight_json(const struct preflight *p, json_t *result)
{
    int errors = 0, warnings = 0, notes = 0, undecidable = 0;
    double minutes = 0; /* of errors: each is seen only when those before it are gone */
    json_t *findings = json_array();
    for (int i = 0; i < p->findings; i++) {
        const struct preflight_finding *f = &p->finding[i];
        *(f->undecidable                     ? &undecidable
          : f->severity == PREFLIGHT_ERROR   ? &errors
          : f->severity == PREFLIGHT_WARNING ? &warnings
                                             : &notes) += 1;
        if (!f->undecidable && f->severity == PREFLIGHT_ERROR) minutes += f->minutes;
        json_array_append_new(findings, finding_json(f));
    }
    json_object_set_new(result, "plan", json_any_text(p->plan->path));
    json_object_set_new(result, "findings", findings);
    json_object_set_new(result, "counts",
                        json_pack("{s:i, s:i, s:i, s:i, s:i}", "errors", errors, "warnings",
                                  warnings, "notes", notes, "undecidable", undecidable,
                                  "not_checked", p->gaps));
    json_object_set_new(
        result, "load",
        json_pack("{s:o, s:s}", "minutes", number(p->load_minutes), "from", p->load_from));
    json_object_set_new(result, "minutes", number(minutes));
    json_object_set_new(result, "layers", json_incref(p->layers));
    if (p->rehearsal) json_object_set(result, "rehearsal", p->rehearsal);
    json_object_set_new(result, "checks", checks_json(p));
    json_object_set_new(result, "not_checked", gaps_json(p));
}

enum err_code preflight_verdict(const struct preflight *p, struct err *err)
{
    int checked = 0;
    for (int i = 0; i < p->findings; i++) {
        if (!p->finding[i].undecidable && p->finding[i].severity != PREFLIGHT_NOTE) return ERR_DIFF;
    }
    if (p->gaps > 0)
        return err_set(err, ERR_DEVICE, "preflight|%s|not checked: %.180s|%s", p->gap[0].check,
                       p->gap[0].why, p->gap[0].remedy ? p->gap[0].remedy : "");
    for (int i = 0; i < p->checks; i++) checked += p->check[i].state == PREFLIGHT_CHECKED;
    if (checked == 0)
        return err_set(err, ERR_INPUT, "preflight|%s|nothing that can be checked|%s", p->plan->path,
                       "model, consumer, layers, samples, commands or tp");
    return ERR_OK;
}
