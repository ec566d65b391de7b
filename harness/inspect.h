/* inspect.h: what a checkpoint, a dump or a safetensors file is, and all that is wrong with it.
 *
 * Unlike the readers in core/, which stop at the first thing that they cannot use, an inspection
 * goes on and lists every problem. It reads headers, the index and config.json; of the data only
 * the two numbers of each weight_shape. What it accepts, the readers accept.
 *
 * Memory: one record a tensor (about 250 bytes for 75 of name); the JSON of one header at a time.
 * Tests: tests/test_inspect.c, tests/test_inspect_mutate.c */
#ifndef ASSAY_HARNESS_INSPECT_H
#define ASSAY_HARNESS_INSPECT_H

#include "core/error.h"
#include "core/file.h"
#include "core/layout.h"
#include "core/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ins_tensor {
    const char *name; /* with the prefix that the config wants, where all have another */
    const char *raw;  /* as the file says */
    int64_t shape[ST_DIMS];
    int dims;              /* -1: unknown */
    enum dtype dtype;      /* DT_COUNT: unknown */
    int64_t offset, bytes; /* from the start of the file */
    int32_t file;
    bool placed;      /* its bytes lie in the file, as many as dtype and shape need */
    int64_t expected; /* in the layout, or -1 */
};

struct ins_file {
    const char *name; /* in its folder */
    int64_t size, mtime_ns;
    int64_t tensors;
    int64_t written; /* bytes that the file system holds; fewer than size: it has holes */
    char header_sha256[65];
    const char *lost; /* why its tensors are not known, or NULL */
};

/* One line of the index. */
struct ins_entry {
    const char *name, *raw;
    int32_t file;
};

struct ins_chunk;

struct inspection {
    const char *path;
    bool folder;
    struct ins_chunk *chunks; /* texts that live as long as the inspection */
    struct ins_file *files;
    int64_t file_count, file_room;
    struct ins_tensor *tensors; /* by name, once read */
    int64_t tensor_count, tensor_room;
    struct ins_entry *entries; /* by name */
    int64_t entry_count;
    bool has_index;
    int64_t total_size; /* as the index says; -1: it does not */
    struct config config;
    struct layout layout;
    const struct layout_tensor **absent; /* wanted and nowhere, by name */
    int64_t absent_count;
    json_t *problems, *missing, *extra, *known;
    int64_t unwritten; /* weight_shape tensors that lie in a hole of their file */
    bool broken;       /* no memory for a result, or `cause` */
    struct err cause;  /* what the machine refused: no finding about the files */
    char scratch[8][768];
    int turn;
};

/* One thing that is wrong. `group`: problems of the same group are shown as one line; NULL: those
 * with the same words whose tensors differ in numbers only. `remedy`: what to do about it, where
 * `found` is a cause; NULL: nothing but what is wanted. Texts are copied. */
struct ins_problem {
    const char *what, *where, *tensor, *found, *wanted, *group, *remedy;
};

/* What the machine refused (memory, a mapping, a read): no finding about the files. */
static inline bool ins_refused(const struct err *e)
{
    return e->code == ERR_IO || e->code == ERR_MEMORY;
}

/* ---- inspect.c: the parts that all share ---- */

