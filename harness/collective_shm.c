/* collective_shm.c: see collective_shm.h. The memory: a page with the epoch and the bell, a slot
 * for every channel and rank, then two windows for each slot. */
#include "harness/collective_shm.h"

#include "core/check.h"
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

/* What a rank says when it arrives: equal on all, or the call fails. */
struct said {
    int64_t kind, dtype, root, n;
    uint64_t sizes;
    char name[COLLECTIVE_NAME];
};

struct slot {
    /* epoch << 32 | waits in it; written by its rank alone */
    _Alignas(64) _Atomic uint64_t arrived;
    struct said said[2];
};

struct lobby {
    _Atomic uint64_t epoch;
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

static int64_t whole_pages(int64_t window)
{
    return (window < 1 ? PAGE : (window + PAGE - 1) / PAGE * PAGE);
}

enum err_code collective_shm_make(struct collective_shm *s, int world, int64_t window,
                                  struct err *err)
{
    CHECK(world >= 1 && world <= COLLECTIVE_RANKS);
    *s = (struct collective_shm){
        .segment = SEGMENT_INIT, .rank = -1, .world = world, .window = whole_pages(window)};
    if (segment_reserve(&s->segment, "assay-collective", segment_bytes(world, s->window), err) !=
        ERR_OK)
        return err->code;
    atomic_store(&lobby_of(s)->epoch, 1);
    return ERR_OK;
}

enum err_code collective_shm_attach(struct collective_shm *s, int fd, int rank, int world,
                                    int64_t window, struct err *err)
{
    *s = (struct collective_shm){
        .segment = SEGMENT_INIT, .rank = rank, .world = world, .window = whole_pages(window)};
    if (segment_attach(&s->segment, fd, segment_bytes(world, s->window), err) == ERR_OK)
        collective_shm_join(s);
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

void collective_shm_begin(struct collective_shm *s)
{
    atomic_fetch_add(&lobby_of(s)->epoch, 1);
}

void collective_shm_join(struct collective_shm *s)
{
    uint64_t epoch = atomic_load(&lobby_of(s)->epoch);
    for (int channel = 0; channel < COLLECTIVE_CHANNELS; channel++)
        atomic_store(&slot_of(s, channel, s->rank)->arrived, epoch << EPOCH_SHIFT);
}

void collective_shm_stop(struct collective_shm *s, int by)
{
    struct lobby *h = lobby_of(s);
    uint64_t epoch = atomic_load(&h->epoch), was = atomic_load(&h->stopped);
    if (was >> EPOCH_SHIFT == epoch) return;
    atomic_compare_exchange_strong(&h->stopped, &was, epoch << EPOCH_SHIFT | (uint64_t)by);
    ring(s);
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

static void say(const struct collective_call *call, int world, struct said *out)
{
    *out =
        (struct said){.kind = call->kind, .dtype = call->dtype, .root = call->root, .n = call->n};
    for (int i = 0; call->size && i < world; i++)
        out->sizes = (out->sizes ^ (uint64_t)call->size[i]) * 0x100000001b3u + 1;
    snprintf(out->name, sizeof out->name, "%s", call->name);
}

static void describe(const struct said *s, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%s \"%.*s\"",
                                collective_kind_name((enum collective_kind)s->kind),
                                COLLECTIVE_NAME - 1, s->name);
    if (s->kind == COLLECTIVE_ALL_REDUCE_SUM && n < size)
        snprintf(text + n, size - n, " of %lld %s", (long long)s->n,
                 dtype_name((enum dtype)s->dtype));
    else if (s->kind == COLLECTIVE_BROADCAST && n < size)
        snprintf(text + n, size - n, " from %lld", (long long)s->root);
}

static enum err_code compare_calls(const struct collective *c, uint64_t turn, struct err *err)
{
    const struct collective_shm *s = state_of(c);
    const struct said *first = &slot_of(s, c->channel, c->member[0])->said[turn & 1];
    char is[96], other[96];
    for (int i = 1; i < c->world; i++) {
        const struct said *his = &slot_of(s, c->channel, c->member[i])->said[turn & 1];
        if (memcmp(first, his, sizeof *first) == 0) continue;
        describe(his, is, sizeof is);
        describe(first, other, sizeof other);
        bool sizes = his->sizes != first->sizes && strcmp(is, other) == 0;
        err_set(err, ERR_PROCESS, "collective|rank %d against rank %d|%s%s|%s, as rank %d",
                c->member[i], c->member[0], is, sizes ? " of other sizes" : "", other,
                c->member[0]);
        err->rank = c->member[i];
        return err->code;
    }
    return ERR_OK;
}

/* "1, 3": who has not come. */
static void list_missing(const struct collective *c, uint64_t turn, char *text, size_t size)
{
    const struct collective_shm *s = state_of(c);
    size_t n = 0;
    for (int i = 0; i < c->world && n < size; i++) {
        if (atomic_load(&slot_of(s, c->channel, c->member[i])->arrived) >= turn) continue;
        n += (size_t)snprintf(text + n, size - n, "%s%d", n ? ", " : "", c->member[i]);
    }
}

static enum err_code not_come(const struct collective *c, uint64_t turn, int missing,
                              struct err *err)
{
    const struct collective_shm *s = state_of(c);
    char doing[128] = "", who[96] = "";
    list_missing(c, turn, who, sizeof who);
    if (s->doing) s->doing(s->ctx, c->member[missing], doing, sizeof doing);
    err_set(err, ERR_PROCESS, "collective|rank %d waits for rank %d%s%s%s|not come in %g s: %s|all",
            c->member[c->rank], c->member[missing], doing[0] ? " (" : "", doing,
            doing[0] ? ")" : "", c->deadline_s, who);
    err->rank = c->member[missing];
    return err->code;
}

static enum err_code stopped(const struct collective *c, int by, struct err *err)
{
    err_set(err, ERR_PROCESS, "collective|rank %d|rank %d has failed and will not come|all ranks",
            c->member[c->rank], by);
    err->rank = by;
    return err->code;
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
        uint64_t stop = atomic_load(&h->stopped);
        if (stop >> EPOCH_SHIFT == turn >> EPOCH_SHIFT)
            return stopped(c, (int)(stop & INT_MAX), err);
        double left = until - clock_seconds();
        if (!(left > 0)) return not_come(c, turn, missing, err);
        sleep_on(h, seen, left < WAIT_S ? left : WAIT_S);
    }
}

/* Arrives at `turn` with what is in this rank's window, and waits for the other members. */
static enum err_code meet(const struct collective *c, const struct collective_call *call,
                          uint64_t turn, struct err *err)
{
    struct collective_shm *s = state_of(c);
    struct slot *mine = slot_of(s, c->channel, s->rank);
    char what[96];
    say(call, c->world, &mine->said[turn & 1]);
    snprintf(what, sizeof what, "%s %s", collective_kind_name(call->kind), call->name);
    atomic_store(&mine->arrived, turn);
    ring(s);
    return wait_all(c, what, turn, err);
}

/* ---- the calls, a window at a time ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const double *numbers_of(const struct collective *c, int i, uint64_t turn)
{
    return (const double *)(const void *)window_of(state_of(c), c->channel, c->member[i], turn);
}

static void sum_windows(const struct collective *c, const struct collective_call *call,
                        uint64_t turn, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = dtype_round(call->dtype, numbers_of(c, 0, turn)[i]);
        for (int r = 1; r < c->world; r++)
            sum =
                dtype_round(call->dtype, sum + dtype_round(call->dtype, numbers_of(c, r, turn)[i]));
        x[i] = sum;
    }
}

static enum err_code all_reduce_sum(struct collective *c, const struct collective_call *call,
                                    struct err *err)
{
    const struct collective_shm *s = state_of(c);
    int64_t most = s->window / (int64_t)sizeof(double), at = 0;
    do { /* once for nothing too: the others have to see the same */
        uint64_t turn = next_turn(c);
        int64_t n = least(most, call->n - at);
        unsigned char *mine = window_of(s, c->channel, s->rank, turn);
        if (n > 0) memcpy(mine, call->sum + at, (size_t)n * sizeof(double));
        if (meet(c, call, turn, err) != ERR_OK) return err->code;
        sum_windows(c, call, turn, call->sum + at, n);
        at += n;
    } while (at < call->n);
    return ERR_OK;
}

