/* judge_parts.h: what the parts of judge_api.h share: abstract values, environments, the consumer's
 * own definitions, findings. */
#ifndef ASSAY_COMPAT_JUDGE_PARTS_H
#define ASSAY_COMPAT_JUDGE_PARTS_H

#include "compat/api_lookup.h"
#include "compat/api_type.h"
#include "compat/judge_api.h"
#include "compat/pool.h"

/* ---- abstract values ---- */

enum value_kind {
    VALUE_UNKNOWN, /* text: why, where it stems from the library; else NULL */
    VALUE_BROKEN,  /* follows from a finding */
    VALUE_NONE,
    VALUE_BOOL, /* number 0 or 1 */
    VALUE_NUMBER,
    VALUE_STR,    /* text */
    VALUE_ITEMS,  /* a list, tuple or set written out: item */
    VALUE_DICT,   /* a dict written out: key (NULL: not a text) and item; open: there may be more */
    VALUE_MODULE, /* of the library */
    VALUE_CLASS,  /* of the library: the class itself */
    VALUE_OBJECT, /* an instance of it */
    VALUE_FUNCTION, /* of the library: def[] */
    VALUE_OWN_MODULE,
    VALUE_OWN_CLASS,
    VALUE_OWN_OBJECT,
    VALUE_OWN_FUNCTION, /* self: bound to it */
    VALUE_OUTSIDE,      /* text: a dotted name of neither */
    VALUE_GENERIC,      /* text: "list", "dict", "Coroutine" ...; item: its arguments */
    VALUE_PARTIAL,      /* self: the callable, args: given so far */
    VALUE_SUPER,        /* own_class: the class around; self */
    VALUE_UNION,        /* item */
    VALUE_VERSION,      /* text: a version as written; the library's, or parsed from a text */
    VALUE_TUPLE_VERSION,
    VALUE_PROBE, /* inspect.signature(self); number 1: its parameters */
};

struct value {
    enum value_kind kind;
    const char *text;
    double number;
    const struct api_def *class_; /* CLASS, OBJECT; FUNCTION: the class it was looked up on */
    const struct api_module *module;
    const struct api_def *const *def;
    int defs;
    bool open;
    bool exact;           /* OBJECT, and a FUNCTION of one: of this class, not of one below it */
    bool bound, on_class; /* FUNCTION */
    bool generated;       /* FUNCTION: a constructor nobody wrote */
    const struct value *self;
    const struct value **item;
    const char **key;
    int items;
    struct own_module *own_module;
    struct own_class *own_class;
    struct own_function *own_function;
    struct judge_finding *cause; /* BROKEN */
    const struct args *args;     /* PARTIAL */
    /* Of the result of a call: what was called, with what. */
    const struct api_def *from;
    const struct args *given;
    const char *via; /* the receiver's path in the source, for messages; may be NULL */
};

/* ---- environments: persistent lists, so that a branch costs nothing ---- */

struct binding {
    const char *name; /* "x", "self.a", "f()" for what a probe guards */
    const struct value *value;
    const struct binding *next;
    int depth;
};

struct env {
    const struct binding *top;
    bool dead; /* nothing behind this point is reached */
};

/* ---- the consumer's own definitions ---- */

struct attr_slot {
    const char *name;
    const struct value *now, *seen; /* joined in this pass; in the pass before */
    struct attr_slot *next;
};

struct own_module {
    const struct uses_module *uses;
    struct env env;
    int state;              /* 0: not run in this pass, 1: running, 2: done */
    struct attr_slot *late; /* names bound from outside: global, mod.x = ... */
    const char **shared;    /* names in `global` statements anywhere */
    int shareds;
    bool star_open;                 /* star-imports something that is not known */
    const struct api_module **star; /* of the library */
    int stars;
};

struct own_class {
    const struct stmt *stmt;
    struct own_module *module;
    struct own_class *around;
    const char *name; /* "mod.Cls" */
    const struct value **base;
    int bases;
    struct env env; /* of its body */
    struct attr_slot *attr;
    const struct binding *outer;
    struct own_function *inside; /* the function around, or NULL */
    bool dynamic;                /* setattr(self, name, ...), __getattr__ */
    bool named;                  /* by a string in the consumer: somebody else mixes it in */
    bool made, based;            /* called; a base of another own class */
    int pass;
};

struct own_function {
    const struct stmt *stmt; /* NULL: a lambda */
    const struct expr *lambda;
    struct own_module *module;
    struct own_class *class_; /* whose method it is, or NULL */
    const char *name;         /* "mod.Cls.f" */
    const struct binding *outer;
    struct own_function *inside;
    const struct value *result, *seen_result; /* what it returns: this pass, the pass before */
    const struct value *self;                 /* what types.MethodType binds it to */
    bool is_static, is_class, is_property, decorated, generator, returned;
    bool queued;
    int pass;
};

