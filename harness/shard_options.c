/* shard_options.c: see shard_options.h. */
#include "harness/shard_options.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

static const char *const reduces[] = {"f64", "f32", "bf16", NULL};
static const enum dtype dtypes[] = {DT_F64, DT_F32, DT_BF16};
enum { REDUCE_F32 = 1, REDUCES = sizeof dtypes / sizeof dtypes[0] };

enum err_code shard_options_read(const struct args *a, enum precision precision,
                                 struct shard_plan *out, struct err *err)
{
    const char *maps[EXPERT_MAPS + 1];
    int64_t tp, ep, redundant;
    int map, reduce;
    for (int i = 0; i <= EXPERT_MAPS; i++) maps[i] = expert_map_name(i);
    if (args_int(a, "--tp", 1, COLLECTIVE_RANKS, 1, &tp, err) != ERR_OK ||
        args_int(a, "--ep", 1, COLLECTIVE_RANKS, 1, &ep, err) != ERR_OK ||
        args_int(a, "--redundant", 0, INT32_MAX, 0, &redundant, err) != ERR_OK ||
        args_choice(a, "--expert-map", maps, EXPERT_MAP_CONTIGUOUS, &map, err) != ERR_OK ||
        args_choice(a, "--reduce", reduces, precision == PRECISION_F64 ? 0 : REDUCE_F32, &reduce,
                    err) != ERR_OK)
        return err->code;
    *out = (struct shard_plan){.tp = (int)tp,
                               .ep = (int)ep,
                               .map = (enum expert_map)map,
                               .redundant = redundant,
                               .reduce = dtypes[reduce]};
    if (shard_world(out) <= COLLECTIVE_RANKS) return ERR_OK;
    return err_set(err, ERR_USAGE, "option|--tp, --ep|%lld x %lld ranks|at most %d", (long long)tp,
                   (long long)ep, COLLECTIVE_RANKS);
}

bool shard_options_given(const struct args *a)
{
    return args_has(a, "--tp") || args_has(a, "--ep");
}

/* ---- in a dump ---- */

void shard_plan_meta(const struct shard_plan *p, struct shard_meta_room *room,
                     struct st_meta out[SHARD_METAS])
{
    int reduce = 0;
    while (reduce < REDUCES - 1 && dtypes[reduce] != p->reduce) reduce++;
    snprintf(room->tp, sizeof room->tp, "%d", p->tp);
    snprintf(room->ep, sizeof room->ep, "%d", p->ep);
    snprintf(room->redundant, sizeof room->redundant, "%lld", (long long)p->redundant);
    const struct st_meta meta[SHARD_METAS] = {{"assay.tp", room->tp},
                                              {"assay.ep", room->ep},
                                              {"assay.expert_map", expert_map_name((int)p->map)},
                                              {"assay.redundant", room->redundant},
                                              {"assay.reduce", reduces[reduce]}};
    memcpy(out, meta, sizeof meta);
}

static enum err_code meta_int(const struct dump *d, const char *key, int64_t least, int64_t most,
                              int64_t *out, struct err *err)
{
    const char *text = st_meta(&d->file, key);
    if (!text || (text_int(text, out) && *out >= least && *out <= most)) return ERR_OK;
    return err_set(err, ERR_INPUT, "dump metadata|%s: %s|%.40s|%lld to %lld", d->file.path, key,
                   text, (long long)least, (long long)most);
}

/* One of the names; absent: *out stays. */
static enum err_code meta_name(const struct dump *d, const char *key, const char *const *names,
                               int count, int *out, struct err *err)
{
    const char *text = st_meta(&d->file, key);
    if (!text) return ERR_OK;
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], text) != 0) continue;
        *out = i;
        return ERR_OK;
    }
    return err_set(err, ERR_INPUT, "dump metadata|%s: %s|%.40s|%s, or another of its kind",
                   d->file.path, key, text, names[0]);
}

enum err_code shard_plan_of_dump(const struct dump *d, struct shard_plan *out, bool *known,
                                 struct err *err)
{
    const char *maps[EXPERT_MAPS];
    int64_t tp = 1, ep = 1, redundant = 0;
    int map = EXPERT_MAP_CONTIGUOUS, reduce = REDUCE_F32;
    for (int i = 0; i < EXPERT_MAPS; i++) maps[i] = expert_map_name(i);
    if (meta_int(d, "assay.tp", 1, COLLECTIVE_RANKS, &tp, err) != ERR_OK ||
        meta_int(d, "assay.ep", 1, COLLECTIVE_RANKS, &ep, err) != ERR_OK ||
        meta_int(d, "assay.redundant", 0, INT32_MAX, &redundant, err) != ERR_OK ||
        meta_name(d, "assay.expert_map", maps, EXPERT_MAPS, &map, err) != ERR_OK ||
        meta_name(d, "assay.reduce", reduces, REDUCES, &reduce, err) != ERR_OK)
        return err->code;
    *out = (struct shard_plan){.tp = (int)tp,
                               .ep = (int)ep,
                               .map = (enum expert_map)map,
                               .redundant = redundant,
                               .reduce = dtypes[reduce]};
    *known = tp * ep > 1;
    if (tp * ep <= COLLECTIVE_RANKS) return ERR_OK;
    return err_set(err, ERR_INPUT,
                   "dump metadata|%s: assay.tp, assay.ep|%lld x %lld ranks|at most %d",
                   d->file.path, (long long)tp, (long long)ep, COLLECTIVE_RANKS);
}
