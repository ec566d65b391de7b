/* host_memory.c: see host_memory.h. */
#include "harness/host_memory.h"

#include "core/text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool host_line(const char *path, char line[HOST_LINE])
{
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool got = fgets(line, HOST_LINE, f) != NULL;
    fclose(f);
    if (got) line[strcspn(line, "\n")] = '\0';
    return got;
}

bool host_key(const char *path, const char *key, char value[HOST_LINE])
{
    char line[HOST_LINE];
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool got = false;
    while (!got && fgets(line, HOST_LINE, f)) {
        char *colon = strchr(line, ':');
        if (!colon || !text_starts(line, key)) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(value, HOST_LINE, "%s", colon);
        got = true;
    }
    fclose(f);
    return got;
}

/* Bytes of a line of /proc/meminfo; -1: unknown. */
static double memory_line(const char *key)
{
    char text[HOST_LINE];
    int64_t kilobytes;
    if (!host_key("/proc/meminfo", key, text)) return -1;
    text[strcspn(text, " ")] = '\0';
    return text_int(text, &kilobytes) ? 1024.0 * (double)kilobytes : -1;
}

/* The smallest limit that `file` gives in a control group or one above it; `least` where it gives
 * none. */
static double group_limit(const char *root, char *group, const char *file, double least)
{
    char path[2 * HOST_LINE], text[HOST_LINE];
    int64_t bytes;
    for (;;) {
        int n = snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        bool got = n < (int)sizeof path && host_line(path, text) && text_int(text, &bytes);
        if (got && (double)bytes < least) least = (double)bytes;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

/* Bytes that our control groups, of version 1 or 2, allow us; infinite where there is no limit. */
static double memory_limit(void)
{
    char line[HOST_LINE];
    double least = INFINITY;
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f)) { /* "0::/a/b" or "4:cpu,memory:/a/b" */
        line[strcspn(line, "\n")] = '\0';
        char *kind = strchr(line, ':');
        char *group = kind ? strchr(kind + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        if (strcmp(kind, ":") == 0) {
            least = group_limit("/sys/fs/cgroup", group, "memory.max", least);
        } else if (strstr(kind, "memory")) {
            least = group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", least);
        }
    }
    if (f) fclose(f);
    return least < 1e18 ? least : INFINITY; /* version 1 says "none" by a number near 2^63 */
}

struct host_memory host_memory(void)
{
    return (struct host_memory){.total = memory_line("MemTotal"),
                                .available = memory_line("MemAvailable"),
                                .limit = memory_limit()};
}
