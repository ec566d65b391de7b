/* wire.c: see wire.h. */
#include "harness/wire.h"

#include "core/bytes.h"
#include "core/check.h"
#include "harness/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static const char magic[4] = {'A', 'S', 'W', 'R'};
enum { READ_AHEAD = 1 << 16, HEADER_CHECKED = WIRE_HEADER - 4 };

/* Room for the descriptors of a message, aligned as the kernel wants it. */
union control {
    char bytes[CMSG_SPACE(sizeof(int) * WIRE_SEGMENTS)];
    struct cmsghdr align;
};

void wire_init(struct wire *w, int fd, const char *peer)
{
    int family = AF_UNIX;
    socklen_t size = sizeof family;
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    *w = (struct wire){.fd = fd, .far = family != AF_UNIX};
    snprintf(w->peer, sizeof w->peer, "%s", peer);
    crc32_init(&w->crc);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    wire_slice(w, WIRE_SLICE_S);
}

void wire_slice(struct wire *w, double seconds)
{
    const struct timeval slice = {.tv_sec = (time_t)seconds,
                                  .tv_usec = (suseconds_t)(1e6 * (seconds - floor(seconds)))};
    bool waits = !(fcntl(w->fd, F_GETFL) & O_NONBLOCK);
    bool can = waits && setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) == 0;
    w->slice_s = can ? seconds : 0;
}

static void forget_message(struct wire *w)
{
    if (w->in_taken == 0) return;
    memmove(w->in, w->in + w->in_taken, w->in_bytes - w->in_taken);
    w->in_bytes -= w->in_taken;
    w->in_taken = 0;
}

void wire_free(struct wire *w)
{
    for (int i = 0; i < w->gots; i++) segment_free(&w->got[i]);
    for (int i = 0; i < w->in_fds; i++) close(w->in_fd[i]);
    if (w->fd >= 0) close(w->fd);
    free(w->in);
    free(w->out);
    *w = (struct wire){.fd = -1};
}

static bool grow(unsigned char **buffer, size_t *room, size_t bytes)
{
    if (bytes <= *room) return true;
    unsigned char *more = realloc(*buffer, bytes);
    if (!more) return false;
    *buffer = more;
    *room = bytes;
    return true;
}

/* ---- sending ---- */

enum err_code wire_queue(struct wire *w, const struct wire_message *m, struct err *err)
{
    CHECK(w->out_sent == w->out_bytes && m->bytes >= 0 && m->segments >= 0);
    int64_t payload = m->bytes + 8 * (int64_t)m->segments;
    if (payload > WIRE_MOST || m->segments > WIRE_SEGMENTS)
        return err_set(err, ERR_INPUT,
                       "send a message|to %s|%lld bytes, %d segments|%d bytes and %d segments at "
                       "most",
                       w->peer, (long long)payload, m->segments, WIRE_MOST, WIRE_SEGMENTS);
    if (w->far && m->segments > 0)
        return err_set(err, ERR_INPUT,
                       "send a message|to %s|%d segments over a network|bytes: hosts share no "
                       "memory",
                       w->peer, m->segments);
    if (!grow(&w->out, &w->out_room, (size_t)payload + WIRE_HEADER))
        return err_set(err, ERR_MEMORY, "send a message|to %s|no memory|%lld bytes", w->peer,
                       (long long)payload);
    unsigned char *p = w->out, *body = p + WIRE_HEADER;
    for (int i = 0; i < m->segments; i++) {
        bytes_put(body + 8 * i, (uint64_t)m->segment[i].bytes, 8);
        w->out_fd[i] = m->segment[i].fd;
    }
    if (m->bytes > 0) memcpy(body + 8 * m->segments, m->data, (size_t)m->bytes);
    memcpy(p, magic, sizeof magic);
    bytes_put(p + 4, WIRE_VERSION, 2);
    bytes_put(p + 6, m->kind, 2);
    bytes_put(p + 8, (uint32_t)m->rank, 4);
    bytes_put(p + 12, (uint64_t)m->segments, 2);
    bytes_put(p + 14, 0, 2);
    bytes_put(p + 16, (uint64_t)m->call, 8);
    bytes_put(p + 24, (uint64_t)payload, 8);
    bytes_put(p + 32, crc32_of(&w->crc, 0, body, payload), 4);
    bytes_put(p + 36, crc32_of(&w->crc, 0, p, HEADER_CHECKED), 4);
    w->out_bytes = (size_t)payload + WIRE_HEADER;
    w->out_sent = 0;
    w->out_fds = m->segments;
    return ERR_OK;
}

