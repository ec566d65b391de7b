/* uses_parts.h: what the readers of uses.h share. */
#ifndef ASSAY_COMPAT_USES_PARTS_H
#define ASSAY_COMPAT_USES_PARTS_H

#include "compat/uses.h"

struct reader {
    struct pool *pool;
    const char *where;  /* the source */
    const char *module; /* being read */
    int line;           /* of the innermost node with one */
    int depth;
    int defs; /* counted so far */
    struct uses_accept *accept;
    struct err *err;
};

/* After the first error everything gives NULL, 0 or an empty block. */
bool reader_ok(const struct reader *r);
void *reader_bad(struct reader *r, const char *what, const char *found, const char *wanted);
void *reader_take(struct reader *r, int count, size_t size);

/* Needed keys; null counts as absent only where `_or` says so. */
const char *reader_text(struct reader *r, const json_t *o, const char *key);
/* [text, ...] */
const char **reader_texts(struct reader *r, const json_t *o, const char *key, int *n);
const char *reader_text_or_null(struct reader *r, const json_t *o, const char *key);
int reader_int(struct reader *r, const json_t *o, const char *key);
/* An absent key or null is an empty list. */
const json_t *reader_list(struct reader *r, const json_t *o, const char *key, int *n);
/* One level down; false with an error past USES_DEPTH. */
bool reader_enter(struct reader *r, const json_t *node, const char *what);

struct expr *reader_expr(struct reader *r, const json_t *node);
/* NULL where the key is absent or null. */
struct expr *reader_expr_or_null(struct reader *r, const json_t *o, const char *key);
struct expr *reader_expr_at(struct reader *r, const json_t *o, const char *key);
/* A list of expressions; a null in it gives NULL. */
struct expr **reader_exprs(struct reader *r, const json_t *o, const char *key, int *n);
struct param *reader_params(struct reader *r, const json_t *o, int *n);
struct keyword *reader_keywords(struct reader *r, const json_t *o, const char *key, int *n);
struct block reader_block(struct reader *r, const json_t *o, const char *key);

#endif
