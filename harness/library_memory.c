/* library_memory.c: see library_memory.h. Nothing here may allocate after the failure. */
#include "harness/library_memory.h"

#include "core/error.h"
#include "core/file.h"

#include <jansson.h>
#include <openssl/crypto.h>
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

static void *checked(void *p, size_t n)
{
    if (p || n == 0) return p;
    file_out_abandon_all();
    say(STDERR_FILENO, line);
    if (object[0]) say(STDOUT_FILENO, object);
    _exit(err_exit(ERR_MEMORY));
}

static void *json_allocate(size_t n)
{
    return checked(malloc(n), n);
}

static void *crypto_allocate(size_t n, const char *file, int at)
{
    (void)file;
    (void)at;
    return checked(malloc(n), n);
}

static void *crypto_reallocate(void *p, size_t n, const char *file, int at)
{
    (void)file;
    (void)at;
    return checked(realloc(p, n), n);
}

static void crypto_free(void *p, const char *file, int at)
{
    (void)file;
    (void)at;
    free(p);
}

void library_memory_guard(int argc, char **argv)
{
    bool json = false;
    for (int i = 1; i < argc; i++) json |= strcmp(argv[i], "--json") == 0;
    snprintf(
        line, sizeof line,
        "assay: error: allocate memory: JSON or hashing: found none left, wanted more memory\n");
    if (json)
        snprintf(object, sizeof object,
                 "{\"assay\": \"%s\", \"verb\": \"%.32s\", \"verdict\": \"error\", \"exit\": %d, "
                 "\"error\": "
                 "{\"what\": \"allocate memory\", \"where\": \"JSON or hashing\", \"found\": "
                 "\"none left\", "
                 "\"wanted\": "
                 "\"more memory\", \"chain\": []}}\n",
                 ASSAY_VERSION, argc > 1 && !strpbrk(argv[1], "\"\\") ? argv[1] : "",
                 err_exit(ERR_MEMORY));
    json_set_alloc_funcs(json_allocate, free);
    (void)CRYPTO_set_mem_functions(crypto_allocate, crypto_reallocate, crypto_free);
}
