/* shard_options.c: see shard_options.h. */
#include "harness/shard_options.h"

enum err_code shard_options_read(const struct args *a, enum precision precision,
                                 struct shard_plan *out, struct err *err)
{
    static const char *const reduces[] = {"f64", "f32", "bf16", NULL};
    static const enum dtype dtypes[] = {DT_F64, DT_F32, DT_BF16};
    const char *maps[EXPERT_MAPS + 1];
    int64_t tp, ep, redundant;
    int map, reduce;
    for (int i = 0; i <= EXPERT_MAPS; i++) maps[i] = expert_map_name(i);
    if (args_int(a, "--tp", 1, COLLECTIVE_RANKS, 1, &tp, err) != ERR_OK ||
        args_int(a, "--ep", 1, COLLECTIVE_RANKS, 1, &ep, err) != ERR_OK ||
        args_int(a, "--redundant", 0, INT32_MAX, 0, &redundant, err) != ERR_OK ||
        args_choice(a, "--expert-map", maps, EXPERT_MAP_CONTIGUOUS, &map, err) != ERR_OK ||
        args_choice(a, "--reduce", reduces, precision == PRECISION_F64 ? 0 : 1, &reduce, err) !=
            ERR_OK)
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
