/* fault_outside.c: faults that lie outside the ops: files and system calls. Rows alone: the edits
 * are made in harness/fault_file.c and harness/fault_env.c. Test: tests/test_fault_file.c,
 * tests/test_fault_env.c */
#include "core/fault_edits.h"

#define IN_FILE .stage = FAULT_FILE, .detector = "inspect"
/* Only bytes changed: what was recorded before tells. */
#define IN_CONTENT .stage = FAULT_FILE, .detector = "inspect --against"

const struct fault_row fault_rows_file[] = {
    {.id = "file.truncated",
     IN_FILE,
     .edit = "a shard ends before its last tensor does",
     .source = "our own"},
    {.id = "file.short_read",
     IN_CONTENT,
     .edit = "a shard has its size, and a hole where its end was never written",
     .source = "our own"},
    {.id = "file.bit_flip", IN_CONTENT, .edit = "one bit of a tensor", .source = "our own"},
    {.id = "file.missing_tensor",
     IN_FILE,
     .edit = "a tensor stands under a name that nobody asks for",
     .source = "our own"},
    {.id = "file.extra_tensor",
     IN_FILE,
     .edit = "a tensor that the config does not want",
     .source = "our own"},
    {.id = "file.wrong_dtype",
     IN_FILE,
     .edit = "a tensor's type is another one of the same width",
     .source = "our own"},
    {.id = "file.wrong_shape",
     IN_FILE,
     .edit = "a matrix's two sizes exchanged; a vector as [1, n]",
     .source = "our own"},
    {.id = "file.swapped_shards",
     IN_FILE,
     .edit = "two shards under each other's names",
     .source = "our own"},
    {.id = "file.prefix",
     IN_FILE,
     .edit = "the names of a shard begin with another prefix",
     .source = "our own"},
    {.id = "file.duplicate_key",
     IN_FILE,
     .edit = "a tensor stands twice in a header",
     .source = "our own"},
    {0},
};

#define CALL_ROW(name, what)                                                                       \
    {                                                                                              \
        .id = name, .stage = FAULT_CALL, .detector = "exit status", .edit = what,                  \
        .source = "our own", .keys = {                                                             \
            KEY_SITE("call", "which one, from 1")                                                  \
        }                                                                                          \
    }

const struct fault_row fault_rows_env[] = {
    CALL_ROW("env.malloc_n", "the n-th allocation fails"),
    CALL_ROW("env.write_n", "the n-th write fails: no space left"),
    CALL_ROW("env.short_write_n", "the n-th write takes half of what it was given"),
    CALL_ROW("env.fsync_n", "the n-th fsync fails"),
    CALL_ROW("env.mmap_n", "the n-th mapping of a file fails"),
    CALL_ROW("env.rename_n", "the n-th rename fails"),
    CALL_ROW("env.open_n", "the n-th open for writing fails"),
    {0},
};
