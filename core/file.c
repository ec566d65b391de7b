/* file.c: see file.h. */
#include "core/file.h"

#include "core/check.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Open outputs, so that an interrupted program can remove what it half wrote. */
enum { OPEN_MAX = 64 };
static struct file_out *volatile open_outputs[OPEN_MAX];

enum err_code file_map(const char *path, struct file_map *out, struct err *err)
{
    *out = (struct file_map){0};
    if (!path[0]) return err_set(err, ERR_INPUT, "open|a file|an empty path|the path of a file");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_sys(err, errno, "open|%s", path);
    struct stat st;
    if (fstat(fd, &st) != 0) {
        err_sys(err, errno, "stat|%s", path);
    } else if (!S_ISREG(st.st_mode)) {
        err_set(err, ERR_INPUT, "open|%s|%s|a regular file", path,
                S_ISDIR(st.st_mode) ? "a folder" : "a special file");
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            err_sys(err, errno, "map|%s", path);
        } else {
            *out = (struct file_map){p, st.st_size};
        }
    }
    close(fd);
    return err->code;
}

void file_unmap(struct file_map *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, (size_t)m->size);
    *m = (struct file_map){0};
}

void file_advise(const struct file_map *m, bool scattered)
{
    /* Advice that is not taken costs time and nothing else. */
    if (m->data)
        (void)madvise((void *)(uintptr_t)m->data, (size_t)m->size,
                      scattered ? MADV_RANDOM : MADV_NORMAL);
}

enum err_code file_join(const char *folder, const char *name, char *out, struct err *err)
{
    int n = snprintf(out, FILE_PATH, "%s/%s", folder, name);
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "path|%s/%s|%d bytes|fewer than %d", folder, name, n,
                       FILE_PATH);
    return ERR_OK;
}

enum err_code file_beside_program(const char *name, char *out, struct err *err)
{
    char folder[FILE_PATH];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n <= 0) return err_sys(err, errno, "find own program|/proc/self/exe");
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    return file_join(folder, name, out, err);
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_same(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

enum err_code file_make_folder(const char *path, struct err *err)
{
    char part[FILE_PATH];
    int n = snprintf(part, sizeof part, "%s", path);
    if (n < 0 || n >= FILE_PATH)
        return err_set(err, ERR_INPUT, "make folder|%s|%d bytes|fewer than %d", path, n, FILE_PATH);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return err_sys(err, errno, "make folder|%s", part);
        *p = '/';
    }
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
        return err_sys(err, errno, "make folder|%s", part);
    if (!file_is_folder(part))
        return err_set(err, ERR_INPUT, "make folder|%s|a file of that name|a folder", part);
    return ERR_OK;
}

static void remember(struct file_out *f, struct file_out *with)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        if (open_outputs[i] != f) continue;
        open_outputs[i] = with;
        return;
    }
}

enum err_code file_out_open(struct file_out *f, const char *path, struct err *err)
{
    *f = (struct file_out)FILE_OUT_INIT;
    struct stat st;
    int n = snprintf(f->path, sizeof f->path, "%s", path);
    int m = snprintf(f->temporary, sizeof f->temporary, "%s.tmp-%ld", path, (long)getpid());
    if (!path[0]) return err_set(err, ERR_INPUT, "write|a file|an empty path|the path of a file");
    if (n < 0 || m < 0 || m >= FILE_PATH)
        return err_set(err, ERR_INPUT, "write|%s|a path of %d bytes|1 to %d bytes", path, n,
                       FILE_PATH - 32);
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return err_set(err, ERR_INPUT, "write|%s|a folder|a file name", path);
    f->direct = exists && !S_ISREG(st.st_mode);
    if (f->direct) {
        f->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        /* What lies under the temporary name was left by a killed process, or put there by somebody
         * else: it is removed, never written through. Remembered first, so that a signal in between
         * leaves nothing. */
        remember(NULL, f);
        unlink(f->temporary);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (f->fd < 0) remember(f, NULL);
    }
    return f->fd < 0 ? err_sys(err, errno, "write|%s", path) : ERR_OK;
}

enum err_code file_out_open_kept(struct file_out *f, const char *path, const char *kept,
                                 bool *existed, struct err *err)
{
    *f = (struct file_out)FILE_OUT_INIT;
    struct stat st;
    *existed = stat(kept, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    int n = snprintf(f->path, sizeof f->path, "%s", path);
    int m = snprintf(f->temporary, sizeof f->temporary, "%s", kept);
    if (n < 0 || m < 0 || n >= FILE_PATH || m >= FILE_PATH)
        return err_set(err, ERR_INPUT, "write|%s|a path of %d bytes|fewer than %d", path, n,
                       FILE_PATH);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(err, ERR_INPUT, "write|%s|no regular file|a file name", path);
    f->kept = true;
    f->fd = open(kept, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    return f->fd < 0 ? err_sys(err, errno, "write|%s", kept) : ERR_OK;
}

enum err_code file_out_sync(struct file_out *f, struct err *err)
{
    CHECK(f->fd >= 0);
    return fdatasync(f->fd) == 0 ? ERR_OK : err_sys(err, errno, "write to disk|%s", f->path);
}

enum err_code file_out_write_at(struct file_out *f, const void *data, int64_t size, int64_t at,
                                struct err *err)
{
    CHECK(f->fd >= 0 && size >= 0 && !f->direct);
    const char *p = data;
    while (size > 0) {
        ssize_t n = pwrite(f->fd, p, (size_t)size, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return err_sys(err, n < 0 ? errno : ENOSPC, "write|%s", f->path);
        p += n;
        at += n;
        size -= n;
    }
    return ERR_OK;
}

enum err_code file_out_write(struct file_out *f, const void *data, int64_t size, struct err *err)
{
    CHECK(f->fd >= 0 && size >= 0);
    const char *p = data;
    while (size > 0) {
        ssize_t n = write(f->fd, p, (size_t)size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return err_sys(err, n < 0 ? errno : ENOSPC, "write|%s", f->path);
        p += n;
        f->bytes += n;
        size -= n;
    }
    return ERR_OK;
}

/* A rename is only durable when the folder that holds the name is on disk too. */
static void sync_folder(const char *path)
{
    char copy[FILE_PATH];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    if (fsync(fd) != 0)
        errno = 0; /* some file systems cannot sync a folder; the data itself is synced */
    close(fd);
}

enum err_code file_out_commit(struct file_out *f, struct err *err)
{
    CHECK(f->fd >= 0);
    if (!f->direct && fsync(f->fd) != 0) err_sys(err, errno, "write to disk|%s", f->path);
    int closed = close(f->fd);
    f->fd = -1;
    if (closed != 0) err_sys(err, errno, "close|%s", f->path);
    if (f->direct) return err->code;
    if (err->code == ERR_OK && rename(f->temporary, f->path) != 0)
        err_sys(err, errno, "rename to|%s", f->path);
    remember(f, NULL);
    if (err->code != ERR_OK) {
        unlink(f->temporary);
        return err->code;
    }
    sync_folder(f->path);
    return ERR_OK;
}

void file_out_abandon(struct file_out *f)
{
    if (f->fd < 0) return;
    close(f->fd);
    f->fd = -1;
    if (f->direct || f->kept) return;
    unlink(f->temporary);
    remember(f, NULL);
}

void file_out_abandon_all(void)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        if (open_outputs[i]) unlink(open_outputs[i]->temporary);
    }
}
