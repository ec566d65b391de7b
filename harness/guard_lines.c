/* guard_lines.c: see guard_lines.h. */
#include "harness/guard_lines.h"

#include "core/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *const levels[] = {"ERROR", "FATAL", "CRITICAL", NULL};
static const char *const words[] = {"error",  "exception", "fatal", "critical",
                                    "failed", "failure",   NULL};

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The first of these words that stands in the line by itself, or NULL. */
static const char *find_word(const char *line, const char *const *list, bool fold)
{
    for (const char *at = line; *at; at++) {
        if (at > line && word_char(at[-1])) continue;
        for (int i = 0; list[i]; i++) {
            size_t n = strlen(list[i]);
            bool same = fold ? strncasecmp(at, list[i], n) == 0 : strncmp(at, list[i], n) == 0;
            if (same && !word_char(at[n])) return at;
        }
    }
    return NULL;
}

/* It names a type: "KeyError: 'a'", "torch.OutOfMemoryError". */
static bool names_type(const char *line)
{
    static const char *const ends[] = {"Error", "Exception", "Interrupt", "Warning"};
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(ends[i]);
        for (const char *at = line; (at = strstr(at, ends[i])); at += n) {
            if (at > line && word_char(at[-1]) && !word_char(at[n])) return true;
        }
    }
    return false;
}

/* "no errors", "0 errors": a count of none is good news. */
static bool denied(const char *line, const char *at)
{
    while (at > line && at[-1] == ' ') at--;
    size_t before = (size_t)(at - line);
    if (before >= 2 && strncasecmp(at - 2, "no", 2) == 0) return true;
    return before >= 1 && at[-1] == '0' && (before == 1 || !isdigit((unsigned char)at[-2]));
}

enum guard_line_kind guard_line_kind(const char *line)
{
    enum { LEVEL_WITHIN = 60 };
    size_t n = strlen(line);
    while (n > 0 && isspace((unsigned char)line[n - 1])) n--;
    if (strstr(line, "Traceback (most recent call last)")) return GUARD_LINE_TRACE;
    if (text_starts(line, "Error in atexit._run_exitfuncs:")) return GUARD_LINE_ATEXIT;
    const char *word = find_word(line, words, true), *level = find_word(line, levels, false);
    if (word && n > 0 && line[n - 1] == ':' && !denied(line, word) && !names_type(line))
        return GUARD_LINE_EMPTY;
    if (level && level - line < LEVEL_WITHIN && !denied(line, level) && !names_type(line))
        return GUARD_LINE_ERROR;
    if ((strncasecmp(line, "error:", 6) == 0 || strncasecmp(line, "fatal:", 6) == 0) &&
        !names_type(line))
        return GUARD_LINE_ERROR;
    return GUARD_LINE_PLAIN;
}

/* What was found just before line `l->number` is explained by what begins there; not that it was
 * raised where nobody can catch it. */
static void explain_near(struct guard_lines *l)
{
    for (int i = 0; i < l->count; i++) {
        struct guard_line *f = &l->found[i];
        if (f->kind != GUARD_LINE_ATEXIT && l->number - f->number <= GUARD_NEAR)
            f->explained = true;
    }
}

static void keep(struct guard_lines *l, enum guard_line_kind kind, double time)
{
    l->held = false;
    if (l->count == GUARD_FOUND) {
        l->more++;
        return;
    }
    struct guard_line *f = &l->found[l->count++];
    *f = (struct guard_line){.kind = kind, .number = l->number, .time = time};
    memcpy(f->text, l->line, sizeof f->text);
    f->explained =
        kind != GUARD_LINE_ATEXIT && l->trace_line > 0 && l->number - l->trace_line <= GUARD_NEAR;
    l->held = kind == GUARD_LINE_EMPTY || kind == GUARD_LINE_ATEXIT;
}

/* The lines of a trace up to the one that names its exception. True: this line is of one. */
static bool in_trace(struct guard_lines *l)
{
    if (!l->in_trace) return false;
    l->trace_line = l->number;
    if (!l->line[0] || isspace((unsigned char)l->line[0]) ||
        text_starts(l->line, "During handling") || text_starts(l->line, "The above exception"))
        return true;
    l->in_trace = false;
    struct guard_line *last = l->count ? &l->found[l->count - 1] : NULL;
    if (last && last->kind == GUARD_LINE_ATEXIT && !last->also[0])
        memcpy(last->also, l->line, sizeof last->also);
    return true;
}

static void whole_line(struct guard_lines *l, double time)
{
    l->line[l->used] = '\0';
    l->number++;
    enum guard_line_kind kind = guard_line_kind(l->line);
    /* A list, or a text, that an announcing line was the head of. */
    if (l->held && l->count && (l->line[0] == ' ' || l->line[0] == '\t' || l->line[0] == '-'))
        l->found[l->count - 1].explained |= l->found[l->count - 1].kind == GUARD_LINE_EMPTY;
    l->held = false;
    if (kind == GUARD_LINE_TRACE) {
        explain_near(l);
        l->traces++;
        l->in_trace = true;
        l->trace_line = l->number;
    } else if (!in_trace(l) && kind != GUARD_LINE_PLAIN) {
        keep(l, kind, time);
    }
    l->used = 0;
}

/* Takes colours ("ESC [ 3 1 m") out of the line so far; true: a sequence is being read. */
static bool colour(struct guard_lines *l, char c)
{
    const char *start = memchr(l->line, '\033', l->used);
    if (!start) return false;
    if (isalpha((unsigned char)c)) l->used = (size_t)(start - l->line);
    return true;
}

void guard_lines_feed(struct guard_lines *l, const char *data, size_t n, double time)
{
    for (size_t i = 0; i < n; i++) {
        char c = data[i] ? data[i] : '?';
        if (c == '\n' || (c == '\r' && l->used > 0 && !(i + 1 < n && data[i + 1] == '\n')))
            whole_line(l, time);
        else if (c != '\r' && !colour(l, c) && l->used + 1 < sizeof l->line)
            l->line[l->used++] = c;
    }
}

void guard_lines_end(struct guard_lines *l, double time)
{
    if (l->used > 0) whole_line(l, time);
}
