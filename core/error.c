/* error.c: see error.h. */
#include "core/error.h"

#include "core/check.h"
#include "core/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PART_SEPARATOR '\x1f'

static const struct {
    const char *sentence;
    int exit;
} codes[ERR_COUNT] = {
    [ERR_OK] = {"no error", 0},
    [ERR_DIFF] = {"a difference was found", 1},
    [ERR_USAGE] = {"the command line cannot be used", 2},
    [ERR_INPUT] = {"an input cannot be used", 2},
    [ERR_MEMORY] = {"memory could not be had", 3},
    [ERR_IO] = {"a file operation failed", 3},
    [ERR_DEVICE] = {"the device cannot be used", 3},
    [ERR_FAULT] = {"a fault did not have its expected outcome", 4},
    [ERR_PROCESS] = {"a process of the run failed", 3},
};

const char *err_sentence(enum err_code code)
{
    if ((unsigned)code >= ERR_COUNT || !codes[code].sentence) return "an unknown error code";
    return codes[code].sentence;
}

int err_exit(enum err_code code)
{
    return (unsigned)code < ERR_COUNT ? codes[code].exit : 3;
}

void err_clear(struct err *e)
{
    *e = (struct err)ERR_INIT;
}

/* Copies at most size-1 bytes and makes the result one printable line of UTF-8: paths and broken
 * files hold any bytes, and a message never breaks a log or a JSON report. What does not fit is cut
 * between characters and ends in dots. */
static void copy_line(char *dst, size_t size, const char *src, size_t length)
{
    size_t n = 0, cut = 0;
    for (size_t i = 0; i < length;) {
        size_t bytes = text_utf8(src + i, length - i);
        bool shown = bytes > 1 || (bytes == 1 && (unsigned char)src[i] >= 0x20 && src[i] != 0x7f);
        size_t wide = shown ? bytes : 1;
        if (n + wide > size - 1) {
            n = cut;
            memcpy(dst + n, "...", 3);
            n += 3;
            break;
        }
        if (shown) {
            memcpy(dst + n, src + i, bytes);
        } else {
            dst[n] = '?';
        }
        n += wide;
        i += bytes ? bytes : 1;
        if (n + 3 <= size - 1) cut = n;
    }
    dst[n] = '\0';
}

/* Formats "what|where|found|wanted" and cuts it into the four parts. The separator is replaced in
 * the format and not looked for in the result, so that a '|' inside an argument stays where it is.
 */
static void fill_parts(struct err *e, const char *fmt, va_list ap)
{
    char form[ERR_PART * 2];
    char text[8 * 1024]; /* several paths at their longest: a long part must not push out the parts
                            after it */
    snprintf(form, sizeof form, "%s", fmt);
    for (char *p = form; *p; p++) {
        if (*p == '|') *p = PART_SEPARATOR;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (vsnprintf(text, sizeof text, form, ap) < 0) text[0] = '\0';
#pragma GCC diagnostic pop
    char *parts[4] = {e->what, e->where, e->found, e->wanted};
    const char *at = text;
    for (int i = 0; i < 4 && at; i++) {
        const char *end = i < 3 ? strchr(at, PART_SEPARATOR) : NULL;
        copy_line(parts[i], ERR_PART, at, end ? (size_t)(end - at) : strlen(at));
        at = end ? end + 1 : NULL;
    }
    if (!e->what[0]) snprintf(e->what, sizeof e->what, "%s", err_sentence(e->code));
}

enum err_code err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    CHECK(e && code != ERR_OK);
    if (e->code != ERR_OK) return e->code;
    va_list ap;
    e->code = code;
    va_start(ap, fmt);
    fill_parts(e, fmt, ap);
    va_end(ap);
    return code;
}

/* What would have been needed instead of an errno value. */
static const char *wanted_instead(int num)
{
    switch (num) {
    case ENOENT:
    case ENOTDIR:
        return "a path that exists";
    case EACCES:
    case EPERM:
    case EROFS:
        return "permission";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return "room for it";
    case EISDIR:
        return "a file";
    case ENOMEM:
        return "memory";
    default:
        return "success";
    }
}

enum err_code err_sys(struct err *e, int num, const char *fmt, ...)
{
    CHECK(e);
    if (e->code != ERR_OK) return e->code;
    /* A path that does not exist or may not be read is the caller's input; the rest is the
     * machine's. */
    bool input = num == ENOENT || num == ENOTDIR || num == EISDIR || num == EACCES ||
                 num == ENAMETOOLONG || num == ELOOP || num == EROFS;
    va_list ap;
    e->code = input ? ERR_INPUT : num == ENOMEM ? ERR_MEMORY : ERR_IO;
    va_start(ap, fmt);
    fill_parts(e, fmt, ap);
    va_end(ap);
    size_t used = strlen(e->found);
    snprintf(e->found + used, sizeof e->found - used, "%s%s", used ? ": " : "", strerror(num));
    if (!e->wanted[0]) snprintf(e->wanted, sizeof e->wanted, "%s", wanted_instead(num));
    return e->code;
}

enum err_code err_note(struct err *e, const char *fmt, ...)
{
    CHECK(e);
    if (e->code == ERR_OK || e->notes == ERR_NOTES) return e->code;
    char text[ERR_NOTE];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0) text[0] = '\0';
    va_end(ap);
    if (text[0]) copy_line(e->note[e->notes++], ERR_NOTE, text, strlen(text));
    return e->code;
}

const char *err_line(const struct err *e, char *buf, size_t size)
{
    size_t n = 0;
    const char *what = e->what[0] ? e->what : err_sentence(e->code);
    n += (size_t)snprintf(buf, size, "%s", what);
    if (e->where[0] && n < size) n += (size_t)snprintf(buf + n, size - n, ": %s", e->where);
    if (e->found[0] && n < size) n += (size_t)snprintf(buf + n, size - n, ": found %s", e->found);
    if (e->wanted[0] && n < size)
        n +=
            (size_t)snprintf(buf + n, size - n, "%s wanted %s", e->found[0] ? "," : ":", e->wanted);
    if (e->rank >= 0 && n < size) n += (size_t)snprintf(buf + n, size - n, " (rank %d)", e->rank);
    for (int i = 0; i < e->notes && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s%s", i ? "; " : " (", e->note[i],
                              i + 1 == e->notes ? ")" : "");
    return buf;
}
