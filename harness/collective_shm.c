/* collective_shm.c: see collective_shm.h. The memory: a page with the epoch and the bell, a slot
 * for every channel and rank, then two windows for each slot. */
#include "harness/collective_shm.h"

#include "core/check.h"
#include "harness/collective_window.h"
#include "harness/session.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, EPOCH_SHIFT = 32 };
#define WAIT_S 0.1 /* a rank that waits shows that it lives, and looks around, as often as this */

struct slot {
    /* epoch << 32 | waits in it; written by its rank alone */
    _Alignas(64) _Atomic uint64_t arrived;
    struct collective_said said[2];
};

struct lobby {
    _Atomic uint64_t stopped; /* epoch << 32 | rank; 0: never (epochs begin with 1) */
    _Atomic uint32_t bell;    /* rung at every arrival */
};

static struct lobby *lobby_of(const struct collective_shm *s)
{
    return (struct lobby *)(void *)s->segment.data;
}

static struct slot *slot_of(const struct collective_shm *s, int channel, int rank)
{
    return (struct slot *)(void *)(s->segment.data + PAGE) + channel * s->world + rank;
}

static int64_t slots_bytes(int world)
{
    int64_t bytes = (int64_t)sizeof(struct slot) * world * COLLECTIVE_CHANNELS;
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static unsigned char *window_of(const struct collective_shm *s, int channel, int rank,
                                uint64_t turn)
{
    int64_t at = 2 * ((int64_t)channel * s->world + rank) + (int64_t)(turn & 1);
    return s->segment.data + PAGE + slots_bytes(s->world) + at * s->window;
}

static int64_t segment_bytes(int world, int64_t window)
{
    return PAGE + slots_bytes(world) + 2 * window * world * COLLECTIVE_CHANNELS;
}

int64_t collective_shm_window(int64_t window)
{
    return (window < 1 ? PAGE : (window + PAGE - 1) / PAGE * PAGE);
}

enum err_code collective_shm_make(struct collective_shm *s, int world, int64_t window,
                                  struct err *err)
{
    CHECK(world >= 1 && world <= COLLECTIVE_RANKS);
    *s = (struct collective_shm){.segment = SEGMENT_INIT,
                                 .rank = -1,
                                 .call = -1,
                                 .world = world,
                                 .window = collective_shm_window(window)};
    return segment_reserve(&s->segment, "assay-collective", segment_bytes(world, s->window), err);
}

enum err_code collective_shm_attach(struct collective_shm *s, int fd, int rank, int world,
                                    int64_t window, struct err *err)
{
    *s = (struct collective_shm){.segment = SEGMENT_INIT,
                                 .rank = rank,
                                 .world = world,
                                 .window = collective_shm_window(window)};
    if (segment_attach(&s->segment, fd, segment_bytes(world, s->window), err) == ERR_OK)
        collective_shm_join(s, -1);
    return err->code;
}

void collective_shm_free(struct collective_shm *s)
{
    segment_free(&s->segment);
}

/* ---- epochs ---- */

static void ring(const struct collective_shm *s)
{
    atomic_fetch_add(&lobby_of(s)->bell, 1);
    syscall(SYS_futex, &lobby_of(s)->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Of a call of the workers; -1: before the first. */
static uint64_t epoch_of(int64_t call)
{
    return (uint64_t)(call + 2);
}

void collective_shm_join(struct collective_shm *s, int64_t call)
{
    s->call = call;
    for (int channel = 0; channel < COLLECTIVE_CHANNELS; channel++)
        atomic_store(&slot_of(s, channel, s->rank)->arrived, epoch_of(call) << EPOCH_SHIFT);
}

void collective_shm_stop(struct collective_shm *s, int64_t call, int by)
{
    struct lobby *h = lobby_of(s);
    uint64_t was = atomic_load(&h->stopped);
    if (was >> EPOCH_SHIFT >= epoch_of(call)) return;
    atomic_compare_exchange_strong(&h->stopped, &was, epoch_of(call) << EPOCH_SHIFT | (uint64_t)by);
    ring(s);
}

int collective_shm_stopped(const struct collective_shm *s)
{
    uint64_t stop = atomic_load(&lobby_of(s)->stopped);
    return stop >> EPOCH_SHIFT == epoch_of(s->call) ? (int)(stop & INT_MAX) : -1;
}

/* ---- arriving, and waiting for the others ---- */

static struct collective_shm *state_of(const struct collective *c)
{
    return c->state;
}

static uint64_t next_turn(const struct collective *c)
{
    const struct collective_shm *s = state_of(c);
    return atomic_load(&slot_of(s, c->channel, s->rank)->arrived) + 1;
}

/* The first member that has not come to this turn; -1: all have. */
static int first_missing(const struct collective *c, uint64_t turn)
{
    const struct collective_shm *s = state_of(c);
    for (int i = 0; i < c->world; i++) {
        if (atomic_load(&slot_of(s, c->channel, c->member[i])->arrived) < turn) return i;
    }
    return -1;
}

static enum err_code compare_calls(const struct collective *c, uint64_t turn, struct err *err)
{
    const struct collective_said *said[COLLECTIVE_RANKS];
    for (int i = 0; i < c->world; i++)
        said[i] = &slot_of(state_of(c), c->channel, c->member[i])->said[turn & 1];
    return collective_compare(c, said, err);
}

static enum err_code not_come(const struct collective *c, uint64_t turn, int missing,
                              struct err *err)
{
    const struct collective_shm *s = state_of(c);
    char doing[128] = "";
    bool came[COLLECTIVE_RANKS];
    for (int i = 0; i < c->world; i++)
        came[i] = atomic_load(&slot_of(s, c->channel, c->member[i])->arrived) >= turn;
    came[missing] = false; /* though it may have come just now */
    if (s->doing) s->doing(s->ctx, c->member[missing], doing, sizeof doing);
    return collective_not_come(c, came, doing, NULL, err);
}

static void sleep_on(struct lobby *h, uint32_t seen, double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    syscall(SYS_futex, &h->bell, FUTEX_WAIT, seen, &t, NULL, 0);
}

static enum err_code wait_all(const struct collective *c, const char *what, uint64_t turn,
                              struct err *err)
{
    const struct collective_shm *s = state_of(c);
    struct lobby *h = lobby_of(s);
    double until = clock_seconds() + c->deadline_s;
    for (;;) {
        uint32_t seen = atomic_load(&h->bell);
        int missing = first_missing(c, turn);
        if (missing < 0) {
            if (s->waiting) s->waiting(s->ctx, NULL);
            return compare_calls(c, turn, err);
        }
        if (s->waiting) s->waiting(s->ctx, what);
        int by = collective_shm_stopped(s); /* one that was blamed says whom it waits for itself */
        if (by >= 0 && by != s->rank) return collective_stopped(c, by, err);
        double left = until - clock_seconds();
        if (!(left > 0)) return not_come(c, turn, missing, err);
        sleep_on(h, seen, left < WAIT_S ? left : WAIT_S);
    }
}

/* ---- windows ---- */

static unsigned char *mine(const struct collective *c)
{
    const struct collective_shm *s = state_of(c);
    return window_of(s, c->channel, s->rank, next_turn(c));
}

/* Arrives with what is in this rank's window, and waits for the other members. */
static enum err_code meet(struct collective *c, const struct collective_call *call, int64_t bytes,
                          struct err *err)
{
    struct collective_shm *s = state_of(c);
    struct slot *own = slot_of(s, c->channel, s->rank);
    uint64_t turn = next_turn(c);
    char what[96];
    (void)bytes; /* every window is there whole */
    collective_say(call, c->world, &own->said[turn & 1]);
    collective_describe(call, what, sizeof what);
    atomic_store(&own->arrived, turn);
    ring(s);
    return wait_all(c, what, turn, err);
}

static const unsigned char *of(const struct collective *c, int i, int64_t bytes)
{
    (void)bytes;
    return window_of(state_of(c), c->channel, c->member[i], next_turn(c) - 1);
}

/* ---- the side ---- */

static enum err_code shm_run(struct collective *c, const struct collective_call *call,
                             struct err *err)
{
    const struct collective_exchange x = {
        .window = state_of(c)->window, .mine = mine, .meet = meet, .of = of};
    return collective_by_window(c, call, &x, err);
}

static enum err_code shm_group(struct collective *out, const struct collective *whole,
                               struct err *err)
{
    out->state = whole->state;
    return err->code;
}

static enum err_code shm_watch(struct collective *c, const char *what, struct err *err)
{
    return collective_shm_watch(c, state_of(c), what, err);
}

enum err_code collective_shm_watch(const struct collective *c, const struct collective_shm *s,
                                   const char *what, struct err *err)
{
    int by = collective_shm_stopped(s);
    if (s->waiting) s->waiting(s->ctx, what);
    return what && by >= 0 ? collective_stopped(c, by, err) : ERR_OK;
}

static const struct collective_side shm = {"shm", shm_run, shm_group, shm_watch};

void collective_shm_open(struct collective *c, struct collective_shm *s, double deadline_s)
{
    *c = (struct collective){.side = s->world > 1 ? &shm : NULL,
                             .state = s,
                             .rank = s->rank,
                             .world = s->world,
                             .deadline_s = deadline_s};
    for (int i = 0; i < s->world; i++) c->member[i] = i;
}