void inspection_open(struct inspection *s, const char *path);
void inspection_close(struct inspection *s);
void ins_problem(struct inspection *s, struct ins_problem p);
/* A text for a message; valid until seven more calls. */
const char *ins_text(struct inspection *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A copy that lives as long as s; "" when there is no memory (s->broken). */
const char *ins_keep(struct inspection *s, const char *text);
/* The text as JSON; bytes that are no UTF-8 are shown as '?'. */
json_t *ins_json(const char *text);
/* The first tensor of that name; those of the same name follow it. */
struct ins_tensor *ins_find(const struct inspection *s, const char *name);
const struct ins_entry *ins_indexed(const struct inspection *s, const char *name);
/* The file's index in s->files; added when it is new. */
int32_t ins_file_of(struct inspection *s, const char *name);
void ins_sort(struct inspection *s);
/* The path of a file of s. */
enum err_code ins_path(const struct inspection *s, int64_t file, char *out,
                       struct err *err) ERR_USED;
const char *ins_shape(struct inspection *s, int dims, const int64_t *shape);

/* ---- the parts ---- */

/* inspect_header.c: adds the tensors of one file, and what is wrong with its header. */
void ins_read_header(struct inspection *s, int64_t file);
/* The same on bytes in memory. */
void ins_parse_header(struct inspection *s, int64_t file, const void *data, int64_t size);
/* inspect_json.c: a problem for each key that stands twice in an object of this JSON text. False:
 * none was found. */
bool ins_duplicate_keys(struct inspection *s, const char *where, const char *text, int64_t size);
/* inspect_index.c: the files of a folder, from its index or by their names. */
enum err_code ins_list_files(struct inspection *s, struct err *err) ERR_USED;
void ins_parse_index(struct inspection *s, const char *text, int64_t size);
/* What the index says against what the files hold. */
void ins_check_index(struct inspection *s);
/* inspect_prefix.c: one problem where all names have another prefix than the config's; they are
 * compared without it then. */
void ins_fix_prefix(struct inspection *s);
/* inspect_layout.c: what the files hold against what the config wants. */
enum err_code ins_check_layout(struct inspection *s, struct err *err) ERR_USED;
bool ins_absent(const struct inspection *s, const char *name);
/* A problem for each file that cannot be read, with what that costs. */
void ins_report_lost(struct inspection *s);
/* inspect_extra.c: tensors that the layout does not know: known extras, and problems. */
void ins_check_extras(struct inspection *s);
/* inspect_values.c: the numbers in weight_shape. */
void ins_check_weight_shapes(struct inspection *s);
/* inspect_dump.c: of s->path; of a dump that is open. */
enum err_code ins_dump(struct inspection *s, const char *model, json_t *result,
                       struct err *err) ERR_USED;
struct dump;
enum err_code ins_dump_open(struct inspection *s, const struct dump *d, const char *model,
                            json_t *result, struct err *err) ERR_USED;

/* inspect_foreign.c: tensors and file of a dump that another engine wrote, once it is open. */
enum err_code ins_foreign(struct inspection *s, const struct dump *d, struct err *err) ERR_USED;

/* ---- what the verb calls ---- */

/* Fills s: config, files, tensors, problems. Errors: what makes it no checkpoint at all: no
 * config.json that can be read, no file. */
enum err_code inspect_folder(struct inspection *s, struct err *err) ERR_USED;
/* One file; *dump says whether it is one of taps. */
enum err_code inspect_file(struct inspection *s, bool *dump, struct err *err) ERR_USED;
/* Fields of the result: kind, tensors, bytes, shards, layers, groups, problems, missing, extra. */
enum err_code inspect_json(struct inspection *s, const char *kind, json_t *result,
                           struct err *err) ERR_USED;

/* ---- the checkpoint contract: inspect_hash.c, inspect_record.c, inspect_against.c ---- */

enum { INS_HASH = 33 }; /* 32 hex digits and NUL */

/* The hash of a tensor's bytes: GMAC with AES-128 under a fixed key, 128 bits. It finds every
 * change that happens (a single flipped bit for certain, anything else but for 2^-128); it is no
 * proof against somebody who constructs a change. Chosen because libcrypto does it at several times
 * the rate at which a cached file can be read; SHA-256 is slower than the read, even with the
 * instructions for it. */
struct ins_hasher;
struct ins_hasher *ins_hasher_new(void); /* NULL: no memory, or libcrypto cannot */
bool ins_hasher_begin(struct ins_hasher *h);
bool ins_hasher_add(struct ins_hasher *h, const void *data, int64_t size);
bool ins_hasher_end(struct ins_hasher *h, char hex[INS_HASH]);
void ins_hasher_free(struct ins_hasher *h);

/* Hashes of all tensors that are placed: hash[i] of s->tensors[i], "" where it is not known. Those
 * that are set before the call are kept. `done` is called from one thread at a time, in any order;
 * may be NULL. */
struct ins_hash_job {
    struct inspection *s;
    int threads;
    char (*hash)[INS_HASH];
    enum err_code (*done)(void *ctx, int64_t i, struct err *err);
    void *ctx;
};
enum err_code ins_hash_all(struct ins_hash_job *job, struct err *err) ERR_USED;

#define INS_HASH_NAME "gmac-aes128"

/* A contract is JSON, written and read line by line, so that its memory does not grow with it:
 *   {"assay": "0.1.0", "contract": "checkpoint", "version": 1, "date": "...", "config_sha256":
 *    "...", "hash": "gmac-aes128", "tensors": N, "bytes": N, "problems": N, "total": "...",
 *   "files": [
 *   {"name": "...", "bytes": N, "header_sha256": "..."},
 *   ],
 *   "weights": [
 *   {"name": "...", "dtype": "BF16", "shape": [2, 3], "file": "...", "hash": "..."},
 *   ]}
 * (the first two are one line). Weights are sorted by name. `total` is the SHA-256 of their names,
 * dtypes, shapes and hashes: the same for the same weights in other shards. */
struct ins_contract {
    char date[32], config_sha256[65], total[65];
    int64_t tensors, bytes, problems;
};

/* Writes the contract to `path`; what was hashed before a kill is taken from PATH.partial. Nothing
 * is written when a tensor's bytes cannot be had: result "recorded" says why. */
enum err_code ins_record(struct inspection *s, const char *path, int threads, json_t *result,
                         struct err *err) ERR_USED;
/* inspect_partial.c: what of a record was done before a kill. It belongs to these very files: other
 * sizes, times or headers, and it starts anew. */
struct ins_partial {
    int fd; /* -1: none is kept */
    char path[FILE_PATH];
    int64_t resumed; /* tensors that were hashed before */
};
/* Fills hash[] with what is known and c->date with the date of the first start. */
enum err_code ins_partial_open(struct ins_partial *p, const struct inspection *s, const char *path,
                               char (*hash)[INS_HASH], struct ins_contract *c,
                               struct err *err) ERR_USED;
enum err_code ins_partial_add(struct ins_partial *p, int64_t i, const char *hex,
                              struct err *err) ERR_USED;
/* Closes; removes the file when the record is done. */
void ins_partial_close(struct ins_partial *p, bool done);

/* Adds a problem for all that changed since the contract was written. */
enum err_code ins_against(struct inspection *s, const char *path, int threads, json_t *result,
                          struct err *err) ERR_USED;
/* The tensors of s by their raw names; free(). NULL: no memory. */
int64_t *ins_order_raw(const struct inspection *s);
/* Adds one tensor to the digest that becomes `total`. */
struct ins_total;
struct ins_total *ins_total_new(void);
bool ins_total_add(struct ins_total *d, const char *name, const char *dtype, const char *shape,
                   const char *hash);
/* The digest as 64 hex digits; frees it. False where anything failed. */
bool ins_total_end(struct ins_total *d, char hex[65]);
/* SHA-256 as 64 hex digits and NUL. */
bool ins_sha256(const void *data, size_t size, char hex[65]);

#endif
