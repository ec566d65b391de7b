/* test_workers_speed.c: what a round trip and a large tensor cost, beside a bare socket pair and
 * memcpy in the same run. A small run that only checks what arrives; ci/bench_workers.sh makes it a
 * measurement (WORKER_PINGS, WORKER_BYTES) and prints the figures. Nothing is judged by time. */
#include "core/text.h"
#include "harness/session.h"
#include "harness/wire.h"
#include "tests/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PINGS = 500, BYTES = 1 << 20, WORD = 64, ROUNDS = 5, BLOCK = 250 };

static int64_t setting(const char *name, int64_t dflt)
{
    int64_t v;
    const char *text = getenv(name);
    return text && text_int(text, &v) && v > 0 ? v : dflt;
}

static double best(double a, double b)
{
    return a < b ? a : b;
}

/* Seconds of a round trip: of the quickest block of so many, which nothing else disturbed. */
struct meter {
    double began, least;
    int64_t trips;
};

static struct meter meter_start(void)
{
    return (struct meter){.began = clock_seconds(), .least = 1e9};
}

static void meter_tick(struct meter *m)
{
    if (++m->trips % BLOCK != 0) return;
    double now = clock_seconds();
    m->least = best(m->least, (now - m->began) / BLOCK);
    m->began = now;
}

static void pass(int fd, char word[WORD])
{
    for (size_t n = 0; n < WORD;) {
        ssize_t r = recv(fd, word + n, WORD - n, 0);
        if (r <= 0) _exit(1);
        n += (size_t)r;
    }
}

/* Seconds of a round trip between two processes, of n by body on each side of a socket pair. */
static double between_two(int64_t n, void (*body)(int fd, struct meter *first, int64_t n))
{
    int ends[2], status = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        body(ends[1], NULL, n);
        _exit(0);
    }
    close(ends[1]);
    struct meter m = meter_start();
    body(ends[0], &m, n);
    close(ends[0]);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    return m.least;
}

static void bare(int fd, struct meter *first, int64_t n)
{
    char word[WORD] = "ping";
    for (int64_t i = 0; i < n; i++) {
        if (first && send(fd, word, WORD, 0) != WORD) _exit(1);
        pass(fd, word);
        if (!first && send(fd, word, WORD, 0) != WORD) _exit(1);
        if (first) meter_tick(first);
    }
}

static void framed(int fd, struct meter *first, int64_t n)
{
    struct wire w;
    struct wire_message m;
    struct err err = ERR_INIT;
    unsigned char word[WORD] = "ping";
    wire_init(&w, dup(fd), "the other");
    for (int64_t i = 0; i < n && err.code == ERR_OK; i++) {
        const struct wire_message out = {
            .kind = WIRE_REQUEST, .call = i, .data = word, .bytes = WORD};
        double until = clock_seconds() + 60;
        if (first) (void)!wire_send(&w, &out, until, &err);
        if (err.code == ERR_OK) (void)!wire_receive(&w, &m, until, &err);
        if (!first && err.code == ERR_OK) (void)!wire_send(&w, &out, until, &err);
        if (first) meter_tick(first);
    }
    wire_free(&w);
    if (err.code != ERR_OK) _exit(1);
}

static double called(int64_t n)
{
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(2);
    struct workers *w = ranks_open(&o);
    char word[WORD + 1];
    memset(word, 'x', WORD);
    word[WORD] = '\0';
    struct worker_request q = ranks_request("echo", word);
    struct worker_reply r = {.rank = -1};
    struct meter m = meter_start();
    for (int64_t i = 0; i < n && err.code == ERR_OK; i++) {
        (void)!workers_call_one(w, 1, &q, &r, &err);
        meter_tick(&m);
    }
    assert_ok(&err);
    assert_int_equal(r.bytes, WORD);
    ranks_finish(w);
    return m.least;
}

static void round_trip__brings_the_word_back(void **state)
{
    (void)state;
    int64_t n = setting("WORKER_PINGS", PINGS);
    double pair = 1e9, frames = 1e9, calls = 1e9;
    for (int i = 0; i < ROUNDS; i++) { /* in turn: other work disturbs all alike */
        pair = best(pair, between_two(n, bare));
        frames = best(frames, between_two(n, framed));
        calls = best(calls, called(n));
    }
    const double us = 1e6;
    print_message(
        "round trip of %d bytes, quickest %d in %d runs: socket pair %.2f us, frames %.2f us (%.2f "
        "of it), a call of a worker %.2f us (%.2f)\n",
        WORD, BLOCK, ROUNDS, us * pair, us * frames, frames / pair, us * calls, calls / pair);
}

/* Seconds of a memcpy. */
static double copied(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    double began = clock_seconds();
    memcpy(to, from, (size_t)bytes);
    return clock_seconds() - began;
}

/* Seconds of a call whose reply is a tensor, every page of it read. */
static double tensor_called(struct workers *w, const struct worker_request *q, int64_t bytes)
{
    struct err err = ERR_INIT;
    struct worker_reply r;
    int64_t sum = 0;
    double began = clock_seconds();
    (void)!workers_call_one(w, 0, q, &r, &err);
    assert_ok(&err);
    assert_int_equal(r.segment[0].bytes, bytes);
    for (int64_t k = 0; k < bytes; k += 4096) sum += r.segment[0].data[k];
    double took = clock_seconds() - began;
    assert_int_equal(sum, 7 * ((bytes + 4095) / 4096));
    return took;
}

/* In turn with a memcpy of as much: other work disturbs both alike. The first of each is into pages
 * that nobody has touched. */
static void tensor__arrives_whole(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workers_options o = ranks_options(1);
    int64_t bytes = setting("WORKER_BYTES", BYTES) / 8 * 8;
    char words[64];
    unsigned char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
    assert_true(from && to);
    memset(from, 1, (size_t)bytes);
    struct workers *w = ranks_open(&o);
    snprintf(words, sizeof words, "0 %lld", (long long)bytes);
    struct worker_request q = ranks_request("copy", words), make = ranks_request("source", words);
    struct worker_reply none;
    (void)!workers_call_one(w, 0, &make, &none, &err);
    assert_ok(&err);
    double fresh = copied(to, from, bytes), first = tensor_called(w, &q, bytes);
    double plain = 1e9, took = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        plain = best(plain, copied(to, from, bytes));
        took = best(took, tensor_called(w, &q, bytes));
    }
    assert_int_equal(to[bytes - 1], 1);
    free(from);
    free(to);
    ranks_finish(w);
    double gb = 1e-9 * (double)bytes;
    print_message("%.2f GB: memcpy %.2f GB/s; to a reply's segment, sent, every page read: %.2f "
                  "GB/s (%.0f %% of memcpy); the first time, in new pages of both processes, %.2f "
                  "GB/s (%.0f %% of memcpy into new pages)\n",
                  gb, gb / plain, gb / took, 100 * plain / took, gb / first, 100 * fresh / first);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ranks_setup, ranks_teardown)

int main(int argc, char **argv)
{
    int status;
    if (ranks_main(argc, argv, &status)) return status;
    const struct CMUnitTest tests[] = {
        TEST(round_trip__brings_the_word_back),
        TEST(tensor__arrives_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
