/* campaign_weights.h: a small checkpoint of any kind that the reference reads, on disk. Test:
 * tests/test_campaign_case.c */
#ifndef ASSAY_HARNESS_CAMPAIGN_WEIGHTS_H
#define ASSAY_HARNESS_CAMPAIGN_WEIGHTS_H

#include "core/error.h"

#include <stdint.h>

/* Writes folder/model.safetensors for folder/config.json: values by the rules of synth:, and where
 * these have none (zero points, FP8 blocks) codes and scales of the same size by rules of its own.
 */
enum err_code campaign_weights(const char *folder, uint64_t seed, struct err *err) ERR_USED;

#endif
