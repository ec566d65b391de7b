/* engine.cu: the CUDA path as an engine. Contract: core/engine.h; twin for builds without CUDA:
 * gpu/none.c. Tests without a device: tests/test_engine.c; with one: ci/gpu.sh. */
#include "core/engine.h"

#include "core/check.h"
#include "gpu/collective.cuh"
#include "gpu/model.cuh"
#include "gpu/model_draft.cuh"

#include <stdio.h>
#include <stdlib.h>

struct own {
    struct gpu *g;
    struct gpu_model model;
    struct gpu_draft draft;
    char device[96 + TRANSPORT_TEXT];
};

static void close_model(void *self)
{
    struct own *o = (struct own *)self;
    gpu_draft_close(&o->draft);
    gpu_model_close(&o->model);
    free(o);
}

static enum err_code open_model(const struct model *model, void **self, struct err *err)
{
    bool ranks = model->shard && model->shard->world > 1;
    if (ranks && gpu_ranks_select(model->shard, err) != ERR_OK) return err->code;
    struct gpu *g = gpu_get(err);
    if (!g) return err->code;
    struct own *o = (struct own *)calloc(1, sizeof *o);
    if (!o) return err_set(err, ERR_MEMORY, "open engine|host|no memory");
    o->g = g;
    o->draft.g = g;
    if (gpu_model_open(g, model, &o->model, err) == ERR_OK)
        *self = o;
    else
        close_model(o);
    if (err->code == ERR_OK)
        snprintf(o->device, sizeof o->device, "%s, compute capability %d.%d%s%s", g->name, g->major,
                 g->minor, ranks ? ", " : "", ranks ? o->model.ranks->transport.text : "");
    return err->code;
}

static const char *device(void *self)
{
    return ((struct own *)self)->device;
}

static enum err_code open_cache(void *self, struct cache *c, struct arena *arena, struct err *err)
{
    (void)arena;
    return gpu_cache_open(((struct own *)self)->g, c, err);
}

static void close_cache(void *self, struct cache *c)
{
    struct own *o = (struct own *)self;
    gpu_graphs_forget(&o->model, gpu_cache_of(c));
    gpu_cache_close(o->g, c);
}

static enum err_code move(void *self, struct cache *c, int64_t sequence, int64_t from, int64_t to,
                          struct err *err)
{
    return gpu_cache_move(((struct own *)self)->g, gpu_cache_of(c), sequence, from, to, err);
}

static enum err_code step(void *self, const struct step *s, struct run *run, struct err *err)
{
    return gpu_model_step(&((struct own *)self)->model, s, run, err);
}

static enum err_code draft(void *self, const struct draft_step *s, struct run *run, struct err *err)
{
    return gpu_draft_step(&((struct own *)self)->draft, s, run, err);
}

static struct engine_kind make_kind(void)
{
    struct engine_kind k = {};
    k.name = "gpu";
    k.about = "assay gpu";
    k.profile = "gpu";
    k.own_dtypes = true;
    k.side = gpu_side;
    k.open = open_model;
    k.close = close_model;
    k.device = device;
    k.cache_open = open_cache;
    k.cache_close = close_cache;
    k.cache_move = move;
    k.step = step;
    k.draft = draft;
    return k;
}

extern "C" const struct engine_kind *gpu_engine(void)
{
    static const struct engine_kind kind = make_kind();
    return &kind;
}
