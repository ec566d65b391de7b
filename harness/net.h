/* net.h: TCP between the ranks of a run, IPv4 and IPv6: listening, connecting, accepting, each with
 * a deadline on the clock of clock_seconds(), the look-up of a name too. Every descriptor is
 * close-on-exec and does not block.
 *
 * A connection whose other host is gone without a word (switched off, cable pulled) ends with an
 * error after NET_SILENT_S, also where nothing is sent. Test: tests/test_net.c */
#ifndef ASSAY_HARNESS_NET_H
#define ASSAY_HARNESS_NET_H

#include "core/error.h"

#include <stdbool.h>

enum { NET_HOST = 256, NET_NUMBERS = 64 /* of an address in numbers */, NET_SILENT_S = 25 };

/* Listens at host:port, of which 0 is any free one; *bound is the port. Host NULL: at every address
 * of this machine, IPv6 and IPv4 by one socket where the kernel has both. -1 and ERR_PROCESS: no
 * address, or it cannot be had; the error names it. */
int net_listen(const char *host, int port, int backlog, int *bound, struct err *err);

/* Connects, again and again until that time: whoever is to listen there may come later. -1 and
 * ERR_PROCESS with the last reason. */
int net_connect(const char *host, int port, double until, struct err *err);

/* The next one that has connected; -1: nobody just now. */
int net_accept(int fd);

/* Waits until it can be accepted from or read, `until` at most; false: not yet. */
bool net_wait(int fd, double until);

/* This end's address in numbers ("10.0.0.7", "fe80::1%eth0"), and the other end's; "" where it has
 * none. */
void net_own(int fd, char out[NET_NUMBERS]);
void net_peer(int fd, char out[NET_NUMBERS]);
/* Whether that is this machine's own, by which no other can reach it. */
bool net_is_loopback(const char *numbers);

#endif
