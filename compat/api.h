/* api.h: the surface of a Python library as recorded from its source: modules, the names in them,
 * and what each name is defined to be. Nothing is imported or run; what a name means is asked
 * through compat/api_lookup.h, annotations are taken apart by compat/api_type.h.
 *
 * A name may have several definitions (under `if`, in `try`, overloads, a later redefinition): all
 * are kept, in source order. Texts of annotations hold dotted names, resolved where they stood:
 * "list[pkg.mod.Cls] | None". An object of the model is named "pkg.mod:Cls.method": the module,
 * then what is inside of it.
 *
 * A contract recorded for a consumer holds only what the consumer reached: its modules and classes
 * are `partial`, and names that the consumer wanted and the library lacks are facts of their own
 * (`absent`, with where they are now). So "the library has no such name" and "nobody asked when it
 * was recorded" stay different answers.
 *
 * Everything lives in one arena and is freed with it. Test: tests/test_api_facts.c */
#ifndef ASSAY_COMPAT_API_H
#define ASSAY_COMPAT_API_H

#include "compat/pool.h"
#include "core/arena.h"
#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a text list is empty, `text` may be NULL. */
struct api_texts {
    const char **text;
    int count;
};

enum api_param_kind { API_POS, API_ANY, API_KW, API_STAR, API_DSTAR };

struct api_param {
    const char *name;
    enum api_param_kind kind;
    const char *type;     /* annotation, NULL: none */
    const char *fallback; /* default as source text; NULL: required */
};

struct api_params {
    struct api_param *param;
    int count;
};

/* How an attribute access binds a function. */
enum api_binding {
    API_FUNCTION, /* at module level, or nested in a function */
    API_INSTANCE,
    API_CLASSMETHOD,
    API_STATIC,
    API_PROPERTY,
    API_CACHED_PROPERTY
};

/* What one return statement shows: "none", "list", "dict", "tuple:2", "value", "raise",
 * "first-of-list". */
struct api_shape {
    const char *shape;
    const char *when; /* condition text, NULL: unconditional */
    int line;
};

/* A warning that the body gives under a condition: often of a parameter that goes away. */
struct api_warning {
    const char *text, *when; /* when NULL: always */
    int line;
};

struct api_function {
    struct api_params params;
    const char *returns; /* NULL: no annotation */
    struct api_texts decorators;
    enum api_binding binding;
    bool async, setter, overload, abstract, generator;
    bool wrapped; /* a decorator is not known to keep the signature */
    struct api_shape *shape;
    int shapes;
    struct api_warning *warning;
    int warnings;
};

/* An annotated name in a class body, in order: what generated constructors are made of. */
struct api_field {
    const char *name, *type; /* type NULL: x = attr.ib() */
    const char *fallback;    /* NULL: none */
    const char *alias;       /* its name as a parameter (pydantic, attrs), or NULL */
    const char *deprecated;
    struct api_texts when;
    bool factory; /* the default is made by a call at construction */
    bool init;    /* false: field(init=False) */
    bool kw_only, initvar, classvar;
    bool optional; /* NotRequired of a TypedDict */
    int line;
};

/* An attribute that a method assigns: self.NAME = ... */
struct api_attr {
    const char *name, *type, *value, *method;
    struct api_texts calls; /* what is called for its value: "pkg.Cls"; "" for what is no call */
    int line;
};

struct api_keyword {
    const char *name, *value; /* class C(Base, kw_only=True): source text */
};

/* Names that somebody wanted and that are not there. */
struct api_absent {
    const char *name;
    struct api_texts now; /* "pkg.mod:Name" where it is now, or near misses; best first */
};

struct api_names {
    struct api_name *name; /* ascending by strcmp */
    int count;
    int room; /* of those who build a model */
};

struct api_order;

struct api_class {
    struct api_texts bases, decorators;
    struct api_order *order; /* of api_mro(), once somebody asked; in the arena of the model */
    struct api_keyword *keyword;
    int keywords;
    struct api_field *field;
    int fields;
    struct api_names members; /* methods, class variables without annotation, nested classes */
    struct api_attr *attr;    /* ascending by name */
    int attrs;
    const char *dynamic; /* how a method sets attributes of computed names ("setattr"), or NULL */
    bool partial; /* recorded for a consumer: the definitions of `others` were not recorded */
    struct api_texts others; /* partial: the names of all other members and attributes, ascending */
};

enum api_kind { API_DEF, API_CLASS, API_ALIAS, API_VALUE };

