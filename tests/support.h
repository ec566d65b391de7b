/* support.h: what many tests need: a folder that goes away, whole files, safetensors built in
 * memory, and errors checked part by part. */
#ifndef ASSAY_TESTS_SUPPORT_H
#define ASSAY_TESTS_SUPPORT_H

#include "core/error.h"
#include "core/file.h"
#include "core/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A fresh folder below the build's, removed with all it holds by the teardown. cmocka set-up and
 * teardown: cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown). *state is its
 * path. */
int folder_setup(void **state);
int folder_teardown(void **state);
/* folder/name, valid until four more calls. */
const char *folder_path(void **state, const char *name);
/* Entries of a folder, without . and .. */
int folder_count(const char *path);

/* Writes or reads a whole file, or fails the test. The text read ends in NUL and is the caller's.
 */
void write_whole(const char *path, const void *data, size_t size);
void write_text(const char *path, const char *text);
char *read_whole(const char *path, size_t *size);

/* Runs body(ctx) in a child; the signal that ended it, or 0 when it came back. Its stderr goes to
 * *text (the caller's, free()) where text is not NULL. */
int signal_of(void (*body)(void *ctx), void *ctx, char **text);

/* Each part of the message must hold its text (NULL: not looked at); prints the whole error when it
 * does not. */
#define assert_err(err, code, what, where, found, wanted)                                          \
    support_assert_err(err, code, what, where, found, wanted, __FILE__, __LINE__)
void support_assert_err(const struct err *err, enum err_code code, const char *what,
                        const char *where, const char *found, const char *wanted, const char *file,
                        int line);
/* No error, else the message is printed and the test fails. */
#define assert_ok(err) support_assert_ok(err, __FILE__, __LINE__)
void support_assert_ok(const struct err *err, const char *file, int line);

/* The bytes of a safetensors file: length, header text as given, then data_bytes bytes of data (0,
 * 1, 2, ... where data is NULL). The caller's. */
unsigned char *st_bytes(const char *header, const void *data, size_t data_bytes, size_t *size);

/* Tensors of a file that a test writes. data NULL: all bytes zero. */
struct st_part {
    const char *name;
    enum dtype dtype;
    int dims;
    int64_t shape[ST_DIMS];
    const void *data;
};
void write_safetensors(const char *path, const struct st_part *parts, int64_t count,
                       const struct st_meta *meta, int64_t metas);

/* A copy of text in which the first `from` is replaced by `to`; fails the test when there is none.
 * The caller's. */
char *replaced(const char *text, const char *from, const char *to);

#endif
