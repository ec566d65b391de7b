/* foreign_dims.h: the text by which SGLang's dumper says what the axes of a tensor are and which of
 * them the ranks hold parts of: "t h[tp] d", "b s h # ep:replicated"; private to
 * foreign_dumper.c. Test: tests/test_foreign_dims.c
 *
 * An axis: a name, (name*name) for two that are one, or 1; behind it in brackets the groups that
 * cut it, each with qualifiers: [tp], [cp:zigzag], [tp:partial]. Behind #: groups whose ranks hold
 * copies. Source: sgl-project/sglang@36fdf39, comparator/dims_spec/. */
#ifndef ASSAY_HARNESS_FOREIGN_DIMS_H
#define ASSAY_HARNESS_FOREIGN_DIMS_H

#include "core/error.h"

/* How many ranks the groups have that a text may name; 1: such a group cuts nothing. */
struct dims_groups {
    int tp, cp, ep, sp;
};

/* *axis: the one that tp cuts, -1: none. *axes: how many there are. ERR_INPUT: what is no such
 * text; and what cannot be put together from it: another group than tp that has several ranks, an
 * order other than that of the ranks, partial sums, two axes cut. `where`: for messages. */
enum err_code dims_parse(const char *text, const struct dims_groups *g, const char *where,
                         int *axis, int *axes, struct err *err) ERR_USED;

#endif