struct api_def {
    enum api_kind kind;
    const char *name;          /* last part */
    const char *path;          /* "pkg.mod:Cls.method" */
    struct api_module *module; /* where it is written */
    struct api_def *owner;     /* the class around it, or NULL */
    int line;
    struct api_texts when;  /* conditions that it stands under, outermost first */
    const char *deprecated; /* the text of its deprecation, or NULL */
    union {
        struct api_function *function;
        struct api_class *class_;
        const char *to; /* alias: "pkg.mod" or "pkg.mod:Name" */
        struct {
            const char *type, *text, *call; /* each may be NULL */
        } value;
    };
};

struct api_name {
    const char *name;
    struct api_def *def; /* in source order */
    int defs;            /* at least 1 */
};

struct api_lazy {
    const char *name;
    const char *to; /* "pkg.mod:Name", "pkg.mod", or NULL: it is there, what it is is not known */
    const char *deprecated; /* what its making warns of, or NULL */
};

struct api_module {
    const char *name; /* dotted */
    const char *file; /* "pkg/mod/__init__.py" */
    bool package;
    bool space;    /* a package without __init__.py: a folder */
    bool compiled; /* an extension: only that it is there is known */
    bool has_all;
    bool all_unknown;       /* there is an __all__ that the source does not spell out */
    struct api_texts all;   /* __all__ */
    struct api_texts stars; /* from X import *, in source order */
    struct api_names names;
    bool dynamic;          /* __getattr__ may make any name */
    struct api_lazy *lazy; /* names that __getattr__ is known to make, ascending */
    int lazies;
    const char *lazy_deprecated; /* what __getattr__ warns of, or NULL */
    bool partial;                /* other names were not recorded */
    const char *problem;         /* its file could not be read whole; NULL: it could */
    struct api_absent *absent;   /* ascending */
    int absents;
};

/* A file of which the extractor could not make facts. */
struct api_problem {
    const char *file, *what;
    int line;
};

struct api_origin {
    const char *name, *version, *source, *sha256; /* version may be NULL */
};

struct api_reach;

struct api {
    struct api_origin library;
    struct api_origin consumer; /* name NULL: the whole library was recorded */
    const char *extractor;
    struct api_module *module; /* ascending by name */
    int modules;
    struct api_problem *problem;
    int problems;
    struct api_absent *absent; /* modules that were wanted, ascending */
    int absents;
    struct api_reach *reach; /* not NULL: every lookup is noted here (api_prune.h) */
    struct arena *arena;
};

/* Borrowed; NULL where there is none. `name` need not end where `length` ends. */
struct api_module *api_module(const struct api *a, const char *name, size_t length);
struct api_name *api_name(const struct api_names *names, const char *name, size_t length);
struct api_attr *api_attr(const struct api_class *c, const char *name);
struct api_field *api_field(const struct api_class *c, const char *name);
const struct api_absent *api_absent(const struct api_absent *absent, int count, const char *name);

bool api_texts_have(const struct api_texts *t, const char *text);

/* Sorts by name what must be sorted and fills path, module and owner of every definition; for those
 * who build a model. ERR_INPUT: a name twice ("what|where|found|wanted"). */
enum err_code api_finish(struct api *a, struct err *err) ERR_USED;

/* JSON of form 1 (what the extractor prints: compat/python), checked strictly: unknown keys, wrong
 * types, names that are no names, counts and depths past the bounds of api_facts.c are ERR_INPUT
 * with the place as a path of keys in `where`. `origin` is for messages. */
enum err_code api_from_json(struct api *out, const json_t *root, const char *origin,
                            struct arena *a, struct err *err) ERR_USED;
/* The same for a text. */
enum err_code api_from_facts(struct api *out, const char *text, int64_t size, const char *origin,
                             struct arena *a, struct err *err) ERR_USED;

/* A contract file (the format: api_write.c). Errors: ERR_INPUT with PATH:LINE:COLUMN; what
 * core/yaml.h refuses, unknown keys, missing parts, another version of the format. */
enum err_code api_read(struct api *out, const char *path, struct arena *a,
                       struct err *err) ERR_USED;
/* The same for a text in memory. */
enum err_code api_parse(struct api *out, const char *text, int64_t size, const char *path,
                        struct arena *a, struct err *err) ERR_USED;

/* The contract as YAML, *text from malloc: sorted, the same bytes for the same surface. */
enum err_code api_print(const struct api *a, char **text, int64_t *size, struct err *err) ERR_USED;
/* api_print() to a file, all or nothing. */
enum err_code api_write(const struct api *a, const char *path, struct err *err) ERR_USED;

#endif
