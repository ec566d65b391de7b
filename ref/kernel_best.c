/* kernel_best.c: which variant of kernel.c this CPU runs. */
#include "ref/kernel.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct kernel *choose(void)
{
    const struct kernel *best = &kernel_portable;
    const char *forced = getenv("ASSAY_KERNEL");
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (avx2) best = &kernel_avx2;
    if (avx512) best = &kernel_avx512;
    if (forced && strcmp(forced, "avx2") == 0 && avx2) best = &kernel_avx2;
#endif
    if (forced && strcmp(forced, "portable") == 0) best = &kernel_portable;
    return best;
}

const struct kernel *kernel_best(void)
{
    static const struct kernel *_Atomic chosen; /* two first callers find the same answer */
    const struct kernel *k = chosen;
    if (!k) chosen = k = choose();
    return k;
}
