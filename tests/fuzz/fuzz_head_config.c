/* fuzz_head_config.c: any text is a draft head's config whose numbers are usable, or an error with
 * a text. */
#include "core/check.h"
#include "core/head.h"
#include "core/rope.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_aux(const struct head_config *c)
{
    CHECK(c->aux_count >= 1 && c->aux_count <= HEAD_AUX);
    for (int i = 0; i < c->aux_count; i++) {
        CHECK(c->aux_given ? c->aux[i] >= 0 : c->aux[i] == -1);
        CHECK(i == 0 || !c->aux_given || c->aux[i] > c->aux[i - 1]);
    }
    CHECK(c->aux_given == (c->aux_assumed[0] == '\0'));
}

static void check_sizes(const struct head_config *c)
{
    const struct config *b = &c->base;
    CHECK(b->vocab > 0 && b->hidden > 0 && b->intermediate > 0 && b->heads > 0);
    CHECK(b->layers >= 1 && b->layers <= HEAD_LAYERS);
    CHECK(c->draft_vocab >= 1 && c->draft_vocab <= b->vocab && c->target_hidden >= 0);
    CHECK(b->rope >= 2 && b->rope % 2 == 0 && b->rope <= 512);
    if (c->kind == HEAD_LLAMA)
        CHECK(c->head_dim == b->rope && c->kv_heads > 0 && b->heads % c->kv_heads == 0 &&
              b->nope == 0);
    else
        CHECK(b->q_lora >= 0 && b->kv_lora > 0 && b->nope > 0 && b->v_head > 0 && !c->qk_norm);
    CHECK(head_cache_width(c) > 0);
    for (int64_t i = 0; i < b->layers; i++) CHECK(!config_is_moe(b, i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct head_config c;
    struct rope_table table;
    enum err_code rc = head_config_parse((const char *)data, (int64_t)size, "fuzz", &c, &err);
    CHECK(rc == err.code);
    if (rc != ERR_OK) {
        CHECK(err.what[0] && err.where[0]);
        return 0;
    }
    check_sizes(&c);
    check_aux(&c);
    CHECK(c.base.norm_eps > 0 && isfinite(c.base.norm_eps) && c.base.rope_theta > 1);
    CHECK(head_softmax_scale(&c) > 0 && isfinite(head_softmax_scale(&c)));
    CHECK(rope_table_make(&c.base, &table, &err) == ERR_OK && table.factor > 0);
    CHECK(!(c.norm_before_fc && c.fc_norm));
    CHECK(!c.norm_before_residual || c.residual_assumed[0] == '\0');
    return 0;
}
