/* test_net.c: listening, connecting and accepting over the loopback, IPv4 and IPv6, and what is
 * said where that cannot be. */
#include "harness/net.h"

#include "harness/session.h"
#include "tests/net.h"
#include "tests/support.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static double soon(void)
{
    return clock_seconds() + 30;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

/* Both ends of a connection that was made from `to` to a listener at `at`. */
static void check_pair(const char *at, const char *to, const char *seen)
{
    struct err err = ERR_INIT;
    char numbers[NET_NUMBERS];
    int port = 0, door = net_listen(at, 0, 4, &port, &err);
    assert_ok(&err);
    assert_true(port > 0);
    assert_true(net_accept(door) < 0); /* nobody yet, and no wait */
    int one = net_connect(to, port, soon(), &err);
    assert_ok(&err);
    assert_true(net_wait(door, soon()));
    int two = net_accept(door);
    assert_true(two >= 0);
    net_peer(two, numbers);
    assert_string_equal(numbers, seen);
    net_own(one, numbers);
    assert_string_equal(numbers, seen);
    assert_true(net_is_loopback(numbers));
    for (int i = 0; i < 2; i++) {
        int fd = i ? two : one;
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        /* A host that is switched off is noticed, whether anything is on its way to it or not. */
        assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_true(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                        option(fd, IPPROTO_TCP, TCP_KEEPINTVL) *
                            option(fd, IPPROTO_TCP, TCP_KEEPCNT) <=
                    NET_SILENT_S);
        assert_true(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) <= 1000 * NET_SILENT_S);
        assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    }
    close(one);
    close(two);
    close(door);
}

static bool has_ipv6(void)
{
    struct err err = ERR_INIT;
    int fd = net_listen("::1", 0, 1, NULL, &err);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void connect__meets_whoever_listens(void **state)
{
    (void)state;
    check_pair("127.0.0.1", "127.0.0.1", "127.0.0.1");
    check_pair(NULL, "127.0.0.1", "127.0.0.1"); /* by a socket of both families */
    if (!has_ipv6()) {
        print_message("no IPv6 here: not tested\n");
        return;
    }
    check_pair("::1", "::1", "::1");
    check_pair(NULL, "::1", "::1");
}

static void connect__says_why_not_when_the_time_is_over(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(net_connect("127.0.0.1", net_free_port(), clock_seconds() + 0.1, &err), -1);
    assert_err(&err, ERR_PROCESS, "connect", "127.0.0.1:", "refused", "an answer");
    err_clear(&err);
    assert_int_equal(net_connect("no such host.invalid", 1, soon(), &err), -1);
    assert_err(&err, ERR_PROCESS, "find a host", "no such host.invalid:1", NULL, "an address");
    err_clear(&err);
    /* One that takes no more connections does not answer: its queue is full. */
    int port, door = net_listen("127.0.0.1", 0, 0, &port, &err), fd[8], n = 0;
    assert_ok(&err);
    while (n < 8 && (fd[n] = net_connect("127.0.0.1", port, clock_seconds() + 0.2, &err)) >= 0) n++;
    assert_true(n < 8);
    assert_err(&err, ERR_PROCESS, "connect", NULL, "timed out", "an answer");
    while (n > 0) close(fd[--n]);
    close(door);
}

static void listen__says_why_not(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    int port, door = net_listen("127.0.0.1", 0, 1, &port, &err);
    assert_int_equal(net_listen("127.0.0.1", port, 1, NULL, &err), -1);
    assert_err(&err, ERR_PROCESS, "listen", "127.0.0.1:", "in use", "a place to listen");
    err_clear(&err);
    assert_int_equal(net_listen(NULL, port, 1, NULL, &err), -1);
    assert_err(&err, ERR_PROCESS, "listen", "*:", "in use", NULL);
    err_clear(&err);
    assert_int_equal(net_listen("192.0.2.77", 0, 1, NULL, &err), -1); /* of no machine */
    assert_err(&err, ERR_PROCESS, "listen", "192.0.2.77:0", NULL, "a place to listen");
    assert_false(net_wait(door, clock_seconds() + 0.01));
    close(door);
}

static void loopback__is_known_by_its_numbers(void **state)
{
    (void)state;
    assert_true(net_is_loopback("127.0.1.1") && net_is_loopback("::1"));
    assert_false(net_is_loopback("10.0.0.1") || net_is_loopback("fe80::1") || net_is_loopback(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__meets_whoever_listens),
        cmocka_unit_test(connect__says_why_not_when_the_time_is_over),
        cmocka_unit_test(listen__says_why_not),
        cmocka_unit_test(loopback__is_known_by_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
