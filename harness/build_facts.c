/* build_facts.c: see build_facts.h. */
#include "harness/build_facts.h"

#include <string.h>

/* "80, 90a" as a list. */
static json_t *listed(const char *text)
{
    json_t *list = json_array();
    for (const char *p = text + strspn(text, ", "); *p; p += strspn(p, ", ")) {
        const size_t n = strcspn(p, ", ");
        json_array_append_new(list, json_stringn(p, n));
        p += n;
    }
    return list;
}

json_t *build_facts(void)
{
    json_t *cuda = json_pack("{s:b, s:s, s:o}", "built", BUILD_CUDA, "about", BUILD_CUDA_ABOUT,
                             "architectures", listed(BUILD_ARCHITECTURES));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:[s, s], s:o}", "commit", build_commit,
                     "date", build_commit_date, "compiler", BUILD_COMPILER, "build_type",
                     BUILD_TYPE, "flags", BUILD_FLAGS, "sanitize", BUILD_SANITIZE, "cuda", cuda,
                     "linear", "own", "blas", "kernels", listed(BUILD_KERNELS));
}

void build_facts_text(FILE *f)
{
    fprintf(f, "assay %s\n", ASSAY_VERSION);
    fprintf(f, "commit:   %s%s%s\n", build_commit, build_commit_date[0] ? ", " : "",
            build_commit_date);
    fprintf(f, "compiler: %s\n", BUILD_COMPILER);
    fprintf(f, "build:    %s%s%s", BUILD_TYPE, BUILD_FLAGS[0] ? ", " : "", BUILD_FLAGS);
    fprintf(f, "%s%s\n", BUILD_SANITIZE[0] ? ", sanitizers " : "", BUILD_SANITIZE);
    fprintf(f, "CUDA:     %s\n", BUILD_CUDA_ABOUT);
    fprintf(f, "linear:   own (kernels %s), blas (OpenBLAS, opened when it is asked for)\n",
            BUILD_KERNELS);
}
