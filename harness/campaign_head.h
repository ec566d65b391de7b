/* campaign_head.h: the config of a small draft head for a case of a fault campaign; its tensors are
 * made by rule. Part of campaign_case.h. Test: tests/test_campaign_case.c */
#ifndef ASSAY_HARNESS_CAMPAIGN_HEAD_H
#define ASSAY_HARNESS_CAMPAIGN_HEAD_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

struct campaign_head {
    bool mla;                      /* attention of DeepSeek; else of Llama */
    bool normed;                   /* norm_before_residual */
    int64_t hidden, layers, vocab; /* of the target */
    uint64_t seed;                 /* of what is drawn: norms, draft vocabulary */
};

enum err_code campaign_head_write(const struct campaign_head *h, const char *path,
                                  struct err *err) ERR_USED;

#endif
