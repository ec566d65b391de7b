/* reporting.c: see reporting.h. */
#include "tests/reporting.h"

#include "core/json.h"
#include "core/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const kept_results[] = {
    "check",   "diff", "diff_other_seed", "error", "fault", "guard", "guard_quiet", "hostile",
    "inspect", "lint", "nothing",         "op",    "plan",  NULL,
};

json_t *kept_result(const char *name)
{
    char path[FILE_PATH];
    struct err err = ERR_INIT;
    json_t *r = NULL;
    snprintf(path, sizeof path, "%s/fixtures/reports/%s.json", ASSAY_SOURCE_DIR, name);
    (void)!json_read(path, &r, &err);
    assert_ok(&err);
    return r;
}

json_t *quoted(const char *text)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *c = json; *c; c++) *c = *c == '\'' ? '"' : *c;
    json_t *made = json_loads(json, 0, NULL);
    if (!made) fail_msg("no JSON: %s", json);
    free(json);
    return made;
}

char *said_of(text_report *report, const char *result, struct text_view view)
{
    char *text = NULL;
    size_t size = 0;
    json_t *r = quoted(result);
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    report(r, f, view);
    fclose(f);
    json_decref(r);
    return text;
}

static char *once(const json_t *result, const char *format)
{
    char *text = NULL;
    size_t size = 0;
    const struct report_format *f = report_format_find(format, strlen(format));
    assert_non_null(f);
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    f->render(result, out);
    fclose(out);
    assert_int_equal(strlen(text), size);
    return text;
}

char *rendered_of(const json_t *result, const char *format)
{
    json_t *copy = json_deep_copy(result);
    char *text = once(result, format), *again = once(result, format), *of_copy = once(copy, format);
    assert_string_equal(text, again);
    assert_string_equal(text, of_copy);
    assert_true(json_equal(copy, (json_t *)(uintptr_t)result));
    json_decref(copy);
    free(again);
    free(of_copy);
    return text;
}

char *rendered(const char *name, const char *format)
{
    json_t *r = kept_result(name);
    char *text = rendered_of(r, format);
    json_decref(r);
    return text;
}

int times(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

enum { DEPTH = 16, NAME = 32 };

/* A character of content or of an attribute's value; returns the place behind it. */
static const char *take_character(const char *p)
{
    static const char *const references[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    const size_t n = text_utf8(p, strlen(p));
    if (n == 0) fail_msg("no UTF-8 at: %.60s", p);
    if ((unsigned char)*p < ' ' && *p != '\n' && *p != '\t') fail_msg("a control at: %.60s", p);
    if (*p != '&') return p + n;
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        if (text_starts(p, references[i])) return p + strlen(references[i]);
    }
    fail_msg("a raw & at: %.60s", p);
    return p;
}

/* From behind an element's name to behind its '>'; *closed: it ends itself. */
static const char *take_attributes(const char *p, bool *closed)
{
    for (;;) {
        const char *from = p;
        p += strspn(p, " \n");
        if (*p == '>' || text_starts(p, "/>") || text_starts(p, "?>")) break;
        if (p == from) fail_msg("no blank before an attribute: %.60s", p);
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz:");
        if (!text_starts(p, "=\"")) fail_msg("no attribute at: %.60s", from);
        for (p += 2; *p && *p != '"';) {
            if (*p == '<') fail_msg("a raw < at: %.60s", p);
            p = take_character(p);
        }
        assert_int_equal(*p++, '"');
    }
    *closed = *p != '>';
    return p + (*closed ? 2 : 1);
}

void assert_xml(const char *text)
{
    char open[DEPTH][NAME];
    int depth = 0, elements = 0;
    for (const char *p = text; *p;) {
        if (*p != '<') {
            if (depth == 0 && !isspace((unsigned char)*p)) fail_msg("text outside: %.60s", p);
            p = take_character(p);
            continue;
        }
        const bool ends = p[1] == '/';
        const size_t n = strcspn(p + 1 + ends, " />\n");
        assert_true(n > 0 && n < NAME && depth < DEPTH);
        if (ends) {
            assert_true(depth > 0 && strlen(open[depth - 1]) == n);
            assert_memory_equal(open[--depth], p + 2, n);
            p += n + 2;
            assert_int_equal(*p++, '>');
            continue;
        }
        bool closed;
        snprintf(open[depth], NAME, "%.*s", (int)n, p + 1);
        p = take_attributes(p + 1 + n, &closed);
        depth += !closed;
        elements++;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 1);
}
