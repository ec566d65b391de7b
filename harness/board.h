/* board.h: what every rank of a run is doing, in memory that all of them and their parent share:
 * the heartbeat. It outlives the rank that wrote it, so a rank that was killed still says what it
 * was in. A rank writes its own place only; readers never wait for writers. Test:
 * tests/test_board.c */
#ifndef ASSAY_HARNESS_BOARD_H
#define ASSAY_HARNESS_BOARD_H

#include "harness/segment.h"

#include <stdbool.h>
#include <stdint.h>

enum { BOARD_OP = 48, BOARD_FILE = 64 };

/* What a rank is doing. Layer, batch, sample: -1 for none. */
struct board_place {
    int64_t call, batch, layer, sample;
    int64_t line;
    int64_t waiting;       /* 1: in a collective, for the other ranks */
    char op[BOARD_OP];     /* "mla.core", "all_reduce_sum layers.3.attn" */
    char file[BOARD_FILE]; /* where it said so */
};

struct board {
    struct segment segment;
    int world;
};

/* Room for `world` ranks in shared memory. */
enum err_code board_make(struct board *b, int world, struct err *err) ERR_USED;
/* The one that another process made; takes the descriptor. */
enum err_code board_attach(struct board *b, int fd, int world, struct err *err) ERR_USED;
void board_free(struct board *b);

/* A rank says what it does now; it counts as a sign of life. */
void board_write(struct board *b, int rank, const struct board_place *p);
/* A sign of life without news: of a rank that waits. */
void board_beat(struct board *b, int rank);
/* The rank is about to end, by itself or by a signal: when. Safe in a signal handler; the first
 * call counts. */
void board_ending(struct board *b, int rank);

/* What another host's board says of a rank: its place, and when it last showed that it lives, and
 * its ending (0: none), in ns of this host's clock. */
void board_put(struct board *b, int rank, const struct board_place *p, int64_t alive_ns,
               int64_t ending_ns);

/* The last whole place that the rank wrote; false where it never wrote one. */
bool board_read(const struct board *b, int rank, struct board_place *p);
/* When, in ns of the monotonic clock: its last sign of life (0: none), its ending (0: none). */
int64_t board_alive_ns(const struct board *b, int rank);
int64_t board_ending_ns(const struct board *b, int rank);

#endif
