/* cli.h: the program as a user meets it: run with arguments (no shell in between), its two streams
 * and its exit status caught. For tests/test_cli_*.c.
 *
 * cli_refused() is the contract of a refusal in one call: exit status, one line on stderr in the
 * form "assay: error: WHAT: WHERE: found X, wanted Y", one JSON object that says the same, and not
 * a byte changed in the test's folder. */
#ifndef ASSAY_TESTS_CLI_H
#define ASSAY_TESTS_CLI_H

#include "tests/support.h"

#include <jansson.h>
#include <sys/types.h>

enum { CLI_ARGS = 48 };

struct cli {
    int status; /* -1: ended by a signal */
    int signal;
    char *out, *err;
    json_t *json; /* stdout as JSON; NULL where it is none */
};

/* argv ends with NULL, the program's name not in it. Everything is the caller's: cli_free(). */
void cli_run(struct cli *r, const char *const *argv);
/* The same with stdout somewhere else: a path, or NULL for a closed stream. */
void cli_run_to(struct cli *r, const char *stdout_path, const char *const *argv);
void cli_free(struct cli *r);
#define cli(r, ...) cli_run(r, (const char *const[]){__VA_ARGS__, NULL})

/* Starts the program and comes back; both streams go to /dev/null. */
pid_t cli_start(const char *const *argv);
/* The same with its stdout closed. */
pid_t cli_start_mute(const char *const *argv);
/* Waits; the signal that ended it, or 0. */
int cli_wait(pid_t child);

/* A run that must pass: exit 0, nothing on stderr but progress, one object with verdict "pass".
 * --json is added. The object is the caller's. */
json_t *cli_passed(const char *const *argv, const char *file, int line);
#define cli_passes(...) cli_passed((const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
/* A run whose verdict must be `fail`: exit 1. */
json_t *cli_failed(const char *const *argv, const char *file, int line);
#define cli_fails(...) cli_failed((const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)

/* What a refusal must say: each part holds its text somewhere (NULL: any text, but one). */
struct refusal {
    int exit;
    const char *what, *where, *found, *wanted;
};

void cli_refused(void **state, struct refusal r, const char *const *argv, const char *file,
                 int line);
#define cli_refuses(state, refusal, ...)                                                           \
    cli_refused(state, refusal, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)

/* A number that changes with any name or byte in the folder, and not with their order. */
uint64_t folder_print(const char *path);

/* printf into a text that lives until 1023 more calls. */
const char *textf(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define FIXTURE(name) ASSAY_SOURCE_DIR "/fixtures/" name

/* "seed", "tokens", ... of a fixture's golden.json. The caller's. */
json_t *fixture_golden(const char *name);
/* "synth:.../config.json?seed=N&latent_gain=G" of a fixture. */
const char *fixture_synth(const char *name);
/* A JSON array of integers as "1,2,3", at most n of them. Valid until the next call. */
const char *joined(const json_t *array, size_t n);

/* Field of an object, or the test fails. */
const json_t *field(const json_t *object, const char *key);
int64_t field_int(const json_t *object, const char *key);
const char *field_text(const json_t *object, const char *key);
/* The object of an array whose "name" is `name`, or the test fails. */
const json_t *named(const json_t *array, const char *name);
/* How often a text stands in an array. */
int times_in(const json_t *array, const char *text);

/* A small checkpoint (three layers, INT4 experts) in folder/NAME, written by the program itself.
 * Returns its path. */
const char *small_model(void **state, const char *name);
#define SMALL_LAYER(n) "language_model.model.layers." #n "."

/* A safetensors file in memory, to be changed and written again: header as JSON, data as bytes. */
struct st_edit {
    json_t *header;
    unsigned char *data;
    size_t size;
};

void st_edit_read(struct st_edit *e, const char *path);
void st_edit_write(const struct st_edit *e, const char *path);
void st_edit_free(struct st_edit *e);
/* First byte of a tensor's data. */
unsigned char *st_edit_data(struct st_edit *e, const char *name);
/* Adds a tensor of zero bytes at the end. */
void st_edit_add(struct st_edit *e, const char *name, enum dtype dtype, int64_t rows, int64_t cols);
/* Same bytes of every tensor, same names; else the test fails. `rows`: of the second file's rows,
 * the last as many as the first has. */
void assert_same_tensors(const char *path, const char *other, bool tail);
/* Largest relative difference of all float taps of two dumps with the same rows. */
double largest_relative(const char *path, const char *other);

#endif
