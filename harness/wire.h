/* wire.h: framed messages between two processes over a stream socket: each whole, versioned,
 * checksummed and from a known rank, or an error that says what is wrong with it. Large tensors go
 * beside it as shared memory (segment.h), without a copy.
 *
 * A frame, little-endian:
 *     magic "ASWR" u32 | version u16 | kind u16 | sender's rank i32 | segments u16 | 0 u16 |
 *     call i64 | payload's bytes u64 | payload's CRC-32 u32 | CRC-32 of the 36 bytes before u32 |
 *     payload: the segments' sizes u64 each, then the data
 * A segment's descriptor travels with the frame's first byte. Its bytes are not checksummed: they
 * do not travel, both sides look at the same memory. Over a network there is none: a message with
 * segments is refused there.
 *
 * Nothing here waits without a deadline, dies of SIGPIPE or is confused by signals: the steps
 * (wire_flush, wire_fill) never wait, so that one loop can serve many peers; wire_fill_soon() waits
 * a slice of time (WIRE_SLICE_S) at most, in the read itself: a round trip has no other call than a
 * bare one; wire_send() and wire_receive() wait until a time on the clock of clock_seconds(). Test:
 * tests/test_wire.c */
#ifndef ASSAY_HARNESS_WIRE_H
#define ASSAY_HARNESS_WIRE_H

#include "core/crc32.h"
#include "core/error.h"
#include "harness/segment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_SLICE_S 0.25

enum {
    WIRE_VERSION = 2,
    WIRE_HEADER = 40,
    WIRE_SEGMENTS = 8,
    WIRE_PEER = 32,
    WIRE_MOST = 256 << 20 /* bytes of a payload; more goes into segments */
};

enum wire_kind {
    WIRE_HELLO = 1, /* a worker is there */
    WIRE_REQUEST,
    WIRE_REPLY,
    WIRE_ERROR, /* an envelope instead of a reply */
    WIRE_BYE,   /* the worker is asked to end */
    WIRE_PART,  /* a piece of work ahead of the reply */
    WIRE_TAKEN, /* the parent has it: one byte, 0 where it wants no more */
    /* Between ranks of several hosts, and their keepers (workers_parts.h). */
    WIRE_WINDOW, /* of a collective: collective_tcp.h */
    WIRE_BEAT,   /* what a rank is doing, and when it last showed that it lives */
    WIRE_STDERR, /* bytes of a rank's stderr */
    WIRE_ENDED,  /* how a rank's process has ended */
    WIRE_STOP,   /* the rank whose failure has ended a call */
    WIRE_KINDS
};

struct wire_message {
    enum wire_kind kind;
    int rank;     /* the sender's */
    int64_t call; /* which request it is, or answers */
    const unsigned char *data;
    int64_t bytes;
    const struct segment *segment; /* [segments] */
    int segments;
};

struct wire {
    int fd;         /* -1: closed */
    bool far;       /* over a network: memory does not go with it */
    double slice_s; /* a read that waits comes back after so long; 0: it cannot, poll() does */
    char peer[WIRE_PEER];
    struct crc32 crc;
    unsigned char *in; /* what was read: a message, then the beginning of the next one */
    size_t in_bytes, in_room;
    size_t in_taken;              /* bytes of the message given out last */
    int in_fd[2 * WIRE_SEGMENTS]; /* arrived, not yet taken by a message */
    int in_fds;
    /* Of the message given out last that had any: memory that comes again stays mapped. */
    struct segment got[WIRE_SEGMENTS];
    int gots;
    unsigned char *out; /* a message on its way */
    size_t out_bytes, out_sent, out_room;
    int out_fd[WIRE_SEGMENTS];
    int out_fds;
};

enum wire_state {
    WIRE_DONE,  /* sent whole, or a message is there */
    WIRE_AGAIN, /* poll() and come again */
    WIRE_END,   /* the peer has closed its end; err is set where that cut a message */
    WIRE_FAILED /* see err */
};

/* Takes a stream socket (made close-on-exec). `peer` ("rank 2", "the parent")
 * stands in messages. */
void wire_init(struct wire *w, int fd, const char *peer);
/* Another slice of time for wire_fill_soon(). */
void wire_slice(struct wire *w, double seconds);
/* Closes the socket and frees everything; safe on a zeroed struct with fd -1. */
void wire_free(struct wire *w);

/* Forms the frame of `m`; the one before must be gone. ERR_INPUT: a payload over WIRE_MOST or too
 * many segments, or segments over a network; ERR_MEMORY. */
enum err_code wire_queue(struct wire *w, const struct wire_message *m, struct err *err) ERR_USED;
/* Sends what the socket takes now. WIRE_END: the peer is gone. */
enum wire_state wire_flush(struct wire *w, struct err *err) ERR_USED;
/* Reads what is there. WIRE_DONE: *m leads into `w` and lives until the next call. WIRE_FAILED,
 * ERR_PROCESS: wrong magic, version, kind, checksum of header or payload, a length that no message
 * has, a segment without its memory; after it the rest of the stream means
 * nothing. */
enum wire_state wire_fill(struct wire *w, struct wire_message *m, struct err *err) ERR_USED;
/* The same, but waits for what is not there yet. WIRE_AGAIN: nothing came, or not all of it. */
enum wire_state wire_fill_soon(struct wire *w, struct wire_message *m, struct err *err) ERR_USED;
/* Whether a whole message may already stand in the buffer: poll() would not tell. */
bool wire_buffered(const struct wire *w);

/* The same two, waiting until the time `until`. ERR_PROCESS: the deadline (with how much had gone
 * or come), the peer's end, or what the steps say. */
enum err_code wire_send(struct wire *w, const struct wire_message *m, double until,
                        struct err *err) ERR_USED;
enum err_code wire_receive(struct wire *w, struct wire_message *m, double until,
                           struct err *err) ERR_USED;

#endif
