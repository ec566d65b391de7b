/* archive.c: the reader of archive.h, over libzip. */
#include "core/archive.h"

#include <string.h>
#include <zip.h>

bool archive_is(const void *data, int64_t size)
{
    return size >= 4 && (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "PK\5\6", 4) == 0);
}

enum err_code archive_open(struct archive *a, const char *path, const void *data, int64_t size,
                           struct err *err)
{
    zip_error_t why;
    *a = (struct archive){.path = path, .left = size + ARCHIVE_EXPAND};
    /* libzip takes no bytes at all for an empty archive. */
    if (!archive_is(data, size))
        return err_set(err, ERR_INPUT, "read zip archive|%s|other bytes|an archive", path);
    zip_error_init(&why);
    zip_source_t *source = zip_source_buffer_create(data, (zip_uint64_t)size, 0, &why);
    if (source) a->zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &why);
    if (!a->zip) {
        err_set(err, ERR_INPUT, "read zip archive|%s|%s|a whole archive (truncated?)", path,
                zip_error_strerror(&why));
        zip_source_free(source);
    }
    zip_error_fini(&why);
    return err->code;
}

void archive_close(struct archive *a)
{
    if (a->zip) zip_discard(a->zip);
    a->zip = NULL;
}

int64_t archive_count(const struct archive *a)
{
    return zip_get_num_entries(a->zip, 0);
}

const char *archive_name(const struct archive *a, int64_t member)
{
    const char *name = zip_get_name(a->zip, (zip_uint64_t)member, ZIP_FL_ENC_RAW);
    return name ? name : "";
}

int64_t archive_find(const struct archive *a, const char *name)
{
    return zip_name_locate(a->zip, name, ZIP_FL_ENC_RAW);
}

enum err_code archive_size(struct archive *a, int64_t member, int64_t *size, struct err *err)
{
    zip_stat_t st;
    const char *name = archive_name(a, member);
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    *size = 0;
    if (zip_stat_index(a->zip, (zip_uint64_t)member, 0, &st) != 0 || (st.valid & needed) != needed)
        return err_set(err, ERR_INPUT, "read zip archive|%s: %s|%s|a member with a size", a->path,
                       name, zip_strerror(a->zip));
    if (st.encryption_method != ZIP_EM_NONE ||
        (st.comp_method != ZIP_CM_STORE && st.comp_method != ZIP_CM_DEFLATE))
        return err_set(err, ERR_INPUT,
                       "read zip archive|%s: %s|compression %d, encryption %d|stored or deflated",
                       a->path, name, st.comp_method, st.encryption_method);
    if (st.size > (zip_uint64_t)a->left)
        return err_set(err, ERR_INPUT,
                       "read zip archive|%s: %s|%llu bytes|at most %lld: the archive's own bytes "
                       "and %d MiB, over all members",
                       a->path, name, (unsigned long long)st.size, (long long)a->left,
                       ARCHIVE_EXPAND >> 20);
    *size = (int64_t)st.size;
    return ERR_OK;
}

enum err_code archive_read(struct archive *a, int64_t member, void *out, int64_t size,
                           struct err *err)
{
    const char *name = archive_name(a, member);
    char past;
    int64_t done = 0, got = 1;
    zip_file_t *f = zip_fopen_index(a->zip, (zip_uint64_t)member, 0);
    a->left -= size;
    while (f && done < size && got > 0) {
        got = zip_fread(f, (char *)out + done, (zip_uint64_t)(size - done));
        if (got > 0) done += got;
    }
    /* The checksum is compared where the end is read. */
    if (f && done == size) got = zip_fread(f, &past, 1);
    if (!f || done != size || got != 0)
        err_set(err, ERR_INPUT,
                "read zip archive|%s: %s|%s after %lld bytes|%lld bytes whose "
                "checksum agrees",
                a->path, name, f ? zip_file_strerror(f) : zip_strerror(a->zip), (long long)done,
                (long long)size);
    if (f) zip_fclose(f);
    return err->code;
}
