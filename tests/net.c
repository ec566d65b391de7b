/* net.c: see net.h. */
#include "tests/net.h"

#include "harness/net.h"
#include "harness/session.h"
#include "tests/support.h"

#include <unistd.h>

int net_free_port(void)
{
    struct err err = ERR_INIT;
    int port, fd = net_listen("127.0.0.1", 0, 1, &port, &err);
    assert_ok(&err);
    close(fd);
    return port;
}

void net_pair(int fd[2])
{
    struct err err = ERR_INIT;
    int port, door = net_listen("127.0.0.1", 0, 1, &port, &err);
    assert_ok(&err);
    fd[0] = net_connect("127.0.0.1", port, clock_seconds() + 60, &err);
    assert_ok(&err);
    assert_true(net_wait(door, clock_seconds() + 60));
    fd[1] = net_accept(door);
    assert_true(fd[1] >= 0);
    close(door);
}

void net_mesh(int world, int *fd, int stride)
{
    for (int i = 0; i < world; i++) {
        fd[i * stride + i] = -1;
        for (int j = 0; j < i; j++) {
            int pair[2];
            net_pair(pair);
            fd[i * stride + j] = pair[0];
            fd[j * stride + i] = pair[1];
        }
    }
}