/* ---- calls ---- */

/* Arguments of one call. */
struct args {
    const struct value **pos;
    int count; /* known positional ones */
    bool star; /* `*` of something unknown: more may follow */
    const char **name;
    const struct value **value; /* of name[i] */
    int names;
    bool dstar; /* `**` of something unknown */
    const struct expr *call;
};

enum bind_status { BIND_OK, BIND_UNSURE, BIND_BAD };
enum bind_problem { BIND_NONE, BIND_UNEXPECTED, BIND_TOO_MANY, BIND_MISSING, BIND_TWICE };

enum { BIND_PARAMS = 256 };

struct bound {
    enum bind_status status;
    enum bind_problem problem;
    const char *name;    /* the parameter or keyword */
    int found, most;     /* TOO_MANY */
    int misses;          /* MISSING: how many */
    int to[BIND_PARAMS]; /* positional i -> index of its parameter, -1: in *args */
};

/* ---- the run ---- */

enum { GUARD_IMPORT = 1, GUARD_ATTRIBUTE = 2, GUARD_CALL = 4 };

struct hint {
    const char *text, *scope, *name;
    const struct value *value;
    bool hit;
};

/* x.name = ...; class_: of x, NULL: x may be anything. */
struct set_name {
    const char *name;
    const struct api_def *class_;
};

struct judge_run {
    const struct judge_api_input *in;
    const struct api *api;
    struct pool *pool;
    struct err *err;
    int pass;
    bool report; /* the last pass */
    struct own_module *module;
    struct own_class **class_of; /* by id of the definition */
    struct own_function **function_of;
    struct own_function **queue;
    int queued, queue_room;
    struct hint *hint;
    int hints;
    struct judge_finding **finding, **finding_at;
    int findings, finding_room;
    int folded;
    struct set_name *set; /* attributes that the consumer assigns to what is not its own */
    int sets, set_room;
    const char **called; /* a table of the names of methods that the consumer calls */
    int calleds, called_room;
    const char **replaced; /* dotted names of the library that the consumer assigns */
    int replaceds;
};

/* One body being interpreted. */
struct frame {
    struct judge_run *run;
    struct own_module *module;
    struct own_class *class_; /* in a class body or a method */
    struct own_function *function;
    const struct binding *outer; /* of the function around */
    struct env env;
    int mute;                 /* broken and undecidable are not said: typing only, dead fallbacks */
    int unsure;               /* broken becomes undecidable: a guard that cannot be decided */
    unsigned guards;          /* what the handlers around catch */
    const struct expr *alone; /* a statement's whole expression: nobody sees its result */
    const char *called;       /* the attribute that is about to be called */
    bool discarded;           /* the call that is evaluated stands alone: nobody sees its result */
    bool raised;              /* a guarded break stopped this block */
    bool class_body, module_body;
};

/* ---- judge_value.c ---- */

extern const struct value value_unknown;
bool judge_run_ok(const struct judge_run *r);
void *judge_run_take(struct judge_run *r, int count, size_t size); /* NULL for count 0 too */
const char *judge_run_format(struct judge_run *r, const char *format, ...) ERR_PRINTF(2, 3);
const struct value *judge_value_make(struct judge_run *r, struct value v);
const struct value *judge_value_of_kind(struct judge_run *r, enum value_kind kind,
                                        const char *text);
const struct value *judge_value_unknown_of(struct judge_run *r, const char *why);
const struct value *judge_value_bool(struct judge_run *r, bool b);
const struct value *judge_value_object(struct judge_run *r, const struct api_def *c);
/* The same made by its constructor: of no class below. */
const struct value *judge_value_exact(struct judge_run *r, const struct api_def *c);
const struct value *judge_value_own_object(struct judge_run *r, struct own_class *c);
const struct value *judge_value_generic(struct judge_run *r, const char *name,
                                        const struct value *item);
const struct value *judge_value_join(struct judge_run *r, const struct value *a,
                                     const struct value *b);
const struct value *judge_value_without_none(struct judge_run *r, const struct value *v);
/* What an instance of a type has as value: of list[X], a class, a union of them. */
const struct value *judge_value_instance(struct judge_run *r, const struct value *type);
/* 1, 0, or -1: cannot be known. */
int judge_value_truth(const struct value *v);
bool judge_value_is_lib(const struct value *v);
bool judge_value_has_unknown(const struct value *v);
/* pkg.mod.Cls.f of "pkg.mod:Cls.f". */
const char *judge_path_dotted(struct judge_run *r, const char *path);
const char *judge_last_part(const char *dotted);

