/* flips.h: rows whose experts differ from the reference's choice, and whether a rounding explains
 * it.
 *
 * The reference ran with the subject's own experts from each flip on, so that the keys compared
 * here carry no accumulated difference in routing. A flip is certified when its gap (router.h) is
 * at most the score errors of both sides: the profile run's largest key error in that row (at least
 * the RMS of it over all rows), and the subject's own, as far as its router logits were dumped, but
 * no more than twice the profile's. Test: tests/test_flips.c */
#ifndef ASSAY_HARNESS_FLIPS_H
#define ASSAY_HARNESS_FLIPS_H

#include "core/dump.h"
#include "core/model.h"

struct flip {
    int64_t layer, row;             /* row of the subject */
    const int32_t *subject, *truth; /* [top_k], owned by the list */
    double gap;                     /* NaN: cannot be told */
    double allowed;                 /* score errors of both sides */
    bool by_group, certified;
};

struct flips {
    struct flip *list;
    int64_t count, certified, top_k;
    int32_t *ids;
};

/* math and profile: runs of the reference under the subject's experts; *_row: subject row -> their
 * row. */
enum err_code flips_find(const struct model *model, const struct dump *subject,
                         const struct dump *math, const int64_t *math_row,
                         const struct dump *profile, const int64_t *profile_row, struct flips *out,
                         struct err *err) ERR_USED;
/* Without a model: rows whose sets differ between two dumps; no gap, never certified. */
enum err_code flips_compare(const struct dump *subject, const struct dump *truth,
                            const int64_t *row, struct flips *out, struct err *err) ERR_USED;
void flips_free(struct flips *f);

#endif
