/* interpose.c: the library that makes the n-th call of a kind fail inside a child process: what
 * faults env.* inject. Loaded with LD_PRELOAD by harness/fault_env.c; never linked into the
 * program.
 *
 *   ASSAY_FAULT_KIND    malloc, write, short_write, fsync, mmap, rename, open
 *   ASSAY_FAULT_CALL    N: the N-th call of that kind fails, once; 0: none, calls are only counted
 *   ASSAY_FAULT_REPORT  a file that gets "KIND CALLS FAILED\n" when the process ends
 *
 * Counted between the start and the end of main(): what the loader and library constructors do is
 * not the program's. Calls that glibc makes to itself (stdio) do not pass here. open counts those
 * that write. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long calls, failed;
static atomic_bool armed;
static long fail_at;
static char kind[32], report[512];

/* glibc's own names: looking them up by dlsym() would allocate. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

/* True when this call is the one that must fail. */
static int fails(const char *name)
{
    if (!atomic_load_explicit(&armed, memory_order_relaxed) || strcmp(kind, name) != 0) return 0;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (n != fail_at) return 0;
    atomic_fetch_add(&failed, 1);
    return 1;
}

/* Looked up once, before main(): dlsym() may allocate. */
static struct {
    __typeof__(&write) write;
    __typeof__(&pwrite64) pwrite64;
    __typeof__(&fsync) fsync, fdatasync;
    __typeof__(&mmap64) mmap64;
    __typeof__(&rename) rename;
    __typeof__(&open64) open64;
} real;

__attribute__((constructor)) static void find_real(void)
{
    *(void **)&real.write = dlsym(RTLD_NEXT, "write");
    *(void **)&real.pwrite64 = dlsym(RTLD_NEXT, "pwrite64");
    *(void **)&real.fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real.fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    *(void **)&real.mmap64 = dlsym(RTLD_NEXT, "mmap64");
    *(void **)&real.rename = dlsym(RTLD_NEXT, "rename");
    *(void **)&real.open64 = dlsym(RTLD_NEXT, "open64");
}

void *malloc(size_t n)
{
    if (fails("malloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    if (fails("malloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    if (n > 0 && fails("malloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(p, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    if (fails("malloc")) return ENOMEM;
    void *p = __libc_memalign(align, n);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

void *aligned_alloc(size_t align, size_t n)
{
    if (fails("malloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(align, n);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (fd > STDERR_FILENO && n > 1 && fails("short_write")) return real.write(fd, data, n / 2);
    if (fd > STDERR_FILENO && fails("write")) {
        errno = ENOSPC;
        return -1;
    }
    return real.write(fd, data, n);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    if (n > 1 && fails("short_write")) return real.pwrite64(fd, data, n / 2, at);
    if (fails("write")) {
        errno = ENOSPC;
        return -1;
    }
    return real.pwrite64(fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return pwrite64(fd, data, n, at);
}

int fsync(int fd)
{
    if (fails("fsync")) {
        errno = EIO;
        return -1;
    }
    return real.fsync(fd);
}

int fdatasync(int fd)
{
    if (fails("fsync")) {
        errno = EIO;
        return -1;
    }
    return real.fdatasync(fd);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t offset)
{
    if (fd >= 0 && fails("mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real.mmap64(at, n, prot, flags, fd, offset);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return mmap64(at, n, prot, flags, fd, offset);
}

int rename(const char *from, const char *to)
{
    if (fails("rename")) {
        errno = EIO;
        return -1;
    }
    return real.rename(from, to);
}

static int open_mode(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = open_mode(flags, ap);
    va_end(ap);
    if ((flags & O_ACCMODE) != O_RDONLY && fails("open")) {
        errno = EMFILE;
        return -1;
    }
    return real.open64(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = open_mode(flags, ap);
    va_end(ap);
    return open64(path, flags, mode);
}

/* ---- main() ---- */

static void write_report(void)
{
    char line[96];
    atomic_store(&armed, false);
    if (!report[0]) return;
    int fd = open64(report, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int n = snprintf(line, sizeof line, "%s %ld %ld\n", kind, atomic_load(&calls),
                     atomic_load(&failed));
    if (fd < 0) return;
    (void)!write(fd, line, (size_t)n);
    close(fd);
}

void _exit(int status)
{
    write_report();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

static int (*real_main)(int, char **, char **);

static int counted_main(int argc, char **argv, char **envp)
{
    const char *k = getenv("ASSAY_FAULT_KIND"), *n = getenv("ASSAY_FAULT_CALL"),
               *r = getenv("ASSAY_FAULT_REPORT");
    snprintf(kind, sizeof kind, "%s", k ? k : "");
    snprintf(report, sizeof report, "%s", r ? r : "");
    fail_at = n ? strtol(n, NULL, 10) : 0;
    /* Only this process: its children are counted by nobody. */
    unsetenv("LD_PRELOAD");
    atexit(write_report);
    atomic_store(&armed, true);
    int rc = real_main(argc, argv, envp);
    atomic_store(&armed, false);
    return rc;
}

int __libc_start_main(int (*program)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*rtld_fini)(void), void *stack)
{
    int (*start)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                 void (*)(void), void *);
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = program;
    return start(counted_main, argc, argv, init, fini, rtld_fini, stack);
}
