/* library.h: libraries that are opened when they are needed, not when the program starts: what one
 * run uses another need not have. Test: tests/test_library.c */
#ifndef ASSAY_CORE_LIBRARY_H
#define ASSAY_CORE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first of `names` (NULL at the end) that can be opened; its symbols stay its own. NULL: none
 * can, and why[size] says what the loader says of the first. It is never closed again. */
void *library_open(const char *const *names, char *why, size_t size);

/* A function of it into *out, a function pointer. False: it has none of this name. */
bool library_find(void *library, const char *name, void *out);

/* A function of a library, and where it goes: a function pointer. */
struct library_function {
    const char *name;
    void *out;
};
/* All of list[n]. The name of the first that the library has not, NULL where it has them all. */
const char *library_find_all(void *library, const struct library_function *list, size_t n);

#ifdef __cplusplus
}
#endif
#endif
