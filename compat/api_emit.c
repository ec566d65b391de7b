/* api_emit.c: see api_emit.h. */
#include "compat/api_emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 100 };

/* Words that another reader of YAML takes for something else than a text. */
static bool is_yaml_word(const char *s)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i], s) == 0) return true;
    }
    return false;
}

/* A text that needs no quotes. `flow`: inside of [] or {}. */
static bool is_plain(const char *s, bool flow)
{
    size_t n = strlen(s);
    if (n == 0 || !(isalpha((unsigned char)s[0]) || s[0] == '_') || is_yaml_word(s)) return false;
    if (s[n - 1] == ':' || s[n - 1] == ' ' || strstr(s, ": ") || strstr(s, " #")) return false;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < ' ' || c >= 0x7f || c == '"' || c == '\\') return false;
        if (flow && strchr(",[]{}", c)) return false;
    }
    return true;
}

/* Bytes at s that no YAML text may hold as they are: written as an escape; 0: none. */
static size_t put_escape(FILE *f, const unsigned char *s)
{
    if (s[0] < ' ' || s[0] == 0x7f) {
        fprintf(f, "\\x%02x", s[0]);
        return 1;
    }
    if (s[0] == '"' || s[0] == '\\') {
        fprintf(f, "\\%c", s[0]);
        return 1;
    }
    if (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0) {
        fprintf(f, "\\x%02x", s[1]);
        return 2;
    }
    bool three = (s[0] & 0xf0) == 0xe0 && s[1] && s[2];
    unsigned code = three ? (unsigned)(s[0] & 15) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u) : 0;
    if (code != 0x2028 && code != 0x2029 && code < 0xfeff) return 0;
    if (code > 0xfeff && code < 0xfffe) return 0;
    fprintf(f, "\\u%04x", code);
    return 3;
}

static void put_quoted(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = put_escape(f, s);
        if (n == 0) fputc(*s, f);
        s += n ? n : 1;
    }
    fputc('"', f);
}

void api_emit_text(FILE *f, const char *text, bool flow)
{
    if (is_plain(text, flow))
        fputs(text, f);
    else
        put_quoted(f, text);
}

void api_emit_indent(struct api_emit *w, int indent)
{
    fprintf(w->f, "%*s", indent, "");
}

/* "KEY: TEXT" on a line of its own; nothing for NULL. */
void api_emit_pair(struct api_emit *w, int indent, const char *key, const char *text)
{
    if (!text) return;
    api_emit_indent(w, indent);
    fprintf(w->f, "%s: ", key);
    api_emit_text(w->f, text, false);
    fputc('\n', w->f);
}

/* Columns that a text takes in a flow list. */
static int width(const char *text)
{
    char *buf = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&buf, &size);
    if (!f) return 0;
    api_emit_text(f, text, true);
    fclose(f);
    free(buf);
    return (int)size;
}

/* "KEY: [a, b]" where it fits on a line, else an item a line; `wrap`: as many a line as fit. */
void api_emit_list(struct api_emit *w, int indent, const char *key, const struct api_texts *t,
                   bool wrap)
{
    int column = indent + (int)strlen(key) + 4, all = column;
    for (int i = 0; i < t->count; i++) all += width(t->text[i]) + 2;
    api_emit_indent(w, indent);
    api_emit_text(w->f, key, false);
    if (all <= COLUMNS || wrap) {
        fputs(": [", w->f);
        for (int i = 0; i < t->count; i++) {
            int next = width(t->text[i]) + 2;
            if (i) fputs(",", w->f);
            bool breaks = all > COLUMNS && column + next > COLUMNS;
            if (breaks)
                fprintf(w->f, "\n%*s", indent + 4, "");
            else if (i)
                fputs(" ", w->f);
            column = breaks ? indent + 4 + next : column + next;
            api_emit_text(w->f, t->text[i], true);
        }
        fputs("]\n", w->f);
        return;
    }
    fputs(":\n", w->f);
    for (int i = 0; i < t->count; i++) {
        fprintf(w->f, "%*s- ", indent + 2, "");
        api_emit_text(w->f, t->text[i], false);
        fputc('\n', w->f);
    }
}

void api_emit_some(struct api_emit *w, int indent, const char *key, const struct api_texts *t)
{
    if (t->count > 0) api_emit_list(w, indent, key, t, false);
}

/* A row of a flow mapping: ", KEY: TEXT"; nothing for NULL. */
void api_emit_row(struct api_emit *w, bool *first, const char *key, const char *text)
{
    if (!text) return;
    fprintf(w->f, "%s%s: ", *first ? "" : ", ", key);
    api_emit_text(w->f, text, true);
    *first = false;
}