/* The descriptors go with the first byte. */
static ssize_t send_some(struct wire *w)
{
    if (w->out_sent > 0 || w->out_fds == 0)
        return send(w->fd, w->out + w->out_sent, w->out_bytes - w->out_sent,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    union control control = {{0}};
    struct iovec part = {w->out + w->out_sent, w->out_bytes - w->out_sent};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    size_t bytes = sizeof(int) * (size_t)w->out_fds;
    m.msg_control = control.bytes;
    m.msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(bytes)};
    memcpy(CMSG_DATA(c), w->out_fd, bytes);
    return sendmsg(w->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum wire_state wire_flush(struct wire *w, struct err *err)
{
    while (w->out_sent < w->out_bytes) {
        ssize_t n = send_some(w);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return WIRE_AGAIN;
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return WIRE_END;
        if (n < 0) {
            err_set(err, ERR_PROCESS, "send a message|to %s|%s|success", w->peer, strerror(errno));
            return WIRE_FAILED;
        }
        w->out_sent += (size_t)n;
    }
    return WIRE_DONE;
}

/* ---- reading ---- */

#define READ "read a message"

static enum wire_state broken(struct err *err)
{
    return err->code == ERR_OK ? WIRE_DONE : WIRE_FAILED;
}

static enum wire_state check_header(const struct wire *w, const unsigned char *p, struct err *err)
{
    uint64_t version = bytes_get(p + 4, 2), kind = bytes_get(p + 6, 2),
             segments = bytes_get(p + 12, 2);
    uint64_t payload = bytes_get(p + 24, 8);
    uint32_t is = crc32_of(&w->crc, 0, p, HEADER_CHECKED), said = (uint32_t)bytes_get(p + 36, 4);
    if (memcmp(p, magic, sizeof magic) != 0)
        err_set(err, ERR_PROCESS, READ "|from %s|%02x %02x %02x %02x, no frame|\"ASWR\"", w->peer,
                p[0], p[1], p[2], p[3]);
    else if (version != WIRE_VERSION)
        err_set(err, ERR_PROCESS, READ "|from %s|version %d, of another build|version %d", w->peer,
                (int)version, WIRE_VERSION);
    else if (is != said)
        err_set(err, ERR_PROCESS, READ "|from %s|header checksum %08x|%08x", w->peer, is, said);
    else if (kind < WIRE_HELLO || kind >= WIRE_KINDS)
        err_set(err, ERR_PROCESS, READ "|from %s|kind %d|%d .. %d", w->peer, (int)kind, WIRE_HELLO,
                WIRE_KINDS - 1);
    else if (payload > WIRE_MOST)
        err_set(err, ERR_PROCESS, READ "|from %s|%llu bytes|%d at most", w->peer,
                (unsigned long long)payload, WIRE_MOST);
    else if (segments > WIRE_SEGMENTS || payload < 8 * segments)
        err_set(err, ERR_PROCESS,
                READ "|from %s|%d segments in %llu bytes|%d at most, 8 bytes each", w->peer,
                (int)segments, (unsigned long long)payload, WIRE_SEGMENTS);
    return broken(err);
}

/* The mapping of the message before that shows the same memory as `fd`; -1: none does. */
static int mapped_already(const struct segment *before, int n, int fd)
{
    struct stat is, was;
    if (fstat(fd, &is) != 0) return -1;
    for (int i = 0; i < n; i++) {
        if (before[i].fd >= 0 && fstat(before[i].fd, &was) == 0 && was.st_ino == is.st_ino &&
            was.st_dev == is.st_dev)
            return i;
    }
    return -1;
}

static enum err_code take_segment(struct wire *w, struct segment *before, int n, int fd,
                                  uint64_t bytes, struct err *err)
{
    struct segment *s = &w->got[w->gots];
    int same = mapped_already(before, n, fd);
    *s = (struct segment)SEGMENT_INIT;
    if (same >= 0 && bytes <= (uint64_t)before[same].room) {
        *s = before[same];
        before[same] = (struct segment)SEGMENT_INIT;
        s->bytes = (int64_t)bytes;
        close(fd);
    } else if (segment_attach(s, fd, bytes > INT64_MAX ? -1 : (int64_t)bytes, err) != ERR_OK) {
        return err_note(err, "segment %d of a message from %s", w->gots, w->peer);
    }
    w->gots++;
    return ERR_OK;
}

static enum wire_state take_segments(struct wire *w, int segments, const unsigned char *sizes,
                                     struct err *err)
{
    struct segment before[WIRE_SEGMENTS];
    int n = w->gots;
    if (segments > w->in_fds) {
        err_set(err, ERR_PROCESS, READ "|from %s|%d segments without their memory|%d", w->peer,
                segments - w->in_fds, segments);
        return WIRE_FAILED;
    }
    if (segments == 0) return WIRE_DONE;
    memcpy(before, w->got, sizeof before);
    w->gots = 0;
    int taken = 0;
    while (taken < segments && err->code == ERR_OK) {
        (void)!take_segment(w, before, n, w->in_fd[taken], bytes_get(sizes + 8 * taken, 8), err);
        taken++;
    }
    for (int i = 0; i < n; i++) segment_free(&before[i]);
    w->in_fds -= taken;
    memmove(w->in_fd, w->in_fd + taken, sizeof w->in_fd[0] * (size_t)w->in_fds);
    return broken(err);
}

/* A message out of the buffer, or WIRE_AGAIN while it is not whole. */
static enum wire_state take(struct wire *w, struct wire_message *m, struct err *err)
{
    const unsigned char *p = w->in;
    if (w->in_bytes < WIRE_HEADER) return WIRE_AGAIN;
    if (check_header(w, p, err) != WIRE_DONE) return WIRE_FAILED;
    size_t payload = (size_t)bytes_get(p + 24, 8), whole = payload + WIRE_HEADER;
    if (!grow(&w->in, &w->in_room, whole)) {
        err_set(err, ERR_MEMORY, READ "|from %s|no memory|%zu bytes", w->peer, payload);
        return WIRE_FAILED;
    }
    if (w->in_bytes < whole) return WIRE_AGAIN;
    p = w->in;
    uint32_t is = crc32_of(&w->crc, 0, p + WIRE_HEADER, (int64_t)payload);
    if (is != (uint32_t)bytes_get(p + 32, 4)) {
        err_set(err, ERR_PROCESS, READ "|from %s|checksum %08x of %zu bytes|%08x", w->peer, is,
                payload, (uint32_t)bytes_get(p + 32, 4));
        return WIRE_FAILED;
    }
    int segments = (int)bytes_get(p + 12, 2);
    if (take_segments(w, segments, p + WIRE_HEADER, err) != WIRE_DONE) return WIRE_FAILED;
    *m = (struct wire_message){.kind = (enum wire_kind)bytes_get(p + 6, 2),
                               .rank = (int)(int32_t)bytes_get(p + 8, 4),
                               .call = (int64_t)bytes_get(p + 16, 8),
                               .data = p + WIRE_HEADER + 8 * segments,
                               .bytes = (int64_t)payload - 8 * segments,
                               .segment = w->got,
                               .segments = segments};
    w->in_taken = whole;
    return WIRE_DONE;
}

bool wire_buffered(const struct wire *w)
{
    return w->in_bytes > w->in_taken;
}

static void keep_descriptors(struct wire *w, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        int n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + sizeof fd * (size_t)i, sizeof fd);
            if (w->in_fds < 2 * WIRE_SEGMENTS)
                w->in_fd[w->in_fds++] = fd;
            else
                close(fd);
        }
    }
}

