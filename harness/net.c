/* net.c: see net.h. */
#include "harness/net.h"

#include "harness/net_lookup.h"
#include "harness/session.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_S 0.05  /* between two tries to connect */
#define WAIT_S 60.0   /* of one poll(), at most */
#define LOOKUP_S 60.0 /* for the name of the host itself, where it listens */

/* The kernel asks the other side after so long a silence, and so often. */
enum { IDLE_S = 10, ASK_S = 5, ASKS = 3 };
_Static_assert(IDLE_S + ASK_S * ASKS == NET_SILENT_S, "when a silent host counts as gone");

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static void prepare(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, ASK_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, ASKS);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * NET_SILENT_S);
}

/* ---- listening ---- */

static int listen_one(const struct sockaddr *at, socklen_t size, int backlog, int *why)
{
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (fd >= 0 && at->sa_family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (fd >= 0 && bind(fd, at, size) == 0 && listen(fd, backlog) == 0) return fd;
    *why = errno;
    if (fd >= 0) close(fd);
    return -1;
}

static int listen_everywhere(int port, int backlog, int *why)
{
    const struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = IN6ADDR_ANY_INIT};
    const struct sockaddr_in four = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port),
                                     .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = listen_one((const struct sockaddr *)&six, sizeof six, backlog, why);
    return fd >= 0 ? fd : listen_one((const struct sockaddr *)&four, sizeof four, backlog, why);
}

static int port_of(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    (void)getsockname(fd, (struct sockaddr *)&at, &size);
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

int net_listen(const char *host, int port, int backlog, int *bound, struct err *err)
{
    struct addrinfo *at = NULL;
    int fd = -1, why = EADDRNOTAVAIL;
    if (host && net_lookup(host, port, clock_seconds() + LOOKUP_S, &at, err) != ERR_OK) return -1;
    if (!host) fd = listen_everywhere(port, backlog, &why);
    for (const struct addrinfo *a = at; a && fd < 0; a = a->ai_next)
        fd = listen_one(a->ai_addr, a->ai_addrlen, backlog, &why);
    if (at) freeaddrinfo(at);
    if (fd < 0)
        err_set(err, ERR_PROCESS, "listen|%.100s:%d|%s|a place to listen", host ? host : "*", port,
                strerror(why));
    else if (bound)
        *bound = port_of(fd);
    return fd;
}

/* ---- connecting ---- */

static bool wait_for(int fd, short events, double until)
{
    double left = until - clock_seconds();
    struct pollfd p = {fd, events, 0};
    return left > 0 && poll(&p, 1, (int)(1000 * least(left, WAIT_S)) + 1) > 0;
}

static int connect_one(const struct addrinfo *a, double until, int *why)
{
    int failed = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof failed;
    if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        *why = errno;
    } else if (wait_for(fd, POLLOUT, until) &&
               getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) == 0) {
        if (failed == 0) return fd;
        *why = failed;
    }
    if (fd >= 0) close(fd);
    return -1;
}

/* Whether two ends are the same: a try to connect to a port of this machine on which nobody listens
 * may meet itself. */
static bool is_own_end(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t n = sizeof here, m = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &n) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &m) == 0 && n == m &&
           memcmp(&here, &there, n) == 0;
}

int net_connect(const char *host, int port, double until, struct err *err)
{
    struct addrinfo *at = NULL;
    int why = ETIMEDOUT, fd = -1;
    if (net_lookup(host, port, until, &at, err) != ERR_OK) return -1;
    for (;;) {
        for (const struct addrinfo *a = at; a && fd < 0; a = a->ai_next)
            fd = connect_one(a, until, &why);
        if (fd >= 0 && is_own_end(fd)) {
            close(fd);
            fd = -1;
            why = ECONNREFUSED;
        }
        if (fd >= 0 || !(clock_seconds() < until)) break;
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * AGAIN_S)}, NULL);
    }
    freeaddrinfo(at);
    if (fd >= 0)
        prepare(fd);
    else
        err_set(err, ERR_PROCESS, "connect|%.100s:%d|%s|an answer", host, port, strerror(why));
    return fd;
}

int net_accept(int fd)
{
    int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (one >= 0) prepare(one);
    return one;
}

bool net_wait(int fd, double until)
{
    return wait_for(fd, POLLIN, until);
}

/* ---- addresses ---- */

#define MAPPED "::ffff:" /* an IPv4 address at a socket that has both */

static void numbers_of(const struct sockaddr *at, socklen_t size, char out[NET_NUMBERS])
{
    if (getnameinfo(at, size, out, NET_NUMBERS, NULL, 0, NI_NUMERICHOST) != 0) out[0] = '\0';
    if (strncmp(out, MAPPED, strlen(MAPPED)) == 0)
        memmove(out, out + strlen(MAPPED), strlen(out) - strlen(MAPPED) + 1);
}

void net_own(int fd, char out[NET_NUMBERS])
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    (void)getsockname(fd, (struct sockaddr *)&at, &size);
    numbers_of((struct sockaddr *)&at, size, out);
}

void net_peer(int fd, char out[NET_NUMBERS])
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    (void)getpeername(fd, (struct sockaddr *)&at, &size);
    numbers_of((struct sockaddr *)&at, size, out);
}

bool net_is_loopback(const char *numbers)
{
    return strncmp(numbers, "127.", 4) == 0 || strcmp(numbers, "::1") == 0;
}
