/* contract_expect.c: see contract_expect.h. */
#include "tests/contract_expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the interpreter ---- */

static bool python_is_missing(void)
{
    const char *path = getenv("PATH");
    char copy[8192], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path ? path : "");
    for (char *folder = strsep(&rest, ":"); folder; folder = strsep(&rest, ":")) {
        struct stat st;
        if (stat(textf("%s/python3", folder), &st) == 0) return false;
    }
    return true;
}

void expect_python(void)
{
    if (!python_is_missing()) return;
    if (getenv("ASSAY_WITHOUT_PYTHON")) skip();
    fail_msg("there is no python3 in PATH (ASSAY_WITHOUT_PYTHON=1 goes without these tests)");
}

/* ---- reading ---- */

static void read_texts(struct expect_line *l, const char *at, const char *path)
{
    for (const char *open = strchr(at, '"'); open; open = strchr(at, '"')) {
        const char *close = strchr(open + 1, '"');
        if (!close || l->texts == EXPECT_TEXTS) fail_msg("%s: texts: %s", path, at);
        snprintf(l->text[l->texts++], EXPECT_WORD, "%.*s", (int)(close - open - 1), open + 1);
        at = close + 1;
    }
}

static void read_line(struct expect *e, const char *text, const char *path)
{
    int used = 0;
    if (sscanf(text, "receiver %95s", e->receiver) == 1) return;
    if (e->lines == EXPECT_LINES) fail_msg("%s: more than %d lines", path, EXPECT_LINES);
    struct expect_line *l = &e->line[e->lines++];
    l->old = strncmp(text, "old ", 4) == 0;
    if (l->old) text += 4;
    int n =
        sscanf(text, "%95s %95[^: ]:%d %95s%n", l->verdict, l->file, &l->line, l->symbol, &used);
    if (n != 4) fail_msg("%s: not understood: %s", path, text);
    read_texts(l, text + used, path);
}

void expect_read(struct expect *e, const char *path)
{
    size_t size = 0;
    char *all = read_whole(path, &size), *rest = all;
    *e = (struct expect){0};
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        if (line[0] && line[0] != '#') read_line(e, line, path);
    free(all);
}

/* ---- comparing ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Some text of the finding holds the part. */
static bool says(const json_t *finding, const char *part)
{
    char *all = json_dumps(finding, JSON_ENCODE_ANY | JSON_COMPACT);
    assert_non_null(all);
    bool found = strstr(all, part) != NULL;
    free(all);
    return found;
}

static bool one_of(const char *verdicts, const char *verdict)
{
    char copy[EXPECT_WORD], *rest = copy;
    snprintf(copy, sizeof copy, "%s", verdicts);
    for (char *word = strsep(&rest, "|"); word; word = strsep(&rest, "|"))
        if (strcmp(word, verdict) == 0) return true;
    return false;
}

/* At that line, or one of several lines that show the same cause. */
static bool stands_at(const json_t *finding, int line)
{
    if (field_int(finding, "line") == line) return true;
    size_t i;
    json_t *also;
    json_array_foreach(json_object_get(finding, "also"), i, also)
    {
        if (json_integer_value(also) == line) return true;
    }
    return false;
}

static bool answers(const json_t *finding, const struct expect_line *l)
{
    if (!stands_at(finding, l->line) || !ends_with(field_text(finding, "file"), l->file))
        return false;
    if (!one_of(l->verdict, field_text(finding, "verdict"))) return false;
    if (!strstr(field_text(finding, "symbol"), l->symbol)) return false;
    for (int i = 0; i < l->texts; i++)
        if (!says(finding, l->text[i])) return false;
    return true;
}

static bool may_be_silent(const struct expect_line *l)
{
    return strchr(l->verdict, '|') && one_of(l->verdict, "ok");
}

static void print_finding(const char *where, const char *what, const json_t *finding)
{
    char *all = json_dumps(finding, JSON_COMPACT);
    print_error("%s: %s: %s\n", where, what, all ? all : "");
    free(all);
}

/* One line answers for all findings that say the same of the same place. */
static int unanswered(const struct expect_line *l, const json_t *findings, bool *taken,
                      const char *where)
{
    size_t i;
    json_t *finding;
    bool answered = may_be_silent(l);
    json_array_foreach(findings, i, finding)
    {
        if (!answers(finding, l)) continue;
        taken[i] = answered = true;
    }
    if (answered) return 0;
    print_error("%s: nobody says: %s %s:%d %s \"%s\"\n", where, l->verdict, l->file, l->line,
                l->symbol, l->text[0]);
    json_array_foreach(findings, i, finding)
    {
        if (stands_at(finding, l->line)) print_finding(where, "but", finding);
    }
    return 1;
}

/* Against the old library an undecidable finding is nobody's business: the lines of `old` are about
 * what broke later. An accepted finding is no report. */
static bool must_be_listed(const json_t *finding, bool old)
{
    if (json_is_string(json_object_get(finding, "accepted"))) return false;
    const char *verdict = field_text(finding, "verdict");
    return strcmp(verdict, "broken") == 0 || (!old && strcmp(verdict, "ok") != 0);
}

int expect_differs(const struct expect *e, bool old, const json_t *findings, const char *where)
{
    bool *taken = calloc(json_array_size(findings) + 1, sizeof *taken);
    assert_non_null(taken);
    int wrong = 0;
    for (int i = 0; i < e->lines; i++)
        if (e->line[i].old == old) wrong += unanswered(&e->line[i], findings, taken, where);
    size_t i;
    json_t *finding;
    json_array_foreach(findings, i, finding)
    {
        if (taken[i] || !must_be_listed(finding, old)) continue;
        print_finding(where, "nobody asked for", finding);
        wrong++;
    }
    free(taken);
    return wrong;
}

bool expect_broken(const struct expect *e, bool old)
{
    for (int i = 0; i < e->lines; i++)
        if (e->line[i].old == old && strcmp(e->line[i].verdict, "broken") == 0) return true;
    return false;
}
