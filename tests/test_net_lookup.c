/* test_net_lookup.c: names looked up with a deadline. The resolver is this file's own: it answers
 * when it is told to. */
#include "harness/net_lookup.h"

#include "harness/session.h"
#include "tests/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Under the lock: what the resolver was asked, whether it may answer and with what. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool may_answer;
    int rc, asked, freed;
    char host[300], port[16];
    int family, type;
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* These two stand in the place of the C library's. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.asked++;
    snprintf(resolver.host, sizeof resolver.host, "%s", host);
    snprintf(resolver.port, sizeof resolver.port, "%s", port);
    resolver.family = hints->ai_family;
    resolver.type = hints->ai_socktype;
    while (!resolver.may_answer) pthread_cond_wait(&resolver.changed, &resolver.lock);
    const int rc = resolver.rc;
    pthread_mutex_unlock(&resolver.lock);
    if (rc == 0) *out = calloc(1, sizeof **out);
    return rc;
}

void freeaddrinfo(struct addrinfo *found)
{
    free(found);
    pthread_mutex_lock(&resolver.lock);
    resolver.freed++;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
}

static void answer(bool may, int rc)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.may_answer = may;
    resolver.rc = rc;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
}

static int freed(void)
{
    pthread_mutex_lock(&resolver.lock);
    const int n = resolver.freed;
    pthread_mutex_unlock(&resolver.lock);
    return n;
}

static void lookup__gives_what_the_resolver_says(void **state)
{
    struct err err = ERR_INIT;
    struct addrinfo *found = NULL;
    (void)state;
    answer(true, 0);
    const int before = freed();
    assert_int_equal(net_lookup("node0", 29500, clock_seconds() + 60, &found, &err), ERR_OK);
    assert_non_null(found);
    assert_int_equal(freed(), before);
    assert_string_equal(resolver.host, "node0");
    assert_string_equal(resolver.port, "29500");
    assert_int_equal(resolver.family, AF_UNSPEC);
    assert_int_equal(resolver.type, SOCK_STREAM);
    freeaddrinfo(found);
    found = NULL;
    answer(true, EAI_NONAME);
    assert_int_equal(net_lookup("node1", 1, clock_seconds() + 60, &found, &err), ERR_PROCESS);
    assert_err(&err, ERR_PROCESS, "find a host", "node1:1", gai_strerror(EAI_NONAME), "an address");
    assert_null(found);
}

/* The resolver answers only after the look-up has come back; what it found then is freed. */
static void lookup__ends_when_the_resolver_does_not(void **state)
{
    struct err err = ERR_INIT;
    struct addrinfo *found = NULL;
    (void)state;
    answer(false, 0);
    const int before = freed();
    assert_int_equal(net_lookup("node2", 2, clock_seconds() + 0.05, &found, &err), ERR_PROCESS);
    assert_err(&err, ERR_PROCESS, "find a host", "node2:2", "no answer of the resolver", NULL);
    assert_null(found);
    assert_int_equal(freed(), before);
    answer(true, 0);
    const struct timespec tick = {.tv_nsec = 1000000};
    for (const double until = clock_seconds() + 60; freed() == before && clock_seconds() < until;)
        nanosleep(&tick, NULL);
    assert_int_equal(freed(), before + 1);
}

/* A time that is over already is no reason to wait for ever. */
static void lookup__comes_back_at_once_when_the_time_is_over(void **state)
{
    struct err err = ERR_INIT;
    struct addrinfo *found = NULL;
    (void)state;
    answer(false, EAI_AGAIN);
    assert_int_equal(net_lookup("node3", 3, clock_seconds() - 1, &found, &err), ERR_PROCESS);
    assert_err(&err, ERR_PROCESS, "find a host", "node3:3", "no answer", NULL);
    answer(true, EAI_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup__gives_what_the_resolver_says),
        cmocka_unit_test(lookup__ends_when_the_resolver_does_not),
        cmocka_unit_test(lookup__comes_back_at_once_when_the_time_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