/* Bytes of a part that travel in the window that begins at `at`. */
static int64_t stretch(const struct collective_shm *s, int64_t size, int64_t at)
{
    return at >= size ? 0 : least(s->window, size - at);
}

static void copy(void *to, const void *from, int64_t n)
{
    if (n > 0 && to != from) memmove(to, from, (size_t)n);
}

static enum err_code all_gather(struct collective *c, const struct collective_call *call,
                                struct err *err)
{
    const struct collective_shm *s = state_of(c);
    const char *part = call->part;
    int64_t most = 0, at = 0;
    for (int i = 0; i < c->world; i++) most = call->size[i] > most ? call->size[i] : most;
    do {
        uint64_t turn = next_turn(c);
        copy(window_of(s, c->channel, s->rank, turn), part + at,
             stretch(s, call->size[c->rank], at));
        if (meet(c, call, turn, err) != ERR_OK) return err->code;
        char *place = call->all;
        for (int i = 0; i < c->world; place += call->size[i++])
            copy(place + at, window_of(s, c->channel, c->member[i], turn),
                 stretch(s, call->size[i], at));
        at += s->window;
    } while (at < most);
    return ERR_OK;
}

static enum err_code broadcast(struct collective *c, const struct collective_call *call,
                               struct err *err)
{
    const struct collective_shm *s = state_of(c);
    int64_t size = call->size[call->root], at = 0;
    char *data = call->data;
    do {
        uint64_t turn = next_turn(c);
        unsigned char *window = window_of(s, c->channel, c->member[call->root], turn);
        if (c->rank == call->root) copy(window, data + at, stretch(s, size, at));
        if (meet(c, call, turn, err) != ERR_OK) return err->code;
        if (c->rank != call->root) copy(data + at, window, stretch(s, size, at));
        at += s->window;
    } while (at < size);
    return ERR_OK;
}

static enum err_code shm_run(struct collective *c, const struct collective_call *call,
                             struct err *err)
{
    switch (call->kind) {
    case COLLECTIVE_ALL_REDUCE_SUM:
        return all_reduce_sum(c, call, err);
    case COLLECTIVE_ALL_GATHER:
        return all_gather(c, call, err);
    case COLLECTIVE_BROADCAST:
        return broadcast(c, call, err);
    default:
        return meet(c, call, next_turn(c), err);
    }
}

static enum err_code shm_group(struct collective *out, const struct collective *whole,
                               struct err *err)
{
    out->state = whole->state;
    return err->code;
}

static enum err_code shm_watch(struct collective *c, const char *what, struct err *err)
{
    const struct collective_shm *s = state_of(c);
    uint64_t stop = atomic_load(&lobby_of(s)->stopped);
    if (s->waiting) s->waiting(s->ctx, what);
    if (what && stop >> EPOCH_SHIFT == next_turn(c) >> EPOCH_SHIFT)
        return stopped(c, (int)(stop & INT_MAX), err);
    return ERR_OK;
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