static enum wire_state end_of(const struct wire *w, struct err *err)
{
    if (w->in_bytes > 0 && w->in_bytes < WIRE_HEADER)
        err_set(err, ERR_PROCESS, READ "|from %s|cut after %zu bytes of its header|%d", w->peer,
                w->in_bytes, WIRE_HEADER);
    else if (w->in_bytes > 0)
        err_set(err, ERR_PROCESS, READ "|from %s|cut after %zu bytes|%llu", w->peer, w->in_bytes,
                (unsigned long long)bytes_get(w->in + 24, 8) + WIRE_HEADER);
    return WIRE_END;
}

static enum wire_state fill(struct wire *w, struct wire_message *m, int flags, struct err *err)
{
    forget_message(w);
    if (!grow(&w->in, &w->in_room, READ_AHEAD)) {
        err_set(err, ERR_MEMORY, READ "|from %s|no memory|%d bytes", w->peer, READ_AHEAD);
        return WIRE_FAILED;
    }
    for (;;) {
        enum wire_state s = take(w, m, err);
        if (s != WIRE_AGAIN) return s;
        union control control = {{0}};
        struct iovec part = {w->in + w->in_bytes, w->in_room - w->in_bytes};
        struct msghdr h = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
        ssize_t n = recvmsg(w->fd, &h, flags | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return WIRE_AGAIN;
        if (n == 0 || (n < 0 && errno == ECONNRESET)) return end_of(w, err);
        if (n < 0) {
            err_set(err, ERR_PROCESS, READ "|from %s|%s|success", w->peer, strerror(errno));
            return WIRE_FAILED;
        }
        keep_descriptors(w, &h);
        w->in_bytes += (size_t)n;
    }
}

enum wire_state wire_fill(struct wire *w, struct wire_message *m, struct err *err)
{
    return fill(w, m, MSG_DONTWAIT, err);
}

/* ---- waiting ---- */

/* Looks at least once. False: the time has come. */
static bool wait_for(const struct wire *w, short events, double until)
{
    struct pollfd p = {w->fd, events, 0};
    for (;;) {
        double left = until - clock_seconds();
        int ms = !(left > 0) ? 0 : left > 3600 ? 3600000 : (int)(left * 1000) + 1;
        int n = poll(&p, 1, ms);
        if (n > 0) return true;
        if (ms == 0) return false;
    }
}

enum err_code wire_send(struct wire *w, const struct wire_message *m, double until, struct err *err)
{
    if (wire_queue(w, m, err) != ERR_OK) return err->code;
    for (;;) {
        enum wire_state s = wire_flush(w, err);
        if (s == WIRE_DONE || s == WIRE_FAILED) return err->code;
        if (s == WIRE_END)
            return err_set(err, ERR_PROCESS, "send a message|to %s|its end is closed|a reader",
                           w->peer);
        if (!wait_for(w, POLLOUT, until))
            return err_set(err, ERR_PROCESS,
                           "send a message|to %s|%zu of %zu bytes taken: the pipe is full|all by "
                           "the deadline",
                           w->peer, w->out_sent, w->out_bytes);
    }
}

enum wire_state wire_fill_soon(struct wire *w, struct wire_message *m, struct err *err)
{
    if (w->slice_s == 0 && !wire_buffered(w) &&
        !wait_for(w, POLLIN, clock_seconds() + WIRE_SLICE_S))
        return WIRE_AGAIN;
    return fill(w, m, w->slice_s > 0 ? 0 : MSG_DONTWAIT, err);
}

enum err_code wire_receive(struct wire *w, struct wire_message *m, double until, struct err *err)
{
    for (bool buffered = wire_buffered(w);; buffered = false) {
        bool soon = buffered || until - clock_seconds() > fmax(w->slice_s, WIRE_SLICE_S);
        if (!soon && !wait_for(w, POLLIN, until))
            return err_set(err, ERR_PROCESS, READ "|from %s|%zu bytes|a message by the deadline",
                           w->peer, w->in_bytes - w->in_taken);
        enum wire_state s = soon ? wire_fill_soon(w, m, err) : wire_fill(w, m, err);
        if (s == WIRE_DONE || s == WIRE_FAILED) return err->code;
        if (s == WIRE_END)
            return err_set(err, ERR_PROCESS, READ "|from %s|its end is closed|a message", w->peer);
    }
}
