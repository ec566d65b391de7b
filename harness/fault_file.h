/* fault_file.h: faults file.*: a checkpoint copied with one thing wrong in one of its files, as
 * copies, converters and disks do it. Test: tests/test_fault_file.c */
#ifndef ASSAY_HARNESS_FAULT_FILE_H
#define ASSAY_HARNESS_FAULT_FILE_H

#include "core/error.h"
#include "core/fault.h"
#include "core/file.h"

/* What was done: what a detector must name. */
struct fault_file {
    char file[256];   /* the file's name in its folder */
    char tensor[256]; /* the tensor, or "" where the whole file is at fault */
    bool content;     /* only bytes changed: nothing but a recorded hash can tell */
};

/* Copies the checkpoint folder `from` (config.json, index, *.safetensors) to the new folder `to`
 * and injects fault `row` (stage FAULT_FILE) at a place that `seed` picks. *inert: the fault cannot
 * occur there (one shard has no other to be swapped with); nothing is left. Errors: ERR_INPUT,
 * ERR_IO of reading and writing. */
enum err_code fault_file_inject(const struct fault_row *row, uint64_t seed, const char *from,
                                const char *to, struct fault_file *out, bool *inert,
                                struct err *err) ERR_USED;

#endif
