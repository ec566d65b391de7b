/* replay.h: the reference run again for a comparison, its taps in a temporary dump that no name
 * points to. */
#ifndef ASSAY_HARNESS_REPLAY_H
#define ASSAY_HARNESS_REPLAY_H

#include "harness/anchor.h"
#include "harness/forward_draft.h"
#include "harness/session.h"

/* Runs all layers over the tokens with every tap kept, in `reals` precision; `forced` and
 * `anchor` may be NULL; so may `draft`, a head whose steps follow, from the states that the anchor
 * leaves. *out is the caller's (dump_close()); its file is unlinked already. The
 * folder is TMPDIR, else /tmp. */
enum err_code replay_run(const struct loaded *l, const struct tokens *t,
                         const struct session_options *o, struct forced *forced,
                         struct anchor *anchor, struct forward_draft *draft, enum dtype reals,
                         struct dump *out, struct err *err) ERR_USED;

#endif
