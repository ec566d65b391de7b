/* fault.h: named edits of ops: bugs that were seen in public, injected on purpose.
 *
 * One registry serves two uses: the campaign injects each fault and the harness must catch it; the
 * diagnosis re-runs a guilty op under each fault and asks which one explains the subject.
 *
 * FAULT is FAMILY.NAME[@KEY=VALUE,...]: keys narrow the site (layer, expert, row, rank ...) or set
 * a parameter of that fault. Without a site it holds wherever it can occur. Pairs may also be
 * joined by ':', so that a fault can stand in a case line of `assay op`.
 *
 * Keys of sites: layer, of the target; draft_step, of its draft head; op (by name); expert; row: of
 * the concatenated batch as dump_row says, of the op's own rows where it runs alone; slot: token of
 * a cached sequence; matrix of the op, by name; rank of ranks; call: the n-th call at the site,
 * from 0. A site that lies outside the op at hand leaves it as it is.
 *
 * The seam: an engine calls its ops through fault_call() while run->faults is set, and directly
 * otherwise. A fault wraps the op: it gets the op's argument struct, may pass an edited copy on,
 * run other ops of the same side instead, or edit what came out. Test: tests/test_fault.c */
#ifndef ASSAY_CORE_FAULT_H
#define ASSAY_CORE_FAULT_H

#include "core/model.h"
#include "core/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FAULT_KEYS = 8, FAULT_HOSTS = 12, FAULT_TEXT = 160, FAULT_ACTIVE = 4 };

/* How a diagnosis finds the value of a key. */
enum fault_fit {
    FIT_SITE,  /* part of the site, found by name: layer, expert (those chosen), row, slot (0 ..
                  cached length - 1), rank (0 .. ranks-1), call */
    FIT_OP,    /* the op's name; its value is the index in op_rows */
    FIT_TRY,   /* the values of `tries` */
    FIT_WORD,  /* those of `words` that the op at hand knows; its value is the index there */
    FIT_LINEAR /* the outputs are affine in it: least squares over two runs */
};

/* One key of a fault: part of its site, or a parameter with the values that a diagnosis tries. */
struct fault_key {
    const char *name;
    bool whole;  /* an integer, 0 or more; -1 (the default's): anywhere */
    double dflt; /* what holds when it is not given; -1: anywhere */
    enum fault_fit fit;
    const double *tries;      /* FIT_TRY: what a diagnosis tries, NAN at the end */
    const char *const *words; /* FIT_WORD: NULL at the end */
    const char *about;        /* "factor of the shared experts' output" */
};

enum fault_stage {
    FAULT_OP,     /* edits an op: has `wrap` */
    FAULT_FILE,   /* edits a file on disk */
    FAULT_CALL,   /* makes a system or library call of the program fail */
    FAULT_PROCESS /* makes a rank of several processes die, hang, or reply wrongly */
};

struct draft_step;
struct shard_plan;
struct fault_call;
struct fault_use;
struct fault_place;
struct head;

struct fault_row {
    const char *id;
    enum fault_stage stage;
    const char
        *hosts[FAULT_HOSTS]; /* op names; NULL at the end. "any": every op with real outputs */
    const char *edit;        /* what it changes */
    const char *source;      /* where it was seen: "vllm#1234", a bug-log id, or "our own" */
    const char *detector;    /* what must catch it: "diff", "inspect", "exit status" */
    bool added;              /* may befall what the op made on its way into its block's sum, after
                                it was recorded as it should be */
    const char *same_as;     /* faults of one output share this text; NULL: alone */
    struct fault_key keys[FAULT_KEYS];
    enum err_code (*wrap)(struct fault_call *c, const void *arg, struct run *run, struct err *err);
    /* Told of every call of a host at any site, before it runs and after: for faults that hand on
     * what an earlier call saw or left. NULL: nobody asks. */
    void (*watch)(struct fault_use *u, const struct fault_place *p, const void *arg, bool after);
    void (*forget)(void *memory); /* frees what `memory` leads to; NULL: free() is enough */
    /* Another target id for a draft's choice. NULL: does not edit it. */
    int64_t (*target_id)(const struct head *h, int64_t draft_id);
};

