/* preflight_shrink.c: see preflight_shrink.h. */
#include "harness/preflight_shrink.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 4, VOCAB = 2048, HIDDEN = 256, HEADS = 4, INNER = 256, EXPERT = 128, LORA = 64 };

/* The least that is a multiple of `unit` and at least `least`. */
static int64_t up(int64_t least, int64_t unit)
{
    return unit > 1 ? (least + unit - 1) / unit * unit : least;
}

/* Each group keeps two experts, and those of the chosen groups are enough for a token. */
static int64_t experts(const struct config *c)
{
    int64_t least = (c->top_k + c->top_groups - 1) / c->top_groups;
    return c->groups * (least > 2 ? least : 2);
}

const char *preflight_shrink(const struct config *c, bool layers, bool vocab, char *out,
                             size_t size)
{
    const struct {
        const char *key;
        int64_t old, small;
    } sizes[] = {
        {"layers", c->layers, layers ? c->layers : LAYERS},
        {"experts", c->experts, experts(c)},
        {"vocab", c->vocab, vocab ? c->vocab : VOCAB},
        {"hidden", c->hidden, up(HIDDEN, c->quant.group)},
        {"heads", c->heads, HEADS},
        {"intermediate", c->intermediate, up(INNER, c->quant.group)},
        {"moe_intermediate", c->moe_intermediate, up(EXPERT, c->quant.group)},
        {"q_lora", c->q_lora, LORA},
        {"kv_lora", c->kv_lora, LORA},
    };
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].small >= sizes[i].old || used >= size) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s=%lld", used ? "," : "",
                                 sizes[i].key, (long long)sizes[i].small);
    }
    return out;
}
