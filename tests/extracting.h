/* extracting.h: what the tests of verb extract share: a request with its data, and folders
 * compared.
 */
#ifndef ASSAY_TESTS_EXTRACTING_H
#define ASSAY_TESTS_EXTRACTING_H

#include "harness/extract.h"
#include "tests/cli.h"

/* Writes the lines as FOLDER/data.jsonl; its path. */
const char *extract_lines(void **state, const char *lines);
/* `count` samples of unequal length with masks, tokens below 48; as a path. */
const char *extract_corpus(void **state, int count);
/* The model's states 1, 2 and 3 (entry ids) of the data in vllm's format to FOLDER/name. */
struct extract_request extract_asked(void **state, const char *model, const char *data,
                                     const char *name);
/* Runs it; the code is returned, the error in *err. */
enum err_code extract_of(const struct extract_request *r, struct extract_result *out,
                         struct err *err);
/* Runs it, or fails the test unless every sample was written: their number. */
int64_t extract_all(const struct extract_request *r);
/* A number that changes with any name or byte below the folder, wherever that stands. */
uint64_t extract_print(const char *folder);
/* The manifest of a folder. The caller's. */
json_t *extract_manifest(const char *folder);

#endif
