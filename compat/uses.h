/* uses.h: what a consumer's source says, as a slim syntax tree read from the extractor's JSON
 * ("kind": "uses"). Nothing is resolved here. Read strictly: an unknown kind of statement or
 * expression, a missing part, a wrong type or a tree deeper than USES_DEPTH is ERR_INPUT that names
 * module and line. Test: tests/test_uses.c */
#ifndef ASSAY_COMPAT_USES_H
#define ASSAY_COMPAT_USES_H

#include "compat/api.h"
#include "compat/pool.h"
#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>

enum { USES_DEPTH = 408 };

enum expr_kind {
    EXPR_NAME,
    EXPR_ATTR,
    EXPR_CALL,
    EXPR_SUB,
    EXPR_CONST,
    EXPR_STR,
    EXPR_FSTR,
    EXPR_LIST,
    EXPR_TUPLE,
    EXPR_SET,
    EXPR_DICT,
    EXPR_STAR,
    EXPR_COMPARE,
    EXPR_BOOL,
    EXPR_NOT,
    EXPR_BINOP,
    EXPR_IFEXP,
    EXPR_LAMBDA,
    EXPR_AWAIT,
    EXPR_YIELD,
    EXPR_COMP,
    EXPR_WALRUS,
    EXPR_SLICE,
    EXPR_OTHER
};

enum const_kind { CONST_NONE, CONST_FALSE, CONST_TRUE, CONST_NUMBER };

struct expr;

/* A keyword argument; name NULL: `**value`. */
struct keyword {
    const char *name;
    struct expr *value;
};

struct param {
    const char *name;
    enum api_param_kind kind;
    struct expr *dflt, *type; /* NULL: none */
};

struct comp_for {
    struct expr *target, *iter;
    struct expr **test;
    int tests;
};

/* Fields that a kind does not have are NULL or 0. */
struct expr {
    enum expr_kind kind;
    int line;
    const char *text;      /* name, attribute, string, operator of bool and binop */
    enum const_kind value; /* CONST */
    double number;         /* CONST_NUMBER */
    struct expr *left;     /* value of attr, sub, star, not, await, walrus; func; left; test */
    struct expr *right;    /* index of sub; value of walrus; right of binop; then of ifexp */
    struct expr *third;    /* else of ifexp; body of lambda */
    struct expr **item;    /* args, items, parts, dict values, bool values, compare rights */
    struct expr **key;     /* dict keys, NULL: `**`; as many as items */
    const char **op;       /* compare: as many as items */
    struct keyword *kw;    /* call */
    struct param *param;   /* lambda */
    struct comp_for *loop; /* comp; item: what it collects */
    int items, kws, params, loops;
};

enum stmt_kind {
    STMT_IMPORT,
    STMT_FROM,
    STMT_ASSIGN,
    STMT_AUGASSIGN,
    STMT_EXPR,
    STMT_RETURN,
    STMT_IF,
    STMT_WHILE,
    STMT_FOR,
    STMT_TRY,
    STMT_WITH,
    STMT_DEF,
    STMT_CLASS,
    STMT_RAISE,
    STMT_ASSERT,
    STMT_DEL,
    STMT_GLOBAL,
    STMT_MATCH,
    STMT_BREAK,
    STMT_CONTINUE,
    STMT_PASS
};

struct stmt;

struct block {
    struct stmt *stmt;
    int stmts;
};

/* `import a.b as c`, or one name of `from m import a as c`. as NULL: none. */
struct imported {
    const char *name, *as;
    int line;
};

struct handler {
    struct expr *type; /* NULL: bare */
    const char *as;
    struct block body;
    int line;
};

/* One of match: the names that its pattern binds. */
struct match_case {
    const char **name;
    int names;
    struct expr *guard;
    struct block body;
};

struct stmt {
    enum stmt_kind kind;
    int line;
    const char *name; /* def, class; module of from ("" for `from . import x`) */
    int level;        /* from: leading dots */
    struct imported *import;
    struct expr **target;      /* assign, for (1), del; items of with */
    struct expr **as;          /* with: NULL without `as`; as many as targets */
    struct expr *value, *type; /* value, test, iter, subject; annotation, returns, message, cause */
    struct param *param;
    struct expr **decorator, **base;
    struct keyword *keyword; /* of a class */
    const char **global;
    struct handler *handler;
    struct match_case *branch;
    struct block body, other, last; /* else; finally */
    int imports, targets, params, decorators, bases, keywords, globals, handlers, branches;
    bool async;
    int id; /* def, class, counted over the whole consumer */
};

/* A comment `# assay: ignore[REASON]` on a statement's line. */
struct uses_accept {
    int line;
    const char *text; /* between the brackets */
    struct uses_accept *next;
};

struct uses_module {
    const char *name, *file;
    bool package; /* an __init__ */
    struct block body;
    struct uses_accept *accept;  /* the first */
    struct uses_accept *comment; /* every comment of that form in the file, wherever it stands */
};

struct uses_problem {
    const char *file, *what;
    int line;
};

struct uses {
    const char *name, *version, *source, *sha256; /* NULL: not known */
    struct uses_module *module;                   /* sorted by name */
    struct uses_problem *problem;                 /* files that could not be read */
    int modules, problems;
    int defs; /* one more than the largest id */
};

/* Everything lies in the pool's arena; `json` may go. `where` names the source in messages. */
enum err_code uses_read(const json_t *json, const char *where, struct pool *pool, struct uses *out,
                        struct err *err) ERR_USED;

/* The module of that name, or NULL. */
const struct uses_module *uses_find(const struct uses *u, const char *name);

#endif
