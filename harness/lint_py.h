/* lint_py.h: the parts that judge Python trees for `assay lint`. Names are taken as they are
 * written, but for what a module's imports call otherwise. Test: tests/test_lint_py.c */
#ifndef ASSAY_HARNESS_LINT_PY_H
#define ASSAY_HARNESS_LINT_PY_H

#include "compat/uses.h"
#include "harness/lint.h"

enum { LINT_NAME = 256 };

/* Where the walk stands. */
struct lint_py {
    struct lint *l;
    const struct uses_module *module;
    const char *file;
    const char *function;      /* "Class.method", NULL in a module's body */
    const struct block *scope; /* the function's body, or the module's */
    const struct stmt *loop;   /* the innermost of this function, NULL: none */
    bool fails; /* what follows the statement can only raise, or end with a status other than 0 */
};

/* Judges all modules. `file`: what the one module of a single file is called, NULL: `folder` and
 * the module's own path. */
void lint_py_modules(struct lint *l, const struct uses *u, const char *folder, const char *file);

/* ---- names ---- */

/* "a.b.c" of names and attributes, its root as the module's imports have it ("run" of `from
 * subprocess import run` is "subprocess.run"); calls are left out ("f().x" is "f.x"). "" for
 * anything else. */
void lint_py_name(const struct lint_py *p, const struct expr *e, char out[LINT_NAME]);
/* Is the last part of a dotted name in a list that ends with NULL? Case counts. */
bool lint_py_last(const char *name, const char *const *list);
/* Does any part of the name hold one of the pieces? Case does not count. */
bool lint_py_holds(const char *name, const char *const *pieces);
/* Words of failure: a counter, a list or a call of such a name tells of it. */
bool lint_py_tells(const char *name);
/* The keyword argument of that name, or NULL. */
const struct expr *lint_py_keyword(const struct expr *call, const char *name);

/* Calls visit(e, ctx) for every expression of a block; `deep`: those of nested definitions too. */
void lint_py_each(const struct block *b, bool deep, void (*visit)(const struct expr *e, void *ctx),
                  void *ctx);
void lint_py_each_expr(const struct expr *e, void (*visit)(const struct expr *e, void *ctx),
                       void *ctx);
/* Does a block mention that name? */
bool lint_py_mentions(const struct block *b, const char *name);

/* ---- what a handler does ---- */

/* What becomes of the exception in a handler's body. */
struct lint_py_use {
    bool whole; /* type, trace or the object itself goes somewhere */
    bool text;  /* its text alone does */
    bool log;   /* something is printed or logged */
    bool tells; /* a name or a value says that it failed */
    int line;   /* of the first use of the text, or of the log */
};

void lint_py_uses(const struct lint_py *p, const struct handler *h, struct lint_py_use *out);

/* The ends that a block can come to, as bits. */
enum lint_py_end {
    LINT_END_RAISE = 1,
    LINT_END_EXIT = 2, /* with a status that is not 0 */
    LINT_END_EXIT_ZERO = 4,
    LINT_END_RETURN = 8, /* with a value that tells nothing */
    LINT_END_TELL = 16,  /* with a value that tells of a failure */
    LINT_END_CONTINUE = 32,
    LINT_END_BREAK = 64,
    LINT_END_FALL = 128 /* goes on after it */
};

/* `name`: of the exception, or NULL. */
unsigned lint_py_ends(const struct lint_py *p, const struct block *b, const char *name);

void lint_py_try(const struct lint_py *p, const struct stmt *s);
/* `with suppress(Exception)` */
void lint_py_with(const struct lint_py *p, const struct stmt *s);
/* Calls whose status or result goes nowhere. */
void lint_py_calls(const struct lint_py *p, const struct stmt *s);

void lint_py_report(const struct lint_py *p, enum lint_id rule, int line, const char *type,
                    const char *message);

#endif
