/* junit.c: see junit.h. */
#include "reports/junit.h"

#include "reports/cases.h"
#include "reports/fields.h"
#include "reports/markup.h"

#include <stdbool.h>
#include <string.h>

struct tally {
    int tests, failures, errors, skipped;
};

static bool is(const json_t *o, const char *key, const char *text)
{
    return strcmp(text_at(o, key), text) == 0;
}

/* Of one suite; of all where `suite` is NULL. */
static struct tally count(const json_t *cases, const char *suite)
{
    struct tally t = {0};
    const json_t *c;
    size_t i;
    json_array_foreach(cases, i, c)
    {
        if (suite && !is(c, "suite", suite)) continue;
        t.tests++;
        t.failures += is(c, "state", "fail");
        t.errors += is(c, "state", "error");
        t.skipped += is(c, "state", "skipped");
    }
    return t;
}

static void put_counts(FILE *out, struct tally t)
{
    fprintf(out, "tests=\"%d\" failures=\"%d\" errors=\"%d\"", t.tests, t.failures, t.errors);
}

static void put_attribute(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=\"", name);
    /* A newline in an attribute reads as a blank; names have none that matter. */
    markup_text(out, value);
    fputc('"', out);
}

static void put_case(FILE *out, const json_t *c)
{
    const char *state = text_at(c, "state");
    const char *element = strcmp(state, "fail") == 0 ? "failure" : state;
    fputs("    <testcase", out);
    put_attribute(out, "name", text_at(c, "name"));
    put_attribute(out, "classname", text_at(c, "suite"));
    if (strcmp(state, "pass") == 0) {
        fputs("/>\n", out);
        return;
    }
    fprintf(out, ">\n      <%s", element);
    put_attribute(out, "message", text_at(c, "cause"));
    if (strcmp(element, "skipped") == 0) {
        fputs("/>\n    </testcase>\n", out);
        return;
    }
    put_attribute(out, "type", element);
    fputc('>', out);
    markup_text(out, text_at(c, "cause"));
    if (text_at(c, "detail")[0]) fputc('\n', out);
    markup_text(out, text_at(c, "detail"));
    fprintf(out, "</%s>\n    </testcase>\n", element);
}

static void put_suite(FILE *out, const json_t *cases, const char *suite)
{
    const json_t *c;
    size_t i;
    fputs("  <testsuite", out);
    put_attribute(out, "name", suite);
    fputc(' ', out);
    const struct tally t = count(cases, suite);
    put_counts(out, t);
    fprintf(out, " skipped=\"%d\">\n", t.skipped); /* the schema has it on suites only */
    json_array_foreach(cases, i, c)
    {
        if (is(c, "suite", suite)) put_case(out, c);
    }
    fputs("  </testsuite>\n", out);
}

void report_junit(const json_t *result, FILE *out)
{
    json_t *cases = report_cases(result), *seen = json_object(), *c;
    size_t i;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"assay\" ", out);
    put_counts(out, count(cases, NULL));
    fputs(">\n", out);
    json_array_foreach(cases, i, c)
    {
        const char *suite = text_at(c, "suite");
        if (json_object_get(seen, suite)) continue;
        json_object_set_new(seen, suite, json_true());
        put_suite(out, cases, suite);
    }
    fputs("</testsuites>\n", out);
    json_decref(seen);
    json_decref(cases);
}