/* The registry, in families' order; NULL past the end. */
const struct fault_row *fault_at(int i);
const struct fault_row *fault_find(const char *id);
bool fault_hosted_by(const struct fault_row *f, const char *op);

/* Whether word `word` of a key of the kind FIT_WORD says anything of this op. */
bool fault_word_fits(const struct fault_key *key, int word, const char *op);

/* An active fault. */
struct fault_use {
    const struct fault_row *row;
    double value[FAULT_KEYS];
    int64_t seen;    /* op calls at its site, whatever its key `call` says */
    int64_t calls;   /* of them, those that it edited */
    int64_t changed; /* of them, those whose outputs it changed in bits; counted where asked */
    void *memory;    /* what a fault keeps between calls (malloc; freed with the faults) */
};

struct faults {
    struct fault_use use[FAULT_ACTIVE];
    int count;
    /* How the ranks of the subject share the model: faults of ranks are then made on these
     * (fault_ranks.h). NULL: unknown, and they imitate as many as their keys say. */
    const struct shard_plan *plan;
    /* Also run every faulted call without its faults and count those that differ in bits
     * (fault_use.changed): the op's time doubles. Of two faults at one call the first is counted
     * with the second. */
    bool count_changes;
};

/* Parses "ID[@KEY=VALUE,...]" and adds it. ERR_USAGE: unknown id (the nearest known one is named),
 * unknown key, a value out of range, a fault that edits no op. */
enum err_code faults_add(struct faults *f, const char *text, struct err *err) ERR_USED;
/* Parses one fault of that stage into *u. ERR_USAGE, as above. */
enum err_code fault_use_parse(struct fault_use *u, const char *text, enum fault_stage stage,
                              struct err *err) ERR_USED;
void faults_clear(struct faults *f);
/* "mla.no_mscale@layer=2": only the keys that differ from their defaults. Returns buf (FAULT_TEXT).
 */
const char *fault_print(const struct fault_use *u, char *buf);
/* The value of a key of an active fault. */
double fault_value(const struct fault_use *u, const char *key);

/* Where an op is called. */
struct fault_place {
    const char *op;
    enum tap_kind tap;         /* what it makes: tells the norms apart */
    int64_t layer;             /* -1: none */
    const struct model *model; /* NULL: the op runs alone */
    const struct step *step;
    const struct op_side *side;
    const struct draft_step *draft; /* NULL: not of a draft head, whose ops have no layer */
};

/* The call on its way through the active faults. */
struct fault_call {
    const struct fault_place *place;
    struct faults *faults;
    struct fault_use *use; /* the one whose turn it is */
    int next;
};

/* The target id of what a draft step chose, under `f`: what head->target_id says without. */
int64_t fault_target_id(struct faults *f, const struct draft_step *s, int64_t draft_id);

/* Runs the op under run->faults. */
enum err_code fault_call(const struct fault_place *place, const void *arg, struct run *run,
                         struct err *err) ERR_USED;
/* For a wrap: goes on with the op (through the faults after this one). */
enum err_code fault_next(struct fault_call *c, const void *arg, struct run *run,
                         struct err *err) ERR_USED;
/* For a wrap: another op of the same side, without faults. */
enum err_code fault_other(struct fault_call *c, const char *op, const void *arg, struct run *run,
                          struct err *err) ERR_USED;

/* The real outputs of an op's argument struct, for edits of what came out and for comparing bits,
 * in the order of the op's header (router: logits, weights; mla.kv: latent, k_rope; eagle.layer: y,
 * y_sum where it is asked for). Returns how many; 0: an op without real outputs. */
struct fault_output {
    double *data;
    int64_t rows, cols;
};
int fault_outputs(const char *op, const void *arg, struct fault_output out[2]);

#ifdef __cplusplus
}
#endif
#endif
