/* foreign_spool.c: see struct spool in foreign_parts.h. */
#include "harness/foreign_parts.h"

#include "harness/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64 };

static enum err_code spool_open(struct spool *p, struct err *err)
{
    char path[FILE_PATH];
    if (temporary_dump(path, err) != ERR_OK) return err->code;
    p->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->fd < 0) return err_set(err, ERR_IO, "temporary file|%s|errno %d|room", path, errno);
    unlink(path);
    return ERR_OK;
}

enum err_code spool_add(struct spool *p, const void *data, int64_t bytes, int64_t *at,
                        struct err *err)
{
    if (p->fd < 0 && spool_open(p, err) != ERR_OK) return err->code;
    *at = (p->bytes + ALIGN - 1) / ALIGN * ALIGN;
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(p->fd, (const char *)data + done, (size_t)(bytes - done), *at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return err_sys(err, n < 0 ? errno : ENOSPC, "temporary file|TMPDIR|");
        done += n;
    }
    p->bytes = *at + bytes;
    return ERR_OK;
}

enum err_code spool_map(struct spool *p, struct err *err)
{
    if (p->fd < 0 || p->bytes == 0 || p->map) return ERR_OK;
    void *map = mmap(NULL, (size_t)p->bytes, PROT_READ, MAP_SHARED, p->fd, 0);
    if (map == MAP_FAILED) return err_sys(err, errno, "temporary file|TMPDIR|");
    p->map = map;
    return ERR_OK;
}

void spool_close(struct spool *p)
{
    if (p->map) munmap((void *)(uintptr_t)p->map, (size_t)p->bytes);
    if (p->fd >= 0) close(p->fd);
    *p = (struct spool){.fd = -1};
}
