/* plan_args.h: a step as the command line of its verb; private to plan_run.c. */
#ifndef ASSAY_HARNESS_PLAN_ARGS_H
#define ASSAY_HARNESS_PLAN_ARGS_H

#include "harness/plan.h"

/* A path of the plan: below the plan's folder where it exists there, else as it stands. Holds for
 * "@file" and "synth:FILE?..." too. In the arena. */
const char *plan_path(const struct plan *p, const char *text, struct arena *a, struct err *err);
/* The dump of step i. In the arena. */
const char *plan_dump_path(const struct plan *p, int i, const char *folder, struct arena *a,
                           struct err *err);
/* Where `text` names a step, its dump; else plan_path(). */
const char *plan_dump(const struct plan *p, const struct plan_text *t, const char *folder,
                      struct arena *a, struct err *err);
/* What verb->run() takes, with json set: it prints nothing. `n`: text of -n for a generate that
 * does not say it, or NULL. */
enum err_code plan_args(const struct plan *p, int i, const char *folder, const char *n,
                        struct arena *a, struct args *out, struct err *err) ERR_USED;

#endif
