/* inspect_partial.c: the hashes that a record has so far, a line each, beside its target:
 *
 *   assay-partial 1 IDENTITY DATE
 *   HASH NUMBER                    of the tensor, in the order of the inspection
 *
 * IDENTITY is the SHA-256 of what says that the files are the same: names, sizes, times of change,
 * headers. A last line without its end is what a kill leaves: it is dropped. */
#include "harness/inspect.h"

#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool identity(const struct inspection *s, char hex[65])
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return false;
    fprintf(f, "%s %s %s\n", ASSAY_VERSION, INS_HASH_NAME, s->config.sha256);
    for (int64_t i = 0; i < s->file_count; i++) {
        const struct ins_file *x = &s->files[i];
        fprintf(f, "%s\t%lld\t%lld\t%s\n", x->name, (long long)x->size, (long long)x->mtime_ns,
                x->header_sha256);
    }
    bool good = fclose(f) == 0 && ins_sha256(text, size, hex);
    free(text);
    return good;
}

/* One line "HASH NUMBER" without its end; false when it is none. */
static bool take_line(const struct inspection *s, char *line, char (*hash)[INS_HASH])
{
    int64_t i;
    if (strlen(line) < INS_HASH || line[INS_HASH - 1] != ' ') return false;
    line[INS_HASH - 1] = '\0';
    if (strspn(line, "0123456789abcdef") != INS_HASH - 1 || !text_int(line + INS_HASH, &i) ||
        i < 0 || i >= s->tensor_count)
        return false;
    memcpy(hash[i], line, INS_HASH);
    return true;
}

/* Takes the lines that are whole; the bytes that they fill, or 0 when the file is not ours. */
static int64_t take(struct ins_partial *p, const struct inspection *s, char *text,
                    const char *header, char (*hash)[INS_HASH], struct ins_contract *c)
{
    char *end = strchr(text, '\n');
    if (!end || !text_starts(text, header)) return 0;
    *end = '\0';
    snprintf(c->date, sizeof c->date, "%s", text + strlen(header));
    char *line = end + 1;
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        if (!take_line(s, line, hash)) break;
        p->resumed++;
        line = end + 1;
    }
    return line - text;
}

static enum err_code write_all(struct ins_partial *p, const char *text, struct err *err)
{
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t done = write(p->fd, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return err_sys(err, done < 0 ? errno : ENOSPC, "write|%s", p->path);
        text += done;
        n -= (size_t)done;
    }
    return ERR_OK;
}

/* The whole file as text, the caller's; NULL: no memory or a read error. */
static char *read_all(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return NULL;
    char *text = calloc(1, (size_t)st.st_size + 1);
    ssize_t n = text ? pread(fd, text, (size_t)st.st_size, 0) : -1;
    if (n >= 0) return text;
    free(text);
    return NULL;
}

static enum err_code resume(struct ins_partial *p, const struct inspection *s, const char *header,
                            char (*hash)[INS_HASH], struct ins_contract *c, struct err *err)
{
    char *text = read_all(p->fd), first[192];
    if (!text) return err_set(err, ERR_IO, "read|%s|nothing|what an earlier run left", p->path);
    int64_t kept = take(p, s, text, header, hash, c);
    free(text);
    if (ftruncate(p->fd, kept) != 0 || lseek(p->fd, 0, SEEK_END) < 0)
        return err_sys(err, errno, "write|%s", p->path);
    if (kept > 0) return ERR_OK;
    snprintf(first, sizeof first, "%s%s\n", header, c->date);
    return write_all(p, first, err);
}

enum err_code ins_partial_open(struct ins_partial *p, const struct inspection *s, const char *path,
                               char (*hash)[INS_HASH], struct ins_contract *c, struct err *err)
{
    char hex[65], header[96];
    struct stat st;
    *p = (struct ins_partial){.fd = -1};
    int n = snprintf(p->path, sizeof p->path, "%s.partial", path);
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "write|%s|%d bytes|a shorter path", path, n);
    if (!identity(s, hex)) return err_set(err, ERR_MEMORY, "record|%s|no memory", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode))
            return err_set(err, ERR_INPUT, "write|%s|a folder|a file name", path);
        return ERR_OK; /* a device or a pipe has no place beside it */
    }
    p->fd = open(p->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (p->fd < 0) return err_sys(err, errno, "write|%s", p->path);
    if (flock(p->fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, ERR_INPUT, "record|%s|another run that writes it|one at a time",
                       p->path);
    snprintf(header, sizeof header, "assay-partial 1 %s ", hex);
    return resume(p, s, header, hash, c, err);
}

enum err_code ins_partial_add(struct ins_partial *p, int64_t i, const char *hex, struct err *err)
{
    char line[64];
    if (p->fd < 0) return ERR_OK;
    snprintf(line, sizeof line, "%s %lld\n", hex, (long long)i);
    return write_all(p, line, err);
}

void ins_partial_close(struct ins_partial *p, bool done)
{
    if (p->fd < 0) return;
    if (done) unlink(p->path);
    close(p->fd);
    p->fd = -1;
}
