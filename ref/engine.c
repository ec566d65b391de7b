/* engine.c: the reference as an engine. Contract: core/engine.h; test tests/test_engine.c. It keeps
 * nothing of its own: weights are read where they are mapped, caches lie in the caller's arena. */
#include "core/engine.h"

static enum err_code open_model(const struct model *model, void **self, struct err *err)
{
    (void)model;
    *self = NULL;
    return err->code;
}

static void close_model(void *self)
{
    (void)self;
}

static enum err_code open_cache(void *self, struct cache *c, struct arena *arena, struct err *err)
{
    (void)self;
    return cache_pool(c, arena, err);
}

static void close_cache(void *self, struct cache *c)
{
    (void)self;
    (void)c;
}

static enum err_code move(void *self, struct cache *c, int64_t sequence, int64_t from, int64_t to,
                          struct err *err)
{
    (void)self;
    cache_move(c, sequence, from, to);
    return err->code;
}

static enum err_code step(void *self, const struct step *s, struct run *run, struct err *err)
{
    (void)self;
    return model_step_ref(s, run, err);
}

static enum err_code draft(void *self, const struct draft_step *s, struct run *run, struct err *err)
{
    (void)self;
    return draft_step_ref(s, run, err);
}

static const struct engine_kind kind = {.name = "ref",
                                        .about = "assay ref",
                                        .profile = "math",
                                        .imitates = true,
                                        .rows_alone = true,
                                        .side = ref_side,
                                        .open = open_model,
                                        .close = close_model,
                                        .cache_open = open_cache,
                                        .cache_close = close_cache,
                                        .cache_move = move,
                                        .step = step,
                                        .draft = draft};

const struct engine_kind *ref_engine(void)
{
    return &kind;
}
