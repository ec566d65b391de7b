/* library.c: see library.h. */
#include "core/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *library_open(const char *const *names, char *why, size_t size)
{
    if (size > 0) why[0] = '\0';
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *said = library ? NULL : dlerror();
        if (library) return library;
        if (i == 0) snprintf(why, size, "%s", said ? said : "it cannot be opened");
    }
    return NULL;
}

/* A function pointer out of a symbol: the copy that POSIX asks for. */
bool library_find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    if (symbol) memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

const char *library_find_all(void *library, const struct library_function *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!library_find(library, list[i].name, list[i].out)) return list[i].name;
    }
    return NULL;
}
