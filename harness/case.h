/* case.h: one op, one line of text that replays it:
 *     norm T=3,H=256,eps=1e-05,seed=7
 * The op's name, then key=value pairs; what is not given has the default of the schema. The data is
 * a pure function of the line: element i of tensor "x" is hash(seed, "x", i) of core/synth.h, so a
 * line printed on one machine makes the same bits on another.
 *
 * Schemas are data (struct param_row). Their ranges are wider than the ops' own limits on purpose:
 * what an op must refuse has to be reachable (`spoil=`, odd R, eps=-1). With `fault=ID@KEY=V:KEY=V`
 * every side but the first, the truth, runs with that fault of core/fault.h. Everything that must
 * not be read is poison: the latent cache and all outputs start as NaN, unused block-table slots
 * hold -1 or 2147480000.
 *
 * Here: parsing, printing, building, drawing at random. Not here: judging (bound.h), running
 * (op_run.h). Test: tests/test_case.c */
#ifndef ASSAY_HARNESS_CASE_H
#define ASSAY_HARNESS_CASE_H

#include "core/arena.h"
#include "core/error.h"
#include "core/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CASE_PARAMS = 40,
    CASE_LIST = 256,
    CASE_WORD = 96,
    CASE_OUTPUTS = 3,
    CASE_INPUT = 2048, /* characters of a line to parse, also with every parameter */
    CASE_LINE = 4096   /* room to print any */
};

enum param_kind {
    PARAM_INT,
    PARAM_REAL,
    PARAM_WORD,    /* one of `words` */
    PARAM_LIST,    /* whole numbers joined by ':', at most CASE_LIST; V*N stands for V N times */
    PARAM_PROFILE, /* what profile_find() knows */
    PARAM_FAULT, /* "none", or what faults_add() takes and the op hosts; printed where there is one
                  */
};

struct param_row {
    const char *key;
    enum param_kind kind;
    double min, max;          /* INT, REAL, each item of a LIST */
    const char *dflt;         /* as it would stand in a line */
    const char *const *words; /* WORD: ends with NULL */
    const char *help;
    bool quiet; /* not printed where it has its default */
};

/* What a parameter takes, in words: "a whole number from 1 to 64". */
void param_wants(const struct param_row *row, char *buf, size_t size);

struct case_value {
    int64_t whole; /* INT; WORD: its index */
    double real;
    int64_t list[CASE_LIST];
    int items;
    char word[CASE_WORD]; /* WORD, PROFILE, FAULT */
};

struct op_case {
    const struct case_op *op;
    struct case_value value[CASE_PARAMS]; /* in the order of case_param() */
};

/* What an op writes. In double, whatever the engine's own type; ids are int32, codes int8. */
struct case_output {
    const char *name;
    enum dtype dtype;
    int64_t rows, cols;
    void *data;
};

struct case_data {
    void *op; /* the argument struct of the op's header */
    struct case_output output[CASE_OUTPUTS];
    int outputs;
};

struct draw;

struct case_op {
    const char *name;
    const struct param_row *params; /* own ones; ends with a NULL key; the common ones follow */
    /* Makes inputs, weights and poisoned outputs. NULL err text never: says which keys contradict
     * each other. */
    enum err_code (*make)(const struct op_case *c, struct arena *a, struct case_data *out,
                          struct err *err);
    /* Sets the own parameters of a case that the op must accept. */
    void (*draw)(struct op_case *c, struct draw *d);
};

/* Op i of the table, or NULL past the end. */
const struct case_op *case_op_at(int i);
const struct case_op *case_op_find(const char *name);
/* Parameter i of an op, own ones first, or NULL past the end. */
const struct param_row *case_param(const struct case_op *op, int i);

/* Errors are ERR_USAGE and say which key, what was found, what was wanted. */
enum err_code case_parse(struct op_case *out, const char *line, struct err *err) ERR_USED;
/* The line with every parameter; parsing it gives the same case. Returns buf (CASE_LINE bytes). */
const char *case_print(const struct op_case *c, char *buf);
/* All parameters at their defaults. */
void case_defaults(struct op_case *out, const struct case_op *op);

/* Values; the key must be in the schema. */
int64_t case_get_int(const struct op_case *c, const char *key);
double case_get_real(const struct op_case *c, const char *key);
const char *case_word(const struct op_case *c, const char *key);
bool case_word_is(const struct op_case *c, const char *key, const char *word);
const int64_t *case_list(const struct op_case *c, const char *key, int *items);
bool case_has_key(const struct op_case *c, const char *key);
/* Sets one value from text that must be valid. */
void case_set(struct op_case *c, const char *key, const char *text);
void case_set_int(struct op_case *c, const char *key, int64_t v);

enum err_code case_make(const struct op_case *c, struct arena *a, struct case_data *out,
                        struct err *err) ERR_USED;
/* The run that the common parameters ask for. */
enum err_code case_run(const struct op_case *c, struct arena *a, struct run *run,
                       struct err *err) ERR_USED;

/* The fault that the case asks for, or NULL; the text lives as long as the case. */
const char *case_fault(const struct op_case *c);

/* Case i of the sweep of an op: odd sizes, one token, one expert, k = E, tile +-1. A pure function
 * of its arguments. */
void case_draw(struct op_case *out, const struct case_op *op, uint64_t seed, int64_t i);

/* Makes it one that a device computes: its own type of activations, rounded where its profile says.
 */
void case_fit_device(struct op_case *c);

#endif
