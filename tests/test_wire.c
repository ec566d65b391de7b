/* test_wire.c: messages over a socket: whole, in pieces, with shared memory beside them, into a
 * full pipe, to a peer that is gone; and each way in which a frame can be wrong. */
#include "harness/wire.h"

#include "harness/session.h"
#include "tests/net.h"
#include "tests/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct wire a, b;

static int setup(void **state)
{
    (void)state;
    int ends[2];
    signal(SIGPIPE, SIG_DFL); /* must not be needed */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
    wire_init(&a, ends[0], "rank 1");
    wire_init(&b, ends[1], "the parent");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    wire_free(&a);
    wire_free(&b);
    return 0;
}

static double soon(void)
{
    return clock_seconds() + 20;
}

static struct wire_message message(const void *data, size_t bytes)
{
    return (struct wire_message){
        .kind = WIRE_REPLY, .rank = 1, .call = 7, .data = data, .bytes = (int64_t)bytes};
}

/* The frame of a message, to be spoilt. */
static size_t frame(const void *data, size_t bytes, unsigned char out[256])
{
    struct err err = ERR_INIT;
    const struct wire_message m = message(data, bytes);
    (void)!wire_queue(&b, &m, &err);
    assert_ok(&err);
    size_t n = b.out_bytes;
    memcpy(out, b.out, n);
    b.out_sent = b.out_bytes = 0;
    return n;
}

static void write_all(const unsigned char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(b.fd, p, n);
        assert_true(w > 0);
        p += w;
        n -= (size_t)w;
    }
}

static void receive__gives_what_was_sent(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct wire_message m = message("hello", 5), got;
    (void)!wire_send(&b, &m, soon(), &err);
    m = message(NULL, 0);
    m.kind = WIRE_ERROR;
    m.rank = -1;
    m.call = -5;
    (void)!wire_send(&b, &m, soon(), &err);
    (void)!wire_receive(&a, &got, soon(), &err);
    assert_ok(&err);
    assert_int_equal(got.kind, WIRE_REPLY);
    assert_int_equal(got.rank, 1);
    assert_int_equal(got.call, 7);
    assert_int_equal(got.bytes, 5);
    assert_memory_equal(got.data, "hello", 5);
    (void)!wire_receive(&a, &got, soon(), &err);
    assert_ok(&err);
    assert_int_equal(got.kind, WIRE_ERROR);
    assert_int_equal(got.rank, -1);
    assert_int_equal(got.call, -5);
    assert_int_equal(got.bytes, 0);
}

static void fill__takes_a_frame_byte_by_byte(void **state)
{
    (void)state;
    unsigned char f[256];
    struct err err = ERR_INIT;
    struct wire_message m;
    size_t n = frame("in pieces", 9, f);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(wire_fill(&a, &m, &err), WIRE_AGAIN);
        write_all(f + i, 1);
    }
    assert_int_equal(wire_fill(&a, &m, &err), WIRE_DONE);
    assert_memory_equal(m.data, "in pieces", 9);
    assert_int_equal(wire_fill(&a, &m, &err), WIRE_AGAIN);
}

static void *receive_one(void *ctx)
{
    struct err err = ERR_INIT;
    struct wire_message m;
    unsigned char **copy = ctx;
    if (wire_receive(&a, &m, soon(), &err) != ERR_OK) return NULL;
    *copy = malloc((size_t)m.bytes);
    memcpy(*copy, m.data, (size_t)m.bytes);
    return *copy;
}

static void send__goes_on_where_the_pipe_was_full(void **state)
{
    (void)state;
    size_t n = 5 << 20;
    unsigned char *data = malloc(n), *copy = NULL;
    struct err err = ERR_INIT;
    pthread_t thread;
    for (size_t i = 0; i < n; i++) data[i] = (unsigned char)(i * 2654435761u >> 13);
    const struct wire_message m = message(data, n);
    assert_int_equal(pthread_create(&thread, NULL, receive_one, &copy), 0);
    (void)!wire_send(&b, &m, soon(), &err);
    pthread_join(thread, NULL);
    assert_ok(&err);
    assert_non_null(copy);
    assert_memory_equal(copy, data, n);
    free(copy);
    free(data);
}

static void send__says_how_much_a_full_pipe_took(void **state)
{
    (void)state;
    size_t n = 4 << 20;
    unsigned char *data = calloc(1, n);
    struct err err = ERR_INIT;
    const struct wire_message m = message(data, n);
    (void)!wire_send(&b, &m, clock_seconds() + 0.05, &err);
    assert_err(&err, ERR_PROCESS, "send a message", "to the parent",
               " of 4194344 bytes taken: the pipe is full", "deadline");
    free(data);
}

static void send__to_a_peer_that_is_gone_is_an_error(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    const struct wire_message m = message("x", 1);
    wire_free(&a);
    (void)!wire_send(&b, &m, soon(), &err);
    assert_err(&err, ERR_PROCESS, "send a message", "to the parent", "its end is closed", NULL);
}

