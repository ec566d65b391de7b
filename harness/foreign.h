/* foreign.h: a dump in any of the formats that engines write: safetensors, .pt, .npy, .npz; with a
 * map (map.h) also under other names and in other layouts. Test: tests/test_foreign.c
 *
 * Names: a key of a dict; items of lists and nested dicts are joined by dots ("hidden_states.3"); a
 * .npy is named by its file. What is neither safetensors in taps' names nor needs no map is
 * rewritten as a dump that no name points to (in TMPDIR, else /tmp), so that everything else sees
 * one format. */
#ifndef ASSAY_HARNESS_FOREIGN_H
#define ASSAY_HARNESS_FOREIGN_H

#include "core/dump.h"

/* `map`: a path, or NULL. Messages name `path`, never the rewritten file. Errors: what the readers
 * say; two tensors for one tap; a map none of whose rules fits a name, a rule whose layout does not
 * fit the tensor.
 */
enum err_code foreign_open(struct dump *d, const char *path, const char *map,
                           struct err *err) ERR_USED;

#endif
