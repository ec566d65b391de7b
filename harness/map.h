/* map.h: names and layouts of another engine's dump, translated to taps: `diff --map NAMES.yaml`.
 * Maps for transformers, vLLM and SGLang are shipped (compat/maps): `diff --map transformers`.
 *
 *     assay-map: 1
 *     engine: my-engine 1.2         # optional: what the report calls it
 *     tokens: input_ids             # optional: the tensor of token ids, * and ? allowed
 *     rows: last 8                  # optional: which rows of the tokens the taps hold
 *     taps:                         # the first rule whose `from` fits a name holds
 *       - {from: "model.layers.{N}.self_attn.o_proj", to: "layers.{N}.attn"}
 *       - {from: "hidden.{N}", to: "layers.{N-1}.output"}          # also {N+1}
 *       - {from: hidden_states, axis: 0, stack: [embed, "layers.{0..4}.output", final_norm]}
 *       - {from: states, axis: 1, stack: [embed, "layers.{0..}.output", final_norm]}   # as many as
 * fit
 *       - {from: "hidden_states.{last}", to: final_norm}           # the highest number there is
 *       - {from: "q.{N}", to: "layers.{N}.q", axes: [1, 0, 2]}     # [heads, T, d] -> [T, heads, d]
 *       - {from: "k_pe.{N}", to: "layers.{N}.k_rope", rope: half_split, rope_dim: 64}
 *       - {from: "qT.{N}", to: "layers.{N}.q", transpose: true, head_dim: 192, rope_dim: 64,
 * rope_first: true}
 *       - {from: "q_b.{N}", to: "layers.{N}.q", shard: 1}          # ranks hold parts of axis 1
 *       - {from: "down.{N}", to: "layers.{N}.mlp", partial: true} # ranks hold terms of a sum
 *       - {from: "*.debug", skip: true}
 *
 * A tensor without a rule keeps its name. After `axes` (or `transpose`) leading axes of length 1
 * fall away and all after the first are one: [1, T, heads, d] is [T, heads*d]. `rope: half_split`:
 * the last rope_dim columns of each head (head_dim; default: rope_dim) stand as two halves and
 * become adjacent pairs; `rope_first`: they stand before the others. Test: tests/test_map.c */
#ifndef ASSAY_HARNESS_MAP_H
#define ASSAY_HARNESS_MAP_H

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAP_AXES = 8, MAP_NAME = 192 };

struct map_rule {
    const char *from; /* with * and ?, and at most one {N} or {last} */
    const char *to;   /* NULL: skip or stack */
    bool skip;
    const char **stack; /* names, expanded */
    int64_t stack_count;
    int64_t open, open_first;       /* that of stack which stands for as many as fit, from number
                                       open_first on; -1: none */
    int64_t last;                   /* of {last}, once map_learn() has seen the names; -1: none */
    int axis;                       /* of the stack */
    int axes[MAP_AXES], axis_count; /* 0: as stored */
    bool sharded, partial;          /* ranks hold parts; terms of a sum */
    int shard;                      /* the axis of the parts */
    bool transpose, half_split, rope_first;
    int64_t head_dim, rope_dim;
    int line;
};

struct map {
    const char *path, *engine, *tokens, *rows; /* NULL: not given */
    bool shipped; /* for every dump of an engine: one without its tokens is fine */
    struct map_rule *rules;
    int64_t count;
};

/* Everything lies in the arena. Errors: what yaml.h refuses, unknown keys, rules that say nothing
 * or contradict themselves; with line and column. */
enum err_code map_read(const char *path, struct arena *a, struct map *out,
                       struct err *err) ERR_USED;
enum err_code map_parse(const char *text, int64_t size, const char *path, struct arena *a,
                        struct map *out, struct err *err) ERR_USED;
/* The path of a map: `name` itself where it is a file or has a slash or a dot, else that of the
 * shipped map of this name. Errors: there is none; it names those that there are. */
enum err_code map_path(const char *name, char out[FILE_PATH], struct err *err) ERR_USED;
/* Shows the map a name of the dump, for {last}; all of them, before the first map_find(). */
void map_learn(struct map *m, const char *name);
/* The name of slice i of n; false where the rule has more or fewer names than n. */
bool map_stack_name(const struct map_rule *rule, int64_t n, int64_t i, char out[MAP_NAME]);
/* The rule of a name, or NULL; `to` (MAP_NAME bytes) receives the tap's name where the rule has
 * one. False: the name gives a layer below 0 or does not fit into `to`. */
bool map_find(const struct map *m, const char *name, const struct map_rule **rule, char *to);

#endif
