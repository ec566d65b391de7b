/* schema.h: docs/schema/result.schema.json against values: the part of JSON Schema that it uses. */
#ifndef ASSAY_TESTS_SCHEMA_H
#define ASSAY_TESTS_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The schema, read once; the caller's. Fails the test where it uses a keyword that
 * schema_holds() does not know: nothing in it may go unchecked. */
json_t *schema_read(void);
/* The value holds; where it does not, `why` says what and at which path. */
bool schema_holds(const json_t *root, const json_t *value, char *why, size_t size);

#endif
