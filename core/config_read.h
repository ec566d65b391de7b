/* config_read.h: what the readers of a model's and of a draft head's config.json share. `where`
 * names the file in messages. Test: tests/test_config.c, tests/test_head_config.c */
#ifndef ASSAY_CORE_CONFIG_READ_H
#define ASSAY_CORE_CONFIG_READ_H

#include "core/config.h"
#include "core/json.h"

/* The largest width, vocabulary or rank that is read: past it a number is a mistake, and below it
 * no product of two of them overflows. */
#define CONFIG_DIM_MAX ((int64_t)1 << 24)

/* The index of a text in a list that ends in NULL; an unknown one is an error that shows the list.
 */
enum err_code config_read_choice(const json_t *j, const char *key, const char *const *names,
                                 int dflt, const char *where, int *out, struct err *err) ERR_USED;
/* The activation type: torch_dtype, or dtype as transformers 5 writes it; bfloat16 without. */
enum err_code config_read_dtype(const json_t *j, const char *where, enum dtype *out,
                                struct err *err) ERR_USED;
/* rope_theta, rope_scaling and rope_interleave, or theta and scaling together as rope_parameters
 * (transformers 5). c->max_position is read before. theta_default 0: the key is needed. Refused: a
 * scaling other than yarn, a theta of 1 or less, two thetas that differ. */
enum err_code config_read_rope(const json_t *j, const char *where, double theta_default,
                               struct config *c, struct err *err) ERR_USED;

#endif
