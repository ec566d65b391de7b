/* collective_window.c: see collective_window.h. */
#include "harness/collective_window.h"

#include <stdio.h>
#include <string.h>

/* ---- what members say ---- */

void collective_say(const struct collective_call *call, int world, struct collective_said *out)
{
    *out = (struct collective_said){
        .kind = call->kind, .dtype = call->dtype, .root = call->root, .n = call->n};
    for (int i = 0; call->size && i < world; i++)
        out->sizes = (out->sizes ^ (uint64_t)call->size[i]) * 0x100000001b3u + 1;
    snprintf(out->name, sizeof out->name, "%s", call->name);
}

static void said_text(const struct collective_said *s, char *text, size_t size)
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

enum err_code collective_compare(const struct collective *c,
                                 const struct collective_said *const *said, struct err *err)
{
    char is[96], other[96];
    for (int i = 1; i < c->world; i++) {
        if (memcmp(said[0], said[i], sizeof *said[0]) == 0) continue;
        said_text(said[i], is, sizeof is);
        said_text(said[0], other, sizeof other);
        bool sizes = said[i]->sizes != said[0]->sizes && strcmp(is, other) == 0;
        err_set(err, ERR_PROCESS, "collective|rank %d against rank %d|%s%s|%s, as rank %d",
                c->member[i], c->member[0], is, sizes ? " of other sizes" : "", other,
                c->member[0]);
        err->rank = c->member[i];
        return err->code;
    }
    return ERR_OK;
}

void collective_describe(const struct collective_call *call, char *text, size_t size)
{
    snprintf(text, size, "%s %s", collective_kind_name(call->kind), call->name);
}

/* ---- who does not come ---- */

/* "1, 3" or "1 on node1, 3 on node2". */
static void list_missing(const struct collective *c, const bool *came,
                         const char (*host)[COLLECTIVE_HOST], char *text, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < c->world && n < size; i++) {
        int rank = c->member[i];
        if (came[i]) continue;
        n += (size_t)snprintf(text + n, size - n, "%s%d%s%s", n ? ", " : "", rank,
                              host ? " on " : "", host ? host[rank] : "");
    }
}

enum err_code collective_not_come(const struct collective *c, const bool *came, const char *doing,
                                  const char (*host)[COLLECTIVE_HOST], struct err *err)
{
    char who[96] = "";
    int missing = 0;
    while (missing < c->world - 1 && came[missing]) missing++;
    list_missing(c, came, host, who, sizeof who);
    err_set(err, ERR_PROCESS, "collective|rank %d waits for rank %d%s%s%s|not come in %g s: %s|all",
            c->member[c->rank], c->member[missing], doing[0] ? " (" : "", doing,
            doing[0] ? ")" : "", c->deadline_s, who);
    err->rank = c->member[missing];
    return err->code;
}

enum err_code collective_stopped(const struct collective *c, int by, struct err *err)
{
    err_set(err, ERR_PROCESS, "collective|rank %d|rank %d has failed and will not come|all ranks",
            c->member[c->rank], by);
    err->rank = by;
    return err->code;
}

/* ---- the calls, a window at a time ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void copy(void *to, const void *from, int64_t n)
{
    if (n > 0 && to != from) memmove(to, from, (size_t)n);
}

/* The windows of all members, `bytes[i]` of each at least. */
static enum err_code windows_of(const struct collective *c, const struct collective_exchange *x,
                                const int64_t *bytes, const unsigned char **out, struct err *err)
{
    for (int i = 0; i < c->world; i++) {
        out[i] = x->of(c, i, bytes[i]);
        if (out[i]) continue;
        err_set(err, ERR_PROCESS, "collective|rank %d, from rank %d|too few bytes|%lld",
                c->member[c->rank], c->member[i], (long long)bytes[i]);
        err->rank = c->member[i];
        return err->code;
    }
    return ERR_OK;
}

static double number(const unsigned char *window, int64_t i)
{
    return ((const double *)(const void *)window)[i];
}

static void sum_windows(const struct collective *c, enum dtype dtype,
                        const unsigned char *const *window, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = dtype_round(dtype, number(window[0], i));
        for (int r = 1; r < c->world; r++)
            sum = dtype_round(dtype, sum + dtype_round(dtype, number(window[r], i)));
        x[i] = sum;
    }
}

static enum err_code all_reduce_sum(struct collective *c, const struct collective_call *call,
                                    const struct collective_exchange *x, struct err *err)
{
    const unsigned char *window[COLLECTIVE_RANKS];
    int64_t bytes[COLLECTIVE_RANKS];
    int64_t most = x->window / (int64_t)sizeof(double), at = 0;
    do { /* once for nothing too: the others have to see the same */
        int64_t n = least(most, call->n - at), size = n * (int64_t)sizeof(double);
        for (int i = 0; i < c->world; i++) bytes[i] = size;
        copy(x->mine(c), call->sum + at, size);
        if (x->meet(c, call, size, err) != ERR_OK || windows_of(c, x, bytes, window, err) != ERR_OK)
            return err->code;
        sum_windows(c, call->dtype, window, call->sum + at, n);
        at += n;
    } while (at < call->n);
    return ERR_OK;
}

/* Bytes of a part that travel in the window that begins at `at`. */
static int64_t stretch(const struct collective_exchange *x, int64_t size, int64_t at)
{
    return at >= size ? 0 : least(x->window, size - at);
}

static enum err_code all_gather(struct collective *c, const struct collective_call *call,
                                const struct collective_exchange *x, struct err *err)
{
    const unsigned char *window[COLLECTIVE_RANKS];
    int64_t bytes[COLLECTIVE_RANKS], most = 0, at = 0;
    const char *part = call->part;
    for (int i = 0; i < c->world; i++) most = call->size[i] > most ? call->size[i] : most;
    do {
        for (int i = 0; i < c->world; i++) bytes[i] = stretch(x, call->size[i], at);
        copy(x->mine(c), part + at, bytes[c->rank]);
        if (x->meet(c, call, bytes[c->rank], err) != ERR_OK ||
            windows_of(c, x, bytes, window, err) != ERR_OK)
            return err->code;
        char *place = call->all;
        for (int i = 0; i < c->world; place += call->size[i++])
            copy(place + at, window[i], bytes[i]);
        at += x->window;
    } while (at < most);
    return ERR_OK;
}

static enum err_code broadcast(struct collective *c, const struct collective_call *call,
                               const struct collective_exchange *x, struct err *err)
{
    const unsigned char *window[COLLECTIVE_RANKS];
    int64_t bytes[COLLECTIVE_RANKS] = {0}, size = call->size[call->root], at = 0;
    char *data = call->data;
    do {
        int64_t n = bytes[call->root] = stretch(x, size, at);
        if (c->rank == call->root) copy(x->mine(c), data + at, n);
        if (x->meet(c, call, bytes[c->rank], err) != ERR_OK ||
            windows_of(c, x, bytes, window, err) != ERR_OK)
            return err->code;
        if (c->rank != call->root) copy(data + at, window[call->root], n);
        at += x->window;
    } while (at < size);
    return ERR_OK;
}

enum err_code collective_by_window(struct collective *c, const struct collective_call *call,
                                   const struct collective_exchange *x, struct err *err)
{
    switch (call->kind) {
    case COLLECTIVE_ALL_REDUCE_SUM:
        return all_reduce_sum(c, call, x, err);
    case COLLECTIVE_ALL_GATHER:
        return all_gather(c, call, x, err);
    case COLLECTIVE_BROADCAST:
        return broadcast(c, call, x, err);
    default:
        return x->meet(c, call, 0, err);
    }
}
