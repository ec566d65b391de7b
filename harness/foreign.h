/* foreign.h: a dump in any of the formats that engines write, a file or a folder; with a map
 * (map.h) also under other names and in other layouts. Test: tests/test_foreign.c,
 * tests/test_foreign_folder.c, tests/test_foreign_raw.c
 *
 * Files: safetensors; .pt .pth .ckpt .bin (torch zip, pt.h); .npy .npz (npy.h); a sidecar of raw
 * files (foreign_raw.c). Folders: foreign_folder.c lists them.
 *
 * Names: a key of a dict; items of lists and nested dicts are joined by dots ("hidden_states.3"); a
 * .npy is named by its file. What is neither safetensors in taps' names nor needs no map is
 * rewritten as a dump that no name points to (in TMPDIR, else /tmp), so that everything else sees
 * one format. Of a folder one file is in memory at a time.
 *
 * Ranks of a folder are joined: what is said to be cut (by the files, or by `shard` of the map) is
 * put together along that axis, everything else must be the same on all ranks, bit by bit. The
 * dump's assay.parts says of taps whose columns ranks made in equal parts, how many. */
#ifndef ASSAY_HARNESS_FOREIGN_H
#define ASSAY_HARNESS_FOREIGN_H

#include "core/dtype.h"
#include "core/dump.h"

/* All zero: nothing is said. */
struct foreign_options {
    const char *map; /* a path, the name of a shipped map, or NULL */
    bool has_as;
    enum dtype as; /* what void and unsigned integers of its width hold */
    bool has_step;
    int64_t step; /* of a folder that holds several forward passes */
};

struct args;

/* Those of a line: --map, --dtype, --step. Errors: no such type. */
enum err_code foreign_read_options(const struct args *a, struct foreign_options *out,
                                   struct err *err) ERR_USED;

/* NULL for `o`: nothing is said. Messages name `path`, never the rewritten file. Errors: what the
 * readers say; two tensors for one tap; a map none of whose rules fits a name, a rule whose layout
 * does not fit the tensor; ranks that are not all there. ERR_DIFF: ranks hold different values of
 * what is not cut.
 */
enum err_code foreign_open(struct dump *d, const char *path, const struct foreign_options *o,
                           struct err *err) ERR_USED;
/* A file of another format than safetensors, by its name; a folder that has a dump's layout. */
bool foreign_is(const char *path);

#endif
