/* shard_replicas.c: partial sums that several ranks hold alike, held against each other; see
 * shard_parts.h. Test: tests/test_shard_replicas.c */
#include "core/shard_parts.h"

#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t shard_hash(const double *x, int64_t n)
{
    uint64_t h = 0xcbf29ce484222325u, word;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&word, x + i, sizeof word);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 29;
    }
    return h;
}

/* Of the replicas of rank r, which are its t on every e: how many hold what it holds. */
static int alike(const struct shard_plan *p, const struct shard_held *all, int r, bool sums)
{
    int n = 0;
    for (int e = 0; e < p->ep; e++) {
        const struct shard_held *other = &all[e * p->tp + r % p->tp];
        n += sums ? other->sum == all[r].sum : other->part == all[r].part;
    }
    return n;
}

int shard_outvoted(const struct shard_plan *p, const struct shard_held *all, bool sums,
                   int suspect[COLLECTIVE_RANKS], bool *decided)
{
    int n = 0;
    *decided = true;
    for (int r = 0; r < shard_world(p); r++) {
        bool majority = false;
        for (int e = 0; e < p->ep; e++)
            majority |= 2 * alike(p, all, e * p->tp + r % p->tp, sums) > p->ep;
        if (2 * alike(p, all, r, sums) > p->ep) continue; /* among the most, or all agree */
        suspect[n++] = r;
        *decided &= majority;
    }
    return n;
}

/* "rank 3", "ranks 0, 1 and 2". */
static void name_ranks(const int *rank, int n, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "rank%s ", n > 1 ? "s" : "");
    for (int i = 0; i < n && at < size; i++) {
        const char *joint = i == 0 ? "" : i == n - 1 ? " and " : ", ";
        at += (size_t)snprintf(text + at, size - at, "%s%d", joint, rank[i]);
    }
}

/* Ranks whose partial sum is not what their part of the checkpoint gives when it is cut and
 * multiplied anew. */
static enum err_code try_again(const struct shard *s, const struct shard_site *at, const char *name,
                               uint64_t part, int suspect[COLLECTIVE_RANKS], int *n,
                               struct err *err)
{
    int32_t wrong[COLLECTIVE_RANKS], mine;
    int64_t cells = at->T * at->width;
    double *x = malloc((size_t)cells * sizeof *x + 1);
    if (!x) return err_set(err, ERR_MEMORY, "sum over ranks|%s|no memory|its part anew", name);
    (void)!at->again(at->again_ctx, x, err);
    mine = shard_hash(x, cells) != part;
    free(x);
    if (err->code != ERR_OK ||
        collective_all_gather(s->all, name, &mine, sizeof mine, wrong, err) != ERR_OK)
        return err->code;
    for (int r = 0; r < s->world; r++) {
        if (wrong[r]) suspect[(*n)++] = r;
    }
    return ERR_OK;
}

enum err_code shard_replicas_agree(const struct shard *s, const struct shard_site *at,
                                   const char *name, struct shard_held mine, struct err *err)
{
    struct shard_held all[COLLECTIVE_RANKS];
    int suspect[COLLECTIVE_RANKS], n = 0;
    char who[256];
    bool same = true, decided = true;
    const char *found = "a partial sum that their part of the weights does not give";
    if (collective_all_gather(s->all, name, &mine, sizeof mine, all, err) != ERR_OK)
        return err->code;
    for (int r = 1; r < s->world; r++) same &= all[r].sum == all[0].sum;
    if (same) return ERR_OK;
    if (at->again && try_again(s, at, name, mine.part, suspect, &n, err) != ERR_OK)
        return err->code;
    for (int sums = 0; sums < 2 && n == 0; sums++) {
        n = shard_outvoted(&s->plan, all, sums, suspect, &decided);
        found = decided ? "other bits than most of those that hold the same part"
                        : "different bits of the same part, and no majority that would say whose "
                          "are wrong";
    }
    CHECK(n > 0);
    name_ranks(suspect, n, who, sizeof who);
    err_set(err, ERR_DIFF, "sum over ranks|%s: %s|%s|one sum on all replicas", name, who, found);
    err->rank = suspect[0];
    return err->code;
}
