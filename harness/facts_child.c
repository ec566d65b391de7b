/* facts_child.c: see facts_child.h. */
#include "harness/facts_child.h"

#include "harness/child.h"
#include "harness/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OUT, MESSAGE, EXEC, STREAMS };

struct pipes {
    int read[STREAMS], write[STREAMS];
};

static void close_all(int fd[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        if (fd[i] >= 0) close(fd[i]);
        fd[i] = -1;
    }
}

static enum err_code open_pipes(struct pipes *p, struct err *err)
{
    for (int i = 0; i < STREAMS; i++) p->read[i] = p->write[i] = -1;
    for (int i = 0; i < STREAMS; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) {
            close_all(p->read);
            close_all(p->write);
            return err_sys(err, errno, "open a pipe|to the extractor");
        }
        p->read[i] = ends[0];
        p->write[i] = ends[1];
    }
    return ERR_OK;
}

/* In the child: no way back. It dies with its parent, and what it starts dies with it. */
static void become(const struct pipes *p, const struct facts_limits *limits, pid_t parent,
                   const char *const *argv)
{
    const struct rlimit memory = {(rlim_t)limits->memory_bytes, (rlim_t)limits->memory_bytes};
    const struct rlimit core = {0, 0};
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &core);
    dup2(in, STDIN_FILENO);
    dup2(p->write[OUT], STDOUT_FILENO);
    dup2(p->write[MESSAGE], STDERR_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int num = errno;
    (void)!write(p->write[EXEC], &num, sizeof num);
    _exit(127);
}

/* Appends to stdout's text; false: no memory. */
static bool keep_out(struct facts_child *c, const char *part, size_t n)
{
    if (c->size + (int64_t)n > c->room) {
        int64_t room = c->room ? 2 * c->room : (int64_t)1 << 20;
        char *more = realloc(c->out, (size_t)room);
        if (!more) return false;
        c->out = more;
        c->room = room;
    }
    memcpy(c->out + c->size, part, n);
    c->size += (int64_t)n;
    return true;
}

/* Keeps the end of stderr's text. */
static void keep_message(struct facts_child *c, const char *part, size_t n)
{
    size_t most = sizeof c->message - 1, have = strlen(c->message);
    if (n > most) {
        part += n - most;
        n = most;
    }
    size_t drop = have + n > most ? have + n - most : 0;
    memmove(c->message, c->message + drop, have - drop);
    memcpy(c->message + have - drop, part, n);
    c->message[have - drop + n] = '\0';
}

/* Reads what stream `i` has; *open: false at its end. */
static enum err_code take(struct facts_child *c, const struct facts_limits *limits, int fd, int i,
                          bool *open, struct err *err)
{
    char part[1 << 16];
    ssize_t n = read(fd, part, sizeof part);
    if (n < 0 && errno == EINTR) return ERR_OK;
    *open = n > 0;
    if (n <= 0) return ERR_OK;
    for (ssize_t at = 0; i == MESSAGE && at < n; at++) {
        if (part[at] == '\0') part[at] = '?';
    }
    if (i == EXEC && n >= (ssize_t)sizeof c->exec_errno)
        memcpy(&c->exec_errno, part, sizeof c->exec_errno);
    if (i == MESSAGE) keep_message(c, part, (size_t)n);
    if (i != OUT) return ERR_OK;
    if (c->size + n > limits->output_bytes)
        return err_set(err, ERR_PROCESS, "run the extractor|its output|more than %lld bytes|less",
                       (long long)limits->output_bytes);
    if (!keep_out(c, part, (size_t)n))
        return err_set(err, ERR_MEMORY, "keep the extractor's output|%lld bytes",
                       (long long)c->size);
    return ERR_OK;
}

/* Until all streams are at their end. */
static enum err_code read_all(struct facts_child *c, const struct facts_limits *limits,
                              const int fd[STREAMS], double deadline, struct err *err)
{
    struct pollfd p[STREAMS];
    int open = STREAMS;
    for (int i = 0; i < STREAMS; i++) p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
    while (open > 0) {
        double left = deadline - clock_seconds();
        if (!(left > 0))
            return err_set(err, ERR_PROCESS, "run the extractor|in %g s|no end|one",
                           limits->seconds);
        if (poll(p, STREAMS, left < 60 ? (int)(left * 1000) + 1 : 60000) < 0 && errno != EINTR)
            return err_sys(err, errno, "wait for the extractor");
        for (int i = 0; i < STREAMS; i++) {
            bool more = true;
            if (!(p[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
            if (take(c, limits, fd[i], i, &more, err) != ERR_OK) return err->code;
            if (more) continue;
            p[i].fd = -1;
            p[i].revents = 0;
            open--;
        }
    }
    return ERR_OK;
}

enum err_code facts_child_run(struct facts_child *c, const struct facts_limits *limits,
                              const char *const *argv, struct err *err)
{
    struct pipes p;
    *c = (struct facts_child){0};
    if (open_pipes(&p, err) != ERR_OK) return err->code;
    const double deadline = clock_seconds() + limits->seconds;
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(&p, limits, parent, argv);
    int num = errno;
    close_all(p.write);
    if (pid > 0) {
        bool read = read_all(c, limits, p.read, deadline, err) == ERR_OK;
        (void)child_wait(pid, true, read ? deadline : 0, &c->status);
    }
    close_all(p.read);
    if (pid < 0) return err_sys(err, num, "start the extractor|%s", argv[0]);
    return err->code;
}

void facts_child_free(struct facts_child *c)
{
    free(c->out);
    *c = (struct facts_child){0};
}
