/* library_memory.h: what happens when jansson or libcrypto cannot get memory: the program ends at
 * once, exit 3, with the line and the object that every other error has. jansson reports such a
 * failure as a syntax error or not at all, and both have places where they crash. Test:
 * tests/test_fault_env.c */
#ifndef ASSAY_HARNESS_LIBRARY_MEMORY_H
#define ASSAY_HARNESS_LIBRARY_MEMORY_H

/* Called once, before the first use of either; the program's own, never the library's: it ends the
 * process. */
void library_memory_guard(int argc, char **argv);

#endif
