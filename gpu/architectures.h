/* architectures.h: whether a build has code for a card, from the list that it was configured with:
 * "80, 90a", entries as CMake writes them. `N` is machine code and intermediate code, `N-real` the
 * first alone, `N-virtual` the second alone; `a` ties an entry to that very capability; a word
 * ("native") says nothing, and the card is asked when it is opened. Plain C, so that it is tested
 * where there is no CUDA: tests/test_architectures.c */
#ifndef ASSAY_GPU_ARCHITECTURES_H
#define ASSAY_GPU_ARCHITECTURES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Machine code runs on the same major capability from its minor one on; intermediate code on
 * everything from its capability on. Source: CUDA programming guide, "Application Compatibility".
 */
static inline bool architectures_cover(const char *list, int major, int minor)
{
    const long card = 10L * major + minor;
    for (const char *at = list + strspn(list, ",; "); *at; at += strspn(at, ",; ")) {
        char *end;
        long entry = strtol(at, &end, 10);
        size_t length = strcspn(at, ",; ");
        bool exact = *end == 'a', known = end != at;
        const char *form = end + (exact ? 1 : 0);
        bool machine = strncmp(form, "-virtual", 8) != 0, middle = strncmp(form, "-real", 5) != 0;
        if (!known || (exact && entry == card) ||
            (!exact && machine && entry / 10 == major && entry <= card) ||
            (!exact && middle && entry <= card))
            return true;
        at += length;
    }
    return false;
}

#endif
