/* profile.c: the table; see profile.h. Sources: model math notes section 0 (columns HF, VLLM,
 * SGL/FI), 7.3, 8. */
#include "core/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Common to transformers 4 and 5. */
#define HF_ROUNDS                                                                                  \
    [RP_EMBED] = true, [RP_LINEAR] = true, [RP_NORM_INNER] = true, [RP_NORM] = true,               \
    [RP_ROPE_TABLE] = true, [RP_ROPE_TERM] = true, [RP_ROPE] = true, [RP_SCORE] = true,            \
    [RP_SCORE_SCALED] = true, [RP_PROB] = true, [RP_ATTN_CORE] = true, [RP_RESIDUAL] = true,       \
    [RP_SILU] = true, [RP_ACT] = true, [RP_ROUTED] = true, [RP_MOE] = true, [RP_LOGITS] = true

static const struct profile profiles[] = {
    {
        .name = "math",
        .about = "rounds nowhere; the model's published code",
        .verified = true,
        .decode_absorbed = true,
    },
    {
        .name = "hf",
        .about = "transformers 5, eager attention and experts: sums experts in bf16",
        .verified = true,
        .rounds = {HF_ROUNDS, [RP_EXPERT_TERM] = true, [RP_EXPERT_SUM] = true},
    },
    {
        .name = "hf4",
        .family = "hf",
        .about = "transformers 4, or 5 with grouped experts (its default): sums experts in float32",
        .verified = true,
        .rounds = {HF_ROUNDS},
    },
    {
        .name = "vllm",
        .about = "vLLM CUDA: flash attention prefill, absorbed decode, Marlin experts, bf16 cache",
        .latent_eps_config = true,
        .decode_absorbed = true,
        .prob_before_sum = true,
        .scale_after_sum = true,
        .rounds = {[RP_EMBED] = true,
                   [RP_LINEAR] = true,
                   [RP_NORM_INNER] = true,
                   [RP_NORM] = true,
                   [RP_ROPE] = true,
                   [RP_PROB] = true,
                   [RP_Q_LATENT] = true,
                   [RP_O_LATENT] = true,
                   [RP_ATTN_CORE] = true,
                   [RP_RESIDUAL] = true,
                   [RP_SILU] = true,
                   [RP_ACT] = true,
                   [RP_EXPERT_WEIGHT] = true,
                   [RP_EXPERT_TERM] = true,
                   [RP_ROUTED_SCALED] = true,
                   [RP_ROUTED] = true,
                   [RP_MOE] = true,
                   [RP_LOGITS] = true},
    },
    {
        .name = "sgl",
        .about = "SGLang with FlashInfer norms and experts",
        .latent_eps_config = true,
        .decode_absorbed = true,
        .norm_sees_unrounded = true,
        .prob_before_sum = true,
        .rounds = {[RP_EMBED] = true,
                   [RP_LINEAR] = true,
                   [RP_NORM] = true,
                   [RP_ROPE] = true,
                   [RP_PROB] = true,
                   [RP_Q_LATENT] = true,
                   [RP_O_LATENT] = true,
                   [RP_ATTN_CORE] = true,
                   [RP_RESIDUAL] = true,
                   [RP_ACT] = true,
                   [RP_EXPERT_WEIGHT] = true,
                   [RP_ROUTED] = true,
                   [RP_MOE] = true,
                   [RP_LOGITS] = true},
    },
    {
        .name = "gpu",
        .about = "the CUDA path of this program: fused norms, flash attention, absorbed decode, "
                 "experts summed in float32, logits not rounded",
        .verified = true,
        .decode_absorbed = true,
        .prob_before_sum = true,
        .cut_sums = true,
        .rounds = {[RP_EMBED] = true,
                   [RP_LINEAR] = true,
                   [RP_NORM] = true,
                   [RP_ROPE] = true,
                   [RP_PROB] = true,
                   [RP_Q_LATENT] = true,
                   [RP_O_LATENT] = true,
                   [RP_ATTN_CORE] = true,
                   [RP_RESIDUAL] = true,
                   [RP_ACT] = true,
                   [RP_ROUTED] = true,
                   [RP_MOE] = true},
    },
};

static const char *const points[RP_COUNT] = {
    [RP_EMBED] = "a row of the embedding table",
    [RP_LINEAR] = "output of every dense or expert linear",
    [RP_NORM_INNER] = "x * rsqrt(mean square + eps), before the weight",
    [RP_NORM] = "output of a norm",
    [RP_ROPE_TABLE] = "cos and sin",
    [RP_ROPE_TERM] = "each of the two products of a rotation",
    [RP_ROPE] = "a rotated value",
    [RP_SCORE] = "a score q . k, before its scale",
    [RP_SCORE_SCALED] = "a score after its scale",
    [RP_PROB] = "softmax weights as they enter P V",
    [RP_Q_LATENT] = "absorbed decode: U^T q",
    [RP_O_LATENT] = "absorbed decode: P c",
    [RP_ATTN_CORE] = "a head's output",
    [RP_RESIDUAL] = "the residual stream after an addition",
    [RP_ROUTER_LOGITS] = "router output, before the sigmoid",
    [RP_SILU] = "silu(gate)",
    [RP_ACT] = "silu(gate) * up",
    [RP_EXPERT_WEIGHT] = "a routing weight as it multiplies an expert's output",
    [RP_EXPERT_TERM] = "weight * expert output",
    [RP_EXPERT_SUM] =
        "the running sum after each expert, where the engine accumulates in its own type",
    [RP_ROUTED_SCALED] = "the expert sum times the routed scale, where the engine scales the sum",
    [RP_ROUTED] = "the expert sum",
    [RP_MOE] = "routed + shared",
    [RP_LOGITS] = "lm_head output",
};

const char *profile_point(enum round_point p)
{
    return (unsigned)p < RP_COUNT ? points[p] : NULL;
}

enum { PROFILES = sizeof profiles / sizeof profiles[0] };

double profile_cut_sum(int64_t n)
{
    return 0x1p-23 * sqrt(n > 16 ? (double)n / 16 : 1);
}

const char *profile_name(int i)
{
    return i >= 0 && i < PROFILES ? profiles[i].name : NULL;
}

enum err_code profile_find(const char *name, struct profile *out, struct err *err)
{
    size_t base = strcspn(name, "+");
    bool exact = strcmp(name + base, "+exact") == 0;
    for (int i = 0; i < PROFILES; i++) {
        if (strlen(profiles[i].name) != base || strncmp(profiles[i].name, name, base) != 0)
            continue;
        if (name[base] && !exact) break;
        *out = profiles[i];
        snprintf(out->name, sizeof out->name, "%s", name);
        if (exact) memset(out->rounds, 0, sizeof out->rounds);
        return ERR_OK;
    }
    return err_set(
        err, ERR_USAGE,
        "profile|its name|\"%s\"|math, hf, hf4, vllm, sgl, gpu, or one of these followed by +exact",
        name);
}
