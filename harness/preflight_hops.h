/* preflight_hops.h: the hops of a line that somebody is going to type, found in the line itself:
 * ssh, sudo, env, docker exec and SHELL -c in front of what follows them. Test:
 * tests/test_preflight_hops.c */
#ifndef ASSAY_HARNESS_PREFLIGHT_HOPS_H
#define ASSAY_HARNESS_PREFLIGHT_HOPS_H

#include "compat/hops.h"

/* `typed`: the shell that the line is typed into; `login`: what an ssh comes to. *out and *journey
 * as hops_parse() and hops_follow() give them. */
enum err_code preflight_hops(const char *line, const char *typed, const char *login,
                             struct pool *pool, struct hops *out, struct hops_journey *journey,
                             struct err *err) ERR_USED;

#endif
