/* pt_pickle.h: the part of the pickle machine that plain data and tensors need (protocols 2 to 5),
 * private to pt.h. It runs over bytes in memory, makes objects, and executes nothing: a global is a
 * row of a table or refused by its name.
 *
 * Memory has the limits below, at most some 300 MiB, and is a multiple of the pickle's own size.
 * What is built may share objects and even hold itself (through the memo): who walks it needs a
 * limit on depth and on count.
 *
 * Source: CPython's Lib/pickletools.py, which describes each opcode. Test: tests/test_pt.c */
#ifndef ASSAY_CORE_PT_PICKLE_H
#define ASSAY_CORE_PT_PICKLE_H

#include "core/arena.h"
#include "core/pt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PICKLE_BYTES = 32 << 20,
    PICKLE_STACK = 1 << 20, /* values at once; torch's lists and dicts come in batches of 1000 */
    PICKLE_MARKS = 1 << 10,
    PICKLE_OBJECTS = 1 << 20,
    PICKLE_VALUES = 1 << 22, /* in all containers: counts of a vocabulary are 2^19 */
};

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT,
    PICKLE_TENSOR,
    PICKLE_STORAGE,
    PICKLE_GLOBAL,
    PICKLE_KINDS
};

struct pickle_object;

/* What a global may be: the only callables there are. */
enum pickle_call {
    CALL_TENSOR,    /* torch._utils._rebuild_tensor_v2 */
    CALL_PARAMETER, /* torch._utils._rebuild_parameter */
    CALL_ORDERED,   /* collections.OrderedDict */
    CALL_SIZE,      /* torch.Size */
    CALL_ENCODE,    /* _codecs.encode: bytes in protocol 2 */
    CALL_STORAGE,   /* torch.FloatStorage, ...: named, never called */
};

struct pickle_global {
    const char *module, *name;
    enum pickle_call call;
    enum dtype dtype; /* of a storage */
};

struct pickle_value {
    enum pickle_kind kind;
    int64_t whole; /* BOOL, INT; TEXT: bytes */
    union {
        double real;
        const char *text; /* in the arena, a NUL behind it */
        struct pickle_object *object;
        const struct pickle_global *global;
    };
};

struct pickle_object {
    struct pickle_object *next; /* of all, for freeing */
    struct pickle_value *items; /* LIST, TUPLE; DICT: key, value, key, value ... */
    int64_t count, room;        /* of items */
    bool ordered;               /* an OrderedDict */
    /* STORAGE */
    enum dtype dtype;
    struct pickle_value key;
    int64_t elements;
    const void *bytes; /* filled in by who reads the storage */
    /* TENSOR: a view of elements of a storage */
    struct pickle_object *storage;
    int64_t offset;
    int dims;
    int64_t shape[ST_DIMS], stride[ST_DIMS];
    const struct st_tensor *made; /* filled in by who makes it */
};

struct pickle {
    const char *path;
    const unsigned char *data;
    int64_t size, at;
    char *texts; /* of the arena: all texts, twice the pickle's bytes */
    int64_t texts_used;
    struct pickle_value *stack;
    int64_t count, room;
    int64_t marks[PICKLE_MARKS]; /* stack depths */
    int mark_count;
    struct pickle_value *memo;
    bool *memo_set;
    int64_t memo_room, memo_puts;
    struct pickle_object *objects;
    int64_t object_count, value_count;
    bool stopped;
};

/* Runs the whole pickle: *out is its value, alive until pickle_free(), which is due also after an
 * error. Texts lie in the arena and live longer. */
enum err_code pickle_run(struct pickle *p, const char *path, const void *data, int64_t size,
                         struct arena *arena, struct pickle_value *out, struct err *err) ERR_USED;
void pickle_free(struct pickle *p);

/* "an integer", "a tensor": for messages. */
const char *pickle_kind_name(enum pickle_kind kind);

/* ---- shared by the machine's files ---- */

/* "read pickle" refused at the byte the machine is at. */
enum err_code pickle_refuse(const struct pickle *p, struct err *err, const char *found,
                            const char *wanted);
struct pickle_object *pickle_object(struct pickle *p, struct err *err);
/* Room for a text of n bytes and its NUL, or NULL. */
char *pickle_text(struct pickle *p, int64_t n, struct err *err);
enum err_code pickle_push(struct pickle *p, struct pickle_value v, struct err *err) ERR_USED;
/* Takes the topmost value. */
enum err_code pickle_pop(struct pickle *p, struct pickle_value *out, struct err *err) ERR_USED;
enum err_code pickle_append(struct pickle *p, struct pickle_object *o, const struct pickle_value *v,
                            int64_t n, struct err *err) ERR_USED;

/* The lowest stack depth that may be taken: what lies below the topmost mark belongs to others. */
int64_t pickle_bottom(const struct pickle *p);
/* Notes the topmost value under a memo number; pushes the one that was noted. */
enum err_code pickle_note(struct pickle *p, int64_t i, struct err *err) ERR_USED;
enum err_code pickle_recall(struct pickle *p, int64_t i, struct err *err) ERR_USED;

/* Runs the next opcode. */
enum err_code pickle_step(struct pickle *p, struct err *err) ERR_USED;
/* Pushes the global of a module and a name, or refuses it by that name. */
enum err_code pickle_global(struct pickle *p, const char *module, int64_t module_bytes,
                            const char *name, int64_t name_bytes, struct err *err) ERR_USED;
/* REDUCE, BUILD, BINPERSID: on the topmost values. */
enum err_code pickle_reduce(struct pickle *p, int unused, struct err *err) ERR_USED;
enum err_code pickle_build(struct pickle *p, int unused, struct err *err) ERR_USED;
enum err_code pickle_persistent(struct pickle *p, int unused, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
