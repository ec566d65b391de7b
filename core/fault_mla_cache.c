/* fault_mla_cache.c: attention rows that see the wrong tokens, cached entries that are not what
 * they should be. Test: tests/test_fault_mla.c */
#include "core/fault_edits.h"
#include "core/mla.h"

#include <math.h>
#include <string.h>

/* ---- what rows see ---- */

static enum err_code with_view(struct fault_call *c, const void *arg, struct run *run,
                               fault_sees *sees, struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    struct arena_block *mark = arena_mark(run->arena);
    struct fault_view v;
    if (fault_view_make(&v, op.rows, fault_longest(op.rows), run, err) == ERR_OK) {
        fault_thin_out(c, &op, &v, sees);
        op.rows = &v.rows;
        (void)!fault_next(c, &op, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

static enum err_code mask_sees_next(struct fault_call *c, const void *arg, struct run *run,
                                    struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    struct arena_block *mark = arena_mark(run->arena);
    struct fault_view v;
    if (fault_view_make(&v, op.rows, fault_longest(op.rows), run, err) == ERR_OK) {
        for (int64_t i = 0; i < op.rows->count; i++) {
            const int64_t *list;
            int64_t length = op.cache->length[op.rows->sequence[i]];
            bool plain = rows_extras(op.rows, i, &list) == 0;
            if (plain && v.span[i] < length) v.span[i]++;
        }
        op.rows = &v.rows;
        (void)!fault_next(c, &op, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

static bool not_itself(const struct fault_call *c, const struct mla_core *op, int64_t i,
                       int64_t slot)
{
    (void)c;
    return slot != rows_slot(op->rows, i);
}

static bool in_window(const struct fault_call *c, const struct mla_core *op, int64_t i,
                      int64_t slot)
{
    return slot > rows_slot(op->rows, i) - (int64_t)fault_value(c->use, "size");
}

/* Where the chunk of row i begins: that of key `chunk`, or the step's own. */
static int64_t chunk_begins(const struct fault_call *c, const struct rows *rows, int64_t i)
{
    int64_t chunk = (int64_t)fault_value(c->use, "chunk");
    if (chunk > 0) return rows_slot(rows, i) / chunk * chunk;
    return fault_step_begins(rows, i);
}

static bool not_before_chunk(const struct fault_call *c, const struct mla_core *op, int64_t i,
                             int64_t slot)
{
    return slot != chunk_begins(c, op->rows, i) - 1;
}

static bool outside_split(const struct fault_call *c, const struct mla_core *op, int64_t i,
                          int64_t slot)
{
    int64_t splits = (int64_t)fault_value(c->use, "splits");
    int64_t split = (int64_t)fault_value(c->use, "split"), n = rows_context(op->rows, i);
    if (splits < 2 || split >= splits) return true;
    return slot < rank_begin(n, split, splits) || slot >= rank_begin(n, split + 1, splits);
}

#define WITH_VIEW(name, sees)                                                                      \
    static enum err_code name(struct fault_call *c, const void *arg, struct run *run,              \
                              struct err *err)                                                     \
    {                                                                                              \
        return with_view(c, arg, run, sees, err);                                                  \
    }

WITH_VIEW(mask_misses_self, not_itself)
WITH_VIEW(mask_window, in_window)
WITH_VIEW(chunk_boundary, not_before_chunk)
WITH_VIEW(split_kv_merge, outside_split)

/* ---- what the cache holds ---- */

/* The op's layer alone, in memory of our own; the block tables too. */
static enum err_code own_cache(struct cache *own, const struct mla_core *op, struct run *run,
                               struct err *err)
{
    const struct cache *c = op->cache;
    int64_t cells = c->blocks * c->block * c->width, entries = c->sequences * c->blocks_max;
    *own = *c;
    own->layers = 1;
    own->pool = fault_copy(run, c->pool + op->layer * cells, cells, err);
    own->table = arena_alloc(run->arena, entries, sizeof *own->table, "block tables", err);
    if (!own->pool || !own->table) return err->code;
    memcpy(own->table, c->table, (size_t)entries * sizeof *own->table);
    return ERR_OK;
}

typedef void edit_cache(const struct fault_call *c, struct cache *own);

static enum err_code with_cache(struct fault_call *c, const void *arg, struct run *run,
                                edit_cache *edit, struct err *err)
{
    struct mla_core op = *(const struct mla_core *)arg;
    struct arena_block *mark = arena_mark(run->arena);
    struct cache own;
    if (own_cache(&own, &op, run, err) == ERR_OK) {
        edit(c, &own);
        op.cache = &own;
        op.layer = 0;
        (void)!fault_next(c, &op, run, err);
    }
    arena_release(run->arena, mark);
    return err->code;
}

static void keep_stale(const struct fault_call *c, struct cache *own)
{
    for (int64_t s = 0; s < own->sequences; s++) {
        int64_t length = own->length[s], slot = (int64_t)fault_value(c->use, "slot");
        if (slot < 0) slot = length / 2;
        if (slot >= length || length < 2) continue;
        memcpy(cache_write(own, 0, s, slot), cache_read(own, 0, s, slot > 0 ? slot - 1 : 1),
               (size_t)own->width * sizeof(double));
    }
}

static void alias_block(const struct fault_call *c, struct cache *own)
{
    int64_t b = (int64_t)fault_value(c->use, "block");
    for (int64_t s = 0; s < own->sequences; s++) {
        int32_t *table = own->table + s * own->blocks_max;
        if (b * own->block < own->length[s]) table[b] = table[0];
    }
}

/* The newest entry lands on token 0. */
static void overwrite_first(const struct fault_call *c, struct cache *own)
{
    (void)c;
    for (int64_t s = 0; s < own->sequences; s++) {
        if (own->length[s] < 2) continue;
        memcpy(cache_write(own, 0, s, 0), cache_read(own, 0, s, own->length[s] - 1),
               (size_t)own->width * sizeof(double));
    }
}

static enum err_code cache_first_overwritten(struct fault_call *c, const void *arg, struct run *run,
                                             struct err *err)
{
    return with_cache(c, arg, run, overwrite_first, err);
}

static enum err_code stale_cache_row(struct fault_call *c, const void *arg, struct run *run,
                                     struct err *err)
{
    return with_cache(c, arg, run, keep_stale, err);
}

static enum err_code cache_block_alias(struct fault_call *c, const void *arg, struct run *run,
                                       struct err *err)
{
    return with_cache(c, arg, run, alias_block, err);
}

static const double tries_window[] = {4, 8, 16, 32, 64, 128, 512, 1024, 4096, NAN};
static const double tries_chunk[] = {8, 16, 32, 64, 128, 256, 512, 2048, 8192, NAN};
static const double tries_block[] = {1, 2, 3, NAN};
static const double tries_splits[] = {2, 3, 4, 8, 16, NAN};
static const double tries_split[] = {0, 1, 2, 3, 4, 5, 6, 7, NAN};

#define CORE .hosts = {"mla.core"}, .detector = "diff"

const struct fault_row fault_rows_mla_cache[] = {
    {.id = "mla.mask_sees_next",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = mask_sees_next,
     .edit = "a row sees the token after it",
     .source = "model math 11.39"},
    {.id = "mla.mask_misses_self",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = mask_misses_self,
     .edit = "a row does not see itself (the first one still does)",
     .source = "our own"},
    {.id = "mla.window",
     CORE,
     .wrap = mask_window,
     .keys = {KEY_LAYER, KEY_TRY("size", 8, tries_window, "tokens that a row sees")},
     .edit = "a row sees a window of the last tokens",
     .source = "our own"},
    {.id = "mla.chunk_boundary",
     CORE,
     .wrap = chunk_boundary,
     .keys = {KEY_LAYER, KEY_TRY("chunk", -1, tries_chunk, "tokens of a chunk; the step's own")},
     .edit = "rows do not see the last token before their chunk",
     .source = "B033"},
    {.id = "mla.split_kv_merge",
     CORE,
     .wrap = split_kv_merge,
     .keys = {KEY_LAYER, KEY_TRY("splits", 2, tries_splits, "parts that a row's tokens are cut in"),
              KEY_TRY("split", 0, tries_split, "the one that is left out")},
     .edit = "the merge of split KV leaves one split out",
     .source = "B019, B020"},
    {.id = "mla.stale_cache_row",
     CORE,
     .wrap = stale_cache_row,
     .keys = {KEY_LAYER, KEY_SITE("slot", "token of a sequence; not given: the middle one")},
     .edit = "a cached entry still holds its neighbour's",
     .source = "B036, B087"},
    {.id = "mla.cache_block_alias",
     CORE,
     .wrap = cache_block_alias,
     .keys = {KEY_LAYER, KEY_TRY("block", 1, tries_block, "block of a sequence")},
     .edit = "a block of a sequence's table leads to its first block",
     .source = "B087, model math 11.40"},
    {.id = "mla.cache_first_overwritten",
     CORE,
     .keys = {KEY_LAYER},
     .wrap = cache_first_overwritten,
     .edit = "the newest entry is written over token 0's: a clamped position, a padding slot",
     .source = "B090, model math 11.40"},
    {0},
};
