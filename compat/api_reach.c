/* api_reach.c: see api_reach.h. A set of addresses, and a list of misses, each once. */
#include "compat/api_reach.h"

#include <stdint.h>
#include <string.h>

void api_reach_begin(struct api_reach *r, struct arena *arena)
{
    *r = (struct api_reach){.pool = {.arena = arena}, .err = ERR_INIT};
}

static const void **slot_of(const void **slot, int64_t slots, const void *object)
{
    uint64_t x = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u;
    int64_t i = (int64_t)(x >> 20) & (slots - 1);
    while (slot[i] && slot[i] != object) i = (i + 1) & (slots - 1);
    return &slot[i];
}

static bool grow(struct api_reach *r)
{
    int64_t slots = r->slots ? 2 * r->slots : 1024;
    const void **fresh = pool_take(&r->pool, (size_t)slots, sizeof *fresh, &r->err);
    if (!fresh) return false;
    for (int64_t i = 0; i < r->slots; i++) {
        if (r->slot[i]) *slot_of(fresh, slots, r->slot[i]) = r->slot[i];
    }
    r->slot = fresh;
    r->slots = slots;
    return true;
}

void api_reach_add(struct api_reach *r, const void *object)
{
    if (!object || (2 * r->used >= r->slots && !grow(r))) return;
    const void **slot = slot_of(r->slot, r->slots, object);
    if (*slot) return;
    *slot = object;
    r->used++;
}

bool api_reached(const struct api_reach *r, const void *object)
{
    return r->slots && *slot_of(r->slot, r->slots, object);
}

void api_note(const struct api *a, const void *object)
{
    if (a->reach) api_reach_add(a->reach, object);
}

static bool is_known(const struct api_reach *r, const void *holder, const char *name)
{
    for (int i = 0; i < r->misses; i++) {
        if (r->miss[i].holder == holder && strcmp(r->miss[i].name, name) == 0) return true;
    }
    return false;
}

static bool make_room(struct api_reach *r)
{
    if (r->misses < r->miss_room) return true;
    int room = r->miss_room ? 2 * r->miss_room : 64;
    struct api_miss *fresh = pool_take(&r->pool, (size_t)room, sizeof *fresh, &r->err);
    if (!fresh) return false;
    if (r->misses) memcpy(fresh, r->miss, (size_t)r->misses * sizeof *fresh);
    r->miss = fresh;
    r->miss_room = room;
    return true;
}

void api_note_miss(const struct api *a, const struct api_module *holder, const char *name,
                   const char *const *now, int nows)
{
    struct api_reach *r = a->reach;
    if (!r || is_known(r, holder, name) || !make_room(r)) return;
    struct api_miss m = {.holder = holder, .nows = nows};
    const char **texts = pool_take(&r->pool, (size_t)nows + 1, sizeof *texts, &r->err);
    m.name = pool_text(&r->pool, name, strlen(name), &r->err);
    if (!texts || !m.name) return;
    for (int i = 0; i < nows; i++) {
        texts[i] = pool_text(&r->pool, now[i], strlen(now[i]), &r->err);
        if (!texts[i]) return;
    }
    m.now = texts;
    r->miss[r->misses++] = m;
}