/* ---- judge_env.c ---- */

void judge_env_bind(struct frame *f, const char *name, const struct value *v);
/* NULL: not bound here. */
const struct value *judge_env_find(const struct binding *top, const char *path);
struct env judge_env_join(struct judge_run *r, struct env a, struct env b);
/* `a`, and what only `b` binds. */
struct env judge_env_prefer(struct judge_run *r, struct env a, struct env b);
/* "self.a.b", "f(x).c"; NULL: no such text. */
const char *judge_expr_path(struct judge_run *r, const struct expr *e);
const struct value *judge_name_find(struct frame *f, const char *name);
void judge_name_assign(struct frame *f, const char *name, const struct value *v);
const struct value *judge_module_name(struct judge_run *r, struct own_module *m, const char *name,
                                      bool *unknown);
struct attr_slot *judge_slot_join(struct judge_run *r, struct attr_slot **list, const char *name,
                                  const struct value *v);
const struct attr_slot *judge_slot_find(const struct attr_slot *list, const char *name);

/* ---- judge_own.c ---- */

struct own_module *judge_own_module_find(struct judge_run *r, const char *name);
bool judge_own_root(struct judge_run *r, const char *name);
struct own_class *judge_own_class_make(struct frame *f, const struct stmt *s);
struct own_function *judge_own_function_make(struct frame *f, const struct stmt *s);
void judge_own_function_queue(struct judge_run *r, struct own_function *fn);
void judge_own_function_run(struct judge_run *r, struct own_function *fn);
const struct value *judge_own_result(struct frame *f, struct own_function *fn,
                                     const struct value *self);
struct api_params judge_own_params(struct judge_run *r, const struct own_function *fn, bool bound);
/* A member written in the class body of `c` or an own base; NULL: none. *owner: where. */
const struct value *judge_own_member(struct judge_run *r, struct own_class *c, const char *name,
                                     struct own_class **owner);
/* A class in the own order of `c` that has a base of the library first met; NULL: none. */
const struct api_def *judge_own_lib_base(struct judge_run *r, const struct own_class *c);
/* A base that is neither own nor of the library and not harmless. */
bool judge_own_open(struct judge_run *r, const struct own_class *c);
struct own_class *judge_own_class_by_path(struct judge_run *r, const char *dotted);
/* The attribute in the library's bases of `c`: the first that has it. False: no such base. */
bool judge_own_lib_find(struct judge_run *r, const struct own_class *c, const char *name,
                        const struct api_def **base, struct api_attribute *out);
bool judge_own_inherits(const struct own_class *c, const struct own_class *base);
bool judge_body_mentions(const struct block *b, bool (*is)(const struct expr *e, const void *ctx),
                         const void *ctx);

/* ---- judge_types.c ---- */

const struct value *judge_type_from_text(struct judge_run *r, const char *text,
                                         const struct api_def *self);
/* What an annotation means for the value it annotates. */
const struct value *judge_type_from_expr(struct frame *f, const struct expr *e);
const struct value *judge_value_element(struct frame *f, const struct value *v);
const struct value *judge_value_index(struct frame *f, const struct value *v,
                                      const struct value *index, const struct expr *at);
const struct value *judge_value_awaited(struct frame *f, const struct value *v);
const struct value *judge_value_entered(struct frame *f, const struct value *v,
                                        const struct expr *at);

/* ---- judge_expr.c, judge_stmt.c ---- */

const struct value *judge_eval(struct frame *f, const struct expr *e);
void judge_eval_args(struct frame *f, const struct expr *call, struct args *out);
void judge_assign(struct frame *f, const struct expr *target, const struct value *v);
void judge_exec_block(struct frame *f, const struct block *b);
void judge_exec_try(struct frame *f, const struct stmt *s);
void judge_exec_if(struct frame *f, const struct stmt *s);
/* GUARD_ bits of an exception type, a tuple of them, or NULL. */
unsigned judge_guards_of(const struct expr *type);
void judge_exec_loop(struct frame *f, const struct stmt *s);

/* ---- judge_change.c: dicts and lists written out that are changed afterwards ---- */

/* d[key] = v; del d[key] or d.pop(key). */
void judge_dict_set(struct frame *f, const struct expr *d, const struct value *key,
                    const struct value *v);
