/* api_reach.h: what the lookups of api_lookup.h touched. Objects are known by their address in the
 * model: a module, a name (of a module or a class), a class definition, an attribute. Test:
 * tests/test_api_prune.c */
#ifndef ASSAY_COMPAT_API_REACH_H
#define ASSAY_COMPAT_API_REACH_H

#include "compat/api.h"

/* A name that was looked for and is not there. */
struct api_miss {
    const void *holder; /* struct api_module; NULL: the name is that of a module */
    const char *name;
    const char *const *now;
    int nows;
};

struct api_reach {
    struct pool pool;
    const void **slot; /* open addressing */
    int64_t slots, used;
    struct api_miss *miss;
    int misses, miss_room;
    struct err err; /* the first: notes are made where nobody can be told */
};

/* Starts noting; everything comes from the arena. */
void api_reach_begin(struct api_reach *r, struct arena *arena);
/* Notes an object; nothing where nobody listens (a->reach NULL) or object is NULL. */
void api_note(const struct api *a, const void *object);
void api_note_miss(const struct api *a, const struct api_module *holder, const char *name,
                   const char *const *now, int nows);
bool api_reached(const struct api_reach *r, const void *object);
/* Adds without a listener. */
void api_reach_add(struct api_reach *r, const void *object);

#endif
