/* facts.h: what Python source says, as JSON, from compat/python/assay_facts.py in a child process.
 *
 * The script is looked for in ../share/assay/python of the folder of the running program (there in
 * an installation, and in a build folder as a link to the source). The python is ASSAY_PYTHON, else
 * python3 of PATH; 3.9 or newer. It runs with -I -S: neither its site-packages nor the current
 * folder can put code into it. Nothing of what it reads is imported, executed or unpacked to disk.
 * Test: tests/test_facts.c */
#ifndef ASSAY_HARNESS_FACTS_H
#define ASSAY_HARNESS_FACTS_H

#include "core/error.h"

#include <jansson.h>
#include <stdint.h>

/* What the child may take. */
struct facts_limits {
    double seconds;
    int64_t output_bytes;
    int64_t memory_bytes; /* address space, a stack of 512 MiB that is hardly touched in it */
};

#define FACTS_LIMITS                                                                               \
    {                                                                                              \
        .seconds = 300, .output_bytes = (int64_t)1 << 30, .memory_bytes = (int64_t)4 << 30         \
    }

/* `mode`: "surface" (a library: what it offers) or "uses" (a consumer: what it does). `path`: a
 * folder, a .py file, a wheel, an sdist, or the name of an installed distribution. *out: the
 * object {"facts": 1, "kind": mode, ...}, the caller's (json_decref).
 * Errors: ERR_INPUT, what the extractor refuses, in its words (hostile or broken archives, nothing
 * of Python in it, no such thing); ERR_DEVICE: no python, one that is too old, no script;
 * ERR_PROCESS: it died, took too long or wrote too much. Single files that cannot be read are no
 * error but rows of out's "problems". The child is gone when this returns, or when we are killed.
 */
enum err_code facts_read(const char *mode, const char *path, json_t **out,
                         struct err *err) ERR_USED;
/* The same within other limits. */
enum err_code facts_read_within(const struct facts_limits *limits, const char *mode,
                                const char *path, json_t **out, struct err *err) ERR_USED;

#endif
