/* guard_fold.h: from everything that was seen to the list of findings: lines are joined with the
 * exceptions behind them, exit statuses with the error of the process, and what is known to be
 * harmless is marked. Test: tests/test_guard_fold.c */
#ifndef ASSAY_HARNESS_GUARD_FOLD_H
#define ASSAY_HARNESS_GUARD_FOLD_H

#include "harness/guard_lines.h"
#include "harness/guard_log.h"

/* A finding of the watcher's own, with every field that one of an injected Python has. */
json_t *guard_fold_finding(const char *rule, const char *file, int64_t line, const char *message);

/* Adds what a stream or file showed to l->findings. `others`: traces that stood in other streams;
 * each explains one line here, as the order between streams is not known. An error line that says
 * something is a finding only where the command ended with 0. */
void guard_fold_lines(struct guard_log *l, const struct guard_lines *lines, const char *name,
                      int *others, bool ended_well);
/* Exit statuses that nobody looked at take the trace of the process that had them. */
void guard_fold_children(struct guard_log *l);
/* Marks findings that a pattern of the list [{text, reason}] fits with "harmless": reason. */
void guard_fold_harmless(struct guard_log *l, const json_t *patterns);

#endif
