/* board.c: see board.h. A place has two copies and a count of writes: the writer fills the copy
 * that is not current and then turns the count, so that a writer that is killed in the middle
 * leaves the older copy whole. All words are atomic: a reader that is overtaken twice reads a mix,
 * sees that the count has moved, and tries again. */
#include "harness/board.h"

#include "core/check.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { WORDS = sizeof(struct board_place) / 8, TRIES = 100 };
_Static_assert(sizeof(struct board_place) == WORDS * 8, "a place is copied in words");

struct slot {
    _Alignas(64) _Atomic uint64_t writes; /* the current copy is copy[writes % 2] */
    _Atomic int64_t alive_ns, ending_ns;
    _Atomic uint64_t copy[2][WORDS];
};

static struct slot *slot_of(const struct board *b, int rank)
{
    CHECK(rank >= 0 && rank < b->world);
    return (struct slot *)(void *)b->segment.data + rank;
}

static int64_t bytes_of(int world)
{
    return (int64_t)sizeof(struct slot) * world;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum err_code board_make(struct board *b, int world, struct err *err)
{
    *b = (struct board){.segment = SEGMENT_INIT, .world = world};
    return segment_reserve(&b->segment, "assay-board", bytes_of(world), err);
}

enum err_code board_attach(struct board *b, int fd, int world, struct err *err)
{
    *b = (struct board){.segment = SEGMENT_INIT, .world = world};
    return segment_attach(&b->segment, fd, bytes_of(world), err);
}

void board_free(struct board *b)
{
    segment_free(&b->segment);
}

static void write_place(struct slot *s, const struct board_place *p)
{
    uint64_t words[WORDS], next = atomic_load(&s->writes) + 1;
    memcpy(words, p, sizeof words);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&s->copy[next % 2][i], words[i], memory_order_relaxed);
    atomic_store(&s->writes, next);
}

void board_write(struct board *b, int rank, const struct board_place *p)
{
    struct slot *s = slot_of(b, rank);
    write_place(s, p);
    atomic_store(&s->alive_ns, now_ns());
}

void board_put(struct board *b, int rank, const struct board_place *p, int64_t alive_ns,
               int64_t ending_ns)
{
    struct slot *s = slot_of(b, rank);
    write_place(s, p);
    atomic_store(&s->alive_ns, alive_ns);
    atomic_store(&s->ending_ns, ending_ns);
}

void board_beat(struct board *b, int rank)
{
    atomic_store(&slot_of(b, rank)->alive_ns, now_ns());
}

void board_ending(struct board *b, int rank)
{
    int64_t none = 0;
    atomic_compare_exchange_strong(&slot_of(b, rank)->ending_ns, &none, now_ns());
}

bool board_read(const struct board *b, int rank, struct board_place *p)
{
    struct slot *s = slot_of(b, rank);
    uint64_t words[WORDS], before = atomic_load(&s->writes);
    if (before == 0) return false;
    for (int tries = 0; tries < TRIES; tries++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = atomic_load_explicit(&s->copy[before % 2][i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        uint64_t after = atomic_load(&s->writes);
        if (after == before) break;
        before = after;
    }
    memcpy(p, words, sizeof words);
    p->op[BOARD_OP - 1] = p->file[BOARD_FILE - 1] = '\0';
    return true;
}

int64_t board_alive_ns(const struct board *b, int rank)
{
    return atomic_load(&slot_of(b, rank)->alive_ns);
}

int64_t board_ending_ns(const struct board *b, int rank)
{
    return atomic_load(&slot_of(b, rank)->ending_ns);
}
