/* api_prune.h: the part of a library's surface that a consumer reaches, as a contract of its own.
 *
 * What to keep is not guessed from the consumer: its judge runs on the whole library with a->reach
 * set, every lookup notes what it touched and what it did not find, and just that is kept. So the
 * same consumer gets the same answers from the small contract. It is closed by one step more, for
 * consumers that change a little: constructors and abstract methods of the classes reached, and the
 * classes that the functions reached return. Test: tests/test_api_prune.c */
#ifndef ASSAY_COMPAT_API_PRUNE_H
#define ASSAY_COMPAT_API_PRUNE_H

#include "compat/api_reach.h"

/* Notes a name asked for by hand, and what is one step from all that was reached so far.
 * a->reach is set. ERR_INPUT: the library has no such name. */
enum err_code api_reach_name(const struct api *a, const char *name, struct err *err) ERR_USED;
void api_reach_close(const struct api *a, struct err *err);

/* What a->reach holds, as a surface for `consumer`. It shares the texts of `a`, which must live as
 * long; the rest lies in the arena. */
enum err_code api_prune(const struct api *a, const struct api_origin *consumer, struct arena *arena,
                        struct api *out, struct err *err) ERR_USED;

#endif
