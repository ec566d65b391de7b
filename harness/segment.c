/* segment.c: see segment.h. */
#include "harness/segment.h"

#include "core/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POPULATE_WRITE = 23 /* MADV_POPULATE_WRITE, Linux 5.14: not in every header */ };

static enum err_code map(struct segment *s, int64_t room, struct err *err)
{
    void *data = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (data == MAP_FAILED)
        return err_set(err, ERR_MEMORY, "map shared memory|%lld bytes|errno %d|memory",
                       (long long)room, errno);
    s->data = data;
    s->room = room;
    return ERR_OK;
}

enum err_code segment_reserve(struct segment *s, const char *name, int64_t bytes, struct err *err)
{
    CHECK(bytes >= 0);
    int64_t room = bytes > 0 ? bytes : 1;
    if (s->data && room <= s->room) {
        s->bytes = bytes;
        return ERR_OK;
    }
    segment_free(s);
    s->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->fd < 0 || ftruncate(s->fd, room) != 0) {
        int num = errno;
        segment_free(s);
        return err_set(err, ERR_MEMORY, "make shared memory|%s|errno %d|%lld bytes", name, num,
                       (long long)room);
    }
    /* A holder that shrinks it would kill the others by SIGBUS. */
    if (fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
        map(s, room, err) != ERR_OK) {
        segment_free(s);
        return err_set(err, ERR_MEMORY, "make shared memory|%s|no seal|memory", name);
    }
    s->bytes = bytes;
    return ERR_OK;
}

enum err_code segment_reserve_pages(struct segment *s, const char *name, int64_t bytes,
                                    struct err *err)
{
    const unsigned char *before = s->data;
    int64_t room = s->room;
    if (segment_reserve(s, name, bytes, err) != ERR_OK) return err->code;
    bool fresh = s->data != before || s->room != room;
    /* A kernel that does not know the call makes them one by one. */
    if (fresh) (void)!madvise(s->data, (size_t)s->room, POPULATE_WRITE);
    return ERR_OK;
}

enum err_code segment_attach(struct segment *s, int fd, int64_t bytes, struct err *err)
{
    struct stat st;
    segment_free(s);
    s->fd = fd;
    int seals = fcntl(fd, F_GET_SEALS);
    if (bytes < 0 || fstat(fd, &st) != 0 || st.st_size < bytes || st.st_size < 1)
        err_set(err, ERR_PROCESS, "take shared memory|descriptor %d|%lld bytes|%lld", fd,
                fd >= 0 && fstat(fd, &st) == 0 ? (long long)st.st_size : -1LL, (long long)bytes);
    else if (seals < 0 || !(seals & F_SEAL_SHRINK))
        err_set(err, ERR_PROCESS, "take shared memory|descriptor %d|memory that can shrink|a seal",
                fd);
    else
        (void)!map(s, st.st_size, err);
    if (err->code != ERR_OK) {
        segment_free(s);
        return err->code;
    }
    s->bytes = bytes;
    return ERR_OK;
}

void segment_free(struct segment *s)
{
    if (s->data) munmap(s->data, (size_t)s->room);
    if (s->fd >= 0) close(s->fd);
    *s = (struct segment)SEGMENT_INIT;
}
