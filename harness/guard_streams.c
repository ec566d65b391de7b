/* guard_streams.c: see guard_streams.h. */
#include "harness/guard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum { PART = 1 << 16 };

static bool same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

void guard_streams_resize(const struct guard_streams *s)
{
    for (int i = 0; i < 2; i++) {
        struct winsize size;
        if (s->at[i].from >= 0 && s->at[i].terminal && ioctl(s->at[i].to, TIOCGWINSZ, &size) == 0)
            ioctl(s->at[i].from, TIOCSWINSZ, &size);
    }
}

/* A pty that changes no byte: the real terminal behind it does what terminals do. */
static bool open_terminal(struct guard_stream *s)
{
    char name[64];
    struct termios t;
    s->from = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->from < 0 || grantpt(s->from) != 0 || unlockpt(s->from) != 0 ||
        ptsname_r(s->from, name, sizeof name) != 0)
        return false;
    s->command = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->command < 0 || tcgetattr(s->command, &t) != 0) return false;
    t.c_oflag &= (tcflag_t)~OPOST;
    t.c_lflag &= (tcflag_t) ~(ECHO | ICANON);
    return tcsetattr(s->command, TCSANOW, &t) == 0;
}

static bool open_stream(struct guard_stream *s, int to)
{
    int ends[2];
    *s = (struct guard_stream){
        .from = -1, .to = to, .copy = -1, .command = -1, .terminal = isatty(to)};
    if (s->terminal) return open_terminal(s);
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    s->from = ends[0];
    s->command = ends[1];
    return true;
}

enum err_code guard_streams_open(struct guard_streams *s, int out_fd, struct err *err)
{
    s->at[1] = (struct guard_stream){.from = -1, .copy = -1, .command = -1};
    if (pipe2(s->stop, O_CLOEXEC) != 0 || !open_stream(&s->at[0], out_fd) ||
        (!same_file(out_fd, STDERR_FILENO) && !open_stream(&s->at[1], STDERR_FILENO)))
        return err_sys(err, errno, "guard|the command's streams");
    guard_streams_resize(s);
    return ERR_OK;
}

void guard_streams_become(const struct guard_streams *s)
{
    dup2(s->at[0].command, STDOUT_FILENO);
    dup2(s->at[1].from >= 0 ? s->at[1].command : s->at[0].command, STDERR_FILENO);
}

static bool pass(int to, const char *part, size_t n)
{
    while (n > 0) {
        ssize_t done = write(to, part, n);
        struct pollfd room = {.fd = to, .events = POLLOUT};
        if (done < 0 && errno == EAGAIN) poll(&room, 1, -1);
        if (done < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (done > 0) {
            part += done;
            n -= (size_t)done;
        }
    }
    return true;
}

/* Passes on until nobody writes any more, or, once `stop` is closed at its other end, until nothing
 * is there. Where the reader has gone, the command's next write meets what it would have met. */
static void pump(struct guard_stream *s, int stop)
{
    static _Thread_local char part[PART];
    struct pollfd p[2] = {{.fd = s->from, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
    while (!s->ended) {
        if (poll(p, stop >= 0 ? 2 : 1, -1) < 0) continue;
        if (!(p[0].revents & (POLLIN | POLLHUP | POLLERR))) return;
        ssize_t n = read(s->from, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || !pass(s->to, part, (size_t)n)) s->ended = true;
        if (n > 0 && s->copy >= 0) (void)!write(s->copy, part, (size_t)n);
    }
    close(s->from);
}

static void *pump_out(void *streams)
{
    struct guard_streams *s = streams;
    pump(&s->at[0], s->stop[0]);
    return NULL;
}

static void *pump_err(void *streams)
{
    struct guard_streams *s = streams;
    pump(&s->at[1], s->stop[0]);
    return NULL;
}

enum err_code guard_streams_start(struct guard_streams *s, struct err *err)
{
    for (int i = 0; i < 2; i++) {
        struct guard_stream *one = &s->at[i];
        if (one->from < 0) continue;
        close(one->command);
        int num = pthread_create(&one->thread, NULL, i ? pump_err : pump_out, s);
        if (num) return err_sys(err, num, "guard|a thread for the command's streams");
        one->started = true;
    }
    return ERR_OK;
}

/* Goes on in a process of its own, which nobody waits for. */
static void stay(struct guard_streams *s)
{
    pid_t first = fork();
    if (first != 0) return;
    setpgid(0, 0);
    for (int i = 0; i < 2; i++) {
        struct guard_stream *one = &s->at[i];
        if (!one->started || one->ended ||
            (i == 0 && s->at[1].started && !s->at[1].ended && fork()))
            continue;
        one->copy = -1;
        pump(one, -1);
        _exit(0);
    }
    _exit(0);
}

void guard_streams_finish(struct guard_streams *s)
{
    bool open = false;
    close(s->stop[1]);
    for (int i = 0; i < 2; i++) {
        if (!s->at[i].started) continue;
        pthread_join(s->at[i].thread, NULL);
        if (s->at[i].copy >= 0) close(s->at[i].copy);
        open |= !s->at[i].ended;
    }
    close(s->stop[0]);
    if (open) stay(s);
}
