/* plan_preflight.h: the key `preflight` of a plan: what is going to be loaded, by what, and what
 * is to come of it. Every key may be left out; what a check needs and does not find here is shown
 * as not asked.
 *
 *   preflight:
 *     consumer: extract.py          a script, folder, wheel or installed name, or a list of them
 *     library: vllm                 what it calls: a contract (*.yaml), folder, wheel, name
 *     baseline: vllm-0.11.0.yaml    a contract that the consumer is known to have fitted
 *     receivers: [NAME=TYPE]        as --receiver of `contract check`
 *     accept: accept.yaml           as --accept of `contract check`
 *     scripts: [run.sh]             linted, and not held against the library
 *     layers: [2, 30, 58, 60]       the states that are stored, the last one the target
 *     numbering: entry|output       id i enters layer i, or leaves it
 *     samples: 1000                 that are going to be written
 *     sample_tokens: 2048           of a sample
 *     dtype: bf16|f16|f32           of the stored states (default: the model's)
 *     out: DIR                      where they go
 *     commands:                     lines that somebody is going to type
 *       - ssh gpu1 nvidia-smi
 *       - {line: ..., through: "zsh,ssh:gpu1,bash"}
 *     shell: sh                     that they are typed into
 *     login_shell: sh               that an ssh in them comes to
 *     tp: 8                         ranks, as the options of `doctor --plan`; ep, expert_map,
 *                                   redundant likewise
 *     kv_tokens: 65536              tokens that the cache holds at once
 *     target: {devices: 8, device_memory: 141 GB, host_memory: 2 TB}     another machine than this
 *     load_minutes: 18              that the load takes
 *     read_bandwidth: 1.5 GB/s      or how fast the checkpoint is read
 *     rehearse: {run: "python3 extract.py {model} {out}", shrink: "layers=4", seconds: 60,
 *                also: [PKG]}
 *
 * Refused, with line and column: unknown keys, wrong types, numbers out of range.
 * Test: tests/test_plan_preflight.c */
#ifndef ASSAY_HARNESS_PLAN_PREFLIGHT_H
#define ASSAY_HARNESS_PLAN_PREFLIGHT_H

#include "core/dtype.h"
#include "core/shard.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_WORDS = 64, PLAN_LAYERS = 64, REHEARSE_SECONDS = 60 };

enum plan_numbering { NUMBERING_NONE, NUMBERING_ENTRY, NUMBERING_OUTPUT };

struct plan_word {
    const char *text;
    const char *through; /* of a command: its hops, or NULL */
    int line;            /* in the plan */
};

struct plan_words {
    struct plan_word word[PLAN_WORDS];
    int count;
};

/* Whole numbers are -1, and texts NULL, where the plan does not say. */
struct plan_preflight {
    int line; /* of the key; 0: there is none */
    struct plan_words consumer, scripts, receivers, commands;
    const char *library, *baseline, *accept, *out, *shell, *login_shell;
    int64_t layer[PLAN_LAYERS];
    int layers, layers_line;
    enum plan_numbering numbering;
    int64_t samples, sample_tokens, kv_tokens;
    enum dtype dtype; /* DT_COUNT: the model's */
    struct shard_plan shard;
    bool sharded;           /* tp or ep is given */
    int64_t devices;        /* of the target */
    double device_memory;   /* bytes of one; -1 */
    double host_memory;     /* bytes; -1 */
    double load_minutes;    /* -1 */
    double read_bandwidth;  /* bytes a second; -1 */
    struct plan_words run;  /* of the rehearsal: lines for sh */
    struct plan_words also; /* packages that the guard looks into */
    const char *shrink;     /* NULL: preflight_shrink() finds one */
    int64_t seconds;        /* that each line may take */
};

/* Nothing given. */
void plan_preflight_init(struct plan_preflight *p);

#endif
