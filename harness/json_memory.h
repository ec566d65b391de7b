/* json_memory.h: what happens when JSON cannot get memory: the program ends at once, exit 3, with
 * the line and the object that every other error has. jansson itself reports such a failure as a
 * syntax error, or not at all. Test: tests/test_fault_env.c */
#ifndef ASSAY_HARNESS_JSON_MEMORY_H
#define ASSAY_HARNESS_JSON_MEMORY_H

/* Called once, before any JSON; the program's own, never the library's: it ends the process. */
void json_memory_guard(int argc, char **argv);

#endif
