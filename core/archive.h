/* archive.h: zip archives: members read within bounds (libzip), and stored members written as
 * torch.save lays them out.
 *
 * What is written, byte for byte (miniz, as torch uses it):
 *   a member   PK\3\4, flags 0x0808 (sizes follow the data; UTF-8), no time, sizes 0; name; over
 *              4 GiB a zip64 extra field; an extra field "FB" of 'Z' that puts the data at a
 *              multiple of 64; data; PK\7\8 with checksum and sizes
 *   at the end central directory, zip64 end record and locator (always), end record
 * libzip writes none of these (descriptors, zero versions, the zip64 record of small archives), and
 * would need the archive in memory or its own temporary file: so the writer is our own and goes
 * through file.h, all or nothing. Test: tests/test_archive.c */
#ifndef ASSAY_CORE_ARCHIVE_H
#define ASSAY_CORE_ARCHIVE_H

#include "core/crc32.h"
#include "core/error.h"
#include "core/file.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ARCHIVE_ALIGN = 64,
    /* Bytes that all members read may have beyond the archive's own: room for the compressed
     * arrays of an .npz, and an end to bombs. */
    ARCHIVE_EXPAND = 64 << 20,
};

struct archive {
    void *zip; /* zip_t */
    const char *path;
    int64_t left; /* bytes that may still be read */
};

/* True for bytes that begin as a zip archive does. */
bool archive_is(const void *data, int64_t size);
/* Bytes in memory that outlive `a`; path for messages. Refused: what libzip refuses. */
enum err_code archive_open(struct archive *a, const char *path, const void *data, int64_t size,
                           struct err *err) ERR_USED;
void archive_close(struct archive *a);

int64_t archive_count(const struct archive *a);
/* Borrowed from `a`. */
const char *archive_name(const struct archive *a, int64_t member);
/* -1: there is none. */
int64_t archive_find(const struct archive *a, const char *name);
/* Bytes of a member, unpacked. Refused: an encrypted one, a compression other than deflate, more
 * than the bound above. */
enum err_code archive_size(struct archive *a, int64_t member, int64_t *size,
                           struct err *err) ERR_USED;
/* Reads the whole member, of the size that archive_size() gave, and compares its checksum. */
enum err_code archive_read(struct archive *a, int64_t member, void *out, int64_t size,
                           struct err *err) ERR_USED;

/* ---- writing ---- */

struct archive_member {
    char *name;
    uint32_t crc;
    int64_t size, offset; /* of the local header */
};

struct archive_out {
    struct file_out file;
    struct crc32 crc;
    struct archive_member *members;
    int64_t count, room;
};

enum err_code archive_out_open(struct archive_out *a, const char *path, struct err *err) ERR_USED;
enum err_code archive_out_add(struct archive_out *a, const char *name, const void *data,
                              int64_t size, struct err *err) ERR_USED;
enum err_code archive_out_commit(struct archive_out *a, struct err *err) ERR_USED;
/* Frees all, and where nothing was committed removes what was written. */
void archive_out_close(struct archive_out *a);

#ifdef __cplusplus
}
#endif
#endif
