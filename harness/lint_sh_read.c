/* lint_sh_read.c: words, comments and here-documents of a shell script. See lint_sh.h. */
#include "harness/lint_sh.h"

#include <ctype.h>
#include <string.h>

void sh_fail(struct sh_reader *r, const char *what)
{
    if (!r->failed) lint_unread(r->l, r->file, r->line, what);
    r->failed = true;
}

/* One character on, lines counted. */
static void step(struct sh_reader *r)
{
    if (*r->at == '\n') r->line++;
    if (*r->at) r->at++;
}

/* ---- comments ---- */

/* `assay: ignore[RULE reason]` in the comment from `at` to `end`. */
static void look_for_ignore(struct sh_reader *r, const char *at, const char *end)
{
    static const char mark[] = "assay: ignore[";
    const char *found = memmem(at, (size_t)(end - at), mark, strlen(mark));
    if (!found) return;
    const char *text = found + strlen(mark);
    const char *close = memchr(text, ']', (size_t)(end - text));
    if (!close) return;
    const char *copy = pool_text(r->l->pool, text, (size_t)(close - text), r->l->err);
    if (copy) lint_comment(r->l, r->file, r->line, copy);
}

void sh_blank(struct sh_reader *r)
{
    for (;;) {
        if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') {
            r->at++;
        } else if (r->at[0] == '\\' && r->at[1] == '\n') {
            r->at += 2;
            r->line++;
        } else if (*r->at == '#') {
            const char *end = r->at + strcspn(r->at, "\n");
            look_for_ignore(r, r->at, end);
            r->at = end;
        } else {
            return;
        }
    }
}

/* ---- here-documents ---- */

static void skip_document(struct sh_reader *r, const char *end, bool strip)
{
    size_t n = strlen(end);
    int start = r->line;
    while (*r->at) {
        const char *line = r->at;
        size_t length = strcspn(line, "\n");
        while (strip && *line == '\t') line++;
        size_t kept = length - (size_t)(line - r->at);
        bool last = kept == n && memcmp(line, end, n) == 0;
        r->at += length;
        step(r);
        if (last) return;
    }
    r->line = start;
    sh_fail(r, "a here-document that does not end");
}

void sh_newline(struct sh_reader *r)
{
    step(r);
    for (int i = 0; i < r->heres && !r->failed; i++)
        skip_document(r, r->here[i].end, r->here[i].strip);
    r->heres = 0;
}

void sh_gap(struct sh_reader *r)
{
    for (sh_blank(r); *r->at == '\n' && !r->failed; sh_blank(r)) sh_newline(r);
}

/* ---- quotes and brackets ---- */

static void skip_double(struct sh_reader *r);

static void skip_single(struct sh_reader *r, bool escapes)
{
    int start = r->line;
    for (step(r); *r->at && *r->at != '\''; step(r)) {
        if (escapes && *r->at == '\\' && r->at[1]) step(r);
    }
    if (*r->at)
        step(r);
    else {
        r->line = start;
        sh_fail(r, "a quote that does not end");
    }
}

static void skip_ticks(struct sh_reader *r)
{
    for (step(r); *r->at && *r->at != '`'; step(r)) {
        if (*r->at == '\\' && r->at[1]) step(r);
    }
    if (*r->at)
        step(r);
    else
        sh_fail(r, "a backquote that does not end");
}

/* At '$': an expansion, or the character alone. */
static void skip_dollar(struct sh_reader *r)
{
    step(r);
    if (*r->at == '(') {
        step(r);
        sh_skip_to(r, '(', ')');
    } else if (*r->at == '{') {
        step(r);
        sh_skip_to(r, '{', '}');
    }
}

static void skip_double(struct sh_reader *r)
{
    int start = r->line;
    step(r);
    while (*r->at && *r->at != '"' && !r->failed) {
        if (*r->at == '\\' && r->at[1]) {
            step(r);
            step(r);
        } else if (*r->at == '$') {
            skip_dollar(r);
        } else if (*r->at == '`') {
            skip_ticks(r);
        } else {
            step(r);
        }
    }
    if (*r->at == '"')
        step(r);
    else if (!r->failed) {
        r->line = start;
        sh_fail(r, "a quote that does not end");
    }
}

/* One quoted piece, expansion or character. */
static void skip_piece(struct sh_reader *r)
{
    bool ansi = r->at[0] == '$' && r->at[1] == '\'';
    if (r->at[0] == '\\' && r->at[1]) {
        step(r);
        step(r);
    } else if (*r->at == '\'' || ansi) {
        if (ansi) step(r);
        skip_single(r, ansi);
    } else if (*r->at == '"') {
        skip_double(r);
    } else if (*r->at == '`') {
        skip_ticks(r);
    } else if (*r->at == '$') {
        skip_dollar(r);
    } else {
        step(r);
    }
}

void sh_skip_to(struct sh_reader *r, char open, char close)
{
    int start = r->line;
    bool gap = true; /* a comment may begin here */
    if (++r->depth > SH_DEPTH) sh_fail(r, "brackets nested too deeply");
    while (*r->at && *r->at != close && !r->failed) {
        if (*r->at == open && open == '(') {
            step(r);
            sh_skip_to(r, open, close);
        } else if (*r->at == '#' && gap && open == '(') {
            r->at += strcspn(r->at, "\n");
        } else {
            gap = isspace((unsigned char)*r->at) || *r->at == ';';
            skip_piece(r);
        }
    }
    r->depth--;
    if (*r->at == close)
        step(r);
    else if (!r->failed) {
        r->line = start;
        sh_fail(r, "a bracket that does not end");
    }
}

/* ---- words ---- */

/* The word without its quotes; what is expanded stands as written. */
static const char *unquoted(struct sh_reader *r, const char *raw, size_t n)
{
    char *out = pool_text(r->l->pool, raw, n, r->l->err), *to = out;
    bool dquote = false;
    for (size_t i = 0; out && i < n; i++) {
        if (raw[i] == '\\' && i + 1 < n) {
            if (raw[++i] != '\n') *to++ = raw[i];
        } else if (raw[i] == '"') {
            dquote = !dquote;
        } else if (raw[i] == '\'' && !dquote) {
            for (i++; i < n && raw[i] != '\''; i++) *to++ = raw[i];
        } else {
            *to++ = raw[i];
        }
    }
    if (out) *to = '\0';
    return out;
}

/* `x=(` of an array, and bracketed patterns. */
static bool takes_bracket(const struct sh_reader *r, const char *start)
{
    return *r->at == '(' && r->at > start && strchr("=?*+@!", r->at[-1]);
}

static bool starts_process(const struct sh_reader *r)
{
    return (*r->at == '<' || *r->at == '>') && r->at[1] == '(';
}

bool sh_word(struct sh_reader *r, struct sh_word *out)
{
    const char *start = r->at;
    *out = (struct sh_word){.line = r->line};
    while (*r->at && !r->failed) {
        if (takes_bracket(r, start) || (starts_process(r) && r->at == start)) {
            if (*r->at != '(') step(r);
            step(r);
            sh_skip_to(r, '(', ')');
        } else if (strchr(" \t\r\n;&|<>()", *r->at)) {
            break;
        } else {
            skip_piece(r);
        }
    }
    if (r->at == start || r->failed) return false;
    out->raw = pool_text(r->l->pool, start, (size_t)(r->at - start), r->l->err);
    out->plain = unquoted(r, start, (size_t)(r->at - start));
    return out->raw && out->plain;
}
