/* api_lookup.h: what a name of a recorded library means: through re-exports, star imports, lazy
 * __getattr__ tables and aliases; through base classes in the order of C3; what a constructor takes
 * that nobody wrote. Every question has a third answer: it cannot be known, and why.
 *
 * Every function here notes what it touched in a->reach where that is set, also what it did not
 * find: a contract that keeps those gives the same answers. Test: tests/test_api_find.c,
 * test_api_class.c, test_api_signature.c */
#ifndef ASSAY_COMPAT_API_LOOKUP_H
#define ASSAY_COMPAT_API_LOOKUP_H

#include "compat/api.h"

enum { API_HITS = 16, API_MRO = 64, API_NOW = 6, API_SIGNATURES = 12, API_DEPTH = 24 };

enum api_found {
    API_FOUND,
    API_ABSENT,     /* the library has no such name: proven */
    API_UNKNOWN,    /* a dynamic __getattr__, a problem file, an unknown base: `why` */
    API_UNRECORDED, /* the contract was recorded for less: nobody asked for it then */
    API_OUTSIDE     /* it leads out of the library: `outside` */
};

struct api_result {
    enum api_found found;
    const struct api_module *module;     /* FOUND: the name is a module; else NULL */
    const struct api_def *def[API_HITS]; /* FOUND: all definitions that it may have */
    int defs;
    bool typing_only; /* every definition stands under TYPE_CHECKING: an import fails at run time */
    bool open;        /* one of its conditional definitions is not among them: do not prove */
    const char *outside; /* OUTSIDE, or open: the dotted name it leads to, or NULL */
    /* ABSENT: what has it not ("pkg.mod" or "pkg.mod:Cls"), the part missing and the first byte of
     * that part in the name asked for. */
    const char *holder;
    const char *missing;
    const char *now[API_NOW]; /* ABSENT: "pkg.mod:Name" of the same last name elsewhere; then near
                                 misses in the holder */
    int nows;
    const char *why;        /* UNKNOWN, UNRECORDED: a sentence part, never NULL there */
    const char *deprecated; /* what the way to it warns of, or NULL */
    const struct api_def
        *via; /* the first alias on the way (its line is where it is re-exported) */
};

/* FOUND with neither module nor definitions: it is there (__file__, a lazy name, an attribute that
 * a method assigns), what it is is not known. */

/* A dotted name ("pkg.mod.Name", "pkg.mod.Cls.method") or "pkg.mod:Name.part", or the name of a
 * module. `out` is filled in any case. A name whose first part is not the library is OUTSIDE. */
void api_find(const struct api *a, const char *name, struct api_result *out);
/* NAME in a module: what `from MODULE import NAME` gets (a submodule too). */
void api_find_in(const struct api *a, const struct api_module *m, const char *name,
                 struct api_result *out);
/* The names that `from MODULE import *` binds; each once. *open: some may be missing. From the
 * arena of `p`. */
struct api_texts api_star_names(const struct api *a, const struct api_module *m, bool *open,
                                struct pool *p, struct err *err);
/* The one class among the definitions of a name, or NULL (none, or several). */
const struct api_def *api_class_of(const struct api_result *r);
/* The class that a type's dotted name means, or NULL; what it is not: *found. */
const struct api_def *api_find_class(const struct api *a, const char *name, enum api_found *found);

/* What the bases outside of the library are known to be. */
enum api_trait {
    API_TRAIT_UNKNOWN = 1, /* a base nobody knows: any attribute may exist */
    API_TRAIT_MODULE = 2,  /* torch.nn.Module: a call goes to forward */
    API_TRAIT_ENUM = 4,
    API_TRAIT_EXCEPTION = 8,
    API_TRAIT_STRUCT = 16,   /* msgspec.Struct */
    API_TRAIT_PYDANTIC = 32, /* pydantic.BaseModel */
    API_TRAIT_NAMEDTUPLE = 64,
    API_TRAIT_TYPEDDICT = 128,
    API_TRAIT_PROTOCOL = 256
};

struct api_mro {
    const struct api_def *class_[API_MRO]; /* classes of the library, the class itself first */
    int classes;
    const char *outside[API_MRO]; /* dotted names of the bases outside of it, those known too */
    int outsides;
    unsigned traits;
    const char *unknown; /* first base that nobody knows, or NULL */
    bool broken;         /* no order of C3 exists, or a cycle: taken depth first */
};
/* `c` is a class. */
void api_mro(const struct api *a, const struct api_def *c, struct api_mro *out);
/* `c` is, or inherits from, the class at "pkg.mod:Cls" (or a dotted name outside of the library).
 */
