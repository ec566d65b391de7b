/* net.h: connections within a test, by TCP over the loopback. */
#ifndef ASSAY_TESTS_NET_H
#define ASSAY_TESTS_NET_H

/* A port that was free a moment ago. */
int net_free_port(void);
/* Two connected sockets that do not block. */
void net_pair(int fd[2]);
/* fd[i * stride + j]: rank i's end of its connection with rank j; -1 where i is j. */
void net_mesh(int world, int *fd, int stride);

#endif
