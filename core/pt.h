/* pt.h: files of torch.save (zip with a pickle), tensors and plain data only, read and written.
 *
 *   NAME/data.pkl    pickle, protocol 2; NAME/data/K  raw little-endian storage, each 64-aligned
 *   NAME/version "3\n", NAME/byteorder "little", NAME/.format_version "1",
 *   NAME/.storage_alignment "64"
 *
 * Reading never executes anything: of the pickle machine only what builds None, bool, int (64
 * bits), float, str, bytes, list, tuple, torch.Size, dict and OrderedDict (keys: text, int; other
 * attributes are dropped) and tensors (torch._utils._rebuild_tensor_v2 over torch.*Storage,
 * _rebuild_parameter) is known. Any other global, reduce, build or extension is refused by its
 * name. Also refused: a storage that is missing, too short or of another byte order, views outside
 * their storage, a key twice, depth and size beyond what the file can hold, compressed bombs, and
 * what torch.save wrote before 1.6, which is no zip.
 *
 * Memory: each storage that a tensor names is read once, into its own block, and contiguous views
 * point into it; other views (strides) are copied, at most the file's bytes and 64 MiB in all.
 * Test: tests/test_pt.c, tests/fuzz/fuzz_pt.c */
#ifndef ASSAY_CORE_PT_H
#define ASSAY_CORE_PT_H

#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"
#include "core/safetensors.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pt_kind { PT_NONE, PT_BOOL, PT_INT, PT_FLOAT, PT_TEXT, PT_LIST, PT_TUPLE, PT_DICT, PT_TENSOR };

struct pt_value {
    enum pt_kind kind;
    int64_t whole;                  /* BOOL, INT */
    double real;                    /* FLOAT */
    const char *text;               /* TEXT (bytes too); `count` bytes and a NUL */
    int64_t count;                  /* LIST, TUPLE, DICT: items; TEXT: bytes */
    struct pt_value *items;         /* LIST, TUPLE; DICT: values */
    struct pt_value *keys;          /* DICT */
    const struct st_tensor *tensor; /* TENSOR: contiguous; name "", offset 0 */
};

struct pt_file {
    char path[FILE_PATH];
    struct pt_value root;
    void *owned; /* all memory behind the values */
};

enum err_code pt_open(struct pt_file *f, const char *path, struct err *err) ERR_USED;
/* The same on bytes in memory; nothing of them is needed afterwards. */
enum err_code pt_open_memory(struct pt_file *f, const char *path, const void *data, int64_t size,
                             struct err *err) ERR_USED;
void pt_close(struct pt_file *f);
/* Value of a text key of a dict, or NULL. */
const struct pt_value *pt_get(const struct pt_value *dict, const char *key);

/* ---- writing: a tree of values, tensors borrowed ---- */

/* Writes the tree, all or nothing; the archive's folder is the file's name without its extension,
 * as torch names it. The bytes are a pure function of name and values, and those that torch.save
 * (2.15) writes for values of which no two are one object, equal texts apart; but for the first 20
 * digits of .data/serialization_id, a hash of names that depends on torch's C++ library. Refused:
 * tensor types without a storage class (fp8, unsigned beyond u8), text that is not UTF-8. */
enum err_code pt_write(const char *path, const struct pt_value *root, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
