/* api_emit.h: YAML as the contract file wants it: a text is quoted only where it must be, a list
 * stands on one line where it fits. Test: tests/test_api_write.c */
#ifndef ASSAY_COMPAT_API_EMIT_H
#define ASSAY_COMPAT_API_EMIT_H

#include "compat/api.h"

#include <stdio.h>

struct api_emit {
    FILE *f;
    struct pool pool;
    struct err *err;
};

/* `flow`: inside of [] or {}. */
void api_emit_text(FILE *f, const char *text, bool flow);
void api_emit_indent(struct api_emit *w, int indent);
/* "KEY: TEXT" on a line of its own; nothing for NULL. */
void api_emit_pair(struct api_emit *w, int indent, const char *key, const char *text);
/* "KEY: [a, b]" where it fits on a line, else an item a line; `wrap`: as many a line as fit. */
void api_emit_list(struct api_emit *w, int indent, const char *key, const struct api_texts *t,
                   bool wrap);
/* The same without wrapping; nothing for an empty list. */
void api_emit_some(struct api_emit *w, int indent, const char *key, const struct api_texts *t);
/* A row of a flow mapping: ", KEY: TEXT"; nothing for NULL. */
void api_emit_row(struct api_emit *w, bool *first, const char *key, const char *text);

#endif
