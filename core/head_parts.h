/* head_parts.h: the parts of head_open(), which other files have no use for. Test:
 * tests/test_head.c
 */
#ifndef ASSAY_CORE_HEAD_PARTS_H
#define ASSAY_CORE_HEAD_PARTS_H

#include "core/head.h"

/* Which naming the tensors follow; refused: none that is known, more than one. Synthetic: that of
 * speculators. */
enum err_code head_naming_find(struct head *h, struct err *err) ERR_USED;
/* Binds every tensor of the head's layout, and lists in h->misfits what is missing, extra, or of
 * another shape or type. Refused: any misfit, in one line. */
enum err_code head_bind(struct head *h, const struct model *target, struct err *err) ERR_USED;
void head_misfit_add(struct head *h, enum head_misfit_kind kind, const char *name,
                     const char *found, const char *wanted, struct err *err);
/* A few misfits as text, the rest as a count; returns buf. */
const char *head_misfit_text(const struct head *h, char *buf, size_t size);

/* Finds h->d2t and h->t2d. */
enum err_code head_map_find(struct head *h, struct err *err) ERR_USED;
/* Makes h->target_id and checks the map (eagle3 fact sheet, 2.2): target id = i + d2t[i], strictly
 * ascending, inside the vocabulary, the set bits of t2d. */
enum err_code head_map_make(struct head *h, struct err *err) ERR_USED;

#endif
