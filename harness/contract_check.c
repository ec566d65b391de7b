/* contract_check.c: `contract check CONSUMER --against C.yaml|LIB`. */
#include "compat/judge_api.h"
#include "harness/contract.h"
#include "harness/contract_accept.h"
#include "harness/facts.h"
#include "harness/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HINTS = 64, LINES = 40 };

struct check {
    const struct args *args;
    struct arena arena;
    struct api library, baseline;
    struct uses uses;
    struct judge_hint hint[HINTS];
    struct judge_api_input in;
    struct judge_report report;
    char today[16];
};

/* ---- input ---- */

static enum err_code read_consumer(struct check *c, const char *path, struct err *err)
{
    struct pool pool = {.arena = &c->arena};
    json_t *facts;
    if (facts_read("uses", path, &facts, err) != ERR_OK) return err->code;
    enum err_code rc = uses_read(facts, path, &pool, &c->uses, err);
    json_decref(facts);
    if (!c->uses.source) c->uses.source = path;
    return rc;
}

static enum err_code read_hints(struct check *c, struct err *err)
{
    for (const char *text; (text = args_value_at(c->args, "--receiver", c->in.hints));) {
        if (c->in.hints == HINTS)
            return err_set(err, ERR_USAGE, "arguments|--receiver|more than %d|fewer", HINTS);
        c->hint[c->in.hints++] = (struct judge_hint){text};
    }
    c->in.hint = c->hint;
    return ERR_OK;
}

static enum err_code read_input(struct check *c, struct err *err)
{
    const char *against = args_value(c->args, "--against"),
               *baseline = args_value(c->args, "--baseline"),
               *accept = args_value(c->args, "--accept");
    time_t now = time(NULL);
    struct tm day;
    if (c->args->words != 2)
        return err_set(err, ERR_USAGE, "arguments|contract check|%d words|CONSUMER",
                       c->args->words - 1);
    if (!against)
        return err_set(err, ERR_USAGE,
                       "arguments|contract check|no --against|--against C.yaml or a library");
    if (gmtime_r(&now, &day)) strftime(c->today, sizeof c->today, "%Y-%m-%d", &day);
    c->in.today = c->today;
    c->in.api = &c->library;
    c->in.uses = &c->uses;
    if (read_hints(c, err) != ERR_OK ||
        contract_load(against, &c->arena, &c->library, err) != ERR_OK ||
        read_consumer(c, c->args->word[1], err) != ERR_OK)
        return err->code;
    if (baseline) {
        if (contract_load(baseline, &c->arena, &c->baseline, err) != ERR_OK) return err->code;
        c->in.baseline = &c->baseline;
    }
    if (accept) return contract_accept_read(accept, &c->arena, &c->in.accept, &c->in.accepts, err);
    return ERR_OK;
}

/* ---- result ---- */

static json_t *finding_json(const struct judge_finding *f)
{
    char buf[64];
    json_t *o = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "symbol", f->symbol, "file", f->file,
                          "line", f->line, "verdict", judge_verdict_text(f->verdict), "why", f->why,
                          "severity", judge_severity_text(f, buf, sizeof buf));
    const struct {
        const char *key, *text;
    } more[] = {{"kind", judge_kind_text(f->kind)},
                {"found", f->found},
                {"wanted", f->wanted},
                {"remedy", f->remedy},
                {"accepted", f->accepted}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (more[i].text) json_object_set_new(o, more[i].key, json_string(more[i].text));
    }
    json_object_set_new(o, "provider",
                        f->provider
                            ? json_pack("{s:s, s:i}", "file", f->provider, "line", f->provider_line)
                            : json_null());
    json_t *also = json_array();
    for (int i = 0; i < f->alsos; i++) json_array_append_new(also, json_integer(f->also[i]));
    json_object_set_new(o, "also", also);
    return o;
}

static json_t *origin_json(const char *name, const char *version, const char *source)
{
    return json_pack("{s:s?, s:s?, s:s?}", "name", name, "version", version, "source", source);
}

static void fill_result(const struct check *c, json_t *result)
{
    const struct judge_counts *n = &c->report.counts;
    json_t *findings = json_array();
    for (int i = 0; i < c->report.findings; i++) {
        json_array_append_new(findings, finding_json(&c->report.finding[i]));
    }
    json_object_set_new(result, "findings", findings);
    json_object_set_new(result, "counts",
                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "checked", n->checked,
                                  "ok", n->ok, "broken", n->broken, "undecidable", n->undecidable,
                                  "warned", n->warned, "accepted", n->accepted, "folded",
                                  n->folded));
    json_object_set_new(result, "consumer",
                        origin_json(c->uses.name, c->uses.version, c->uses.source));
    json_object_set_new(result, "library",
                        origin_json(c->library.library.name, c->library.library.version,
                                    c->library.library.source));
    if (c->in.baseline)
        json_object_set_new(result, "baseline",
                            origin_json(c->baseline.library.name, c->baseline.library.version,
                                        c->baseline.library.source));
}

enum err_code contract_check(const struct args *a, json_t *result, struct err *err)
{
    struct check *c = calloc(1, sizeof *c);
    if (!c) return err_set(err, ERR_MEMORY, "allocate memory|contract check|none left|enough");
    c->args = a;
    enum err_code rc = read_input(c, err);
    if (rc == ERR_OK) rc = judge_api(&c->in, &c->arena, &c->report, err);
    if (rc == ERR_OK) {
        fill_result(c, result);
        if (!a->json)
            report_check_text(result, stdout, terminal_view(args_has(a, "--all") ? 0 : LINES));
        if (c->report.counts.broken > 0) rc = ERR_DIFF;
    }
    arena_release(&c->arena, NULL);
    free(c);
    return rc;
}
