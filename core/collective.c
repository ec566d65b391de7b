/* collective.c: the half of the collectives that is the same on every side: checks, a rank alone,
 * groups; see collective.h. */
#include "core/collective.h"

#include "core/check.h"

#include <string.h>

static const char *const kinds[COLLECTIVE_KINDS] = {
    [COLLECTIVE_BARRIER] = "barrier",
    [COLLECTIVE_ALL_REDUCE_SUM] = "all_reduce_sum",
    [COLLECTIVE_ALL_GATHER] = "all_gather",
    [COLLECTIVE_BROADCAST] = "broadcast",
};

const char *collective_kind_name(enum collective_kind kind)
{
    return (unsigned)kind < COLLECTIVE_KINDS ? kinds[kind] : "unknown collective";
}

void collective_self(struct collective *c)
{
    *c = (struct collective){.world = 1};
}

/* Who is in the group, and which place is this process's; -1: none. */
static int own_place(const struct collective *whole, const int *member, int members,
                     struct err *err)
{
    int place = -1;
    bool seen[COLLECTIVE_RANKS] = {false};
    for (int i = 0; i < members; i++) {
        int r = member[i];
        if (r < 0 || r >= whole->world || seen[r]) {
            err_set(err, ERR_INPUT, "group of ranks|member %d|rank %d%s|a rank of 0 .. %d, once", i,
                    r, r >= 0 && r < whole->world ? " again" : "", whole->world - 1);
            return -1;
        }
        seen[r] = true;
        if (r == whole->rank) place = i;
    }
    if (place < 0)
        err_set(err, ERR_INPUT, "group of ranks|%d of %d|rank %d is not in it|the calling rank",
                members, whole->world, whole->rank);
    return place;
}

enum err_code collective_group(struct collective *out, const struct collective *whole, int channel,
                               const int *member, int members, struct err *err)
{
    CHECK(whole->channel == 0 && members >= 0 && members <= COLLECTIVE_RANKS);
    if (channel < 1 || channel >= COLLECTIVE_CHANNELS)
        return err_set(err, ERR_INPUT, "group of ranks|channel|%d|1 .. %d", channel,
                       COLLECTIVE_CHANNELS - 1);
    int place = own_place(whole, member, members, err);
    if (place < 0) return err->code;
    *out = (struct collective){.side = members > 1 ? whole->side : NULL,
                               .rank = place,
                               .world = members,
                               .channel = channel,
                               .deadline_s = whole->deadline_s};
    memcpy(out->member, member, sizeof *member * (size_t)members);
    if (!out->side) return ERR_OK;
    if (!whole->side->group)
        return err_set(err, ERR_INPUT, "group of ranks|%d of %d|collectives of %s have none|all",
                       members, whole->world, whole->side->name);
    return whole->side->group(out, whole, err);
}

/* One call of the side; the error says which collective, and which rank is speaking. */
static enum err_code run(struct collective *c, const struct collective_call *call, struct err *err)
{
    c->calls++;
    if (!c->side) return ERR_OK;
    if (c->side->run(c, call, err) == ERR_OK) return ERR_OK;
    return err_note(err, "%s %.*s on rank %d, collective %lld of its group",
                    collective_kind_name(call->kind), COLLECTIVE_NAME - 1, call->name,
                    c->member[c->rank], (long long)c->calls);
}

enum err_code collective_all_reduce_sum(struct collective *c, const char *name, double *x,
                                        int64_t n, enum dtype dtype, struct err *err)
{
    CHECK(n >= 0 && (dtype == DT_F64 || dtype == DT_F32 || dtype == DT_BF16));
    const struct collective_call call = {
        .kind = COLLECTIVE_ALL_REDUCE_SUM, .name = name, .sum = x, .n = n, .dtype = dtype};
    for (int64_t i = 0; !c->side && i < n; i++) x[i] = dtype_round(dtype, x[i]);
    return run(c, &call, err);
}

enum err_code collective_all_gather(struct collective *c, const char *name, const void *part,
                                    int64_t bytes, void *all, struct err *err)
{
    int64_t size[COLLECTIVE_RANKS];
    for (int i = 0; i < c->world; i++) size[i] = bytes;
    return collective_all_gather_parts(c, name, part, size, all, err);
}

enum err_code collective_all_gather_parts(struct collective *c, const char *name, const void *part,
                                          const int64_t *bytes, void *all, struct err *err)
{
    for (int i = 0; i < c->world; i++) CHECK(bytes[i] >= 0);
    const struct collective_call call = {
        .kind = COLLECTIVE_ALL_GATHER, .name = name, .part = part, .all = all, .size = bytes};
    if (!c->side && part != all && bytes[0] > 0) memcpy(all, part, (size_t)bytes[0]);
    return run(c, &call, err);
}

enum err_code collective_broadcast(struct collective *c, const char *name, void *data,
                                   int64_t bytes, int root, struct err *err)
{
    CHECK(bytes >= 0 && root >= 0 && root < c->world);
    int64_t size[COLLECTIVE_RANKS] = {0};
    size[root] = bytes;
    const struct collective_call call = {
        .kind = COLLECTIVE_BROADCAST, .name = name, .data = data, .size = size, .root = root};
    return run(c, &call, err);
}

enum err_code collective_barrier(struct collective *c, const char *name, struct err *err)
{
    const struct collective_call call = {.kind = COLLECTIVE_BARRIER, .name = name};
    return run(c, &call, err);
}

/* What a member holds: how many bytes, and their FNV-1a. */
struct held {
    int64_t bytes;
    uint64_t hash;
};

static struct held held_of(const void *data, int64_t bytes)
{
    const unsigned char *p = data;
    struct held h = {bytes, 0xcbf29ce484222325u};
    for (int64_t i = 0; i < bytes; i++) h.hash = (h.hash ^ p[i]) * 0x100000001b3u;
    return h;
}

enum err_code collective_agree(struct collective *c, const char *name, const void *data,
                               int64_t bytes, struct err *err)
{
    struct held all[COLLECTIVE_RANKS], mine = held_of(data, bytes);
    if (collective_all_gather(c, name, &mine, sizeof mine, all, err) != ERR_OK) return err->code;
    for (int i = 1; i < c->world; i++) {
        if (all[i].bytes == all[0].bytes && all[i].hash == all[0].hash) continue;
        err_set(err, ERR_DIFF,
                "agree on a value|%.*s: rank %d against rank %d|%lld bytes of hash %016llx|%lld "
                "bytes of hash %016llx, as rank %d",
                COLLECTIVE_NAME - 1, name, c->member[i], c->member[0], (long long)all[i].bytes,
                (unsigned long long)all[i].hash, (long long)all[0].bytes,
                (unsigned long long)all[0].hash, c->member[0]);
        err->rank = c->member[i];
        return err->code;
    }
    return ERR_OK;
}

enum err_code collective_watch(struct collective *c, const char *what, struct err *err)
{
    return c->side && c->side->watch ? c->side->watch(c, what, err) : ERR_OK;
}
