/* text.c: see text.h. */
#include "core/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_int(const char *text, int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (!isdigit((unsigned char)digits[0])) return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end || errno) return false;
    *out = v;
    return true;
}

bool text_u64(const char *text, uint64_t *out)
{
    if (!isdigit((unsigned char)text[0])) return false;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end || errno) return false;
    *out = v;
    return true;
}

bool text_double(const char *text, double *out)
{
    if (!text[0] || isspace((unsigned char)text[0])) return false;
    char *end;
    double v = strtod(text, &end);
    if (*end || v != v) return false;
    *out = v;
    return true;
}

bool text_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

const char *text_bytes(double bytes, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    while (bytes >= 1000 && i < 5) {
        bytes /= 1000;
        i++;
    }
    snprintf(buf, size, i ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return buf;
}

bool text_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool text_ends(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}
