/* engine.h: what runs a model: the reference, or the CUDA path, behind one contract. Both take the
 * same struct step and struct draft_step; what differs is where weights and caches live.
 *
 * Caches: tables and lengths lie on the host for every engine, and a step extends the lengths
 * (rows_extend). What the entries are kept in is the engine's: cache_open() gives a cache that
 * cache_plan() laid out its pool, in doubles on the host or in memory of the engine's own.
 *
 * Weights: an engine may load what a step needs when it first needs it; `ENGINE_LOADING` is then
 * the stage that run->progress is told. An engine serves any number of caches, one step at a time.
 * Test: tests/test_engine.c */
#ifndef ASSAY_CORE_ENGINE_H
#define ASSAY_CORE_ENGINE_H

#include "core/eagle.h"
#include "core/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of run->progress: layers loaded so far, before the first one is computed. */
#define ENGINE_LOADING "layer loaded"

struct engine_kind {
    const char *name;    /* "ref", "gpu": what --on says */
    const char *about;   /* what dumps and samples say: "assay ref" */
    const char *profile; /* the rounding profile of a run that asks for none */
    /* Rounds as run->profile and run->precision say, whatever they say. False: as its kernels do,
     * which is `profile`. */
    bool imitates;
    /* A row's bits depend on what it sees alone. False: also on how many rows a step has. */
    bool rows_alone;
    bool own_dtypes; /* its taps have types of its own: tap_dtype() */
    const struct op_side *(*side)(void);
    enum err_code (*open)(const struct model *model, void **self, struct err *err);
    void (*close)(void *self);
    const char *(*device)(void *self); /* NULL, or what it runs on */
    enum err_code (*cache_open)(void *self, struct cache *c, struct arena *arena, struct err *err);
    void (*cache_close)(void *self, struct cache *c);
    enum err_code (*cache_move)(void *self, struct cache *c, int64_t sequence, int64_t from,
                                int64_t to, struct err *err);
    enum err_code (*step)(void *self, const struct step *s, struct run *run, struct err *err);
    enum err_code (*draft)(void *self, const struct draft_step *s, struct run *run,
                           struct err *err);
};

/* An engine on one model. */
struct engine {
    const struct engine_kind *kind; /* NULL: not open */
    void *self;
};

const struct engine_kind *ref_engine(void);
const struct engine_kind *gpu_engine(void);

/* ERR_DEVICE, saying why, where this build or machine has no such engine. */
enum err_code engine_usable(const struct engine_kind *k, struct err *err) ERR_USED;
/* `model` must outlive the engine. Of a shard on a device: with every rank at once, as all that is
 * done with it. */
enum err_code engine_open(struct engine *e, const struct engine_kind *k, const struct model *model,
                          struct err *err) ERR_USED;
/* Safe on one that is not open. Its caches are closed before. */
void engine_close(struct engine *e);
/* What it runs on, or "" where that is no device. */
const char *engine_device(const struct engine *e);

/* cache_plan() and a pool: room for lengths_max[s] tokens of each sequence. */
enum err_code engine_cache_open(const struct engine *e, struct cache *c, struct arena *arena,
                                const struct cache_sizes *sizes, struct err *err) ERR_USED;
/* Safe on a cache that is all zero. */
void engine_cache_close(const struct engine *e, struct cache *c);
/* The entries of token `from` also as token `to`, in every layer. */
enum err_code engine_cache_move(const struct engine *e, struct cache *c, int64_t sequence,
                                int64_t from, int64_t to, struct err *err) ERR_USED;
enum err_code engine_step(const struct engine *e, const struct step *s, struct run *run,
                          struct err *err) ERR_USED;
enum err_code engine_draft(const struct engine *e, const struct draft_step *s, struct run *run,
                           struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
