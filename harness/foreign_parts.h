/* foreign_parts.h: what the files foreign*.c share; private to them. A source is read into pieces,
 * one a tensor and a rank; pieces of one name are joined; what is joined is translated by the map
 * and written as one dump (foreign.c). */
#ifndef ASSAY_HARNESS_FOREIGN_PARTS_H
#define ASSAY_HARNESS_FOREIGN_PARTS_H

#include "core/arena.h"
#include "core/npy.h"
#include "core/pt.h"
#include "harness/foreign.h"
#include "harness/map.h"

#include <jansson.h>

struct piece {
    char name[MAP_NAME];
    struct st_tensor tensor; /* data: in memory or mapped, or NULL while it lies in the spool */
    int64_t spooled;         /* where in the spool; -1: it is not there */
    int64_t order;           /* place among all that were read */
    int64_t file;            /* file, or rank of the world, that it came from */
    int rank, ranks;         /* of `ranks` that hold the others; ranks 0: the file does not say */
    int axis;                /* along which the ranks hold parts; -1: each holds the whole */
};

/* Tensors on their way, in a file that no name points to: a folder of a thousand files needs no
 * more memory than its largest. */
struct spool {
    int fd; /* -1: not open */
    int64_t bytes;
    const void *map;
};

struct source {
    const char *path;
    const struct foreign_options *options;
    struct arena arena;
    struct map map;
    struct piece *pieces;
    int64_t count, room;
    int64_t files; /* read so far */
    struct st_file **st;
    int64_t st_count;
    struct pt_file pt; /* of a path that is one file */
    struct npy_file npy;
    struct spool spool, joined;
    int rank_count;             /* ranks that the folder has; 0: it has none */
    bool streamed;              /* tensors go through the spool */
    const struct st_file *said; /* whose metadata the dump keeps; NULL: none */
    const char *engine;         /* as a sidecar says; NULL: it does not */
    json_t *counts;             /* of assay.counts, over all ranks; NULL: none */
    /* Of the file that is being read. */
    int rank, ranks, axis;
};

enum err_code source_add(struct source *s, const char *name, const struct st_tensor *t,
                         struct err *err) ERR_USED;
/* Tensors of a tree, names joined by dots behind `prefix`. What is no tensor is passed over. */
enum err_code source_flatten(struct source *s, const struct pt_value *v, const char *prefix,
                             struct err *err) ERR_USED;
/* One file of any of the formats, by its name's end. A safetensors file stays mapped. */
enum err_code source_file(struct source *s, const char *path, struct err *err) ERR_USED;
enum err_code source_safetensors(struct source *s, const char *path, struct st_file **out,
                                 struct err *err) ERR_USED;
/* A folder, by its layout. */
enum err_code source_folder(struct source *s, struct err *err) ERR_USED;
/* Its layout is one of those that dumps have. */
bool source_is_folder(const char *path);
/* A sidecar and the raw files that it describes. */
enum err_code source_raw(struct source *s, const char *path, struct err *err) ERR_USED;
bool source_is_raw(const char *path);
/* A type's name in either case; false where there is none. */
bool source_dtype(const char *name, enum dtype *out);
#define SOURCE_DTYPES                                                                              \
    "a type: bf16, f16, f32, f64, i32, i64, u8, f8_e4m3 or another of core/dtype.h"
/* Pieces of one name become one, in the order of their first. */
enum err_code source_join(struct source *s, struct err *err) ERR_USED;
void source_close(struct source *s);

/* Any file of these formats, by its name's end. */
bool source_is_file(const char *path);

/* ---- layouts of folders ---- */

/* The names in a folder but . and .., sorted by bytes. */
struct listing {
    char **names;
    int64_t count;
};

enum err_code listing_read(const char *folder, struct listing *out, struct err *err) ERR_USED;
void listing_free(struct listing *l);
/* Which of several forward passes is meant: the only one, or that of --step. Sorts `steps`. */
enum err_code source_step(const struct source *s, int64_t *steps, int64_t count, int64_t *out,
                          struct err *err) ERR_USED;
/* "rank12" after head "rank": 12. False for another name. */
bool source_numbered(const char *name, const char *head, int64_t *n);

/* Each of these says of a folder's names whether they are its layout, and reads it. */
bool dumper_is(const struct listing *l); /* foreign_dumper.c */
enum err_code dumper_read(struct source *s, const char *folder, const struct listing *l,
                          struct err *err) ERR_USED;
bool passes_is(const struct listing *l); /* foreign_passes.c */
enum err_code passes_read(struct source *s, const char *folder, const struct listing *l,
                          struct err *err) ERR_USED;
bool msprobe_is(const char *folder, const struct listing *l); /* foreign_msprobe.c */
enum err_code msprobe_read(struct source *s, const char *folder, const struct listing *l,
                           struct err *err) ERR_USED;
bool rank_files_is(const char *folder, const struct listing *l); /* foreign_ranks.c */
enum err_code rank_files_read(struct source *s, const char *folder, const struct listing *l,
                              struct err *err) ERR_USED;

/* ---- the spool ---- */

enum err_code spool_add(struct spool *p, const void *data, int64_t bytes, int64_t *at,
                        struct err *err) ERR_USED;
/* All of it, readable; no more may be added. */
enum err_code spool_map(struct spool *p, struct err *err) ERR_USED;
void spool_close(struct spool *p);

#endif
