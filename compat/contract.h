/* contract.h: op contracts as files: compat/ops/STEM.yaml says what an op takes and gives, within
 * which limits, which cases it must accept and which it must refuse with which message.
 *
 *     stem: norm
 *     ops:
 *       norm:
 *         formula: ...
 *         inputs:  {x: "[T, H] f64"}
 *         outputs: {y: "[T, H] f64"}
 *         limits:  {H: {min: 1}}            of the case keys that bear the same name
 *         rules:   ["..."]                  limits that hold between several keys
 *     accept: ["norm T=1,H=1"]              case lines
 *     reject: [{case: "norm eps=-1", error: "eps = -1"}]    a part of the message
 *
 * Read strictly: what core/yaml.h refuses, unknown keys, missing parts and numbers with anything
 * behind them are errors that name file, line and column. Nothing is run here. Test:
 * tests/test_contract.c, test_contract_ops.c */
#ifndef ASSAY_COMPAT_CONTRACT_H
#define ASSAY_COMPAT_CONTRACT_H

#include "core/arena.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CONTRACT_OPS = 8,
    CONTRACT_PORTS = 16,
    CONTRACT_LIMITS = 32,
    CONTRACT_RULES = 16,
    CONTRACT_CASES = 64
};

/* An input or an output. */
struct contract_port {
    const char *name, *shape; /* "[T, H] f64" */
};

struct contract_limit {
    const char *key;
    bool has_min, has_max;
    double min, max;
};

struct contract_op {
    const char *name, *formula;
    struct contract_port input[CONTRACT_PORTS], output[CONTRACT_PORTS];
    int inputs, outputs;
    struct contract_limit limit[CONTRACT_LIMITS];
    int limits;
    const char *rule[CONTRACT_RULES];
    int rules;
};

struct contract_case {
    const char *line;  /* a case line */
    const char *error; /* part of the message; NULL: accepted */
    int at;            /* line of the file, 1-based */
};

struct contract {
    const char *stem;
    struct contract_op op[CONTRACT_OPS];
    int ops;
    struct contract_case accept[CONTRACT_CASES], reject[CONTRACT_CASES];
    int accepts, rejects;
};

/* Texts live in the arena. Errors: ERR_INPUT with "PATH:LINE:COLUMN" in `where`. */
enum err_code contract_read(struct contract *out, const char *path, struct arena *a,
                            struct err *err) ERR_USED;

#endif