static void receive__says_that_nothing_came_or_the_end(void **state)
{
    (void)state;
    unsigned char f[256];
    struct err err = ERR_INIT;
    struct wire_message m;
    size_t n = frame("hello", 5, f);
    (void)!wire_receive(&a, &m, clock_seconds() + 0.01, &err);
    assert_err(&err, ERR_PROCESS, "read a message", "from rank 1", "0 bytes", "deadline");
    err_clear(&err);
    write_all(f, 7);
    (void)!wire_receive(&a, &m, clock_seconds() + 0.01, &err);
    assert_err(&err, ERR_PROCESS, "read a message", "from rank 1", "7 bytes", "deadline");
    err_clear(&err);
    write_all(f + 7, n - 7);
    wire_free(&b);
    (void)!wire_receive(&a, &m, soon(), &err);
    assert_ok(&err);
    (void)!wire_receive(&a, &m, soon(), &err);
    assert_err(&err, ERR_PROCESS, "read a message", "from rank 1", "its end is closed", NULL);
}

static void receive__names_every_cut(void **state)
{
    unsigned char f[256];
    size_t n = frame("hello", 5, f);
    for (size_t i = 1; i < n; i++) {
        struct err err = ERR_INIT;
        struct wire_message m;
        teardown(state);
        setup(state);
        write_all(f, i);
        wire_free(&b);
        (void)!wire_receive(&a, &m, soon(), &err);
        assert_err(&err, ERR_PROCESS, "read a message", "from rank 1",
                   i < WIRE_HEADER ? "of its header" : "cut after", i < WIRE_HEADER ? "40" : "45");
    }
}

static void receive__refuses_every_flipped_bit(void **state)
{
    unsigned char f[256];
    size_t n = frame("hello", 5, f);
    for (size_t i = 0; i < 8 * n; i++) {
        struct err err = ERR_INIT;
        struct wire_message m;
        teardown(state);
        setup(state);
        f[i / 8] ^= (unsigned char)(1 << i % 8);
        write_all(f, n);
        f[i / 8] ^= (unsigned char)(1 << i % 8);
        (void)!wire_receive(&a, &m, soon(), &err);
        assert_err(&err, ERR_PROCESS, "read a message", "from rank 1", NULL, NULL);
        assert_true(err.found[0] && err.wanted[0]);
    }
}

/* A header with one field changed and its own checksum right again. */
static void header_is_refused(void **state, size_t at, uint64_t value, int bytes, const char *found)
{
    unsigned char f[256];
    struct err err = ERR_INIT;
    struct wire_message m;
    teardown(state);
    setup(state);
    size_t n = frame("hello", 5, f);
    for (int i = 0; i < bytes; i++) f[at + (size_t)i] = (unsigned char)(value >> 8 * i);
    uint32_t crc = crc32_of(&a.crc, 0, f, 36);
    for (int i = 0; i < 4; i++) f[36 + i] = (unsigned char)(crc >> 8 * i);
    write_all(f, n);
    (void)!wire_receive(&a, &m, soon(), &err);
    assert_err(&err, ERR_PROCESS, "read a message", "from rank 1", found, NULL);
}

static void receive__names_what_is_wrong_with_a_header(void **state)
{
    header_is_refused(state, 0, 0x64636261, 4, "61 62 63 64, no frame");
    header_is_refused(state, 4, 9, 2, "version 9, of another build");
    header_is_refused(state, 6, 0, 2, "kind 0");
    header_is_refused(state, 6, WIRE_KINDS, 2, "kind 13");
    header_is_refused(state, 12, 9, 2, "9 segments in 5 bytes");
    header_is_refused(state, 12, 1, 2, "1 segments in 5 bytes");
    header_is_refused(state, 24, UINT64_MAX, 8, "18446744073709551615 bytes");
    header_is_refused(state, 24, (uint64_t)WIRE_MOST + 1, 8, "268435457 bytes");
    header_is_refused(state, 32, 1, 4, "checksum");
}

static void segments__travel_beside_the_bytes(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct segment s[2] = {SEGMENT_INIT, SEGMENT_INIT};
    struct wire_message m = message("two", 3), got;
    (void)!segment_reserve(&s[0], "assay-test", 100000, &err);
    (void)!segment_reserve(&s[1], "assay-test", 8, &err);
    memset(s[0].data, 5, 100000);
    m.segment = s;
    m.segments = 2;
    (void)!wire_send(&b, &m, soon(), &err);
    m = message("none", 4); /* glued to the one before */
    (void)!wire_send(&b, &m, soon(), &err);
    (void)!wire_receive(&a, &got, soon(), &err);
    assert_ok(&err);
    assert_int_equal(got.segments, 2);
    assert_memory_equal(got.data, "two", 3);
    assert_int_equal(got.segment[0].bytes, 100000);
    assert_int_equal(got.segment[1].bytes, 8);
    assert_int_equal(got.segment[0].data[99999], 5);
    got.segment[1].data[3] = 9; /* the same memory on both sides */
    assert_int_equal(s[1].data[3], 9);
    (void)!wire_receive(&a, &got, soon(), &err);
    assert_ok(&err);
    assert_int_equal(got.segments, 0);
    segment_free(&s[0]);
    segment_free(&s[1]);
}

