/* tactic.h: which kernel an op uses where an engine has a choice and is not to choose itself
 * (--tactic WHAT=NAME). Of the process: said before anything runs, asked at every choice. What is
 * chosen shows in the kernels of a report (kernels.h). Test: tests/test_tactic.c */
#ifndef ASSAY_CORE_TACTIC_H
#define ASSAY_CORE_TACTIC_H

#include "core/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TACTIC_TEXT = 64 };

/* `text`: "mla.prefill=mma", a choice and the name of a kernel for it, of the table in tactic.c.
 * ERR_USAGE: there is no such choice or name, or it was forced before. */
enum err_code tactic_force(const char *text, struct err *err) ERR_USED;
/* The name that is forced for this choice, NULL: none is. Marks it as asked for. */
const char *tactic_forced(const char *what);
/* The message where the kernel that is forced cannot run, and why. ERR_USAGE. */
enum err_code tactic_none(const char *what, const char *why, struct err *err);
/* After a run. ERR_USAGE: one was forced that nothing asked for: what has it did not run. */
enum err_code tactic_check(struct err *err) ERR_USED;
/* None is forced any more. */
void tactic_clear(void);

#ifdef __cplusplus
}
#endif
#endif
