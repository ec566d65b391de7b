/* json_memory.c: see json_memory.h. Nothing here may allocate after the failure. */
#include "harness/json_memory.h"

#include "core/error.h"
#include "core/file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char line[128], object[384];

static void say(int fd, const char *text)
{
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t w = write(fd, text, n);
        if (w <= 0) return;
        text += w;
        n -= (size_t)w;
    }
}

static void *allocate(size_t n)
{
    void *p = malloc(n);
    if (p || n == 0) return p;
    file_out_abandon_all();
    say(STDERR_FILENO, line);
    if (object[0]) say(STDOUT_FILENO, object);
    _exit(err_exit(ERR_MEMORY));
}

void json_memory_guard(int argc, char **argv)
{
    bool json = false;
    for (int i = 1; i < argc; i++) json |= strcmp(argv[i], "--json") == 0;
    snprintf(line, sizeof line,
             "assay: error: allocate memory: JSON: found none left, wanted more memory\n");
    if (json)
        snprintf(object, sizeof object,
                 "{\"assay\": \"%s\", \"verb\": \"%.32s\", \"verdict\": \"error\", \"exit\": %d, "
                 "\"error\": "
                 "{\"what\": \"allocate memory\", \"where\": \"JSON\", \"found\": \"none left\", "
                 "\"wanted\": "
                 "\"more memory\", \"chain\": []}}\n",
                 ASSAY_VERSION, argc > 1 && !strpbrk(argv[1], "\"\\") ? argv[1] : "",
                 err_exit(ERR_MEMORY));
    json_set_alloc_funcs(allocate, free);
}
