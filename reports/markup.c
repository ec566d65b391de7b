/* markup.c: see markup.h. */
#include "reports/markup.h"

#include "core/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *reference(char c)
{
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '"'  ? "&quot;"
           : c == '\'' ? "&#39;"
                       : NULL;
}

/* Of a sequence of two or three bytes; 0 for longer ones, which are all plain. */
static unsigned code_point(const unsigned char *s, size_t n)
{
    if (n == 2) return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    return n == 3 ? (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu) : 0;
}

/* C1 controls, line and paragraph separators, direction marks, the two that XML forbids. */
static bool is_written_out(unsigned c)
{
    return (c >= 0x80 && c < 0xA0) || c == 0x061C || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           c >= 0xFFFE;
}

static size_t put_one(FILE *out, const char *text, size_t left, bool markup)
{
    const unsigned char first = (unsigned char)text[0];
    const size_t n = text_utf8(text, left);
    const unsigned point = code_point((const unsigned char *)text, n);
    if (n == 0 || (n == 1 && (first < ' ' || first == 0x7F) && first != '\n' && first != '\t')) {
        fprintf(out, "\\x%02x", first);
        return 1;
    }
    if (point && is_written_out(point))
        fprintf(out, "\\u%04x", point);
    else if (markup && reference(text[0]))
        fputs(reference(text[0]), out);
    else
        fwrite(text, 1, n, out);
    return n;
}

void markup_bytes(FILE *out, const char *text, size_t size)
{
    for (size_t done = 0; done < size;) done += put_one(out, text + done, size - done, true);
}

void markup_text(FILE *out, const char *text)
{
    markup_bytes(out, text, strlen(text));
}

void markup_short(FILE *out, const char *text, size_t most)
{
    size_t left = strlen(text), done = 0;
    while (left > 0 && done < most) {
        const size_t n = put_one(out, text + done, left, true);
        done += n;
        left -= n;
    }
    if (left > 0) fputs("...", out);
}

void markup_terminal(FILE *out, const char *text, size_t size)
{
    for (size_t done = 0; done < size;) done += put_one(out, text + done, size - done, false);
}