bool api_inherits(const struct api *a, const struct api_def *c, const char *base);

enum api_origin_kind {
    API_FROM_MEMBER,   /* def[]: a function, property, class variable, nested class */
    API_FROM_FIELD,    /* an annotation in a class body (also one that nobody assigns) */
    API_FROM_INSTANCE, /* self.NAME = ... in a method */
    API_FROM_BASE,     /* of a base outside of the library that is known: no more is known of it */
    API_FROM_GENERATED /* made by a decorator or a metaclass: __init__, _asdict, __members__ ... */
};

/* An attribute of an instance (or of the class itself). */
struct api_attribute {
    enum api_found found; /* FOUND, ABSENT, UNKNOWN or UNRECORDED */
    enum api_origin_kind origin;
    const struct api_def *class_; /* where it was found, in the library; else NULL */
    const struct api_def *def[API_HITS];
    int defs;
    bool open;
    const struct api_field *field;
    const struct api_attr *attr;
    const char *type; /* annotation, or the property's return annotation, or NULL */
    int line;         /* of the field, attribute or first definition; 0: none */
    bool member;      /* an enum member */
    bool only_init;   /* an InitVar: a parameter, and no attribute afterwards (found is ABSENT) */
    bool read_only;   /* a property without a setter */
    const char *now[API_NOW]; /* ABSENT: near misses among the members, best first */
    int nows;
    const char *why;
};
/* `on_class`: looked up on the class itself (instance attributes are not there then). */
void api_attribute(const struct api *a, const struct api_def *c, const char *name, bool on_class,
                   struct api_attribute *out);
/* The same among the classes behind `after` in the order of `c`: super(). */
void api_attribute_after(const struct api *a, const struct api_def *c, const struct api_def *after,
                         const char *name, struct api_attribute *out);

/* What a call binds against; the receiver (self, cls) is already left out. */
struct api_signature {
    struct api_params params;
    const struct api_def *from; /* the function written, or the class whose fields make it */
    bool generated;             /* from fields: `from` is the class */
    bool ignores_extra;         /* unknown keywords are taken and dropped (pydantic) */
    bool overload;              /* a typed view only: judge by the others where there are any */
    const char *returns;        /* annotation, or NULL */
};

enum api_callable { API_CALLABLE, API_NOT_CALLABLE, API_CALL_UNKNOWN };

struct api_signatures {
    enum api_callable is;
    struct api_signature sig[API_SIGNATURES]; /* any that binds will do (conditional definitions) */
    int sigs;
    bool open;        /* others may exist that are not here: do not prove a break */
    const char *why;  /* CALL_UNKNOWN, NOT_CALLABLE, open */
    const char *name; /* "__init__", "__new__", "__call__", "forward" or the function's name */
};

/* The parameters come from the pool; params.count 0 and *err set where memory is short. */
/* C(...). Hand-written __init__ wins, then generated ones (dataclass and what is marked
 * dataclass_transform, pydantic, msgspec, NamedTuple, TypedDict), __new__, Enum, exceptions. */
void api_constructor(const struct api *a, const struct api_def *c, struct pool *p,
                     struct api_signatures *out, struct err *err);
/* An instance of C called: __call__, or forward of a torch.nn.Module. */
void api_instance_call(const struct api *a, const struct api_def *c, struct pool *p,
                       struct api_signatures *out, struct err *err);
/* Functions found by api_find() (bound false) or api_attribute() (bound: the receiver is left out
 * as the binding says; `on_class`: C.method, whose self is an argument). */
void api_signatures_of(const struct api *a, const struct api_def *const *def, int defs, bool bound,
                       bool on_class, struct pool *p, struct api_signatures *out, struct err *err);

/* Abstract methods and properties that nobody behind them in the order of `c` implements, as
 * definitions; count. *open: an unknown base may implement them. */
int api_abstract(const struct api *a, const struct api_def *c, const struct api_def *out[API_MRO],
                 bool *open);

/* Classes of the library that inherit from `c`, directly or not: count, at most `most`. */
int api_subclasses(const struct api *a, const struct api_def *c, const struct api_def **out,
                   int most);

/* "file.py:12" of a definition in buf; returns buf. */
const char *api_place(const struct api_def *d, char *buf, size_t size);

#endif
