/* campaign_head.c: see campaign_head.h. */
#include "harness/campaign_head.h"

#include "core/file.h"
#include "core/synth.h"

#include <stdio.h>

static const char llama[] = "\"model_type\": \"llama\", \"num_attention_heads\": 4, "
                            "\"num_key_value_heads\": 2, \"head_dim\": 16, "
                            "\"rope_theta\": 10000.0, \"rope_scaling\": null";
static const char mla[] = "\"model_type\": \"deepseek_v3\", \"num_attention_heads\": 4, "
                          "\"num_key_value_heads\": 4, \"q_lora_rank\": 24, \"kv_lora_rank\": 32, "
                          "\"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, "
                          "\"rope_theta\": 50000.0, \"rope_scaling\": null";

enum err_code campaign_head_write(const struct campaign_head *h, const char *path, struct err *err)
{
    char text[2048];
    struct file_out f = FILE_OUT_INIT;
    uint64_t draw = synth_base(h->seed, "campaign.head");
    bool mapped = synth_x(draw, 0) % 4 > 0, eagle31 = synth_x(draw, 1) % 4 == 0;
    static const char *const norms[] = {"", "\"norm_before_fc\": true, ", "\"fc_norm\": true, "};
    int n = snprintf(
        text, sizeof text,
        "{\"speculators_model_type\": \"eagle3\", \"architectures\": [\"Eagle3Speculator\"], "
        "\"transformer_layer_config\": {%s, \"hidden_size\": %lld, \"intermediate_size\": 96, "
        "\"vocab_size\": %lld, \"num_hidden_layers\": 1, \"hidden_act\": \"silu\", "
        "\"attention_bias\": false, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05}, "
        "\"draft_vocab_size\": %lld, \"norm_before_residual\": %s, %s%s"
        "\"eagle_aux_hidden_state_layer_ids\": [0, %lld, %lld], \"torch_dtype\": \"bfloat16\"}\n",
        h->mla ? mla : llama, (long long)h->hidden, (long long)h->vocab,
        (long long)(mapped ? h->vocab / 2 : h->vocab), h->normed ? "true" : "false",
        norms[synth_x(draw, 2) % 3], eagle31 ? "\"norm_output\": true, " : "",
        (long long)(h->layers / 2), (long long)(h->layers - 1));
    if (file_out_open(&f, path, err) == ERR_OK && file_out_write(&f, text, n, err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    return err->code;
}
