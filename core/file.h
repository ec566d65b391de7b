/* file.h: whole files, mapped for reading or written all or nothing.
 *
 * Writing goes to a temporary name beside the target, then fsync, then rename: under the final name
 * there is either the old content or the whole new one. A target that exists and is no regular file
 * (a terminal, a pipe, a device) is written directly. Test: tests/test_file.c */
#ifndef ASSAY_CORE_FILE_H
#define ASSAY_CORE_FILE_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FILE_PATH = 1024 };

/* A read-only mapping. `data` is NULL for an empty file. */
struct file_map {
    const unsigned char *data;
    int64_t size;
};

/* Errors: the file is missing, no regular file, unreadable (ERR_INPUT); cannot be mapped (ERR_IO).
 */
enum err_code file_map(const char *path, struct file_map *out, struct err *err) ERR_USED;
void file_unmap(struct file_map *m);
/* How it will be read: a few bytes here and there (no read-ahead), or whole stretches. */
void file_advise(const struct file_map *m, bool scattered);

/* Joins folder and name into out[FILE_PATH]. */
enum err_code file_join(const char *folder, const char *name, char *out, struct err *err) ERR_USED;
/* `name` from the folder of the running program on, where what was installed with it lies; out has
 * FILE_PATH bytes. */
enum err_code file_beside_program(const char *name, char *out, struct err *err) ERR_USED;
bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* Both names lead to one existing file. */
bool file_same(const char *path, const char *other);
/* Makes a folder and those above it; an existing one is fine. */
enum err_code file_make_folder(const char *path, struct err *err) ERR_USED;

struct file_out {
    int fd;
    bool kept;     /* survives an abandon */
    bool direct;   /* the target is no regular file: no temporary name, no rename */
    int64_t bytes; /* written so far, sequentially */
    char path[FILE_PATH];
    char temporary[FILE_PATH];
};

#define FILE_OUT_INIT                                                                              \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Errors name the final path. A missing folder is ERR_INPUT; a full disk is ERR_IO. */
enum err_code file_out_open(struct file_out *f, const char *path, struct err *err) ERR_USED;
enum err_code file_out_write(struct file_out *f, const void *data, int64_t size,
                             struct err *err) ERR_USED;
/* Writes at an offset; only where !f->direct. */
enum err_code file_out_write_at(struct file_out *f, const void *data, int64_t size, int64_t at,
                                struct err *err) ERR_USED;
/* As file_out_open(), but what is written lies under `kept` until the commit and survives a kill
 * and file_out_abandon(): for work that is taken up again. *existed: there was such a file, and its
 * bytes are still there. Only regular targets. */
enum err_code file_out_open_kept(struct file_out *f, const char *path, const char *kept,
                                 bool *existed, struct err *err) ERR_USED;
/* What is written is on disk when this returns. */
enum err_code file_out_sync(struct file_out *f, struct err *err) ERR_USED;

/* fsync, close, rename. After an error nothing remains under either name. */
enum err_code file_out_commit(struct file_out *f, struct err *err) ERR_USED;
/* Gives up: closes and removes the temporary file. Safe on an unopened or committed one. */
void file_out_abandon(struct file_out *f);
/* Removes the temporary files of all open outputs; only async-signal-safe calls, for a handler of
 * SIGINT. */
void file_out_abandon_all(void);

#ifdef __cplusplus
}
#endif
#endif
