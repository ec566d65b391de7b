/* net_lookup.c: see net_lookup.h. The resolver cannot be told to stop, so it runs in a thread that
 * is left behind when the time is over, and then clears up for itself. */
#include "harness/net_lookup.h"

#include "harness/net.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    char host[NET_HOST], port[16];
    bool ended, left; /* under the lock: the resolver is done; nobody waits for it */
    int rc;
    struct addrinfo *found;
};

static struct lookup *lookup_new(const char *host, int port)
{
    struct lookup *l = calloc(1, sizeof *l);
    pthread_condattr_t clock;
    if (!l) return NULL;
    snprintf(l->host, sizeof l->host, "%s", host);
    snprintf(l->port, sizeof l->port, "%d", port);
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->answered, &clock);
    pthread_condattr_destroy(&clock);
    return l;
}

static void lookup_free(struct lookup *l)
{
    if (l->found) freeaddrinfo(l->found);
    pthread_cond_destroy(&l->answered);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *look_up(void *arg)
{
    struct lookup *l = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int rc = getaddrinfo(l->host, l->port, &hints, &found);
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    l->rc = rc;
    l->found = rc == 0 ? found : NULL;
    const bool left = l->left;
    pthread_cond_signal(&l->answered);
    pthread_mutex_unlock(&l->lock);
    if (left) lookup_free(l);
    return NULL;
}

static bool start(struct lookup *l)
{
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const bool started = pthread_create(&thread, &detached, look_up, l) == 0;
    pthread_attr_destroy(&detached);
    return started;
}

enum err_code net_lookup(const char *host, int port, double until, struct addrinfo **out,
                         struct err *err)
{
    const struct timespec end = {(time_t)until, (long)(1e9 * (until - (double)(time_t)until))};
    struct lookup *l = lookup_new(host, port);
    if (!l || !start(l)) {
        if (l) lookup_free(l);
        return err_set(err, ERR_MEMORY, "find a host|%.100s:%d|no memory, or no thread", host,
                       port);
    }
    pthread_mutex_lock(&l->lock);
    for (int rc = 0; !l->ended && rc == 0;)
        rc = pthread_cond_timedwait(&l->answered, &l->lock, &end);
    l->left = !l->ended;
    const bool left = l->left;
    pthread_mutex_unlock(&l->lock);
    if (left)
        return err_set(err, ERR_PROCESS,
                       "find a host|%.100s:%d|no answer of the resolver in time|%s", host, port,
                       "an address");
    if (l->rc != 0)
        err_set(err, ERR_PROCESS, "find a host|%.100s:%d|%s|an address", host, port,
                gai_strerror(l->rc));
    *out = l->found;
    l->found = NULL;
    lookup_free(l);
    return err->code;
}