static void segments__that_did_not_come_are_missed(void **state)
{
    (void)state;
    unsigned char f[256];
    struct err err = ERR_INIT;
    struct segment s = SEGMENT_INIT;
    struct wire_message m = message("x", 1), got;
    (void)!segment_reserve(&s, "assay-test", 8, &err);
    m.segment = &s;
    m.segments = 1;
    (void)!wire_queue(&b, &m, &err);
    memcpy(f, b.out, b.out_bytes);
    write_all(f, b.out_bytes); /* the bytes alone */
    (void)!wire_receive(&a, &got, soon(), &err);
    assert_err(&err, ERR_PROCESS, "read a message", "from rank 1",
               "1 segments without their memory", "1");
    segment_free(&s);
}

static void segment__keeps_its_memory_while_that_is_enough(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct segment s = SEGMENT_INIT, t = SEGMENT_INIT;
    (void)!segment_reserve(&s, "assay-test", 5000, &err);
    assert_ok(&err);
    unsigned char *first = s.data;
    (void)!segment_reserve(&s, "assay-test", 10, &err);
    assert_ptr_equal(s.data, first);
    assert_int_equal(s.bytes, 10);
    assert_int_equal(s.room, 5000);
    (void)!segment_reserve(&s, "assay-test", 50000, &err);
    assert_ok(&err);
    assert_int_equal(s.room, 50000);
    assert_true(ftruncate(s.fd, 10) != 0); /* nobody can take it away under a reader */
    assert_int_not_equal(segment_attach(&t, dup(s.fd), 50001, &err), ERR_OK);
    assert_err(&err, ERR_PROCESS, "take shared memory", NULL, "50000 bytes", "50001");
    err_clear(&err);
    assert_int_not_equal(segment_attach(&t, open("/dev/null", O_RDWR), 0, &err), ERR_OK);
    assert_err(&err, ERR_PROCESS, "take shared memory", NULL, NULL, NULL);
    segment_free(&s);
    segment_free(&s);
}

static void queue__refuses_what_no_frame_holds(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct wire_message m = message("x", (size_t)WIRE_MOST + 1);
    assert_int_not_equal(wire_queue(&b, &m, &err), ERR_OK);
    assert_err(&err, ERR_INPUT, "send a message", "to the parent", "268435457 bytes", NULL);
}

/* Hosts share no memory: said where it is asked for, and not by a reader who waits for it. */
static void queue__refuses_memory_over_a_network(void **state)
{
    (void)state;
    int fd[2];
    struct wire near, far;
    struct segment s = SEGMENT_INIT;
    struct err err = ERR_INIT;
    struct wire_message m = message("x", 1), got;
    net_pair(fd);
    wire_init(&near, fd[0], "rank 2");
    wire_init(&far, fd[1], "rank 1");
    assert_true(near.far && !a.far);
    assert_true(far.slice_s == 0 && a.slice_s > 0); /* a socket that does not block: poll() waits */
    (void)!segment_reserve(&s, "assay-test", 8, &err);
    m.segment = &s;
    m.segments = 1;
    assert_int_not_equal(wire_queue(&near, &m, &err), ERR_OK);
    assert_err(&err, ERR_INPUT, "send a message", "to rank 2", "1 segments over a network", NULL);
    err_clear(&err);
    m.segments = 0;
    (void)!wire_send(&near, &m, soon(), &err);
    (void)!wire_receive(&far, &got, soon(), &err);
    assert_ok(&err);
    assert_int_equal(got.bytes, 1);
    segment_free(&s);
    wire_free(&near);
    wire_free(&far);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(receive__gives_what_was_sent),
        TEST(fill__takes_a_frame_byte_by_byte),
        TEST(send__goes_on_where_the_pipe_was_full),
        TEST(send__says_how_much_a_full_pipe_took),
        TEST(send__to_a_peer_that_is_gone_is_an_error),
        TEST(receive__says_that_nothing_came_or_the_end),
        TEST(receive__names_every_cut),
        TEST(receive__refuses_every_flipped_bit),
        TEST(receive__names_what_is_wrong_with_a_header),
        TEST(segments__travel_beside_the_bytes),
        TEST(segments__that_did_not_come_are_missed),
        TEST(segment__keeps_its_memory_while_that_is_enough),
        TEST(queue__refuses_what_no_frame_holds),
        TEST(queue__refuses_memory_over_a_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