void judge_dict_drop(struct frame *f, const struct expr *d, const struct value *key);
/* A method of it is called, or it is handed to somebody: what it holds is not known any more. */
void judge_change_by_method(struct frame *f, const struct expr *call);
void judge_change_by_call(struct frame *f, const struct value *callee, const struct expr *call);

/* ---- judge_imports.c ---- */

void judge_exec_import(struct frame *f, const struct stmt *s);
void judge_exec_from(struct frame *f, const struct stmt *s);
const struct value *judge_value_of_result(struct frame *f, const struct api_result *r,
                                          const char *symbol, enum judge_kind kind, int line);
/* What a name is that one of the module's star imports of the library binds; NULL: none. */
const struct value *judge_star_find(struct judge_run *r, struct own_module *m, const char *name);
/* The module's body has run, or runs. */
void judge_module_run(struct judge_run *r, struct own_module *m);
/* A dotted path in a text, from the names in reach, else absolute: a value, or NULL. */
const struct value *judge_value_of_path(struct frame *f, const char *dotted);

/* ---- judge_attrs.c ---- */

const struct value *judge_attr_of(struct frame *f, const struct value *v, const char *name,
                                  int line, const char *via, bool store);
/* Says nothing: 1 there, 0 proven absent, -1 cannot be known. */
int judge_attr_has(struct frame *f, const struct value *v, const char *name);
const struct value *judge_attr_quiet(struct frame *f, const struct value *v, const char *name);

/* The consumer itself calls some x.name(...). */
void judge_called_note(struct judge_run *r, const char *name);
bool judge_called_by_name(struct judge_run *r, const char *name);
/* The consumer puts something else in the place of `d`; "pkg.mod.name" that it makes itself. */
void judge_replaced_note(struct judge_run *r, const char *dotted);
bool judge_is_replaced(struct judge_run *r, const struct api_def *d);
/* `dotted`, or a module around it. */
bool judge_replaced_path(struct judge_run *r, const char *dotted);
/* The consumer assigns x.name somewhere, to an object that it may be. */
void judge_set_note(struct judge_run *r, const struct value *object, const char *name);
bool judge_set_somewhere(struct judge_run *r, const struct api_def *c, const char *name);

/* The pieces of it. `exact`: of this class, not of one below. */
const char *judge_attribute_symbol(struct judge_run *r, const struct api_def *c, const char *name);
const struct value *judge_attribute_answer(struct frame *f, const struct api_def *c,
                                           const char *name, const struct api_attribute *at,
                                           int line, bool on_class, bool store, bool exact);
const struct value *judge_class_attr(struct frame *f, const struct value *v, const char *name,
                                     int line, bool store);

/* ---- judge_own_attrs.c ---- */

const struct value *judge_own_attr(struct frame *f, const struct value *v, const char *name,
                                   int line, const char *via, bool store);
const struct value *judge_super_attr(struct frame *f, const struct value *v, const char *name,
                                     int line);
int judge_own_has(struct frame *f, const struct value *v, const char *name);

/* ---- judge_below.c: an object may be of a class below the one that is known ---- */

/* Why an object of `c` may have the attribute after all, or NULL: nothing below has it. */
const char *judge_below_has(struct frame *f, const struct api_def *c, const char *name);
/* A method of the same name in a class of the consumer, below or beside it, takes these arguments.
 * One of the library does not count: what is declared must do. */
bool judge_below_binds(struct frame *f, const struct value *callee, const struct args *a);

/* ---- judge_bind.c ---- */

void judge_bind_args(const struct api_params *p, const struct args *a, bool ignores_extra,
                     struct bound *out);
const char *judge_params_text(struct judge_run *r, const struct api_params *p);
const char *judge_args_text(struct judge_run *r, const struct args *a);

/* ---- judge_calls.c ---- */

const struct value *judge_call_value(struct frame *f, const struct value *callee,
                                     const struct args *a, const char *via, int line);
void judge_signatures_of(struct frame *f, const struct value *callee, struct api_signatures *out);
/* The first signature that binds; *best the one with the least problem. False: none binds. */
bool judge_signatures_bind(const struct api_signatures *s, const struct args *a,
                           struct bound *bound, const struct api_signature **best);
const char *judge_callee_symbol(struct judge_run *r, const struct value *callee);
/* partial(f, ...): checks what is given and makes the value. */
const struct value *judge_partial_make(struct frame *f, const struct args *a, int line);

/* ---- judge_special.c: functions that this program knows the meaning of ---- */

/* NULL: none of them. */
const struct value *judge_call_special(struct frame *f, const struct value *callee,
                                       const struct expr *call);

/* ---- judge_guards.c, judge_version.c ---- */

