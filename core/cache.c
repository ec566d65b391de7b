/* cache.c: see cache.h. */
#include "core/cache.h"

#include "core/check.h"
#include "core/synth.h"

#include <math.h>
#include <string.h>

/* A permutation of the pool's blocks: Fisher-Yates with hash-random draws. */
static void shuffle(int32_t *order, int64_t n, uint64_t seed)
{
    uint64_t base = synth_base(seed, "cache.blocks");
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (int64_t i = n - 1; seed && i > 0; i--) {
        int64_t j = (int64_t)(synth_x(base, i) % (uint64_t)(i + 1));
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static int64_t blocks_for(int64_t tokens, int64_t block)
{
    CHECK(tokens >= 0);
    return tokens / block + (tokens % block != 0);
}

/* Blocks in all, and of the longest sequence. */
static enum err_code count_blocks(struct cache *c, const int64_t *lengths_max, struct err *err)
{
    for (int64_t s = 0; s < c->sequences; s++) {
        int64_t need = blocks_for(lengths_max[s], c->block);
        c->blocks += need;
        if (need > c->blocks_max) c->blocks_max = need;
    }
    if (c->blocks > INT32_MAX)
        return err_set(err, ERR_INPUT, "cache||%lld blocks|fewer than 2^31", (long long)c->blocks);
    return ERR_OK;
}

enum err_code cache_plan(struct cache *c, struct arena *arena, const struct cache_sizes *z,
                         struct err *err)
{
    CHECK(z->layers >= 0 && z->sequences >= 0 && z->width > 0);
    if (z->block < 1)
        return err_set(err, ERR_INPUT, "cache block size||%lld|at least 1", (long long)z->block);
    *c = (struct cache){
        .layers = z->layers, .sequences = z->sequences, .block = z->block, .width = z->width};
    if (count_blocks(c, z->lengths_max, err) != ERR_OK) return err->code;
    c->table =
        arena_alloc(arena, z->sequences * c->blocks_max, sizeof *c->table, "block tables", err);
    c->length = arena_alloc(arena, z->sequences, sizeof *c->length, "cache lengths", err);
    int32_t *order = arena_alloc(arena, c->blocks, sizeof *order, "block order", err);
    if (!c->table || !c->length || !order) return err->code;
    shuffle(order, c->blocks, z->seed);
    int64_t dealt = 0;
    for (int64_t s = 0; s < z->sequences; s++) {
        int64_t need = blocks_for(z->lengths_max[s], z->block);
        c->length[s] = 0;
        for (int64_t b = 0; b < c->blocks_max; b++)
            c->table[s * c->blocks_max + b] = b < need ? order[dealt++] : -1;
    }
    return ERR_OK;
}

enum err_code cache_pool(struct cache *c, struct arena *arena, struct err *err)
{
    int64_t cells;
    if (__builtin_mul_overflow(c->layers, c->blocks, &cells) ||
        __builtin_mul_overflow(cells, c->block, &cells) ||
        __builtin_mul_overflow(cells, c->width, &cells))
        return err_set(
            err, ERR_MEMORY,
            "allocate memory|latent cache|%lld layers x %lld blocks x %lld x %lld|enough memory",
            (long long)c->layers, (long long)c->blocks, (long long)c->block, (long long)c->width);
    c->pool = arena_alloc(arena, cells, sizeof *c->pool, "latent cache", err);
    for (int64_t i = 0; c->pool && i < cells; i++)
        c->pool[i] = NAN; /* what was never written must show when it is read */
    return err->code;
}

enum err_code cache_make(struct cache *c, struct arena *arena, int64_t layers, int64_t sequences,
                         const int64_t *lengths_max, int64_t block, int64_t width, uint64_t seed,
                         struct err *err)
{
    const struct cache_sizes sizes = {layers, sequences, lengths_max, block, width, seed};
    return cache_plan(c, arena, &sizes, err) == ERR_OK ? cache_pool(c, arena, err) : err->code;
}

static double *entry(const struct cache *c, int64_t layer, int64_t sequence, int64_t t)
{
    CHECK(layer >= 0 && layer < c->layers && sequence >= 0 && sequence < c->sequences && t >= 0);
    CHECK(t / c->block < c->blocks_max);
    int64_t b = c->table[sequence * c->blocks_max + t / c->block];
    CHECK(b >= 0 && b < c->blocks);
    return c->pool + ((layer * c->blocks + b) * c->block + t % c->block) * c->width;
}

const double *cache_read(const struct cache *c, int64_t layer, int64_t sequence, int64_t t)
{
    return entry(c, layer, sequence, t);
}

double *cache_write(struct cache *c, int64_t layer, int64_t sequence, int64_t t)
{
    return entry(c, layer, sequence, t);
}

void cache_move(struct cache *c, int64_t sequence, int64_t from, int64_t to)
{
    for (int64_t layer = 0; layer < c->layers && from != to; layer++)
        memcpy(cache_write(c, layer, sequence, to), cache_read(c, layer, sequence, from),
               (size_t)c->width * sizeof *c->pool);
}

/* ---- what a row sees ---- */

int64_t rows_span(const struct rows *r, int64_t i)
{
    return r->span ? r->span[i] : rows_slot(r, i) + 1;
}

int64_t rows_extras(const struct rows *r, int64_t i, const int64_t **list)
{
    int64_t n = 0;
    if (!r->extra) return 0;
    *list = r->extra + i * r->extra_max;
    while (n < r->extra_max && (*list)[n] >= 0) n++;
    return n;
}

int64_t rows_context(const struct rows *r, int64_t i)
{
    const int64_t *list;
    int64_t n = rows_extras(r, i, &list);
    return n > 0 ? list[n - 1] + 1 : rows_span(r, i);
}

void rows_extend(const struct rows *r, struct cache *c)
{
    for (int64_t i = 0; i < r->count; i++) {
        int64_t *length = &c->length[r->sequence[i]];
        CHECK(rows_slot(r, i) <= *length);
        if (rows_slot(r, i) == *length) (*length)++;
    }
}

/* Extras ascend and lie past the span. */
static enum err_code check_extras(const struct rows *r, int64_t i, const char *what,
                                  struct err *err)
{
    const int64_t *list;
    int64_t n = rows_extras(r, i, &list), at = rows_span(r, i);
    for (int64_t k = 0; k < n; at = list[k++] + 1) {
        if (list[k] < at)
            return err_set(
                err, ERR_INPUT,
                "%s|row %lld, seen slot %lld of its list|%lld|%lld or more: slots ascend", what,
                (long long)i, (long long)k, (long long)list[k], (long long)at);
    }
    return ERR_OK;
}

enum err_code rows_check(const struct rows *r, const struct cache *c, const char *what,
                         struct err *err)
{
    for (int64_t i = 0; i < r->count; i++) {
        int64_t s = r->sequence[i];
        if (s < 0 || s >= c->sequences)
            return err_set(err, ERR_INPUT, "%s|row %lld|sequence %lld|0 to %lld", what,
                           (long long)i, (long long)s, (long long)c->sequences - 1);
        if (r->position[i] < 0 || rows_slot(r, i) < 0 || rows_slot(r, i) >= c->length[s])
            return err_set(err, ERR_INPUT,
                           "%s|row %lld|position %lld|inside the %lld cached tokens", what,
                           (long long)i, (long long)rows_slot(r, i), (long long)c->length[s]);
        if (check_extras(r, i, what, err) != ERR_OK) return err->code;
        if (rows_span(r, i) < 0 || rows_context(r, i) < 1 || rows_context(r, i) > c->length[s])
            return err_set(err, ERR_INPUT,
                           "%s|row %lld|a view of %lld tokens|1 to the %lld cached tokens", what,
                           (long long)i, (long long)rows_context(r, i), (long long)c->length[s]);
    }
    return ERR_OK;
}
