/* layout.h: the tensors that a checkpoint must hold, as data: name, kind of dtype, shape, layer and
 * expert, made from the config alone. What core/model.c binds is a subset of this list.
 *
 * A linear NAME [out, in] is stored in one of three forms (model math 6):
 *   dense      NAME.weight [out, in]
 *   packed     NAME.weight_packed, .weight_scale, .weight_shape, and .weight_zero_point,
 *              .weight_g_idx where the config says so
 *   FP8 block  NAME.weight, NAME.weight_scale_inv
 * The config says which; a linear that it leaves open is taken as it is stored.
 *
 * Not in the list, and no error where they are: vision_tower.*, mm_projector.*, rotary inv_freq,
 * layers past num_hidden_layers (multi-token prediction). Test: tests/test_layout.c */
#ifndef ASSAY_CORE_LAYOUT_H
#define ASSAY_CORE_LAYOUT_H

#include "core/config.h"
#include "core/dtype.h"
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum layout_kind {
    LAYOUT_REAL,  /* the config's type, or F32 */
    LAYOUT_SCALE, /* of a packed linear: as LAYOUT_REAL */
    LAYOUT_CODES, /* I32 */
    LAYOUT_PAIR,  /* weight_shape: I32 or I64, both are written */
    LAYOUT_FP8,   /* F8_E4M3 */
    LAYOUT_BLOCK  /* scale_inv of FP8: F32 */
};

struct layout_tensor {
    const char *name; /* borrowed from the list */
    enum layout_kind kind;
    int role; /* below layout_roles(): the same for the tensors of all layers and experts */
    int dims;
    int64_t shape[2];
    int64_t out, in;       /* of its linear; 0 for what is none */
    int32_t layer, expert; /* -1: none */
};

struct layout {
    struct layout_tensor *tensors; /* in the order of the layers */
    int64_t count;
    char *names;
};

/* What a checkpoint holds, where the config leaves a choice. `stored`: the type of a tensor,
 * DT_COUNT where there is none of that name; NULL: as the config says. */
struct layout_choice {
    enum dtype (*stored)(void *ctx, const char *name);
    void *ctx;
    bool weight_shapes; /* packed linears carry a weight_shape */
};

/* Errors: LAYOUT_MAX linears or more (no such model exists: a wrong number), memory. */
enum { LAYOUT_MAX = 1000000 };
enum err_code layout_make(struct layout *l, const struct config *c,
                          const struct layout_choice *choice, struct err *err) ERR_USED;
void layout_free(struct layout *l);

int layout_roles(void);
bool layout_dtype_fits(const struct config *c, enum layout_kind kind, enum dtype t);
/* "BF16 or F32" */
const char *layout_dtype_text(const struct config *c, enum layout_kind kind, char *buf,
                              size_t size);

#ifdef __cplusplus
}
#endif
#endif
