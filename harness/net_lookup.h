/* net_lookup.h: the addresses of a host's name, with a deadline: a resolver whose servers do not
 * answer takes as long as it likes. Private to net.c. Test: tests/test_net_lookup.c */
#ifndef ASSAY_HARNESS_NET_LOOKUP_H
#define ASSAY_HARNESS_NET_LOOKUP_H

#include "core/error.h"

#include <netdb.h>

/* Of host:port for TCP, by `until` on the clock of clock_seconds(). *out is the caller's
 * (freeaddrinfo()). ERR_PROCESS: it has none, or the resolver has not answered. */
enum err_code net_lookup(const char *host, int port, double until, struct addrinfo **out,
                         struct err *err) ERR_USED;

#endif
