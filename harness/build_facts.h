/* build_facts.h: how this program was built. CMake knows it: ci/build_facts.cmake hands the fixed
 * facts to build_facts.c, and writes the commit into a source of its own at every build. Test:
 * tests/test_build_facts.c */
#ifndef ASSAY_HARNESS_BUILD_FACTS_H
#define ASSAY_HARNESS_BUILD_FACTS_H

#include <jansson.h>
#include <stdio.h>

/* "777e7ab9c1d2", with "-dirty" where files differed from it; "unknown" outside a git checkout. */
extern const char build_commit[];
/* The commit's day, "2026-11-30"; "" where there is none. */
extern const char build_commit_date[];

/* {commit, date, compiler, build_type, flags, sanitize, cuda: {built, about, architectures},
 * linear, kernels}. The caller's. */
json_t *build_facts(void);
/* The same in lines, the version first. */
void build_facts_text(FILE *f);

#endif
