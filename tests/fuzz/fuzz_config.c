/* fuzz_config.c: any text is a config whose numbers are usable, or an error with a text. */
#include "core/check.h"
#include "core/config.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct config c;
    enum err_code rc = config_parse((const char *)data, (int64_t)size, "fuzz", &c, &err);
    CHECK(rc == err.code);
    if (rc != ERR_OK) {
        CHECK(err.what[0] && err.where[0]);
        return 0;
    }
    CHECK(c.vocab > 0 && c.hidden > 0 && c.layers > 0 && c.heads > 0 && c.kv_lora > 0 &&
          c.q_lora >= 0);
    CHECK(c.rope > 0 && c.rope % 2 == 0 && c.nope > 0 && c.v_head > 0 && c.intermediate > 0);
    CHECK(c.experts > 0 && c.groups > 0 && c.experts % c.groups == 0 && c.top_groups <= c.groups);
    CHECK(c.top_k > 0 && c.top_k <= c.experts / c.groups * c.top_groups && c.moe_freq > 0);
    CHECK(c.norm_eps > 0 && isfinite(c.norm_eps) && c.rope_theta > 1 && isfinite(c.routed_scale));
    CHECK(isfinite(config_softmax_scale(&c)));
    CHECK(c.quant.kind != QUANT_FP8_BLOCK || (c.quant.block[0] > 0 && c.quant.block[1] > 0));
    CHECK(c.quant.kind != QUANT_PACKED ||
          ((c.quant.bits == 4 || c.quant.bits == 8) && c.quant.group >= 0));
    for (int64_t i = 0; i < c.layers; i++) (void)config_is_moe(&c, i);
    return 0;
}
