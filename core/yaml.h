/* yaml.h: a YAML file as a plain tree of texts, lists and mappings, each with its place. No number
 * is read here: what `1e3`, `no` or `012` means is for the reader to say.
 *
 * Refused, with line and column: what is no YAML, a second document, a key twice, anchors, aliases,
 * tags and directives, a NUL byte, a tree deeper than YAML_DEPTH, a file over YAML_BYTES. Test:
 * tests/test_plan.c, test_contract.c */
#ifndef ASSAY_CORE_YAML_H
#define ASSAY_CORE_YAML_H

#include "core/arena.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { YAML_DEPTH = 16, YAML_BYTES = 1 << 20 };

enum yaml_kind { YAML_TEXT, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_kind kind;
    const char *text; /* TEXT; "" where nothing stands there */
    int line, column; /* from 1 */
    const char *key;  /* in a mapping */
    int key_line, key_column;
    struct yaml_node *child; /* LIST, MAP: the first */
    struct yaml_node *next;
};

/* Everything lies in the arena. `path` is used in messages. */
enum err_code yaml_parse(const char *text, int64_t size, const char *path, struct arena *a,
                         struct yaml_node **out, struct err *err) ERR_USED;

/* The same for a file of up to `most` bytes. */
enum err_code yaml_parse_within(const char *text, int64_t size, int64_t most, const char *path,
                                struct arena *a, struct yaml_node **out, struct err *err) ERR_USED;

/* ERR_INPUT "what|path:line:column|found|wanted", at the value or at its key. */
enum err_code yaml_bad(const char *path, const struct yaml_node *n, const char *what,
                       const char *found, const char *wanted, struct err *err);
enum err_code yaml_bad_key(const char *path, const struct yaml_node *n, const char *what,
                           const char *found, const char *wanted, struct err *err);
/* "a text", "a list", "a mapping", "nothing": for messages. */
const char *yaml_kind_name(const struct yaml_node *n);

#endif
