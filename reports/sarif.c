/* sarif.c: see sarif.h. */
#include "reports/sarif.h"

#include "core/digest.h"
#include "reports/cases.h"
#include "reports/fields.h"
#include "reports/findings.h"

#include <ctype.h>
#include <string.h>

enum { PRINT_DIGITS = 32 };

/* What is said of all findings of a rule whose name begins so; the first row that fits holds. */
static const struct {
    const char *prefix, *text;
} rules[] = {
    {"diff/guilty-op", "An op is wrong when it is run from the subject's own inputs."},
    {"diff/divergence", "Two dumps diverge: the first tap that is past its bound."},
    {"diff/router-flip", "The router chose other experts, and not because of a near tie."},
    {"diff/absent", "A tap that was promised or required is not in the dump."},
    {"diff/", "An op is wrong, and this known bug explains its error."},
    {"op/", "An op's output is past its bound, or the op is not there."},
    {"fault/missed", "A bug was injected, and nothing caught it."},
    {"fault/misnamed", "The diagnosis claimed a wrong name."},
    {"fault/alarms", "A clean run was red."},
    {"fault/", "A fault's outcome was not the expected one."},
    {"contract/", "A use of a library that its recorded interface does not bear out."},
    {"lint/", "A handler or a command that can lose an error."},
    {"guard/", "An error that a run of a command lost."},
    {"inspect/", "A checkpoint, head, dump or sample is not as it should be."},
    {"preflight/", "Something that a run would have met after its load was spent."},
    {"run/", "A step of a plan is not as expected."},
    {"", "A finding."},
};

static const char *rule_text(const char *rule)
{
    size_t i = 0;
    while (strncmp(rules[i].prefix, rule, strlen(rules[i].prefix)) != 0) i++;
    return rules[i].text;
}

/* A path as a URI reference: what is not plain in one goes out as %XX. */
static json_t *uri_of(const char *path)
{
    char out[4096];
    size_t n = 0;
    for (const char *p = path; *p && n + 4 < sizeof out; p++) {
        if (isalnum((unsigned char)*p) || strchr("-._~/", *p))
            out[n++] = *p;
        else
            n += (size_t)snprintf(out + n, sizeof out - n, "%%%02X", (unsigned char)*p);
    }
    out[n] = '\0';
    return json_sprintf("%s%s", path[0] == '/' ? "file://" : "", out);
}

static json_t *physical(const json_t *f)
{
    const char *file = text_at(f, "file");
    json_t *artifact = json_pack("{s:o}", "uri", uri_of(file)),
           *at = json_pack("{s:O}", "artifactLocation", artifact);
    if (file[0] != '/') json_object_set_new(artifact, "uriBaseId", json_string("%SRCROOT%"));
    if (int_at(f, "line") > 0)
        json_object_set_new(at, "region",
                            json_pack("{s:I}", "startLine", (json_int_t)int_at(f, "line")));
    json_decref(artifact);
    return at;
}

static json_t *logical(const json_t *f)
{
    json_t *list = json_array();
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(f, "logical"), i, one) json_array_append_new(
        list, json_pack("{s:s, s:s}", "name", text_at(one, "name"), "kind", text_at(one, "kind")));
    return list;
}

static json_t *location(const json_t *f)
{
    json_t *at = json_object(), *names = logical(f);
    if (text_at(f, "file")[0]) json_object_set_new(at, "physicalLocation", physical(f));
    if (json_array_size(names)) json_object_set(at, "logicalLocations", names);
    json_decref(names);
    return at;
}

static json_t *finding_result(const json_t *f, long long rule)
{
    char hex[DIGEST_TEXT] = "";
    struct err err = ERR_INIT;
    const char *key = text_at(f, "key");
    json_t *r = json_pack("{s:s, s:I, s:s, s:{s:s}, s:[o]}", "ruleId", text_at(f, "rule"),
                          "ruleIndex", (json_int_t)rule, "level", text_at(f, "level"), "message",
                          "text", text_at(f, "message"), "locations", location(f));
    if (int_at(f, "count") > 1)
        json_object_set_new(r, "occurrenceCount", json_integer(int_at(f, "count")));
    if (digest_sha256(key, (int64_t)strlen(key), "fingerprint", hex, &err) == ERR_OK) {
        hex[PRINT_DIGITS] = '\0';
        json_object_set_new(r, "partialFingerprints", json_pack("{s:s}", "assayBug/v1", hex));
    }
    return r;
}

/* Index of the rule, added where it is new. */
static long long rule_index(json_t *list, json_t *seen, const char *rule)
{
    const json_t *at = json_object_get(seen, rule);
    if (at) return json_integer_value(at);
    const long long n = (long long)json_array_size(list);
    json_object_set_new(seen, rule, json_integer(n));
    json_array_append_new(
        list, json_pack("{s:s, s:{s:s}}", "id", rule, "shortDescription", "text", rule_text(rule)));
    return n;
}

static json_t *invocation(const json_t *r)
{
    const json_t *error = json_object_get(r, "error");
    const int broken = strcmp(text_at(r, "verdict"), "error") == 0;
    json_t *one = json_pack("{s:b}", "executionSuccessful", !broken);
    if (json_is_integer(json_object_get(r, "exit")))
        json_object_set_new(one, "exitCode", json_integer(int_at(r, "exit")));
    if (json_is_object(error))
        json_object_set_new(one, "toolExecutionNotifications",
                            json_pack("[{s:s, s:{s:o}}]", "level", "error", "message", "text",
                                      report_error_line(error)));
    return one;
}

void report_sarif(const json_t *result, FILE *out)
{
    json_t *findings = report_findings(result), *list = json_array(), *seen = json_object(),
           *results = json_array(), *f;
    size_t i;
    json_array_foreach(findings, i, f) json_array_append_new(
        results, finding_result(f, rule_index(list, seen, text_at(f, "rule"))));
    json_t *driver =
        json_pack("{s:s, s:s, s:O}", "name", "assay", "semanticVersion",
                  text_at(result, "assay")[0] ? text_at(result, "assay") : "0.0.0", "rules", list);
    json_t *run =
        json_pack("{s:{s:O}, s:[o], s:s, s:O}", "tool", "driver", driver, "invocations",
                  invocation(result), "columnKind", "unicodeCodePoints", "results", results);
    json_t *log =
        json_pack("{s:s, s:s, s:[O]}", "$schema", "https://json.schemastore.org/sarif-2.1.0.json",
                  "version", "2.1.0", "runs", run);
    if (log) json_dumpf(log, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    fputc('\n', out);
    json_t *const mine[] = {findings, list, seen, results, driver, run, log};
    for (size_t k = 0; k < sizeof mine / sizeof mine[0]; k++) json_decref(mine[k]);
}
