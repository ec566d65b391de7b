/* engine.c: see engine.h. */
#include "core/engine.h"

enum err_code engine_usable(const struct engine_kind *k, struct err *err)
{
    const struct op_side *side = k->side();
    if (side->available) return ERR_OK;
    return err_set(err, ERR_DEVICE, "run|--on %s|%s|a build and a machine with a CUDA device",
                   k->name, side->why_not);
}

enum err_code engine_open(struct engine *e, const struct engine_kind *k, const struct model *model,
                          struct err *err)
{
    *e = (struct engine){0};
    if (engine_usable(k, err) != ERR_OK) return err->code;
    void *self = NULL;
    if (k->open(model, &self, err) == ERR_OK) *e = (struct engine){k, self};
    return err->code;
}

void engine_close(struct engine *e)
{
    if (e->kind) e->kind->close(e->self);
    *e = (struct engine){0};
}

const char *engine_device(const struct engine *e)
{
    return e->kind->device ? e->kind->device(e->self) : "";
}

enum err_code engine_cache_open(const struct engine *e, struct cache *c, struct arena *arena,
                                const struct cache_sizes *sizes, struct err *err)
{
    if (cache_plan(c, arena, sizes, err) != ERR_OK) return err->code;
    return e->kind->cache_open(e->self, c, arena, err);
}

void engine_cache_close(const struct engine *e, struct cache *c)
{
    if (c->table) e->kind->cache_close(e->self, c);
    *c = (struct cache){0};
}

enum err_code engine_cache_move(const struct engine *e, struct cache *c, int64_t sequence,
                                int64_t from, int64_t to, struct err *err)
{
    return from == to ? ERR_OK : e->kind->cache_move(e->self, c, sequence, from, to, err);
}

enum err_code engine_step(const struct engine *e, const struct step *s, struct run *run,
                          struct err *err)
{
    return e->kind->step(e->self, s, run, err);
}

enum err_code engine_draft(const struct engine *e, const struct draft_step *s, struct run *run,
                           struct err *err)
{
    return e->kind->draft(e->self, s, run, err);
}
