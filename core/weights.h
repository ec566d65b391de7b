/* weights.h: where tensors come from: a folder of safetensors files, or a rule that makes them. A
 * matrix is a linear layer's weight [out, in] in whatever format it is stored: one tensor, or
 * packed codes with scales (weights_matrix.c). Test: tests/test_weights.c */
#ifndef ASSAY_CORE_WEIGHTS_H
#define ASSAY_CORE_WEIGHTS_H

#include "core/config.h"
#include "core/error.h"
#include "core/safetensors.h"
#include "core/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* a / b rounded up, b > 0: words and groups of a packed row, blocks of an FP8 one. */
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

enum matrix_format { MATRIX_DENSE, MATRIX_PACKED, MATRIX_FP8_BLOCK };

/* y = x W^T. DENSE: data [out, in] of bf16, f16 or f32. PACKED (model math 6.1): data int32
 * [out, ceil(in*bits/32)], scale [out, in/group] (group 0: [out, 1]), zero int32
 * [ceil(out*bits/32), in/group] or absent when symmetric, g_idx int32 [in] or absent. FP8_BLOCK
 * (6.5): data e4m3 [out, in], scale f32 [ceil(out/block0), ceil(in/block1)]. */
struct matrix {
    enum matrix_format format;
    int64_t out, in;
    int bits;
    int64_t group, block[2];
    struct tensor data, scale, zero, g_idx;
};

struct weights {
    bool synthetic;
    uint64_t seed;
    double latent_gain;   /* multiplies the scale of q_a_proj and kv_a_proj_with_mqa */
    char path[FILE_PATH]; /* the folder or "synth:..." as given */
    struct st_file *files;
    int64_t file_count;
    const struct st_tensor **index; /* every tensor of every file, by name */
    int64_t index_count;
    struct config config;
};

/* MODEL: a folder with config.json and *.safetensors (with or without
 * model.safetensors.index.json), or "synth:CONFIG.json?seed=N[&latent_gain=G]". Without an index
 * the files are model.safetensors, else model-*.safetensors, else all. Refused: no config, no
 * shards, a shard the index names but that is missing, a tensor in two files, an index entry whose
 * file lacks the tensor. */
enum err_code weights_open(struct weights *w, const char *model, struct err *err) ERR_USED;
/* The same without reading the config: *config_path (FILE_PATH bytes) is where it lies, and
 * w->config says dense, without a prefix. For draft heads, whose config is another (head.h). */
enum err_code weights_open_bare(struct weights *w, const char *spec, char *config_path,
                                struct err *err) ERR_USED;
void weights_close(struct weights *w);
/* From here on whole tensors are read. model_bind() says so when it has checked every shape. */
void weights_advise(const struct weights *w);
/* `opening` is told of every file before it is opened: what a load waits for. NULL: nobody. */
void weights_watch(void (*opening)(const char *path));

/* The stored tensor `name`, or !tensor_exists() when the checkpoint has none. Synthetic sources
 * have none of their own: see weights_tensor(). */
const struct st_tensor *weights_stored(const struct weights *w, const char *name);
/* The file that a stored tensor lies in, for messages. */
const char *weights_file(const struct weights *w, const struct st_tensor *t);

/* A tensor that must be there with this shape, of any float type (`as` DT_COUNT) or of type `as`.
 * Synthetic: made by the rule that its name implies. Errors name the tensor, what was found and
 * what was wanted. */
enum err_code weights_tensor(const struct weights *w, const char *name, enum dtype as, int dims,
                             const int64_t *shape, struct tensor *out, struct err *err) ERR_USED;

/* The matrix of the linear `name` (without ".weight"), in the format that the config says and the
 * files hold. */
enum err_code weights_matrix(const struct weights *w, const char *name, int64_t out, int64_t in,
                             struct matrix *m, struct err *err) ERR_USED;

#ifdef __cplusplus
}
#endif
#endif