/* One comparison: 1, 0, -1. */
int judge_compare_truth(struct frame *f, const struct value *a, const char *op,
                        const struct value *b);
/* Narrows the environment by `e` being true or false. */
void judge_assume(struct frame *f, const struct expr *e, bool sense);
/* -1, 0, 1 in the order of PEP 440; false: one is no version. */
bool judge_version_compare(const char *a, const char *b, int *order);
const struct value *judge_version_parse(struct frame *f, const struct value *v);
/* Its major, minor or micro number; -1: no such part. */
int judge_version_part(const char *version, const char *name);
/* A comparison of versions, or of a version's text: 1, 0, -1. */
int judge_version_truth(struct frame *f, const struct value *a, const char *op,
                        const struct value *b);
/* `helper("1.2.3")` whose body compares with the library's version: 1, 0, -1. */
int judge_version_helper(struct frame *f, const struct value *callee, const struct args *a);

/* ---- judge_overrides.c, judge_patch.c ---- */

void judge_class(struct frame *f, struct own_class *c);
/* `fn` takes the place of the library's member. */
void judge_override(struct frame *f, struct own_function *fn, const struct api_def *const *base,
                    int bases, const char *symbol, int line, bool patched);
void judge_patched(struct frame *f, const struct value *target, const char *name,
                   const struct value *v, int line);
void judge_patch_text(struct frame *f, const char *dotted, int line);

/* ---- judge_named.c: methods named by a string ---- */

const struct value *judge_named(struct frame *f, const struct value *callee,
                                const struct api_signature *sig, const struct bound *b,
                                const struct args *a, int line);
void judge_named_collect(struct judge_run *r, const char *text);

/* ---- judge_result.c ---- */

void judge_unpack(struct frame *f, const struct value *v, int names, int line);
void judge_subscript(struct frame *f, const struct value *v, const struct value *index, int line);

/* ---- judge_baseline.c ---- */

void judge_baseline_call(struct frame *f, const struct value *callee, const struct args *a,
                         const struct api_signature *now, const struct bound *bound, int line);
void judge_baseline_attribute(struct frame *f, const struct api_def *c, const char *name,
                              const struct api_attribute *now, int line);
void judge_baseline_kind(struct frame *f, const char *symbol, const struct api_def *now, int line);
/* "required since 1.2", "removed in 1.2 ..." or NULL. */
const char *judge_baseline_explains(struct frame *f, const struct value *callee,
                                    const struct args *a, const struct bound *bound);
/* "removed since 1.2" where the baseline has the attribute; else NULL. */
const char *judge_baseline_removed(struct frame *f, const struct api_def *c, const char *name);
bool judge_baseline_signatures(struct frame *f, const struct value *callee,
                               struct api_signatures *out);

/* ---- judge_remedy.c ---- */

/* `now`: suggestions of the library for `name`; NULL: none. */
const char *judge_remedy_moved(struct judge_run *r, const char *const *now, int nows,
                               const char *name);
const char *judge_remedy_keyword(struct judge_run *r, const struct api_params *p,
                                 const struct args *a, const char *name);

/* ---- judge_fold.c ---- */

/* The finding, or NULL where nothing is said in this pass. Dedupes by kind, symbol and line. */
struct judge_finding *judge_find_say(struct frame *f, enum judge_kind kind,
                                     enum judge_verdict verdict, const char *symbol, int line,
                                     const struct api_def *provider, const char *why);
struct judge_finding *judge_find_ok(struct frame *f, enum judge_kind kind, const char *symbol,
                                    int line, const struct api_def *provider);
/* A broken one, or what it is where it is guarded: NULL, and f->raised where it stops the block. */
struct judge_finding *judge_find_broken(struct frame *f, enum judge_kind kind, const char *symbol,
                                        int line, const struct api_def *provider, const char *why);
struct judge_finding *judge_find_undecidable(struct frame *f, enum judge_kind kind,
                                             const char *symbol, int line,
                                             const struct api_def *provider, const char *why);
void judge_find_deprecated(struct frame *f, enum judge_kind kind, const char *symbol, int line,
                           const struct api_def *d, const char *text);
void judge_find_fold(struct frame *f, struct judge_finding *cause, int line);
const struct value *judge_value_broken(struct judge_run *r, struct judge_finding *cause);
enum err_code judge_find_finish(struct judge_run *r, struct judge_report *out);

/* ---- judge_accept.c, judge_hints.c ---- */

enum err_code judge_accept_apply(struct judge_run *r, struct judge_report *out);
enum err_code judge_hints_read(struct judge_run *r);
const struct value *judge_hint_for(struct frame *f, const char *path, const struct value *v);

#endif
