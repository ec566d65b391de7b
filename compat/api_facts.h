/* api_facts.h: the extractor's JSON taken apart strictly: what the readers of its objects share.
 * Every function gives false with the error set, and the place as keys from the root. Test:
 * tests/test_api_facts.c */
#ifndef ASSAY_COMPAT_API_FACTS_H
#define ASSAY_COMPAT_API_FACTS_H

#include "compat/api.h"

#include <jansson.h>

/* Bounds: bytes of a text, levels of nested classes, lines, keys on the way down. */
enum { FACTS_TEXT = 1 << 16, FACTS_NESTED = 8, FACTS_LINE = 1 << 28, FACTS_KEYS = 48 };

struct facts {
    struct pool pool;
    struct err *err;
    const char *origin;
    const char *key[FACTS_KEYS]; /* where we are: keys from the root */
    int keys;
};

bool facts_bad(struct facts *f, const char *what, const char *found, const char *wanted);
/* Goes one key down, and back. */
bool facts_enter(struct facts *f, const char *key);
void facts_leave(struct facts *f);
/* `v` is of the type. */
bool facts_want(struct facts *f, const json_t *v, json_type type, const char *what);
/* An object, and every key of it is one of the words. */
bool facts_known_keys(struct facts *f, const json_t *object, const char *words);
bool facts_name_ok(struct facts *f, const char *name);

/* How strict a text is read: any (spaces and line breaks become one space), or one line, or source
 * text that closes what it opens. */
enum text_rule { TEXT_PROSE, TEXT_LINE, TEXT_SOURCE };
bool facts_take_text(struct facts *f, const json_t *v, enum text_rule rule, const char **out);

/* Values of a key. Absent or null leaves *out as it is; a null in a list of texts is "". */
bool facts_text_of(struct facts *f, const json_t *object, const char *key, enum text_rule rule,
                   const char **out);
bool facts_bool_of(struct facts *f, const json_t *object, const char *key, bool *out);
bool facts_line_of(struct facts *f, const json_t *object, int *out);
bool facts_texts_of(struct facts *f, const json_t *object, const char *key, enum text_rule rule,
                    struct api_texts *out);
/* A list of objects under `key`, each filled by `fill`. *out: an array of `size` each. */
typedef bool facts_fill(struct facts *f, const json_t *object, void *out);
bool facts_objects_of(struct facts *f, const json_t *object, const char *key, size_t size,
                      facts_fill *fill, void **out, int *count);

#endif
