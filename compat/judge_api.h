/* judge_api.h: what a consumer asks of a library, judged against the library's recorded surface.
 *
 * The consumer's tree (uses.h) is interpreted module by module with abstract values: which name is
 * bound to which symbol of the library, which class an object has. Each import, call, attribute,
 * override that reaches the library becomes a finding with one of three answers: ok, broken (with
 * proof: both places, found and wanted), undecidable (with what would decide it). What cannot be
 * known is never guessed. One cause is one finding; what follows from it is folded under it.
 *
 * Not judged: the order in which methods must be called (a library that since wants a second call
 * after the first shows it at most as a result that is of another type, against a baseline); what
 * a call does, returns or raises beyond its recorded shapes; operators and `in` on its objects; an
 * enum called with a value; which of two branches a value that only a run knows takes.
 *
 * The library is asked only through api_lookup.h, so that a run with api->reach set shows all that
 * an answer needs. Test: tests/test_judge_*.c */
#ifndef ASSAY_COMPAT_JUDGE_API_H
#define ASSAY_COMPAT_JUDGE_API_H

#include "compat/api.h"
#include "compat/uses.h"

enum judge_verdict { JUDGE_OK, JUDGE_BROKEN, JUDGE_UNDECIDABLE };

enum judge_severity {
    JUDGE_NOTE, /* of an ok finding without anything to say */
    JUDGE_BREAKS_NOW,
    JUDGE_SHIFTS,  /* a positional argument lands in another parameter */
    JUDGE_DEFAULT, /* the default of an omitted argument is another one */
    JUDGE_TYPE,    /* an attribute or a result is of another type */
    JUDGE_DEPRECATED,
    JUDGE_CANNOT_TELL
};

/* What was looked at. */
enum judge_kind {
    JUDGE_IMPORT,
    JUDGE_CALL,
    JUDGE_ATTRIBUTE,
    JUDGE_OVERRIDE,
    JUDGE_ABSTRACT,
    JUDGE_PATCH,
    JUDGE_NAMED, /* a method named by a string */
    JUDGE_RESULT
};

struct judge_finding {
    enum judge_kind kind;
    enum judge_verdict verdict;
    enum judge_severity severity;
    const char *symbol; /* "pkg.mod.Cls.method" */
    const char *file;   /* of the consumer */
    int line;
    const char *why, *found, *wanted, *remedy; /* any but why may be NULL */
    const char *until;                         /* DEPRECATED: the version, or NULL */
    const char *provider;                      /* the library's file, or NULL */
    int provider_line;
    int *also; /* other lines of the same file that show the same cause */
    int alsos, also_room;
    const char *accepted; /* the reason, where it is accepted */
};

/* One accepted finding: symbol and file are patterns (text_glob()); NULL: any. */
struct judge_accept {
    const char *symbol, *file, *reason;
    const char *until; /* YYYY-MM-DD, or NULL */
    const char *place; /* "FILE:LINE" of the row itself, for messages */
    int line;          /* inline ones: of the comment; 0: any */
    bool hit;
};

/* [SCOPE:]NAME=TYPE: NAME a variable or a dotted path, SCOPE a function or a class. */
struct judge_hint {
    const char *text;
};

struct judge_api_input {
    const struct api *api;
    const struct api *baseline; /* a contract that the consumer is known to have fitted, or NULL */
    const struct uses *uses;
    const struct judge_hint *hint;
    int hints;
    struct judge_accept *accept;
    int accepts;
    const char *today; /* YYYY-MM-DD, for expiry */
    bool gather;       /* only asks the library (api->reach); no report, nothing is an error */
};

struct judge_counts {
    int checked, ok, broken, undecidable, warned, accepted, folded;
};

struct judge_report {
    struct judge_finding *finding; /* by file and line */
    int findings;
    struct judge_counts counts; /* accepted ones are in no other count but checked */
};

/* Errors: memory; ERR_INPUT: a hint whose type the library lacks, a hint or an accepted row that
 * matches nothing or has expired, nothing of the library used at all. Texts lie in the arena. */
enum err_code judge_api(const struct judge_api_input *in, struct arena *a, struct judge_report *out,
                        struct err *err) ERR_USED;

/* "breaks now", "deprecated until 1.2": for people and JSON. Returns buf or a constant. */
const char *judge_severity_text(const struct judge_finding *f, char *buf, size_t size);
const char *judge_verdict_text(enum judge_verdict v);
/* "import", "call", ... */
const char *judge_kind_text(enum judge_kind k);

#endif
